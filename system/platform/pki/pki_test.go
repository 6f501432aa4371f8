package pki_test

import (
	"bytes"
	"crypto/x509"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"glovebox/system/platform/pki"
	"glovebox/system/platform/pki/pkitest"
	"glovebox/threat-model/evidence"
)

func read(t *testing.T, file string) []*x509.Certificate {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	certs, err := pki.ParseCertificates(text)
	if err != nil {
		t.Fatal(err)
	}
	return certs
}

func verify(leaf *x509.Certificate, pool *x509.CertPool, usage x509.ExtKeyUsage) error {
	_, err := leaf.Verify(x509.VerifyOptions{Roots: pool, KeyUsages: []x509.ExtKeyUsage{usage}})
	return err
}

func TestAuthoritiesMaySignLeavesOnly(t *testing.T) {
	t.Parallel()
	evidence.Proves(t, "MTL-01")
	in := pkitest.New(t)
	for _, authority := range []pki.Authority{pki.Public, pki.Internal} {
		certs := read(t, in.Bundle(authority))
		if len(certs) != 1 {
			t.Fatalf("%s: the bundle holds %d certificates, want 1", authority, len(certs))
		}
		ca := certs[0]
		if !ca.IsCA || ca.MaxPathLen != 0 || !ca.MaxPathLenZero {
			t.Errorf("%s: IsCA %v, path length %d: it could sign another authority", authority, ca.IsCA, ca.MaxPathLen)
		}
		if ca.KeyUsage != x509.KeyUsageCertSign|x509.KeyUsageCRLSign || len(ca.ExtKeyUsage) != 0 {
			t.Errorf("%s: key usage %v, extended %v", authority, ca.KeyUsage, ca.ExtKeyUsage)
		}
	}
	if err := read(t, in.Bundle(pki.Internal))[0].CheckSignatureFrom(read(t, in.Bundle(pki.Public))[0]); err == nil {
		t.Error("the public authority vouches for the internal one")
	}
}

func TestLeafSaysExactlyWhatItIsFor(t *testing.T) {
	t.Parallel()
	evidence.Proves(t, "MTL-01", "MTL-02", "MTL-06")
	in := pkitest.New(t)
	rows := []struct {
		name   string
		req    pki.Request
		signer pki.Authority
		usage  x509.ExtKeyUsage
		sans   []string
	}{
		{"public server", pki.Request{Kind: pki.Server, Signer: pki.Public, ID: "a", DNS: []string{"box.example", "localhost"}, IPs: []net.IP{net.IPv4(10, 0, 0, 7)}},
			pki.Public, x509.ExtKeyUsageServerAuth, []string{"DNS:localhost", "DNS:box.example", "IP:127.0.0.1", "IP:::1", "IP:10.0.0.7"}},
		{"internal server", pki.Request{Kind: pki.Server, Signer: pki.Internal, ID: "a"},
			pki.Internal, x509.ExtKeyUsageServerAuth, []string{"DNS:localhost", "IP:127.0.0.1", "IP:::1"}},
		{"worker", pki.Request{Kind: pki.Worker, ID: "w-1"}, pki.Internal, x509.ExtKeyUsageClientAuth, []string{"URI:spiffe://glovebox/worker/w-1"}},
		{"ingest", pki.Request{Kind: pki.Ingest, ID: "i-1"}, pki.Internal, x509.ExtKeyUsageClientAuth, []string{"URI:spiffe://glovebox/ingest/i-1"}},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			before := time.Now()
			issued, err := in.Issue(row.req, t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			leaf := read(t, issued.Cert)[0]
			if leaf.IsCA || leaf.KeyUsage != x509.KeyUsageDigitalSignature || !slices.Equal(leaf.ExtKeyUsage, []x509.ExtKeyUsage{row.usage}) {
				t.Errorf("IsCA %v, key usage %v, extended %v", leaf.IsCA, leaf.KeyUsage, leaf.ExtKeyUsage)
			}
			if !slices.Equal(issued.SANs, row.sans) {
				t.Errorf("names %q, want %q", issued.SANs, row.sans)
			}
			if n := leaf.SerialNumber.BitLen(); n > 128 || n < 96 {
				t.Errorf("the serial number has %d bits, want 128 random ones", n)
			}
			if early := before.Sub(leaf.NotBefore); early < pki.BackDate-time.Second || early > pki.BackDate+time.Minute {
				t.Errorf("starts %s early, want %s", early, pki.BackDate)
			}
			if life := leaf.NotAfter.Sub(before); life < pki.DefaultLife-time.Minute || life > pki.DefaultLife+time.Minute {
				t.Errorf("lives %s, want %s", life, pki.DefaultLife)
			}
			other := x509.ExtKeyUsageServerAuth
			if row.usage == other {
				other = x509.ExtKeyUsageClientAuth
			}
			if err := verify(leaf, in.Pool(row.signer), row.usage); err != nil {
				t.Errorf("does not verify for its use: %v", err)
			}
			if verify(leaf, in.Pool(row.signer), other) == nil {
				t.Error("verifies for the other use too")
			}
			wrong := pki.Public
			if row.signer == wrong {
				wrong = pki.Internal
			}
			if verify(leaf, in.Pool(wrong), row.usage) == nil {
				t.Error("the other authority vouches for it too")
			}
			info, err := os.Stat(issued.Key)
			if err != nil {
				t.Fatal(err)
			}
			if info.Mode().Perm() != 0o600 {
				t.Errorf("the key's mode is %04o, want 0600", info.Mode().Perm())
			}
		})
	}
}

func TestRequestsThatAreRefused(t *testing.T) {
	t.Parallel()
	in := pkitest.New(t)
	rows := map[string]struct {
		req  pki.Request
		says string
	}{
		"no name":           {pki.Request{Kind: pki.Worker}, "not usable"},
		"upper case":        {pki.Request{Kind: pki.Worker, ID: "W1"}, "not usable"},
		"path":              {pki.Request{Kind: pki.Worker, ID: "../w"}, "not usable"},
		"percent":           {pki.Request{Kind: pki.Worker, ID: "a%2f"}, "not usable"},
		"line break":        {pki.Request{Kind: pki.Worker, ID: "a\n"}, "not usable"},
		"64 letters":        {pki.Request{Kind: pki.Worker, ID: strings.Repeat("a", 64)}, "not usable"},
		"unknown kind":      {pki.Request{Kind: "root", ID: "a"}, "unknown"},
		"server of nobody":  {pki.Request{Kind: pki.Server, ID: "a"}, "unknown"},
		"worker with host":  {pki.Request{Kind: pki.Worker, ID: "a", DNS: []string{"a"}}, "no host name"},
		"wildcard":          {pki.Request{Kind: pki.Server, Signer: pki.Public, ID: "a", DNS: []string{"*.example"}}, "wildcard"},
		"address as a name": {pki.Request{Kind: pki.Server, Signer: pki.Public, ID: "a", DNS: []string{"10.0.0.1"}}, "host name"},
		"life too short":    {pki.Request{Kind: pki.Worker, ID: "a", Life: time.Second}, "out of range"},
		"life too long":     {pki.Request{Kind: pki.Worker, ID: "a", Life: 400 * 24 * time.Hour}, "out of range"},
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			_, err := in.Issue(row.req, dir)
			if err == nil || !strings.Contains(err.Error(), row.says) {
				t.Fatalf("got %v, want an error with %q", err, row.says)
			}
			if left, _ := os.ReadDir(dir); len(left) != 0 {
				t.Errorf("left %d files behind", len(left))
			}
		})
	}
}

func TestNothingIsOverwrittenUnasked(t *testing.T) {
	t.Parallel()
	in := pkitest.New(t)
	before := snapshot(t, in.Dir)
	written, err := in.Init()
	if err != nil || len(written) != 0 {
		t.Fatalf("a second init wrote %q (error %v)", written, err)
	}
	if !sameFiles(before, snapshot(t, in.Dir)) {
		t.Error("a second init changed the folder")
	}
	out := t.TempDir()
	req := pki.Request{Kind: pki.Worker, ID: "w"}
	if _, err := in.Issue(req, out); err != nil {
		t.Fatal(err)
	}
	first := snapshot(t, out)
	if _, err := in.Issue(req, out); !errors.Is(err, pki.ErrExists) {
		t.Fatalf("issued over an existing pair: %v", err)
	}
	if err := os.Remove(filepath.Join(out, "worker-w.crt")); err != nil {
		t.Fatal(err)
	}
	if _, err := in.Issue(req, out); !errors.Is(err, pki.ErrExists) {
		t.Fatalf("issued over an existing key: %v", err)
	}
	if !bytes.Equal(first["worker-w.key"], snapshot(t, out)["worker-w.key"]) {
		t.Error("the key was overwritten")
	}
}

func TestRenewKeepsTheIdentityAndChangesTheKey(t *testing.T) {
	t.Parallel()
	evidence.Proves(t, "MTL-05")
	in := pkitest.New(t)
	certFile, keyFile := in.At(time.Now().Add(-40 * 24 * time.Hour)).Worker("w-1")
	if err := os.Chmod(keyFile, 0o640); err != nil {
		t.Fatal(err)
	}
	old, oldKey := read(t, certFile)[0], snapshot(t, filepath.Dir(keyFile))["worker-w-1.key"]
	if old.NotAfter.After(time.Now()) {
		t.Fatal("the old certificate should have expired")
	}
	if due, err := in.Due(certFile, 0); err != nil || !due {
		t.Errorf("an expired certificate is not due: %v %v", due, err)
	}
	if _, err := in.Renew(certFile); err != nil {
		t.Fatal(err)
	}
	renewed := read(t, certFile)[0]
	if renewed.URIs[0].String() != old.URIs[0].String() || renewed.Subject.CommonName != old.Subject.CommonName {
		t.Errorf("identity changed from %v to %v", old.URIs, renewed.URIs)
	}
	if bytes.Equal(renewed.RawSubjectPublicKeyInfo, old.RawSubjectPublicKeyInfo) || renewed.SerialNumber.Cmp(old.SerialNumber) == 0 {
		t.Error("the key or the serial number was kept")
	}
	if bytes.Equal(oldKey, snapshot(t, filepath.Dir(keyFile))["worker-w-1.key"]) {
		t.Error("the key file was kept")
	}
	if got, want := renewed.NotAfter.Sub(renewed.NotBefore), old.NotAfter.Sub(old.NotBefore); got != want {
		t.Errorf("the length of life changed from %s to %s", want, got)
	}
	in.Pair(certFile, keyFile)
	if info, err := os.Stat(keyFile); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("the key's mode changed to %v (%v)", info.Mode(), err)
	}
	if due, err := in.Due(certFile, 10*24*time.Hour); err != nil || due {
		t.Errorf("a renewed certificate is due: %v %v", due, err)
	}
}

func TestRenewRefusesWhatIsNotOurs(t *testing.T) {
	t.Parallel()
	in, foreign := pkitest.New(t), pkitest.New(t)
	certFile, _ := foreign.Worker("w-1")
	before := snapshot(t, filepath.Dir(certFile))
	if _, err := in.Renew(certFile); !errors.Is(err, pki.ErrForeign) {
		t.Fatalf("renewed a foreign certificate: %v", err)
	}
	if !sameFiles(before, snapshot(t, filepath.Dir(certFile))) {
		t.Error("a refused renewal changed the files")
	}
	if _, err := in.Renew(filepath.Join(in.Dir, "internal-ca-1.crt")); err == nil || !strings.Contains(err.Error(), "authority") {
		t.Fatalf("renewed an authority: %v", err)
	}
}

func TestRotationOverlaps(t *testing.T) {
	t.Parallel()
	evidence.Proves(t, "MTL-05")
	in := pkitest.New(t)
	oldFile, _ := in.Worker("w-old")
	if _, err := in.Rotate(pki.Internal); err != nil {
		t.Fatal(err)
	}
	if _, err := in.Rotate(pki.Internal); !errors.Is(err, pki.ErrRotating) {
		t.Fatalf("a second rotation was let in: %v", err)
	}
	newFile, _ := in.Worker("w-new")
	oldLeaf, newLeaf := read(t, oldFile)[0], read(t, newFile)[0]
	overlap := in.Pool(pki.Internal)
	for name, leaf := range map[string]*x509.Certificate{"old": oldLeaf, "new": newLeaf} {
		if err := verify(leaf, overlap, x509.ExtKeyUsageClientAuth); err != nil {
			t.Errorf("%s leaf during the overlap: %v", name, err)
		}
	}
	if _, err := in.FinishRotation(pki.Internal); err != nil {
		t.Fatal(err)
	}
	after := in.Pool(pki.Internal)
	if verify(oldLeaf, after, x509.ExtKeyUsageClientAuth) == nil {
		t.Error("a leaf of the old generation still verifies")
	}
	if err := verify(newLeaf, after, x509.ExtKeyUsageClientAuth); err != nil {
		t.Errorf("new leaf after the rotation: %v", err)
	}
	for _, name := range []string{"internal-ca-1.crt", "internal-ca-1.key"} {
		if _, err := os.Stat(filepath.Join(in.Dir, name)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is still there", name)
		}
	}
	if changed, err := in.FinishRotation(pki.Internal); err != nil || len(changed) != 0 {
		t.Errorf("finishing twice: %q, %v", changed, err)
	}
	if _, err := in.Rotate(pki.Internal); err != nil {
		t.Errorf("the next rotation: %v", err)
	}
}

// A rotation cut off after each of its writes leaves a folder that signs, with a
// bundle that verifies what it signed, and that can be rotated.
func TestRotationSurvivesACrash(t *testing.T) {
	t.Parallel()
	evidence.Proves(t, "MTL-05")
	for name, lose := range map[string][]string{
		"before the certificate": {"internal-ca-2.crt"},
		"before the key":         {"internal-ca-2.crt", "internal-ca-2.key"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := pkitest.New(t)
			if _, err := in.Rotate(pki.Internal); err != nil {
				t.Fatal(err)
			}
			for _, file := range lose {
				if err := os.Remove(filepath.Join(in.Dir, file)); err != nil {
					t.Fatal(err)
				}
			}
			certFile, _ := in.Worker("w")
			if err := verify(read(t, certFile)[0], in.Pool(pki.Internal), x509.ExtKeyUsageClientAuth); err != nil {
				t.Errorf("a leaf signed after the crash: %v", err)
			}
			if _, err := in.Rotate(pki.Internal); err != nil {
				t.Fatalf("rotating again: %v", err)
			}
			if _, err := in.FinishRotation(pki.Internal); err != nil {
				t.Fatalf("finishing: %v", err)
			}
			if keys, _ := filepath.Glob(filepath.Join(in.Dir, "internal-ca-*.key")); len(keys) != 1 {
				t.Errorf("keys left behind: %q", keys)
			}
		})
	}
}

func TestLeafNeverOutlastsItsSigner(t *testing.T) {
	t.Parallel()
	in := pkitest.New(t)
	end := read(t, in.Bundle(pki.Internal))[0].NotAfter
	certFile, _ := in.At(end.Add(-time.Hour)).Worker("late")
	if leaf := read(t, certFile)[0]; leaf.NotAfter.After(end) {
		t.Errorf("ends on %s, after its signer on %s", leaf.NotAfter, end)
	}
	if _, err := in.At(end.Add(time.Second)).Issue(pki.Request{Kind: pki.Worker, ID: "later"}, t.TempDir()); err == nil || !strings.Contains(err.Error(), "rotate") {
		t.Errorf("an expired authority signed: %v", err)
	}
}

func TestAKeyThatEveryoneCanReadSignsNothing(t *testing.T) {
	t.Parallel()
	in := pkitest.New(t)
	if err := os.Chmod(filepath.Join(in.Dir, "internal-ca-1.key"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := in.Issue(pki.Request{Kind: pki.Worker, ID: "w"}, t.TempDir()); err == nil || !strings.Contains(err.Error(), "chmod") {
		t.Fatalf("got %v, want a refusal that names the remedy", err)
	}
}

func TestShowWarnsBeforeTheEnd(t *testing.T) {
	t.Parallel()
	in := pkitest.New(t)
	certFile, _ := in.Worker("w")
	end := read(t, certFile)[0].NotAfter
	for want, now := range map[string]time.Time{
		"":        end.Add(-pki.WarnBefore - time.Hour),
		"ends in": end.Add(-pki.WarnBefore + time.Hour),
		"expired": end,
	} {
		infos, err := in.At(now).Show(certFile)
		if err != nil {
			t.Fatal(err)
		}
		if got := infos[0].Warning; (want == "") != (got == "") || !strings.Contains(got, want) {
			t.Errorf("at %s: warning %q, want %q", now, got, want)
		}
	}
	infos, err := in.Show(in.Dir)
	if err != nil || len(infos) != 4 { // two authorities and their two bundles
		t.Errorf("show of the folder: %d lines, %v", len(infos), err)
	}
	if _, err := in.Show(t.TempDir()); err == nil {
		t.Error("an empty folder was shown as fine")
	}
}

func snapshot(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	files := make(map[string][]byte)
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		content, err := os.ReadFile(filepath.Join(dir, entry.Name()))
		if err != nil {
			t.Fatal(err)
		}
		files[entry.Name()] = content
	}
	return files
}

func sameFiles(a, b map[string][]byte) bool {
	if len(a) != len(b) {
		return false
	}
	for name, content := range a {
		if !bytes.Equal(content, b[name]) {
			return false
		}
	}
	return true
}
