package main

import (
	"encoding/json"
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"glovebox/system/server/internal/workers"
	workerstore "glovebox/system/server/internal/workers/adapters/postgres"
)

func newWorkerCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "worker",
		Short: "say which workers may work",
		Long: `Say which workers may work. A worker needs both: a certificate of the internal CA
(glovebox-server pki issue), whose name is its id, and its id on this list. Taking
an id off the list acts on the worker's next request, on connections that are
already open too.`,
		Example: "  glovebox-server worker add w-1\n  glovebox-server worker list\n  glovebox-server worker remove w-1",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(
		&cobra.Command{
			Use: "add ID", Short: "admit a worker, also one that was removed before", Args: cobra.ExactArgs(1),
			RunE: withRegistry(func(cmd *cobra.Command, list *workerstore.Registry, args []string) error {
				return list.Add(cmd.Context(), args[0])
			}),
		},
		&cobra.Command{
			Use: "remove ID", Short: "refuse a worker from its next request on", Args: cobra.ExactArgs(1),
			Long: `Refuse a worker from its next request on. The job it holds goes back to the queue
when its lease runs out; what it sends until then is refused.`,
			RunE: withRegistry(func(cmd *cobra.Command, list *workerstore.Registry, args []string) error {
				return list.Remove(cmd.Context(), args[0])
			}),
		},
		newWorkerListCommand(),
	)
	return cmd
}

// withRegistry runs a command with the list under the operator's login.
func withRegistry(run func(*cobra.Command, *workerstore.Registry, []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		pool, err := openOperatorPool(cmd)
		if err != nil {
			return err
		}
		defer pool.Close()
		return run(cmd, workerstore.New(pool), args)
	}
}

func newWorkerListCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{Use: "list", Short: "show every worker that was ever admitted", Args: cobra.NoArgs}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.RunE = withRegistry(func(cmd *cobra.Command, list *workerstore.Registry, _ []string) error {
		all, err := list.List(cmd.Context())
		if err != nil {
			return err
		}
		if asJSON {
			return json.NewEncoder(cmd.OutOrStdout()).Encode(notNil(all))
		}
		table := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
		fmt.Fprintln(table, "ID\tALLOWED\tLAST SEEN\tSLOTS FREE")
		for _, w := range all {
			fmt.Fprintf(table, "%s\t%v\t%s\t%s\n", w.ID, w.Allowed, lastSeen(w), slots(w))
		}
		return table.Flush()
	})
	return cmd
}

func lastSeen(w workers.Worker) string {
	if w.LastSeenAt == nil {
		return "never"
	}
	return w.LastSeenAt.UTC().Format(time.RFC3339)
}

func slots(w workers.Worker) string {
	if w.SlotsTotal == nil {
		return "-"
	}
	return fmt.Sprintf("%d of %d", *w.SlotsFree, *w.SlotsTotal)
}
