// Package oracle looks at the running system from outside: rows as the observer
// sees them, the disk, the process table, sockets, the kernel's counters, logs and
// metrics. None of it asks the component that is under attack, and none of it
// imports product code: what is seen here is what an operator with a shell would
// see. Every instrument has a test that it sees what it must see.
package oracle
