package fault

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"glovebox/chaos/rig"
)

func databaseKinds() []Kind {
	return []Kind{
		{
			Name: "kill-postgres", Title: "kill -9 of PostgreSQL", Requirements: []string{"JOB-05", "STO-02", "HAR-06"},
			Make: func(random *rand.Rand, _ *rig.Rig) Fault {
				return &kill{names: []string{"postgres"}, hold: between(random, 0, 2*time.Second)}
			},
		},
		{
			Name: "stop-postgres", Title: "PostgreSQL stopped for longer than a lease", Requirements: []string{"JOB-06", "JOB-08"},
			Make: func(random *rand.Rand, _ *rig.Rig) Fault {
				return &freeze{name: "postgres", hold: rig.Lease + between(random, 0, 2*time.Second)}
			},
		},
		{
			Name: "restart-postgres", Title: "PostgreSQL restarted in good order", Requirements: []string{"JOB-05", "HAR-06"},
			Make: func(random *rand.Rand, _ *rig.Rig) Fault {
				return &restartDatabase{hold: between(random, 0, 3*time.Second)}
			},
		},
		{
			Name: "end-sessions", Title: "every database session ended", Requirements: []string{"JOB-05", "HAR-06"},
			Make: func(*rand.Rand, *rig.Rig) Fault { return &endSessions{} },
		},
		{
			GoesOn: true, Name: "old-snapshot", Title: "an old snapshot held open in PostgreSQL", Requirements: []string{"JOB-02"},
			Make: func(random *rand.Rand, _ *rig.Rig) Fault {
				return &oldSnapshot{hold: between(random, 6*time.Second, 12*time.Second)}
			},
		},
	}
}

// restartDatabase ends the database fast: sessions are ended, nothing is lost.
type restartDatabase struct {
	always
	again
	hold time.Duration
}

func (r *restartDatabase) String() string {
	return "restart postgres after " + r.hold.Round(100*time.Millisecond).String()
}
func (r *restartDatabase) Hold() time.Duration { return r.hold }

func (r *restartDatabase) Inject(ctx context.Context, s *Scene) error {
	// SIGINT is PostgreSQL's fast shutdown.
	if err := s.Signal("postgres", syscall.SIGINT); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	return s.Await(ctx, "postgres")
}

func (r *restartDatabase) Heal(ctx context.Context, s *Scene) error {
	if _, alive := s.Process("postgres"); alive {
		return nil
	}
	return s.Restart(ctx, "postgres")
}

// endSessions ends every connection of ours, in whatever transaction it is.
type endSessions struct{ always }

func (*endSessions) String() string      { return "end every session of the servers and the sweeper" }
func (*endSessions) Hold() time.Duration { return 0 }

func (*endSessions) Inject(ctx context.Context, s *Scene) error {
	return asAdministrator(ctx, s, func(conn *pgx.Conn) error {
		var ended int
		err := conn.QueryRow(ctx, "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE usename IN ('glovebox_server', 'glovebox_sweeper')").Scan(&ended)
		if err == nil && ended == 0 {
			err = errors.New("there was no session to end")
		}
		return err
	})
}

func (*endSessions) Heal(context.Context, *Scene) error { return nil }

func asAdministrator(ctx context.Context, s *Scene, do func(*pgx.Conn) error) error {
	conn, err := pgx.Connect(ctx, s.Database().Reveal())
	if err != nil {
		return fmt.Errorf("reach the database as its administrator: %w", err)
	}
	defer conn.Close(ctx)
	return do(conn)
}

// oldSnapshot holds a transaction open, so that no dead row can be cleared away
// while the queue goes on (Q40).
type oldSnapshot struct {
	always
	hold time.Duration
	conn *pgx.Conn
}

func (o *oldSnapshot) String() string {
	return "hold a snapshot open for " + o.hold.Round(100*time.Millisecond).String()
}
func (o *oldSnapshot) Hold() time.Duration { return o.hold }

func (o *oldSnapshot) Inject(ctx context.Context, s *Scene) error {
	conn, err := pgx.Connect(ctx, s.Database().Reveal())
	if err != nil {
		return fmt.Errorf("reach the database as its administrator: %w", err)
	}
	o.conn = conn
	var jobs int
	if _, err := conn.Exec(ctx, "BEGIN ISOLATION LEVEL REPEATABLE READ"); err != nil {
		return err
	}
	return conn.QueryRow(ctx, "SELECT count(*) FROM app.jobs").Scan(&jobs) // takes the snapshot
}

func (o *oldSnapshot) Heal(ctx context.Context, _ *Scene) error {
	if o.conn == nil {
		return nil
	}
	_, err := o.conn.Exec(ctx, "COMMIT")
	return errors.Join(err, o.conn.Close(ctx))
}
