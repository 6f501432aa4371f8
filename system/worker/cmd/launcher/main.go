// Command glovebox-launcher owns the container engine and runs the core, for one
// worker that reaches it by a unix socket. It has no network and takes no
// instruction but the verbs of package launcher. This package wires.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"glovebox/system/platform/config"
	"glovebox/system/platform/lifecycle"
)

func main() {
	ctx, cancel := lifecycle.SignalContext(context.Background())
	code := execute(ctx, os.Args[1:], os.Stdout, os.Stderr)
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
func execute(ctx context.Context, args []string, out, errOut io.Writer) int {
	root := newRootCommand()
	root.SetArgs(args)
	root.SetOut(out)
	root.SetErr(errOut)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitOK
	}
	fmt.Fprintf(errOut, "glovebox-launcher: error: %v\n", err)
	var usage usageError
	var problems config.Problems
	if errors.As(err, &usage) || errors.As(err, &problems) {
		return exitUsage
	}
	return exitFailed
}

func newRootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "glovebox-launcher",
		Short: "runs the untrusted core in its sandbox, for the worker of this host",
		Long: `glovebox-launcher holds the container engine. It gives the worker a slot, takes
the input through a descriptor, runs the core in a container that has nothing else,
and says how it ended by the kernel's word.

Every command reads one TOML file (--config) and the environment
(sandbox.timeout is GLOVEBOX_SANDBOX_TIMEOUT).`,
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          cobra.NoArgs,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.PersistentFlags().String("config", os.Getenv("GLOVEBOX_CONFIG"), "the TOML `file` with the settings (environment GLOVEBOX_CONFIG)")
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	root.AddCommand(newServeCommand(), newSelfTestCommand(), newStatusCommand(), newCheckCommand())
	return root
}

func settingsOf(cmd *cobra.Command) (*settings, error) {
	path, err := cmd.Flags().GetString("config")
	if err != nil {
		return nil, fmt.Errorf("read --config: %w", err)
	}
	return loadSettings(path)
}
