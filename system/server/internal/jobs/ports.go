package jobs

import (
	"context"
	"io"
	"time"

	"glovebox/system/server/internal/jobs/domain"
)

// Store keeps jobs, their inputs' facts and their history. Every method is one
// transaction; times are the database's. The adapter is held to these duties by
// storetest.Exercise, the fake too.
//
// A job that is not there, or belongs to another user, is domain.CodeNotFound.
// Anything that is not a refusal (the database is away, say) carries
// domain.CodeUnavailable where trying again may help, else no code.
type Store interface {
	// Create records a submitted job, its asset and version, and its first event.
	// It holds the user's row while it counts, so that limits hold across servers
	// (UPL-03, UPL-10); over a limit it refuses with CodeLimitExceeded.
	Create(ctx context.Context, job NewJob) (domain.Job, error)
	// Get returns the user's job.
	Get(ctx context.Context, userID, jobID string) (domain.Job, Input, error)
	// Transition locks the job, lets decide judge it at the database's time, and
	// stores what it returns by an update conditional on what decide looked at,
	// with the event where it has one. decide's refusal comes back unchanged and
	// changes nothing.
	Transition(ctx context.Context, jobID string, decide Decide) (domain.Job, error)
	// Attempt returns the job and its input if fence holds the lease now, else
	// CodeLeaseLost.
	Attempt(ctx context.Context, fence domain.Fence) (domain.Job, Input, error)
}

// Decide judges a locked job at the database's time.
type Decide func(job domain.Job, now time.Time) (domain.Job, *domain.Event, error)

// Queue hands out pending jobs.
type Queue interface {
	// Claim assigns the next claimable job of the user served least, in one
	// transaction (JOB-02), or returns ok false when there is none. The same
	// request id of the same worker returns the same assignment while its lease
	// lives, and CodeConflict after (JOB-04).
	Claim(ctx context.Context, claim Claim) (job domain.Job, input Input, ok bool, err error)
	// Changed returns a channel that receives when a job may have become
	// claimable. Notifications can be lost: the caller polls behind it.
	Changed() <-chan struct{}
	// Expired returns at most limit jobs whose lease ran out, oldest first, after
	// the given cursor, so that one bad row cannot block the page behind it.
	Expired(ctx context.Context, after string, limit int) (ids []string, err error)
	// AnsweredFailure returns the status that the fence's reported failure of this
	// code led to, so that its repeat gets the same answer; ok false without one.
	AnsweredFailure(ctx context.Context, fence domain.Fence, code string) (status domain.Status, ok bool, err error)
}

// Keys keeps Idempotency-Keys under their user (API-04).
type Keys interface {
	// Begin takes the key for a new request, or says what became of it: the job of
	// a finished request (replay), CodeIdempotencyInFlight, or
	// CodeIdempotencyMismatch where fingerprint is known already and differs. A
	// key held by a server that died frees itself.
	Begin(ctx context.Context, userID, key string, declared *[32]byte) (hold Hold, replay string, err error)
	// Release gives a key back that led to no job.
	Release(ctx context.Context, hold Hold) error
	// Match judges a replayed job's fingerprint against the bytes really sent.
	Match(ctx context.Context, userID, key string, fingerprint [32]byte) (jobID string, err error)
}

// Blobs keeps bytes. Names are made by the caller from ids and randomness, never
// from anything a person typed. Both adapters pass blobtest.Exercise.
type Blobs interface {
	// Stage streams body into a temporary place while it hashes and counts. More
	// than limit bytes is CodeTooLarge, no space is CodeInsufficientStorage, a
	// broken body is the reader's own error; each leaves nothing behind.
	Stage(ctx context.Context, body io.Reader, limit int64) (Staged, error)
	// Open returns the bytes of a committed key: seekable, for ranges. A missing
	// key is an error that wraps fs.ErrNotExist.
	Open(ctx context.Context, key string) (io.ReadSeekCloser, error)
}

// Staged is a body that has arrived whole and is not yet part of the store.
type Staged interface {
	Size() int64
	SHA256() [32]byte
	// Commit makes the bytes durable under key: sync the file, rename, sync the
	// folder. After it only an orphan can be left, never a torn file.
	Commit(ctx context.Context, key string) error
	// Discard drops the bytes; after Commit it does nothing.
	Discard() error
}

// Claim is a worker's request for work.
type Claim struct {
	WorkerID   string
	RequestID  string // UUID
	Lease      time.Duration
	SlotsFree  int
	SlotsTotal int
}

// Input is what is known of a job's input. FileName is display text only.
type Input struct {
	StorageKey string
	FileName   string
	Size       int64
	SHA256     [32]byte
}

// NewJob is what Create needs.
type NewJob struct {
	ID            string
	UserID        string
	AssetID       string
	MaxAttempts   int
	Input         Input
	Hold          *Hold // the Idempotency-Key this job answers, where there is one
	Limits        Limits
	CorrelationID string
}

// Limits of one user, enforced where the row is made.
type Limits struct {
	ActiveJobs  int
	StoredBytes int64
}

// Hold is a taken Idempotency-Key.
type Hold struct {
	UserID, Key string
	Owner       string // random, so that only the taker can finish or release it
}
