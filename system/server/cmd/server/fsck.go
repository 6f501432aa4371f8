package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"glovebox/system/platform/secret"
	"glovebox/system/server/internal/config"
	jobstore "glovebox/system/server/internal/jobs/adapters/postgres"
	"glovebox/system/server/internal/recovery"
	"glovebox/system/server/internal/storage/fs"
)

// exitFindings is the status of verify and fsck when the look was had and
// something does not fit.
const exitFindings = 3

// findingsError carries that status.
type findingsError struct{ remaining int64 }

func (e findingsError) Error() string {
	return fmt.Sprintf("%d things do not fit; each is named above with its remedy", e.remaining)
}

// checkReport is what verify and fsck print with --json.
type checkReport struct {
	recovery.Summary
	List []recovery.Finding   `json:"list"` // at most maxListed
	Job  *recovery.JobOutcome `json:"job,omitempty"`
}

// maxListed bounds the list of a JSON report; the counts are of all.
const maxListed = 10_000

// examination is one run of verify or fsck.
type examination struct {
	cmd     *cobra.Command
	asJSON  bool
	pool    *pgxpool.Pool
	storage *fs.Store
	config  *config.Config
	report  checkReport
}

// examine opens what both commands look at, and lets them look.
func examine(cmd *cobra.Command, asJSON bool, look func(context.Context, *examination) error) error {
	c, err := loadConfig(cmd)
	if err != nil {
		return err
	}
	login, err := c.ForBackup()
	if err != nil {
		return usageError{err}
	}
	const conns = 2
	pool, err := openPool(cmd.Context(), login, conns)
	if err != nil {
		return err
	}
	defer pool.Close()
	storage, err := openStorage(c)
	if err != nil {
		return err
	}
	defer storage.Close()
	x := &examination{cmd: cmd, asJSON: asJSON, pool: pool, storage: storage, config: c, report: checkReport{List: []recovery.Finding{}}}
	if err := look(cmd.Context(), x); err != nil {
		return err
	}
	return x.end()
}

// overdueLeases is how many leases a lease may be late to be taken back.
const overdueLeases = 2

func (x *examination) options() recovery.CheckOptions {
	return recovery.CheckOptions{
		Pool: x.pool, Storage: x.storage, OrphanAge: x.config.Sweeper.OrphanAge.Std(), TemporaryAge: x.config.Sweeper.StagedAge.Std(),
		Overdue: overdueLeases * x.config.Lease.Duration.Std(), Found: x.found, Progress: progressTo(x.cmd.ErrOrStderr(), x.asJSON),
	}
}

func (x *examination) found(f recovery.Finding) {
	if x.asJSON {
		if len(x.report.List) < maxListed {
			x.report.List = append(x.report.List, f)
		}
		return
	}
	state := "FOUND "
	if f.Mended {
		state = "mended"
	}
	fmt.Fprintf(x.cmd.OutOrStdout(), "%s  %s  %s", state, f.Kind, plain(f.Subject))
	if f.Job != "" {
		fmt.Fprintf(x.cmd.OutOrStdout(), "  job %s", f.Job)
	}
	fmt.Fprintf(x.cmd.OutOrStdout(), "\n        %s\n", f.Detail)
	if !f.Mended {
		fmt.Fprintf(x.cmd.OutOrStdout(), "        remedy: %s\n", f.Remedy)
	}
}

// plain returns a name as it is, quoted where it holds what is not to be printed: a
// file's name is whoever's who made the file, and may hold whole lines of a report.
func plain(name string) string {
	if quoted := strconv.Quote(name); quoted != `"`+name+`"` {
		return quoted
	}
	return name
}

func (x *examination) end() error {
	if err := x.print(x.cmd.OutOrStdout()); err != nil {
		return err
	}
	if x.report.Remaining > 0 {
		return findingsError{x.report.Remaining}
	}
	return nil
}

func (x *examination) print(out io.Writer) error {
	if x.asJSON {
		return json.NewEncoder(out).Encode(x.report)
	}
	r := x.report
	_, err := fmt.Fprintf(out, "jobs %v; rows name %d files of %d bytes, %d read and hashed; %d entries in the storage; found %v\n",
		r.Jobs, r.Named, r.Bytes, r.Hashed, r.Stored, r.Findings)
	if err == nil && r.Job != nil {
		_, err = fmt.Fprintf(out, "job %s ran to %s in %s, result %d bytes, sha256 %s\n", r.Job.ID, r.Job.Status, r.Job.Took.Round(time.Millisecond), r.Job.Size, r.Job.SHA256)
	}
	return err
}

func newFsckCommand() *cobra.Command {
	var asJSON, mend, expireLost, quick bool
	cmd := &cobra.Command{
		Use:   "fsck",
		Short: "find every mismatch between rows and files; --mend sets the safe ones right",
		Long: `Compare every row with its file, every file with the row that names it, and rows with
one another, while the system runs, and explain what does not fit. Every file is read
and hashed; --quick looks at sizes and names alone. docs/RECOVERY.md lists the kinds.

--mend removes orphans and temporary files by the sweeper's rules and under its login
(database.sweeper_url), and sets modes and owners right. It never removes or changes
a byte that a row names. --expire-lost, with it, gives up results whose bytes are
lost: their owners are told 410 from then on in place of 500.

Status 0: everything fits, or was mended. 3: something does not. 1: the look failed.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if expireLost && (!mend || quick) {
				return usageError{errors.New("--expire-lost needs --mend, and not --quick")}
			}
			return examine(cmd, asJSON, func(ctx context.Context, x *examination) (err error) {
				o := x.options()
				o.Hash = !quick
				if mend {
					login, err := x.config.ForSweep()
					if err != nil {
						return usageError{err}
					}
					sweeper, err := openSweeper(ctx, login)
					if err != nil {
						return err
					}
					defer sweeper.Close()
					o.Mend = recovery.Mender{Ledger: jobstore.NewLedger(sweeper), Storage: x.storage, TemporaryAge: o.TemporaryAge, ExpireLost: expireLost}.Mend
				}
				x.report.Summary, err = recovery.Check(ctx, o)
				return err
			})
		},
	}
	flags := cmd.Flags()
	flags.BoolVar(&asJSON, "json", false, "print one JSON document")
	flags.BoolVar(&mend, "mend", false, "set right what is safe to set right")
	flags.BoolVar(&expireLost, "expire-lost", false, "with --mend: give up results that are lost")
	flags.BoolVar(&quick, "quick", false, "do not read the files")
	return cmd
}

// openSweeper opens the login that mends.
func openSweeper(ctx context.Context, login secret.Text) (*pgxpool.Pool, error) {
	const conns = 3 // one holds backups off, one a key
	return openPool(ctx, login, conns)
}
