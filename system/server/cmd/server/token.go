package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"glovebox/system/platform/clock"
	"glovebox/system/server/internal/users"
)

func newTokenCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "token",
		Short: "list and revoke tokens",
		Long: `List and revoke tokens. A token itself is shown to nobody after it was given out;
here it goes by an id, which is no credential. Revoking acts at once, on every
server.

  glovebox-server token list --user alice
  glovebox-server token revoke ID
  glovebox-server token revoke --user alice      all of them

Changing auth.token_secret ends every token of everybody.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newTokenListCommand(), newTokenRevokeCommand())
	return cmd
}

func newTokenListCommand() *cobra.Command {
	var (
		login  string
		asJSON bool
	)
	cmd := &cobra.Command{
		Use:   "list",
		Short: "list tokens, newest first",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			service, closing, err := openUsers(cmd)
			if err != nil {
				return err
			}
			defer closing()
			list, err := service.Tokens(cmd.Context(), login)
			if err != nil {
				return err
			}
			if asJSON {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(notNil(list))
			}
			table := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
			fmt.Fprintln(table, "ID\tLOGIN\tSTATE\tCREATED\tEXPIRES")
			for _, t := range list {
				fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\n", t.ID, t.Login, tokenState(t),
					t.CreatedAt.UTC().Format(time.RFC3339), t.ExpiresAt.UTC().Format(time.RFC3339))
			}
			return table.Flush()
		},
	}
	cmd.Flags().StringVar(&login, "user", "", "only tokens of this `login`")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func tokenState(t users.Token) string {
	switch {
	case t.RevokedAt != nil:
		return "revoked"
	case !t.ExpiresAt.After(clock.Now()):
		return "expired"
	default:
		return "active"
	}
}

func newTokenRevokeCommand() *cobra.Command {
	var login string
	cmd := &cobra.Command{
		Use:   "revoke [ID]",
		Short: "end one token, or with --user all of a user's",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if (len(args) == 1) == (login != "") {
				return usageError{errors.New("give the id of a token, or --user with a login")}
			}
			service, closing, err := openUsers(cmd)
			if err != nil {
				return err
			}
			defer closing()
			if len(args) == 1 {
				if err := service.RevokeToken(cmd.Context(), args[0]); err != nil {
					return fmt.Errorf("revoke token %q: %w", args[0], err)
				}
				fmt.Fprintf(cmd.ErrOrStderr(), "revoked token %s\n", args[0])
				return nil
			}
			n, err := service.RevokeTokens(cmd.Context(), login)
			if err != nil {
				return fmt.Errorf("revoke the tokens of %q: %w", login, err)
			}
			fmt.Fprintf(cmd.ErrOrStderr(), "revoked %d tokens of %s\n", n, login)
			return nil
		},
	}
	cmd.Flags().StringVar(&login, "user", "", "end every token of this `login`")
	return cmd
}
