package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The machine's network leads nowhere. It is there so that the controls find what a
// core must not: an interface, routes, a neighbour, a socket, traffic.
const dummy = "dummy0"

var (
	dummyAddress = netip.MustParseAddr("192.0.2.1")
	neighbour    = netip.MustParseAddr("192.0.2.2")
)

// network sets it up, and the device of virtual sockets. close ends the one socket.
func network(ctx context.Context) (close func() error, err error) {
	// systemd has the module make no interface unless it is asked to.
	for _, module := range [][]string{{"vsock"}, {"dummy", "numdummies=1"}} {
		if err := must(ctx, "modprobe", module...); err != nil {
			return nil, err
		}
	}
	// udev gives the interface a lasting hardware address, which makes the kernel forget
	// its neighbours.
	if err := must(ctx, "udevadm", "settle"); err != nil {
		return nil, err
	}
	if err := configure(); err != nil {
		return nil, fmt.Errorf("set up %s: %w", dummy, err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	conn, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	return listener.Close, conn.Close()
}

func configure() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	for _, set := range []struct {
		request uint
		fill    func(*unix.Ifreq) error
	}{
		{unix.SIOCSIFADDR, func(r *unix.Ifreq) error { return r.SetInet4Addr(dummyAddress.AsSlice()) }},
		{unix.SIOCSIFNETMASK, func(r *unix.Ifreq) error { return r.SetInet4Addr([]byte{255, 255, 255, 0}) }},
		// Without IFF_NOARP, which a dummy has: it shall have neighbours.
		{unix.SIOCSIFFLAGS, func(r *unix.Ifreq) error { r.SetUint16(unix.IFF_UP | unix.IFF_RUNNING); return nil }},
	} {
		r, err := unix.NewIfreq(dummy)
		if err != nil {
			return err
		}
		if err := set.fill(r); err != nil {
			return err
		}
		if err := unix.IoctlIfreq(fd, set.request, r); err != nil {
			return fmt.Errorf("request %#x: %w", set.request, err)
		}
	}
	// struct arpreq: two addresses, flags, a mask, the device.
	var arp struct {
		Address, Hardware [16]byte
		Flags             int32
		Mask              [16]byte
		Device            [16]byte
	}
	binary.NativeEndian.PutUint16(arp.Address[:], unix.AF_INET)
	copy(arp.Address[4:], neighbour.AsSlice())
	binary.NativeEndian.PutUint16(arp.Hardware[:], unix.ARPHRD_ETHER)
	copy(arp.Hardware[2:], []byte{2, 0, 0, 0, 0, 1})
	const complete, permanent = 2, 4
	arp.Flags = complete | permanent
	copy(arp.Device[:], dummy)
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCSARP, uintptr(unsafe.Pointer(&arp))); errno != 0 {
		return fmt.Errorf("name a neighbour: %w", errno)
	}
	return nil
}
