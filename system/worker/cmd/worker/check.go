package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"runtime/debug"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"glovebox/system/platform/logging"
	"glovebox/system/platform/pki"
	"glovebox/system/platform/tlsconf"
	"glovebox/system/worker/internal/config"
	"glovebox/system/worker/internal/executor"
)

// finding is one line of check.
type finding struct {
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail"`
}

func newCheckCommand(environ []string) *cobra.Command {
	var (
		file   string
		asJSON bool
	)
	cmd := &cobra.Command{
		Use:   "check",
		Short: "look whether this worker could work, without claiming a job",
		Long: `Validate the configuration, the certificate and its identity, meet the server's
internal listener with it, and ask the launcher whether its walls stand. Nothing
is claimed. The exit status is 0 only when everything is well.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := config.Load(file, environ)
			if err != nil {
				return err
			}
			findings := check(cmd.Context(), c)
			if err := printFindings(cmd.OutOrStdout(), asJSON, findings); err != nil {
				return err
			}
			for _, f := range findings {
				if !f.OK {
					return errors.New("not everything is in place")
				}
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&file, "config", "", "the TOML `file` with the settings")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func check(ctx context.Context, c *config.Config) []finding {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	findings := []finding{{Name: "configuration", OK: true, Detail: "valid"}}
	note := func(name, good string, err error) {
		f := finding{Name: name, OK: err == nil, Detail: good}
		if err != nil {
			f.Detail = err.Error()
		}
		findings = append(findings, f)
	}
	source, err := openTLS(c, logging.New(io.Discard, "worker", slog.LevelError))
	note("certificate files", "loaded", err)
	if err == nil {
		id, err := workerID(source)
		note("identity", "worker "+id, err)
		if left := time.Until(source.NotAfter()); err == nil && left < pki.WarnBefore {
			note("certificate life", "", fmt.Errorf("ends in %s; renew it with glovebox-server pki renew", left.Round(time.Minute)))
		}
		note("server", "takes this worker", meet(ctx, source, c.Server.URL, id))
	}
	note("launcher", "ready", executor.NewSandboxes(c.Launcher.Socket, c.Worker.Slots).Ready(ctx))
	return findings
}

// meet makes a connection and a request that changes nothing, and sees that the
// server lets this worker in.
func meet(ctx context.Context, source *tlsconf.Source, address, id string) error {
	u, err := url.Parse(address)
	if err != nil {
		return err
	}
	status, err := source.Probe(ctx, u.Host)
	switch {
	case err != nil:
		return err
	case status == http.StatusForbidden:
		return fmt.Errorf("the server does not know this worker; run glovebox-server worker add %s", id)
	case status >= http.StatusInternalServerError:
		return fmt.Errorf("the server answered %d; look at its log and its /ready", status)
	}
	return nil
}

func printFindings(w io.Writer, asJSON bool, findings []finding) error {
	if asJSON {
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		return enc.Encode(findings)
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, f := range findings {
		word := "ok"
		if !f.OK {
			word = "FAULT"
		}
		fmt.Fprintf(table, "%s\t%s\t%s\n", word, f.Name, f.Detail)
	}
	return table.Flush()
}

func newVersionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "print the version",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(cmd.OutOrStdout(), "glovebox-worker "+version())
			return err
		},
	}
}

// version is the module's version, "(devel)" for a build from a working tree.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "unknown"
}
