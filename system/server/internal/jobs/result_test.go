package jobs_test

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/uuid"

	"glovebox/system/server/internal/jobs"
	"glovebox/system/server/internal/jobs/domain"
	"glovebox/system/server/internal/storage/fs"
	"glovebox/threat-model/evidence"
)

func TestOnlyTheOwnerReadsAFinishedResult(t *testing.T) {
	evidence.Proves(t, "JOB-07", "AUT-06")
	k := setup(t)
	receipt := k.submit(t, "input")
	_, err := k.OpenResult(t.Context(), k.user, receipt.ID)
	wantCode(t, err, domain.CodeNotCompleted)
	fence, _ := k.claim(t)
	_, err = k.OpenResult(t.Context(), k.user, receipt.ID)
	wantCode(t, err, domain.CodeNotCompleted)
	if _, err := k.finish(t, fence, "out"); err != nil {
		t.Fatal(err)
	}
	result, err := k.OpenResult(t.Context(), k.user, receipt.ID)
	if err != nil {
		t.Fatal(err)
	}
	defer result.Content.Close()
	content, err := io.ReadAll(result.Content)
	if err != nil || string(content) != "out" || result.Size != 3 || result.SHA256 != *digest("out") || result.FileName != "a.lua" {
		t.Errorf("the result is %q, %+v, %v", content, result, err)
	}
	stranger := uuid.NewString()
	_, foreign := k.OpenResult(t.Context(), stranger, receipt.ID)
	_, missing := k.OpenResult(t.Context(), k.user, uuid.NewString())
	wantCode(t, foreign, domain.CodeNotFound)
	if foreign.Error() != missing.Error() {
		t.Errorf("a foreign result is %q, a missing one %q", foreign, missing)
	}
}

func TestAFailedJobHasNoResult(t *testing.T) {
	evidence.Proves(t, "JOB-07")
	k := setup(t)
	receipt := k.submit(t, "input")
	fence, _ := k.claim(t)
	if _, err := k.Fail(t.Context(), fence, "core_error", false, "", ""); err != nil {
		t.Fatal(err)
	}
	_, err := k.OpenResult(t.Context(), k.user, receipt.ID)
	wantCode(t, err, domain.CodeNotCompleted)
}

func TestAResultIsGoneAfterRetention(t *testing.T) {
	evidence.Proves(t, "JOB-05", "STO-05")
	k := setup(t)
	id := k.completed(t, "out")
	view := k.status(t, id)
	if view.ExpiresAt.Sub(view.UpdatedAt) != 7*24*time.Hour {
		t.Errorf("the job ended at %s and its result expires at %s", view.UpdatedAt, view.ExpiresAt)
	}
	k.store.Advance(7*24*time.Hour - time.Nanosecond)
	result, err := k.OpenResult(t.Context(), k.user, id)
	if err != nil {
		t.Fatalf("the last instant: %v", err)
	}
	_ = result.Content.Close()
	k.store.Advance(time.Nanosecond)
	_, err = k.OpenResult(t.Context(), k.user, id)
	wantCode(t, err, domain.CodeExpired)
	if k.status(t, id).Status != domain.Completed {
		t.Error("the status is gone too")
	}
}

func TestAPurgedResultIsGoneWhateverTheTime(t *testing.T) {
	evidence.Proves(t, "JOB-05")
	k := setup(t)
	id := k.completed(t, "out")
	k.store.Edit(id, func(j *domain.Job) { j.PurgedAt = j.TerminalAt })
	_, err := k.OpenResult(t.Context(), k.user, id)
	wantCode(t, err, domain.CodeExpired)
}

// sweptBetween purges a job between the look at its row and the opening of its
// bytes, as the sweeper may.
type sweptBetween struct {
	*flaky
	purge func()
}

func (s *sweptBetween) Open(ctx context.Context, key string) (io.ReadSeekCloser, error) {
	if s.purge != nil {
		s.purge()
		if err := s.Remove(ctx, key); err != nil {
			return nil, err
		}
	}
	return s.flaky.Open(ctx, key)
}

func TestAResultSweptInThatMomentIsGoneNotBroken(t *testing.T) {
	evidence.Proves(t, "JOB-05")
	var blobs *sweptBetween
	k := setup(t, func(p *jobs.Parts, _ *jobs.Settings) {
		blobs = &sweptBetween{flaky: p.Blobs.(*flaky)}
		p.Blobs = blobs
	})
	id := k.completed(t, "out")
	blobs.purge = func() { k.store.Edit(id, func(j *domain.Job) { j.PurgedAt = j.TerminalAt }) }
	_, err := k.OpenResult(t.Context(), k.user, id)
	wantCode(t, err, domain.CodeExpired)
}

// TestDamagedBytesAreNeverServed damages a stored result in every way a disk or
// a person can, before and after it was once found good.
func TestDamagedBytesAreNeverServed(t *testing.T) {
	evidence.Proves(t, "STO-04", "JOB-05")
	content := bytes.Repeat([]byte("0123456789abcdef"), 20)
	for name, damage := range map[string]func(t *testing.T, file string){
		"a flipped bit": func(t *testing.T, file string) {
			damaged := bytes.Clone(content)
			damaged[100] ^= 1
			write(t, file, damaged)
		},
		"a flipped bit with the old times": func(t *testing.T, file string) {
			info, err := os.Stat(file)
			if err != nil {
				t.Fatal(err)
			}
			damaged := bytes.Clone(content)
			damaged[100] ^= 1
			write(t, file, damaged)
			if err := os.Chtimes(file, info.ModTime(), info.ModTime()); err != nil {
				t.Fatal(err)
			}
		},
		"a lost end":    func(t *testing.T, file string) { write(t, file, content[:len(content)-1]) },
		"an added byte": func(t *testing.T, file string) { write(t, file, append(bytes.Clone(content), 'x')) },
		"an empty file": func(t *testing.T, file string) { write(t, file, nil) },
		"another file": func(t *testing.T, file string) {
			if err := os.Remove(file); err != nil {
				t.Fatal(err)
			}
			write(t, file, bytes.Repeat([]byte("x"), len(content)))
		},
		"no file": func(t *testing.T, file string) {
			if err := os.Remove(file); err != nil {
				t.Fatal(err)
			}
		},
	} {
		for _, readBefore := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				dir := filepath.Join(t.TempDir(), "storage")
				store, err := fs.New(dir, fs.Options{})
				if err != nil {
					t.Fatal(err)
				}
				defer store.Close()
				k := setup(t, func(p *jobs.Parts, _ *jobs.Settings) { p.Blobs = store })
				id := k.completed(t, string(content))
				if readBefore {
					for range 2 {
						result, err := k.OpenResult(t.Context(), k.user, id)
						if err != nil {
							t.Fatal(err)
						}
						_ = result.Content.Close()
					}
				}
				files, err := filepath.Glob(filepath.Join(dir, "objects", "*", "result~*"))
				if err != nil || len(files) != 1 {
					t.Fatalf("result files: %v, %v", files, err)
				}
				damage(t, files[0])
				result, err := k.OpenResult(t.Context(), k.user, id)
				if err == nil {
					_ = result.Content.Close()
					t.Fatal("damaged bytes were given out")
				}
				if domain.CodeOf(err) != "" {
					t.Errorf("damage is answered as %s", domain.CodeOf(err))
				}
			})
		}
	}
}

func write(t *testing.T, file string, content []byte) {
	t.Helper()
	if err := os.WriteFile(file, content, 0o600); err != nil {
		t.Fatal(err)
	}
}
