package local

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"glovebox/system/platform/pki"
)

// Identities that no running process uses, for tests that play a worker.
var (
	spareWorkers = []string{"spare-1", "spare-2"}
	outsider     = "outsider" // signed by the right CA, on no list
)

// logins of the two people.
var logins = []string{"alice", "bob"}

// makeCertificates makes both authorities and every leaf. The authorities' keys
// stay with root; each leaf's key belongs to the uid that uses it.
func (s *System) makeCertificates() error {
	store := pki.Store{Dir: s.path("pki")}
	if _, err := store.Init(); err != nil {
		return err
	}
	issue := func(kind pki.Kind, signer pki.Authority, id, dir string, uid int) error {
		issued, err := store.Issue(pki.Request{Kind: kind, Signer: signer, ID: id}, s.path(dir))
		if err != nil {
			return err
		}
		return s.giveTo(uid, issued.Cert, issued.Key)
	}
	for _, signer := range []pki.Authority{pki.Public, pki.Internal} {
		if err := issue(pki.Server, signer, "main", "tls/server", uids["server"]); err != nil {
			return err
		}
	}
	for i := range s.opts.Workers {
		if err := issue(pki.Worker, pki.Internal, workerID(i), "tls/worker", uids["worker"]); err != nil {
			return err
		}
	}
	for _, id := range append([]string{outsider}, spareWorkers...) {
		if err := issue(pki.Worker, pki.Internal, id, "tls/spare", 0); err != nil {
			return err
		}
	}
	if err := issue(pki.Ingest, pki.Internal, "main", "tls/spare", 0); err != nil {
		return err
	}
	for from, to := range map[string]string{store.Bundle(pki.Public): "tls/public-bundle.crt", store.Bundle(pki.Internal): "tls/internal-bundle.crt"} {
		content, err := os.ReadFile(from)
		if err != nil {
			return err
		}
		if err := os.WriteFile(s.path(to), content, 0o644); err != nil {
			return err
		}
	}
	// The folders last: while root writes in one, it is nobody else's, so that no
	// link can be put in the way by another system's process of the same uid.
	return errors.Join(s.giveTo(uids["server"], s.path("tls/server")), s.giveTo(uids["worker"], s.path("tls/worker")))
}

// giveTo makes uid the owner of the paths where the caller may do so.
func (s *System) giveTo(uid int, paths ...string) error {
	if os.Getuid() != 0 {
		return nil
	}
	for _, p := range paths {
		if err := os.Chown(p, uid, uid); err != nil {
			return fmt.Errorf("give a file to its process: %w", err)
		}
	}
	return nil
}

// writeSecret writes a file that only uid can read.
func (s *System) writeSecret(name, content string, uid int) error {
	path := s.path(filepath.Join("secrets", name))
	if err := os.WriteFile(path, []byte(content+"\n"), 0o600); err != nil {
		return err
	}
	return s.giveTo(uid, path)
}

// admin runs a subcommand of glovebox-server as its operator.
func (s *System) admin(ctx context.Context, stdin string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, s.binary("glovebox-server"), append(args, "--config", s.path("etc/server-0.toml"))...)
	cmd.Stdin = strings.NewReader(stdin)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("glovebox-server %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(stderr.String()))
	}
	return string(out), nil
}

// makePeople makes the users and the workers' list.
func (s *System) makePeople(ctx context.Context) error {
	for _, login := range logins {
		password := make([]byte, 16)
		_, _ = rand.Read(password) // never fails
		file := s.path(filepath.Join("users", login+".password"))
		if err := os.WriteFile(file, []byte(hex.EncodeToString(password)+"\n"), 0o600); err != nil {
			return err
		}
		if _, err := s.admin(ctx, "", "user", "add", login, "--password-file", file); err != nil {
			return err
		}
	}
	allowed := append([]string{}, spareWorkers...)
	for i := range s.opts.Workers {
		allowed = append(allowed, workerID(i))
	}
	for _, id := range allowed {
		if _, err := s.admin(ctx, "", "worker", "add", id); err != nil {
			return err
		}
	}
	return nil
}
