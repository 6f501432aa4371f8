package service

import (
	"context"
	"errors"
	"io"
	"time"

	"glovebox/system/worker/internal/container/slot"
	"glovebox/system/worker/internal/container/verdict"
	"glovebox/system/worker/internal/launcher"
)

// session is one connection.
type session struct {
	*Service
	conn *launcher.Conn
	peer peer

	slot  *held // nil when idle
	run   context.CancelFunc
	ended chan outcome // of the running core
	ran   bool
}

type outcome struct {
	verdict verdict.Verdict
	err     error
}

// received is a packet or the connection's end.
type received struct {
	packet []byte
	err    error
}

// serve answers one connection until it ends, from either side, and then leaves
// nothing of it.
func (s *Service) serve(ctx context.Context, conn *launcher.Conn) {
	defer conn.Finish()
	p, err := peerOf(conn.Raw())
	if err != nil {
		s.peers.warn("connection refused: its peer is unknown", "error", err)
		return
	}
	defer p.close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // before p.close, which waits for the watch to end
	worker, _ := s.config.peerID()
	if p.uid != worker && p.uid != 0 {
		s.peers.warn("connection refused: wrong user", "uid", p.uid, "pid", p.pid)
		_ = conn.Send(launcher.Response{Error: &launcher.Error{Code: launcher.Forbidden, Message: "this user is not the configured worker"}})
		return
	}
	ss := &session{Service: s, conn: conn, peer: p}
	defer ss.end()

	packets := make(chan received)
	go ss.receive(ctx, packets)
	dead := p.watch(ctx)
	for {
		select {
		case <-ctx.Done():
			return
		case <-dead:
			// The socket may live on in a child of the worker; the slot must not.
			return
		case o := <-ss.ended:
			if !ss.finished(o) {
				return
			}
		case r := <-packets:
			if r.err != nil {
				if !errors.Is(r.err, io.EOF) {
					s.peers.warn("connection ends", "error", r.err)
				}
				return
			}
			if !ss.handle(ctx, r.packet) {
				return
			}
		}
	}
}

func (ss *session) receive(ctx context.Context, packets chan<- received) {
	for {
		packet, err := ss.conn.ReceivePacket(launcher.MaxRequest)
		select {
		case packets <- received{packet, err}:
		case <-ctx.Done():
			return
		}
		if err != nil {
			return
		}
	}
}

// end kills what runs and removes what is held.
func (ss *session) end() {
	if ss.run != nil {
		ss.run()
		<-ss.ended
		ss.run = nil
	}
	if ss.slot != nil {
		_ = ss.pool.release(ss.slot) // logged and tried again there
		ss.slot = nil
	}
}

// handle answers one packet and reports whether the connection goes on.
func (ss *session) handle(ctx context.Context, packet []byte) bool {
	req, bad := launcher.ParseRequest(packet)
	if bad != nil {
		ss.peers.warn("connection ends: bad request", "code", bad.Code, "pid", ss.peer.pid)
		ss.answer(launcher.Response{Verb: req.Verb, Error: bad})
		return false
	}
	if worker, _ := ss.config.peerID(); ss.peer.uid != worker && req.Verb != launcher.Status && req.Verb != launcher.SelfTest {
		ss.answer(launcher.Response{Verb: req.Verb, Error: &launcher.Error{Code: launcher.Forbidden, Message: "only the worker's user is given slots"}})
		return false
	}
	if !ss.allowed(req.Verb) {
		ss.peers.warn("connection ends: verb out of order", "verb", req.Verb, "pid", ss.peer.pid)
		ss.answer(launcher.Response{Verb: req.Verb, Error: &launcher.Error{Code: launcher.WrongState, Message: "the verb is not allowed in this state of the connection"}})
		return false
	}
	switch req.Verb {
	case launcher.Acquire:
		return ss.acquire(ctx)
	case launcher.Run:
		ss.start(ctx)
		return true
	case launcher.Kill:
		if ss.run != nil {
			ss.run()
		}
		return ss.answer(launcher.Response{Verb: launcher.Kill})
	case launcher.Release:
		return ss.release()
	case launcher.SelfTest:
		return ss.selfTest(ctx)
	default: // status: ParseRequest lets nothing else through
		state := ss.State()
		return ss.answer(launcher.Response{Verb: launcher.Status, State: &state})
	}
}

// allowed is the protocol's state machine.
func (ss *session) allowed(v launcher.Verb) bool {
	running := ss.run != nil
	switch v {
	case launcher.Acquire, launcher.SelfTest, launcher.Status:
		return ss.slot == nil
	case launcher.Run:
		return ss.slot != nil && !running && !ss.ran
	case launcher.Kill:
		return running || ss.ran // it may cross the end of the run
	case launcher.Release:
		return ss.slot != nil && !running
	}
	return false
}

func (ss *session) answer(r launcher.Response) bool {
	if err := ss.conn.Send(r); err != nil {
		ss.peers.warn("connection ends: the peer takes no answer", "error", err)
		return false
	}
	return true
}

func (ss *session) acquire(ctx context.Context) bool {
	if refusal := ss.gate.refusal(); refusal != nil {
		return ss.answer(launcher.Response{Verb: launcher.Acquire, Error: refusal})
	}
	started := time.Now()
	h, err := ss.pool.acquire(ctx)
	switch {
	case errors.Is(err, errShut):
		refusal := ss.gate.refusal()
		if refusal == nil {
			refusal = &launcher.Error{Code: launcher.NotReady, Message: "the launcher has just begun to take work; ask again"}
		}
		return ss.answer(launcher.Response{Verb: launcher.Acquire, Error: refusal})
	case errors.Is(err, errNoSlot):
		return ss.answer(launcher.Response{Verb: launcher.Acquire, Error: &launcher.Error{Code: launcher.NoSlot, Message: "every slot is in use"}})
	case err != nil:
		ss.log.Error("slot not made", "error", err)
		ss.metrics.attempt(verdict.SandboxFailure, time.Since(started))
		return ss.answer(launcher.Response{Verb: launcher.Acquire, Error: &launcher.Error{Code: launcher.Unavailable, Message: "the slot could not be made; the launcher's log tells why"}})
	}
	ss.slot, ss.ran = h, false
	ss.log.Debug("slot acquired", "attempt", h.Name, "slot", h.number)
	return ss.conn.Send(launcher.Response{Verb: launcher.Acquire}, h.Input(), h.Result()) == nil
}

func (ss *session) start(ctx context.Context) {
	ctx, ss.run = context.WithCancel(ctx)
	ss.ended = make(chan outcome, 1)
	attempt, ended := ss.slot, ss.ended
	go func() {
		v, err := attempt.Run(ctx)
		ended <- outcome{v, err}
	}()
}

// finished tells the client how its run ended.
func (ss *session) finished(o outcome) bool {
	ss.run()
	ss.run, ss.ended = nil, nil
	if errors.Is(o.err, slot.ErrInputTooLarge) {
		return ss.answer(launcher.Response{Verb: launcher.Run, Error: &launcher.Error{Code: launcher.InputTooLarge, Message: slot.ErrInputTooLarge.Error()}})
	}
	if o.err != nil {
		o.verdict = verdict.Failure(o.err.Error())
	}
	ss.ran = true
	v := o.verdict
	ss.metrics.attempt(v.Kind, time.Duration(v.DurationMS)*time.Millisecond)
	ss.log.Info("attempt ended", "attempt", ss.slot.Name, "slot", ss.slot.number, "kind", v.Kind, "exit_code", v.ExitCode,
		"signal", v.Signal, "result_ok", v.Result.OK, "result_problem", v.Result.Problem, "result_bytes", v.Result.Size,
		"duration_ms", v.DurationMS, "detail", v.Detail)
	v.Detail = outward(v)
	return ss.answer(launcher.Response{Verb: launcher.Run, Verdict: &v})
}

// outward is what the worker is told of a failure: the kind of step and no host
// path, which the log holds.
func outward(v verdict.Verdict) string {
	if v.Kind == verdict.SandboxFailure {
		return "the sandbox could not be made, kept or judged; the launcher's log tells why"
	}
	return ""
}

func (ss *session) release() bool {
	h := ss.slot
	ss.slot, ss.ran = nil, false
	if err := ss.pool.release(h); err != nil {
		return ss.answer(launcher.Response{Verb: launcher.Release, Error: &launcher.Error{Code: launcher.Unclean, Message: "something of the attempt is left; the launcher goes on removing it"}})
	}
	return ss.answer(launcher.Response{Verb: launcher.Release})
}

func (ss *session) selfTest(ctx context.Context) bool {
	report := ss.SelfTest(ctx)
	return ss.answer(launcher.Response{Verb: launcher.SelfTest, Walls: Walls(report)})
}

// bound keeps a wall's detail small enough for all of them to fit one packet.
func bound(s string) string {
	const most = 512
	if len(s) > most {
		return s[:most]
	}
	return s
}
