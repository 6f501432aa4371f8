package config_test

import (
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	platform "glovebox/system/platform/config"
	"glovebox/system/platform/secret"
	"glovebox/system/server/internal/config"
	"glovebox/threat-model/evidence"
)

func TestTheDefaultsAreValid(t *testing.T) {
	evidence.Proves(t, "REL-03")
	if problems := config.Defaults().Validate(); len(problems) > 0 {
		t.Fatal(problems)
	}
	c, err := config.Load("", nil)
	if err != nil || c.Lease.Duration.String() != "30s" || c.Jobs.MaxAttempts != 3 || c.Retention.Duration.String() != "168h0m0s" || c.Auth.TokenLifetime.String() != "720h0m0s" {
		t.Errorf("the defaults are %+v, %v", c, err)
	}
}

// TestTheFixedKeysExist: other teams' files and scripts name these.
func TestTheFixedKeysExist(t *testing.T) {
	keys := platform.Keys(config.Defaults())
	for _, key := range []string{
		"limits.max_input_bytes", "limits.max_result_bytes", "limits.uploads_per_user", "limits.active_jobs_per_user",
		"limits.stored_bytes_per_user", "limits.min_free_bytes", "lease.duration", "lease.heartbeat", "jobs.max_attempts", "retention.duration",
		"listen.public", "listen.internal", "metrics.listen", "storage.root", "database.url", "database.url_file",
	} {
		if !slices.Contains(keys, key) {
			t.Errorf("the key %s is gone", key)
		}
	}
}

// TestBadValuesNameTheKeyTheFormAndTheRemedy sets each key wrong in its own way.
func TestBadValuesNameTheKeyTheFormAndTheRemedy(t *testing.T) {
	evidence.Proves(t, "REL-03", "MTL-01")
	for _, c := range []struct{ env, key string }{
		{"LISTEN_PUBLIC=8443", "listen.public"},
		{"LISTEN_PUBLIC=:https!", "listen.public"},
		{"LISTEN_INTERNAL=:9443", "listen.internal"},
		{"LISTEN_INTERNAL=0.0.0.0:9443", "listen.internal"},
		{"LISTEN_INTERNAL=[::]:9443", "listen.internal"},
		{"LISTEN_INTERNAL=8.8.8.8:9443", "listen.internal"},
		{"METRICS_LISTEN=0.0.0.0:9464", "metrics.listen"},
		{"METRICS_LISTEN=:9464", "metrics.listen"},
		{"LEASE_DURATION=2s", "lease.duration"},
		{"LEASE_DURATION=30.5s", "lease.duration"},
		{"LEASE_HEARTBEAT=500ms", "lease.heartbeat"},
		{"LEASE_HEARTBEAT=11s", "lease.heartbeat"},
		{"JOBS_MAX_ATTEMPTS=0", "jobs.max_attempts"},
		{"JOBS_TIMEOUT=0s", "jobs.timeout"},
		{"LIMITS_MAX_INPUT_BYTES=0", "limits.max_input_bytes"},
		{"LIMITS_MAX_INPUT_BYTES=20GiB", "limits.stored_bytes_per_user"},
		{"LIMITS_UPLOADS_PER_USER=0", "limits.uploads_per_user"},
		{"LIMITS_ACTIVE_JOBS_PER_USER=many", "limits.active_jobs_per_user"},
		{"RETENTION_DURATION=0s", "retention.duration"},
		{"DATABASE_MAX_CONNS=1", "database.max_conns"},
		{"HTTP_TRUSTED_PROXIES=10.0.0.1,example.org", "http.trusted_proxies"},
		{"HTTP_MAX_CONCURRENT_REQUESTS=0", "http.max_concurrent_requests"},
		{"HTTP_TRUSTED_PROXIES=10.0.0.1,0.0.0.0/0", "http.trusted_proxies"},
		{"HTTP_TRUSTED_PROXIES=::/0", "http.trusted_proxies"},
		{"AUTH_ARGON2_MEMORY=1MiB", "auth.argon2_memory"},
		{"LOG_LEVEL=loud", "log.level"},
		{"SWEEPER_ORPHAN_AGE=0s", "sweeper.orphan_age"},
		{"SWEEPER_STAGED_AGE=30s", "sweeper.staged_age"}, // http.stall_timeout's own default
		{"RETENTION_RECORDS=0s", "retention.records"},
	} {
		_, err := config.Load("", []string{"GLOVEBOX_" + c.env})
		if err == nil || !strings.Contains(err.Error(), c.key+": ") || !strings.Contains(err.Error(), "wanted: ") {
			t.Errorf("%s: %v, want a problem of %s with its form", c.env, err, c.key)
		}
	}
	for _, env := range []string{"LISTEN_INTERNAL=10.1.2.3:9443", "LISTEN_INTERNAL=[fd00::1]:9443", "LISTEN_INTERNAL=workers.example:9443", "LISTEN_INTERNAL=localhost:9443"} {
		if _, err := config.Load("", []string{"GLOVEBOX_" + env}); err != nil {
			t.Errorf("%s: %v", env, err)
		}
	}
	if _, err := config.Load("", []string{"GLOVEBOX_LISTEN_INTERNAL=:9443", "GLOVEBOX_LISTEN_INTERNAL_WILDCARD=true"}); err != nil {
		t.Errorf("with the override: %v", err)
	}
	if _, err := config.Load("", []string{"GLOVEBOX_LEASE_DURATION=3s", "GLOVEBOX_LEASE_HEARTBEAT=1s"}); err != nil {
		t.Errorf("the least lease: %v", err)
	}
}

// TestANameForTheInternalAPIMustLeadInside: what a name leads to is known only
// once it is listened on.
func TestANameForTheInternalAPIMustLeadInside(t *testing.T) {
	evidence.Proves(t, "MTL-01")
	for bound, inside := range map[string]bool{
		"127.0.0.1:9443": true, "[::1]:9443": true, "10.1.2.3:9443": true, "[fd00::1]:9443": true, "[fe80::1%eth0]:9443": true, "[::ffff:10.1.2.3]:9443": true,
		"0.0.0.0:9443": false, "[::]:9443": false, "203.0.113.5:9443": false, "[2001:db8::1]:9443": false, "[::ffff:203.0.113.5]:9443": false,
	} {
		addr := net.TCPAddrFromAddrPort(netip.MustParseAddrPort(bound))
		if err := (config.Listen{Internal: "workers.example:9443"}).JudgeInternal(addr); (err == nil) != inside {
			t.Errorf("%s: %v, want inside %v", bound, err, inside)
		}
		if err := (config.Listen{InternalWildcard: true}).JudgeInternal(addr); err != nil {
			t.Errorf("%s with the override: %v", bound, err)
		}
	}
}

func TestUnknownKeysAreRefused(t *testing.T) {
	evidence.Proves(t, "REL-03")
	file := filepath.Join(t.TempDir(), "server.toml")
	if err := os.WriteFile(file, []byte("[lease]\nduratoin = \"30s\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := config.Load(file, nil)
	if err == nil || !strings.Contains(err.Error(), "lease.duratoin") {
		t.Errorf("error is %v", err)
	}
}

// TestADatabaseAcrossANetworkNeedsAVerifiedCertificate walks through the forms a
// PostgreSQL URL has.
func TestADatabaseAcrossANetworkNeedsAVerifiedCertificate(t *testing.T) {
	evidence.Proves(t, "DBS-02", "REL-03")
	for url, good := range map[string]bool{
		"postgres://glovebox_server:s3cr3t@db.example/glovebox?sslmode=verify-full": true,
		"postgres://glovebox_server:s3cr3t@/glovebox?host=/run/postgresql":          true,
		"postgres://glovebox_server:s3cr3t@127.0.0.1/glovebox?sslmode=disable":      true,
		"postgres://glovebox_server:s3cr3t@[::1]/glovebox?sslmode=disable":          true,
		"host=localhost user=glovebox_server password=s3cr3t dbname=glovebox":       true,
		"postgres://glovebox_server:s3cr3t@db.example/glovebox":                     false, // prefer: may fall back
		"postgres://glovebox_server:s3cr3t@db.example/glovebox?sslmode=disable":     false,
		"postgres://glovebox_server:s3cr3t@db.example/glovebox?sslmode=require":     false,
		"postgres://glovebox_server:s3cr3t@db.example/glovebox?sslmode=verify-ca":   false,
		"postgres://glovebox_server:s3cr3t@127.0.0.1.example/x?sslmode=disable":     false,
		"postgres://glovebox_server:s3cr3t@127.0.0.1,db.example/x?sslmode=disable":  false,
		"mysql://s3cr3t": false,
	} {
		err := config.JudgeDatabaseURL(secret.New(url))
		if (err == nil) != good {
			t.Errorf("%s: %v, want accepted: %v", url, err, good)
		}
		if err != nil && strings.Contains(err.Error(), "s3cr3t") {
			t.Errorf("the error repeats the password: %v", err)
		}
	}
}

func TestSecretsAreNeededMeasuredAndNeverShown(t *testing.T) {
	evidence.Proves(t, "AUT-04", "REL-03", "REL-02")
	const short = "short-but-secret"
	c := config.Defaults()
	c.Auth.TokenSecret = secret.New(short)
	c.Database.URL = secret.New("postgres://x:" + short + "@db.example/x")
	_, err := c.ForServe()
	if err == nil {
		t.Fatal("serving without anything is accepted")
	}
	for _, key := range []string{"auth.token_secret", "database.url", "storage.root", "tls.public_cert", "tls.internal_client_ca"} {
		if !strings.Contains(err.Error(), key+": ") {
			t.Errorf("no problem names %s", key)
		}
	}
	if strings.Contains(err.Error(), short) {
		t.Errorf("a secret is shown: %v", err)
	}
	file := filepath.Join(t.TempDir(), "url")
	if err := os.WriteFile(file, []byte("postgres:///glovebox?host=/run/postgresql\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c.Database = config.Database{OperatorURLFile: file, SweeperURLFile: file, MigratorURLFile: file, URLFile: file}
	c.Storage.Root = "/srv/glovebox"
	for name, resolve := range map[string]func() (secret.Text, error){
		"operator": c.ForOperator, "sweeper": c.ForSweep, "migrator": c.ForMigrate, "server": c.ForServerDatabase,
	} {
		if url, err := resolve(); err != nil || url.IsZero() {
			t.Errorf("%s: %v", name, err)
		}
	}
	c.Database.OperatorURL = secret.New("postgres:///x")
	if _, err := c.ForOperator(); err == nil {
		t.Error("a login given twice is accepted")
	}
}
