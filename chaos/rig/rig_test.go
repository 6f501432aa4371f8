package rig

import (
	"bufio"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"glovebox/threat-model/evidence"
)

// A skew that does nothing would make every clock fault a success.
func TestTheClockCanBeWrong(t *testing.T) {
	evidence.Proves(t, "HAR-06")
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	overlay, err := writeOverlay(root, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(t.TempDir(), "now")
	if _, err := output(t.Context(), root, nil, "go", "build", "-overlay", overlay, "-o", program, "./chaos/rig/testdata/now"); err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]time.Duration{"": 0, "3h": 3 * time.Hour, "-90m": -90 * time.Minute} {
		said, err := output(t.Context(), root, []string{SkewEnv + "=" + text}, program)
		if err != nil {
			t.Fatal(err)
		}
		seconds, err := strconv.ParseInt(strings.TrimSpace(string(said)), 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		if off := time.Until(time.Unix(seconds, 0)) - want; off.Abs() > time.Minute {
			t.Errorf("a skew of %q: off by %s", text, off)
		}
	}
}

// echo answers each line with itself.
func echo(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				_, _ = io.Copy(conn, conn)
			}()
		}
	}()
	return l.Addr().String()
}

// say sends one line and returns how long the answer took; an error where none came.
func say(t *testing.T, address string) (time.Duration, error) {
	t.Helper()
	began := time.Now()
	conn, err := net.DialTimeout("tcp", address, time.Second)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(700 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, "a line\n"); err != nil {
		return 0, err
	}
	line, err := bufio.NewReader(conn).ReadString('\n')
	if err == nil && line != "a line\n" {
		err = errors.New("another answer: " + line)
	}
	return time.Since(began), err
}

// TestLinks spoils a link in each way and mends it; the mended link is the control.
func TestLinks(t *testing.T) {
	evidence.Proves(t, "HAR-06")
	links := newLinks()
	t.Cleanup(links.Close)
	address, err := links.Between("a", "b", echo(t))
	if err != nil {
		t.Fatal(err)
	}
	const name = "a>b"
	if _, err := say(t, address); err != nil {
		t.Fatalf("control: a whole link does not answer: %v", err)
	}
	for _, way := range []struct {
		name  string
		spoil func() error
	}{
		{"cut", func() error { return links.Cut(name) }},
		{"deaf", func() error { return links.Silence(name, Up) }},
		{"mute", func() error { return links.Silence(name, Down) }},
		{"short", func() error { return links.CutAfter(name, Down, 3) }},
	} {
		if err := way.spoil(); err != nil {
			t.Fatalf("%s: %v", way.name, err)
		}
		if took, err := say(t, address); err == nil {
			t.Errorf("%s: an answer came after %s", way.name, took)
		}
		if err := links.Mend(name); err != nil {
			t.Fatalf("mend after %s: %v", way.name, err)
		}
		if _, err := say(t, address); err != nil {
			t.Errorf("mended after %s: %v", way.name, err)
		}
	}
	if err := links.Slow(name, 200); err != nil {
		t.Fatal(err)
	}
	if took, err := say(t, address); err != nil || took < 150*time.Millisecond {
		t.Errorf("a slow link answered in %s (%v)", took, err)
	}
	if err := links.Cut("nobody>nobody"); err == nil {
		t.Error("a link that is not there was cut")
	}
}

func TestStoppedIsSeen(t *testing.T) {
	evidence.Proves(t, "HAR-06")
	if Stopped(os.Getpid()) {
		t.Error("this very process is said to be stopped")
	}
}
