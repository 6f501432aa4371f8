package main

import (
	"path/filepath"
	"strings"
	"testing"

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
