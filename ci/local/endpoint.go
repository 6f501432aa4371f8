package local

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

// Endpoint is out/run/endpoint.json: all that a test outside the product needs to
// reach the running system and to look at it (INTERFACES §5). Absent parts are null.
type Endpoint struct {
	Schema         int             `json:"schema"`
	PublicURL      string          `json:"public_url"`
	InternalURL    string          `json:"internal_url"`
	IngestURL      *string         `json:"ingest_url"`
	CAFile         string          `json:"ca_file"`
	InternalCAFile string          `json:"internal_ca_file"`
	BinDir         string          `json:"bin_dir"`
	StorageRoot    string          `json:"storage_root"`
	LogsDir        string          `json:"logs_dir"`
	DatabaseURL    string          `json:"database_url"` // observer role
	RedisURL       *string         `json:"redis_url"`
	S3             *S3             `json:"s3"`
	Users          []User          `json:"users"`
	Workers        []Worker        `json:"workers"`
	IngestCert     *string         `json:"ingest_cert"`
	IngestKey      *string         `json:"ingest_key"`
	Configs        Configs         `json:"configs"`
	PIDs           PIDs            `json:"pids"`
	UIDs           map[string]int  `json:"uids"`
	Sockets        Sockets         `json:"sockets"`
	Metrics        map[string]any  `json:"metrics"`
	Servers        []ServerAddress `json:"servers"` // every server, the first included
	AdminConfig    string          `json:"admin_config"`
	SlotsRoot      string          `json:"slots_root"`
}

// S3 names an S3-compatible store.
type S3 struct {
	Endpoint string `json:"endpoint"`
	Bucket   string `json:"bucket"`
}

// User is a person who may log in.
type User struct {
	Login        string `json:"login"`
	PasswordFile string `json:"password_file"`
}

// Worker is a worker's identity, with whether the server's list holds it.
type Worker struct {
	ID      string `json:"id"`
	Cert    string `json:"cert"`
	Key     string `json:"key"`
	Allowed bool   `json:"allowed"`
}

// Configs are the paths of the configuration files.
type Configs struct {
	Server   string  `json:"server"`
	Worker   string  `json:"worker"`
	Launcher string  `json:"launcher"`
	Ingest   *string `json:"ingest"`
}

// PIDs are the running processes.
type PIDs struct {
	Server   []int `json:"server"`
	Sweeper  int   `json:"sweeper"`
	Worker   []int `json:"worker"`
	Launcher []int `json:"launcher"`
	Engine   int   `json:"engine"`
	Postgres int   `json:"postgres"`
	Redis    *int  `json:"redis"`
	Ingest   *int  `json:"ingest"`
}

// Sockets are the unix sockets.
type Sockets struct {
	Launcher string `json:"launcher"`
	Engine   string `json:"engine"`
}

// ServerAddress is where one server listens.
type ServerAddress struct {
	PublicURL   string `json:"public_url"`
	InternalURL string `json:"internal_url"`
}

// runDir is where endpoint.json lies below the project's root.
const runDir = "out/run"

// ReadEndpoint reads the endpoint of the system started from root.
func ReadEndpoint(root string) (Endpoint, error) {
	var e Endpoint
	content, err := os.ReadFile(filepath.Join(root, runDir, "endpoint.json"))
	if err != nil {
		return e, fmt.Errorf("no running system is recorded here; start one with make up: %w", err)
	}
	return e, json.Unmarshal(content, &e)
}

// writeJSON replaces the file at path, readable by its owner alone: the observer's
// password is in it.
func writeJSON(path string, v any) error {
	content, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	temporary := path + ".part"
	if err := os.WriteFile(temporary, append(content, '\n'), 0o600); err != nil {
		return err
	}
	return os.Rename(temporary, path)
}
