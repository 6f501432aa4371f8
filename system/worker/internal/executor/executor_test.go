package executor_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"glovebox/system/protocol"
	"glovebox/system/protocol/failure"
	"glovebox/system/worker/internal/container/verdict"
	"glovebox/system/worker/internal/jobs"
	"glovebox/threat-model/evidence"
)

func TestEndingsBecomeCodes(t *testing.T) {
	t.Parallel()
	evidence.Proves(t, "JOB-11", "JOB-12", "SBX-12")
	exit := func(status int) verdict.Verdict { return verdict.Verdict{Kind: verdict.Exited, ExitCode: status} }
	judged := func(r verdict.Result) verdict.Verdict { return verdict.Verdict{Kind: verdict.Exited, Result: r} }
	const generic = "the file is not valid or is beyond the limits"
	rows := []struct {
		name   string
		text   string
		v      verdict.Verdict
		code   failure.Code // empty: delivered
		detail string       // empty: any
	}{
		{"success", "result", exit(0), "", ""},
		{"success without output", "", verdict.Verdict{Kind: verdict.Exited, Result: verdict.Result{OK: true}}, failure.OutputInvalid, ""},
		{"usage", "", exit(2), failure.CoreError, ""},
		{"invalid, no diagnostic", "", exit(3), failure.InvalidInput, generic},
		{"invalid, diagnostic", `{"line":3,"column":14,"message":"unexpected symbol near 'end'"}`, exit(3), failure.InvalidInput, "line 3, column 14: unexpected symbol near 'end'"},
		{"beyond limits, diagnostic", `{"message":"too deep","line":1,"column":2}` + "\n", exit(4), failure.InvalidInput, "line 1, column 2: too deep"},
		{"invalid, diagnostic over 512 bytes", `{"line":1,"column":1,"message":"` + strings.Repeat("m", 513-34) + `"}`, exit(3), failure.InvalidInput, generic},
		{"invalid, diagnostic that was judged bad", `{"line":1,"column":1,"message":"m"}`, verdict.Verdict{Kind: verdict.Exited, ExitCode: 3, Result: verdict.Result{Problem: verdict.Links, Size: 35}}, failure.InvalidInput, generic},
		{"diagnostic of another status", `{"line":1,"column":1,"message":"m"}`, exit(70), failure.CoreError, "the core ended with status 70"},
		{"invalid, half a program", "local a = 1", exit(3), failure.InvalidInput, generic},
		{"result too large by the core", "x", exit(5), failure.OutputTooLarge, ""},
		{"out of memory by the core", "x", exit(6), failure.OutOfMemory, ""},
		{"internal", "x", exit(70), failure.CoreError, ""},
		{"forged 137", "x", exit(137), failure.CoreError, ""},
		{"forged 159", "x", exit(159), failure.CoreError, ""},
		{"forged 255", "x", exit(255), failure.CoreError, ""},
		{"segmentation fault", "x", verdict.Verdict{Kind: verdict.Signaled, Signal: 11}, failure.CoreCrashed, ""},
		{"killed by nobody known", "x", verdict.Verdict{Kind: verdict.Signaled, Signal: 9}, failure.CoreCrashed, ""},
		{"forbidden call", "x", verdict.Verdict{Kind: verdict.Signaled, Signal: 31}, failure.CoreForbiddenCall, ""},
		{"timeout", "x", verdict.Verdict{Kind: verdict.Timeout}, failure.Timeout, ""},
		{"memory", "x", verdict.Verdict{Kind: verdict.OutOfMemory}, failure.OutOfMemory, ""},
		{"memory of a child, parent well", "x", verdict.Verdict{Kind: verdict.OutOfMemory, Result: verdict.Result{OK: true, Size: 1}}, failure.OutOfMemory, ""},
		{"sandbox failure", "x", verdict.Verdict{Kind: verdict.SandboxFailure, Detail: "mount"}, failure.SandboxFailure, ""},
		{"killed from outside", "x", verdict.Verdict{Kind: verdict.Killed}, failure.SandboxFailure, ""},
		{"unknown kind", "x", verdict.Verdict{Kind: "vanished", Result: verdict.Result{OK: true, Size: 1}}, failure.SandboxFailure, ""},
		{"no kind at all", "x", verdict.Verdict{}, failure.SandboxFailure, ""},
		{"result over the sandbox's bound", "x", judged(verdict.Result{Problem: verdict.TooLarge, Size: 9}), failure.OutputTooLarge, ""},
		{"result over the job's bound", strings.Repeat("x", 1<<20+1), exit(0), failure.OutputTooLarge, ""},
		{"more disk than size", "x", judged(verdict.Result{Problem: verdict.TooManyBlk, Size: 1}), failure.OutputTooLarge, ""},
		{"a link", "x", judged(verdict.Result{Problem: verdict.Links, Size: 1}), failure.OutputInvalid, ""},
		{"another file", "x", judged(verdict.Result{Problem: verdict.OtherFile, Size: 1}), failure.OutputInvalid, ""},
		{"mode changed", "x", judged(verdict.Result{Problem: verdict.ModeChanged, Size: 1}), failure.OutputInvalid, ""},
		{"a problem not known here", "x", judged(verdict.Result{Problem: "novel", Size: 1}), failure.OutputInvalid, ""},
		{"not judged", "x", judged(verdict.Result{Problem: verdict.NotJudged}), failure.SandboxFailure, ""},
		{"judged at another size", "xx", judged(verdict.Result{OK: true, Size: 1}), failure.SandboxFailure, ""},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			b, w := &box{t: t, core: ended(t, row.text, row.v)}, &wire{input: "input"}
			got := b.execute(context.Background(), w, nil)
			if b.leaked() != 0 {
				t.Error("the slot was not released")
			}
			if row.code == "" {
				if !got.Delivered || string(w.delivered) != row.text || w.sum != sha256.Sum256([]byte(row.text)) {
					t.Fatalf("not delivered as it is: %+v", got)
				}
				return
			}
			if got.Delivered || w.calls != 0 {
				t.Fatal("something was sent")
			}
			if got.Failure.Code != row.code || row.detail != "" && got.Failure.Detail != row.detail {
				t.Errorf("got %q %q, want %q %q", got.Failure.Code, got.Failure.Detail, row.code, row.detail)
			}
			if fact, _ := failure.Lookup(row.code); got.Failure.Retryable != fact.Retryable {
				t.Errorf("retryable is %v, against the table", got.Failure.Retryable)
			}
		})
	}
}

func TestInputIsWholeBeforeTheRun(t *testing.T) {
	t.Parallel()
	evidence.Proves(t, "JOB-12")
	for name, w := range map[string]*wire{
		"refused by the transfer":       {input: "input", fetchErr: jobs.ErrInputMismatch},
		"shorter than assigned on disk": {input: "inpu"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ran := false
			b := &box{t: t, core: func(context.Context, string, string) (verdict.Verdict, error) {
				ran = true
				return verdict.Verdict{}, nil
			}}
			got := b.execute(context.Background(), w, func(a *protocol.Assignment) { a.InputSize = 5 })
			if ran {
				t.Error("the core ran")
			}
			if got.Failure.Code != failure.SandboxFailure || !got.Failure.Retryable || b.leaked() != 0 {
				t.Errorf("got %+v, leaked %d", got.Failure, b.leaked())
			}
		})
	}
}

func TestTheCoreSeesTheInput(t *testing.T) {
	t.Parallel()
	w := &wire{input: "print 1"}
	b := &box{t: t, core: func(_ context.Context, input, result string) (verdict.Verdict, error) {
		text, err := os.ReadFile(input)
		if err != nil {
			return verdict.Verdict{}, err
		}
		return ended(t, strings.ToUpper(string(text)), verdict.Verdict{Kind: verdict.Exited})(nil, input, result)
	}}
	if got := b.execute(context.Background(), w, nil); !got.Delivered || string(w.delivered) != "PRINT 1" {
		t.Errorf("got %+v, %q", got, w.delivered)
	}
}

func TestFaultsOfThisSide(t *testing.T) {
	t.Parallel()
	evidence.Proves(t, "SBX-12")
	t.Run("no slot", func(t *testing.T) {
		t.Parallel()
		b := &box{t: t, acquireErr: errors.New("full")}
		if got := b.execute(context.Background(), &wire{}, nil); got.Failure.Code != failure.SandboxFailure || got.Cause == nil {
			t.Errorf("got %+v", got)
		}
	})
	t.Run("no verdict", func(t *testing.T) {
		t.Parallel()
		b := &box{t: t, core: func(context.Context, string, string) (verdict.Verdict, error) {
			return verdict.Verdict{Kind: verdict.Exited, Result: verdict.Result{OK: true}}, io.ErrUnexpectedEOF
		}}
		if got := b.execute(context.Background(), &wire{}, nil); got.Failure.Code != failure.SandboxFailure || b.leaked() != 0 {
			t.Errorf("got %+v, leaked %d", got, b.leaked())
		}
	})
	t.Run("a panic", func(t *testing.T) {
		t.Parallel()
		b := &box{t: t}
		func() {
			defer func() {
				if recover() == nil {
					t.Error("the panic was swallowed where nobody reports it")
				}
			}()
			b.execute(context.Background(), &wire{panics: true}, nil)
		}()
		if b.leaked() != 0 {
			t.Error("the slot was not released")
		}
	})
	t.Run("the server takes no such size", func(t *testing.T) {
		t.Parallel()
		b := &box{t: t, core: ended(t, "x", verdict.Verdict{Kind: verdict.Exited})}
		if got := b.execute(context.Background(), &wire{deliverErr: jobs.ErrTooLarge}, nil); got.Failure.Code != failure.OutputTooLarge || b.leaked() != 0 {
			t.Errorf("got %+v", got)
		}
	})
	t.Run("the server takes no result", func(t *testing.T) {
		t.Parallel()
		b := &box{t: t, core: ended(t, "x", verdict.Verdict{Kind: verdict.Exited})}
		if got := b.execute(context.Background(), &wire{deliverErr: jobs.ErrRefused}, nil); got.Delivered || got.Failure.Code != failure.SandboxFailure || b.leaked() != 0 {
			t.Errorf("got %+v", got)
		}
	})
}

// A launcher that hangs and a lease that ends: the run's context ends, the slot
// is released, and what we ended ourselves is not called the core's doing.
func TestRunsThatAreEndedFromHere(t *testing.T) {
	t.Parallel()
	evidence.Proves(t, "JOB-08", "SBX-12")
	untilTold := func(started chan<- struct{}) func(context.Context, string, string) (verdict.Verdict, error) {
		return func(ctx context.Context, _, _ string) (verdict.Verdict, error) {
			close(started)
			<-ctx.Done()
			return verdict.Verdict{Kind: verdict.Killed}, nil
		}
	}
	t.Run("over the assignment's time", func(t *testing.T) {
		t.Parallel()
		b := &box{t: t, core: untilTold(make(chan struct{}))}
		got := b.execute(context.Background(), &wire{}, func(a *protocol.Assignment) { a.TimeoutSeconds = 0 }) // the margin alone
		if got.Failure.Code != failure.Timeout || !got.Failure.Retryable || b.leaked() != 0 {
			t.Errorf("got %+v, leaked %d", got, b.leaked())
		}
	})
	t.Run("lease lost", func(t *testing.T) {
		t.Parallel()
		started := make(chan struct{})
		b := &box{t: t, core: untilTold(started)}
		ctx, lose := context.WithCancelCause(context.Background())
		go func() {
			<-started
			lose(jobs.ErrLeaseLost)
		}()
		w := &wire{}
		got := b.execute(ctx, w, nil)
		if got.Delivered || w.calls != 0 || b.leaked() != 0 || !errors.Is(got.Cause, jobs.ErrLeaseLost) {
			t.Errorf("got %+v, leaked %d", got, b.leaked())
		}
	})
}

// What ran is named by the launcher's verdict, in a delivery and in a failure, and
// nothing is named where there was no verdict.
func TestTheOutcomeNamesWhatRan(t *testing.T) {
	t.Parallel()
	evidence.Proves(t, "COR-05")
	digest, id := "sha256:"+strings.Repeat("a", 64), "sha256:"+strings.Repeat("b", 64)
	const form = "image=%s; image_id=%s; duration_ms=1234"
	verdictOf := func(kind verdict.Kind, exit int) verdict.Verdict {
		return verdict.Verdict{Kind: kind, ExitCode: exit, DurationMS: 1234, ImageDigest: digest, ImageID: id}
	}
	tooLong := func(a *protocol.Assignment) { a.TimeoutSeconds = 0 } // the margin alone
	rows := map[string]struct {
		box    *box
		wire   *wire
		change func(*protocol.Assignment)
		named  bool
	}{
		"delivered":     {box: &box{core: ended(t, "x", verdictOf(verdict.Exited, 0))}, wire: &wire{}, named: true},
		"not delivered": {box: &box{core: ended(t, "x", verdictOf(verdict.Exited, 0))}, wire: &wire{deliverErr: jobs.ErrRefused}, named: true},
		"refused input": {box: &box{core: ended(t, "", verdictOf(verdict.Exited, 3))}, wire: &wire{}, named: true},
		"out of memory": {box: &box{core: ended(t, "", verdictOf(verdict.OutOfMemory, 0))}, wire: &wire{}, named: true},
		"ended from here": {box: &box{core: func(ctx context.Context, _, _ string) (verdict.Verdict, error) {
			<-ctx.Done()
			return verdictOf(verdict.Killed, 0), nil
		}}, wire: &wire{}, change: tooLong, named: true},
		"no verdict": {box: &box{core: func(context.Context, string, string) (verdict.Verdict, error) {
			return verdict.Verdict{}, io.ErrUnexpectedEOF
		}}, wire: &wire{}},
		"no input": {box: &box{}, wire: &wire{fetchErr: jobs.ErrInputMismatch}},
		"no slot":  {box: &box{acquireErr: errors.New("full")}, wire: &wire{}},
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want := ""
			if row.named {
				want = fmt.Sprintf(form, digest, id)
			}
			row.box.t = t
			got := row.box.execute(context.Background(), row.wire, row.change)
			if got.Provenance != want {
				t.Errorf("the outcome says %q, want %q", got.Provenance, want)
			}
			if row.wire.calls > 0 && row.wire.said != want {
				t.Errorf("the delivery says %q, want %q", row.wire.said, want)
			}
			if len(want) > protocol.MaxProvenanceBytes {
				t.Errorf("%d bytes are more than the protocol carries", len(want))
			}
		})
	}
}
