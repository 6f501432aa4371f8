package pki_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"glovebox/system/platform/pki"
	"glovebox/system/platform/pki/pkitest"
	"glovebox/threat-model/evidence"
)

// A leaf's files belong to the service that uses them, so a service that was
// taken over chooses what stands in them when root renews. Certificates are no
// secret: every peer sees the server's. It must not get a key for one.
func TestRenewGivesNobodyAnIdentityItDoesNotHold(t *testing.T) {
	t.Parallel()
	evidence.Proves(t, "MTL-02", "MTL-05")
	in := pkitest.New(t)
	serverCert, _ := in.InternalServer()
	otherCert, _ := in.Worker("w-2")
	ingestCert, _ := in.Ingest("main")
	for name, foreign := range map[string]string{"server": serverCert, "another worker": otherCert, "ingest": ingestCert} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			certFile, keyFile := in.Worker("w-1")
			content, err := os.ReadFile(foreign)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(certFile, content, 0o644); err != nil {
				t.Fatal(err)
			}
			before := snapshot(t, filepath.Dir(certFile))
			if _, err := in.Renew(certFile); !errors.Is(err, pki.ErrNotHeld) {
				t.Errorf("renewed %s's identity with worker w-1's key: %v", name, err)
			}
			if !sameFiles(before, snapshot(t, filepath.Dir(certFile))) {
				t.Error("a refused renewal changed the files")
			}
			if err := os.Remove(keyFile); err != nil {
				t.Fatal(err)
			}
			if _, err := in.Renew(certFile); !errors.Is(err, pki.ErrNotHeld) {
				t.Errorf("renewed %s's identity without a key: %v", name, err)
			}
		})
	}
}

// What a renewal leaves that died between its two files: the new key, the old
// certificate, and the old key beside it.
func TestRenewMendsARenewalThatWasCutOff(t *testing.T) {
	t.Parallel()
	evidence.Proves(t, "MTL-05")
	in := pkitest.New(t)
	certFile, keyFile := in.Worker("w-1")
	_, newKey := in.Worker("w-1")
	if err := errors.Join(os.Rename(keyFile, keyFile+".old"), os.Rename(newKey, keyFile)); err != nil {
		t.Fatal(err)
	}
	if _, err := in.Renew(certFile); err != nil {
		t.Fatal(err)
	}
	in.Pair(certFile, keyFile)
	if files := snapshot(t, filepath.Dir(certFile)); len(files) != 2 {
		t.Errorf("the folder holds %d files after the renewal, wanted the pair alone", len(files))
	}
}

// The folder is the service's own: while root writes, it can put a link in the
// place of any name there. What root then gives away must not be what it leads to.
func TestRenewGivesAwayNothingButTheNewPair(t *testing.T) {
	t.Parallel()
	evidence.Proves(t, "MTL-05", "UPL-06")
	if os.Geteuid() != 0 {
		t.Fatal("this test renews for another user; run it as root")
	}
	const service = 61302
	in := pkitest.New(t)
	victim := filepath.Join(t.TempDir(), "root-only")
	if err := os.WriteFile(victim, []byte("not the service's"), 0o600); err != nil {
		t.Fatal(err)
	}
	for round := 0; round < 10; round++ {
		certFile, keyFile := in.Worker("w-1")
		dir := filepath.Dir(certFile)
		if err := errors.Join(os.Chown(dir, service, service), os.Chown(certFile, service, service), os.Chown(keyFile, service, service)); err != nil {
			t.Fatal(err)
		}
		stop := swapTemporaries(dir, victim)
		_, err := in.Renew(certFile)
		swapped := stop()
		info, statErr := os.Stat(victim)
		if statErr != nil {
			t.Fatal(statErr)
		}
		if owner := info.Sys().(*syscall.Stat_t).Uid; owner != 0 {
			t.Fatalf("round %d: the service owns root's file now (uid %d; renewal said %v)", round, owner, err)
		}
		if swapped {
			return // the race was run and won by the service, and gave it nothing
		}
	}
	t.Fatal("no temporary file was ever swapped: the attack was not made")
}

// swapTemporaries plays the service: each temporary file that appears in dir
// becomes a link to victim.
func swapTemporaries(dir, victim string) (stop func() (swapped bool)) {
	var (
		done    = make(chan struct{})
		running sync.WaitGroup
		swapped bool
	)
	running.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
			}
			entries, _ := os.ReadDir(dir)
			for _, e := range entries {
				if name := filepath.Join(dir, e.Name()); strings.HasPrefix(e.Name(), ".pki-") && e.Type().IsRegular() {
					link := filepath.Join(dir, "link")
					if os.Symlink(victim, link) == nil && os.Rename(link, name) == nil {
						swapped = true
					}
				}
			}
		}
	})
	return func() bool { close(done); running.Wait(); return swapped }
}

// A pipe in the place of a file would hold the renewal of everybody's for ever.
func TestRenewDoesNotWaitForAPipe(t *testing.T) {
	t.Parallel()
	evidence.Proves(t, "MTL-05")
	in := pkitest.New(t)
	for _, which := range []string{"certificate", "key"} {
		certFile, keyFile := in.Worker("w-1")
		pipe := map[string]string{"certificate": certFile, "key": keyFile}[which]
		if err := errors.Join(os.Remove(pipe), syscall.Mkfifo(pipe, 0o600)); err != nil {
			t.Fatal(err)
		}
		refused := make(chan error, 1)
		go func() {
			_, err := in.Renew(certFile)
			refused <- err
		}()
		select {
		case err := <-refused:
			if err == nil {
				t.Errorf("%s: renewed from a pipe", which)
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("%s: the renewal waits for a pipe", which)
		}
	}
}
