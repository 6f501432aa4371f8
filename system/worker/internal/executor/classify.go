package executor

import (
	"fmt"

	"glovebox/system/protocol/failure"
	"glovebox/system/worker/internal/container/verdict"
)

// bad is a failure's code and what it says beside it. The detail names nothing
// of this host.
type bad struct {
	code   failure.Code
	detail string
}

// classify maps a verdict to a failure, nil when the result may be sent. The
// kernel's word comes first, then the core's exit status, then the launcher's
// judgement of the result; a result is good only when all three agree (JOB-12).
func classify(v verdict.Verdict, maxResultBytes int64) *bad {
	switch v.Kind {
	case verdict.Exited:
		code, ok := failure.FromExit(v.ExitCode)
		if !ok {
			return &bad{code, fmt.Sprintf("the core ended with status %d", v.ExitCode)}
		}
		return classifyResult(v.Result, maxResultBytes)
	case verdict.Signaled:
		if v.Forbidden() {
			return &bad{failure.CoreForbiddenCall, "the core tried a system call that is not allowed"}
		}
		return &bad{failure.CoreCrashed, fmt.Sprintf("the core died of signal %d", v.Signal)}
	case verdict.Timeout:
		return &bad{failure.Timeout, "the core did not end in time"}
	case verdict.OutOfMemory:
		return &bad{failure.OutOfMemory, "the core reached its memory limit"}
	case verdict.SandboxFailure:
		return &bad{failure.SandboxFailure, "the sandbox could not be made, kept or judged"}
	case verdict.Killed:
		return &bad{failure.SandboxFailure, "the run was ended from outside"}
	default:
		// A launcher newer than this worker: its word is not understood, so the
		// attempt proves nothing either way.
		return &bad{failure.SandboxFailure, "the sandbox gave a verdict of an unknown kind"}
	}
}

func classifyResult(r verdict.Result, maxResultBytes int64) *bad {
	switch {
	case r.Problem == verdict.TooLarge, r.Problem == verdict.TooManyBlk:
		return &bad{failure.OutputTooLarge, "the result is over its bound"}
	case r.Problem == verdict.NotDurable, r.Problem == verdict.NotJudged:
		return &bad{failure.SandboxFailure, "the result could not be judged"}
	case !r.OK:
		return &bad{failure.OutputInvalid, "the core said success and left no usable result"}
	case r.Size == 0:
		return &bad{failure.OutputInvalid, "the core said success and left an empty result"}
	case r.Size > maxResultBytes:
		return &bad{failure.OutputTooLarge, "the result is over its bound"}
	}
	return nil
}
