package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"glovebox/system/server/internal/recovery"
	"glovebox/system/server/internal/storage/fs"
	"glovebox/system/testdb"
	"glovebox/threat-model/evidence"
)

// TestARestoreThatFailsLeavesAnEmptyPlace: the disk fills in the midst of the files;
// what was brought is taken away, and the same database takes the next try.
func TestARestoreThatFailsLeavesAnEmptyPlace(t *testing.T) {
	evidence.Proves(t, "DBS-03")
	p := populate(t)
	dir, _ := p.backUp()
	p.server.stop()
	other := p.elsewhere()
	roomy := other.storage
	other.storage = filepath.Join(other.smallDisk(1<<20), "storage") // the result has twice that
	_, errOut, code := other.administer("restore", "--from", dir)
	if code == exitOK || !strings.Contains(errOut, "no space left") || strings.Contains(errOut, "empty the database") {
		t.Errorf("onto a disk that is too small: status %d: %s", code, errOut)
	}
	other.nothingStored(0)
	if n := other.count("SELECT count(*) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname IN ('app', 'observe')"); n != 0 {
		t.Errorf("%d relations are left", n)
	}
	other.storage = roomy
	other.must(nil, "restore", "--from", dir)
	other.must(nil, "verify", "--from", dir)
}

// TestARestoreLooksAgainBeforeItBegins: whoever begins to use the place while the
// backup is verified, which takes hours, keeps what he has put there.
func TestARestoreLooksAgainBeforeItBegins(t *testing.T) {
	evidence.Proves(t, "DBS-03")
	p := populate(t)
	dir, _ := p.backUp()
	p.server.stop()
	other := p.elsewhere()
	try := func(meanwhile func()) (err error) {
		source, err := recovery.Open(dir, "")
		if err != nil {
			t.Fatal(err)
		}
		storage, err := fs.New(other.storage, fs.Options{OwnedLikeRoot: true})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { err = errors.Join(err, storage.Close(), source.Close()) }()
		_, err = recovery.Restore(t.Context(), recovery.RestoreOptions{
			Login: other.db.URL(testdb.Migrator), Storage: storage, Source: source,
			Progress: func(p recovery.Progress) {
				if p.Stage == "verifying the backup" && p.Files == p.OfFiles {
					meanwhile()
				}
			},
		})
		return err
	}
	err := try(func() { other.exec("INSERT INTO app.workers (id) VALUES ('comes-meanwhile')") })
	if err == nil || !strings.Contains(err.Error(), "the database is not empty") {
		t.Errorf("rows came while the backup was verified: %v", err)
	}
	if n := other.count("SELECT count(*) FROM app.workers WHERE id = 'comes-meanwhile'"); n != 1 {
		t.Fatal("what came meanwhile was dropped")
	}
	other.exec("DELETE FROM app.workers")
	if err := try(func() {}); err != nil {
		t.Errorf("control: %v", err)
	}
}

// TestABackupWhoseDumpFillsTheDiskSaysSo: pg_dump itself only sees that nobody
// takes its output any more.
func TestABackupWhoseDumpFillsTheDiskSaysSo(t *testing.T) {
	evidence.Proves(t, "DBS-03")
	p := populate(t)
	dir, manifest := p.backUp()
	list, err := os.Stat(filepath.Join(dir, "files.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	const pages = 4 << 12 // what the two files before the dump round up to, and more
	small := p.smallDisk(int(manifest.Rights.Size+list.Size()+manifest.Database.Size/2) + pages)
	if _, e, code := p.administer("backup", "--out", filepath.Join(small, "b")); code == exitOK || !strings.Contains(e, "database.dump") || !strings.Contains(e, "no room left") {
		t.Errorf("status %d: %s", code, e)
	}
}

// TestABrokenRestoreCannotBeResumed: one that was killed half-way has moved no job
// beyond the tokens of the lost system.
func TestABrokenRestoreCannotBeResumed(t *testing.T) {
	evidence.Proves(t, "DBS-03")
	in := install(t)
	in.exec("INSERT INTO app.restores (id, backup_id, backup_at) VALUES (gen_random_uuid(), gen_random_uuid(), now())")
	if _, e, code := in.administer("resume"); code == exitOK || !strings.Contains(e, "has not come to its end") {
		t.Errorf("resume: %d %s", code, e)
	}
	if n := in.count("SELECT count(*) FROM app.restores WHERE resumed_at IS NULL"); n != 1 {
		t.Error("the refusal resumed")
	}
	in.exec("UPDATE app.restores SET completed_at = now(), token_base = 1, jobs_taken_back = 0")
	in.must(nil, "resume")
	if n := in.count("SELECT count(*) FROM app.restores WHERE resumed_at IS NULL"); n != 0 {
		t.Error("control: a completed restore was not resumed")
	}
}
