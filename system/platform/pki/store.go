package pki

import (
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"time"

	"glovebox/system/platform/clock"
	"glovebox/system/platform/secret"
)

// Store is one folder of authorities; see the package comment for its layout.
// It must be readable by the person who signs and by no service.
type Store struct {
	Dir string
	// Now is the clock; nil is clock.Now.
	Now func() time.Time
}

// Bundle is the file of certificates that peers of authority trust.
func (s Store) Bundle(authority Authority) string {
	return filepath.Join(s.Dir, string(authority)+"-bundle.crt")
}

func (s Store) now() time.Time {
	if s.Now != nil {
		return s.Now()
	}
	return clock.Now()
}

func (s Store) generationFile(authority Authority, generation int, suffix string) string {
	return filepath.Join(s.Dir, fmt.Sprintf("%s-%d.%s", authority, generation, suffix))
}

// Init makes the folder and the authorities that are missing, and returns the
// names of the files it wrote; none when everything was there. It overwrites
// nothing.
func (s Store) Init() ([]string, error) {
	if err := os.MkdirAll(s.Dir, modeFolder); err != nil {
		return nil, fmt.Errorf("make folder %s: %w", s.Dir, err)
	}
	var written []string
	for _, authority := range []Authority{Public, Internal} {
		complete, _, err := s.generations(authority)
		if err != nil {
			return written, err
		}
		if len(complete) > 0 {
			repaired, err := s.repairBundle(authority, complete)
			if err != nil {
				return written, err
			}
			written = append(written, repaired...)
			continue
		}
		files, err := s.addGeneration(authority)
		if err != nil {
			return written, err
		}
		written = append(written, files...)
	}
	return written, nil
}

// repairBundle writes a bundle that went missing.
func (s Store) repairBundle(authority Authority, complete []int) ([]string, error) {
	if _, err := os.Stat(s.Bundle(authority)); !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var certs []*x509.Certificate
	for _, generation := range complete {
		p, err := s.load(authority, generation)
		if err != nil {
			return nil, err
		}
		certs = append(certs, p.cert)
	}
	err := createFile(s.Bundle(authority), encodeCertificates(certs...), modeCert)
	return []string{s.Bundle(authority)}, err
}

// Rotate adds a generation to authority and puts it beside the old one in the
// bundle. From now on leaves are signed by the new one, and those of both
// verify. Only one rotation can be open.
func (s Store) Rotate(authority Authority) ([]string, error) {
	complete, _, err := s.generations(authority)
	if err != nil {
		return nil, err
	}
	if len(complete) == 0 {
		return nil, fmt.Errorf("rotate the %s in %s: %w; make one with pki init", authority, s.Dir, ErrNoAuthority)
	}
	if len(complete) > 1 {
		return nil, fmt.Errorf("rotate the %s in %s: %w; end it with pki init --finish-rotation once every certificate is renewed", authority, s.Dir, ErrRotating)
	}
	return s.addGeneration(authority)
}

// FinishRotation takes every generation but the newest out of the bundle and
// removes their files. Leaves of the old generations verify no more. It returns
// the names of the files that changed or went; none when no rotation was open.
func (s Store) FinishRotation(authority Authority) ([]string, error) {
	complete, _, err := s.generations(authority)
	if err != nil {
		return nil, err
	}
	if len(complete) == 0 {
		return nil, fmt.Errorf("finish the rotation of the %s in %s: %w; make one with pki init", authority, s.Dir, ErrNoAuthority)
	}
	newest := complete[len(complete)-1]
	p, err := s.load(authority, newest)
	if err != nil {
		return nil, err
	}
	var changed []string
	if len(complete) > 1 {
		if err := replaceFile(s.Bundle(authority), encodeCertificates(p.cert), modeCert); err != nil {
			return nil, err
		}
		changed = append(changed, s.Bundle(authority))
	}
	// Every older number is tried, so that a key left by a crash goes as well.
	for generation := 1; generation < newest; generation++ {
		// The key goes last: without its certificate a generation is incomplete,
		// with it and without a key it would be complete in name only.
		for _, suffix := range []string{"crt", "key"} {
			name := s.generationFile(authority, generation, suffix)
			err := os.Remove(name)
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err != nil {
				return changed, fmt.Errorf("remove %s: %w", name, err)
			}
			changed = append(changed, name)
		}
	}
	return changed, syncFolder(s.Dir)
}

// addGeneration makes the next generation: bundle first, then key, then
// certificate. The certificate makes it complete, and only a complete
// generation signs.
func (s Store) addGeneration(authority Authority) ([]string, error) {
	complete, highest, err := s.generations(authority)
	if err != nil {
		return nil, err
	}
	next := highest + 1
	p, err := newAuthority(authority, next, s.now())
	if err != nil {
		return nil, err
	}
	trusted := []*x509.Certificate{p.cert}
	for _, generation := range complete {
		older, err := s.load(authority, generation)
		if err != nil {
			return nil, err
		}
		trusted = append(trusted, older.cert)
	}
	key, err := encodeKey(p.key)
	if err != nil {
		return nil, err
	}
	if err := replaceFile(s.Bundle(authority), encodeCertificates(trusted...), modeCert); err != nil {
		return nil, err
	}
	keyFile, certFile := s.generationFile(authority, next, "key"), s.generationFile(authority, next, "crt")
	if err := createFile(keyFile, key, modeKey); err != nil {
		return nil, err
	}
	if err := createFile(certFile, encodeCertificates(p.cert), modeCert); err != nil {
		return nil, err
	}
	return []string{certFile, keyFile, s.Bundle(authority)}, nil
}

var generationForm = regexp.MustCompile(`^(public-ca|internal-ca)-([1-9][0-9]{0,5})\.(crt|key)$`)

// generations lists the complete generations of authority in rising order, and
// the highest number in use, complete or not.
func (s Store) generations(authority Authority) (complete []int, highest int, err error) {
	entries, err := os.ReadDir(s.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, 0, fmt.Errorf("look into %s: %w; make it with pki init --dir", s.Dir, ErrNoAuthority)
	}
	if err != nil {
		return nil, 0, fmt.Errorf("look into %s: %w", s.Dir, err)
	}
	for _, entry := range entries {
		parts := generationForm.FindStringSubmatch(entry.Name())
		if parts == nil || parts[1] != string(authority) {
			continue
		}
		n, err := strconv.Atoi(parts[2])
		if err != nil {
			return nil, 0, fmt.Errorf("read the generation of %s: %w", entry.Name(), err)
		}
		highest = max(highest, n)
		if parts[3] == "crt" {
			complete = append(complete, n)
		}
	}
	slices.Sort(complete)
	return complete, highest, nil
}

// signer loads the newest complete generation.
func (s Store) signer(authority Authority) (pair, error) {
	complete, _, err := s.generations(authority)
	if err != nil {
		return pair{}, err
	}
	if len(complete) == 0 {
		return pair{}, fmt.Errorf("sign with the %s in %s: %w; make one with pki init", authority, s.Dir, ErrNoAuthority)
	}
	return s.load(authority, complete[len(complete)-1])
}

func (s Store) load(authority Authority, generation int) (pair, error) {
	certFile := s.generationFile(authority, generation, "crt")
	text, err := os.ReadFile(certFile)
	if err != nil {
		return pair{}, fmt.Errorf("read the authority: %w", err)
	}
	certs, err := ParseCertificates(text)
	if err != nil {
		return pair{}, fmt.Errorf("read %s: %w", certFile, err)
	}
	keyFile := s.generationFile(authority, generation, "key")
	keyText, err := secret.ReadFile(keyFile)
	if err != nil {
		return pair{}, fmt.Errorf("read the authority's key: %w", err)
	}
	key, err := parseKey([]byte(keyText.Reveal()))
	if err != nil {
		return pair{}, fmt.Errorf("read %s: %w", keyFile, err)
	}
	if !key.PublicKey.Equal(certs[0].PublicKey) {
		return pair{}, fmt.Errorf("%s and %s do not belong together; restore both from the same backup", certFile, keyFile)
	}
	return pair{cert: certs[0], key: key}, nil
}
