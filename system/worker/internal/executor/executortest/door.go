// Package executortest stands in for a launcher: its real socket, messages and
// passed descriptors, with a script in place of a sandbox.
package executortest

import (
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"glovebox/system/worker/internal/container/verdict"
	"glovebox/system/worker/internal/launcher"
)

// Door is a launcher's socket with a script behind it.
type Door struct {
	Path  string // set by Open
	State launcher.State
	// Answer returns what a verb other than status is answered with, and the
	// descriptors beside it, which Door closes.
	Answer func(verb launcher.Verb) (launcher.Response, []*os.File)
}

// Open serves d until the test ends.
func Open(t testing.TB, d *Door) *Door {
	t.Helper()
	dir, err := os.MkdirTemp("", "door") // t.TempDir is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	d.Path = filepath.Join(dir, "s")
	listener, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: d.Path, Net: "unixpacket"})
	if err != nil {
		t.Fatal(err)
	}
	var conns sync.WaitGroup
	conns.Go(func() {
		for {
			c, err := listener.AcceptUnix()
			if err != nil {
				return
			}
			conns.Go(func() { d.serve(launcher.NewConn(c)) })
		}
	})
	t.Cleanup(func() {
		listener.Close()
		conns.Wait()
		os.RemoveAll(dir)
	})
	return d
}

func (d *Door) serve(c *launcher.Conn) {
	defer c.Close()
	for {
		packet, err := c.ReceivePacket(launcher.MaxRequest)
		if err != nil || len(packet) == 0 {
			return
		}
		request, refused := launcher.ParseRequest(packet)
		response := launcher.Response{Verb: request.Verb, Error: refused}
		var files []*os.File
		switch {
		case refused != nil:
		case request.Verb == launcher.Status:
			response.State = &d.State
		default:
			response, files = d.Answer(request.Verb)
		}
		err = c.Send(response, files...)
		for _, f := range files {
			f.Close()
		}
		if err != nil {
			return
		}
	}
}

// Transforming returns a ready launcher of one slot at a time whose core writes
// change(input) and ends well.
func Transforming(t testing.TB, change func([]byte) []byte) *Door {
	dir := t.TempDir()
	input, result := filepath.Join(dir, "input"), filepath.Join(dir, "result")
	d := &Door{State: launcher.State{Phase: launcher.Ready, SlotsTotal: 1, SlotsFree: 1}}
	d.Answer = func(verb launcher.Verb) (launcher.Response, []*os.File) {
		r := launcher.Response{Verb: verb}
		switch verb {
		case launcher.Acquire:
			files, err := freshFiles(input, result)
			if err != nil {
				t.Error(err)
				r.Error = &launcher.Error{Code: launcher.Unavailable, Message: "no files"}
			}
			return r, files
		case launcher.Run:
			text, err := os.ReadFile(input)
			if err != nil {
				t.Error(err)
			}
			text = change(text)
			if err := os.WriteFile(result, text, 0o600); err != nil {
				t.Error(err)
			}
			r.Verdict = &verdict.Verdict{Kind: verdict.Exited, Result: verdict.Result{OK: true, Size: int64(len(text))}}
		}
		return r, nil
	}
	return Open(t, d)
}

func freshFiles(input, result string) ([]*os.File, error) {
	in, err := os.Create(input)
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(result, nil, 0o600); err != nil {
		in.Close()
		return nil, err
	}
	out, err := os.Open(result)
	if err != nil {
		in.Close()
		return nil, err
	}
	return []*os.File{in, out}, nil
}
