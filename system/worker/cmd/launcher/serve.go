package main

import (
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"glovebox/system/platform/lifecycle"
	"glovebox/system/platform/logging"
	"glovebox/system/platform/metrics"
)

// stopGrace is what a stop may take: killing and removing every attempt.
const stopGrace = 60 * time.Second

func newServeCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "serve",
		Short: "remove leftovers, try the walls, then serve the worker until told to stop",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return serve(cmd) },
	}
}

func serve(cmd *cobra.Command) error {
	s, err := settingsOf(cmd)
	if err != nil {
		return err
	}
	level, err := logging.ParseLevel(s.Log.Level)
	if err != nil {
		return usageError{err}
	}
	log := logging.New(cmd.ErrOrStderr(), "launcher", level)
	unix.Umask(0o077)
	registry := metrics.NewRegistry()
	if err := os.MkdirAll(s.Slots.Root, 0o711); err != nil {
		return fmt.Errorf("make slots.root: %w", err)
	}
	service, err := build(cmd.Context(), s, log, registry)
	if err != nil {
		return err
	}
	parts := []lifecycle.Part{{Name: "launcher", Run: service.Run}}
	if s.Metrics.Listen != "" {
		figures, err := metrics.Listen(s.Metrics.Listen, registry)
		if err != nil {
			return err
		}
		parts = append(parts, lifecycle.Part{Name: "metrics", Run: figures.Run})
	}
	return lifecycle.Run(cmd.Context(), log, stopGrace, parts...)
}
