package migrations_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/jackc/pgx/v5"

	"glovebox/migrations"
	"glovebox/system/testdb"
	"glovebox/threat-model/evidence"
)

// release is the folder of a release that comes after this one: this one's files
// and one more.
func release(t *testing.T, name, text string) fstest.MapFS {
	t.Helper()
	folder := fstest.MapFS{}
	entries, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".sql") || e.Name() == "bootstrap.sql" {
			continue
		}
		content, err := os.ReadFile(e.Name())
		if err != nil {
			t.Fatal(err)
		}
		folder[e.Name()] = &fstest.MapFile{Data: content}
	}
	folder[name] = &fstest.MapFile{Data: []byte(text)}
	return folder
}

// connectNamed connects as a binary would that calls itself so.
func connectNamed(t *testing.T, db *testdb.Database, application string) *pgx.Conn {
	t.Helper()
	c := config(t, db, testdb.ServerRole)
	c.RuntimeParams["application_name"] = application
	conn, err := pgx.ConnectConfig(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

// TestAMigrationThatEndsOldBinariesWaitsForTheirEnd: the last step of a removal is
// not applied under a binary that still uses what goes, and such a binary does not
// work on the result. A migration that keeps the three-state rule asks nothing.
func TestAMigrationThatEndsOldBinariesWaitsForTheirEnd(t *testing.T) {
	evidence.Proves(t, "DBS-04")
	t.Parallel()
	next := migrations.Latest() + 1
	compatible := fmt.Sprintf("%04d_adds.sql", next)
	ending := fmt.Sprintf("%04d_removes.sql", next+1)
	for _, running := range []string{migrations.ApplicationName(), "glovebox-server" /* says no version */} {
		db := testdb.New(t)
		old := connectNamed(t, db, running)
		neighbour := connectNamed(t, db, "psql") // is no binary of ours
		folder := release(t, compatible, "-- +goose Up\nALTER TABLE app.jobs ADD COLUMN remark text;\n")
		report, err := migrations.UpFrom(t.Context(), config(t, db, testdb.Migrator), folder)
		if err != nil || report.Version != next {
			t.Fatalf("a migration that keeps the rule, under %s: %+v, %v", running, report, err)
		}
		if err := migrations.Compatible(t.Context(), old); err != nil {
			t.Fatalf("the old binary after a migration that keeps the rule: %v", err)
		}
		folder[ending] = &fstest.MapFile{Data: fmt.Appendf(nil, "-- glovebox: oldest-binary %d\n-- +goose Up\nALTER TABLE app.jobs DROP COLUMN remark;\n", next)}
		report, err = migrations.UpFrom(t.Context(), config(t, db, testdb.Migrator), folder)
		if err == nil || !strings.Contains(err.Error(), running+" is connected") || report.Version > next {
			t.Fatalf("a migration that ends older binaries, under %s: %+v, %v", running, report, err)
		}
		if err := migrations.Compatible(t.Context(), old); err != nil {
			t.Fatalf("the refused migration left its mark: %v", err)
		}
		if err := old.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		// The session's end reaches the server's table of sessions a moment later.
		for left := 1; left > 0; {
			if err := neighbour.QueryRow(t.Context(), "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = $1", running).Scan(&left); err != nil {
				t.Fatal(err)
			}
		}
		report, err = migrations.UpFrom(t.Context(), config(t, db, testdb.Migrator), folder)
		if err != nil || report.Version != next+1 {
			t.Fatalf("with the old binary gone: %+v, %v", report, err)
		}
		if err := migrations.Compatible(t.Context(), neighbour); err == nil || !strings.Contains(err.Error(), "upgrade the binary") {
			t.Errorf("the old binary on the new schema: %v", err)
		}
	}
}

func TestAnOldestBinaryBeyondItsMigrationIsRefused(t *testing.T) {
	t.Parallel()
	db := testdb.New(t)
	next := migrations.Latest() + 1
	folder := release(t, fmt.Sprintf("%04d_wrong.sql", next), fmt.Sprintf("-- glovebox: oldest-binary %d\n-- +goose Up\nSELECT 1;\n", next+1))
	if _, err := migrations.UpFrom(t.Context(), config(t, db, testdb.Migrator), folder); err == nil || !strings.Contains(err.Error(), "up to its own") {
		t.Errorf("error is %v", err)
	}
}
