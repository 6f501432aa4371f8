package attacks

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"glovebox/attacks/harness"
	"glovebox/attacks/identity"
	"glovebox/attacks/oracle"
)

// database attacks with the logins of the system's own roles: what a process that
// was taken over could do with the one it holds.
var database = harness.Family{
	Name: "database", About: "the database's roles, and text that would be SQL",
	Cases: join(databaseRoles, databaseTable, databaseDoors),
}

const (
	notPermitted = "42501" // insufficient_privilege
	violated     = "23514" // check_violation
	duplicated   = "23505" // unique_violation
)

// refusedTo is a case in which a role is refused statements.
func refusedTo(role, name, title, threat string, requirements []string, control string, statements ...string) harness.Case {
	return harness.Case{
		ID: "database/" + role + "-" + name, Title: title, World: harness.Quiet,
		Requirements: requirements, Threats: []string{threat},
		Attack:  fmt.Sprintf("%d statements with the login of the role %s, its defaults of a session undone", len(statements), role),
		Control: "the same connection runs what the role needs: " + control,
		Oracle:  "PostgreSQL's own refusal, insufficient_privilege, and nothing else; the superuser sees the same number of rows and tables",
		Run: func(e *harness.Env) {
			conn, admin := asRole(e, role), asSuperuser(e)
			_, err := conn.Exec(e.Context(), control)
			e.Control(err == nil, "%s: SQLSTATE %s", control, oracle.SQLState(err))
			shape := func() int64 {
				return number(e, admin, `SELECT (SELECT count(*) FROM pg_class) + (SELECT count(*) FROM pg_roles) + (SELECT count(*) FROM pg_proc) + (SELECT count(*) FROM pg_namespace)`)
			}
			before := shape()
			for _, statement := range statements {
				e.Input("%.90s", statement)
				tx, err := conn.Begin(e.Context())
				e.Must(err, "begin")
				_, err = tx.Exec(e.Context(), "SET LOCAL transaction_read_only = off")
				e.Must(err, "undo the session's default")
				_, err = tx.Exec(e.Context(), statement)
				e.Check(oracle.SQLState(err) == notPermitted, "SQLSTATE %q, %v", oracle.SQLState(err), err)
				e.Must(tx.Rollback(e.Context()), "roll back")
			}
			e.Input("afterwards")
			e.Check(shape() == before, "the schema has changed")
		},
	}
}

var databaseRoles = []harness.Case{
	refusedTo("server", "schema", "the serving role changes the schema", "DBS-E1", []string{"DBS-02"}, "SELECT 1 FROM app.jobs LIMIT 1",
		"CREATE TABLE app.mine (n int)", "CREATE TEMP TABLE mine (n int)", "CREATE SCHEMA mine", "CREATE VIEW app.v AS SELECT 1", "CREATE FUNCTION app.f() RETURNS int LANGUAGE sql AS 'SELECT 1'",
		"CREATE INDEX ON app.jobs (status)", "CREATE SEQUENCE app.s", "CREATE TYPE app.t AS (n int)", "CREATE EXTENSION pgcrypto"),
	refusedTo("server", "history", "the serving role rewrites the history", "DBS-R1", []string{"DBS-02", "JOB-13"}, "SELECT 1 FROM app.job_events LIMIT 1",
		"UPDATE app.job_events SET cause = 'finished'", "UPDATE app.job_events SET at = now()", "DELETE FROM app.job_events", "TRUNCATE app.job_events", "TRUNCATE app.jobs CASCADE",
		"MERGE INTO app.job_events e USING app.job_events f ON e.id = f.id WHEN MATCHED THEN DELETE", "DELETE FROM app.jobs", "DELETE FROM app.assets", "DELETE FROM app.asset_versions",
		"SELECT setval('app.job_events_id_seq', 1)", "INSERT INTO app.job_events (job_id, to_status, cause, attempt, fencing_token) SELECT id, 'pending', 'submitted', 0, 0 FROM app.jobs ON CONFLICT (id) DO UPDATE SET cause = 'finished'"),
	refusedTo("server", "people", "the serving role makes users, tokens that live longer, or workers", "DBS-E1", []string{"DBS-02", "AUT-02", "MTL-02"}, "SELECT 1 FROM app.users LIMIT 1",
		"INSERT INTO app.users (id, login, password_hash) VALUES (gen_random_uuid(), 'x', '$argon2id$')", "UPDATE app.users SET login = 'x'", "UPDATE app.users SET disabled_at = NULL", "UPDATE app.users SET id = gen_random_uuid()", "DELETE FROM app.users",
		"UPDATE app.tokens SET expires_at = now() + interval '10 years'", "UPDATE app.tokens SET user_id = user_id", "UPDATE app.tokens SET token_hash = token_hash", "DELETE FROM app.tokens",
		"INSERT INTO app.workers (id) VALUES ('x')", "UPDATE app.workers SET removed_at = NULL", "UPDATE app.workers SET id = 'x'", "DELETE FROM app.workers"),
	refusedTo("server", "owners", "the serving role gives a job, its bytes or its place to somebody else", "DBS-E1", []string{"JOB-13", "AUT-06", "DBS-02"}, "SELECT 1 FROM app.asset_versions LIMIT 1",
		"UPDATE app.jobs SET user_id = user_id", "UPDATE app.jobs SET asset_id = asset_id", "UPDATE app.jobs SET asset_version = 2", "UPDATE app.jobs SET id = gen_random_uuid()", "UPDATE app.jobs SET fair_key = 1", "UPDATE app.jobs SET created_at = now()", "UPDATE app.jobs SET max_attempts = 100", "UPDATE app.jobs SET input_size = 0",
		"UPDATE app.jobs SET purged_at = now()", "UPDATE app.jobs SET correlation_id = ''", "UPDATE app.assets SET user_id = user_id", "UPDATE app.asset_versions SET sha256 = sha256", "UPDATE app.asset_versions SET storage_key = storage_key", "UPDATE app.asset_versions SET name = name"),
	refusedTo("server", "becomes", "the serving role becomes another role or gives itself rights", "DBS-E1", []string{"DBS-02"}, "SELECT current_user",
		"SET ROLE glovebox_owner", "SET ROLE glovebox_operator", "SET ROLE glovebox_sweeper", "SET ROLE postgres", "SET SESSION AUTHORIZATION postgres", "ALTER ROLE glovebox_server SUPERUSER", "ALTER ROLE glovebox_server CREATEDB", "CREATE ROLE mine LOGIN", "ALTER ROLE glovebox_operator PASSWORD 'x'",
		"GRANT glovebox_owner TO glovebox_server", "GRANT SELECT ON pg_catalog.pg_authid TO glovebox_server", "ALTER TABLE app.jobs OWNER TO glovebox_server", "ALTER DATABASE glovebox OWNER TO glovebox_server", "DROP TABLE app.jobs", "ALTER TABLE app.jobs DISABLE TRIGGER ALL", "ALTER TABLE app.job_events DROP CONSTRAINT job_events_arrow"),
	refusedTo("server", "host", "the serving role reads or writes the host's files, or runs programs there", "DBS-E1", []string{"DBS-02"}, "SELECT 1",
		"COPY app.users TO PROGRAM 'cat'", "COPY app.users TO '/tmp/users'", "COPY app.login_attempts FROM '/etc/passwd'", "SELECT pg_read_file('/etc/passwd')", "SELECT pg_read_binary_file('/etc/passwd')", "SELECT pg_ls_dir('/')", "SELECT pg_stat_file('/etc/passwd')",
		"SELECT lo_import('/etc/passwd')", "SELECT lo_export(1, '/tmp/x')", "SELECT * FROM pg_catalog.pg_authid", "SELECT * FROM pg_catalog.pg_hba_file_rules", "SELECT pg_reload_conf()", "SELECT pg_rotate_logfile()", "SELECT pg_switch_wal()"),
	refusedTo("operator", "work", "the operator's role moves jobs or rewrites their history", "DBS-R1", []string{"DBS-02", "JOB-01"}, "SELECT 1 FROM app.jobs LIMIT 1",
		"UPDATE app.jobs SET status = 'completed'", "UPDATE app.jobs SET user_id = user_id", "DELETE FROM app.jobs", "INSERT INTO app.job_events (job_id, to_status, cause, attempt, fencing_token) VALUES (gen_random_uuid(), 'pending', 'submitted', 0, 0)",
		"UPDATE app.job_events SET cause = cause", "DELETE FROM app.job_events", "DELETE FROM app.users", "DELETE FROM app.workers", "UPDATE app.users SET login = 'x'", "SELECT * FROM app.idempotency_keys", "SELECT * FROM app.uploads_in_flight", "CREATE TABLE app.mine (n int)", "SET ROLE glovebox_owner", "COPY app.users TO PROGRAM 'cat'"),
	refusedTo("sweeper", "reads", "the sweeper's role reads who users are, their names for files or their secrets", "DBS-I1", []string{"DBS-02", "PIP-12"}, "SELECT id FROM app.jobs LIMIT 1",
		"SELECT * FROM app.users", "SELECT login FROM app.users", "SELECT token_hash FROM app.tokens", "SELECT user_id FROM app.tokens", "SELECT user_id FROM app.jobs", "SELECT error_detail FROM app.jobs", "SELECT name FROM app.asset_versions", "SELECT sha256 FROM app.asset_versions", "SELECT * FROM app.assets", "SELECT fingerprint FROM app.idempotency_keys", "SELECT * FROM app.workers", "SELECT * FROM app.user_counters"),
	refusedTo("sweeper", "work", "the sweeper's role moves jobs, or deletes what is not over", "DBS-E1", []string{"DBS-02", "PIP-12", "STO-03"}, "SELECT id FROM app.jobs LIMIT 1",
		"UPDATE app.jobs SET status = 'failed'", "UPDATE app.jobs SET result_key = NULL", "UPDATE app.jobs SET terminal_at = 'epoch'", "UPDATE app.asset_versions SET storage_key = 'input/x'", "INSERT INTO app.tokens (token_hash) VALUES ('')", "UPDATE app.tokens SET revoked_at = NULL", "UPDATE app.workers SET removed_at = now()", "DELETE FROM app.users", "DELETE FROM app.workers", "TRUNCATE app.tokens", "CREATE TEMP TABLE mine (n int)", "SET ROLE glovebox_server"),
	refusedTo("observer", "reads", "the observer reads more than states", "DBS-I1", []string{"DBS-02"}, "SELECT 1 FROM observe.jobs LIMIT 1",
		"SELECT * FROM app.jobs", "SELECT * FROM app.users", "SELECT * FROM app.tokens", "SELECT * FROM app.assets", "SELECT * FROM app.asset_versions", "SELECT * FROM app.job_events", "SELECT * FROM app.workers", "SELECT * FROM app.login_attempts", "SELECT * FROM app.idempotency_keys", "SELECT * FROM app.schema_versions", "SELECT * FROM pg_catalog.pg_authid", "SELECT * FROM pg_catalog.pg_statistic", "SELECT pg_read_file('/etc/passwd')"),
	refusedTo("observer", "writes", "the observer changes what it observes", "DBS-E1", []string{"DBS-02"}, "SELECT 1 FROM observe.jobs LIMIT 1",
		"UPDATE observe.jobs SET status = 'failed'", "DELETE FROM observe.jobs", "INSERT INTO observe.assets (id) VALUES (gen_random_uuid())", "CREATE TABLE observe.mine (n int)", "CREATE TEMP TABLE mine (n int)", "CREATE OR REPLACE VIEW observe.jobs AS SELECT 1", "DROP VIEW observe.jobs", "SET ROLE glovebox_server", "SELECT nextval('app.job_events_id_seq')", "CREATE SCHEMA mine"),
	refusedTo("migrator", "undeclared", "the migrating role acts without saying that it does", "DBS-E1", []string{"DBS-02"}, "SELECT current_user",
		"SELECT * FROM app.users", "DELETE FROM app.jobs", "CREATE TABLE app.mine (n int)", "DROP TABLE app.jobs", "SET ROLE postgres", "ALTER ROLE glovebox_migrator SUPERUSER", "CREATE ROLE mine", "COPY (SELECT 1) TO PROGRAM 'cat'"),
}

var databaseTable = []harness.Case{
	{
		ID: "database/impossible-states", Title: "the serving role stores a state that the rules do not know", World: harness.Quiet, Lock: "queue",
		Requirements: []string{"JOB-01", "JOB-05", "JOB-13"}, Threats: []string{"DBS-T2", "LIF-T2"},
		Attack:  "with the server's own login: completed without a result, processing without a worker, attempts beyond their number, events that no arrow allows, a second end of an attempt, paths as storage keys",
		Control: "the same role renews a lease",
		Oracle:  "PostgreSQL's constraint; observer's row and history",
		Run: func(e *harness.Env) {
			_, w, a := given(e)
			conn := asRole(e, "server")
			tag, err := conn.Exec(e.Context(), "UPDATE app.jobs SET lease_expires_at = now() + interval '20 seconds' WHERE id::text = $1", a.ID)
			e.Control(err == nil && tag.RowsAffected() == 1, "renew a lease: %v", err)
			same := untouched(e, observer(e), a.ID)
			for _, c := range []struct{ statement, state string }{
				{"UPDATE app.jobs SET status = 'completed' WHERE id::text = $1", violated},
				{"UPDATE app.jobs SET status = 'completed', worker_id = NULL, lease_expires_at = NULL, heartbeat_at = NULL, terminal_at = now() WHERE id::text = $1", violated},
				{"UPDATE app.jobs SET worker_id = NULL WHERE id::text = $1", violated},
				{"UPDATE app.jobs SET status = 'pending' WHERE id::text = $1", violated},
				{"UPDATE app.jobs SET status = 'done' WHERE id::text = $1", violated},
				{"UPDATE app.jobs SET attempt = 99 WHERE id::text = $1", violated},
				{"UPDATE app.jobs SET attempt = -1 WHERE id::text = $1", violated},
				{"UPDATE app.jobs SET fencing_token = 0 WHERE id::text = $1", violated},
				{"UPDATE app.jobs SET result_key = '../../etc/passwd' WHERE id::text = $1", violated},
				{"UPDATE app.jobs SET result_key = 'result/../x' WHERE id::text = $1", violated},
				{"UPDATE app.jobs SET error_code = 'whatever', error_retryable = false WHERE id::text = $1", violated},
				{"UPDATE app.jobs SET terminal_at = now() WHERE id::text = $1", violated},
				{"INSERT INTO app.job_events (job_id, from_status, to_status, cause, attempt, fencing_token) VALUES ($1::text::uuid, 'pending', 'completed', 'finished', 1, 1)", violated},
				{"INSERT INTO app.job_events (job_id, from_status, to_status, cause, attempt, fencing_token) VALUES ($1::text::uuid, 'processing', 'completed', 'submitted', 1, 1)", violated},
				{"INSERT INTO app.job_events (job_id, from_status, to_status, cause, attempt, fencing_token) SELECT id, 'pending', 'processing', 'claimed', 1, fencing_token FROM app.jobs WHERE id::text = $1", duplicated},
			} {
				e.Input("%.100s", c.statement)
				tx, err := conn.Begin(e.Context())
				e.Must(err, "begin")
				_, err = tx.Exec(e.Context(), c.statement, a.ID)
				state := oracle.SQLState(err)
				e.Check(state == c.state || state == violated || state == duplicated, "SQLSTATE %q, %v", state, err)
				e.Must(tx.Rollback(e.Context()), "roll back")
			}
			e.Input("afterwards")
			same("by the server's own login")
			w.Fail(a, "core_error", false)
		},
	},
	{
		ID: "database/injection", Title: "text of a user becomes SQL", World: harness.Quiet, Lock: "queue",
		Requirements: []string{"DBS-01"}, Threats: []string{"DBS-T1"},
		Attack:  "quotes, comments, stacked statements, casts, format directives, backslashes and NUL in login, password, file name, idempotency key, ids, token, digest and query",
		Control: "the superuser's own query with a quote in it does raise a syntax error",
		Oracle:  "PostgreSQL's log: no error of syntax; the superuser counts users, tokens and tables as before",
		Run: func(e *harness.Env) {
			u, admin := e.NewUser(), asSuperuser(e)
			token := e.Token(u)
			shape := func() string {
				var text string
				e.Must(admin.QueryRow(e.Context(), `SELECT concat((SELECT count(*) FROM app.users WHERE login LIKE 'injected%'), ' ', (SELECT count(*) FROM pg_class), ' ', (SELECT count(*) FROM pg_sleep(0)))`).Scan(&text), "count")
				return text
			}
			before := shape()
			mark := "injected" + harness.RandomHex(4)
			syntax := map[string][]byte{"a syntax error": []byte("syntax error at or near"), "an open quote": []byte("unterminated quoted"), "the mark": []byte("at or near \"" + mark)}
			log, err := os.Open(statePath(e, "pg/log"))
			e.Must(err, "open the database's log")
			defer log.Close()
			_, _ = admin.Exec(e.Context(), "SELECT 1 1 "+mark) // raises the error that the log must show
			e.Control(e.Await(5*time.Second, func() bool {
				hits, err := oracle.SearchReader(log, syntax)
				return err == nil && len(hits) > 0
			}), "the log shows no error of syntax where there was one")
			texts := []string{
				"' OR '1'='1", "'; DROP TABLE app.jobs; --", `"; DELETE FROM app.users; --`, "1); SELECT pg_sleep(5); --", "' UNION SELECT password_hash FROM app.users --", `\'; SELECT 1; --`, "$$; SELECT 1; $$", "%s%n%x", "'::int", "/*", "--", "{{7*7}}",
				"'; INSERT INTO app.users (id, login, password_hash) VALUES (gen_random_uuid(), '" + mark + "', '$argon2id$'); --", "\\x27", "' AND 1=CAST((SELECT current_user) AS int) --", "%27%20OR%201=1", "'||pg_sleep(5)||'",
			}
			for _, text := range texts {
				e.Input("%.60q", text)
				quoted := url.PathEscape(text)
				login := harness.LoginRequest(text, text)
				upload := harness.SubmitRequest(token, harness.Lua(), "Idempotency-Key: "+strings.ReplaceAll(text, "\n", ""))
				upload.Body = harness.Form(strings.ReplaceAll(text, `"`, "%22"), harness.Lua())
				for _, r := range []harness.Request{
					login, upload, {Method: http.MethodGet, Path: "/api/v1/jobs/" + quoted, Token: token}, {Method: http.MethodGet, Path: "/api/v1/jobs/" + quoted + "/result", Token: token},
					{Method: http.MethodGet, Path: "/api/v1/auth/me?user=" + url.QueryEscape(text), Token: token}, {Method: http.MethodGet, Path: "/api/v1/auth/me", Header: []string{"Authorization: Bearer " + text}},
				} {
					got := e.Do(r)
					e.Check(got.Status < 500 && got.Took.Seconds() < 4, "%s %.40s: %s in %s", r.Method, r.Path, got.Brief(), got.Took)
				}
			}
			e.Input("afterwards")
			e.Check(shape() == before, "it was %s and is %s", before, shape())
			hits, err := oracle.SearchReader(log, syntax) // what has come since
			e.Must(err, "read the database's log")
			e.Check(len(hits) == 0, "PostgreSQL's log shows that a text was read as SQL: %v", hits)
		},
	},
	{
		ID: "database/secrets-in-rows", Title: "who reads the database can log in", World: harness.Quiet,
		Requirements: []string{"AUT-02", "AUT-03"}, Threats: []string{"DBS-I1", "PUB-S1"},
		Attack:  "every row of every table, as text, searched for the user's password and token, for plain hashes of them, and the stored hash sent as a token",
		Control: "the search finds the user's login in the same text",
		Oracle:  "superuser's dump of all rows; the API's answer to what was found",
		Run: func(e *harness.Env) {
			u, admin := e.NewUser(), asSuperuser(e)
			token := e.Token(u)
			var tables []string
			rows, err := admin.Query(e.Context(), "SELECT format('%I.%I', schemaname, tablename) FROM pg_tables WHERE schemaname IN ('app', 'observe', 'public')")
			e.Must(err, "list the tables")
			tables, err = pgx.CollectRows(rows, pgx.RowTo[string])
			e.Must(err, "list the tables")
			var all strings.Builder
			for _, table := range tables {
				var text string
				e.Must(admin.QueryRow(e.Context(), "SELECT coalesce(string_agg(t::text, E'\n'), '') FROM "+table+" t").Scan(&text), "dump %s", table)
				all.WriteString(text)
			}
			dump := all.String()
			e.Control(len(tables) >= 9 && strings.Contains(dump, u.Login), "%d tables, the login is not in them", len(tables))
			for what, secret := range map[string]string{
				"password": u.Password, "token": token, "SHA-256 of the password": harness.Hash([]byte(u.Password)), "SHA-256 of the token": harness.Hash([]byte(token)), "HMAC secret": readState(e, "secrets/token-secret"),
			} {
				e.Check(!strings.Contains(dump, secret), "the rows hold the %s", what)
			}
			var hash string
			e.Must(admin.QueryRow(e.Context(), "SELECT encode(t.token_hash, 'hex') FROM app.tokens t JOIN app.users u ON u.id = t.user_id WHERE u.login = $1", u.Login).Scan(&hash), "read the stored hash")
			for _, text := range []string{hash, "gbx_" + hash, strings.ToUpper(hash)} {
				got := e.Do(harness.Request{Method: http.MethodGet, Path: "/api/v1/auth/me", Token: text})
				e.Check(got.Status == http.StatusUnauthorized, "the stored hash as a token: %s", got.Brief())
			}
			var password string
			e.Must(admin.QueryRow(e.Context(), "SELECT password_hash FROM app.users WHERE login = $1", u.Login).Scan(&password), "read the stored hash")
			e.Check(strings.HasPrefix(password, "$argon2id$v=19$"), "the password is kept as %.12s", password)
			got := e.Do(harness.LoginRequest(u.Login, password))
			e.Check(got.Status == http.StatusUnauthorized, "the stored hash as a password: %s", got.Brief())
		},
	},
}

var databaseDoors = []harness.Case{
	{
		ID: "database/attributes", Title: "a role has more than its grants: an attribute, a membership, an object of its own", World: harness.Quiet,
		Requirements: []string{"DBS-02"}, Threats: []string{"DBS-E1"},
		Attack:  "the catalogue is read for superuser, createdb, createrole, replication, bypassrls, memberships, owned objects, functions that run as their owner without care, rights of PUBLIC",
		Control: "the catalogue shows the superuser as one",
		Oracle:  "PostgreSQL's catalogue as the superuser sees it",
		Run: func(e *harness.Env) {
			admin := asSuperuser(e)
			e.Control(number(e, admin, "SELECT count(*) FROM pg_roles WHERE rolname = 'postgres' AND rolsuper") == 1, "the superuser is not seen")
			for what, query := range map[string]string{
				"an attribute":                 `SELECT count(*) FROM pg_roles WHERE rolname LIKE 'glovebox%' AND (rolsuper OR rolcreatedb OR rolcreaterole OR rolreplication OR rolbypassrls)`,
				"a membership":                 `SELECT count(*) FROM pg_auth_members m JOIN pg_roles r ON r.oid = m.member JOIN pg_roles g ON g.oid = m.roleid WHERE r.rolname LIKE 'glovebox%' AND NOT (r.rolname = 'glovebox_migrator' AND g.rolname = 'glovebox_owner')`,
				"inherits what it is granted":  `SELECT count(*) FROM pg_roles WHERE rolname IN ('glovebox_server', 'glovebox_migrator', 'glovebox_operator', 'glovebox_sweeper', 'glovebox_observer') AND rolinherit`,
				"an owner that logs in":        `SELECT count(*) FROM pg_roles WHERE rolname = 'glovebox_owner' AND rolcanlogin`,
				"an object of its own":         `SELECT count(*) FROM pg_class c JOIN pg_roles r ON r.oid = c.relowner WHERE r.rolname LIKE 'glovebox%' AND r.rolname <> 'glovebox_owner'`,
				"a careless function as owner": `SELECT count(*) FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace JOIN pg_roles r ON r.oid = p.proowner WHERE n.nspname IN ('app', 'observe') AND p.prosecdef AND (r.rolsuper OR r.rolcanlogin OR NOT coalesce(array_to_string(p.proconfig, ',') LIKE '%search_path=%', false) OR has_function_privilege('glovebox_observer', p.oid, 'EXECUTE'))`,
				"a table that all may read":    `SELECT count(*) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace, aclexplode(c.relacl) a WHERE n.nspname IN ('app', 'observe') AND a.grantee = 0`,
				"a schema that all may use":    `SELECT count(*) FROM pg_namespace n, aclexplode(n.nspacl) a WHERE n.nspname IN ('app', 'observe', 'public') AND a.grantee = 0`,
				"a database that all enter":    `SELECT count(*) FROM pg_database d, aclexplode(d.datacl) a WHERE d.datname = current_database() AND a.grantee = 0`,
				"rights to grant":              `SELECT count(*) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace, aclexplode(c.relacl) a JOIN pg_roles r ON r.oid = a.grantee WHERE n.nspname IN ('app', 'observe') AND a.is_grantable AND r.rolname <> 'glovebox_owner'`,
			} {
				e.Input("%s", what)
				e.Check(number(e, admin, query) == 0, "the catalogue shows %d", number(e, admin, query))
			}
		},
	},
	{
		ID: "database/without-password", Title: "somebody enters the database without a password, or with another role's", World: harness.Quiet,
		Requirements: []string{"DBS-02", "ARC-02"}, Threats: []string{"DBS-I1", "OPS-E2"},
		Attack:  "every role over the database's socket as the worker's, the sweeper's, a stranger's and root's user: without a password, with its name, with another role's password",
		Control: "the right password lets the role in",
		Oracle:  "PostgreSQL's answer to the login",
		Run: func(e *harness.Env) {
			u, err := url.Parse(e.Endpoint.DatabaseURL)
			e.Must(err, "read the database's address")
			own, _ := u.User.Password()
			try := func(as identity.User, role, password string) error {
				return identity.As(as, func() error {
					target := *u
					target.User = url.UserPassword(role, password)
					config, err := pgx.ParseConfig(target.String())
					if err != nil {
						return nil // no login at all
					}
					conn, err := pgx.ConnectConfig(e.Context(), config)
					if err != nil {
						return err
					}
					return conn.Close(e.Context())
				})
			}
			e.Control(try(stranger, "glovebox_observer", own) == nil, "the observer's own password")
			for _, who := range []identity.User{user(e, "worker"), user(e, "sweeper"), stranger, {}} {
				for _, role := range []string{"postgres", "glovebox_owner", "glovebox_server", "glovebox_operator", "glovebox_sweeper", "glovebox_migrator", "glovebox_observer", "root"} {
					for _, password := range []string{"", role, "postgres", own} {
						if role == "glovebox_observer" && password == own {
							continue
						}
						e.Input("uid %d as %s", who.UID, role)
						e.Check(try(who, role, password) != nil, "was let in")
					}
				}
			}
		},
	},
	{
		ID: "database/network", Title: "the database listens to the network", World: harness.Quiet,
		Requirements: []string{"DBS-02"}, Threats: []string{"OPS-E1", "DBS-I1"},
		Attack:  "the sockets of the database's processes, and a connection to its usual port",
		Control: "its unix socket is seen",
		Oracle:  "socket table of the kernel",
		Run: func(e *harness.Env) {
			u, err := url.Parse(e.Endpoint.DatabaseURL)
			e.Must(err, "read the database's address")
			named, err := oracle.Unix()
			e.Must(err, "read the socket table")
			seen := false
			for _, s := range named {
				seen = seen || strings.HasPrefix(s.Path, u.Query().Get("host")+"/")
			}
			e.Control(seen, "the unix socket is not seen")
			pids := []int{e.Endpoint.PIDs.Postgres}
			below, err := oracle.Descendants(e.Endpoint.PIDs.Postgres)
			e.Must(err, "read the process table")
			for _, p := range below {
				pids = append(pids, p.PID)
			}
			e.Control(len(pids) > 3, "only %d processes of the database", len(pids))
			for _, pid := range pids {
				sockets, err := oracle.SocketsOf(pid)
				if err != nil {
					continue // a backend that has ended
				}
				e.Check(len(sockets) == 0, "process %d has %+v", pid, sockets)
			}
		},
	},
}

// search looks for needles in a file.
func search(e *harness.Env, file string, needles map[string][]byte) []string {
	hits, err := oracle.Search(file, needles)
	e.Must(err, "search %s", file)
	return hits
}

// stranger is a user of the host that the system does not know.
var stranger = identity.User{UID: 61390, GID: 61390}

// user is one of the system's users, with the groups its process has.
func user(e *harness.Env, name string) identity.User {
	uid := e.Endpoint.UIDs[name]
	u := identity.User{UID: uid, GID: uid}
	if name == "server" || name == "sweeper" {
		u.Groups = []int{storageGroup}
	}
	return u
}

// storageGroup is the group that server and sweeper share.
const storageGroup = 61300

var errOpened = errors.New("it was opened")

// dialUnix connects to a unix socket and closes the connection.
func dialUnix(network, path string) error {
	c, err := net.Dial(network, path)
	if err != nil {
		return err
	}
	return c.Close()
}
