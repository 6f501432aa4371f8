// Package clock is this process's own wall clock, for what is compared with a time
// that something else wrote down: the age of a file, the end of a certificate.
//
// It decides nothing about jobs: leases, attempts and retention go by the
// database's clock alone. How long something took is not its business either;
// time.Since is right for that whatever the wall clock does.
//
// The chaos suite replaces this one file when it builds the programs, so that a
// process can believe to live hours from now (libfaketime does not reach a Go
// program). Nothing of that is in a released binary.
package clock

import "time"

// Now returns the wall clock's time.
func Now() time.Time { return time.Now() }
