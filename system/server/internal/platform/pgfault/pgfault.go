// Package pgfault tells a database fault that may pass from one that will not.
package pgfault

import (
	"context"
	"errors"
	"io"

	"github.com/jackc/pgx/v5/pgconn"
)

// transient are the SQLSTATE classes and codes after which the same statement may
// succeed later.
var transient = map[string]bool{
	"08": true, "53": true, "57": true, "58": true, // connection, resources, operator intervention, system
	"40001": true, "40P01": true, // serialization failure, deadlock
	"55P03": true, "25P03": true, // lock and idle time-outs
}

// Transient reports whether trying again later may help: the database gave no
// answer, or one that says so. A context that the caller ended is not such a fault.
func Transient(err error) bool {
	if err == nil || errors.Is(err, context.Canceled) {
		return false
	}
	var connect *pgconn.ConnectError
	if errors.As(err, &connect) {
		return true // whatever the reason: no statement was judged
	}
	var answer *pgconn.PgError
	if !errors.As(err, &answer) {
		return pgconn.Timeout(err) || pgconn.SafeToRetry(err) || isClosed(err)
	}
	return transient[answer.Code] || len(answer.Code) >= 2 && transient[answer.Code[:2]]
}

// isClosed recognises a connection that broke while an answer was awaited.
func isClosed(err error) bool {
	var network interface{ Timeout() bool }
	return errors.As(err, &network) || errors.Is(err, io.ErrUnexpectedEOF)
}
