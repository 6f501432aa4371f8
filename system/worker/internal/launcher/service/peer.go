package service

import (
	"context"
	"errors"
	"fmt"
	"net"

	"golang.org/x/sys/unix"

	"glovebox/system/worker/internal/container/pidfd"
)

// peer is the process that connected, by the kernel's word.
type peer struct {
	uid     uint32
	pid     int32
	process *pidfd.Process // nil where the kernel gives none (before 6.5)
}

// peerOf asks the socket. The credentials are those of the process that called
// connect; whoever holds the socket later has them too, which is why watch
// follows the process itself.
func peerOf(c *net.UnixConn) (peer, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return peer{}, fmt.Errorf("look at the peer: %w", err)
	}
	var cred *unix.Ucred
	var credErr error
	fd, fdErr := -1, error(nil)
	err = raw.Control(func(s uintptr) {
		cred, credErr = unix.GetsockoptUcred(int(s), unix.SOL_SOCKET, unix.SO_PEERCRED)
		fd, fdErr = unix.GetsockoptInt(int(s), unix.SOL_SOCKET, unix.SO_PEERPIDFD)
	})
	if err == nil {
		err = credErr
	}
	if err != nil {
		return peer{}, fmt.Errorf("ask for the peer's credentials: %w", err)
	}
	p := peer{uid: cred.Uid, pid: cred.Pid}
	switch {
	case errors.Is(fdErr, unix.ENOPROTOOPT): // an older kernel
		return p, nil
	case fdErr != nil:
		return peer{}, fmt.Errorf("take hold of the peer, process %d: %w", cred.Pid, fdErr)
	}
	if p.process, err = pidfd.FromFD(fd, int(cred.Pid)); err != nil {
		return peer{}, err
	}
	return p, nil
}

func (p peer) close() {
	if p.process != nil {
		_ = p.process.Close()
	}
}

// watch returns a channel that is closed when the peer has died, or nil where
// the kernel cannot tell: then the connection's end must do.
func (p peer) watch(ctx context.Context) <-chan struct{} {
	if p.process == nil {
		return nil
	}
	dead := make(chan struct{})
	go func() {
		if p.process.Wait(ctx) == nil {
			close(dead)
		}
	}()
	return dead
}
