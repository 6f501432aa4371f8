package service

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"glovebox/system/worker/internal/container/userns"
)

// Only the worker is let in. Where the launcher can name the worker's uid, the
// socket belongs to that uid and the peer's credentials must be its. A rootless
// launcher cannot: its user namespace has no number for a user of the host's, whom
// the kernel shows as the overflow id. There the folder of the socket is the door:
// it belongs to the launcher, its group is the worker's, and nobody else may pass.

// overflow is how the kernel shows a user without a number in our namespace.
const overflow = 65534

// peerID returns the uid that the worker has in this namespace, and whether it is
// one that no other user of the host can have too.
func (c Config) peerID() (uid uint32, unique bool) {
	if id, ok := userns.Named(uint64(c.PeerUID)); ok {
		return uint32(id), true
	}
	return overflow, false
}

func (s *Service) listen() (*net.UnixListener, error) {
	if err := os.Remove(s.config.Socket); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("remove the last socket: %w", err)
	}
	uid, unique := s.config.peerID()
	if !unique {
		if err := closedFolder(filepath.Dir(s.config.Socket)); err != nil {
			return nil, err
		}
	}
	// Nobody connects before the owner is set: the mode is closed from the start.
	old := unix.Umask(0o177)
	listener, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: s.config.Socket, Net: "unixpacket"})
	unix.Umask(old)
	if err != nil {
		return nil, fmt.Errorf("listen at %s: %w", s.config.Socket, err)
	}
	if unique {
		err = os.Chown(s.config.Socket, int(uid), -1)
	} else {
		err = os.Chmod(s.config.Socket, 0o666)
	}
	if err != nil {
		listener.Close()
		return nil, fmt.Errorf("give the socket to the worker's uid: %w", err)
	}
	return listener, nil
}

// closedFolder demands a folder that is ours and that only its group may pass.
func closedFolder(dir string) error {
	var st unix.Stat_t
	if err := unix.Stat(dir, &st); err != nil {
		return fmt.Errorf("look at the folder of listen.socket: %w", err)
	}
	if int(st.Uid) != os.Getuid() || st.Mode&0o027 != 0 {
		return fmt.Errorf("listen.socket: a rootless launcher knows the worker by the folder %s alone, which has mode %04o; "+
			"let it belong to the launcher's user and to a group that only the worker is in, with mode 0710", dir, st.Mode&0o7777)
	}
	return nil
}
