package e2e_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"glovebox/threat-model/evidence"
)

// What the shared system of the edges allows a core.
const (
	edgeResultBytes = 1 << 20
	edgeMemoryBytes = 64 << 20
	edgeAttempts    = 2
)

// badCore is one way to end badly: what the core does, and what its owner, the
// row and the client must say.
type badCore struct {
	name      string
	act       string // first line of the input, without "#!act "
	body      string // what the core copies to the result
	code      string // "" where the job must be completed
	retryable bool
	exit      int    // of the client's wait
	says      string // must stand in what the client prints
	result    []byte // of a completed job; nil is body
}

// badCores lists every way. The controls are those without a code.
func badCores() []badCore {
	body := "the body of the file"
	refused := func(name, act string) badCore {
		return badCore{name: name, act: act, body: body, code: "core_forbidden_call", exit: 5}
	}
	diagnostic := func(name, text string) badCore {
		return badCore{name: "diagnostic " + name, act: "exit 3", body: text, code: "invalid_input", exit: 4}
	}
	all := []badCore{
		{name: "none", act: "sleep 0", body: body},
		{name: "loops", act: "loop", code: "timeout", retryable: true, exit: 5},
		{name: "loops in all its threads", act: "loop-everywhere", code: "timeout", retryable: true, exit: 5},
		{name: "sleeps for ever", act: "sleep 100000000", code: "timeout", retryable: true, exit: 5},
		{name: "uses up its address space and says so", act: "reserve", code: "out_of_memory", retryable: true, exit: 5},
		{name: "opens files without end", act: "descriptors", body: body},
		{name: "eats memory", act: "memory", code: "out_of_memory", retryable: true, exit: 5},
		{name: "eats memory in a thread", act: "memory-thread", code: "out_of_memory", retryable: true, exit: 5},
		{name: "says out of memory", act: "exit 6", code: "out_of_memory", retryable: true, exit: 5},
		{name: "makes threads without end", act: "threads 100", body: body},
		{name: "leaves a thread running", act: "left-running", body: body},
		{name: "ends its first thread first", act: "late", body: body},
		{name: "prints 256 MiB", act: "print 268435456", body: body},
		{name: "writes past the bound and says so", act: fmt.Sprint("past ", 2*edgeResultBytes), code: "output_too_large", exit: 4},
		{name: "writes past the bound and looks away", act: fmt.Sprint("past-careless ", 2*edgeResultBytes), code: "output_too_large", exit: 4},
		{name: "writes one byte past the bound and looks away", act: fmt.Sprint("past-careless ", edgeResultBytes+1), code: "output_too_large", exit: 4},
		{name: "writes up to the bound", act: fmt.Sprint("past ", edgeResultBytes), result: make([]byte, edgeResultBytes)},
		{name: "leaves nothing and says success", act: "empty", code: "output_invalid", exit: 5},
		{name: "leaves a hole", act: "hole 100000", result: make([]byte, 100000)},
		{name: "leaves a hole past the bound", act: fmt.Sprint("hole ", 64*edgeResultBytes), code: "output_invalid", exit: 5},
		{name: "refuses the file", act: "exit 4", code: "invalid_input", exit: 4},
		{name: "half a result and an error", act: "exit 70", body: body, code: "core_error", exit: 5},
		{name: "its bound, with half a result", act: "exit 5", body: body, code: "output_too_large", exit: 4},
		refused("forks", "call fork"),
		refused("changes the result's mode", "call fchmod"),
		refused("changes the mode by name", "call chmod"),
		refused("changes the owner", "call chown"),
		refused("changes the times", "call times"),
		refused("sets an attribute", "call attribute"),
		refused("removes the result", "call unlink"),
		refused("renames the result", "call rename"),
		refused("links the result", "call link"),
		refused("preallocates", "call preallocate"),
		refused("opens a socket", "call socket"),
		refused("traces", "call ptrace"),
		refused("kills everything", "call kill"),
		// One that is process 1 of its namespace cannot be ended by its own signal,
		// so a forged death is none.
		{name: "forges a memory death", act: "raise 9", body: body},
		{name: "forges a forbidden call", act: "raise 31", body: body},
	}
	for _, status := range []int{1, 2, 125, 126, 127, 137, 139, 159, 255} {
		all = append(all, badCore{name: fmt.Sprint("exits with ", status), act: fmt.Sprint("exit ", status), body: body, code: "core_error", exit: 5})
	}
	for _, signal := range []int{4, 6, 8, 11} {
		all = append(all, badCore{name: fmt.Sprint("dies of signal ", signal), act: fmt.Sprint("crash ", signal), code: "core_crashed", exit: 5})
	}
	good := diagnostic("in its form", `{"line":7,"column":3,"message":"unexpected symbol near '='"}`+"\n")
	good.says = "line 7, column 3: unexpected symbol near '='"
	html := diagnostic("with markup, which is text", `{"line":1,"column":1,"message":"<script>alert(1)</script>"}`)
	html.says = "<script>alert(1)</script>"
	return append(all, good, html,
		diagnostic("with control characters", "{\"line\":1,\"column\":1,\"message\":\"\x1b[2Jforged\x07\"}"),
		diagnostic("with escaped control characters", `{"line":1,"column":1,"message":"\u001b[2Jforged\u0007"}`),
		diagnostic("with text that turns direction", `{"line":1,"column":1,"message":"\u202eforged"}`),
		diagnostic("of 513 bytes", `{"line":1,"column":1,"message":"forged`+strings.Repeat("x", 513-len(`{"line":1,"column":1,"message":"forged"}`))+`"}`),
		diagnostic("of a megabyte", strings.Repeat("forged", edgeResultBytes/6)),
		diagnostic("with wrong types", `{"line":"1","column":[],"message":"forged"}`),
		diagnostic("with numbers out of range", `{"line":0,"column":-1,"message":"forged"}`),
		diagnostic("with another key", `{"line":1,"column":1,"message":"forged","html":"forged"}`),
		diagnostic("with a key twice", `{"line":1,"column":1,"message":"a","message":"forged"}`),
		diagnostic("with something behind it", `{"line":1,"column":1,"message":"forged"}{}`),
		diagnostic("that is no UTF-8", "{\"line\":1,\"column\":1,\"message\":\"forged\xff\"}"),
		diagnostic("that is deep", strings.Repeat(`[`, 500)+"forged"),
	)
}

// badCoresTest runs every bad core at once through the whole system.
func badCoresTest(t *testing.T, w *edgeWorld) {
	evidence.Record(t, evidence.Claim{
		Requirements: []string{"JOB-09", "JOB-11", "JOB-12", "SBX-04", "SBX-06", "SBX-12", "SBX-16", "COR-03"},
		Tried:        "each way in which a core can end badly, as a program in the real sandbox",
		Oracle:       "observer's view, the client's exit status and text, the downloaded bytes, engine list, process table, mounts, cgroups, size of the logs",
	})
	logs := folderSize(t, w.LogsDir)
	dir := t.TempDir()
	queue := make(chan int)
	all := badCores()
	ids := make([]string, len(all))
	var workers sync.WaitGroup
	for i := range 6 {
		p := w.people[i%2]
		workers.Go(func() {
			for n := range queue {
				ids[n] = runBadCore(t, p, dir, n, all[n])
			}
		})
	}
	for n := range all {
		queue <- n
	}
	close(queue)
	workers.Wait()

	for n, c := range all {
		if ids[n] == "" {
			continue // reported already
		}
		j := look(t, w.db, ids[n])
		attempts := 1
		if c.retryable {
			attempts = edgeAttempts
		}
		status := "failed"
		if c.code == "" {
			status = "completed"
		}
		if j.status != status || j.code != c.code || j.retryable != c.retryable || j.attempt != attempts {
			t.Errorf("%s: the row says %+v, want %s %q retryable %v in %d attempts: %v", c.name, j, status, c.code, c.retryable, attempts, history(t, w.db, ids[n]))
		}
	}
	clean(t, w.System)
	// 64 jobs, one of which printed 256 MiB: some kilobytes of log for each.
	if grown := folderSize(t, w.LogsDir) - logs; grown > int64(len(all))*32<<10 {
		t.Errorf("the logs grew by %d bytes over %d jobs", grown, len(all))
	}
}

// runBadCore submits one and waits for its end with the client; it returns the
// job's id, or "" when the case has failed already.
func runBadCore(t *testing.T, p person, dir string, n int, c badCore) string {
	path, target := filepath.Join(dir, strconv.Itoa(n)), filepath.Join(dir, strconv.Itoa(n)+".out")
	if err := os.WriteFile(path, []byte("#!act "+c.act+"\n"+c.body), 0o600); err != nil {
		t.Error(err)
		return ""
	}
	id, err := p.trySubmit(path)
	if err != nil {
		t.Errorf("%s: %v", c.name, err)
		return ""
	}
	out, errs, exit := p.run("wait", id)
	said := out + errs
	if exit != c.exit {
		t.Errorf("%s: the client exits with %d, want %d: %s", c.name, exit, c.exit, said)
	}
	if !strings.Contains(said, c.says) || strings.Contains(said, "forged") || strings.ContainsFunc(said, isHostile) {
		t.Errorf("%s: the client says %q, want %q in it and nothing hostile", c.name, said, c.says)
	}
	if c.code != "" {
		return id
	}
	want := c.result
	if want == nil {
		want = []byte(c.body)
	}
	if _, errs, exit := p.run("fetch", id, "-o", target); exit != 0 {
		t.Errorf("%s: the result cannot be had: %s", c.name, errs)
	} else if got, err := os.ReadFile(target); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s: %d bytes came back, want %d (%v)", c.name, len(got), len(want), err)
	}
	return id
}

// isHostile reports what a terminal would obey, or show as something else.
func isHostile(r rune) bool {
	return r < ' ' && r != '\n' && r != '\t' || r >= 0x7f && r < 0xa0 || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069
}

func folderSize(t *testing.T, dir string) (total int64) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if info, err := os.Stat(file); err == nil {
			total += info.Size()
		}
	}
	return total
}
