package campaign

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"glovebox/chaos/history"
	"glovebox/chaos/model"
	"glovebox/chaos/rig"
	"glovebox/chaos/traffic"
)

// FailoverCase is the name of the one case that is no plan of faults: a backup is
// taken under traffic, everything is lost, and the system goes on from the backup.
const FailoverCase = "failover"

// Times of the scenario.
const (
	afterBackup   = 4 * time.Second  // of traffic that the backup does not hold
	pausedTime    = 3 * time.Second  // in which nothing may happen
	afterFailover = 15 * time.Second // of traffic on the restored system
)

// failover is the scenario under way. Histories before and after are two: what was
// answered after the backup is lost by right, and a job may go back in time.
type failover struct {
	*campaign
	impostor *rig.Impostor
	backupAt int64 // of the first history: what was acknowledged before it must live
	lost     history.Record
	restored rig.Restored
	since    time.Time // the restored system's beginning, by the database's clock
}

// work does the scenario in place of a plan.
func (f *failover) work(ctx context.Context) error {
	people, err := f.users(ctx)
	if err != nil {
		return err
	}
	f.scene = f.newScene(people)
	stop := f.seat(ctx, people)
	defer stop()
	if why := f.health(ctx); why != "" {
		return fmt.Errorf("the system is not healthy before the backup: %s", why)
	}
	if err := f.takeBackup(ctx); err != nil {
		return err
	}
	if err := f.goOn(ctx, afterBackup); err != nil {
		return err
	}
	round := model.Round{Kinds: []string{FailoverCase}, Titles: []string{"everything is lost; fail-over to a restored backup"}, Faults: []string{"lose database and storage, restore the backup"}, Inject: 1}
	if err := f.disaster(ctx, stop); err != nil {
		return err
	}
	f.recorder = traffic.NewRecorder()
	f.Seed++ // other files and other keys than before the loss
	f.run.Began = f.recorder.Began()
	round.Broken, round.Heal = 1, 1
	if err := f.restore(ctx); err != nil {
		return err
	}
	if people, err = f.users(ctx); err != nil {
		return err
	}
	f.scene = f.newScene(people)
	if why := f.health(ctx); why != "" {
		f.finding("recovered", "", why)
	} else {
		round.Recovered = f.recorder.Now()
	}
	f.run.Rounds = append(f.run.Rounds, round)
	f.tell(1, round)
	f.lateWorker(ctx)
	stop = f.seat(ctx, people)
	err = f.goOn(ctx, afterFailover)
	stop()
	return err
}

// seat puts the users to work until the returned function is called, which waits
// for their end. In the first part nobody waits for answers that cannot come.
func (f *failover) seat(ctx context.Context, people []*traffic.Client) (stop func()) {
	begin, end := context.WithCancel(ctx)
	finish, giveUp := context.WithCancel(ctx)
	var busy sync.WaitGroup
	beforeLoss := f.since.IsZero()
	for _, desk := range f.desks(people) {
		busy.Go(func() {
			_, open := desk.Work(begin, finish)
			if beforeLoss {
				return // the loss cut them off
			}
			f.mu.Lock()
			defer f.mu.Unlock()
			f.run.Open = append(f.run.Open, open...)
		})
	}
	return sync.OnceFunc(func() {
		end()
		if beforeLoss {
			giveUp()
		}
		patience := time.AfterFunc(drainTime, giveUp)
		defer patience.Stop()
		busy.Wait()
		giveUp()
	})
}

// goOn lets the traffic flow for so long: the scenario's own time.
func (f *failover) goOn(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// takeBackup takes it while the users work and while a worker of ours holds a job.
func (f *failover) takeBackup(ctx context.Context) (err error) {
	if f.impostor, err = f.rig.Impostor("spare-1"); err != nil {
		return err
	}
	if err := f.impostor.Claim(ctx); err != nil {
		return fmt.Errorf("claim the job that will be in progress in the backup: %w", err)
	}
	keeping, stop := context.WithCancel(ctx)
	defer stop()
	lost := make(chan error, 1)
	go func() {
		for {
			status, err := f.impostor.Heartbeat(keeping)
			if keeping.Err() != nil {
				lost <- nil
				return
			}
			if err != nil || status != http.StatusOK {
				lost <- fmt.Errorf("a heartbeat during the backup was answered %d (%v)", status, err)
				return
			}
			select {
			case <-keeping.Done():
				lost <- nil
				return
			case <-time.After(rig.Heartbeat):
			}
		}
	}()
	f.backupAt = f.recorder.Now()
	began := time.Now()
	if err := f.rig.Backup(ctx); err != nil {
		return fmt.Errorf("take the backup: %w", err)
	}
	fmt.Fprintf(f.Out, "the backup took %s\n", time.Since(began).Round(10*time.Millisecond))
	stop()
	return <-lost
}

// disaster ends servers and sweeper without a word, judges the history so far
// against the rows as they stand, and takes database and storage away.
func (f *failover) disaster(ctx context.Context, stop func()) error {
	for _, name := range []string{"server-0", "server-1", "sweeper"} {
		if err := f.rig.Kill(name); err != nil {
			return err
		}
	}
	stop()
	snapshot, err := f.rig.Snapshot(ctx)
	if err != nil {
		return err
	}
	f.lost = history.Record{Rules: history.Rules{Began: f.recorder.Began(), ClockSlack: 2 * time.Second}, Events: f.recorder.Events(), Snapshot: snapshot}
	for _, v := range history.Check(f.lost, 30*time.Second) {
		f.finding("before-the-loss/"+v.Rule, v.Job, v.Text)
	}
	return f.rig.LoseEverything(ctx)
}

// restore brings the system up from the backup: paused, and then not.
func (f *failover) restore(ctx context.Context) (err error) {
	began := time.Now()
	if f.restored, err = f.rig.RestoreFrom(ctx, f.rig.BackupDir()); err != nil {
		return fmt.Errorf("restore the backup: %w", err)
	}
	fmt.Fprintf(f.Out, "the restore took %s; fencing tokens go on from %d, %d jobs were taken back\n", time.Since(began).Round(10*time.Millisecond), f.restored.TokenBase, f.restored.TakenBack)
	if f.restored.TakenBack == 0 {
		f.finding("failover", f.impostor.Job, "the job that was in progress in the backup was not taken back")
	}
	if err := f.rig.StartPaused(ctx); err != nil {
		return err
	}
	for i := range f.rig.Public {
		if err := f.scene.Bystander.Ready(ctx, i); err == nil || !strings.Contains(err.Error(), "paused") {
			f.finding("failover", "", fmt.Sprintf("server %d does not say that it is paused: %v", i, err))
		}
	}
	before, err := f.rig.Snapshot(ctx)
	if err != nil {
		return err
	}
	if err := f.goOn(ctx, pausedTime); err != nil {
		return err
	}
	after, err := f.rig.Snapshot(ctx)
	if err != nil {
		return err
	}
	if len(after.Transitions) != len(before.Transitions) {
		f.finding("failover", "", fmt.Sprintf("%d transitions happened while the system was paused", len(after.Transitions)-len(before.Transitions)))
	}
	if err := f.rig.Resume(ctx); err != nil {
		return fmt.Errorf("resume: %w", err)
	}
	f.since = after.Now
	return nil
}

// lateWorker lets the worker of the lost system bring its result now.
func (f *failover) lateWorker(ctx context.Context) {
	for _, try := range []struct {
		what string
		do   func() (int, error)
	}{
		{"heartbeat", func() (int, error) { return f.impostor.Heartbeat(ctx) }},
		{"result", func() (int, error) { return f.impostor.Finish(ctx, []byte("what the lost system's worker made")) }},
	} {
		if status, err := try.do(); err != nil || status != http.StatusConflict {
			f.finding("failover", f.impostor.Job, fmt.Sprintf("a %s with a token of the lost system was answered %d (%v)", try.what, status, err))
		}
	}
}

// Failover runs the scenario.
func Failover(ctx context.Context, o Options) (run model.Run, record history.Record, err error) {
	o.Plan = Plan{Name: FailoverCase}
	c, err := begin(ctx, o)
	if err != nil {
		return run, record, err
	}
	defer func() { err = errors.Join(err, closeRig(c.rig)) }()
	f := &failover{campaign: c}
	if err := f.work(ctx); err != nil {
		return c.run, record, fmt.Errorf("%s: %w", FailoverCase, err)
	}
	if record, err = f.lastLook(ctx); err != nil {
		return c.run, record, err
	}
	record = f.judge(record)
	f.run.Ended = time.Now()
	record.Events = withoutOld(record.Events, f.lost)
	return f.run, record, nil
}
