package service_test

import (
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"glovebox/system/worker/internal/container/enginetest"
	"glovebox/system/worker/internal/launcher"
	"glovebox/threat-model/evidence"
)

// raw speaks to the socket without the client's manners.
type raw struct {
	t    *testing.T
	conn *net.UnixConn
}

func (b *bench) raw(t *testing.T) *raw {
	t.Helper()
	c, err := net.DialUnix("unixpacket", nil, &net.UnixAddr{Name: b.socket, Net: "unixpacket"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	// A launcher that goes on where it must end is a failure, not a wait for ever.
	if err := c.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	return &raw{t, c}
}

func (r *raw) send(packet string) {
	r.t.Helper()
	if _, err := r.conn.Write([]byte(packet)); err != nil {
		r.t.Fatal(err)
	}
}

func (r *raw) answer() launcher.Response {
	r.t.Helper()
	buf, control := make([]byte, launcher.MaxResponse), make([]byte, 256)
	n, cn, _, _, err := r.conn.ReadMsgUnix(buf, control)
	if err != nil {
		r.t.Fatalf("no answer: %v", err)
	}
	if messages, err := unix.ParseSocketControlMessage(control[:cn]); err == nil {
		for _, m := range messages {
			fds, _ := unix.ParseUnixRights(&m)
			for _, fd := range fds {
				unix.Close(fd)
			}
		}
	}
	var resp launcher.Response
	if err := json.Unmarshal(buf[:n], &resp); err != nil {
		r.t.Fatalf("answer %q: %v", buf[:n], err)
	}
	return resp
}

// ended demands that the launcher has closed the connection.
func (r *raw) ended() {
	r.t.Helper()
	if n, err := r.conn.Read(make([]byte, 1)); n != 0 || !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET) {
		r.t.Errorf("the connection goes on: %d bytes, %v", n, err)
	}
}

func TestProtocolViolationsEndTheConnection(t *testing.T) {
	evidence.Proves(t, "SBX-08", "SBX-09")
	b := start(t, enginetest.NewBare(t), 1, nil)
	for name, c := range map[string]struct {
		before []string
		packet string
		code   launcher.Code
	}{
		"no JSON":          {nil, "acquire", launcher.BadRequest},
		"no verb":          {nil, "{}", launcher.BadRequest},
		"a path":           {nil, `{"verb":"acquire","path":"/etc/shadow"}`, launcher.BadRequest},
		"an image":         {nil, `{"verb":"acquire","image":"evil"}`, launcher.BadRequest},
		"an argument":      {nil, `{"verb":"run","args":["sh"]}`, launcher.BadRequest},
		"an environment":   {nil, `{"verb":"run","env":{"A":"b"}}`, launcher.BadRequest},
		"a limit":          {nil, `{"verb":"run","timeout":"99h"}`, launcher.BadRequest},
		"a verb twice":     {nil, `{"verb":"status","verb":"acquire"}`, launcher.BadRequest},
		"another spelling": {nil, `{"VERB":"status"}`, launcher.BadRequest},
		"a long s":         {nil, `{"verb":"\u017ftatus"}`, launcher.UnknownVerb},
		"nothing":          {nil, `null`, launcher.BadRequest},
		"cut off":          {nil, `{"verb":"status"`, launcher.BadRequest},
		"two objects":      {nil, `{"verb":"status"}{"verb":"acquire"}`, launcher.BadRequest},
		"another type":     {nil, `{"verb":1}`, launcher.BadRequest},
		"a list":           {nil, `["acquire"]`, launcher.BadRequest},
		"too long":         {nil, `{"verb":"` + strings.Repeat("a", 300) + `"}`, launcher.BadRequest},
		"unknown verb":     {nil, `{"verb":"exec"}`, launcher.UnknownVerb},
		"run first":        {nil, `{"verb":"run"}`, launcher.WrongState},
		"kill first":       {nil, `{"verb":"kill"}`, launcher.WrongState},
		"release first":    {nil, `{"verb":"release"}`, launcher.WrongState},
		"acquire twice":    {[]string{`{"verb":"acquire"}`}, `{"verb":"acquire"}`, launcher.WrongState},
		"kill before run":  {[]string{`{"verb":"acquire"}`}, `{"verb":"kill"}`, launcher.WrongState},
		"status of a slot": {[]string{`{"verb":"acquire"}`}, `{"verb":"status"}`, launcher.WrongState},
		"run twice":        {[]string{`{"verb":"acquire"}`, `{"verb":"run"}`}, `{"verb":"run"}`, launcher.WrongState},
	} {
		t.Run(name, func(t *testing.T) {
			r := b.raw(t)
			for _, packet := range c.before {
				r.send(packet)
				if resp := r.answer(); resp.Error != nil {
					t.Fatalf("%s: %v", packet, resp.Error)
				}
			}
			r.send(c.packet)
			if resp := r.answer(); resp.Error == nil || resp.Error.Code != c.code {
				t.Errorf("answer is %+v, wanted the code %s", resp, c.code)
			}
			r.ended()
			b.gone(t)
		})
	}
}

func TestDescriptorsFromThePeerAreRefused(t *testing.T) {
	b := start(t, enginetest.NewBare(t), 1, nil)
	for _, count := range []int{1, 100} {
		r := b.raw(t)
		fds := make([]int, count)
		for i := range fds {
			fds[i] = int(os.Stdout.Fd())
		}
		if _, _, err := r.conn.WriteMsgUnix([]byte(`{"verb":"status"}`), unix.UnixRights(fds...), nil); err != nil {
			t.Fatal(err)
		}
		r.ended()
	}
}

func TestClosedConnectionGivesTheSlotBack(t *testing.T) {
	evidence.Proves(t, "SBX-12")
	b := start(t, enginetest.NewBare(t), 1, nil)
	for _, packets := range [][]string{{`{"verb":"acquire"}`}, {`{"verb":"acquire"}`, `{"verb":"run"}`}} {
		r := b.raw(t)
		for _, packet := range packets {
			r.send(packet)
			if resp := r.answer(); resp.Error != nil {
				t.Fatalf("%s: %v", packet, resp.Error)
			}
		}
		r.conn.Close()
		b.gone(t)
	}
}

func TestTooManyConnections(t *testing.T) {
	b := start(t, enginetest.NewBare(t), 1, nil)
	var open []*raw
	refused := false
	for range 40 {
		r := b.raw(t)
		open = append(open, r)
		if _, err := r.conn.Write([]byte(`{"verb":"status"}`)); err != nil {
			refused = true
			break
		}
		if _, err := r.conn.Read(make([]byte, launcher.MaxResponse)); err != nil {
			refused = true
			break
		}
	}
	if !refused {
		t.Errorf("%d connections are open at once", len(open))
	}
}

// Another user than the worker reaches the socket only by its mode being wrong;
// the test opens the mode and is refused by the kernel's word on the peer.
func TestOtherUsersAreRefused(t *testing.T) {
	evidence.Proves(t, "SBX-09")
	const worker, stranger = 54321, 54322
	bare := enginetest.NewBare(t)
	b := startWith(t, bare, enginetest.Maker(t, bare, enginetest.Scripted(t), nil), 1, worker)
	var st unix.Stat_t
	if err := unix.Stat(b.socket, &st); err != nil || st.Mode&0o777 != 0o600 || st.Uid != worker {
		t.Errorf("socket has mode %o and owner %d, %v", st.Mode&0o777, st.Uid, err)
	}
	ask := func(uid uint32, verb string) string {
		t.Helper()
		cmd := exec.Command("/proc/self/exe", "-test.run=^TestAsPeer$")
		cmd.Path = copyOfTest(t)
		cmd.Env = append(os.Environ(), "GLOVEBOX_TEST_PEER_SOCKET="+b.socket, "GLOVEBOX_TEST_PEER_VERB="+verb)
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
		cmd.Dir = "/"
		said, err := cmd.Output()
		if err != nil {
			t.Fatalf("peer of uid %d: %v, %s", uid, err, said)
		}
		line, _, _ := strings.Cut(string(said), "\n")
		return line
	}
	if got := ask(stranger, "acquire"); got != "no connection" {
		t.Errorf("a stranger, by the socket's mode: %s", got)
	}
	if err := os.Chmod(b.socket, 0o666); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		uid        uint32
		verb, want string
	}{
		{stranger, "acquire", "forbidden"}, {stranger, "status", "forbidden"}, {stranger, "selftest", "forbidden"},
		{0, "acquire", "forbidden"}, {0, "status", "ok"}, {0, "selftest", "ok"},
		{worker, "acquire", "ok"}, {worker, "status", "ok"},
	} {
		if got := ask(c.uid, c.verb); got != c.want {
			t.Errorf("uid %d asks %s: %s, wanted %s", c.uid, c.verb, got, c.want)
		}
	}
}

// copyOfTest puts the test's binary where every user may run it.
func copyOfTest(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "gbp")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := exec.Command("cp", os.Args[0], dir+"/peer").Run(); err != nil {
		t.Fatal(err)
	}
	return dir + "/peer"
}

// TestAsPeer is the other process of TestOtherUsersAreRefused and proves nothing
// by itself.
func TestAsPeer(t *testing.T) {
	socket := os.Getenv("GLOVEBOX_TEST_PEER_SOCKET")
	if socket == "" {
		return
	}
	say := func(word string) { _, _ = os.Stdout.WriteString(word + "\n") }
	c, err := net.DialUnix("unixpacket", nil, &net.UnixAddr{Name: socket, Net: "unixpacket"})
	if err != nil {
		say("no connection")
		return
	}
	r := &raw{t, c}
	// The refusal may come before the question is sent.
	_, _ = c.Write([]byte(`{"verb":"` + os.Getenv("GLOVEBOX_TEST_PEER_VERB") + `"}`))
	if resp := r.answer(); resp.Error != nil {
		say(string(resp.Error.Code))
		return
	}
	say("ok")
}
