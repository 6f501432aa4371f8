package identity_test

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"glovebox/attacks/identity"
)

var stranger = identity.User{UID: 61390, GID: 61390}

// The kernel judges the call by the user, and only that call.
func TestAnotherUserIsRefusedWhatRootMayDo(t *testing.T) {
	dir := t.TempDir()
	if err := errors.Join(os.Chmod(filepath.Dir(dir), 0o755), os.Chmod(dir, 0o755)); err != nil {
		t.Fatal(err)
	}
	closed, open := filepath.Join(dir, "closed"), filepath.Join(dir, "open")
	if err := errors.Join(os.WriteFile(closed, []byte("x"), 0o600), os.WriteFile(open, []byte("x"), 0o644), os.Chown(dir, 0, 0)); err != nil {
		t.Fatal(err)
	}
	read := func(path string) func() error {
		return func() error { _, err := os.ReadFile(path); return err }
	}
	if err := identity.As(stranger, read(closed)); !errors.Is(err, syscall.EACCES) {
		t.Errorf("a closed file: %v", err)
	}
	for _, home := range []string{"/tmp", dir} { // the way to dir may be closed on a developer's machine
		if err := identity.As(stranger, func() error { _, err := os.Stat(home); return err }); err != nil {
			t.Fatalf("control: %v", err)
		}
	}
	if err := identity.As(stranger, read(open)); err != nil {
		t.Errorf("an open file: %v", err)
	}
	if err := identity.As(identity.User{UID: stranger.UID, GID: stranger.GID, Groups: []int{0}}, func() error {
		groups, err := syscall.Getgroups()
		if err == nil && (len(groups) != 1 || groups[0] != 0 || os.Geteuid() != stranger.UID) {
			err = errors.New("the groups or the user are not those asked for")
		}
		return err
	}); err != nil {
		t.Error(err)
	}
	if err := read(closed)(); err != nil || os.Geteuid() != 0 {
		t.Errorf("the process itself has changed: %v, uid %d", err, os.Geteuid())
	}
}

// A socket's peer sees the user.
func TestThePeerOfASocketIsTheUser(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for dir := filepath.Dir(path); dir != "/tmp" && dir != "/"; dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(path, 0o777); err != nil {
		t.Fatal(err)
	}
	var client net.Conn
	if err := identity.As(stranger, func() error { var err error; client, err = net.Dial("unix", path); return err }); err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	server, err := l.AcceptUnix()
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	raw, err := server.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var peer *unix.Ucred
	if err := raw.Control(func(fd uintptr) { peer, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }); err != nil {
		t.Fatal(err)
	}
	if err != nil || int(peer.Uid) != stranger.UID {
		t.Errorf("the peer is %+v (%v)", peer, err)
	}
}
