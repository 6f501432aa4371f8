// Package traffic is the friendly users of a chaos run: they send files with an
// idempotency key, try again when an answer is lost, wait, fetch the result and
// compare its bytes. Everything they ask and are told goes into the history.
package traffic

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"glovebox/chaos/history"
)

// Sent is a submission that was acknowledged.
type Sent struct {
	Job  string
	Key  string
	File File
	By   *Client
}

// Desk is a user at work: a few files at a time, again and again.
type Desk struct {
	client *Client
	random *rand.Rand
	think  time.Duration // at most so long between two bursts
}

// The waits of a desk's user, whose own they are: between two looks at a job, and
// before trying again. Bursts are of up to so many files.
const (
	lookEvery  = 150 * time.Millisecond
	tryAgain   = 250 * time.Millisecond
	burstFiles = 4
)

// NewDesk seats a user.
func NewDesk(client *Client, seed uint64, number int, think time.Duration) *Desk {
	return &Desk{client: client, random: rand.New(rand.NewPCG(seed, uint64(number)+1)), think: think}
}

// Work goes on until begin ends; what was begun is brought to its end, or to the
// end of finish. It returns how many files came back whole, and what is still open
// when finish ended.
func (d *Desk) Work(begin, finish context.Context) (done int, open []string) {
	for n := 0; begin.Err() == nil; n++ {
		var burst []Sent
		for i := range 1 + d.random.IntN(burstFiles) {
			file := NewFile(d.random, fmt.Sprintf("%s-%d-%d", d.client.Name, n, i))
			sent, ok := d.client.Deliver(finish, d.random, file)
			if !ok {
				return done, append(open, "never acknowledged: "+file.Name)
			}
			burst = append(burst, sent)
		}
		for _, sent := range burst {
			if why := d.client.Collect(finish, d.random, sent); why != "" {
				return done, append(open, sent.Job+": "+why)
			}
			done++
		}
		pause(begin, time.Duration(d.random.Int64N(int64(d.think)+1)))
	}
	return done, open
}

// Deliver submits the file until a server acknowledges it, to any server each
// time. ok is false when ctx ended first.
func (c *Client) Deliver(ctx context.Context, random *rand.Rand, file File) (sent Sent, ok bool) {
	sent = Sent{Key: fmt.Sprintf("%s-%016x", file.Name, random.Uint64()), File: file, By: c}
	for ctx.Err() == nil {
		e := c.Submit(ctx, random.IntN(len(c.bases)), file, sent.Key)
		if e.Outcome == history.OK {
			sent.Job = e.Job
			// Now and then the user has not seen the answer and sends it again.
			if random.IntN(12) == 0 {
				c.Submit(ctx, random.IntN(len(c.bases)), file, sent.Key)
			}
			return sent, true
		}
		pause(ctx, tryAgain)
	}
	return sent, false
}

// Collect waits for the job's end and fetches the result. It returns "" when all
// is well: the result came whole, or the job failed and said so, or retention was
// faster.
func (c *Client) Collect(ctx context.Context, random *rand.Rand, sent Sent) string {
	status := ""
	for !history.Terminal(status) {
		if ctx.Err() != nil {
			return "still " + status
		}
		e := c.Status(ctx, random.IntN(len(c.bases)), sent.Job)
		if status = e.Status; !history.Terminal(status) {
			pause(ctx, lookEvery)
		}
	}
	if status == history.Failed {
		return ""
	}
	for ctx.Err() == nil {
		e := c.Download(ctx, random.IntN(len(c.bases)), sent.Job, sent.File.Want)
		if e.Outcome == history.OK || e.Refusal == "result_expired" {
			return ""
		}
		pause(ctx, tryAgain)
	}
	return "completed, and the result did not come"
}

// pause waits as a person would.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
