package recovery

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"glovebox/system/server/internal/storage/fs"
)

// Format is the layout of a backup that this package writes and reads.
const Format = 1

// The first schema version that knows of restores: an older one cannot be paused.
const firstRestorable = 9

// Names below a backup's folder. files/ is a store of its own (package fs), so
// that what holds for stored bytes (plain files, odd names, syncs) holds here too.
const (
	manifestName = "manifest.json"
	dumpName     = "database.dump" // pg_dump's custom format
	listName     = "files.jsonl"   // one Entry a line, by key
	rightsName   = "rights.txt"    // one line a role, grant or setting, in order
	filesFolder  = "files"
)

// Manifest says what a backup holds and what it was taken of. It stands for the
// whole: every other file is named in it, or in the list that it names, with size
// and SHA-256, and Digest is over itself.
type Manifest struct {
	Format  int       `json:"format"`
	ID      string    `json:"id"`       // UUID
	TakenAt time.Time `json:"taken_at"` // of the snapshot, by the database's clock
	// SchemaVersion is the highest migration applied.
	SchemaVersion int64  `json:"schema_version"`
	Server        string `json:"server_version"` // of PostgreSQL
	Snapshot      string `json:"snapshot"`       // under which dump, counts and list were read

	Database Part `json:"database"`
	Rights   Part `json:"rights"`
	List     Part `json:"list"`
	// Files and Bytes count the list's entries, Damaged those whose bytes were not
	// what their row says, which a backup holds no copy of.
	Files   int64 `json:"files"`
	Bytes   int64 `json:"bytes"`
	Damaged int64 `json:"damaged"`

	Rows map[string]int64 `json:"rows"` // of each table
	Jobs map[string]int64 `json:"jobs"` // of each status

	// Digest is the SHA-256, in hex, of this document with Digest empty.
	Digest string `json:"digest"`
}

// Part is one file of a backup.
type Part struct {
	Name   string `json:"name"`
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
}

// Entry is one stored file: what its row says of it.
type Entry struct {
	Key     string `json:"key"`
	Size    int64  `json:"size"`
	SHA256  string `json:"sha256"`
	Damaged string `json:"damaged,omitempty"` // why no copy is here, "" where one is
}

func (m Manifest) digest() (string, []byte, error) {
	m.Digest = ""
	text, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return "", nil, fmt.Errorf("encode the manifest: %w", err)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:]), text, nil
}

// seal sets the digest and returns the document.
func (m *Manifest) seal() ([]byte, error) {
	digest, _, err := m.digest()
	if err != nil {
		return nil, err
	}
	m.Digest = digest
	text, err := json.MarshalIndent(m, "", "  ")
	return append(text, '\n'), err
}

// Source is an opened backup.
type Source struct {
	Manifest Manifest
	root     *os.Root
	dir      string
	files    *fs.Store
}

// maxManifest bounds what is read before anything is verified.
const maxManifest = 1 << 20

// Open opens the backup at dir and judges its manifest, not yet its files. digest,
// where not empty, is what the manifest's digest must be.
func Open(dir, digest string) (*Source, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("open the backup: %w", err)
	}
	s := &Source{root: root, dir: dir}
	if err := s.readManifest(digest); err != nil {
		return nil, errors.Join(err, root.Close())
	}
	if s.files, err = fs.New(dir+"/"+filesFolder, fs.Options{Existing: true}); err != nil {
		return nil, errors.Join(fmt.Errorf("open the backup's files: %w", err), root.Close())
	}
	return s, nil
}

// Close lets the backup go.
func (s *Source) Close() error { return errors.Join(s.files.Close(), s.root.Close()) }

func (s *Source) readManifest(digest string) error {
	f, err := s.root.Open(manifestName)
	if err != nil {
		return fmt.Errorf("the folder is no whole backup; one that was cut off has no manifest: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxManifest))
	if err != nil {
		return fmt.Errorf("read the manifest: %w", err)
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&s.Manifest); err != nil {
		return fmt.Errorf("the backup's manifest is not one of this format: %w", err)
	}
	m := s.Manifest
	if m.Format != Format {
		return fmt.Errorf("the backup is of format %d and this binary reads %d; use the release that made it", m.Format, Format)
	}
	own, _, err := m.digest()
	if err != nil {
		return err
	}
	if own != m.Digest {
		return errors.New("the backup's manifest was changed after it was written: its digest does not fit; use another backup")
	}
	if digest != "" && digest != m.Digest {
		return fmt.Errorf("this is another backup: its digest is %s, wanted %s", m.Digest, digest)
	}
	for _, p := range []struct{ part, want string }{{m.Database.Name, dumpName}, {m.Rights.Name, rightsName}, {m.List.Name, listName}} {
		if p.part != p.want {
			return fmt.Errorf("the manifest names the file %q where %s is wanted", p.part, p.want)
		}
	}
	return nil
}

// checkPart compares a file of the backup with the manifest.
func (s *Source) checkPart(part Part) error {
	f, err := s.root.Open(part.Name)
	if err != nil {
		return fmt.Errorf("open %s of the backup: %w", part.Name, err)
	}
	defer f.Close()
	hash := sha256.New()
	size, err := io.Copy(hash, f)
	if err != nil {
		return fmt.Errorf("read %s of the backup: %w", part.Name, err)
	}
	if size != part.Size || hex.EncodeToString(hash.Sum(nil)) != part.SHA256 {
		return fmt.Errorf("%s of the backup is not what the manifest says (%d bytes, wanted %d with SHA-256 %s); use another backup", part.Name, size, part.Size, part.SHA256)
	}
	return nil
}

// Entries calls each for every line of the list, in order. Keys must rise, so that
// none comes twice.
func (s *Source) Entries(each func(Entry) error) error {
	f, err := s.root.Open(listName)
	if err != nil {
		return fmt.Errorf("open the list of files: %w", err)
	}
	defer f.Close()
	return readEntries(f, each)
}

// maxLine bounds a line of the list: a key, a number, a digest, a reason.
const maxLine = 64 << 10

func readEntries(r io.Reader, each func(Entry) error) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 0, 4<<10), maxLine)
	last := ""
	for lines.Scan() {
		var e Entry
		dec := json.NewDecoder(bytes.NewReader(lines.Bytes()))
		dec.DisallowUnknownFields()
		if err := dec.Decode(&e); err != nil {
			return fmt.Errorf("the list of files has a line of another form: %w", err)
		}
		if e.Key <= last {
			return fmt.Errorf("the list of files is not in order at %s", e.Key)
		}
		last = e.Key
		if err := each(e); err != nil {
			return err
		}
	}
	return lines.Err()
}

// Verify compares every byte of the backup with its manifest and list. progress
// is told each file.
func (s *Source) Verify(progress func(Entry)) error {
	for _, part := range []Part{s.Manifest.Database, s.Manifest.Rights, s.Manifest.List} {
		if err := s.checkPart(part); err != nil {
			return err
		}
	}
	var files, size, damaged int64
	err := s.Entries(func(e Entry) error {
		files++
		size += e.Size
		if e.Damaged != "" {
			damaged++
			return nil
		}
		if why, err := compare(s.files, e); err != nil {
			return fmt.Errorf("read %s of the backup: %w", e.Key, err)
		} else if why != "" {
			return fmt.Errorf("%s of the backup: %s; use another backup", e.Key, why)
		}
		progress(e)
		return nil
	})
	if err != nil {
		return err
	}
	if m := s.Manifest; files != m.Files || size != m.Bytes || damaged != m.Damaged {
		return fmt.Errorf("the list names %d files of %d bytes, %d damaged; the manifest says %d of %d, %d", files, size, damaged, m.Files, m.Bytes, m.Damaged)
	}
	return nil
}
