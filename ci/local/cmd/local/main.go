// Command local starts and stops the whole system on this machine; see package
// local. `make up` and `make down` call it.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"

	"glovebox/ci/local"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := command().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "local: error: "+err.Error())
		os.Exit(1)
	}
}

func command() *cobra.Command {
	root := &cobra.Command{Use: "local", Short: "run the whole system on this machine", SilenceUsage: true, SilenceErrors: true}
	opts := local.Options{Root: "."}
	up := &cobra.Command{
		Use: "up", Short: "start everything in the background", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			opts.Progress = func(step string) { fmt.Println("  starting: " + step) }
			s, err := local.Up(cmd.Context(), opts)
			if err != nil {
				return err
			}
			printHow(s)
			return nil
		},
	}
	flags := up.Flags()
	flags.StringArrayVar(&opts.Set, "set", nil, "configuration over the defaults: 'lease.duration=3s jobs.max_attempts=2'")
	flags.IntVar(&opts.Servers, "servers", 1, "number of servers on one database")
	flags.IntVar(&opts.Workers, "workers", 2, "number of workers, each with its launcher")
	flags.StringVar(&opts.Image, "image", "", "core image, oci:PATH@sha256:DIGEST (default: the project's core)")
	flags.StringVar(&opts.Storage, "storage", "fs", "storage adapter")
	flags.IntVar(&opts.PortBase, "port-base", 0, "first of the ports (default: the documented ones)")
	down := &cobra.Command{
		Use: "down", Short: "stop everything and remove its state", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error { return local.DownAt(".", "") },
	}
	root.AddCommand(up, down)
	return root
}

func printHow(s *local.System) {
	bin, _ := filepath.Abs("out/bin")
	fmt.Printf(`
The system is running: %s
  endpoint   out/run/endpoint.json
  logs       out/run/logs
  users      %s, %s (their passwords are in the files that endpoint.json names)

Try it:
  export PATH=%s:$PATH GLOVEBOX_URL=%s GLOVEBOX_CA_FILE=%s
  glovebox login %s --password-file %s
  glovebox process samples/life.lua -o /tmp/life.obf.lua

Stop it: make down
`, s.PublicURL, s.Users[0].Login, s.Users[1].Login, bin, s.PublicURL, s.CAFile, s.Users[0].Login, s.Users[0].PasswordFile)
}
