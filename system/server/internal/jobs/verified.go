package jobs

import (
	"io"
	"io/fs"
	"sync"
	"syscall"
	"time"
)

const (
	// verifiedFor bounds how long a digest once computed is trusted: damage below
	// the file system changes no time stamp.
	verifiedFor = 10 * time.Minute
	maxVerified = 4096
)

// identity tells one state of a file from another: what it is, how large, and
// when its bytes or its inode last changed. The change time cannot be set back by
// whoever writes to the file.
type identity struct {
	device, inode    uint64
	size             int64
	modified, change int64 // nanoseconds
}

// verified remembers whose bytes were compared with their digest. It is a cache:
// losing it costs one more reading.
type verified struct {
	mu    sync.Mutex
	known map[string]seen
}

type seen struct {
	identity identity
	at       time.Time
}

func newVerified() *verified { return &verified{known: map[string]seen{}} }

// identify returns the identity of an open file; the zero value where the store
// cannot tell, which is never remembered.
func identify(content io.Seeker) identity {
	file, ok := content.(interface{ Stat() (fs.FileInfo, error) })
	if !ok {
		return identity{}
	}
	info, err := file.Stat()
	if err != nil {
		return identity{}
	}
	sys, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return identity{}
	}
	return identity{device: sys.Dev, inode: sys.Ino, size: info.Size(), modified: info.ModTime().UnixNano(), change: sys.Ctim.Nano()}
}

func (v *verified) knows(key string, content io.Seeker) bool {
	now := identify(content)
	v.mu.Lock()
	defer v.mu.Unlock()
	entry, ok := v.known[key]
	return ok && now != (identity{}) && entry.identity == now && time.Since(entry.at) < verifiedFor
}

func (v *verified) remember(key string, id identity) {
	if id == (identity{}) {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.known) >= maxVerified {
		clear(v.known) // rare, and cheaper than an order of use
	}
	v.known[key] = seen{id, time.Now()}
}
