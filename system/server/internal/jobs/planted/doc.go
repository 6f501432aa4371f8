// Package planted shows that the property tests of jobs find what they are for:
// each fault of a list is built into the code by a build overlay, one at a time,
// and the test beside the code must find it within a stated number of steps or
// histories. The list holds the faults that other systems shipped.
//
// A fault is a change of text that must match exactly once: code that has moved on
// makes the test fail, not pass. Where two layers cover one fault, the other layer
// is named in Lift (constraints of the test's database) or is among the edits; a
// run with everything lifted and no fault shows that lifting alone finds nothing.
//
// GLOVEBOX_PLANTED=all tries every fault; a word tries those whose name has it.
package planted
