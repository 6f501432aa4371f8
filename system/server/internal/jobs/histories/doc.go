// Package histories runs the life of jobs in parallel against the real database
// and the real storage, loses answers on the way, and judges what came of it.
//
// Several callers ask two servers for everything that users, workers, the clock,
// the sweeper and retention may ask, on jobs that they share, with right and wrong
// fences. Every connection to the database may be cut: before a statement is sent,
// after it was sent, or when its answer is already there, so that no caller knows
// what happened. Each job is one history; chaos/history holds the invariants and
// the model that porcupine judges it by (HAR-05).
//
// Leases are an hour long and end by hand, so that a history says when each ended,
// and the model knows for each refusal whether it was right.
//
// GLOVEBOX_HISTORIES sets how many are judged; each run prints its seed, and
// GLOVEBOX_SEED repeats it as far as the machine's timing does.
package histories
