// Package jobs is the life of a job as the server runs it: one Service, whose
// every method is one thing a user, a worker or the clock may ask for, one noun a
// file. The rules are domain's, the races are decided by the Store, the bytes are
// kept by Blobs; this package puts them in order (ARC-06).
package jobs

import (
	"context"
	"log/slog"
	"time"

	"github.com/google/uuid"

	"glovebox/system/protocol"
	"glovebox/system/protocol/failure"
	"glovebox/system/server/internal/jobs/domain"
)

// Settings of a Service; all are needed.
type Settings struct {
	MaxInputBytes  int64
	MaxResultBytes int64
	MaxAttempts    int
	Limits         Limits

	Lease     time.Duration // whole seconds
	Heartbeat time.Duration // whole seconds
	Timeout   time.Duration // of an attempt's run, whole seconds
	ClaimPoll time.Duration // the slow poll behind lost notifications
	Retention time.Duration

	Log *slog.Logger
}

// Parts are what a Service stands on.
type Parts struct {
	Store   Store
	Queue   Queue
	Uploads Uploads
	Blobs   Blobs
	Roster  Roster
}

// Service is the only owner of job state (ARC-04). It is safe for concurrent use,
// and several servers may run one each on the same database and storage.
type Service struct {
	Parts
	settings Settings
	// wake holds one token while there may be work: see Wake.
	wake      chan struct{}
	verified  *verified
	receiving *receiving
}

// New returns a Service.
func New(parts Parts, settings Settings) *Service {
	if settings.Log == nil {
		settings.Log = slog.New(slog.DiscardHandler)
	}
	return &Service{Parts: parts, settings: settings, wake: make(chan struct{}, 1), verified: newVerified(), receiving: newReceiving()}
}

// View is what a job's owner may know of it (API-05).
type View struct {
	ID        string
	AssetID   string
	Status    domain.Status
	CreatedAt time.Time
	UpdatedAt time.Time
	// ExpiresAt is when retention removes the result; zero before the job ended.
	ExpiresAt time.Time
	// ErrorCode is set when the job failed; ErrorDetail only for invalid_input,
	// where it is what the core said of the owner's own file.
	ErrorCode   failure.Code
	ErrorDetail string
	// SHA256 and Size are of the result, set when the job completed.
	SHA256 [32]byte
	Size   int64
}

func (s *Service) view(r Record) View {
	j := r.Job
	v := View{ID: j.ID, AssetID: j.AssetID, Status: j.Status, CreatedAt: j.CreatedAt, UpdatedAt: j.UpdatedAt}
	if j.Status.Terminal() {
		v.ExpiresAt = j.TerminalAt.Add(s.settings.Retention)
	}
	if j.Status == domain.Failed {
		v.ErrorCode = j.ErrorCode
		if j.ErrorCode == failure.InvalidInput {
			v.ErrorDetail = j.ErrorDetail
		}
	}
	if j.Result != nil {
		v.SHA256, v.Size = j.Result.SHA256, j.Result.Size
	}
	return v
}

// Status returns the user's job.
func (s *Service) Status(ctx context.Context, userID, jobID string) (View, error) {
	record, err := s.Store.Get(ctx, userID, jobID)
	if err != nil {
		return View{}, err
	}
	return s.view(record), nil
}

// seen notes a worker's saturation. The work at hand does not depend on it.
func (s *Service) seen(ctx context.Context, workerID string, slots protocol.Saturation) error {
	if slots.SlotsFree < 0 || slots.SlotsTotal < 0 || slots.SlotsFree > slots.SlotsTotal {
		return domain.Refuse(domain.CodeInvalid, "slots_free and slots_total are not 0 <= free <= total")
	}
	if err := s.Roster.Seen(ctx, workerID, slots.SlotsFree, slots.SlotsTotal); err != nil && ctx.Err() == nil {
		s.settings.Log.WarnContext(ctx, "a worker's slots could not be noted", "worker", workerID, "error", err)
	}
	return nil
}

// settle returns a context for what must reach its end once the bytes are here,
// also when the one who sent them has gone: half a commit helps nobody.
func settle(ctx context.Context) (context.Context, context.CancelFunc) {
	const most = 30 * time.Second
	return context.WithTimeout(context.WithoutCancel(ctx), most)
}

// newID returns a UUID whose order is its age, so that an index grows at its end.
// It is no secret: every look-up names the owner too.
func newID() string { return uuid.Must(uuid.NewV7()).String() }
