package launcher

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"glovebox/system/worker/internal/container/verdict"
)

// answerTimeout bounds the wait for an answer that needs no run: making and
// removing a slot took 20 to 60 ms where it was measured.
const answerTimeout = 60 * time.Second

// killTimeout bounds the wait for a run's end after kill was sent.
const killTimeout = 60 * time.Second

// Client asks one launcher. It holds no connection; its methods are safe for
// concurrent use.
type Client struct{ path string }

// NewClient returns a client of the launcher that listens at path.
func NewClient(path string) *Client { return &Client{path: path} }

func (c *Client) dial(ctx context.Context) (*Conn, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unixpacket", c.path)
	if err != nil {
		return nil, fmt.Errorf("connect to the launcher: %w; is glovebox-launcher serving at this socket?", err)
	}
	return NewConn(conn.(*net.UnixConn)), nil
}

// Status asks for the launcher's state.
func (c *Client) Status(ctx context.Context) (State, error) {
	r, err := c.once(ctx, Status)
	if err != nil {
		return State{}, err
	}
	if r.State == nil {
		return State{}, errors.New("ask the launcher's state: the answer holds none")
	}
	return *r.State, nil
}

// SelfTest runs the launcher's self-test anew and returns its lines.
func (c *Client) SelfTest(ctx context.Context) ([]Wall, error) {
	r, err := c.once(ctx, SelfTest)
	return r.Walls, err
}

func (c *Client) once(ctx context.Context, verb Verb) (Response, error) {
	conn, err := c.dial(ctx)
	if err != nil {
		return Response{}, err
	}
	defer conn.Close()
	r, _, err := exchange(ctx, conn, verb, 0)
	return r, err
}

// exchange sends verb and waits for its answer, no longer than ctx lives: then
// the connection is closed, and with it its slot.
func exchange(ctx context.Context, conn *Conn, verb Verb, files int) (Response, []*os.File, error) {
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	if err := conn.Send(Request{verb}); err != nil {
		return Response{}, nil, joinContext(ctx, err)
	}
	r, passed, err := conn.ReceiveResponse(files)
	if err != nil {
		return Response{}, nil, joinContext(ctx, fmt.Errorf("%s: %w", verb, err))
	}
	if r.Error != nil {
		return r, nil, r.Error
	}
	if r.Verb != verb {
		closeAll(passed)
		return Response{}, nil, fmt.Errorf("%s: the launcher answered %q", verb, r.Verb)
	}
	return r, passed, nil
}

func joinContext(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return errors.Join(context.Cause(ctx), err)
	}
	return err
}

// Slot is an acquired slot. Its methods must not be called concurrently.
type Slot struct {
	Input  *os.File // write the input here; Run closes it
	Result *os.File // read the result here, after Run
	conn   *Conn
}

// Acquire takes a slot. Errors with CodeOf NotReady or NoSlot are worth another
// try later.
func (c *Client) Acquire(ctx context.Context) (*Slot, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	conn, err := c.dial(ctx)
	if err != nil {
		return nil, err
	}
	_, files, err := exchange(ctx, conn, Acquire, 2)
	if err != nil {
		conn.Close()
		return nil, err
	}
	return &Slot{Input: files[0], Result: files[1], conn: conn}, nil
}

// Run closes Input, starts the core and returns how it ended. When ctx ends first
// the core is killed, and the verdict says so. An error means that there is no
// verdict: the launcher refused (CodeOf tells) or is gone.
func (s *Slot) Run(ctx context.Context) (verdict.Verdict, error) {
	if err := s.Input.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
		return verdict.Verdict{}, fmt.Errorf("close the input: %w", err)
	}
	if err := s.conn.Send(Request{Run}); err != nil {
		return verdict.Verdict{}, err
	}
	ended := make(chan struct{})
	defer close(ended)
	go func() {
		select {
		case <-ended:
			return
		case <-ctx.Done():
		}
		if s.conn.Send(Request{Kill}) != nil {
			return
		}
		timer := time.NewTimer(killTimeout)
		defer timer.Stop()
		select {
		case <-ended:
		case <-timer.C:
			s.conn.Close() // takes the slot away and ends the wait below
		}
	}()
	for {
		r, _, err := s.conn.ReceiveResponse(0)
		switch {
		case err != nil:
			return verdict.Verdict{}, fmt.Errorf("run: %w", err)
		case r.Error != nil:
			return verdict.Verdict{}, r.Error
		case r.Verb == Kill: // the run's own answer follows
		case r.Verb == Run && r.Verdict != nil:
			return *r.Verdict, nil
		default:
			return verdict.Verdict{}, fmt.Errorf("run: the launcher answered %q", r.Verb)
		}
	}
}

// Release gives the slot back, after Run or instead of it, and waits until
// nothing of the attempt is left on the host. Whatever it returns, the connection
// is closed and the launcher goes on removing.
func (s *Slot) Release(ctx context.Context) error {
	_ = s.Input.Close()
	_ = s.Result.Close()
	defer s.conn.Close()
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { s.conn.Close() })
	defer stop()
	if err := s.conn.Send(Request{Release}); err != nil {
		return joinContext(ctx, err)
	}
	for {
		r, _, err := s.conn.ReceiveResponse(0)
		switch {
		case err != nil:
			return joinContext(ctx, fmt.Errorf("release: %w", err))
		case r.Verb == Kill: // sent as the run ended by itself
		case r.Error != nil:
			return r.Error
		case r.Verb == Release:
			return nil
		default:
			return fmt.Errorf("release: the launcher answered %q", r.Verb)
		}
	}
}
