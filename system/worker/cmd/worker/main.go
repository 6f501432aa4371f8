// Command glovebox-worker pulls jobs from the server over mTLS, has them carried
// out by the launcher of its host, and sends the results back. It faces the
// network, so it holds nothing else: no database, no storage, no engine, no path
// of a sandbox. This package wires; it decides nothing.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"glovebox/system/platform/lifecycle"
)

func main() {
	ctx, cancel := lifecycle.SignalContext(context.Background())
	code := execute(ctx, os.Args[1:], os.Environ(), os.Stdout, os.Stderr)
	cancel()
	os.Exit(code)
}

// Exit statuses of every subcommand.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
)

// usageError marks what the person at the keyboard can correct.
type usageError struct{ error }

// execute runs one command line; tests call it as the binary does.
func execute(ctx context.Context, args, environ []string, out, errOut io.Writer) int {
	root := newRootCommand(environ)
	root.SetArgs(args)
	root.SetOut(out)
	root.SetErr(errOut)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitOK
	}
	fmt.Fprintf(errOut, "glovebox-worker: error: %v\n", err)
	var usage usageError
	if errors.As(err, &usage) {
		return exitUsage
	}
	return exitFailed
}

func newRootCommand(environ []string) *cobra.Command {
	root := &cobra.Command{
		Use:   "glovebox-worker",
		Short: "takes jobs from the server and has them carried out in a sandbox",
		Long: `glovebox-worker asks the server for jobs, brings each input into a fresh sandbox
of the launcher, and sends the result back. Any number of workers work side by
side.

A first start:

  glovebox-server pki issue --dir pki worker w-1 --out worker   its identity
  glovebox-server worker add w-1                                let it in
  glovebox-launcher serve --config launcher.toml                beside it
  glovebox-worker check --config worker.toml                    everything in place?
  glovebox-worker serve --config worker.toml

Settings come from one TOML file (--config) and the environment (worker.slots is
GLOVEBOX_WORKER_SLOTS). On SIGTERM it claims no more, lets running jobs finish
within worker.grace, and hands the rest back. Renewed certificates are taken up
without a restart.`,
		SilenceUsage:  true,
		SilenceErrors: true,
		Args: func(cmd *cobra.Command, args []string) error {
			if err := cobra.NoArgs(cmd, args); err != nil {
				return usageError{err}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	root.AddCommand(newServeCommand(environ), newCheckCommand(environ), newVersionCommand())
	return root
}

func newServeCommand(environ []string) *cobra.Command {
	m := &Main{Environ: environ}
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "work until stopped",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			m.ErrOut = cmd.ErrOrStderr()
			if err := m.Open(); err != nil {
				return err
			}
			defer m.Close()
			return m.Run(cmd.Context())
		},
	}
	m.flags(cmd.Flags())
	return cmd
}
