// Command glovebox-attack attacks a running Glovebox from outside and says what
// held.
//
//	glovebox-attack list                         the cases
//	glovebox-attack run                          all of them, against a system it starts
//	glovebox-attack run tenancy 'upload/*'       some
//	glovebox-attack run --target https://…       the safe ones, against a deployed system
//
// It ends with 0 if every case held, 1 if one was breached, 2 for wrong usage, 3
// if a case could not be tried, 130 if it was interrupted.
package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"glovebox/attacks"
	"glovebox/attacks/harness"
	"glovebox/threat-model/evidence"
)

const (
	exitBreached    = 1
	exitUsage       = 2
	exitTrouble     = 3
	exitInterrupted = 130
)

// ended carries an exit code of a run that has said all there is to say.
type ended int

func (e ended) Error() string { return fmt.Sprintf("ended with %d", int(e)) }

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// A reader that goes away must not end us before the system is stopped.
	signal.Ignore(syscall.SIGPIPE)
	err := newCommand().ExecuteContext(ctx)
	var code ended
	switch {
	case err == nil:
		return
	case errors.As(err, &code):
		os.Exit(int(code))
	case ctx.Err() != nil:
		fmt.Fprintln(os.Stderr, "glovebox-attack: interrupted")
		os.Exit(exitInterrupted)
	}
	fmt.Fprintln(os.Stderr, "glovebox-attack:", err)
	var usage usageError
	if errors.As(err, &usage) {
		os.Exit(exitUsage)
	}
	os.Exit(exitTrouble)
}

// usageError is a fault of the command line.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

func newCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "glovebox-attack", Short: "attack a running Glovebox from outside",
		SilenceErrors: true, SilenceUsage: true,
	}
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	cmd.AddCommand(newListCommand(), newRunCommand())
	return cmd
}

// completeCases offers families and cases to the shell.
func completeCases(_ *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
	var names []string
	for _, f := range attacks.Families {
		if strings.HasPrefix(f.Name, begun) {
			names = append(names, f.Name+"\t"+f.About)
		}
		for _, c := range f.Cases {
			if strings.HasPrefix(c.ID, begun) && begun != "" {
				names = append(names, c.ID+"\t"+c.Title)
			}
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

func newListCommand() *cobra.Command {
	var safe bool
	cmd := &cobra.Command{
		Use: "list [FAMILY|CASE|GLOB ...]", Short: "list the cases", ValidArgsFunction: completeCases,
		RunE: func(cmd *cobra.Command, args []string) error {
			chosen, err := harness.Select(attacks.Families, args, safe, false)
			if err != nil {
				return usageError{err}
			}
			table := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
			for _, c := range chosen {
				mark := ""
				if c.Safe {
					mark = "safe"
				}
				fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", c.ID, mark, strings.Join(c.Requirements, ","), c.Title)
			}
			return table.Flush()
		},
	}
	cmd.Flags().BoolVar(&safe, "safe", false, "only cases that may run against a deployed system")
	return cmd
}

func newRunCommand() *cobra.Command {
	var (
		o      harness.Options
		target harness.Target
		out    string
	)
	cmd := &cobra.Command{
		Use: "run [FAMILY|CASE|GLOB ...]", Short: "run cases", ValidArgsFunction: completeCases,
		Long: `Run cases: all, or those that are named by family, id or glob.

Without --endpoint and --target it starts the systems it needs on this machine, as
root, and stops them. With --target only safe cases run, as the users that are
given: they touch nothing they did not make, their tokens are revoked at the end,
and the few small jobs they submit go with the target's retention.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.Families, o.Cases, o.Out = attacks.Families, args, cmd.OutOrStdout()
			o.Color = term.IsTerminal(int(os.Stdout.Fd())) && os.Getenv("NO_COLOR") == ""
			if target.URL != "" {
				o.Target = &target
			}
			if _, err := harness.Select(o.Families, args, o.Target != nil, o.Short); err != nil {
				return usageError{err}
			}
			doc, err := harness.Run(cmd.Context(), o)
			if err != nil {
				return err
			}
			if out == "" && len(args) == 0 && o.Target == nil {
				out = filepath.Join(o.Root, "out/evidence/attacks.json")
			}
			if out != "" {
				if err := doc.Write(out); err != nil {
					return err
				}
			}
			return verdict(doc, o.Target != nil)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.Root, "root", ".", "the project's `folder`, where out/ lies")
	f.Uint64Var(&o.Seed, "seed", rand.Uint64()>>1, "`number` from which every random choice follows")
	f.BoolVar(&o.Short, "short", false, "the CI size: leave slow cases out")
	f.StringVar(&o.Endpoint, "endpoint", "", "attack the running local system of this endpoint.json `file`")
	f.BoolVar(&o.JSON, "json", false, "print one JSON line a case")
	f.IntVar(&o.Lanes, "lanes", 0, "`cases` at once (default 6)")
	f.IntVar(&o.PortBase, "port-base", harness.PortBase, "first `port` of the systems it starts; runs side by side need different ones")
	f.StringVar(&out, "evidence", "", "write the evidence to `file` (default out/evidence/attacks.json for a whole run)")
	f.StringVar(&target.URL, "target", "", "attack the deployed system at `https://host:port`, safe cases only")
	f.StringVar(&target.CAFile, "ca", "", "certificate `file` of the target's authority (default: the host's own)")
	f.StringVar(&target.Login, "user", "", "`login` of a user of the target")
	f.StringVar(&target.PasswordFile, "password-file", "", "`file` with that user's password")
	f.StringVar(&target.SecondLogin, "second-user", "", "`login` of another user, for the cases between users")
	f.StringVar(&target.SecondPasswordFile, "second-password-file", "", "`file` with that user's password")
	cmd.MarkFlagsMutuallyExclusive("endpoint", "target")
	return cmd
}

// verdict turns the evidence into the program's end. On a target, what it lacks is
// told and no failure.
func verdict(doc evidence.Document, onTarget bool) error {
	n := map[evidence.Verdict]int{}
	for _, c := range doc.Cases {
		n[c.Verdict]++
	}
	switch {
	case n[evidence.Breached] > 0:
		return ended(exitBreached)
	case n[evidence.Errored] > 0, n[evidence.Unavailable] > 0 && !onTarget:
		return ended(exitTrouble)
	}
	return nil
}
