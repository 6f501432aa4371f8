package e2e_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"glovebox/ci/leftovers"
	"glovebox/ci/local"
	"glovebox/threat-model/evidence"
)

// How many attempts are carried out under kills. The full number is 500.
const (
	attemptsEnv     = "GLOVEBOX_KILL_ATTEMPTS"
	attemptsDefault = 6
	pieceAttempts   = 100 // between two looks at a system at rest
)

// TestAttemptsUnderKills kills what carries out attempts, again and again: workers,
// launchers, the engine's service and the engine's monitors.
func TestAttemptsUnderKills(t *testing.T) {
	t.Parallel()
	wanted, seed := int(numberFrom(t, attemptsEnv, attemptsDefault)), numberFrom(t, seedEnv, rand.Uint64())
	evidence.Record(t, evidence.Claim{
		Requirements: []string{"SBX-12", "SBX-10", "JOB-05", "JOB-06"},
		Tried:        fmt.Sprintf("%d attempts while workers, launchers, the engine's service and its monitors are killed at random; seed %d", wanted, seed),
		Oracle:       "observer's view of every job, SHA-256 of every result, engine list, cgroups, mounts, process table, slots' folders, descriptors",
	})
	t.Logf("%s=%d %s=%d", attemptsEnv, wanted, seedEnv, seed)
	s := start(t, "attempts", 23600, local.Options{
		Workers: 2, Image: image(t, compile(t, "cores/acts.c")),
		Set: []string{
			"lease.duration=4s lease.heartbeat=1s worker.grace=1s jobs.max_attempts=12 jobs.claim_poll=300ms",
			"sweeper.interval=1s sweeper.orphan_age=5s sweeper.staged_age=10s http.stall_timeout=8s sandbox.timeout=10s",
		},
	})
	w := &edgeWorld{System: s, db: observer(t, s), people: []person{login(t, s, 0), login(t, s, 1)}}
	k := &killer{World: w, random: rand.New(rand.NewPCG(seed, 2)), vanishing: vanishing{host: host(s)}}
	known := &acknowledged{sums: map[string][32]byte{}, by: map[string]person{}}
	for done, piece := 0, 0; done < wanted; piece++ {
		target := min(done+pieceAttempts, wanted)
		k.piece(t, known, uint64(piece)+seed, target)
		done = attempts(t, w)
	}
	known.check(t, w)
	counts := map[string]int{}
	for id := range known.sums {
		counts[look(t, w.db, id).status]++
	}
	t.Logf("%d attempts of %d jobs (%v), %d kills %v; the worst attempt outlived its end or the restart by %s, allowed are %s",
		attempts(t, w), len(known.sums), counts, k.total(), k.kills, k.worst.Round(time.Millisecond), leftovers.Bound)
}

// attempts counts those of all jobs.
func attempts(t *testing.T, w *edgeWorld) (n int) {
	t.Helper()
	if err := w.db.QueryRow(context.Background(), `SELECT coalesce(sum(attempt), 0) FROM observe.jobs`).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// killer kills, and holds what it has orphaned to its time.
type killer struct {
	World  *edgeWorld
	random *rand.Rand
	kills  map[string]int
	vanishing
}

// victims are what a kill may hit, each as often as the others.
var victims = []string{"worker-0", "worker-1", "launcher-0", "launcher-1", "engine", "monitor"}

func (k *killer) total() (n int) {
	for _, count := range k.kills {
		n += count
	}
	return n
}

// piece submits and kills until target attempts have been made, each victim at least
// once, and then looks at the system at rest.
func (k *killer) piece(t *testing.T, known *acknowledged, seed uint64, target int) {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	var users, watch sync.WaitGroup
	for i, p := range k.World.people {
		users.Go(func() { known.feed(ctx, t, p, seed+uint64(i)) })
	}
	watching, end := context.WithCancel(context.Background())
	defer end()
	watch.Go(func() { k.watch(watching) })
	order := slices.Clone(victims)
	k.random.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	for round := 0; round < len(order) || attempts(t, k.World) < target; round++ {
		// The pauses are the fault's own: when it comes and how long it lasts.
		time.Sleep(time.Duration(k.random.IntN(4000)) * time.Millisecond)
		victim := order[k.random.IntN(len(order))]
		if round < len(order) {
			victim = order[round]
		}
		k.kill(t, victim)
	}
	stop()
	users.Wait()
	k.World.settled(t)
	// With the containers that wait: launchers have just begun, and test the walls first.
	eventually(t, time.Minute, "a clean host", func() string { return left(k.World.System) })
	end()
	watch.Wait()
	if len(k.late) > 0 {
		t.Errorf("outlived by more than %s: %s", leftovers.Bound, strings.Join(k.late, ", "))
	}
}

// kill kills victim, leaves it dead for a moment, and starts it again.
func (k *killer) kill(t *testing.T, victim string) {
	t.Helper()
	if k.kills == nil {
		k.kills = map[string]int{}
	}
	kind, number, _ := strings.Cut(victim, "-")
	k.kills[kind]++
	i := 0
	if number == "1" {
		i = 1
	}
	var orphans []string
	switch kind {
	case "monitor":
		if pids := k.host.Monitors(); len(pids) > 0 {
			_ = syscall.Kill(pids[k.random.IntN(len(pids))], syscall.SIGKILL)
		}
		return
	case "worker":
		orphans = k.host.Running(i)
	case "launcher":
		orphans = k.host.Names(i)
	}
	if err := k.World.Kill(victim); err != nil {
		t.Fatalf("kill %s: %v", victim, err)
	}
	killed := time.Now()
	time.Sleep(time.Duration(k.random.IntN(500)) * time.Millisecond)
	if err := k.World.Restart(context.Background(), victim); err != nil {
		t.Fatalf("start %s again: %v", victim, err)
	}
	if kind == "launcher" {
		killed = time.Now()
	}
	k.mustVanish(orphans, killed)
}

// vanishing holds attempts to the time in which nothing of them may be left.
type vanishing struct {
	host leftovers.Host

	mu    sync.Mutex
	since map[string]time.Time
	worst time.Duration
	late  []string
}

func (v *vanishing) mustVanish(names []string, since time.Time) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.since == nil {
		v.since = map[string]time.Time{}
	}
	for _, name := range names {
		v.since[name] = since
	}
}

// watch looks until ctx ends.
func (v *vanishing) watch(ctx context.Context) {
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			v.look(append(v.host.Names(0), v.host.Names(1)...))
		}
	}
}

func (v *vanishing) look(there []string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for name, since := range v.since {
		age := time.Since(since)
		switch {
		case !slices.Contains(there, name):
			v.worst = max(v.worst, age)
		case age > leftovers.Bound:
			v.late = append(v.late, name)
		default:
			continue
		}
		delete(v.since, name)
	}
}

// feed submits small files until ctx ends, so many ahead that no worker starves.
func (a *acknowledged) feed(ctx context.Context, t *testing.T, p person, seed uint64) {
	random := rand.New(rand.NewPCG(seed, 3))
	const ahead = 5
	c := p.caller(0)
	var ids []string
	for n := 0; ctx.Err() == nil; n++ {
		body := []byte(fmt.Sprintf("%s %d %d ", p.user.Login, seed, n) + strings.Repeat("x", random.IntN(50_000)))
		content := append([]byte(fmt.Sprintf("#!act sleep %d\n", random.IntN(300))), body...)
		answer, err := c.upload("f", content)
		if err != nil || answer.status != 201 {
			t.Errorf("submit %d of %s: %d %s (%v)", n, p.user.Login, answer.status, answer.body, err)
			return
		}
		a.mu.Lock()
		a.sums[answer.id()], a.by[answer.id()] = sha256.Sum256(body), p
		a.mu.Unlock()
		if ids = append(ids, answer.id()); len(ids) > ahead {
			c.waitFor(ctx, ids[len(ids)-1-ahead])
		}
	}
}

// TestVanishingNoticesWhatStays is the control of the watch over orphans.
func TestVanishingNoticesWhatStays(t *testing.T) {
	v := &vanishing{}
	now := time.Now()
	v.mustVanish([]string{"gone", "stays", "young"}, now.Add(-leftovers.Bound-time.Second))
	v.mustVanish([]string{"young"}, now)
	v.look([]string{"stays", "young"})
	if !slices.Equal(v.late, []string{"stays"}) || v.worst < leftovers.Bound || len(v.since) != 1 {
		t.Errorf("late are %v, worst is %s, %d are watched", v.late, v.worst, len(v.since))
	}
}
