package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"glovebox/system/platform/pki"
)

// newPKICommand returns `pki`: everything that makes or shows certificates. It
// needs no configuration, no database and no running server.
func newPKICommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "pki",
		Short: "make, renew, rotate and show keys and certificates",
		Long: `Make, renew, rotate and show the keys and certificates of an installation.

A folder (--dir) holds two authorities. The public one vouches for the server
towards users on machines without a certificate of their own; the internal one
vouches for the server, the workers and the ingest towards each other (mTLS).
Only NAME-bundle.crt files and leaves leave this folder; keep it where no
service can read it.

A first installation:

  glovebox-server pki init  --dir pki
  glovebox-server pki issue --dir pki server main --dns box.example --out server
  glovebox-server pki issue --dir pki worker w-1  --out worker

Every month (a timer is in the packages):

  glovebox-server pki renew --dir pki --within 240h server/*.crt worker/*.crt

A new internal authority, without downtime:

  1. glovebox-server pki init --dir pki --rotate
  2. copy pki/internal-ca-bundle.crt to the server, every worker and the ingest
  3. glovebox-server pki renew --dir pki FILE...       (all of them)
  4. glovebox-server pki init --dir pki --finish-rotation
  5. copy the bundle again: what the old authority signed is refused from now on

Running processes take up changed files by themselves within a second.`,
	}
	cmd.AddCommand(newPKIInitCommand(), newPKIIssueCommand(), newPKIRenewCommand(), newPKIShowCommand())
	return cmd
}

func newPKIInitCommand() *cobra.Command {
	var (
		dir                    string
		rotate, finish, asJSON bool
		authority              string
	)
	cmd := &cobra.Command{
		Use:   "init --dir DIR",
		Short: "make the two authorities, or rotate one",
		Long: `Make the public and the internal authority in DIR. What is there is kept, so
the command can be run again.

--rotate adds a new generation of the internal authority (or of the one named by
--authority) and writes a bundle with both. --finish-rotation takes the old one
out of the bundle and deletes its key: do it when every certificate is renewed.`,
		Example: "  glovebox-server pki init --dir pki\n  glovebox-server pki init --dir pki --rotate",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			store := pki.Store{Dir: dir}
			which, err := parseAuthority(authority)
			if err != nil {
				return err
			}
			var files []string
			switch {
			case rotate:
				files, err = store.Rotate(which)
			case finish:
				files, err = store.FinishRotation(which)
			default:
				files, err = store.Init()
			}
			if err != nil {
				return err
			}
			if files == nil {
				files = []string{}
			}
			out := cmd.OutOrStdout()
			if asJSON {
				return printJSON(out, map[string]any{"changed": files})
			}
			for _, file := range files {
				fmt.Fprintln(out, file)
			}
			if len(files) == 0 {
				fmt.Fprintln(out, "nothing to do: everything is there already")
			}
			return nil
		},
	}
	dirFlag(cmd, &dir)
	cmd.Flags().BoolVar(&rotate, "rotate", false, "add a new generation beside the old one")
	cmd.Flags().BoolVar(&finish, "finish-rotation", false, "drop the old generation")
	cmd.Flags().StringVar(&authority, "authority", "internal", "the authority to rotate: internal or public")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.MarkFlagsMutuallyExclusive("rotate", "finish-rotation")
	return cmd
}

func newPKIIssueCommand() *cobra.Command {
	var (
		dir, out, listener string
		dns, ips           []string
		life               time.Duration
		asJSON             bool
	)
	cmd := &cobra.Command{
		Use:   "issue --dir DIR server|worker|ingest NAME",
		Short: "sign a certificate for a server, a worker or the ingest",
		Long: `Make a key and a certificate and write them as NAME.crt and NAME.key, the key
readable by its owner alone. Nothing is overwritten.

server  two pairs, server-NAME-public and server-NAME-internal, one for each
        listener, for localhost, 127.0.0.1, ::1 and what --dns and --ip add
worker  worker-NAME; NAME is the id to allow with: glovebox-server worker add NAME
ingest  ingest-NAME; opens only the ingest routes`,
		Example: "  glovebox-server pki issue --dir pki server main --dns box.example --ip 10.0.0.7 --out server\n" +
			"  glovebox-server pki issue --dir pki worker w-1 --out worker",
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			req := pki.Request{Kind: pki.Kind(args[0]), ID: args[1], DNS: dns, Life: life}
			for _, text := range ips {
				ip := net.ParseIP(text)
				if ip == nil {
					return fmt.Errorf("--ip %q is not an address; wanted one such as 10.0.0.7", text)
				}
				req.IPs = append(req.IPs, ip)
			}
			signers := []pki.Authority{pki.Internal}
			if req.Kind == pki.Server {
				switch listener {
				case "both":
					signers = []pki.Authority{pki.Public, pki.Internal}
				case "public":
					signers = []pki.Authority{pki.Public}
				case "internal":
				default:
					return fmt.Errorf("--listener %q is unknown; wanted public, internal or both", listener)
				}
			}
			var all []pki.Issued
			for _, req.Signer = range signers {
				issued, err := pki.Store{Dir: dir}.Issue(req, out)
				if err != nil {
					return err
				}
				all = append(all, issued)
			}
			return printIssued(cmd.OutOrStdout(), asJSON, all)
		},
	}
	dirFlag(cmd, &dir)
	cmd.Flags().StringVar(&out, "out", "", "folder to write to (default: DIR)")
	cmd.Flags().StringVar(&listener, "listener", "both", "for a server: public, internal or both")
	cmd.Flags().StringSliceVar(&dns, "dns", nil, "further host name of a server; may be repeated")
	cmd.Flags().StringSliceVar(&ips, "ip", nil, "further address of a server; may be repeated")
	cmd.Flags().DurationVar(&life, "life", pki.DefaultLife, "how long it is valid")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func newPKIRenewCommand() *cobra.Command {
	var (
		dir    string
		within time.Duration
		asJSON bool
	)
	cmd := &cobra.Command{
		Use:   "renew --dir DIR FILE.crt...",
		Short: "replace certificates by new ones of the same identity",
		Long: `Replace each FILE.crt and FILE.key by a pair for the same names, with a new key
and a new life of the same length. Owner and mode of the files are kept, and
running processes take the new pair up by themselves. A certificate without its
own key beside it is refused: its folder belongs to a service, which may have been
taken over and have put another's certificate there.

--within 240h renews only what has less than that left, so that a timer can call
the command every day.`,
		Example: "  glovebox-server pki renew --dir pki --within 240h server/*.crt worker/*.crt",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			store := pki.Store{Dir: dir}
			all := []pki.Issued{}
			var errs []error // one bad file must not leave the others to expire
			for _, file := range args {
				if within > 0 {
					due, err := store.Due(file, within)
					if err != nil {
						errs = append(errs, err)
						continue
					}
					if !due {
						continue
					}
				}
				issued, err := store.Renew(file)
				if err != nil {
					errs = append(errs, err)
					continue
				}
				all = append(all, issued)
			}
			return errors.Join(append(errs, printIssued(cmd.OutOrStdout(), asJSON, all))...)
		},
	}
	dirFlag(cmd, &dir)
	cmd.Flags().DurationVar(&within, "within", 0, "renew only what ends within this time (default: all)")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func newPKIShowCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "show FILE|DIR...",
		Short: "show what certificates say and when they end",
		Long: `Show the names, uses and end of every certificate in the files and folders
given. What has ended, or has less than seven days left, is warned of.`,
		Example: "  glovebox-server pki show pki server worker",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			var all []pki.Info
			for _, path := range args {
				infos, err := pki.Store{}.Show(path)
				if err != nil {
					return err
				}
				all = append(all, infos...)
			}
			if asJSON {
				return printJSON(cmd.OutOrStdout(), all)
			}
			w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
			fmt.Fprintln(w, "FILE\tSUBJECT\tUSES\tNAMES\tENDS")
			for _, info := range all {
				uses := fmt.Sprint(info.Usages)
				if info.Authority {
					uses = "authority"
				}
				fmt.Fprintf(w, "%s\t%s\t%s\t%v\t%s\n", info.File, info.Subject, uses, info.SANs, info.NotAfter.Format(time.RFC3339))
			}
			if err := w.Flush(); err != nil {
				return err
			}
			for _, info := range all {
				if info.Warning != "" {
					fmt.Fprintf(cmd.ErrOrStderr(), "warning: %s: %s\n", info.File, info.Warning)
				}
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func dirFlag(cmd *cobra.Command, dir *string) {
	cmd.Flags().StringVar(dir, "dir", "", "folder of the authorities")
	if err := cmd.MarkFlagRequired("dir"); err != nil {
		panic(err) // the flag was defined one line above
	}
}

func parseAuthority(name string) (pki.Authority, error) {
	switch name {
	case "internal":
		return pki.Internal, nil
	case "public":
		return pki.Public, nil
	}
	return "", fmt.Errorf("--authority %q is unknown; wanted internal or public", name)
}

func printIssued(w io.Writer, asJSON bool, all []pki.Issued) error {
	if asJSON {
		return printJSON(w, all)
	}
	for _, issued := range all {
		if _, err := fmt.Fprintf(w, "%s\n%s\n  %v until %s\n", issued.Cert, issued.Key, issued.SANs, issued.NotAfter.Format(time.RFC3339)); err != nil {
			return err
		}
	}
	return nil
}

func printJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}
