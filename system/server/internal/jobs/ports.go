package jobs

import (
	"context"
	"io"
	"time"

	"glovebox/system/server/internal/jobs/domain"
)

// Store keeps jobs, their inputs' facts and their history. Times are the
// database's. Adapters are held to these duties by storetest.Exercise.
//
// A failure that is no refusal carries domain.CodeUnavailable where trying again
// may help, else no code.
type Store interface {
	// Create records a submitted job, its asset and version, and its first event,
	// in one transaction. It holds the user's row while it counts, so that limits
	// hold across servers (UPL-03, UPL-10): beyond one it is CodeLimitExceeded. A
	// key that the upload no longer holds is CodeIdempotencyInFlight. It ends the
	// upload.
	Create(ctx context.Context, job NewJob) (Record, error)
	// Get returns the user's job; one that is not there, and another user's, are
	// both CodeNotFound (AUT-06).
	Get(ctx context.Context, userID, jobID string) (Record, error)
	// Look returns a job whoever owns it, for a worker that must show a fence;
	// CodeNotFound where there is none.
	Look(ctx context.Context, jobID string) (Record, error)
	// StoredBytes counts what is kept for the user: the inputs and results that are
	// not purged, and what living uploads have reserved.
	StoredBytes(ctx context.Context, userID string) (int64, error)
	// Transition lets change.Decide judge the job as it stands at the database's
	// time, and stores what it returns by one update conditional on everything
	// Decide looked at (id, status, worker, token, lease), with the event beside it
	// in the same transaction. When another transaction came first it reads and
	// decides again. Decide's refusal comes back unchanged and changes nothing.
	Transition(ctx context.Context, change Change) (domain.Job, error)
}

// Queue hands out pending jobs.
type Queue interface {
	// Claim assigns the next claimable job of the user served least, in one
	// transaction (JOB-02), or returns ok false when there is none. The same
	// request id of the same worker returns the same assignment while its lease
	// lives, and CodeConflict after (JOB-04).
	Claim(ctx context.Context, claim Claim) (record Record, ok bool, err error)
	// Expired returns at most limit ids of jobs whose lease ran out, after the
	// given id, so that one bad row cannot block the page behind it.
	Expired(ctx context.Context, after string, limit int) (ids []string, err error)
	// AnsweredFailure returns the status that the fence's reported failure of this
	// code led to, so that its repeat gets the same answer; ok false without one.
	AnsweredFailure(ctx context.Context, fence domain.Fence, code string) (status domain.Status, ok bool, err error)
}

// Uploads keeps what is being received now. An upload holds one of its user's
// slots and, where the request has one, the Idempotency-Key. An upload that is
// not renewed for UploadStale belongs to a server that died, and holds nothing any more.
type Uploads interface {
	// Begin takes a slot and the key, or says what became of the key: the id of the
	// job it led to (replay), CodeIdempotencyInFlight, or CodeIdempotencyMismatch
	// where both fingerprints are known and differ. A replay takes no slot. Beyond a
	// limit of the user it is CodeLimitExceeded.
	Begin(ctx context.Context, upload Upload) (replay string, err error)
	// Reserve counts a body that is here whole against its user's limits, as if its
	// job existed, until the upload ends: beyond one it is CodeLimitExceeded. It is
	// asked before the bytes get a name, so that a refusal leaves nothing (UPL-10).
	Reserve(ctx context.Context, upload Upload, size int64) error
	// Renew keeps a living upload's slot and key.
	Renew(ctx context.Context, uploadID string) error
	// End gives slot and key back. It does nothing to a key that led to a job.
	End(ctx context.Context, uploadID string) error
	// Match returns the job that the key led to when fingerprint is the one it was
	// made with, else CodeIdempotencyMismatch.
	Match(ctx context.Context, userID, key string, fingerprint [32]byte) (jobID string, err error)
}

// Times of an upload's bookkeeping.
const (
	UploadRenewal = 5 * time.Second
	UploadStale   = 30 * time.Second
	// KeyLifetime is how long an Idempotency-Key is remembered (API-04).
	KeyLifetime = 24 * time.Hour
)

// Roster is told what a worker says of itself with each claim and heartbeat.
type Roster interface {
	Seen(ctx context.Context, workerID string, slotsFree, slotsTotal int) error
}

// Blobs keeps bytes. Names are made by the caller from ids and randomness, never
// from anything a person typed. Adapters pass blobtest.Exercise.
type Blobs interface {
	// Stage streams body into a temporary place while it hashes and counts. More
	// than limit bytes is CodeTooLarge, no space is CodeInsufficientStorage, a
	// broken body is the reader's own error; each leaves nothing behind.
	Stage(ctx context.Context, body io.Reader, limit int64) (Staged, error)
	// Open returns the bytes of a committed key: seekable, for ranges. A missing
	// key is an error that wraps fs.ErrNotExist. What it returns may have Stat, by
	// which a changed file is told from the one that was checked.
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

// Record is a job with its input at one instant of the database's clock.
type Record struct {
	Job   domain.Job
	Input Input
	Now   time.Time
}

// Input is what is known of a job's input. FileName is display text only.
type Input struct {
	StorageKey string
	FileName   string
	Size       int64
	SHA256     [32]byte
}

// Change is what Transition is asked for.
type Change struct {
	JobID  string
	Decide Decide
	// Pin is the key that the change makes a row name, where it does.
	Pin *Pin
	// StoredBytes is the cap of what is kept for one user, which the result that
	// the change adds must keep to (UPL-10); 0 judges nothing. Beyond it the change
	// is refused with CodeTooLarge.
	StoredBytes int64
	// SkipLocked refuses with CodeConflict instead of waiting for a job that
	// another transaction holds.
	SkipLocked bool
}

// Decide judges a job at the database's time. A nil event is no transition: the
// lease is extended, nothing else.
type Decide func(job domain.Job, now time.Time) (domain.Job, *domain.Event, error)

// Pin keeps committed bytes from being swept as an orphan until a row names them
// (STO-03): the adapter holds the key against the sweeper to the end of its
// transaction, and under that hold asks whether the bytes are still there.
type Pin struct {
	Key    string
	Exists func(ctx context.Context) error
}

// Claim is a worker's request for work.
type Claim struct {
	WorkerID  string
	RequestID string // UUID
	Lease     time.Duration
}

// Upload is what Begin needs.
type Upload struct {
	ID     string // UUID
	UserID string
	Key    string // Idempotency-Key, "" for none
	// Fingerprint of the request where the client declared its digest up front.
	Fingerprint *[32]byte
	Limits      Limits
}

// NewJob is what Create needs.
type NewJob struct {
	ID            string
	UserID        string
	AssetID       string
	MaxAttempts   int
	Input         Input
	UploadID      string
	Key           string // Idempotency-Key that the upload holds, "" for none
	Fingerprint   [32]byte
	Pin           Pin
	Limits        Limits
	CorrelationID string
}

// Limits of one user, enforced where the row is made.
type Limits struct {
	Uploads     int
	ActiveJobs  int
	StoredBytes int64
}
