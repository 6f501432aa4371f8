package harness

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"glovebox/attacks/oracle"
)

// Database is the observer's view of the rows; a target has none to show.
func (e *Env) Database() *oracle.Database {
	if e.Endpoint.DatabaseURL == "" {
		e.Unavailable("the observer's database login, which only a local system shows")
	}
	e.System.mu.Lock()
	defer e.System.mu.Unlock()
	if e.System.rows == nil {
		db, err := oracle.OpenDatabase(context.WithoutCancel(e.ctx), e.Endpoint.DatabaseURL)
		e.Must(err, "open the observer's database")
		e.System.rows = db
	}
	return e.System.rows
}

// Row is the job's row as the observer sees it.
func (e *Env) Row(id string) oracle.Job {
	row, err := e.Database().Job(e.ctx, id)
	e.Must(err, "look at the row of %s", id)
	return row
}

// OnDisk returns the files below the storage root that hold marker, temporary ones
// included, by their path there. Content that a case uploads begins with a marker
// that nobody else has, so that what is left of it is found under any name and cut
// anywhere.
func (e *Env) OnDisk(marker string) []string {
	return e.AllOnDisk(map[string]string{"marker": marker})["marker"]
}

// AllOnDisk is OnDisk of several markers, by their names. Files that were there
// unchanged before the case began are passed over: they cannot hold what it made.
func (e *Env) AllOnDisk(markers map[string]string) map[string][]string {
	if e.Endpoint.StorageRoot == "" {
		e.Unavailable("the storage root, which only a local system shows")
	}
	return e.holders(e.Endpoint.StorageRoot, markers, e.began.Add(-time.Second))
}

// HoldersOf returns the regular files below root that hold marker.
func (e *Env) HoldersOf(root, marker string) []string {
	return e.Holders(root, map[string]string{"marker": marker})["marker"]
}

// Holders returns, for each named needle, the regular files below root that hold
// it, in one pass over them.
func (e *Env) Holders(root string, needles map[string]string) map[string][]string {
	return e.holders(root, needles, time.Time{})
}

// holders leaves out what has not changed since the given time, by the kernel's
// word (ctime): nobody can set that back.
func (e *Env) holders(root string, needles map[string]string, since time.Time) map[string][]string {
	wanted := make(map[string][]byte, len(needles))
	for name, text := range needles {
		wanted[name] = []byte(text)
	}
	found := map[string][]string{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if os.IsNotExist(err) {
			return nil // it went while we looked
		}
		if err != nil || !d.Type().IsRegular() || unchanged(path, since) {
			return err
		}
		hits, err := oracle.Search(path, wanted)
		for _, name := range hits {
			found[name] = append(found[name], strings.TrimPrefix(path, root+"/"))
		}
		return err
	})
	e.Must(err, "search the files below %s", filepath.Base(root))
	return found
}

func unchanged(path string, since time.Time) bool {
	var stat unix.Stat_t
	return !since.IsZero() && unix.Lstat(path, &stat) == nil && time.Unix(stat.Ctim.Unix()).Before(since)
}

// Marked is a valid input that begins with a marker; the core keeps no comment, so
// that a result does not hold it.
func Marked() (marker string, content []byte) {
	marker = "mark-" + RandomHex(16)
	return marker, []byte("-- " + marker + "\nreturn 1\n")
}

// WatchServers follows the memory of the servers, by the kernel's word. The
// returned function ends the watch and tells the growth of the one that grew most,
// in bytes, and may be called again.
func (e *Env) WatchServers() func() int64 {
	if len(e.Endpoint.PIDs.Server) == 0 {
		e.Unavailable("the servers' processes, which only a local system shows")
	}
	const every = 20 * time.Millisecond
	watch, err := oracle.WatchMemory(every, e.Endpoint.PIDs.Server...)
	e.Must(err, "watch the servers' memory")
	growth := sync.OnceValue(watch.Growth)
	e.Cleanup(func(context.Context) error { growth(); return nil })
	return growth
}
