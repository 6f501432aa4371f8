package config_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"glovebox/system/worker/internal/config"
	"glovebox/threat-model/evidence"
)

const whole = `
[server]
url = "https://box.example:9443"
[tls]
cert_file = "w.crt"
key_file = "w.key"
ca_file = "ca.crt"
[launcher]
socket = "launcher.sock"
`

func load(t *testing.T, text string, environ ...string) (*config.Config, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "worker.toml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return config.Load(path, environ)
}

func TestDefaultsAndOverrides(t *testing.T) {
	t.Parallel()
	evidence.Proves(t, "REL-03")
	c, err := load(t, whole, "GLOVEBOX_WORKER_SLOTS=7", "GLOVEBOX_WORKER_GRACE=0s")
	if err != nil {
		t.Fatal(err)
	}
	if c.Worker.Slots != 7 || c.Worker.Grace != 0 || c.Metrics.Listen != "127.0.0.1:9465" || c.Log.Level != "info" {
		t.Errorf("got %+v", c)
	}
	if d := config.Defaults(); d.Worker.Grace.Std() != 30*time.Second || d.Worker.Slots != 2 {
		t.Errorf("defaults %+v", d.Worker)
	}
}

func TestEachFaultNamesItsKey(t *testing.T) {
	t.Parallel()
	evidence.Proves(t, "REL-03")
	rows := map[string]struct{ text, environ, key string }{
		"plain http":       {whole, "GLOVEBOX_SERVER_URL=http://box:1", "server.url"},
		"a path":           {whole, "GLOVEBOX_SERVER_URL=https://box/x", "server.url"},
		"credentials":      {whole, "GLOVEBOX_SERVER_URL=https://a:b@box", "server.url"},
		"no certificate":   {whole, "GLOVEBOX_TLS_CERT_FILE=", "tls.cert_file"},
		"no key":           {whole, "GLOVEBOX_TLS_KEY_FILE=", "tls.key_file"},
		"no authorities":   {whole, "GLOVEBOX_TLS_CA_FILE=", "tls.ca_file"},
		"no launcher":      {whole, "GLOVEBOX_LAUNCHER_SOCKET=", "launcher.socket"},
		"no slots":         {whole, "GLOVEBOX_WORKER_SLOTS=0", "worker.slots"},
		"too many slots":   {whole, "GLOVEBOX_WORKER_SLOTS=257", "worker.slots"},
		"slots in words":   {whole, "GLOVEBOX_WORKER_SLOTS=two", "worker.slots"},
		"negative grace":   {whole, "GLOVEBOX_WORKER_GRACE=-1s", "worker.grace"},
		"open metrics":     {whole, "GLOVEBOX_METRICS_LISTEN=0.0.0.0:9465", "metrics.listen"},
		"metrics by name":  {whole, "GLOVEBOX_METRICS_LISTEN=box:9465", "metrics.listen"},
		"metrics nowhere":  {whole, "GLOVEBOX_METRICS_LISTEN=9465", "metrics.listen"},
		"unknown level":    {whole, "GLOVEBOX_LOG_LEVEL=loud", "log.level"},
		"unknown key":      {whole + "[database]\nurl = \"x\"\n", "", "database"},
		"identity by hand": {whole + "[worker]\nid = \"w-2\"\n", "", "worker.id"},
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := load(t, row.text, row.environ)
			if err == nil || !strings.Contains(err.Error(), row.key) {
				t.Errorf("got %v, want a fault of %s", err, row.key)
			}
			if err != nil && strings.Contains(err.Error(), "a:b@") {
				t.Error("the fault shows credentials")
			}
		})
	}
}
