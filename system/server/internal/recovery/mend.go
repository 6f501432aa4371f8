package recovery

import (
	"context"
	"errors"
	iofs "io/fs"
	"time"

	"glovebox/system/server/internal/storage/fs"
)

// Ledger is the database as mending may use it: the sweeper's login and rules.
type Ledger interface {
	// WhileDeletable calls do unless a backup is being taken or the installation is
	// paused; heldBack says which.
	WhileDeletable(ctx context.Context, do func(context.Context) error) (heldBack string, err error)
	// HoldUnnamed calls remove if no row names the key under its lock.
	HoldUnnamed(ctx context.Context, key string, remove func(context.Context) error) (removed bool, err error)
	// GiveUp marks a completed job whose result is lost as one that retention has
	// taken, with its input; done is false where it is no such job.
	GiveUp(ctx context.Context, jobID string) (done bool, err error)
}

// Mender sets right what is safe to set right. It never removes or changes a byte
// that a row names.
type Mender struct {
	Ledger       Ledger
	Storage      *fs.Store
	TemporaryAge time.Duration
	// ExpireLost gives up results that are lost: their owners are told 410 in place
	// of 500.
	ExpireLost bool
}

// Mend implements CheckOptions.Mend. What this user may not do is not mended, and
// no error.
func (m Mender) Mend(ctx context.Context, f Finding) (mended bool, err error) {
	switch f.Kind {
	case Orphan:
		_, err = m.Ledger.WhileDeletable(ctx, func(ctx context.Context) error {
			mended, err = m.Ledger.HoldUnnamed(ctx, f.Subject, func(ctx context.Context) error { return m.Storage.Remove(ctx, f.Subject) })
			return err
		})
	case Temporary:
		mended, err = m.Storage.RemoveTemporary(f.Subject, m.TemporaryAge)
	case WrongMode, WrongOwner:
		err = m.Storage.SetRight(ctx, f.Subject)
		mended = err == nil
	case MissingFile, WrongSize, WrongHash:
		if m.ExpireLost && f.result {
			return m.Ledger.GiveUp(ctx, f.Job)
		}
	}
	if errors.Is(err, iofs.ErrPermission) {
		return false, nil
	}
	return mended, err
}
