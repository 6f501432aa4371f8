package main

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"glovebox/system/server/internal/jobs"
	jobstore "glovebox/system/server/internal/jobs/adapters/postgres"
	"glovebox/system/server/internal/jobs/domain"
)

func newJobCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "job",
		Short: "see what happened to a job",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newJobShowCommand())
	return cmd
}

func newJobShowCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "show ID",
		Short: "show a job and every transition it went through",
		Long: `Show a job and every transition it went through, oldest first: when, why, in which
attempt, by which worker, under which fencing token. The correlation id is the one
in the servers' and workers' logs. What a worker said of the run it reports is shown
in its own words, quoted. The file's name and contents are not shown.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			pool, err := openOperatorPool(cmd)
			if err != nil {
				return err
			}
			defer pool.Close()
			record, events, err := jobstore.New(pool).History(cmd.Context(), args[0])
			if domain.CodeOf(err) == domain.CodeNotFound {
				return usageError{fmt.Errorf("there is no job %q; give its id as the user's client shows it", args[0])}
			}
			if err != nil {
				return err
			}
			if asJSON {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(summary(record, events))
			}
			return showJob(cmd.OutOrStdout(), record, events)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// jobSummary is what `job show --json` prints.
type jobSummary struct {
	ID            string                  `json:"id"`
	AssetID       string                  `json:"asset_id"`
	UserID        string                  `json:"user_id"`
	Status        string                  `json:"status"`
	Attempt       int                     `json:"attempt"`
	MaxAttempts   int                     `json:"max_attempts"`
	HandBacks     int                     `json:"hand_backs"`
	FencingToken  int64                   `json:"fencing_token"`
	WorkerID      string                  `json:"worker_id,omitempty"`
	LeaseExpires  *time.Time              `json:"lease_expires_at,omitempty"`
	NextAttempt   *time.Time              `json:"next_attempt_at,omitempty"`
	ErrorCode     string                  `json:"error_code,omitempty"`
	ErrorDetail   string                  `json:"error_detail,omitempty"`
	InputSize     int64                   `json:"input_size"`
	InputSHA256   string                  `json:"input_sha256"`
	ResultSize    *int64                  `json:"result_size,omitempty"`
	ResultSHA256  string                  `json:"result_sha256,omitempty"`
	CreatedAt     time.Time               `json:"created_at"`
	TerminalAt    *time.Time              `json:"terminal_at,omitempty"`
	PurgedAt      *time.Time              `json:"purged_at,omitempty"`
	CorrelationID string                  `json:"correlation_id,omitempty"`
	Events        []jobstore.HistoryEvent `json:"events"`
}

func summary(r jobs.Record, events []jobstore.HistoryEvent) jobSummary {
	j := r.Job
	s := jobSummary{
		ID: j.ID, AssetID: j.AssetID, UserID: j.UserID, Status: string(j.Status), Attempt: j.Attempt, MaxAttempts: j.MaxAttempts,
		HandBacks: j.HandBacks, FencingToken: j.FencingToken, WorkerID: j.WorkerID, LeaseExpires: known(j.LeaseExpires),
		ErrorCode: string(j.ErrorCode), ErrorDetail: j.ErrorDetail, InputSize: r.Input.Size, InputSHA256: hex.EncodeToString(r.Input.SHA256[:]),
		CreatedAt: j.CreatedAt, TerminalAt: known(j.TerminalAt), PurgedAt: known(j.PurgedAt), CorrelationID: j.CorrelationID, Events: notNil(events),
	}
	if j.Status == domain.Pending {
		s.NextAttempt = known(j.NextAttemptAt)
	}
	if j.Result != nil {
		s.ResultSize, s.ResultSHA256 = &j.Result.Size, hex.EncodeToString(j.Result.SHA256[:])
	}
	return s
}

func known(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

func showJob(out io.Writer, r jobs.Record, events []jobstore.HistoryEvent) error {
	s := summary(r, events)
	fmt.Fprintf(out, "job %s of user %s is %s, attempt %d of %d, token %d\n", s.ID, s.UserID, s.Status, s.Attempt, s.MaxAttempts, s.FencingToken)
	fmt.Fprintf(out, "input %d bytes, sha256 %s\n", s.InputSize, s.InputSHA256)
	if s.ResultSize != nil {
		fmt.Fprintf(out, "result %d bytes, sha256 %s\n", *s.ResultSize, s.ResultSHA256)
	}
	if s.ErrorCode != "" {
		fmt.Fprintf(out, "error %s %q\n", s.ErrorCode, s.ErrorDetail) // quoted: it is the core's text
	}
	if s.PurgedAt != nil {
		fmt.Fprintf(out, "bytes removed by retention at %s\n", s.PurgedAt.UTC().Format(time.RFC3339))
	}
	fmt.Fprintf(out, "correlation %q\n\n", s.CorrelationID)
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "AT\tFROM\tTO\tCAUSE\tATTEMPT\tTOKEN\tWORKER\tERROR\tPROVENANCE")
	for _, e := range s.Events {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%d\t%d\t%s\t%s\t%s\n", e.At.UTC().Format("2006-01-02T15:04:05.000Z"),
			orDash(e.From), e.To, e.Cause, e.Attempt, e.FencingToken, orDash(e.WorkerID), orDash(e.ErrorCode), quoted(e.Provenance))
	}
	return table.Flush()
}

// quoted shows a worker's own words, which a terminal must not obey.
func quoted(text string) string {
	if text == "" {
		return "-"
	}
	return strconv.QuoteToASCII(text)
}

func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}
