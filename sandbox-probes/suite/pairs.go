package suite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"glovebox/system/worker/probe"
	"glovebox/threat-model/evidence"
)

// Rounds of one channel: with 24 bits, readings that are chance follow the bits to
// 85 % about once in a hundred runs; such a channel is tried once more.
const (
	rounds      = 24
	follows     = 0.85
	controlsMax = 4
)

// pairs lets two jobs at once, and one after another, try to pass each other a bit
// through everything they might share. Each channel's control is the same pair
// unconfined in one folder, where the bits must arrive.
func (s *Suite) pairs(ctx context.Context) error {
	accepted, err := acceptedText(s.opts.Root)
	if err != nil {
		return err
	}
	var wanted []channel
	for _, c := range channels {
		if (c.short || !s.opts.Short) && (s.wants("pair/"+c.name) || c.after && s.wants("sequence/"+c.name)) {
			wanted = append(wanted, c)
		}
	}
	if len(wanted) == 0 {
		return nil
	}
	inside := map[string]float64{}
	if err := s.insidePair(ctx, wanted, inside); err != nil {
		return err
	}
	// Chance may follow once; a channel follows again.
	again := slices.DeleteFunc(slices.Clone(wanted), func(c channel) bool { return inside[c.name] < follows })
	if len(again) > 0 {
		if err := s.insidePair(ctx, again, inside); err != nil {
			return err
		}
	}
	outside, err := s.controlPair(ctx, wanted)
	if err != nil {
		return err
	}
	for _, c := range wanted {
		s.file(judgeChannel(c, "pair/"+c.name, "two jobs at once pass each other a bit by "+c.name, inside[c.name], outside[c.name], accepted))
	}
	return s.sequence(ctx, wanted, accepted)
}

// acceptedText is the threat model as one line.
func acceptedText(root string) (string, error) {
	model, err := os.ReadFile(filepath.Join(root, "threat-model/THREAT_MODEL.md"))
	if err != nil {
		return "", fmt.Errorf("read what the threat model accepts: %w", err)
	}
	return strings.Join(strings.Fields(string(model)), " "), nil
}

func judgeChannel(c channel, id, title string, inside, outside float64, accepted string) evidence.Case {
	e := evidence.Case{
		ID: id, Title: title, Requirements: []string{"SBX-15"}, Threats: []string{"NBR-I1", "NBR-I2"}, Tried: fmt.Sprintf("%d random bits", rounds),
		Oracle: "how well the second job's readings tell the bits that the first was told to send", Verdict: evidence.Held,
		Detail: fmt.Sprintf("readings tell %.0f %% of the bits; control %.0f %%", 100*inside, 100*outside),
	}
	switch {
	case inside >= follows && c.accepted != "" && strings.Contains(accepted, c.accepted):
		e.Detail += "; accepted in the threat model: " + c.accepted
	case inside >= follows:
		e.Verdict = evidence.Breached
	case outside < follows && c.needs != "":
		e.Verdict, e.Detail = evidence.Unavailable, "this host lacks "+c.needs+"; "+e.Detail
	case outside < follows:
		e.Verdict, e.Detail = evidence.Errored, "the control failed, so the probe proves nothing: "+e.Detail
	}
	return e
}

// insidePair runs both jobs in slots of their own and fills scores by channel.
func (s *Suite) insidePair(ctx context.Context, wanted []channel, scores map[string]float64) error {
	l := limits()
	l.Timeout = 3 * time.Minute
	ctx, cancel := context.WithTimeout(ctx, l.Timeout)
	defer cancel()
	sender, receiver := make(chan *talker, 1), make(chan *talker, 1)
	var talked error
	done := make(chan struct{})
	run := func(slot int, at chan *talker) error {
		watch := func(ctx context.Context, r probe.Running) error {
			at <- &talker{orders: r.Input, answers: r.Result}
			select {
			case <-done:
			case <-ctx.Done():
			}
			return nil
		}
		_, err := s.bench.Run(ctx, probe.Attempt{Program: s.program, Input: []byte("pair\n"), Slot: slot, Limits: l, Filter: probe.Filter{Errno: true}, Watch: watch})
		return err
	}
	errs := make(chan error, 2)
	go func() { errs <- run(0, sender) }()
	go func() { errs <- run(1, receiver) }()
	select {
	case a := <-sender:
		select {
		case b := <-receiver:
			talked = s.talk(ctx, a, b, wanted, scores)
		case err := <-errs:
			talked, errs = errors.Join(errors.New("the second job did not start"), err), closed(errs)
		}
	case err := <-errs:
		talked, errs = errors.Join(errors.New("the first job did not start"), err), closed(errs)
	}
	close(done)
	if talked != nil {
		cancel() // a job that waits for orders would wait for its deadline
	}
	return errors.Join(talked, <-errs, <-errs)
}

// closed replaces one answer that was taken already.
func closed(errs chan error) chan error {
	errs <- nil
	return errs
}

// talk sends random bits over each channel and scores the readings.
func (s *Suite) talk(ctx context.Context, sender, receiver *talker, wanted []channel, scores map[string]float64) error {
	for _, c := range wanted {
		var readings []reading
		for round := range rounds + 1 {
			bit := s.random.IntN(2) == 1
			if _, err := sender.ask(ctx, "%s send %d", c.name, asInt(bit)); err != nil {
				return fmt.Errorf("%s: %w", c.name, err)
			}
			value, err := receiver.ask(ctx, "%s receive 0", c.name)
			if err != nil {
				return fmt.Errorf("%s: %w", c.name, err)
			}
			if round > 0 { // the first look only gives counters their start
				readings = append(readings, reading{bit, value})
			}
		}
		scores[c.name] = score(readings)
		if _, err := sender.ask(ctx, "%s send 0", c.name); err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
	}
	return errors.Join(sender.end(), receiver.end())
}

func asInt(bit bool) int {
	if bit {
		return 1
	}
	return 0
}

type reading struct {
	bit   bool
	value int64
}

// score is the share of bits that the best threshold on the readings tells.
func score(readings []reading) float64 {
	best := 0
	for _, at := range readings {
		right := 0
		for _, r := range readings {
			if (r.value >= at.value) == r.bit {
				right++
			}
		}
		best = max(best, right, len(readings)-right)
	}
	if len(readings) == 0 {
		return 0
	}
	// A reading that never changes tells nothing, however the bits fell.
	if !slices.ContainsFunc(readings, func(r reading) bool { return r.value != readings[0].value }) {
		return 0.5
	}
	return float64(best) / float64(len(readings))
}
