package fault

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"time"

	"glovebox/chaos/history"
	"glovebox/chaos/rig"
	"glovebox/chaos/traffic"
)

func damageKinds() []Kind {
	var all []Kind
	for _, what := range []struct{ name, title string }{{"result", "a stored result"}, {"input", "a stored input"}} {
		for _, how := range []struct{ name, title string }{{"flip", "a bit of %s flips"}, {"cut", "%s is cut short"}} {
			all = append(all, Kind{
				Name: how.name + "-" + what.name, Title: fmt.Sprintf(how.title, what.title), Requirements: []string{"JOB-12", "JOB-05"},
				Make: func(*rand.Rand, *rig.Rig) Fault { return &damage{what: what.name, how: how.name} },
			})
		}
	}
	return all
}

// damage spoils the stored bytes of a job that the fault's own user made, and puts
// them right again. Spoilt bytes must never be handed out as good.
type damage struct {
	always
	what, how string

	sent  traffic.Sent
	path  string
	whole []byte // as it was stored
	down  []string
}

func (d *damage) String() string      { return d.how + " the stored " + d.what + " of a job" }
func (d *damage) Hold() time.Duration { return 2 * time.Second }

// ownJobTime bounds what the fault's own job may take.
const ownJobTime = 40 * time.Second

func (d *damage) Inject(ctx context.Context, s *Scene) error {
	ctx, cancel := context.WithTimeout(ctx, ownJobTime)
	defer cancel()
	if d.what == "input" {
		// Nobody may have taken the job before its input is spoilt.
		for _, name := range ofRole(s.Rig, "worker") {
			if err := s.Kill(name); err != nil {
				return err
			}
			d.down = append(d.down, name)
		}
	}
	file := traffic.SizedFile(s.Random, "damage-"+d.what, 2000+s.Random.IntN(30_000))
	sent, ok := s.Bystander.Deliver(ctx, s.Random, file)
	if !ok {
		return errors.New("the job whose bytes are to be spoilt was not taken")
	}
	d.sent = sent
	if d.what == "result" {
		if why := s.Bystander.Collect(ctx, s.Random, sent); why != "" {
			return fmt.Errorf("the job whose result is to be spoilt: %s", why)
		}
	}
	if err := d.spoil(ctx, s); err != nil {
		return err
	}
	if d.what == "result" {
		// Each server, several times: one that remembers the good bytes must look again.
		for range 2 {
			for i := range s.Public {
				d.mustRefuse(s, s.Bystander.Download(ctx, i, sent.Job, file.Want))
			}
		}
		return nil
	}
	if err := d.workersUp(ctx, s); err != nil {
		return err
	}
	return d.tried(ctx, s)
}

// tried waits until a worker has taken the job with the spoilt input and is rid of
// it again: without that nothing was put to the test.
func (d *damage) tried(ctx context.Context, s *Scene) error {
	for {
		status, attempt, err := s.Attempt(ctx, d.sent.Job)
		if err == nil && (history.Terminal(status) || status == history.Pending && attempt >= 1 || attempt >= 2) {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("no worker tried the job whose input is spoilt: it is %s in attempt %d (%w)", status, attempt, ctx.Err())
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// spoil changes the bytes on the disk, behind every process's back.
func (d *damage) spoil(ctx context.Context, s *Scene) error {
	named, err := s.NamedFiles(ctx)
	if err != nil {
		return err
	}
	objects, err := s.Objects()
	if err != nil {
		return err
	}
	for key, by := range named {
		if by == d.what+" of "+d.sent.Job {
			d.path = objects[key]
		}
	}
	if d.path == "" {
		return fmt.Errorf("no %s of job %s is stored", d.what, d.sent.Job)
	}
	if d.whole, err = os.ReadFile(d.path); err != nil {
		return err
	}
	at := s.Random.IntN(len(d.whole))
	if d.how == "cut" {
		return os.Truncate(d.path, int64(at))
	}
	spoilt := []byte{d.whole[at] ^ 1<<s.Random.IntN(8)}
	return writeAt(d.path, spoilt, int64(at))
}

func writeAt(path string, content []byte, at int64) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(content, at)
	return errors.Join(err, f.Close())
}

func (d *damage) mustRefuse(s *Scene, e history.Event) {
	if e.Outcome == history.OK {
		s.Report("damage-is-never-served", e.Job, "spoilt bytes were served as a result: "+e.String())
	}
}

func (d *damage) workersUp(ctx context.Context, s *Scene) error {
	for _, name := range d.down {
		if _, alive := s.Process(name); alive {
			continue
		}
		if err := s.Restart(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

func (d *damage) Heal(ctx context.Context, s *Scene) error {
	err := d.workersUp(ctx, s)
	if d.path == "" || err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, ownJobTime)
	defer cancel()
	if d.what == "input" {
		if err := d.stillOpen(ctx, s); err != nil {
			return err
		}
	}
	if err := writeAt(d.path, d.whole, 0); err != nil {
		return err
	}
	// With its bytes whole again the job comes to its good end.
	if why := s.Bystander.Collect(ctx, s.Random, d.sent); why != "" {
		return fmt.Errorf("the job whose %s was spoilt and mended: %s", d.what, why)
	}
	return nil
}

// stillOpen requires that a job whose input is spoilt was neither completed nor
// put down to its owner's fault.
func (d *damage) stillOpen(ctx context.Context, s *Scene) error {
	e := s.Bystander.Status(ctx, 0, d.sent.Job)
	switch {
	case e.Status == history.Completed:
		s.Report("damage-is-never-processed", e.Job, "a job was completed whose input was spoilt in storage")
	case e.Status == history.Failed && !infrastructure(e.Code):
		s.Report("no-fault-of-the-user", e.Job, "a job failed with "+e.Code+" because its input was spoilt in storage")
	}
	return nil
}

// infrastructure reports whether a failure code is one that lays no blame on the
// file (JOB-11); it is written down here again on purpose.
func infrastructure(code string) bool {
	return strings.Contains(" timeout out_of_memory sandbox_failure worker_lost worker_shutdown attempts_exhausted ", " "+code+" ")
}
