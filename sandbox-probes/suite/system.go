package suite

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"glovebox/ci/image/recipe"
	"glovebox/ci/leftovers"
	"glovebox/ci/local"
	"glovebox/sandbox-probes/catalogue"
	"glovebox/threat-model/evidence"
)

// systemPorts is clear of the documented ports and of the whole-system tests'.
const systemPorts = 27400

// systemPrefix begins the ids of all cases of this stage.
const systemPrefix = "system/"

// whole is the running system with the probes' image as its core.
type whole struct {
	suite     *Suite
	system    *local.System
	hostile   *person // submits the probes
	neighbour *person // another user, whose jobs must come out right
	observer  *pgxpool.Pool
	jobs      atomic.Int64 // submitted
}

// system runs the probes as jobs through the real server, worker and launcher, and
// reads what the user and the database say of them.
func (s *Suite) system(ctx context.Context) (err error) {
	if !s.wantsStage(systemPrefix) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, 15*time.Minute)
	defer cancel()
	w, err := s.startWhole(ctx)
	if err != nil {
		return err
	}
	defer func() {
		w.observer.Close()
		err = errors.Join(err, w.nothingLeft(ctx), w.system.Down())
	}()
	done := make(chan struct{})
	var beside sync.WaitGroup
	beside.Go(func() { w.besides(ctx, done) })
	err = errors.Join(w.endings(ctx), w.forbidden(ctx), w.refusals(ctx))
	close(done)
	beside.Wait()
	return errors.Join(err, w.logs())
}

func (s *Suite) startWhole(ctx context.Context) (*whole, error) {
	image, err := recipe.Build(s.program, filepath.Join(s.opts.Root, "out/probes/image"))
	if err != nil {
		return nil, err
	}
	// One attempt: what is retryable must still show its own code.
	system, err := local.Up(ctx, local.Options{
		Root: s.opts.Root, Name: "probes", PortBase: systemPorts, Image: image.Ref, Workers: 2,
		Set: []string{"jobs.max_attempts=1", "sandbox.memory_bytes=67108864", "sandbox.timeout=2s", "limits.max_result_bytes=1048576", "limits.max_input_bytes=1048576",
			"limits.active_jobs_per_user=1000", "limits.uploads_per_user=20"},
	})
	if err != nil {
		return nil, fmt.Errorf("start the whole system: %w; build its programs with make build", err)
	}
	w := &whole{suite: s, system: system}
	if len(system.Users) < 2 {
		return nil, errors.Join(errors.New("the system has fewer than two users"), system.Down())
	}
	if w.hostile, err = logIn(ctx, system, system.Users[0]); err == nil {
		w.neighbour, err = logIn(ctx, system, system.Users[1])
	}
	if err == nil {
		w.observer, err = pgxpool.New(ctx, system.DatabaseURL)
	}
	if err != nil {
		return nil, errors.Join(err, system.Down())
	}
	return w, nil
}

// end is what the database says of a job that is over.
type end struct {
	status, code string
	result       []byte // of a completed one, as its user gets it
}

func (e end) String() string { return strings.TrimSpace(e.status + " " + e.code) }

// run submits the input and waits for the job's end, by the observer's view.
func (w *whole) run(ctx context.Context, p *person, input []byte) (end, error) {
	id, err := p.submit(ctx, input)
	if err != nil {
		return end{}, err
	}
	w.jobs.Add(1)
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for {
		var e end
		row := w.observer.QueryRow(ctx, `SELECT status, coalesce(error_code, '') FROM observe.jobs WHERE id = $1`, id)
		if err := row.Scan(&e.status, &e.code); err != nil {
			return e, fmt.Errorf("look at a job: %w", err)
		}
		switch e.status {
		case "completed":
			e.result, err = p.result(ctx, id)
			return e, err
		case "failed":
			return e, nil
		}
		select {
		case <-ctx.Done():
			return e, fmt.Errorf("wait for a job's end: %w", context.Cause(ctx))
		case <-ticker.C:
		}
	}
}

// each runs work for n items, as many at a time as the system has slots.
func each(n int, work func(i int) error) error {
	errs := make([]error, n)
	free := make(chan struct{}, 4)
	var wg sync.WaitGroup
	for i := range n {
		free <- struct{}{}
		wg.Go(func() {
			errs[i] = work(i)
			<-free
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

func (w *whole) file(id, title string, requirements, threats []string, tried, wanted string, got end, started time.Time) {
	c := evidence.Case{
		ID: systemPrefix + id, Title: title, Requirements: ids(requirements), Threats: ids(threats), Tried: tried, Oracle: "the observer's view of the database; the result as its user gets it",
		Verdict: evidence.Held, Detail: got.String(), DurationMS: time.Since(started).Milliseconds(),
	}
	if got.String() != wanted {
		c.Verdict, c.Detail = evidence.Breached, fmt.Sprintf("wanted %q, got %q", wanted, got)
	}
	w.suite.file(c)
}

// endings checks that the user sees the right code for each way of ending.
func (w *whole) endings(ctx context.Context) error {
	type task struct {
		ending catalogue.Ending
		way    catalogue.Way
	}
	var tasks []task
	for _, e := range w.suite.jobs.Endings {
		for _, way := range e.Ways {
			tasks = append(tasks, task{e, way})
		}
	}
	return each(len(tasks), func(i int) error {
		t := tasks[i]
		started := time.Now()
		got, err := w.run(ctx, w.hostile, []byte(t.ending.Name+" "+t.way.Order+"\n"))
		if err != nil {
			return fmt.Errorf("%s/%s: %w", t.ending.Name, t.way.Name, err)
		}
		wanted := "failed " + t.way.Code
		if t.way.Code == "none" {
			wanted = "completed"
		}
		w.file(t.ending.Name+"/"+t.way.Name, t.ending.Loss+": "+t.way.Name, t.ending.Requirements, t.ending.Threats, "a job: "+t.way.Order, wanted, got, started)
		return nil
	})
}

// forbiddenOfProgram is how many forbidden calls of a program are tried as jobs;
// all of them are under the launcher's parts in the stage "checks".
const forbiddenOfProgram = 3

// forbidden checks that a forbidden call ends the job with its own code.
func (w *whole) forbidden(ctx context.Context) error {
	type task struct {
		program catalogue.Program
		check   catalogue.Check
	}
	var tasks []task
	for _, p := range w.suite.jobs.Programs {
		n := 0
		for _, c := range p.Checks {
			if c.By == catalogue.Filter && n < forbiddenOfProgram && !strings.HasSuffix(c.Name, "-thread") {
				tasks = append(tasks, task{p, c})
				n++
			}
		}
	}
	return each(len(tasks), func(i int) error {
		t := tasks[i]
		started := time.Now()
		got, err := w.run(ctx, w.hostile, order(t.program, []catalogue.Check{t.check}))
		if err != nil {
			return fmt.Errorf("%s/%s: %w", t.program.Name, t.check.Name, err)
		}
		wanted := "failed core_forbidden_call"
		// A number above all that the filter names is answered by the runtime's own
		// part of it, and the job goes on.
		if outcomes, _, err := catalogue.Parse(got.result); err == nil && outcomes[t.check.Name].Number == "ENOSYS" {
			wanted, got.code = "completed ENOSYS", "ENOSYS"
		}
		w.file(t.program.Name+"/"+t.check.Name, t.program.Loss+": "+t.check.Name, t.program.Requirements, t.program.Threats, "a job that makes the call", wanted, got, started)
		return nil
	})
}

// refusals runs what other walls stop, a whole program a job, and reads the result
// as its user gets it.
func (w *whole) refusals(ctx context.Context) error {
	return each(len(w.suite.jobs.Programs), func(i int) error {
		p := w.suite.jobs.Programs[i]
		var checks []catalogue.Check
		for _, c := range p.Checks {
			// The quota of the system is not the one that this control is made for.
			if c.By != catalogue.Filter && c.Open == "" && p.Name != "cpu-share" {
				checks = append(checks, c)
			}
		}
		if len(checks) == 0 || p.Each {
			return nil
		}
		started := time.Now()
		got, err := w.run(ctx, w.hostile, order(p, checks))
		if err != nil {
			return fmt.Errorf("%s: %w", p.Name, err)
		}
		outcomes, _, err := catalogue.Parse(got.result)
		if err != nil {
			return fmt.Errorf("%s: %w", p.Name, err)
		}
		for _, c := range checks {
			e := end{status: outcomes[c.Name].String()}
			w.file(p.Name+"/"+c.Name, p.Loss+": "+c.Name, p.Requirements, p.Threats, "a job", c.By, e, started)
		}
		return nil
	})
}

// besides runs another user's jobs until done is closed.
func (w *whole) besides(ctx context.Context, done <-chan struct{}) {
	input := []byte("neighbour work=100\n" + strings.Repeat("another user's work\n", 100))
	h := fnv.New64a()
	h.Write(input)
	want := fmt.Appendf(nil, "%s\nFNV %016x\n", input, h.Sum64())
	c := evidence.Case{
		ID: "system/neighbour", Title: "another user's jobs beside hostile ones come out right", Requirements: []string{"SBX-04", "SBX-15"}, Threats: []string{"NBR-D1", "NBR-I1"},
		Tried: "every hostile job of this stage", Oracle: "the other user's results, byte by byte", Verdict: evidence.Held,
	}
	right := 0
	for open := true; open && c.Verdict == evidence.Held; {
		got, err := w.run(ctx, w.neighbour, input)
		switch {
		case err != nil:
			c.Verdict, c.Detail = evidence.Errored, err.Error()
		case !bytes.Equal(got.result, want):
			c.Verdict, c.Detail = evidence.Breached, fmt.Sprintf("job %d: %s with %d of %d bytes", right+1, got, len(got.result), len(want))
		default:
			right++
		}
		select {
		case <-done:
			open = false
		default:
		}
	}
	if c.Verdict == evidence.Held {
		c.Detail = fmt.Sprintf("%d jobs right", right)
	}
	w.suite.file(c)
}

// settle is how long the launchers may take to clear away the last attempt.
const settle = 20 * time.Second

// nothingLeft looks for what outlives the jobs: containers, mounts, folders.
func (w *whole) nothingLeft(ctx context.Context) error {
	c := evidence.Case{ID: "system/nothing-left", Title: "nothing outlives its attempt in the whole system", Requirements: []string{"SBX-12"}, Threats: []string{"BOX-D3"}, Tried: "all jobs of this stage",
		Oracle: "the engine's list, processes, the mount table, cgroups, the slots' folders, descriptors", Verdict: evidence.Held, Detail: "nothing but the containers that are kept ready"}
	deadline := time.Now().Add(settle)
	for {
		left, err := w.leftovers(ctx)
		if err != nil {
			return err
		}
		if left == "" {
			break
		}
		if time.Now().After(deadline) {
			c.Verdict, c.Detail = evidence.Breached, left
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	w.suite.file(c)
	return nil
}

func (w *whole) leftovers(context.Context) (string, error) {
	found, err := leftovers.Host{
		State: filepath.Dir(w.system.BinDir), Launchers: len(w.system.PIDs.Launcher), Engine: w.system.Sockets.Engine,
		Holders: append(append([]int{}, w.system.PIDs.Launcher...), w.system.PIDs.Worker...),
	}.Found()
	return strings.Join(found, ", "), err
}
