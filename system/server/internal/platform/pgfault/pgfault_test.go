package pgfault_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"glovebox/system/server/internal/platform/pgfault"
)

func TestTransient(t *testing.T) {
	_, refused := pgx.Connect(t.Context(), "postgres://x@127.0.0.1:1/x?connect_timeout=2")
	for err, want := range map[error]bool{
		refused: true,
		fmt.Errorf("query: %w", io.ErrUnexpectedEOF):        true,
		context.DeadlineExceeded:                            true,
		&pgconn.PgError{Code: "57P01"}:                      true,
		&pgconn.PgError{Code: "53300"}:                      true,
		&pgconn.PgError{Code: "40001"}:                      true,
		&pgconn.PgError{Code: "55P03"}:                      true,
		fmt.Errorf("x: %w", &pgconn.PgError{Code: "40P01"}): true,
		&pgconn.PgError{Code: "23505"}:                      false,
		&pgconn.PgError{Code: "42501"}:                      false,
		&pgconn.PgError{Code: ""}:                           false,
		pgx.ErrNoRows:                                       false,
		errors.New("a fault of the program"):                false,
		context.Canceled:                                    false,
		nil:                                                 false,
	} {
		if got := pgfault.Transient(err); got != want {
			t.Errorf("%v: %v, want %v", err, got, want)
		}
	}
}
