package suite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"glovebox/sandbox-probes/control"
	"glovebox/system/worker/probe"
)

// sequence lets one job leave a bit for the next one in the same slot. A round is
// two whole jobs, so all channels are tried in each.
func (s *Suite) sequence(ctx context.Context, wanted []channel, accepted string) error {
	wanted = slices.DeleteFunc(slices.Clone(wanted), func(c channel) bool { return !c.after })
	if len(wanted) == 0 {
		return nil
	}
	turns := 12
	if s.opts.Short {
		turns = 6
	}
	inside, err := s.leave(wanted, turns, func(orders []string, bit bool) ([]int64, error) { return s.oneJob(ctx, orders) })
	if err != nil {
		return err
	}
	outside, err := s.controlSequence(ctx, wanted, turns)
	if err != nil {
		return fmt.Errorf("control: %w", err)
	}
	for _, c := range wanted {
		e := judgeChannel(c, "sequence/"+c.name, "a job leaves the next one a bit by "+c.name, inside[c.name], outside[c.name], accepted)
		e.Tried = fmt.Sprintf("%d random bits, two jobs each, in the same slot", turns)
		s.file(e)
	}
	return nil
}

// leave runs turns of a sending and a receiving job and scores the readings.
func (s *Suite) leave(wanted []channel, turns int, job func(orders []string, bit bool) ([]int64, error)) (map[string]float64, error) {
	readings := map[string][]reading{}
	for turn := range turns {
		bit := s.random.IntN(2) == 1
		if turn < 2 {
			bit = turn == 0 // both are there at least once
		}
		var send, receive []string
		for _, c := range wanted {
			send = append(send, fmt.Sprintf("%s send %d", c.name, asInt(bit)))
			receive = append(receive, c.name+" receive 0")
		}
		if _, err := job(send, bit); err != nil {
			return nil, err
		}
		values, err := job(receive, bit)
		if err != nil {
			return nil, err
		}
		for i, c := range wanted {
			readings[c.name] = append(readings[c.name], reading{bit, values[i]})
		}
	}
	scores := map[string]float64{}
	for name, r := range readings {
		scores[name] = score(r)
	}
	return scores, nil
}

// oneJob runs the pair probe in the sandbox on the orders.
func (s *Suite) oneJob(ctx context.Context, orders []string) ([]int64, error) {
	var values []int64
	watch := func(ctx context.Context, r probe.Running) error {
		t := &talker{orders: r.Input, answers: r.Result}
		var err error
		values, err = t.all(ctx, orders)
		return err
	}
	_, err := s.bench.Run(ctx, probe.Attempt{Program: s.program, Input: []byte("pair\n"), Limits: limits(), Filter: probe.Filter{Errno: true}, Watch: watch})
	return values, err
}

// all gives the orders one by one and lets the probe go.
func (t *talker) all(ctx context.Context, orders []string) ([]int64, error) {
	var values []int64
	for _, o := range orders {
		value, err := t.ask(ctx, "%s", o)
		if err != nil {
			return nil, errors.Join(err, t.end())
		}
		values = append(values, value)
	}
	return values, t.end()
}

// controlSequence does the same unconfined, in one folder.
func (s *Suite) controlSequence(ctx context.Context, wanted []channel, turns int) (scores map[string]float64, err error) {
	dir, err := control.Folder(s.program, []byte("pair\n"))
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	err = together(func() error {
		role := 0
		scores, err = s.leave(wanted, turns, func(orders []string, _ bool) ([]int64, error) {
			role++
			t, cmd, err := startControl(ctx, s.program, dir, role)
			if err != nil {
				return nil, err
			}
			defer t.orders.Close()
			defer t.answers.Close()
			values, err := t.all(ctx, orders)
			if err != nil {
				cancel()
			}
			return values, errors.Join(err, cmd.Wait())
		})
		return errors.Join(err, forgetKey(), forgetFile())
	})
	return scores, err
}

// forgetFile takes away what the memory-file channel leaves on the host.
func forgetFile() error {
	if err := os.Remove(filepath.Join("/dev/shm", "glovebox-pair")); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}
