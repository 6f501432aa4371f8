package migrations_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"glovebox/migrations"
	"glovebox/system/testdb"
	"glovebox/threat-model/evidence"
)

func config(t *testing.T, db *testdb.Database, role string) *pgx.ConnConfig {
	t.Helper()
	c, err := pgx.ParseConfig(db.URL(role).Reveal())
	if err != nil {
		t.Fatal("the test database's URL is not usable")
	}
	return c
}

func connect(t *testing.T, db *testdb.Database, role string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.ConnectConfig(t.Context(), config(t, db, role))
	if err != nil {
		t.Fatalf("log in as %s: %v", role, err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

func TestMigrationsStartedManyTimesAtOnceApplyEachVersionOnce(t *testing.T) {
	evidence.Proves(t, "DBS-04")
	t.Parallel()
	db := testdb.NewEmpty(t)
	if err := migrations.Bootstrap(t.Context(), connect(t, db, testdb.Admin)); err != nil {
		t.Fatal(err)
	}
	const runners = 6
	var (
		all     sync.WaitGroup
		reports [runners]migrations.Report
		errs    [runners]error
	)
	for i := range runners {
		all.Go(func() {
			reports[i], errs[i] = migrations.Up(t.Context(), config(t, db, testdb.Migrator))
		})
	}
	all.Wait()
	applied := 0
	for i := range runners {
		if errs[i] != nil {
			t.Errorf("runner %d: %v", i, errs[i])
		}
		if reports[i].Version != migrations.Latest() {
			t.Errorf("runner %d reports version %d, want %d", i, reports[i].Version, migrations.Latest())
		}
		applied += len(reports[i].Applied)
	}
	if applied != int(migrations.Latest()) {
		t.Errorf("%d migrations were applied in all, want each of %d once", applied, migrations.Latest())
	}
	missing, err := migrations.Pending(t.Context(), connect(t, db, testdb.ServerRole))
	if err != nil || len(missing) != 0 {
		t.Errorf("pending after up: %v, %v", missing, err)
	}
}

func TestBootstrapCanRunAgainAndManyTimesAtOnce(t *testing.T) {
	evidence.Proves(t, "DBS-04")
	t.Parallel()
	db := testdb.New(t)
	var all sync.WaitGroup
	for range 4 {
		conn := connect(t, db, testdb.Admin)
		all.Go(func() {
			if err := migrations.Bootstrap(t.Context(), conn); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
}

func TestUpWithoutBootstrapNamesTheRemedy(t *testing.T) {
	t.Parallel()
	db := testdb.NewEmpty(t)
	_, err := migrations.Up(t.Context(), config(t, db, testdb.Admin))
	if err == nil || !strings.Contains(err.Error(), "--admin-url-file") {
		t.Fatalf("error is %v, want one that names --admin-url-file", err)
	}
}

func TestPendingTellsWhatIsMissing(t *testing.T) {
	t.Parallel()
	db := testdb.New(t)
	admin := connect(t, db, testdb.Admin)
	if _, err := admin.Exec(t.Context(), "DELETE FROM app.schema_versions WHERE version_id = $1", migrations.Latest()); err != nil {
		t.Fatal(err)
	}
	missing, err := migrations.Pending(t.Context(), connect(t, db, testdb.ServerRole))
	if err != nil || len(missing) != 1 || missing[0] != migrations.Latest() {
		t.Fatalf("pending is %v (%v), want the last version", missing, err)
	}
}

func TestAnInvalidIndexFailsTheMigration(t *testing.T) {
	evidence.Proves(t, "DBS-04")
	t.Parallel()
	db := testdb.New(t)
	admin := connect(t, db, testdb.Admin)
	// How such an index comes about: a concurrent build of a unique index over
	// rows that are not unique.
	for _, statement := range []string{
		"CREATE TABLE app.twins (n int)",
		"INSERT INTO app.twins VALUES (1), (1)",
	} {
		if _, err := admin.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := admin.Exec(t.Context(), "CREATE UNIQUE INDEX CONCURRENTLY twins_n ON app.twins (n)"); err == nil {
		t.Fatal("the index over equal rows could be built")
	}
	_, err := migrations.Up(t.Context(), config(t, db, testdb.Migrator))
	if err == nil || !strings.Contains(err.Error(), "app.twins_n") {
		t.Fatalf("error is %v, want one that names app.twins_n", err)
	}
	if _, err := admin.Exec(t.Context(), "DROP TABLE app.twins"); err != nil {
		t.Fatal(err)
	}
	if _, err := migrations.Up(t.Context(), config(t, db, testdb.Migrator)); err != nil {
		t.Fatalf("without the index: %v", err)
	}
}

// TestAMigrationThatWasCutOffCanBeRunAgain: a file without a transaction may end
// after any of its statements, so each is run again over what all of them left.
func TestAMigrationThatWasCutOffCanBeRunAgain(t *testing.T) {
	evidence.Proves(t, "DBS-04")
	t.Parallel()
	conn := connect(t, testdb.New(t), testdb.Migrator)
	if _, err := conn.Exec(t.Context(), "SET ROLE glovebox_owner"); err != nil {
		t.Fatal(err)
	}
	names, err := filepath.Glob("[0-9]*.sql")
	if err != nil {
		t.Fatal(err)
	}
	repeated := 0
	for _, name := range names {
		content, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		annotations, statements, ok := strings.Cut(string(content), "-- +goose Up\n")
		if !ok {
			t.Fatalf("%s has no part to apply", name)
		}
		if !strings.Contains(annotations, "-- +goose NO TRANSACTION\n") {
			continue
		}
		for _, statement := range strings.SplitAfter(strings.TrimSpace(statements), ";\n") {
			repeated++
			if _, err := conn.Exec(t.Context(), statement); err != nil {
				t.Errorf("%s, run again: %v: %s", name, err, statement)
			}
		}
	}
	if repeated < 2 {
		t.Errorf("%d statements were repeated: the test no longer finds the files it is about", repeated)
	}
	var doubtful int
	if err := conn.QueryRow(t.Context(), "SELECT count(*) FROM pg_constraint WHERE NOT convalidated").Scan(&doubtful); err != nil || doubtful != 0 {
		t.Errorf("%d constraints were never held to the old rows (%v)", doubtful, err)
	}
}

func TestTheMigratorOwnsNothingUntilItSaysSo(t *testing.T) {
	evidence.Proves(t, "DBS-02")
	t.Parallel()
	conn := connect(t, testdb.New(t), testdb.Migrator)
	if _, err := conn.Exec(t.Context(), "DROP TABLE app.job_events"); err == nil {
		t.Fatal("the migrator dropped a table without SET ROLE")
	}
	if _, err := conn.Exec(t.Context(), "SET ROLE glovebox_owner; CREATE TABLE app.probe (n int); DROP TABLE app.probe"); err != nil {
		t.Fatalf("the migrator cannot become the owner: %v", err)
	}
}
