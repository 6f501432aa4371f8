// Package config is the server's configuration: its keys, their defaults, and
// what makes a value unusable (REL-03). INTERFACES §4 fixes the names.
//
// One file serves every subcommand, and each resolves only the secrets it needs:
// the sweeper never sees the HMAC secret or a TLS key.
package config

import (
	"time"

	"glovebox/system/platform/config"
	"glovebox/system/platform/secret"
)

// Config holds every key. The zero value is not usable; start from Defaults.
type Config struct {
	Listen               Listen               `toml:"listen"`
	Metrics              Metrics              `toml:"metrics"`
	TLS                  TLS                  `toml:"tls"`
	HTTP                 HTTP                 `toml:"http"`
	Database             Database             `toml:"database"`
	Storage              Storage              `toml:"storage"`
	Limits               Limits               `toml:"limits"`
	Lease                Lease                `toml:"lease"`
	Jobs                 Jobs                 `toml:"jobs"`
	Retention            Retention            `toml:"retention"`
	Auth                 Auth                 `toml:"auth"`
	SecurityNotification SecurityNotification `toml:"security_notification"`
	Sweeper              Sweeper              `toml:"sweeper"`
	Log                  Log                  `toml:"log"`
}

// Listen names the two APIs' addresses, host:port.
type Listen struct {
	Public   string `toml:"public"`
	Internal string `toml:"internal"`
	// InternalWildcard permits an internal address that is every interface
	// (MTL-01); for a host whose firewall closes the port.
	InternalWildcard bool `toml:"internal_wildcard"`
}

// Metrics names the metrics listener; it must be loopback.
type Metrics struct {
	Listen string `toml:"listen"`
}

// TLS names files. The internal listener has its own certificate and its own CA.
type TLS struct {
	PublicCert       string `toml:"public_cert"`
	PublicKey        string `toml:"public_key"`
	InternalCert     string `toml:"internal_cert"`
	InternalKey      string `toml:"internal_key"`
	InternalClientCA string `toml:"internal_client_ca"` // the CAs that sign workers, several during a rotation
}

// HTTP bounds what one connection may cost.
type HTTP struct {
	ReadHeaderTimeout config.Duration `toml:"read_header_timeout"`
	IdleTimeout       config.Duration `toml:"idle_timeout"`
	// StallTimeout cuts off a body, in either direction, that moves no byte for so long.
	StallTimeout config.Duration `toml:"stall_timeout"`
	// MinBytesPerSecond cuts off a body that stays below it, measured over RateWindow.
	MinBytesPerSecond    config.Bytes    `toml:"min_bytes_per_second"`
	RateWindow           config.Duration `toml:"rate_window"`
	MaxHeaderBytes       config.Bytes    `toml:"max_header_bytes"`
	MaxConnections       int             `toml:"max_connections"`
	MaxConcurrentStreams int             `toml:"max_concurrent_streams"`
	// MaxConcurrentRequests bounds the requests in work on one listener; one client
	// may have a quarter of them.
	MaxConcurrentRequests int             `toml:"max_concurrent_requests"`
	ShutdownGrace         config.Duration `toml:"shutdown_grace"`
	// TrustedProxies are the addresses or prefixes whose X-Forwarded-For counts.
	TrustedProxies []string `toml:"trusted_proxies"`
}

// Database names one login for each duty; a process resolves only its own.
type Database struct {
	URL             secret.Text `toml:"url"` // role glovebox_server
	URLFile         string      `toml:"url_file"`
	OperatorURL     secret.Text `toml:"operator_url"` // role glovebox_operator: user, token, worker, job
	OperatorURLFile string      `toml:"operator_url_file"`
	MigratorURL     secret.Text `toml:"migrator_url"` // role glovebox_migrator: migrate
	MigratorURLFile string      `toml:"migrator_url_file"`
	SweeperURL      secret.Text `toml:"sweeper_url"` // role glovebox_sweeper: sweep
	SweeperURLFile  string      `toml:"sweeper_url_file"`
	BackupURL       secret.Text `toml:"backup_url"` // role glovebox_backup: backup, verify, fsck
	BackupURLFile   string      `toml:"backup_url_file"`
	MaxConns        int         `toml:"max_conns"` // of one process
}

// Storage names where the bytes are.
type Storage struct {
	Root string `toml:"root"` // a folder of the fs adapter
}

// Limits bound what one user may cost, and the disk.
type Limits struct {
	MaxInputBytes      config.Bytes `toml:"max_input_bytes"`
	MaxResultBytes     config.Bytes `toml:"max_result_bytes"`
	UploadsPerUser     int          `toml:"uploads_per_user"`
	ActiveJobsPerUser  int          `toml:"active_jobs_per_user"`
	StoredBytesPerUser config.Bytes `toml:"stored_bytes_per_user"`
	MinFreeBytes       config.Bytes `toml:"min_free_bytes"`
}

// Lease is how long an attempt lives without a heartbeat, and how often one is due.
type Lease struct {
	Duration  config.Duration `toml:"duration"`
	Heartbeat config.Duration `toml:"heartbeat"`
}

// Jobs tunes the queue.
type Jobs struct {
	MaxAttempts int `toml:"max_attempts"`
	// Timeout is how long an attempt's run may take, told to the worker with the claim.
	Timeout config.Duration `toml:"timeout"`
	// ClaimPoll is the slow poll behind notifications that can be lost.
	ClaimPoll config.Duration `toml:"claim_poll"`
	// ExpiryInterval is how often leases that ran out are looked for.
	ExpiryInterval config.Duration `toml:"expiry_interval"`
}

// Retention is how long inputs and results are kept after the job ended.
type Retention struct {
	Duration config.Duration `toml:"duration"`
	// Records is how long the rows of a job and its history are kept after its files
	// are gone; then its owner is told that there is no such job.
	Records config.Duration `toml:"records"`
}

// Auth guards the login.
type Auth struct {
	TokenSecret     secret.Text     `toml:"token_secret"` // at least 32 bytes; a change ends every token
	TokenSecretFile string          `toml:"token_secret_file"`
	TokenLifetime   config.Duration `toml:"token_lifetime"`

	Argon2Time    int          `toml:"argon2_time"`
	Argon2Memory  config.Bytes `toml:"argon2_memory"`
	Argon2Threads int          `toml:"argon2_threads"`
	// HashConcurrency bounds the passwords hashed at once, and so their memory.
	HashConcurrency int `toml:"hash_concurrency"`

	LoginWindow             config.Duration `toml:"login_window"`
	LoginAttemptsPerAddress int             `toml:"login_attempts_per_address"` // in a window
	LoginFailuresPerLogin   int             `toml:"login_failures_per_login"`   // in a window
}

// SecurityNotification is the one channel of AUT-07. Without a URL it is a log
// event only.
type SecurityNotification struct {
	URL       secret.Text     `toml:"url"` // may hold a key, so it is a secret
	URLFile   string          `toml:"url_file"`
	Threshold int             `toml:"threshold"` // failures in a window that are a spike
	Window    config.Duration `toml:"window"`
	Interval  config.Duration `toml:"interval"` // least time between two notifications of a kind
}

// Sweeper tunes the process that deletes.
type Sweeper struct {
	Interval config.Duration `toml:"interval"`
	// OrphanAge is the age below which a file that no row names is left alone: it
	// must be longer than the longest time between a rename and its commit.
	OrphanAge config.Duration `toml:"orphan_age"`
	// StagedAge is the age at which a temporary file is left over: longer than the
	// longest upload.
	StagedAge config.Duration `toml:"staged_age"`
	Page      int             `toml:"page"` // rows or files at a time
}

// Log sets what is written.
type Log struct {
	Level string `toml:"level"`
}

// Defaults returns the values that hold where the file is silent.
func Defaults() *Config {
	d := func(v time.Duration) config.Duration { return config.Duration(v) }
	return &Config{
		Listen:  Listen{Public: ":8443", Internal: "127.0.0.1:9443"},
		Metrics: Metrics{Listen: "127.0.0.1:9464"},
		HTTP: HTTP{
			ReadHeaderTimeout: d(10 * time.Second), IdleTimeout: d(60 * time.Second), StallTimeout: d(30 * time.Second),
			MinBytesPerSecond: 1 << 10, RateWindow: d(30 * time.Second), MaxHeaderBytes: 16 << 10,
			MaxConnections: 4096, MaxConcurrentStreams: 64, MaxConcurrentRequests: 4096, ShutdownGrace: d(30 * time.Second),
		},
		Database: Database{MaxConns: 32},
		Limits: Limits{
			MaxInputBytes: 10 << 20, MaxResultBytes: 64 << 20, UploadsPerUser: 16, ActiveJobsPerUser: 2500,
			StoredBytesPerUser: 10 << 30, MinFreeBytes: 256 << 20,
		},
		Lease:     Lease{Duration: d(30 * time.Second), Heartbeat: d(10 * time.Second)},
		Jobs:      Jobs{MaxAttempts: 3, Timeout: d(60 * time.Second), ClaimPoll: d(2 * time.Second), ExpiryInterval: d(time.Second)},
		Retention: Retention{Duration: d(7 * 24 * time.Hour), Records: d(90 * 24 * time.Hour)},
		Auth: Auth{
			TokenLifetime: d(30 * 24 * time.Hour), Argon2Time: 2, Argon2Memory: 19 << 20, Argon2Threads: 1, HashConcurrency: 4,
			LoginWindow: d(15 * time.Minute), LoginAttemptsPerAddress: 100, LoginFailuresPerLogin: 10,
		},
		SecurityNotification: SecurityNotification{Threshold: 20, Window: d(5 * time.Minute), Interval: d(5 * time.Minute)},
		Sweeper:              Sweeper{Interval: d(time.Minute), OrphanAge: d(time.Hour), StagedAge: d(24 * time.Hour), Page: 500},
		Log:                  Log{Level: "info"},
	}
}

// Load reads the file at path over the defaults, then the environment, then
// validates.
func Load(path string, environ []string) (*Config, error) {
	c := Defaults()
	if err := config.Load(path, environ, c); err != nil {
		return nil, err
	}
	return c, nil
}
