package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"text/tabwriter"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"

	"glovebox/system/platform/logging"
	"glovebox/system/worker/internal/launcher"
	"glovebox/system/worker/internal/launcher/service"
)

func newStatusCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "status",
		Short: "ask the running launcher whether it takes work; exit 0 if it does",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := settingsOf(cmd)
			if err != nil {
				return err
			}
			state, err := launcher.NewClient(s.Listen.Socket).Status(cmd.Context())
			if err != nil {
				return err
			}
			if asJSON {
				err = json.NewEncoder(cmd.OutOrStdout()).Encode(state)
			} else {
				_, err = fmt.Fprintf(cmd.OutOrStdout(), "phase   %s\nslots   %d free of %d\nimage   %s\nlimits  input %d bytes, result %d bytes, %s\n",
					state.Phase, state.SlotsFree, state.SlotsTotal, state.ImageDigest, state.MaxInputBytes, state.MaxResultBytes, state.Timeout)
			}
			if err != nil {
				return err
			}
			if state.Phase != launcher.Ready {
				return notReady(state)
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}

func notReady(state launcher.State) error {
	if len(state.Missing) > 0 {
		return fmt.Errorf("the launcher refuses work: on this host these walls do not stand: %s; glovebox-launcher selftest tells what was met", strings.Join(state.Missing, ", "))
	}
	return fmt.Errorf("the launcher takes no work: it is %s", state.Phase)
}

func newSelfTestCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "selftest",
		Short: "try every wall of the sandbox on this host; exit 0 if all stand",
		Long: `selftest runs small hostile programs in the sandbox and prints what they met.
Where a launcher is serving it is asked to do so, and takes or refuses work by the
outcome; else the probes are run from here.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := settingsOf(cmd)
			if err != nil {
				return err
			}
			walls, err := launcher.NewClient(s.Listen.Socket).SelfTest(cmd.Context())
			if err != nil {
				if launcher.CodeOf(err) != "" {
					return err
				}
				if walls, err = selfTestHere(cmd, s); err != nil {
					return err
				}
			}
			return printWalls(cmd.OutOrStdout(), walls, asJSON)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object: passed, missing, walls")
	return cmd
}

// selfTestHere runs the probes in this process, where no launcher serves.
func selfTestHere(cmd *cobra.Command, s *settings) ([]launcher.Wall, error) {
	log := logging.New(cmd.ErrOrStderr(), "launcher", slog.LevelWarn)
	if err := os.MkdirAll(s.Slots.Root, 0o711); err != nil {
		return nil, fmt.Errorf("make slots.root: %w", err)
	}
	sv, err := build(cmd.Context(), s, log, prometheus.NewRegistry())
	if err != nil {
		return nil, err
	}
	report, err := sv.SelfTestAlone(cmd.Context())
	if err != nil {
		return nil, err
	}
	return service.Walls(report), nil
}

// printWalls prints a line for each wall, or one object, and returns an error that
// names what is missing.
func printWalls(out io.Writer, walls []launcher.Wall, asJSON bool) error {
	missing := []string{}
	for _, wall := range walls {
		if !wall.Stands {
			missing = append(missing, wall.Name)
		}
	}
	var verdict error
	switch {
	case len(walls) == 0:
		verdict = errors.New("self-test: no wall was tried")
	case len(missing) > 0:
		verdict = fmt.Errorf("self-test: %d of %d walls do not stand on this host: %s", len(missing), len(walls), strings.Join(missing, ", "))
	}
	if asJSON {
		return errors.Join(json.NewEncoder(out).Encode(struct {
			Passed  bool            `json:"passed"`
			Missing []string        `json:"missing"`
			Walls   []launcher.Wall `json:"walls"`
		}{verdict == nil, missing, walls}), verdict)
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, wall := range walls {
		stands := "stands"
		if !wall.Stands {
			stands = "MISSING"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\n", stands, wall.Name, wall.Detail)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if verdict == nil {
		fmt.Fprintf(out, "all %d walls stand\n", len(walls))
	}
	return verdict
}

func newCheckCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "check",
		Short: "check the settings, the images and the engine, and start nothing",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := settingsOf(cmd)
			if err != nil {
				return err
			}
			log := logging.New(cmd.ErrOrStderr(), "launcher", slog.LevelWarn)
			if err := os.MkdirAll(s.Slots.Root, 0o711); err != nil {
				return fmt.Errorf("make slots.root: %w", err)
			}
			if _, err := build(cmd.Context(), s, log, prometheus.NewRegistry()); err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "settings, images and engine are in order; %s\n", "glovebox-launcher selftest tries the walls")
			return err
		},
	}
}
