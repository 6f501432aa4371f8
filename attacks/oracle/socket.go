package oracle

import (
	"encoding/hex"
	"fmt"
	"net/netip"
	"os"
	"strconv"
	"strings"
)

// Socket is a line of /proc/net/tcp or tcp6.
type Socket struct {
	Local, Remote netip.AddrPort
	Listening     bool
	UID           int
	Inode         string
}

// TCP returns the TCP sockets of this network namespace.
func TCP() ([]Socket, error) {
	var all []Socket
	for _, file := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		content, err := os.ReadFile(file)
		if os.IsNotExist(err) { // a kernel without IPv6
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read the socket table: %w", err)
		}
		for line := range strings.Lines(string(content)) {
			fields := strings.Fields(line)
			if len(fields) < 10 || fields[0] == "sl" {
				continue
			}
			local, err := address(fields[1])
			if err != nil {
				return nil, err
			}
			remote, err := address(fields[2])
			if err != nil {
				return nil, err
			}
			uid, _ := strconv.Atoi(fields[7])
			all = append(all, Socket{Local: local, Remote: remote, Listening: fields[3] == "0A", UID: uid, Inode: fields[9]})
		}
	}
	return all, nil
}

// address reads HEX:PORT, whose words are in the host's (little-endian) order.
func address(text string) (netip.AddrPort, error) {
	host, port, _ := strings.Cut(text, ":")
	raw, err := hex.DecodeString(host)
	number, err2 := strconv.ParseUint(port, 16, 16)
	if err != nil || err2 != nil || len(raw)%4 != 0 {
		return netip.AddrPort{}, fmt.Errorf("read the socket table: %q is no address", text)
	}
	for i := 0; i < len(raw); i += 4 {
		raw[i], raw[i+1], raw[i+2], raw[i+3] = raw[i+3], raw[i+2], raw[i+1], raw[i]
	}
	addr, ok := netip.AddrFromSlice(raw)
	if !ok {
		return netip.AddrPort{}, fmt.Errorf("read the socket table: %q is no address", text)
	}
	return netip.AddrPortFrom(addr.Unmap(), uint16(number)), nil
}

// SocketsOf returns the TCP sockets that a process has open.
func SocketsOf(pid int) ([]Socket, error) {
	open, err := Descriptors(pid)
	if err != nil {
		return nil, err
	}
	mine := map[string]bool{}
	for _, d := range open {
		if inode, ok := strings.CutPrefix(d.Target, "socket:["); ok {
			mine[strings.TrimSuffix(inode, "]")] = true
		}
	}
	all, err := TCP()
	if err != nil {
		return nil, err
	}
	var found []Socket
	for _, s := range all {
		if mine[s.Inode] {
			found = append(found, s)
		}
	}
	return found, nil
}

// UnixSocket is a line of /proc/net/unix that has a name.
type UnixSocket struct{ Inode, Path string }

// Unix returns the named unix sockets.
func Unix() ([]UnixSocket, error) {
	content, err := os.ReadFile("/proc/net/unix")
	if err != nil {
		return nil, fmt.Errorf("read the socket table: %w", err)
	}
	var all []UnixSocket
	for line := range strings.Lines(string(content)) {
		if fields := strings.Fields(line); len(fields) == 8 {
			all = append(all, UnixSocket{fields[6], fields[7]})
		}
	}
	return all, nil
}
