package harness

import (
	"context"
	"errors"
	"fmt"
	"time"

	"glovebox/ci/local"
)

// The systems that cases run in. One runs at a time, so that each has the machine
// to itself; a world is started when a chosen case needs it.
const (
	// Main is two servers and two workers with small limits and short patience.
	Main = "main"
	// Quiet has no running worker: jobs stay pending until a case, with the
	// certificate of a spare worker, claims them. Its logs are at the level debug.
	Quiet = "quiet"
	// Brief keeps what has ended for seconds, tokens included. Its logs are at the
	// level debug.
	Brief = "brief"
)

type world struct {
	name    string
	options local.Options
	prepare func(*local.System) error // when it is up; may be nil
}

// small are the limits that make a loss cheap to bring about.
var small = []string{
	"limits.max_input_bytes=262144", "limits.max_result_bytes=1048576", "limits.uploads_per_user=4",
	"limits.active_jobs_per_user=40", "limits.stored_bytes_per_user=16777216",
	"http.read_header_timeout=2s", "http.stall_timeout=2s", "http.rate_window=3s", "http.idle_timeout=4s",
	"http.max_connections=400", "auth.login_attempts_per_address=30", "auth.login_failures_per_login=5",
	"lease.duration=6s", "lease.heartbeat=2s", "sandbox.slots=2",
	// Passwords are hashed as cheaply as the server permits: thousands are.
	"auth.argon2_time=1", "auth.argon2_memory=8388608",
}

var worlds = []world{
	{name: Main, options: local.Options{Servers: 2, Workers: 2, Set: small}},
	{name: Quiet, options: local.Options{Servers: 2, Workers: 1, LogLevel: "debug", Set: small}, prepare: stopWorkers},
	{name: Brief, options: local.Options{Servers: 1, Workers: 1, LogLevel: "debug", Set: append([]string{
		"retention.duration=3s", "sweeper.interval=200ms", "sweeper.orphan_age=2s", "auth.token_lifetime=4s",
		"auth.login_window=5s",
	}, small...)}},
}

func knownWorld(name string) bool {
	if name == "" {
		return true
	}
	for _, w := range worlds {
		if w.name == name {
			return true
		}
	}
	return false
}

func stopWorkers(s *local.System) error {
	const grace = 20 * time.Second
	return errors.Join(s.Stop("worker-0", grace), s.Stop("launcher-0", grace))
}

// PortBase is where the worlds' ports begin, away from those of make up.
const PortBase = 18400

// instance is a world's name among the systems of this project. Runs that are to
// go side by side have different ports, and so different names.
func instance(world string, portBase int) string {
	if portBase == PortBase {
		return "attack-" + world
	}
	return fmt.Sprintf("attack-%s-%d", world, portBase)
}

// start starts the named world below root.
func start(ctx context.Context, root, name string, portBase int, progress func(string)) (*System, error) {
	for i, w := range worlds {
		if w.name != name {
			continue
		}
		o := w.options
		o.Root, o.Name, o.PortBase, o.Progress = root, instance(name, portBase), portBase+100*i, progress
		running, err := local.Up(ctx, o)
		if err != nil {
			return nil, fmt.Errorf("start the world %s: %w", name, err)
		}
		if w.prepare != nil {
			if err := w.prepare(running); err != nil {
				return nil, errors.Join(fmt.Errorf("prepare the world %s: %w", name, err), running.Down())
			}
		}
		s, err := fromEndpoint(name, running.Endpoint)
		if err != nil {
			return nil, errors.Join(err, running.Down())
		}
		s.Processes = running
		return s, nil
	}
	return nil, fmt.Errorf("there is no world %q", name)
}
