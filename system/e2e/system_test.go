// Package e2e runs the whole system, every part real, and looks at it from
// outside: through the client a person would use, the database's observer role,
// the disk and the process table.
package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"glovebox/ci/local"
)

const root = "../.."

// start runs a system of the test's own and stops it at the end; a process that
// had to be killed, or a folder that stays, fails the test.
func start(t *testing.T, name string, portBase int, opts local.Options) *local.System {
	t.Helper()
	opts.Root, opts.Name, opts.PortBase = root, "e2e-"+name, portBase
	if opts.LogLevel == "" {
		opts.LogLevel = "debug"
	}
	// A run that was cut off may have left its system.
	if err := local.DownAt(root, opts.Name); err != nil {
		t.Logf("what an earlier run left: %v", err)
	}
	s, err := local.Up(context.Background(), opts)
	if err != nil {
		t.Fatalf("start the system: %v", err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			showLogs(t, s.LogsDir)
		}
		if err := s.Down(); err != nil {
			t.Errorf("stop the system: %v", err)
		}
	})
	return s
}

func showLogs(t *testing.T, dir string) {
	logs, _ := filepath.Glob(filepath.Join(dir, "*.log"))
	for _, name := range logs {
		content, err := os.ReadFile(name)
		if err != nil || len(content) == 0 {
			continue
		}
		lines := strings.Split(strings.TrimSpace(string(content)), "\n")
		t.Logf("%s, the end of %d lines:\n%s", filepath.Base(name), len(lines), strings.Join(lines[max(0, len(lines)-40):], "\n"))
	}
}

// image builds the image of a core and returns its reference.
func image(t *testing.T, binary string) string {
	t.Helper()
	cmd := exec.Command("go", "run", "./ci/image", "--binary", binary, "--out", filepath.Join(t.TempDir(), "image"))
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("build an image: %v", err)
	}
	var built struct {
		Ref string `json:"ref"`
	}
	if err := json.Unmarshal(out, &built); err != nil || built.Ref == "" {
		t.Fatalf("the image builder said %s (%v)", out, err)
	}
	return built.Ref
}

// compile builds a static C program.
func compile(t *testing.T, source string) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), strings.TrimSuffix(filepath.Base(source), ".c"))
	if text, err := exec.Command("gcc", "-static", "-O1", "-Wall", "-Werror", "-pthread", "-o", out, source).CombinedOutput(); err != nil {
		t.Fatalf("compile %s: %v\n%s", source, err, text)
	}
	return out
}

// person is a user with the client's state in a folder of its own.
type person struct {
	t      *testing.T
	system *local.System
	user   local.User
	home   string
	url    string // of the server to speak to; the first when empty
}

func login(t *testing.T, s *local.System, index int) person {
	t.Helper()
	p := person{t: t, system: s, user: s.Users[index], home: t.TempDir()}
	p.must("login", p.user.Login, "--password-file", p.user.PasswordFile)
	return p
}

// clientPatience ends a client whose job never ends.
const clientPatience = 5 * time.Minute

// command is the client as the person runs it.
func (p person) command(args ...string) *exec.Cmd {
	ctx, cancel := context.WithTimeout(context.Background(), clientPatience)
	p.t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, filepath.Join(root, "out/bin/glovebox"), args...)
	url := p.url
	if url == "" {
		url = p.system.PublicURL
	}
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + p.home, "XDG_STATE_HOME=" + filepath.Join(p.home, "state"), "XDG_CONFIG_HOME=" + filepath.Join(p.home, "config"),
		"GLOVEBOX_URL=" + url, "GLOVEBOX_CA_FILE=" + p.system.CAFile, "GLOVEBOX_TOKEN_FILE=" + filepath.Join(p.home, "token"),
	}
	return cmd
}

// run runs the client and returns what it printed and its exit status.
func (p person) run(args ...string) (stdout, stderr string, status int) {
	p.t.Helper()
	cmd := p.command(args...)
	var out, errs strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	if cmd.ProcessState == nil {
		p.t.Fatalf("run the client: %v", err)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

// must runs the client and fails the test unless it succeeds.
func (p person) must(args ...string) string {
	p.t.Helper()
	out, errs, status := p.run(args...)
	if status != 0 {
		p.t.Fatalf("glovebox %s: status %d\n%s%s", strings.Join(args, " "), status, out, errs)
	}
	return out
}

// submit sends a file and returns the job's id.
func (p person) submit(path string) string {
	p.t.Helper()
	id, err := p.trySubmit(path)
	if err != nil {
		p.t.Fatal(err)
	}
	return id
}

// trySubmit is submit for goroutines, which may not end the test.
func (p person) trySubmit(path string) (string, error) {
	var answer struct {
		ID string `json:"id"`
	}
	out, errs, status := p.run("--json", "submit", path)
	if status != 0 {
		return "", fmt.Errorf("submit: status %d: %s", status, errs)
	}
	if err := json.Unmarshal([]byte(out), &answer); err != nil || answer.ID == "" {
		return "", fmt.Errorf("submit printed %q (%v)", out, err)
	}
	return answer.ID, nil
}

// observer looks at the database with the observer's rights.
func observer(t *testing.T, s *local.System) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(context.Background(), s.DatabaseURL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

// job is the observer's view of one job.
type job struct {
	status, worker, code string
	attempt              int
	token                int64
	retryable            bool
}

func look(t *testing.T, db *pgx.Conn, id string) job {
	t.Helper()
	var j job
	err := db.QueryRow(context.Background(), `SELECT status, coalesce(worker_id, ''), coalesce(error_code, ''), attempt, fencing_token, coalesce(error_retryable, false)
		FROM observe.jobs WHERE id = $1`, id).Scan(&j.status, &j.worker, &j.code, &j.attempt, &j.token, &j.retryable)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

// history returns the job's transitions in order, "pending>processing claimed w1".
func history(t *testing.T, db *pgx.Conn, id string) []string {
	t.Helper()
	rows, err := db.Query(context.Background(), `SELECT coalesce(from_status, ''), to_status, cause, coalesce(worker_id, '') FROM observe.job_events WHERE job_id = $1 ORDER BY at, fencing_token, attempt`, id)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var all []string
	for rows.Next() {
		var from, to, cause, worker string
		if err := rows.Scan(&from, &to, &cause, &worker); err != nil {
			t.Fatal(err)
		}
		all = append(all, strings.TrimSpace(fmt.Sprintf("%s>%s %s %s", from, to, cause, worker)))
	}
	return all
}

// eventually polls until check returns "", else fails with its last word.
func eventually(t *testing.T, within time.Duration, what string, check func() string) {
	t.Helper()
	deadline := time.Now().Add(within)
	for {
		why := check()
		if why == "" {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within %s: %s", what, within, why)
		}
		time.Sleep(50 * time.Millisecond)
	}
}
