package oracle_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"glovebox/attacks/oracle"
)

// The processes that a test starts are shells that wait for their standard input.
func start(t *testing.T, argv []string, env ...string) int {
	t.Helper()
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = env
	hold, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { hold.Close(); _ = cmd.Wait() })
	if _, err := out.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	return cmd.Process.Pid
}

func TestAProcessIsSeenWithItsArgumentsEnvironmentAndFiles(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "open")
	pid := start(t, []string{"/bin/sh", "-c", "exec 7>" + file + "; cat & echo; read x", "planted-argument"}, "PLANTED=environment")
	p, err := oracle.ReadProcess(pid)
	if err != nil {
		t.Fatal(err)
	}
	if p.Parent != os.Getpid() || p.UIDs[1] != os.Getuid() || p.RSS == 0 || p.Peak < p.RSS || p.Threads != 1 ||
		!slices.Contains(p.Argv, "planted-argument") || !slices.Contains(p.Environ, "PLANTED=environment") {
		t.Errorf("the process is seen as %+v", p)
	}
	open, err := oracle.Descriptors(pid)
	if err != nil || !slices.Contains(open, oracle.Descriptor{Number: 7, Target: file}) {
		t.Errorf("open files are %v (%v)", open, err)
	}
	below, err := oracle.Descendants(os.Getpid())
	if err != nil || !slices.ContainsFunc(below, func(p oracle.Process) bool { return p.PID == pid }) {
		t.Errorf("the descendants are %v (%v)", below, err)
	}
	if share, err := oracle.PSS(pid); err != nil || share <= 0 || share > p.Peak {
		t.Errorf("its share of memory is %d (%v)", share, err)
	}
	if groups, err := oracle.CgroupOf(pid); err != nil || len(groups) == 0 {
		t.Errorf("its cgroups are %v (%v)", groups, err)
	}
}

func TestListenersAreSeenWithWhoOpenedThem(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	want := l.Addr().String()
	listens := func() bool {
		mine, err := oracle.SocketsOf(os.Getpid())
		if err != nil {
			t.Fatal(err)
		}
		return slices.ContainsFunc(mine, func(s oracle.Socket) bool {
			return s.Listening && s.Local.String() == want && s.UID == os.Getuid()
		})
	}
	if !listens() {
		t.Errorf("the listener at %s is not seen", want)
	}
	l.Close()
	if listens() {
		t.Errorf("the closed listener at %s is still seen", want)
	}
	path := filepath.Join(t.TempDir(), "s")
	u, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer u.Close()
	named, err := oracle.Unix()
	if err != nil || !slices.ContainsFunc(named, func(s oracle.UnixSocket) bool { return s.Path == path }) {
		t.Errorf("the unix socket is not seen (%v)", err)
	}
}

// What a process takes is seen as growth.
func TestMemoryAndTimeTakenAreSeen(t *testing.T) {
	const taken = 96 << 20
	watch, err := oracle.WatchMemory(2*time.Millisecond, os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	before, err := oracle.CPUTime(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	block := make([]byte, taken)
	seen := make(chan struct{})
	go func() {
		defer close(seen)
		for end := time.Now().Add(100 * time.Millisecond); time.Now().Before(end); {
			for i := 0; i < len(block); i += 4096 {
				block[i]++
			}
		}
	}()
	<-seen
	if growth := watch.Growth(); growth < taken/2 || growth > 8*taken {
		t.Errorf("%d bytes were taken, growth is %d", taken, growth)
	}
	after, err := oracle.CPUTime(os.Getpid())
	if err != nil || after-before < 20*time.Millisecond {
		t.Errorf("processor time went from %s to %s (%v)", before, after, err)
	}
	if n, err := oracle.Vmstat("pgfault"); err != nil || n == 0 {
		t.Errorf("page faults: %d (%v)", n, err)
	}
	if _, err := oracle.Vmstat("no_such_counter"); err == nil {
		t.Error("a counter that is not there is read")
	}
}

func TestLogsAreReadFromAMarkOnAndSearchedAcrossPieces(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "server-0.log")
	write := func(text string) {
		t.Helper()
		f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, err := f.WriteString(text); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := oracle.MarkLogs(dir); err == nil {
		t.Error("a folder without logs is taken for one with them")
	}
	write(`{"msg":"before"}` + "\n")
	mark, err := oracle.MarkLogs(dir)
	if err != nil {
		t.Fatal(err)
	}
	write(`{"msg":"after"}` + "\nforged line\n")
	lines, err := mark.Since("server-*.log")
	if err != nil || len(lines) != 2 || lines[0].Fields["msg"] != "after" || lines[1].Fields != nil {
		t.Errorf("since the mark: %v (%v)", lines, err)
	}
	if n, err := mark.Bytes("*.log"); err != nil || n != 28 {
		t.Errorf("%d bytes since the mark (%v)", n, err)
	}
	if lines, err := mark.Since("worker-*.log"); err != nil || len(lines) != 0 {
		t.Errorf("another's lines: %v (%v)", lines, err)
	}
	// Across the edge of a piece, and in the last one.
	needles := map[string][]byte{"edge": []byte("needle-at-the-edge"), "end": []byte("needle-at-the-end"), "none": []byte("needle-not-there")}
	write(strings.Repeat("x", 1<<20-60) + "needle-at-the-edge" + strings.Repeat("y", 3<<20) + "needle-at-the-end")
	if hits, err := oracle.Search(file, needles); err != nil || !slices.Equal(hits, []string{"edge", "end"}) {
		t.Errorf("found %v (%v)", hits, err)
	}
}

func TestMetricsAreReadSeriesBySeries(t *testing.T) {
	t.Parallel()
	page := "# HELP x_total text\nx_total{code=\"200\",route=\"/a b\"} 3\nx_total{code=\"500\"} 2\nx_totals 9\ny 1.5e+06\n"
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(page)) }))
	defer server.Close()
	m, err := oracle.Scrape(context.Background(), server.URL)
	if err != nil || len(m) != 4 || m.Sum("x_total") != 5 || m.Sum("x_total", `code="500"`) != 2 || m.Sum("y") != 1.5e6 || m.Sum("z") != 0 {
		t.Errorf("read as %v (%v)", m, err)
	}
	page = "broken\n"
	if _, err := oracle.Scrape(context.Background(), server.URL); err == nil {
		t.Error("a broken page is taken for metrics")
	}
}
