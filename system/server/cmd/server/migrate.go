package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"

	"glovebox/migrations"
	"glovebox/system/platform/secret"
	"glovebox/system/server/internal/config"
)

func newMigrateCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "migrate",
		Short: "make or upgrade the database's roles and schema",
		Long: `Make or upgrade the database's roles and schema. Migrations go forward only and
are safe to start twice at once.

The first time, and after a restore into a new database, roles and rights have to
be made by an administrator of the database:

  glovebox-server migrate up --admin-url-file admin-url
  glovebox-server migrate set-password glovebox_server  --admin-url-file admin-url < password
  ... and so on for glovebox_operator, glovebox_migrator, glovebox_sweeper, glovebox_observer,
  glovebox_backup

Every later upgrade needs only the migrator's login (database.migrator_url):

  glovebox-server migrate up`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newMigrateUpCommand(), newMigrateStatusCommand(), newSetPasswordCommand())
	return cmd
}

func adminFlag(cmd *cobra.Command, file *string) {
	cmd.Flags().StringVar(file, "admin-url-file", "", "a `file` with an administrator's PostgreSQL URL, readable by you alone")
}

// connConfig returns the administrator's login where a file is given, else the
// migrator's.
func connConfig(cmd *cobra.Command, adminFile string) (*pgx.ConnConfig, error) {
	url, err := migratorURL(cmd, adminFile)
	if err != nil {
		return nil, err
	}
	parsed, err := pgx.ParseConfig(url.Reveal())
	if err != nil {
		return nil, usageError{errors.New("the database URL is not a PostgreSQL URL")} // the cause repeats it
	}
	return parsed, nil
}

func migratorURL(cmd *cobra.Command, adminFile string) (secret.Text, error) {
	if adminFile != "" {
		url, err := secret.ReadFile(adminFile)
		if err != nil {
			return secret.Text{}, usageError{err}
		}
		// DBS-02: the most powerful login of all crosses no network unverified.
		if err := config.JudgeDatabaseURL(url); err != nil {
			return secret.Text{}, usageError{fmt.Errorf("the login in --admin-url-file %w; wanted: a unix socket or loopback host, or ?sslmode=verify-full&sslrootcert=FILE", err)}
		}
		return url, nil
	}
	c, err := loadConfig(cmd)
	if err != nil {
		return secret.Text{}, err
	}
	url, err := c.ForMigrate()
	if err != nil {
		return secret.Text{}, usageError{err}
	}
	return url, nil
}

func newMigrateUpCommand() *cobra.Command {
	var adminFile string
	cmd := &cobra.Command{
		Use:   "up",
		Short: "apply what is missing",
		Long: `Apply what is missing. With --admin-url-file it makes or repairs roles, rights
and schemas first. An index that is invalid makes it fail, even when there was
nothing to apply.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			conn, err := connConfig(cmd, adminFile)
			if err != nil {
				return err
			}
			if adminFile != "" {
				if err := bootstrap(cmd, conn); err != nil {
					return err
				}
			}
			report, err := migrations.Up(cmd.Context(), conn)
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "schema is at version %d, %d applied now\n", report.Version, len(report.Applied))
			return nil
		},
	}
	adminFlag(cmd, &adminFile)
	return cmd
}

func bootstrap(cmd *cobra.Command, login *pgx.ConnConfig) error {
	conn, err := pgx.ConnectConfig(cmd.Context(), login)
	if err != nil {
		return fmt.Errorf("connect as the administrator: %w", err)
	}
	defer conn.Close(cmd.Context())
	return migrations.Bootstrap(cmd.Context(), conn)
}

func newMigrateStatusCommand() *cobra.Command {
	var (
		adminFile string
		asJSON    bool
	)
	cmd := &cobra.Command{
		Use:   "status",
		Short: "show what is missing; exit 1 when something is",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			login, err := connConfig(cmd, adminFile)
			if err != nil {
				return err
			}
			conn, err := pgx.ConnectConfig(cmd.Context(), login)
			if err != nil {
				return fmt.Errorf("connect to the database: %w", err)
			}
			defer conn.Close(cmd.Context())
			if _, err := conn.Exec(cmd.Context(), "SET ROLE glovebox_owner"); err != nil {
				return fmt.Errorf("become glovebox_owner: %w", err)
			}
			return showSchema(cmd, conn, asJSON)
		},
	}
	adminFlag(cmd, &adminFile)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func showSchema(cmd *cobra.Command, conn *pgx.Conn, asJSON bool) error {
	pending, err := migrations.Pending(cmd.Context(), conn)
	if err != nil {
		return err
	}
	invalid, err := migrations.InvalidIndexes(cmd.Context(), conn)
	if err != nil {
		return err
	}
	out := cmd.OutOrStdout()
	if asJSON {
		err = json.NewEncoder(out).Encode(map[string]any{"latest": migrations.Latest(), "pending": notNil(pending), "invalid_indexes": notNil(invalid)})
	} else {
		_, err = fmt.Fprintf(out, "this binary carries version %d; pending: %v; invalid indexes: %v\n", migrations.Latest(), notNil(pending), notNil(invalid))
	}
	if err != nil {
		return fmt.Errorf("print the status: %w", err)
	}
	if len(pending) > 0 || len(invalid) > 0 {
		return errors.New("the schema is not what this binary needs; run glovebox-server migrate up")
	}
	return nil
}

func notNil[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

func newSetPasswordCommand() *cobra.Command {
	var adminFile string
	cmd := &cobra.Command{
		Use:   "set-password ROLE --admin-url-file FILE",
		Short: "give a database role its password, read from standard input",
		Long: `Give a database role its password, read from standard input. What is sent to
PostgreSQL is a SCRAM verifier made here: the password is in no statement, log or
process list.`,
		Example: "  openssl rand -hex 32 | tee server-password | glovebox-server migrate set-password glovebox_server --admin-url-file admin-url",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if adminFile == "" {
				return usageError{errors.New("--admin-url-file is needed: only an administrator sets passwords")}
			}
			login, err := connConfig(cmd, adminFile)
			if err != nil {
				return err
			}
			password, err := readSecretLine(cmd.InOrStdin())
			if err != nil {
				return err
			}
			conn, err := pgx.ConnectConfig(cmd.Context(), login)
			if err != nil {
				return fmt.Errorf("connect as the administrator: %w", err)
			}
			defer conn.Close(cmd.Context())
			return migrations.SetPassword(cmd.Context(), conn, args[0], password)
		},
	}
	adminFlag(cmd, &adminFile)
	return cmd
}

// readSecretLine reads one line of at most 4 KiB.
func readSecretLine(in io.Reader) (secret.Text, error) {
	const most = 4 << 10
	scanner := bufio.NewScanner(io.LimitReader(in, most+1))
	if !scanner.Scan() || scanner.Text() == "" {
		return secret.Text{}, usageError{errors.New("standard input holds no password; pipe one in")}
	}
	if len(scanner.Text()) > most {
		return secret.Text{}, usageError{fmt.Errorf("standard input holds a line of more than %d bytes, which is no password; pipe in the right file", most)}
	}
	return secret.New(scanner.Text()), nil
}
