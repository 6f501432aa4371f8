package config

import (
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"time"

	"glovebox/system/platform/config"
	"glovebox/system/platform/logging"
)

// Bounds that the protocol or INTERFACES §4 give.
const (
	MinLease     = 3 * time.Second
	MinHeartbeat = time.Second
	maxSize      = 1 << 40
)

// Validate judges every key that has a meaning of its own, whatever the
// subcommand. Secrets and files are judged by those that use them.
func (c *Config) Validate() config.Problems {
	var check config.Check
	c.Listen.validate(&check)
	c.validateHTTP(&check)
	c.validateLimits(&check)
	c.validateTimes(&check)
	c.validateAuth(&check)
	loopback(&check, "metrics.listen", c.Metrics.Listen)
	check.Range("database.max_conns", int64(c.Database.MaxConns), 4, 1000, "connections")
	_, err := logging.ParseLevel(c.Log.Level)
	check.Require(err == nil, "log.level", "is not a level", "debug, info, warn or error", "choose one of these")
	return check.Problems()
}

func (l Listen) validate(check *config.Check) {
	address(check, "listen.public", l.Public)
	host, ok := address(check, "listen.internal", l.Internal)
	if !ok || l.InternalWildcard {
		return
	}
	// MTL-01: the internal API is never on a public network by default.
	addr, err := netip.ParseAddr(host)
	named := host != "" && (err != nil || !addr.IsUnspecified())
	check.Require(named, "listen.internal", "is every interface", "host:port on loopback or a private address",
		"name the address, or set listen.internal_wildcard = true where a firewall closes the port")
	if named && err == nil {
		check.Require(internal(addr), "listen.internal", "is a public address", "host:port on loopback or a private address",
			"name a private address, or set listen.internal_wildcard = true where a firewall closes the port")
	}
}

func internal(addr netip.Addr) bool {
	addr = addr.Unmap()
	return addr.IsLoopback() || addr.IsPrivate() || addr.IsLinkLocalUnicast()
}

// JudgeInternal judges the address on which the internal API really listens: a
// name in listen.internal may lead to any (MTL-01).
func (l Listen) JudgeInternal(bound net.Addr) error {
	addr, err := netip.ParseAddrPort(bound.String())
	if l.InternalWildcard || err == nil && internal(addr.Addr()) {
		return nil
	}
	return fmt.Errorf("%s leads to %s, which is neither loopback nor private; name a private address, or set listen.internal_wildcard = true where a firewall closes the port", l.Internal, bound)
}

func (c *Config) validateHTTP(check *config.Check) {
	h := c.HTTP
	check.Span("http.read_header_timeout", h.ReadHeaderTimeout, time.Second, time.Minute)
	check.Span("http.idle_timeout", h.IdleTimeout, time.Second, 10*time.Minute)
	check.Span("http.stall_timeout", h.StallTimeout, time.Second, 10*time.Minute)
	check.Span("http.rate_window", h.RateWindow, time.Second, 10*time.Minute)
	check.Range("http.min_bytes_per_second", h.MinBytesPerSecond.Int64(), 1, 1<<30, "bytes a second")
	check.Range("http.max_header_bytes", h.MaxHeaderBytes.Int64(), 4<<10, 1<<20, "bytes")
	check.Range("http.max_connections", int64(h.MaxConnections), 1, 1<<20, "connections")
	check.Range("http.max_concurrent_streams", int64(h.MaxConcurrentStreams), 1, 1000, "streams")
	check.Range("http.max_concurrent_requests", int64(h.MaxConcurrentRequests), 4, 1<<20, "requests")
	check.Span("http.shutdown_grace", h.ShutdownGrace, time.Second, 10*time.Minute)
	for _, p := range h.TrustedProxies {
		_, errAddr := netip.ParseAddr(p)
		prefix, errPrefix := netip.ParsePrefix(p)
		check.Require(errAddr == nil || errPrefix == nil, "http.trusted_proxies", "holds an entry that is no address",
			"IP addresses or prefixes such as 10.0.0.0/8", "correct or remove the entry")
		check.Require(errPrefix != nil || prefix.Bits() > 0, "http.trusted_proxies", "trusts every address, so that anybody names the address he is limited by",
			"IP addresses or prefixes such as 10.0.0.0/8", "name the proxies alone")
	}
}

func (c *Config) validateLimits(check *config.Check) {
	l := c.Limits
	check.Range("limits.max_input_bytes", l.MaxInputBytes.Int64(), 1, maxSize, "bytes")
	check.Range("limits.max_result_bytes", l.MaxResultBytes.Int64(), 1, maxSize, "bytes")
	check.Range("limits.uploads_per_user", int64(l.UploadsPerUser), 1, 10_000, "uploads at once")
	check.Range("limits.active_jobs_per_user", int64(l.ActiveJobsPerUser), 1, 1_000_000, "jobs")
	check.Range("limits.stored_bytes_per_user", l.StoredBytesPerUser.Int64(), 1, 1<<50, "bytes")
	check.Range("limits.min_free_bytes", l.MinFreeBytes.Int64(), 0, 1<<50, "bytes")
	check.Require(l.StoredBytesPerUser >= l.MaxInputBytes, "limits.stored_bytes_per_user", "is less than limits.max_input_bytes",
		"at least one input's size", "raise it or lower limits.max_input_bytes")
	check.Range("jobs.max_attempts", int64(c.Jobs.MaxAttempts), 1, 100, "attempts")
}

func (c *Config) validateTimes(check *config.Check) {
	check.Span("lease.duration", c.Lease.Duration, MinLease, time.Hour)
	check.Span("lease.heartbeat", c.Lease.Heartbeat, MinHeartbeat, time.Hour)
	// Two heartbeats may be lost before a lease is: an attempt must not die of one
	// dropped packet.
	check.Require(c.Lease.Heartbeat <= c.Lease.Duration/3, "lease.heartbeat", "is more than a third of lease.duration",
		"at most lease.duration / 3", "shorten it or lengthen lease.duration")
	whole := c.Lease.Duration.Std()%time.Second == 0 && c.Lease.Heartbeat.Std()%time.Second == 0 && c.Jobs.Timeout.Std()%time.Second == 0
	check.Require(whole, "lease.duration", "lease.duration, lease.heartbeat or jobs.timeout has a part of a second",
		"whole seconds, which is what a worker is told", "round it")
	check.Span("jobs.timeout", c.Jobs.Timeout, time.Second, 24*time.Hour)
	check.Span("jobs.claim_poll", c.Jobs.ClaimPoll, 50*time.Millisecond, 30*time.Second)
	check.Span("jobs.expiry_interval", c.Jobs.ExpiryInterval, 50*time.Millisecond, time.Minute)
	check.Span("retention.duration", c.Retention.Duration, time.Second, 10*365*24*time.Hour)
	check.Span("retention.records", c.Retention.Records, time.Second, 100*365*24*time.Hour)
	s := c.Sweeper
	check.Span("sweeper.interval", s.Interval, 100*time.Millisecond, 24*time.Hour)
	check.Span("sweeper.orphan_age", s.OrphanAge, time.Second, 30*24*time.Hour)
	check.Span("sweeper.staged_age", s.StagedAge, time.Second, 30*24*time.Hour)
	check.Range("sweeper.page", int64(s.Page), 1, 100_000, "rows")
	// UPL-08: the sweeper cannot see whether a temporary file is still written; only
	// its age tells. A body that stands still for longer than the stall timeout has
	// been cut off.
	check.Require(s.StagedAge > c.HTTP.StallTimeout, "sweeper.staged_age", "is not longer than http.stall_timeout",
		"more than http.stall_timeout, so that no body on its way in is taken for one left over", "lengthen it or shorten http.stall_timeout")
}

func (c *Config) validateAuth(check *config.Check) {
	a := c.Auth
	check.Span("auth.token_lifetime", a.TokenLifetime, time.Second, 366*24*time.Hour)
	check.Range("auth.argon2_time", int64(a.Argon2Time), 1, 100, "passes")
	check.Range("auth.argon2_memory", a.Argon2Memory.Int64(), 8<<20, 4<<30, "bytes")
	check.Range("auth.argon2_threads", int64(a.Argon2Threads), 1, 64, "threads")
	check.Range("auth.hash_concurrency", int64(a.HashConcurrency), 1, 1024, "passwords at once")
	check.Span("auth.login_window", a.LoginWindow, time.Second, 24*time.Hour)
	check.Range("auth.login_attempts_per_address", int64(a.LoginAttemptsPerAddress), 1, 1_000_000, "attempts in a window")
	check.Range("auth.login_failures_per_login", int64(a.LoginFailuresPerLogin), 1, 1_000_000, "failures in a window")
	n := c.SecurityNotification
	check.Range("security_notification.threshold", int64(n.Threshold), 1, 1_000_000, "failures in a window")
	check.Span("security_notification.window", n.Window, time.Second, 24*time.Hour)
	check.Span("security_notification.interval", n.Interval, 0, 24*time.Hour)
}

// address requires host:port and returns the host.
func address(check *config.Check, key, value string) (host string, ok bool) {
	host, port, err := net.SplitHostPort(value)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	check.Require(err == nil, key, "is not an address", "host:port, such as 127.0.0.1:8443", "correct it")
	return host, err == nil
}

func loopback(check *config.Check, key, value string) {
	host, ok := address(check, key, value)
	if !ok {
		return
	}
	addr, err := netip.ParseAddr(host)
	check.Require(host == "localhost" || err == nil && addr.IsLoopback(), key, "is not loopback",
		"127.0.0.1:PORT or [::1]:PORT", "metrics carry no login; put an authenticating proxy before them")
}
