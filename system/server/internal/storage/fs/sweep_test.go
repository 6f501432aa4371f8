package fs_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"glovebox/system/server/internal/storage/fs"
	"glovebox/threat-model/evidence"
)

func TestListGivesEveryObjectOnceInPages(t *testing.T) {
	s, dir := open(t, fs.Options{})
	var want []string
	for i := range 57 {
		k := fmt.Sprintf("inputs/job-%02d", i)
		st, err := s.Stage(t.Context(), strings.NewReader(strings.Repeat("x", i)), 100)
		must(t, err)
		must(t, st.Commit(t.Context(), k))
		want = append(want, k)
	}
	// What is not ours is neither listed nor touched.
	must(t, os.WriteFile(filepath.Join(dir, "objects", "00", "Foreign File"), nil, 0o600))
	must(t, os.WriteFile(filepath.Join(dir, "objects", "00", "inputs~job-in-a-wrong-folder"), nil, 0o600))
	for _, limit := range []int{1, 7, 57, 100} {
		var got []string
		for after := ""; ; {
			page, next, err := s.List(t.Context(), after, limit)
			must(t, err)
			for _, e := range page {
				if fmt.Sprintf("inputs/job-%02d", e.Size) != e.Key {
					t.Errorf("%s has size %d", e.Key, e.Size)
				}
				got = append(got, e.Key)
			}
			if after = next; next == "" {
				break
			}
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Fatalf("in pages of %d the list has %d objects, want %d", limit, len(got), len(want))
		}
	}
}

// TestSweepTempKnowsTheDeadFromTheLiving: a file whose writer lives keeps its
// lock however old it is; one that was left behind has none.
func TestSweepTempKnowsTheDeadFromTheLiving(t *testing.T) {
	evidence.Proves(t, "UPL-08", "STO-03")
	s, dir := open(t, fs.Options{})
	living, err := s.Stage(t.Context(), strings.NewReader("living"), 100)
	must(t, err)
	old := time.Now().Add(-48 * time.Hour)
	must(t, os.Chtimes(temporaryFiles(t, dir)[0], old, old))

	plant := func(name string, at time.Time) string {
		path := filepath.Join(dir, "tmp", name)
		must(t, os.WriteFile(path, []byte("left by a crash"), 0o600))
		must(t, os.Chtimes(path, at, at))
		return path
	}
	dead := plant("dead", old)
	young := plant("young", time.Now())
	must(t, os.Symlink(outside(t), filepath.Join(dir, "tmp", "link")))

	removed, err := s.SweepTemp(t.Context(), time.Hour)
	must(t, err)
	if removed != 1 {
		t.Errorf("%d files were removed, want 1", removed)
	}
	if _, err := os.Lstat(dead); !os.IsNotExist(err) {
		t.Errorf("the dead file is still there (%v)", err)
	}
	if _, err := os.Lstat(young); err != nil {
		t.Errorf("a file younger than the horizon was removed: %v", err)
	}
	if err := living.Commit(t.Context(), key); err != nil {
		t.Errorf("the living body was swept: %v", err)
	}
	if removed, err = s.SweepTemp(t.Context(), -time.Second); err != nil || removed != 2 {
		t.Errorf("%d files were removed (%v), want the young one and the link", removed, err)
	}
}
