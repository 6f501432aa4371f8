package fault

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"glovebox/chaos/history"
	"glovebox/chaos/rig"
	"glovebox/chaos/traffic"
)

func diskKinds() []Kind {
	return []Kind{
		{
			Name: "disk-full", Title: "the storage's disk is full", Requirements: []string{"UPL-04", "STO-02"},
			Make: func(random *rand.Rand, _ *rig.Rig) Fault {
				// Below the floor, or a little above it, so that it is met while writing.
				room := int64(rig.MinFree) / 2
				if random.IntN(2) == 0 {
					room = rig.MinFree + int64(random.IntN(200_000))
				}
				return &diskFull{room: room, hold: between(random, 2*time.Second, 6*time.Second)}
			},
		},
		{
			Name: "disk-read-only", Title: "the storage's disk becomes read-only", Requirements: []string{"UPL-04", "STO-02"},
			Make: func(random *rand.Rand, _ *rig.Rig) Fault {
				return &readOnly{hold: between(random, 2*time.Second, 6*time.Second)}
			},
		},
	}
}

var errNoStorage = errors.New("the storage has no file system of its own")

func ownStorage(r *rig.Rig) error {
	if r.Options.Storage == 0 {
		return errNoStorage
	}
	return nil
}

type diskFull struct {
	room int64
	hold time.Duration
}

func (d *diskFull) String() string                         { return "fill the storage" }
func (d *diskFull) Available(r *rig.Rig) error             { return ownStorage(r) }
func (d *diskFull) Hold() time.Duration                    { return d.hold }
func (d *diskFull) Heal(_ context.Context, s *Scene) error { return s.EmptyStorage() }

// Inject fills the disk and sends a file that cannot have room: it must be refused,
// clearly, and leave nothing (UPL-04).
func (d *diskFull) Inject(ctx context.Context, s *Scene) error {
	if err := s.FillStorage(d.room); err != nil {
		return err
	}
	const size = rig.MinFree + 1<<20
	file := traffic.SizedFile(s.Random, "too-large", size)
	e := s.Bystander.Submit(ctx, s.Random.IntN(len(s.Public)), file, "too-large-"+file.Sent[:16])
	if e.Outcome != history.Refused || e.Refusal != "insufficient_storage" {
		s.Report("full-disk-is-told", e.Job, fmt.Sprintf("%d bytes were sent where fewer were free, and got: %s", size, e))
	}
	return nil
}

type readOnly struct{ hold time.Duration }

func (d *readOnly) String() string             { return "make the storage read-only" }
func (d *readOnly) Available(r *rig.Rig) error { return ownStorage(r) }
func (d *readOnly) Hold() time.Duration        { return d.hold }

func (d *readOnly) Inject(ctx context.Context, s *Scene) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	if err := s.RemountStorage(ctx, true); err != nil {
		return err
	}
	file := traffic.SizedFile(s.Random, "unwritable", 1000)
	if e := s.Bystander.Submit(ctx, s.Random.IntN(len(s.Public)), file, "unwritable-"+file.Sent[:16]); e.Outcome == history.OK {
		s.Report("read-only-disk-is-told", e.Job, "a file was acknowledged that cannot have been stored: "+e.String())
	}
	return nil
}

func (d *readOnly) Heal(ctx context.Context, s *Scene) error { return s.RemountStorage(ctx, false) }
