package recovery

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// rightsSQL lists, one line each, what a dump does not carry and bootstrap.sql
// makes anew (roles, memberships, settings of roles and database, rights on the
// database and the schemas), and what it does carry (owners and rights of every
// relation, column and function, default rights). The name of the database and
// its administrator are not in it: those may differ.
const rightsSQL = `
WITH ours AS (SELECT oid, rolname FROM pg_catalog.pg_roles WHERE rolname LIKE 'glovebox\_%'),
here AS (SELECT oid, datdba, datacl FROM pg_catalog.pg_database WHERE datname = current_database()),
spaces AS (SELECT oid, nspname, nspowner, nspacl FROM pg_catalog.pg_namespace WHERE nspname IN ('app', 'observe')),
granted AS (
	SELECT 'database' AS what, a.grantee, a.privilege_type FROM here h, pg_catalog.aclexplode(h.datacl) a WHERE a.grantee <> h.datdba
	UNION ALL
	SELECT 'schema ' || s.nspname, a.grantee, a.privilege_type
	FROM spaces s, pg_catalog.aclexplode(coalesce(s.nspacl, pg_catalog.acldefault('n', s.nspowner))) a
	UNION ALL
	SELECT 'relation ' || s.nspname || '.' || c.relname, a.grantee, a.privilege_type
	FROM pg_catalog.pg_class c JOIN spaces s ON s.oid = c.relnamespace,
	     pg_catalog.aclexplode(coalesce(c.relacl, pg_catalog.acldefault(CASE c.relkind WHEN 'S' THEN 's' ELSE 'r' END::"char", c.relowner))) a
	WHERE c.relkind IN ('r', 'v', 'm', 'p', 'S')
	UNION ALL
	SELECT 'column ' || s.nspname || '.' || c.relname || '.' || t.attname, a.grantee, a.privilege_type
	FROM pg_catalog.pg_attribute t JOIN pg_catalog.pg_class c ON c.oid = t.attrelid JOIN spaces s ON s.oid = c.relnamespace,
	     pg_catalog.aclexplode(t.attacl) a
	WHERE NOT t.attisdropped
	UNION ALL
	SELECT 'function ' || s.nspname || '.' || f.proname, a.grantee, a.privilege_type
	FROM pg_catalog.pg_proc f JOIN spaces s ON s.oid = f.pronamespace,
	     pg_catalog.aclexplode(coalesce(f.proacl, pg_catalog.acldefault('f', f.proowner))) a
	UNION ALL
	SELECT 'default ' || s.nspname || ' ' || d.defaclobjtype::text, a.grantee, a.privilege_type
	FROM pg_catalog.pg_default_acl d JOIN spaces s ON s.oid = d.defaclnamespace, pg_catalog.aclexplode(d.defaclacl) a),
lines AS (
	SELECT 'role ' || r.rolname || ' login=' || r.rolcanlogin || ' inherit=' || r.rolinherit || ' superuser=' || r.rolsuper
	       || ' createdb=' || r.rolcreatedb || ' createrole=' || r.rolcreaterole || ' replication=' || r.rolreplication
	       || ' bypassrls=' || r.rolbypassrls AS line
	FROM pg_catalog.pg_roles r JOIN ours ON ours.oid = r.oid
	UNION ALL
	SELECT 'member ' || m.member::regrole || ' of ' || m.roleid::regrole FROM pg_catalog.pg_auth_members m
	WHERE m.member IN (SELECT oid FROM ours) OR m.roleid IN (SELECT oid FROM ours)
	UNION ALL
	SELECT 'setting ' || CASE s.setrole WHEN 0 THEN 'of the database' ELSE s.setrole::regrole::text END
	       || CASE s.setdatabase WHEN 0 THEN ' everywhere ' ELSE ' here ' END || one
	FROM pg_catalog.pg_db_role_setting s, unnest(s.setconfig) AS one
	WHERE s.setdatabase = (SELECT oid FROM here) OR s.setdatabase = 0 AND s.setrole IN (SELECT oid FROM ours)
	UNION ALL
	SELECT 'owner ' || s.nspname || '.' || c.relname || ' ' || c.relowner::regrole
	FROM pg_catalog.pg_class c JOIN spaces s ON s.oid = c.relnamespace WHERE c.relkind IN ('r', 'v', 'm', 'p', 'S')
	UNION ALL
	SELECT 'grant ' || g.what || ' ' || CASE g.grantee WHEN 0 THEN 'PUBLIC' ELSE g.grantee::regrole::text END || ' ' || g.privilege_type
	FROM granted g)
SELECT DISTINCT line COLLATE "C" FROM lines ORDER BY 1`

// querier is a connection or a transaction.
type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

func rights(ctx context.Context, db querier) ([]string, error) {
	rows, err := db.Query(ctx, rightsSQL)
	if err != nil {
		return nil, fmt.Errorf("list roles, rights and settings: %w", err)
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("list roles, rights and settings: %w", err)
	}
	return lines, nil
}

// differing returns the lines that one of two ordered lists has alone: "- " those
// of the first, "+ " those of the second.
func differing(before, after []string) []string {
	var out []string
	for len(before) > 0 || len(after) > 0 {
		switch {
		case len(after) == 0 || len(before) > 0 && before[0] < after[0]:
			out = append(out, "- "+before[0])
			before = before[1:]
		case len(before) == 0 || after[0] < before[0]:
			out = append(out, "+ "+after[0])
			after = after[1:]
		default:
			before, after = before[1:], after[1:]
		}
	}
	return out
}
