package config

import (
	"errors"
	"net/netip"
	"strings"

	"github.com/jackc/pgx/v5"

	"glovebox/system/platform/config"
	"glovebox/system/platform/secret"
)

// minTokenSecret is AUT-04's least length, in bytes.
const minTokenSecret = 32

// ServeSecrets is what serving needs and no other subcommand may resolve.
type ServeSecrets struct {
	DatabaseURL     secret.Text
	TokenSecret     secret.Text
	NotificationURL secret.Text // zero: log events only
}

// ForServe resolves serving's secrets and requires the files it names.
func (c *Config) ForServe() (ServeSecrets, error) {
	var check config.Check
	s := ServeSecrets{
		DatabaseURL: databaseURL(&check, "database.url", c.Database.URL, c.Database.URLFile),
		TokenSecret: check.Secret("auth.token_secret", c.Auth.TokenSecret, c.Auth.TokenSecretFile, minTokenSecret),
	}
	if n := c.SecurityNotification; !n.URL.IsZero() || n.URLFile != "" {
		s.NotificationURL = check.Secret("security_notification.url", n.URL, n.URLFile, len("https://x"))
	}
	check.NotEmpty("storage.root", c.Storage.Root, "an absolute path of a folder")
	check.NotEmpty("tls.public_cert", c.TLS.PublicCert, "path of a PEM file")
	check.NotEmpty("tls.public_key", c.TLS.PublicKey, "path of a PEM file")
	check.NotEmpty("tls.internal_cert", c.TLS.InternalCert, "path of a PEM file")
	check.NotEmpty("tls.internal_key", c.TLS.InternalKey, "path of a PEM file")
	check.NotEmpty("tls.internal_client_ca", c.TLS.InternalClientCA, "path of a PEM file")
	return s, asError(check)
}

// ForOperator resolves the login of user, token, worker and job.
func (c *Config) ForOperator() (secret.Text, error) {
	return c.one("database.operator_url", c.Database.OperatorURL, c.Database.OperatorURLFile)
}

// ForServerDatabase resolves only the login of serving: what check looks through.
func (c *Config) ForServerDatabase() (secret.Text, error) {
	return c.one("database.url", c.Database.URL, c.Database.URLFile)
}

// ForMigrate resolves the migrator's login.
func (c *Config) ForMigrate() (secret.Text, error) {
	return c.one("database.migrator_url", c.Database.MigratorURL, c.Database.MigratorURLFile)
}

// ForSweep resolves the sweeper's login and requires the storage root.
func (c *Config) ForSweep() (secret.Text, error) {
	var check config.Check
	url := databaseURL(&check, "database.sweeper_url", c.Database.SweeperURL, c.Database.SweeperURLFile)
	check.NotEmpty("storage.root", c.Storage.Root, "an absolute path of a folder")
	return url, asError(check)
}

// ForBackup resolves the login that reads everything and requires the storage
// root: what backup, verify and fsck need.
func (c *Config) ForBackup() (secret.Text, error) {
	var check config.Check
	url := databaseURL(&check, "database.backup_url", c.Database.BackupURL, c.Database.BackupURLFile)
	check.NotEmpty("storage.root", c.Storage.Root, "an absolute path of a folder")
	return url, asError(check)
}

// ForRestore resolves the migrator's login and requires the storage root.
func (c *Config) ForRestore() (secret.Text, error) {
	var check config.Check
	url := databaseURL(&check, "database.migrator_url", c.Database.MigratorURL, c.Database.MigratorURLFile)
	check.NotEmpty("storage.root", c.Storage.Root, "an absolute path of a folder")
	return url, asError(check)
}

func (c *Config) one(key string, inline secret.Text, file string) (secret.Text, error) {
	var check config.Check
	url := databaseURL(&check, key, inline, file)
	return url, asError(check)
}

func asError(check config.Check) error {
	if problems := check.Problems(); len(problems) > 0 {
		return problems
	}
	return nil
}

func databaseURL(check *config.Check, key string, inline secret.Text, file string) secret.Text {
	url := check.Secret(key, inline, file, len("postgres:///"))
	if url.IsZero() {
		return url
	}
	if err := JudgeDatabaseURL(url); err != nil {
		check.Require(false, key, err.Error(), "postgres://ROLE@HOST/NAME?sslmode=verify-full&sslrootcert=FILE, or a unix socket or loopback host", "correct it")
	}
	return url
}

// JudgeDatabaseURL refuses a login that would cross a network without a verified
// certificate (DBS-02). A unix socket and loopback need none. No error holds a
// character of the URL.
func JudgeDatabaseURL(url secret.Text) error {
	parsed, err := pgx.ParseConfig(url.Reveal())
	if err != nil {
		return errors.New("is not a PostgreSQL URL") // the cause repeats the URL
	}
	if !verified(parsed.Host, parsed.TLSConfig != nil && !parsed.TLSConfig.InsecureSkipVerify && parsed.TLSConfig.ServerName != "") {
		return errors.New("crosses a network without a verified certificate")
	}
	for _, fallback := range parsed.Fallbacks {
		if !verified(fallback.Host, fallback.TLSConfig != nil && !fallback.TLSConfig.InsecureSkipVerify && fallback.TLSConfig.ServerName != "") {
			return errors.New("may fall back to a connection without a verified certificate")
		}
	}
	return nil
}

func verified(host string, fullTLS bool) bool {
	if fullTLS || strings.HasPrefix(host, "/") || strings.HasPrefix(host, "@") || host == "localhost" {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.IsLoopback()
}
