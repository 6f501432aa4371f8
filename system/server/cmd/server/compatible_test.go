package main

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"glovebox/migrations"
	"glovebox/threat-model/evidence"
)

// TestABinaryThatTheSchemaHasRetired neither starts, nor sweeps, nor stays ready, nor
// comes back to the database when it has lost its connections.
func TestABinaryThatTheSchemaHasRetired(t *testing.T) {
	evidence.Proves(t, "DBS-04")
	in := install(t)
	s := in.start(nil)
	s.anonymous().get("/ready").want(http.StatusOK)
	in.exec("UPDATE app.compatibility SET oldest_binary = $1", migrations.Latest()+1)
	eventually(t, 5*time.Second, "a running one is not ready any more", func() bool {
		return s.anonymous().get("/ready").StatusCode == http.StatusServiceUnavailable
	})
	again := NewMain(nil)
	again.Config, again.Log = s.main.Config, s.main.Log
	if err := again.Open(t.Context()); err == nil || !strings.Contains(err.Error(), "upgrade the binary") {
		t.Errorf("another one starts: %v", err)
	}
	_ = again.Close()
	if _, e, code := in.administer("sweep", "--once"); code == exitOK || !strings.Contains(e, "upgrade the binary") {
		t.Errorf("the sweeper: %d %s", code, e)
	}
	if found, code := in.check(t); code == exitOK || found["binary"].OK {
		t.Errorf("check: %d %+v", code, found)
	}
	user := s.user("alice")
	user.get("/api/v1/auth/me").want(http.StatusOK) // control: its old connections serve
	in.exec("SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = current_database() AND application_name = $1", migrations.ApplicationName())
	const tries = 40 // more than the connections that the pool may take for living ones
	for range tries {
		if code := user.get("/api/v1/auth/me").StatusCode; code == http.StatusOK {
			t.Fatal("it serves on a new connection")
		}
	}
	in.exec("UPDATE app.compatibility SET oldest_binary = $1", migrations.Latest())
	eventually(t, 5*time.Second, "ready again", func() bool { return s.anonymous().get("/ready").StatusCode == http.StatusOK })
}
