package migrations_test

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"glovebox/system/testdb"
	"glovebox/threat-model/evidence"
)

// refusals are statements that each role must be refused, for the reason named:
// 42501 is insufficient_privilege, 25006 a read-only transaction.
var refusals = map[string][]string{
	testdb.ServerRole: {
		"CREATE TABLE app.mine (n int)", "CREATE TEMP TABLE mine (n int)", "CREATE SCHEMA mine",
		"ALTER TABLE app.jobs ADD COLUMN mine int", "DROP TABLE app.jobs", "TRUNCATE app.jobs", "CREATE EXTENSION pgcrypto",
		"SET ROLE glovebox_owner", "SET ROLE glovebox_operator", "SET SESSION AUTHORIZATION postgres",
		"SELECT * FROM pg_catalog.pg_authid", "COPY app.users TO PROGRAM 'cat'", "COPY app.users TO '/tmp/users'",
		"SELECT pg_read_file('/etc/passwd')", "ALTER ROLE glovebox_server SUPERUSER",
		"UPDATE app.job_events SET cause = 'finished'", "DELETE FROM app.job_events", "TRUNCATE app.job_events",
		"DELETE FROM app.jobs", "UPDATE app.jobs SET user_id = user_id", "UPDATE app.jobs SET asset_id = asset_id",
		"UPDATE app.jobs SET fair_key = 1", "UPDATE app.jobs SET created_at = now()", "UPDATE app.jobs SET max_attempts = 100",
		"UPDATE app.jobs SET purged_at = now()", "UPDATE app.asset_versions SET sha256 = sha256", "UPDATE app.assets SET user_id = user_id",
		"INSERT INTO app.users (id, login, password_hash) VALUES (gen_random_uuid(), 'x', '$argon2id$')",
		"UPDATE app.users SET login = 'x'", "UPDATE app.users SET disabled_at = NULL", "DELETE FROM app.users",
		"INSERT INTO app.workers (id) VALUES ('x')", "UPDATE app.workers SET removed_at = NULL", "DELETE FROM app.workers",
		"UPDATE app.tokens SET expires_at = now()", "UPDATE app.tokens SET user_id = user_id", "DELETE FROM app.tokens",
		"INSERT INTO app.schema_versions (version_id, is_applied) VALUES (99, true)", "DELETE FROM app.schema_versions",
		"UPDATE app.restores SET resumed_at = now()", "UPDATE app.compatibility SET oldest_binary = 0", "SELECT app.delete_records('0', 1)",
	},
	testdb.Operator: {
		"CREATE TABLE app.mine (n int)", "INSERT INTO app.job_events (job_id, to_status, cause, attempt, fencing_token) VALUES (gen_random_uuid(), 'pending', 'submitted', 0, 0)",
		"UPDATE app.jobs SET status = 'completed'", "DELETE FROM app.jobs", "DELETE FROM app.job_events", "DELETE FROM app.users",
		"DELETE FROM app.workers", "SELECT * FROM app.idempotency_keys", "SET ROLE glovebox_owner",
		"DELETE FROM app.restores", "UPDATE app.restores SET completed_at = now()", "SELECT app.delete_records('0', 1)",
	},
	testdb.Sweeper: {
		"CREATE TABLE app.mine (n int)", "SELECT * FROM app.users", "SELECT token_hash FROM app.tokens", "SELECT user_id FROM app.jobs",
		"UPDATE app.jobs SET status = 'failed'", "UPDATE app.jobs SET result_key = NULL", "DELETE FROM app.jobs", "DELETE FROM app.asset_versions",
		"SELECT sha256 FROM app.asset_versions", "DELETE FROM app.job_events", "SELECT * FROM app.job_events", "SELECT * FROM app.workers",
		"UPDATE app.restores SET resumed_at = now()", "SELECT backup_id FROM app.restores",
	},
	testdb.Backup: {
		"CREATE TABLE app.mine (n int)", "CREATE TEMP TABLE mine (n int)", "UPDATE app.jobs SET status = 'failed'", "DELETE FROM app.jobs",
		"INSERT INTO app.workers (id) VALUES ('x')", "SET ROLE glovebox_owner", "SELECT * FROM pg_catalog.pg_authid",
		"COPY app.users TO PROGRAM 'cat'", "SELECT app.delete_records('0', 1)", "SELECT pg_read_file('/etc/passwd')",
	},
	testdb.Observer: {
		"SELECT * FROM app.jobs", "SELECT * FROM app.users", "DELETE FROM observe.jobs", "UPDATE observe.jobs SET status = 'failed'",
		"CREATE TEMP TABLE mine (n int)", "CREATE TABLE observe.mine (n int)", "SET ROLE glovebox_server",
	},
}

func TestEachRoleIsRefusedWhatItNeedsNot(t *testing.T) {
	evidence.Proves(t, "DBS-02", "JOB-13")
	t.Parallel()
	db := testdb.New(t)
	for role, statements := range refusals {
		conn := connect(t, db, role)
		// The observer's sessions are read-only by default, which it could undo.
		if _, err := conn.Exec(t.Context(), "SET default_transaction_read_only = off"); err != nil {
			t.Fatal(err)
		}
		for _, statement := range statements {
			_, err := conn.Exec(t.Context(), statement)
			var refused *pgconn.PgError
			if !errors.As(err, &refused) || refused.Code != "42501" {
				t.Errorf("%s: %s: %v, want insufficient_privilege", role, statement, err)
			}
		}
	}
}

// TestTheGrantsAreExactlyThese lists what each role effectively has, the
// inherited and the public included, and compares with the reviewed list: a new
// table is in nobody's hands until it is written here.
func TestTheGrantsAreExactlyThese(t *testing.T) {
	evidence.Proves(t, "DBS-02")
	t.Parallel()
	db := testdb.New(t)
	admin := connect(t, db, testdb.Admin)
	rows, err := admin.Query(t.Context(), `
		WITH roles AS (SELECT rolname FROM pg_roles WHERE rolname LIKE 'glovebox\_%' AND rolname <> 'glovebox_owner'),
		relations AS (
			SELECT c.oid, n.nspname || '.' || c.relname AS name, c.relkind
			FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
			WHERE n.nspname NOT IN ('pg_catalog', 'information_schema') AND n.nspname NOT LIKE 'pg\_toast%' AND c.relkind IN ('r', 'v', 'm', 'p', 'S')),
		whole AS (
			SELECT r.rolname, l.name, p.privilege
			FROM roles r, relations l, unnest(ARRAY['SELECT','INSERT','UPDATE','DELETE','TRUNCATE','REFERENCES','TRIGGER']) AS p(privilege)
			WHERE CASE WHEN l.relkind = 'S' THEN p.privilege IN ('SELECT', 'UPDATE') AND has_sequence_privilege(r.rolname, l.oid, p.privilege)
			      ELSE has_table_privilege(r.rolname, l.oid, p.privilege) END),
		columns AS (
			SELECT r.rolname, l.name, p.privilege || '(' || string_agg(a.attname, ',' ORDER BY a.attname) || ')' AS privilege
			FROM roles r, relations l JOIN pg_attribute a ON a.attrelid = l.oid AND a.attnum > 0 AND NOT a.attisdropped,
			     unnest(ARRAY['SELECT','INSERT','UPDATE','REFERENCES']) AS p(privilege)
			WHERE l.relkind <> 'S' AND has_column_privilege(r.rolname, l.oid, a.attnum, p.privilege)
			  AND NOT has_table_privilege(r.rolname, l.oid, p.privilege)
			GROUP BY r.rolname, l.name, p.privilege),
		databases AS (
			SELECT r.rolname, 'database' AS name, p.privilege
			FROM roles r, unnest(ARRAY['CONNECT','CREATE','TEMP']) AS p(privilege)
			WHERE has_database_privilege(r.rolname, current_database(), p.privilege)),
		schemas AS (
			SELECT r.rolname, 'schema ' || n.nspname AS name, p.privilege
			FROM roles r, pg_namespace n, unnest(ARRAY['USAGE','CREATE']) AS p(privilege)
			WHERE n.nspname NOT LIKE 'pg\_%' AND n.nspname <> 'information_schema' AND has_schema_privilege(r.rolname, n.oid, p.privilege)),
		routines AS (
			SELECT r.rolname, 'function ' || n.nspname || '.' || f.proname AS name, 'EXECUTE' AS privilege
			FROM roles r, pg_proc f JOIN pg_namespace n ON n.oid = f.pronamespace
			WHERE n.nspname IN ('app', 'observe') AND has_function_privilege(r.rolname, f.oid, 'EXECUTE'))
		SELECT rolname || ' ' || name || ' ' || string_agg(privilege, ' ' ORDER BY privilege)
		FROM (SELECT * FROM whole UNION ALL SELECT * FROM columns UNION ALL SELECT * FROM databases UNION ALL SELECT * FROM schemas UNION ALL SELECT * FROM routines) AS everything
		GROUP BY rolname, name ORDER BY rolname, name`)
	if err != nil {
		t.Fatal(err)
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile("testdata/grants.txt")
	if err != nil {
		t.Fatal(err)
	}
	got := strings.Join(lines, "\n") + "\n"
	if got != string(want) {
		t.Errorf("effective grants differ from testdata/grants.txt; review and write them there:\n%s", got)
	}
}

func TestRolesHaveTimeoutsInThisDatabase(t *testing.T) {
	evidence.Proves(t, "DBS-02")
	t.Parallel()
	db := testdb.New(t)
	for _, role := range []string{testdb.ServerRole, testdb.Operator, testdb.Sweeper, testdb.Observer, testdb.Backup} {
		conn := connect(t, db, role)
		for _, setting := range []string{"statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout"} {
			var value string
			if err := conn.QueryRow(t.Context(), "SELECT current_setting($1)", setting).Scan(&value); err != nil {
				t.Fatal(err)
			}
			if value == "0" && !(role == testdb.Backup && setting == "statement_timeout") { // a dump is one long statement
				t.Errorf("%s has no %s", role, setting)
			}
		}
	}
}

func TestTheObserverSeesExactlyThreeViews(t *testing.T) {
	evidence.Proves(t, "DBS-02")
	t.Parallel()
	conn := connect(t, testdb.New(t), testdb.Observer)
	for view, columns := range map[string]string{
		"observe.jobs":       "id, status, worker_id, lease_expires_at, attempt, max_attempts, fencing_token, error_code, error_retryable, created_at, updated_at",
		"observe.job_events": "job_id, from_status, to_status, attempt, fencing_token, worker_id, cause, at",
		"observe.assets":     "id, version, state, job_id, reason",
	} {
		rows, err := conn.Query(t.Context(), "SELECT * FROM "+view)
		if err != nil {
			t.Fatalf("read %s: %v", view, err)
		}
		var names []string
		for _, field := range rows.FieldDescriptions() {
			names = append(names, field.Name)
		}
		rows.Close()
		if got := strings.Join(names, ", "); rows.Err() != nil || got != columns {
			t.Errorf("%s has the columns %s (%v), want %s", view, got, rows.Err(), columns)
		}
	}
}
