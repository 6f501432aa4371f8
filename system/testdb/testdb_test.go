package testdb_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"glovebox/system/platform/secret"
	"glovebox/system/testdb"
)

// victimEnv makes this test binary a process that starts a cluster and waits to
// be killed.
const victimEnv = "TESTDB_VICTIM"

func TestMain(m *testing.M) {
	if os.Getenv(victimEnv) == "" {
		os.Exit(m.Run())
	}
	server, err := testdb.Start(context.Background())
	if err != nil {
		fmt.Println("error:", err)
		os.Exit(1)
	}
	fmt.Println("running:", server.Dir())
	_, _ = bufio.NewReader(os.Stdin).ReadString('\n') // until killed
	os.Exit(0)
}

// TestAPrivateClusterDiesWithItsProcess kills a process that has one, and waits
// for the folder to go.
func TestAPrivateClusterDiesWithItsProcess(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	victim := exec.Command(self)
	victim.Env = append(os.Environ(), victimEnv+"=1", testdb.BackendEnv+"=local")
	if _, err := victim.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := victim.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := victim.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	dir, ok := strings.CutPrefix(strings.TrimSpace(line), "running: ")
	if err != nil || !ok {
		t.Fatalf("the process said %q, %v", line, err)
	}
	if _, err := os.Stat(dir); err != nil {
		t.Fatal(err)
	}
	if err := victim.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = victim.Wait()
	deadline := time.Now().Add(20 * time.Second)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s is still there", dir)
		}
		<-tick.C
	}
}

// TestAClusterKeepsItsDataThroughACrash starts a durable one in a folder, stops it
// as a crash does, and starts it again from the same folder.
func TestAClusterKeepsItsDataThroughACrash(t *testing.T) {
	dir, err := os.MkdirTemp("/tmp", "gbpg-test-") // t.TempDir is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	ctx := t.Context()
	ask := func(url secret.Text, sql string) (n int) {
		t.Helper()
		conn, err := pgx.Connect(ctx, url.Reveal())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close(ctx)
		if err := conn.QueryRow(ctx, sql).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	cluster, err := testdb.StartCluster(ctx, dir, testdb.Options{Durable: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cluster.Stop(context.Background(), false) })
	if pid, err := cluster.PID(); err != nil || pid <= 0 {
		t.Fatalf("pid %d, %v", pid, err)
	}
	conn, err := pgx.Connect(ctx, cluster.AdminURL("postgres").Reveal())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Exec(ctx, "CREATE TABLE kept AS SELECT 42 AS n"); err != nil {
		t.Fatal(err)
	}
	_ = conn.Close(ctx)
	if err := cluster.Stop(ctx, true); err != nil {
		t.Fatal(err)
	}
	again, err := testdb.StartCluster(ctx, dir, testdb.Options{Durable: true})
	if err != nil {
		t.Fatal(err)
	}
	if n := ask(again.AdminURL("postgres"), "SELECT n FROM kept"); n != 42 {
		t.Errorf("kept %d", n)
	}
	for _, setting := range []string{"fsync", "synchronous_commit", "full_page_writes"} {
		if n := ask(again.AdminURL("postgres"), "SELECT (current_setting('"+setting+"') = 'on')::int"); n != 1 {
			t.Errorf("a durable cluster runs with %s off", setting)
		}
	}
	if n := ask(again.AdminURL("postgres"), "SELECT (current_setting('listen_addresses') = '')::int"); n != 1 {
		t.Error("the cluster listens on the network")
	}
	// No login without the password.
	login, err := pgx.ParseConfig(again.AdminURL("postgres").Reveal())
	if err != nil {
		t.Fatal(err)
	}
	login.Password = "wrong"
	if conn, err := pgx.ConnectConfig(ctx, login); err == nil {
		_ = conn.Close(ctx)
		t.Error("a wrong password logs in")
	}
	if info, err := os.Stat(filepath.Join(dir, "admin-password")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the password file: %v, %v", info, err)
	}
}

func TestAServerOfSomebodyElseIsTakenByItsURL(t *testing.T) {
	own, err := testdb.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(testdb.DSNEnv, own.AdminURL().Reveal())
	for range 2 { // the template and the roles are there the second time
		other, err := testdb.StartBackend(t.Context(), "")
		if err != nil || other.Backend != "dsn" {
			t.Fatalf("backend %+v, %v", other, err)
		}
		db := other.New(t)
		if _, err := db.Pool(t, testdb.ServerRole).Exec(t.Context(), "SELECT count(*) FROM app.jobs"); err != nil {
			t.Error(err)
		}
	}
}

func TestNoBackendIsAnErrorThatTeaches(t *testing.T) {
	t.Setenv(testdb.DSNEnv, "")
	for _, backend := range []string{"dsn", "punchcards"} {
		_, err := testdb.StartBackend(t.Context(), backend)
		if err == nil || !strings.Contains(err.Error(), testdb.DSNEnv) {
			t.Errorf("%s: %v", backend, err)
		}
	}
	t.Setenv(testdb.DSNEnv, "postgres://nobody:s3cr3t@127.0.0.1:1/none?sslmode=disable&connect_timeout=2")
	if _, err := testdb.StartBackend(t.Context(), "dsn"); err == nil || strings.Contains(err.Error(), "s3cr3t") {
		t.Errorf("an address where nobody listens: %v", err)
	}
}

// The cluster's folder belongs to the user postgres, whom other services of a
// host may share. A link of his there must not make root write, or give away,
// what it leads to.
func TestALinkInTheClustersFolderIsNotFollowed(t *testing.T) {
	t.Parallel()
	victim := filepath.Join(t.TempDir(), "victim")
	if err := os.WriteFile(victim, []byte("untouched"), 0o600); err != nil {
		t.Fatal(err)
	}
	before, err := os.Stat(victim)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.Symlink(victim, filepath.Join(dir, "admin-password")); err != nil {
		t.Fatal(err)
	}
	if _, err := testdb.StartCluster(t.Context(), dir, testdb.Options{}); err == nil {
		t.Error("a cluster was made over a link")
	}
	content, err := os.ReadFile(victim)
	if err != nil || string(content) != "untouched" {
		t.Errorf("the link's target was written: %q, %v", content, err)
	}
	after, err := os.Stat(victim)
	if err != nil {
		t.Fatal(err)
	}
	if a, b := before.Sys().(*syscall.Stat_t), after.Sys().(*syscall.Stat_t); a.Uid != b.Uid || a.Gid != b.Gid {
		t.Errorf("the link's target was given from user %d to %d", a.Uid, b.Uid)
	}
}
