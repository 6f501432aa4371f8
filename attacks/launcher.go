package attacks

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"glovebox/attacks/harness"
	"glovebox/attacks/identity"
	"glovebox/attacks/oracle"
)

// launcher attacks the socket between the worker and the launcher, as the worker's
// user: what a worker that was taken over could ask of the process that is root.
var launcher = harness.Family{
	Name: "launcher", About: "the launcher's socket, from a worker that was taken over",
	Cases: join(launcherWords, launcherSlots, launcherFiles),
}

// line is a connection to a launcher that the worker's user has made.
type line struct {
	e *harness.Env
	c *net.UnixConn
}

// reply is a launcher's answer, with the descriptors that came with it.
type reply struct {
	Verb  string `json:"verb"`
	Error *struct {
		Code    string `json:"code"`
		Message string `json:"message"`
	} `json:"error"`
	Verdict json.RawMessage `json:"verdict"`
	State   *struct {
		Phase      string `json:"phase"`
		SlotsTotal int    `json:"slots_total"`
		SlotsFree  int    `json:"slots_free"`
	} `json:"state"`
	raw   string
	files []*os.File
}

func (r reply) code() string {
	if r.Error == nil {
		return ""
	}
	return r.Error.Code
}

// victim is the launcher that these cases attack: the last one, so that the first
// worker serves on.
func victim(e *harness.Env) string {
	all := launcherSockets(e)
	return all[len(all)-1]
}

func victimPID(e *harness.Env) int {
	return e.Endpoint.PIDs.Launcher[len(e.Endpoint.PIDs.Launcher)-1]
}

// callAs connects as somebody; the kernel notes the user at that moment.
func callAs(e *harness.Env, who identity.User) (*line, error) {
	var c net.Conn
	socket := victim(e)
	err := identity.As(who, func() (err error) { c, err = net.Dial("unixpacket", socket); return err })
	if err != nil {
		return nil, err
	}
	l := &line{e, c.(*net.UnixConn)}
	e.Cleanup(func(context.Context) error { l.close(); return nil })
	return l, nil
}

// call connects as the worker's user.
func call(e *harness.Env) *line {
	l, err := callAs(e, user(e, "worker"))
	e.Must(err, "connect to the launcher")
	return l
}

func (l *line) close() { _ = l.c.Close() }

// send writes one packet, with descriptors beside it.
func (l *line) send(packet []byte, fds ...int) error {
	var rights []byte
	if len(fds) > 0 {
		rights = unix.UnixRights(fds...)
	}
	_ = l.c.SetWriteDeadline(time.Now().Add(harnessWait))
	_, _, err := l.c.WriteMsgUnix(packet, rights, nil)
	return err
}

// receive reads one answer.
func (l *line) receive(limit time.Duration) (reply, error) {
	var r reply
	packet, control := make([]byte, 128<<10), make([]byte, 1024)
	_ = l.c.SetReadDeadline(time.Now().Add(limit))
	n, cn, _, _, err := l.c.ReadMsgUnix(packet, control)
	if err != nil {
		return r, err
	}
	if n == 0 {
		return r, io.EOF
	}
	messages, err := unix.ParseSocketControlMessage(control[:cn])
	if err != nil {
		return r, err
	}
	for _, m := range messages {
		fds, err := unix.ParseUnixRights(&m)
		if err != nil {
			return r, err
		}
		for _, fd := range fds {
			f := os.NewFile(uintptr(fd), "passed")
			l.e.Cleanup(func(context.Context) error { _ = f.Close(); return nil })
			r.files = append(r.files, f)
		}
	}
	r.raw = string(packet[:n])
	return r, json.Unmarshal(packet[:n], &r)
}

// ask sends a verb and reads its answer.
func (l *line) ask(verb string) (reply, error) {
	if err := l.send([]byte(`{"verb":"` + verb + `"}`)); err != nil {
		return reply{}, err
	}
	return l.receive(30 * time.Second)
}

// question asks one thing over a connection of its own.
func question(e *harness.Env, verb string) (reply, error) {
	l := call(e)
	defer l.close()
	return l.ask(verb)
}

// over reports whether the launcher has ended the connection.
func (l *line) over() bool {
	for {
		if _, err := l.receive(3 * time.Second); err != nil {
			return !errors.Is(err, os.ErrDeadlineExceeded)
		}
	}
}

// acquired waits until the launcher gives a slot: its worker uses them too.
func acquired(e *harness.Env) (*line, reply) {
	var l *line
	var r reply
	ok := e.Await(20*time.Second, func() bool {
		l = call(e)
		var err error
		r, err = l.ask("acquire")
		if err == nil && r.code() == "" {
			return true
		}
		l.close()
		return false
	})
	if !ok || len(r.files) != 2 {
		e.Fail("no slot was given: %s with %d descriptors", r.raw, len(r.files))
	}
	return l, r
}

// serving shows that the launcher works: a whole attempt by hand.
func serving(e *harness.Env) {
	l, r := acquired(e)
	defer l.close()
	input, result := r.files[0], r.files[1]
	_, err := input.Write(harness.Lua())
	e.Must(err, "write an input")
	e.Must(input.Close(), "close the input")
	ran, err := l.ask("run")
	e.Must(err, "run")
	size, err := io.Copy(io.Discard, result)
	e.Control(err == nil && ran.code() == "" && size > 0, "a whole attempt: %s, %d bytes (%v)", ran.raw, size, err)
	released, err := l.ask("release")
	e.Control(err == nil && released.code() == "", "release: %s (%v)", released.raw, err)
}

// unharmed checks that after an attack the launcher still runs, is as large as
// before, holds no more descriptors, and serves.
func unharmed(e *harness.Env, before int) {
	e.Input("afterwards")
	p, err := oracle.ReadProcess(victimPID(e))
	e.Check(err == nil && !strings.HasPrefix(p.State, "Z"), "the launcher has gone: %v", err)
	// Either slot may be in the middle of an attempt, or be made ready for one: two
	// files and the core's end of one, its process watched, questions to the engine.
	const slots, ofOne = 2, 8
	few := before + slots*ofOne
	var now int
	if !e.Check(e.Await(20*time.Second, func() bool { now = openFiles(e); return now <= few }), "the launcher had %d open files and has %d", before, now) {
		open, err := oracle.Descriptors(victimPID(e))
		e.Note("its open files: %v (%v)", open, err)
	}
	serving(e)
}

// openFiles is how many descriptors the launcher has.
func openFiles(e *harness.Env) int {
	open, err := oracle.Descriptors(victimPID(e))
	e.Must(err, "look at the launcher's open files")
	return len(open)
}

const launcherOracle = "the launcher's answers, its open files by the process table, and a whole attempt by hand afterwards"

var launcherWords = []harness.Case{
	{
		ID: "launcher/choices", Title: "a worker that was taken over chooses what runs, with what, or where", Lock: "launcher",
		Requirements: []string{"SBX-08", "SBX-09"}, Threats: []string{"LCH-T1", "BOX-S1"},
		Attack:  "every verb with an image, a command, arguments, environment, paths, mounts, limits, users, time and network beside it, also in other letters and nested",
		Control: "the verb alone is taken",
		Oracle:  launcherOracle,
		Run: func(e *harness.Env) {
			serving(e)
			files := openFiles(e)
			for _, verb := range []string{"acquire", "run", "kill", "release", "selftest", "status"} {
				for _, more := range []string{
					`"image":"docker.io/library/alpine"`, `"command":["/bin/sh"]`, `"args":["-c","id"]`, `"env":{"LD_PRELOAD":"/x"}`, `"path":"/etc/shadow"`, `"input":"/etc/shadow"`, `"mounts":[{"source":"/","destination":"/host"}]`, `"memory":1099511627776`, `"limits":{"pids":100000}`, `"user":0`, `"timeout_ns":1`, `"network":"host"`, `"privileged":true`, `"slot":0`, `"id":"x"`,
				} {
					e.Input("%s with %s", verb, more)
					l := call(e)
					e.Must(l.send([]byte(`{"verb":"`+verb+`",`+more+`}`)), "send")
					r, err := l.receive(harnessWait)
					e.Check(err == nil && r.code() == "bad_request" && len(r.files) == 0 && l.over(), "answered %s (%v)", r.raw, err)
					l.close()
				}
			}
			unharmed(e, files)
		},
	},
	{
		ID: "launcher/packets", Title: "a packet that is no request does something, or ends the launcher", Lock: "launcher",
		Requirements: []string{"SBX-09"}, Threats: []string{"LCH-T1", "LCH-D1"},
		Attack:  "packets that are empty, large, no JSON, two objects, keys twice or in other letters, other types, NUL, a BOM, deep nesting, broken UTF-8, unknown verbs",
		Control: "a whole attempt by hand",
		Oracle:  launcherOracle,
		Run: func(e *harness.Env) {
			serving(e)
			files := openFiles(e)
			for _, packet := range []string{
				"x", "{", "{}", "null", "[]", `"acquire"`, `["acquire"]`, `{"verb":null}`, `{"verb":""}`, `{"verb":1}`, `{"verb":["acquire"]}`, `{"verb":{"verb":"acquire"}}`, `{"Verb":"acquire"}`, `{"VERB":"acquire"}`, `{"verb":"Acquire"}`, `{"verb":"acquire "}`, `{"verb":"acquire\u0000"}`,
				`{"verb":"status","verb":"acquire"}`, `{"verb":"acquire"}{"verb":"run"}`, `{"verb":"acquire"} x`, `{"verb":"exec"}`, `{"verb":"inspect"}`, `{"verb":"stop"}`, `{"verb":"../../run"}`, "\x00", "\xef\xbb\xbf{\"verb\":\"status\"}", "{\"verb\":\"\xff\"}", strings.Repeat("[", 250), strings.Repeat("{\"verb\":", 30), strings.Repeat("a", 257), strings.Repeat(" ", 300) + `{"verb":"acquire"}`, strings.Repeat("a", 60_000), `{'verb':'acquire'}`, `{"verb":"acquire",}`, `{"ver\u0062":"exec"}`,
			} {
				e.Input("%.60q", packet)
				l := call(e)
				e.Must(l.send([]byte(packet)), "send")
				r, err := l.receive(harnessWait)
				e.Check((err != nil || r.code() == "bad_request" || r.code() == "unknown_verb") && len(r.files) == 0 && l.over(), "answered %s (%v)", r.raw, err)
				l.close()
			}
			unharmed(e, files)
		},
	},
	{
		ID: "launcher/order", Title: "verbs out of order run a core twice, without input, or on another's slot", Lock: "launcher",
		Requirements: []string{"SBX-09", "SBX-12", "JOB-10"}, Threats: []string{"LCH-T1", "LCH-D1"},
		Attack:  "every verb where the protocol does not allow it: before acquire, twice, while it runs, after the run, after release",
		Control: "the same verbs in their order",
		Oracle:  launcherOracle + "; the processes below the launcher's engine: nothing is left of a connection that was ended",
		Run: func(e *harness.Env) {
			serving(e)
			files := openFiles(e)
			for _, verb := range []string{"run", "kill", "release"} {
				l := call(e)
				r, err := l.ask(verb)
				e.Check(err == nil && r.code() == "wrong_state" && l.over(), "%s first: %s (%v)", verb, r.raw, err)
			}
			for _, second := range []string{"acquire", "status", "selftest", "kill"} {
				l, _ := acquired(e)
				r, err := l.ask(second)
				e.Check(err == nil && r.code() == "wrong_state" && len(r.files) == 0 && l.over(), "%s with a slot in hand: %s (%v)", second, r.raw, err)
			}
			l, first := acquired(e)
			_, err := first.files[0].Write(harness.Lua())
			e.Must(err, "write an input")
			ran, err := l.ask("run")
			e.Must(err, "run")
			again, err := l.ask("run")
			e.Check(err == nil && ran.code() == "" && again.code() == "wrong_state" && l.over(), "run again: %s (%v)", again.raw, err)
			l, _ = acquired(e)
			_, err = l.ask("release")
			e.Must(err, "release")
			for _, verb := range []string{"run"} {
				r, err := l.ask(verb)
				e.Check(err == nil && r.code() == "wrong_state" && l.over(), "%s after release: %s (%v)", verb, r.raw, err)
			}
			unharmed(e, files)
		},
	},
	{
		ID: "launcher/root", Title: "an administrator's process is given sandboxes over the worker's socket", Lock: "launcher",
		Requirements: []string{"SBX-09"}, Threats: []string{"LCH-S1"},
		Attack:  "root, whom no file mode stops, asks for slots",
		Control: "root is told the status",
		Oracle:  "the launcher's answer, and that no descriptor comes",
		Run: func(e *harness.Env) {
			l, err := callAs(e, identity.User{})
			e.Must(err, "connect as root")
			r, err := l.ask("status")
			e.Control(err == nil && r.State != nil && r.State.SlotsTotal > 0, "status: %s (%v)", r.raw, err)
			for _, verb := range []string{"acquire", "run", "kill", "release"} {
				l, err := callAs(e, identity.User{})
				e.Must(err, "connect as root")
				r, err := l.ask(verb)
				e.Check(err == nil && r.code() == "forbidden" && len(r.files) == 0 && l.over(), "%s: %s (%v)", verb, r.raw, err)
			}
		},
	},
	{
		ID: "launcher/facts-of-the-host", Title: "the launcher tells a worker about the host", Lock: "launcher",
		Requirements: []string{"SBX-09", "ARC-02"}, Threats: []string{"LCH-T1", "INT-I1"},
		Attack:  "all answers of a whole attempt, of one that fails, of the self-test and of refusals, searched for paths, users and containers",
		Control: "the search finds a verb in the same text",
		Oracle:  "search of the answers' bytes",
		Run: func(e *harness.Env) {
			var all strings.Builder
			keep := func(r reply, err error) {
				if err == nil {
					all.WriteString(r.raw + "\n")
				}
			}
			l, r := acquired(e)
			keep(r, nil)
			_, err := r.files[0].Write([]byte("this is no lua \x00"))
			e.Must(err, "write an input")
			keep(l.ask("run"))
			keep(l.ask("release"))
			keep(l.ask("status"))
			keep(l.ask("selftest"))
			keep(question(e, "run"))
			keep(question(e, "nothing"))
			text := all.String()
			e.Control(strings.Contains(text, "acquire") && strings.Contains(text, "verdict") && strings.Contains(text, "walls"), "the answers are not all there: %.200s", text)
			for what, fact := range map[string]string{
				"state folder": filepath.Dir(e.Endpoint.BinDir), "slots": "slots-", "a home": "/root", "the engine's socket": e.Endpoint.Sockets.Engine, "the engine's folder": "/eng/", "containers": "/containers/storage", "a cgroup": "/sys/fs/cgroup/",
			} {
				e.Check(!strings.Contains(text, fact), "the answers hold the %s", what)
			}
		},
	},
}

var launcherSlots = []harness.Case{
	{
		ID: "launcher/hold-slots", Title: "a worker that was taken over keeps slots from the host for ever", Lock: "launcher", Slow: true,
		Requirements: []string{"SBX-12", "JOB-10"}, Threats: []string{"LCH-D1"},
		Attack:  "take every slot and say nothing; ask for more; then close, reset and leave connections in every state",
		Control: "a slot is given",
		Oracle:  "the launcher's answers and status; " + launcherOracle + "; a friendly user's job is finished afterwards",
		Run: func(e *harness.Env) {
			serving(e) // a launcher that has just begun makes its slots only now
			files := openFiles(e)
			var held []*line
			l, _ := acquired(e)
			held = append(held, l)
			full := e.Await(30*time.Second, func() bool {
				l := call(e)
				r, err := l.ask("acquire")
				if err == nil && r.code() == "" {
					held = append(held, l)
					return false
				}
				l.close()
				return r.code() == "no_slot" && len(held) >= 2
			})
			e.Control(full, "only %d slots were taken", len(held))
			r, err := question(e, "acquire")
			e.Check(err == nil && r.code() == "no_slot" && len(r.files) == 0, "one more: %s (%v)", r.raw, err)
			e.Must(held[0].send([]byte(`{"verb":"run"}`)), "run")
			for _, l := range held {
				l.close()
			}
			free := e.Await(30*time.Second, func() bool {
				r, err := question(e, "status")
				return err == nil && r.State != nil && r.State.SlotsFree > 0
			})
			e.Check(free, "no slot is free again")
			unharmed(e, files)
			job := e.Done(e.Alice(), harness.Lua(), "completed")
			e.Check(job.Status == "completed", "a friendly user's job is %s", job.Status)
		},
	},
	{
		ID: "launcher/connections", Title: "connections without end shut the launcher or exhaust it", Lock: "launcher",
		Requirements: []string{"SBX-09", "SBX-16"}, Threats: []string{"LCH-D1", "BOX-D2"},
		Attack:  "four hundred connections that are held open, and two thousand that are made and dropped",
		Control: "a connection is answered before",
		Oracle:  "process table: the launcher's open files and memory stay bounded; bytes of its log; " + launcherOracle,
		Run: func(e *harness.Env) {
			serving(e)
			files := openFiles(e)
			logs, err := oracle.MarkLogs(e.Endpoint.LogsDir)
			e.Must(err, "mark the logs")
			watch, err := oracle.WatchMemory(20*time.Millisecond, victimPID(e))
			e.Must(err, "watch the launcher's memory")
			var open []*line
			for range 400 {
				if l, err := callAs(e, user(e, "worker")); err == nil {
					open = append(open, l)
				}
			}
			most := openFiles(e)
			const bound = 120 // four connections a slot and some, two files each, and its own
			e.Check(most < files+bound, "it has %d open files, %d before", most, files)
			for _, l := range open {
				l.close()
			}
			for range 2000 {
				if l, err := callAs(e, user(e, "worker")); err == nil {
					l.close()
				}
			}
			growth := watch.Growth()
			e.Check(growth < 64<<20, "its memory grew by %d bytes", growth)
			written, err := logs.Bytes("launcher-*.log")
			e.Must(err, "measure the logs")
			e.Check(written < 128<<10, "%d bytes were written to the logs", written)
			unharmed(e, files)
		},
	},
	{
		ID: "launcher/questions", Title: "questions without end fill the launcher's log or memory", Lock: "launcher",
		Requirements: []string{"SBX-09", "SBX-16"}, Threats: []string{"LCH-D1", "OPS-D1"},
		Attack:  "ten thousand questions on one connection without reading an answer, ten thousand answered ones, and a thousand bad ones",
		Control: "a question is answered",
		Oracle:  "process table: the launcher's memory; bytes of its log; " + launcherOracle,
		Run: func(e *harness.Env) {
			serving(e)
			files := openFiles(e)
			logs, err := oracle.MarkLogs(e.Endpoint.LogsDir)
			e.Must(err, "mark the logs")
			watch, err := oracle.WatchMemory(20*time.Millisecond, victimPID(e))
			e.Must(err, "watch the launcher's memory")
			deaf := call(e)
			sent := 0
			_ = deaf.c.SetWriteDeadline(time.Now().Add(2 * time.Second))
			for range 10_000 {
				if _, _, err := deaf.c.WriteMsgUnix([]byte(`{"verb":"status"}`), nil, nil); err != nil {
					break
				}
				sent++
			}
			good := call(e)
			answered := 0
			for range 10_000 {
				if r, err := good.ask("status"); err == nil && r.State != nil {
					answered++
				}
			}
			e.Control(answered == 10_000, "%d of 10,000 questions were answered", answered)
			for range 1000 {
				if l, err := callAs(e, user(e, "worker")); err == nil {
					_ = l.send([]byte("no request at all"))
					l.close()
				}
			}
			deaf.close()
			good.close()
			growth := watch.Growth()
			e.Check(growth < 64<<20, "its memory grew by %d bytes (%d unread)", growth, sent)
			written, err := logs.Bytes("launcher-*.log")
			e.Must(err, "measure the logs")
			e.Check(written < 128<<10, "%d bytes were written to the logs", written)
			unharmed(e, files)
		},
	},
	{
		ID: "launcher/passed-descriptors", Title: "descriptors that are passed unasked stay in the launcher, or are used there", Lock: "launcher",
		Requirements: []string{"SBX-09"}, Threats: []string{"LCH-E1", "LCH-D1"},
		Attack:  "one, four, a hundred and two hundred and fifty descriptors beside a request: folders, sockets, pipes, devices; again and again",
		Control: "without them the same request is answered",
		Oracle:  "process table: the launcher's open files; " + launcherOracle,
		Run: func(e *harness.Env) {
			serving(e)
			files := openFiles(e)
			root, err := os.Open("/")
			e.Must(err, "open a folder")
			defer root.Close()
			null, err := os.OpenFile("/dev/null", os.O_RDWR, 0)
			e.Must(err, "open a device")
			defer null.Close()
			var pipe [2]int
			e.Must(unix.Pipe2(pipe[:], unix.O_CLOEXEC), "make a pipe")
			defer func() { _ = unix.Close(pipe[0]); _ = unix.Close(pipe[1]) }()
			for _, n := range []int{1, 4, 5, 100, 250} {
				for _, verb := range []string{"acquire", "status", "run"} {
					for range 5 {
						e.Input("%s with %d descriptors", verb, n)
						l := call(e)
						fds := make([]int, n)
						for i := range fds {
							fds[i] = []int{int(root.Fd()), int(null.Fd()), pipe[0], pipe[1]}[i%4]
						}
						_ = l.send([]byte(`{"verb":"`+verb+`"}`), fds...)
						r, err := l.receive(harnessWait)
						e.Check(err != nil || r.code() != "", "answered %s", r.raw)
						l.close()
					}
				}
			}
			r, err := question(e, "status")
			e.Control(err == nil && r.State != nil, "without descriptors: %s (%v)", r.raw, err)
			unharmed(e, files)
		},
	},
	{
		ID: "launcher/cut-off", Title: "what runs outlives the worker that asked for it", Lock: "launcher",
		Requirements: []string{"SBX-12", "JOB-08"}, Threats: []string{"BOX-D3", "LCH-D1"},
		Attack:  "connections that are closed with a slot in hand, at once after run, and after the run without a release",
		Control: "each had a slot",
		Oracle:  "process table: no process of a sandbox's user is left; status: the slots are free; mounts: none more than before",
		Run: func(e *harness.Env) {
			serving(e)
			files, mounts := openFiles(e), mountsBelow(e)
			for i := range 6 {
				l, r := acquired(e)
				e.Control(len(r.files) == 2, "no slot")
				if i%3 > 0 {
					_, err := r.files[0].Write(slowLua())
					e.Must(err, "write an input")
					e.Must(l.send([]byte(`{"verb":"run"}`)), "run")
				}
				if i%3 == 2 {
					_, err := l.receive(20 * time.Second)
					e.Must(err, "await the end")
				}
				l.close()
			}
			e.Check(e.Await(20*time.Second, func() bool { return mountsBelow(e) <= mounts+4 }), "%d mounts were there, %d are", mounts, mountsBelow(e))
			unharmed(e, files)
		},
	},
}
