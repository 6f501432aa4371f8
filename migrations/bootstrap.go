package migrations

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"glovebox/system/platform/secret"
)

// Roles are the database's roles that log in.
var Roles = []string{"glovebox_migrator", "glovebox_server", "glovebox_operator", "glovebox_sweeper", "glovebox_observer", "glovebox_backup"}

// Bootstrap makes roles, database-level rights and schemas. conn must be an
// administrator's, connected to the target database; it may run at any time.
func Bootstrap(ctx context.Context, conn *pgx.Conn) error {
	release, err := lock(ctx, conn)
	if err != nil {
		return err
	}
	defer release()
	// The simple protocol takes the whole file, in one implicit transaction.
	if _, err := conn.PgConn().Exec(ctx, bootstrapSQL).ReadAll(); err != nil {
		return fmt.Errorf("make roles, rights and schemas; the login must be an administrator's: %w", err)
	}
	return nil
}

// SetPassword gives role a password. The server receives a SCRAM verifier made
// here, so that neither its log nor its statistics ever hold the password.
func SetPassword(ctx context.Context, conn *pgx.Conn, role string, password secret.Text) error {
	if !slices.Contains(Roles, role) {
		return fmt.Errorf("%q is not one of the roles that log in: %v", role, Roles)
	}
	verifier, err := scramVerifier(password)
	if err != nil {
		return fmt.Errorf("make the password's verifier: %w", err)
	}
	// Utility statements take no parameters. The role is from the list above and
	// the verifier's alphabet is base64, $ and colon: neither can leave its quotes.
	if _, err := conn.Exec(ctx, fmt.Sprintf("ALTER ROLE %s PASSWORD '%s'", pgx.Identifier{role}.Sanitize(), verifier)); err != nil {
		return fmt.Errorf("set the password of %s: %w", role, err)
	}
	return nil
}
