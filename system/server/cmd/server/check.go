package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"glovebox/migrations"
	"glovebox/system/platform/secret"
	"glovebox/system/platform/tlsconf"
	"glovebox/system/server/internal/config"
	"glovebox/system/server/internal/storage/fs"
)

func newCheckCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "check",
		Short: "look whether everything a server needs is in place",
		Long: `Look whether everything a server needs is in place, change nothing, and exit 1 when
something is not: the configuration (an internal address that is every interface or
public is refused unless listen.internal_wildcard is set), the secrets, the
certificates, the database, its migrations, invalid indexes, the rights of the
serving role, and whether the storage can be written.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runCheck(cmd, asJSON)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON document")
	return cmd
}

// finding is one line of what check found.
type finding struct {
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail,omitempty"`
}

func runCheck(cmd *cobra.Command, asJSON bool) error {
	var findings []finding
	note := func(name string, err error) bool {
		f := finding{Name: name, OK: err == nil}
		if err != nil {
			f.Detail = err.Error()
		}
		findings = append(findings, f)
		return err == nil
	}
	c, err := loadConfig(cmd)
	if note("configuration", err) {
		secrets, err := c.ForServe()
		note("secrets and files", err)
		note("public certificate", certificate(tlsconf.Files{Cert: c.TLS.PublicCert, Key: c.TLS.PublicKey}))
		note("internal certificate", certificate(tlsconf.Files{Cert: c.TLS.InternalCert, Key: c.TLS.InternalKey, CA: c.TLS.InternalClientCA}))
		checkDatabase(cmd.Context(), secrets.DatabaseURL, note)
		note("storage", checkStorage(cmd.Context(), c))
	}
	if err := printFindings(cmd, findings, asJSON); err != nil {
		return err
	}
	for _, f := range findings {
		if !f.OK {
			return errors.New("something is not in place; see above")
		}
	}
	return nil
}

func printFindings(cmd *cobra.Command, findings []finding, asJSON bool) error {
	if asJSON {
		return json.NewEncoder(cmd.OutOrStdout()).Encode(map[string]any{"checks": findings})
	}
	for _, f := range findings {
		verdict := "ok    "
		if !f.OK {
			verdict = "FAILED"
		}
		line := strings.TrimRight(fmt.Sprintf("%s  %s  %s", verdict, f.Name, f.Detail), " ")
		if _, err := fmt.Fprintln(cmd.OutOrStdout(), line); err != nil {
			return fmt.Errorf("print what was found: %w", err)
		}
	}
	return nil
}

func certificate(files tlsconf.Files) error {
	if files.Cert == "" || files.Key == "" {
		return errors.New("its files are not named")
	}
	_, err := tlsconf.Open(files, slog.New(slog.DiscardHandler))
	return err
}

func checkStorage(ctx context.Context, c *config.Config) error {
	if c.Storage.Root == "" {
		return errors.New("storage.root is not set")
	}
	if _, err := os.Stat(filepath.Join(c.Storage.Root, "objects")); err != nil {
		return fmt.Errorf("storage.root is not a store yet, or cannot be entered; glovebox-server serve makes it: %w", err)
	}
	// Existing: a folder made here would belong to whoever runs this command, and
	// the server could not use it.
	storage, err := fs.New(c.Storage.Root, fs.Options{MinFree: c.Limits.MinFreeBytes.Int64(), Existing: true})
	if err != nil {
		return err
	}
	defer storage.Close()
	return storage.Check(ctx)
}

func checkDatabase(ctx context.Context, url secret.Text, note func(string, error) bool) {
	if url.IsZero() {
		note("database", errors.New("there is no login"))
		return
	}
	const conns = 2
	pool, err := openPool(ctx, url, conns)
	if !note("database", err) {
		return
	}
	defer pool.Close()
	pending, err := migrations.Pending(ctx, pool)
	if err == nil && len(pending) > 0 {
		err = fmt.Errorf("versions %v are not applied; run glovebox-server migrate up", pending)
	}
	note("migrations", err)
	note("binary", migrations.Compatible(ctx, pool))
	invalid, err := migrations.InvalidIndexes(ctx, pool)
	if err == nil && len(invalid) > 0 {
		err = fmt.Errorf("%v are invalid and not used; drop and build them again", invalid)
	}
	note("indexes", err)
	note("rights", checkRights(ctx, pool))
}

// checkRights refuses a serving login that can do what it must not need (DBS-02).
func checkRights(ctx context.Context, pool *pgxpool.Pool) error {
	rows, err := pool.Query(ctx, `
		SELECT what FROM (VALUES
			('is a superuser', (SELECT rolsuper FROM pg_catalog.pg_roles WHERE rolname = current_user)),
			('can make roles', (SELECT rolcreaterole FROM pg_catalog.pg_roles WHERE rolname = current_user)),
			('can become glovebox_owner', pg_catalog.pg_has_role(current_user, 'glovebox_owner', 'MEMBER')),
			('can create in schema app', has_schema_privilege(current_user, 'app', 'CREATE')),
			('can create temporary tables', has_database_privilege(current_user, current_database(), 'TEMP')),
			('can rewrite job_events', has_any_column_privilege(current_user, 'app.job_events', 'UPDATE')
				OR has_table_privilege(current_user, 'app.job_events', 'DELETE')),
			('can delete jobs', has_table_privilege(current_user, 'app.jobs', 'DELETE')),
			('can change the owner of a job', has_column_privilege(current_user, 'app.jobs', 'user_id', 'UPDATE')),
			('can admit workers', has_table_privilege(current_user, 'app.workers', 'INSERT')),
			('cannot record events', NOT has_table_privilege(current_user, 'app.job_events', 'INSERT')),
			('cannot change jobs', NOT has_column_privilege(current_user, 'app.jobs', 'status', 'UPDATE')),
			('has no statement_timeout', current_setting('statement_timeout') = '0'),
			('has no idle_in_transaction_session_timeout', current_setting('idle_in_transaction_session_timeout') = '0')
		) AS rights (what, holds) WHERE holds`)
	if err != nil {
		return fmt.Errorf("list the login's rights: %w", err)
	}
	faults, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return fmt.Errorf("list the login's rights: %w", err)
	}
	if len(faults) > 0 {
		return fmt.Errorf("the login of database.url %s; log in as glovebox_server and run migrate up with --admin-url-file", strings.Join(faults, ", "))
	}
	return nil
}
