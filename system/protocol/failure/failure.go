// Package failure holds the one table that says how an attempt can end badly:
// what the core or the kernel reported, the code it gets, and whether the job is
// tried again (JOB-11).
//
// It is pure data, shared by the worker, which classifies, and the server's
// domain, which refuses a code it does not know and a pair that contradicts the
// table. What is not in the table is not a failure anybody may report.
package failure

// Code names how a job or an attempt failed. The text is what users see as
// error_code and never changes its meaning.
type Code string

// The codes a worker may report.
const (
	InvalidInput      Code = "invalid_input"       // the core refused the file: not valid, or beyond its limits
	OutputTooLarge    Code = "output_too_large"    // the result would exceed its bound
	OutputInvalid     Code = "output_invalid"      // the core said success and left no usable result
	OutOfMemory       Code = "out_of_memory"       // a memory limit was reached
	CoreError         Code = "core_error"          // the core gave up with any other status
	CoreCrashed       Code = "core_crashed"        // the core died of a signal
	CoreForbiddenCall Code = "core_forbidden_call" // the core tried a system call that is not allowed
	Timeout           Code = "timeout"             // the core did not end within its time
	SandboxFailure    Code = "sandbox_failure"     // the sandbox could not be made, kept or judged
	WorkerShutdown    Code = "worker_shutdown"     // the worker handed the job back before it stopped
)

// The codes that only the server itself sets.
const (
	WorkerLost               Code = "worker_lost"        // the lease ran out with no word; a retry follows
	AttemptsExhausted        Code = "attempts_exhausted" // the last lease ran out with no word
	RejectedUnsupportedType  Code = "rejected_unsupported_type"
	RejectedTooLarge         Code = "rejected_too_large"
	RejectedMaliciousContent Code = "rejected_malicious_content"
)

// Reporter says who may set a code.
type Reporter int

// The reporters.
const (
	ByWorker Reporter = iota + 1
	ByServer
)

// Fact is what the table says of one code.
type Fact struct {
	Retryable bool
	Reporter  Reporter
	// Blame is the side whose fault this is; an infrastructure fault is never
	// shown as the user's, nor the reverse.
	Blame Blame
}

// Blame is a side.
type Blame int

// The sides.
const (
	BlameInput Blame = iota + 1
	BlameCore
	BlameInfrastructure
)

var table = map[Code]Fact{
	InvalidInput:      {Retryable: false, Reporter: ByWorker, Blame: BlameInput},
	OutputTooLarge:    {Retryable: false, Reporter: ByWorker, Blame: BlameInput},
	OutputInvalid:     {Retryable: false, Reporter: ByWorker, Blame: BlameCore},
	OutOfMemory:       {Retryable: true, Reporter: ByWorker, Blame: BlameInfrastructure},
	CoreError:         {Retryable: false, Reporter: ByWorker, Blame: BlameCore},
	CoreCrashed:       {Retryable: false, Reporter: ByWorker, Blame: BlameCore},
	CoreForbiddenCall: {Retryable: false, Reporter: ByWorker, Blame: BlameCore},
	Timeout:           {Retryable: true, Reporter: ByWorker, Blame: BlameInfrastructure},
	SandboxFailure:    {Retryable: true, Reporter: ByWorker, Blame: BlameInfrastructure},
	WorkerShutdown:    {Retryable: true, Reporter: ByWorker, Blame: BlameInfrastructure},

	WorkerLost:               {Retryable: true, Reporter: ByServer, Blame: BlameInfrastructure},
	AttemptsExhausted:        {Retryable: false, Reporter: ByServer, Blame: BlameInfrastructure},
	RejectedUnsupportedType:  {Retryable: false, Reporter: ByServer, Blame: BlameInput},
	RejectedTooLarge:         {Retryable: false, Reporter: ByServer, Blame: BlameInput},
	RejectedMaliciousContent: {Retryable: false, Reporter: ByServer, Blame: BlameInput},
}

// Lookup returns the table's line for code; ok is false for an unknown code.
func Lookup(code Code) (fact Fact, ok bool) {
	fact, ok = table[code]
	return fact, ok
}

// Codes returns every code of the table in no particular order.
func Codes() []Code {
	codes := make([]Code, 0, len(table))
	for c := range table {
		codes = append(codes, c)
	}
	return codes
}

// FromExit returns the code for a core that ended by itself with status
// (core/CONTRACT.md); ok is true for status 0, where there is no failure.
func FromExit(status int) (code Code, ok bool) {
	switch status {
	case 0:
		return "", true
	case 3, 4:
		return InvalidInput, false
	case 5:
		return OutputTooLarge, false
	case 6:
		return OutOfMemory, false
	default: // 2 and 70 included: the contract was broken, or the core found itself at fault
		return CoreError, false
	}
}
