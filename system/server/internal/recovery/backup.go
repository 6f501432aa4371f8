package recovery

import (
	"bufio"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	iofs "io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sys/unix"

	"glovebox/system/platform/secret"
	"glovebox/system/server/internal/jobs/domain"
	"glovebox/system/server/internal/storage/fs"
)

// BackupOptions say what to take a backup of, and where to.
type BackupOptions struct {
	Login   secret.Text // role glovebox_backup
	Storage *fs.Store
	Out     string // a folder that does not exist yet
	// AllowDamaged notes files whose bytes are not what their row says and goes on.
	// Without it the first is an error: nobody should find out when he restores.
	AllowDamaged bool
	// Patience bounds the wait for a sweeper's round or another backup to end.
	Patience time.Duration
	// Progress is told what goes on; it may be called often.
	Progress func(Progress)
}

// Progress is how far a backup or restore has come.
type Progress struct {
	Stage   string `json:"stage"`
	Files   int64  `json:"files"`
	OfFiles int64  `json:"of_files"`
	Bytes   int64  `json:"bytes"`
	OfBytes int64  `json:"of_bytes"`
}

// backup is one in the making.
type backup struct {
	BackupOptions
	dir      string // under its temporary name
	manifest Manifest
	files    *fs.Store
}

// Backup writes a backup into o.Out, which it makes only when all is written and
// synced; whatever fails leaves nothing. Files that another process adds meanwhile
// are not in it, those that its snapshot names are, whole.
func Backup(ctx context.Context, o BackupOptions) (Manifest, error) {
	if _, err := os.Lstat(o.Out); err == nil {
		return Manifest{}, fmt.Errorf("%s exists already; name a folder that does not", o.Out)
	} else if !errors.Is(err, iofs.ErrNotExist) {
		return Manifest{}, fmt.Errorf("look at the backup's place: %w", err)
	}
	conn, err := connect(ctx, o.Login)
	if err != nil {
		return Manifest{}, err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	o.Progress(Progress{Stage: "waiting for sweepers"})
	if err := holdSweepers(ctx, conn, o.Patience); err != nil {
		return Manifest{}, err
	}
	b := &backup{BackupOptions: o}
	if err := b.begin(); err != nil {
		return Manifest{}, err
	}
	err = b.write(ctx, conn)
	if err == nil {
		err = b.place()
	}
	if err != nil {
		return Manifest{}, errors.Join(clearer(err, o.Out), os.RemoveAll(b.dir))
	}
	return b.manifest, nil
}

// begin makes the folder under a name that says that it is not whole.
func (b *backup) begin() error {
	random := make([]byte, 8)
	_, _ = rand.Read(random) // never fails
	b.dir = strings.TrimRight(b.Out, "/") + ".partial-" + hex.EncodeToString(random)
	if err := os.Mkdir(b.dir, 0o700); err != nil {
		return fmt.Errorf("make the backup's folder; its parent must exist: %w", err)
	}
	return nil
}

func (b *backup) write(ctx context.Context, conn *pgx.Conn) error {
	if err := b.database(ctx, conn); err != nil {
		return err
	}
	if err := b.copyFiles(ctx); err != nil {
		return err
	}
	// The lock lives as long as its session: had it ended, a sweeper could have been
	// at work, and the answer is missing.
	if err := conn.Ping(ctx); err != nil {
		return fmt.Errorf("the database session that held the sweepers back was lost; take the backup again: %w", err)
	}
	text, err := b.manifest.seal()
	if err != nil {
		return err
	}
	_, err = b.part(manifestName, func(w io.Writer) error { _, err := w.Write(text); return err })
	return err
}

// part writes one file of the backup, synced, and returns what it became.
func (b *backup) part(name string, fill func(io.Writer) error) (Part, error) {
	f, err := os.OpenFile(filepath.Join(b.dir, name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return Part{}, fmt.Errorf("make %s: %w", name, err)
	}
	defer f.Close()
	sink := &measured{w: f, hash: sha256.New()}
	if err := fill(sink); err != nil {
		if sink.err != nil {
			err = sink.err // a program that fills it only saw a broken pipe
		}
		return Part{}, fmt.Errorf("write %s: %w", name, err)
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return Part{}, fmt.Errorf("write %s: %w", name, err)
	}
	return Part{Name: name, Size: sink.size, SHA256: hex.EncodeToString(sink.hash.Sum(nil))}, nil
}

// measured counts and hashes what passes.
type measured struct {
	w    io.Writer
	hash hash.Hash
	size int64
	err  error // the first that a write met
}

func (m *measured) Write(p []byte) (int, error) {
	n, err := m.w.Write(p)
	m.hash.Write(p[:n])
	m.size += int64(n)
	if m.err == nil {
		m.err = err
	}
	return n, err
}

// spoolName holds the list of files between the snapshot and the copying.
const spoolName = "spool"

// copyFiles copies what the spooled list names and writes the list.
func (b *backup) copyFiles(ctx context.Context) (err error) {
	spool, err := os.Open(filepath.Join(b.dir, spoolName))
	if err != nil {
		return fmt.Errorf("open the spooled list: %w", err)
	}
	defer spool.Close()
	if b.files, err = fs.New(filepath.Join(b.dir, filesFolder), fs.Options{}); err != nil {
		return fmt.Errorf("make the backup's store: %w", err)
	}
	defer b.files.Close()
	m := &b.manifest
	told := Progress{Stage: "copying files", OfFiles: m.Files, OfBytes: m.Bytes}
	m.List, err = b.part(listName, func(w io.Writer) error {
		list := bufio.NewWriter(w)
		encode := json.NewEncoder(list)
		err := readEntries(spool, func(e Entry) error {
			if err := b.copyFile(ctx, &e); err != nil {
				return err
			}
			if e.Damaged != "" {
				m.Damaged++
			}
			told.Files++
			told.Bytes += e.Size
			b.Progress(told)
			return encode.Encode(e)
		})
		return errors.Join(err, list.Flush())
	})
	if err != nil {
		return err
	}
	return os.Remove(filepath.Join(b.dir, spoolName))
}

func (b *backup) copyFile(ctx context.Context, e *Entry) error {
	why, err := transfer(ctx, b.files, b.Storage, *e)
	if err != nil || why == "" {
		return err
	}
	if !b.AllowDamaged {
		return fmt.Errorf("%s is not what its row says: %s; look with glovebox-server fsck, or give --allow-damaged to note such files and go on", e.Key, why)
	}
	e.Damaged = why
	return nil
}

// transfer copies one file from a store to another under the same key, if its
// bytes are what e says; why says how they are not.
func transfer(ctx context.Context, to, from *fs.Store, e Entry) (why string, err error) {
	_, why, err = difference(ctx, from, e, false)
	if err != nil || why != "" {
		return why, err
	}
	content, err := from.Open(ctx, e.Key)
	if errors.Is(err, iofs.ErrNotExist) {
		return "there is no file", nil
	}
	if err != nil {
		return "", err
	}
	defer content.Close()
	staged, err := to.Stage(ctx, content, e.Size)
	if domain.CodeOf(err) == domain.CodeTooLarge {
		return "it is longer than its row says", nil
	}
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, staged.Discard()) }()
	if sum := staged.SHA256(); staged.Size() != e.Size || hex.EncodeToString(sum[:]) != e.SHA256 {
		return fmt.Sprintf("its SHA-256 is %x, its row says %s", sum, e.SHA256), nil
	}
	return "", staged.Commit(ctx, e.Key)
}

// place gives the backup its name, which nothing may have taken meanwhile.
func (b *backup) place() error {
	if err := syncDir(b.dir); err != nil {
		return err
	}
	if err := unix.Renameat2(unix.AT_FDCWD, b.dir, unix.AT_FDCWD, b.Out, unix.RENAME_NOREPLACE); err != nil {
		return fmt.Errorf("give the backup its name: %w", err)
	}
	return syncDir(filepath.Dir(b.Out))
}

func syncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("sync the backup: %w", err)
	}
	defer d.Close()
	if err := d.Sync(); err != nil {
		return fmt.Errorf("sync the backup: %w", err)
	}
	return nil
}

// clearer says of a full disk what it is.
func clearer(err error, place string) error {
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
		return fmt.Errorf("there is no room left at %s; free some or name another place: %w", filepath.Dir(place), err)
	}
	return err
}
