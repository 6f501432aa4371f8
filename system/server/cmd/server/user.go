package main

import (
	"bufio"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"glovebox/system/platform/secret"
	"glovebox/system/server/internal/auth"
	"glovebox/system/server/internal/config"
	"glovebox/system/server/internal/users"
	userstore "glovebox/system/server/internal/users/adapters/postgres"
)

func newUserCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "user",
		Short: "add, list, disable users and set their passwords",
		Long: `Add, list, disable users and set their passwords. There is no sign-up.

A password is read from a file, from standard input, or made here and printed
once; it is never an argument, where every user of the machine could read it. It
has at least 12 characters.

  glovebox-server user add alice --generate
  glovebox-server user add bob --password-stdin < bob-password
  glovebox-server user passwd bob --password-file bob-password
  glovebox-server user disable bob          its tokens end at once
  glovebox-server user enable bob`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newUserAddCommand(), newUserPasswdCommand(), newUserListCommand(),
		newUserSwitchCommand("disable", "shut a user out at once; its tokens end", true),
		newUserSwitchCommand("enable", "let a disabled user log in again", false))
	return cmd
}

// openUsers opens the users' service under the operator's login.
func openUsers(cmd *cobra.Command) (service *users.Service, closing func(), err error) {
	c, err := loadConfig(cmd)
	if err != nil {
		return nil, nil, err
	}
	pool, err := openOperatorPool(cmd)
	if err != nil {
		return nil, nil, err
	}
	return users.NewService(userstore.New(pool), auth.NewHasher(hashParams(c), 1, time.Minute)), pool.Close, nil
}

// hashParams are the configured costs of argon2id; validation bounded them.
func hashParams(c *config.Config) auth.Params {
	return auth.Params{
		Time:      uint32(c.Auth.Argon2Time),                 //nolint:gosec // 1 to 100
		MemoryKiB: uint32(c.Auth.Argon2Memory.Int64() >> 10), //nolint:gosec // at most 4 GiB
		Threads:   uint8(c.Auth.Argon2Threads),               //nolint:gosec // 1 to 64
	}
}

// passwordFlags are the three ways in which a password may come.
type passwordFlags struct {
	file     string
	stdin    bool
	generate bool
}

func (p *passwordFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&p.file, "password-file", "", "read the password from a `file` that not everyone can read")
	cmd.Flags().BoolVar(&p.stdin, "password-stdin", false, "read the password from the first line of standard input")
	cmd.Flags().BoolVar(&p.generate, "generate", false, "make a password and print it once")
	cmd.MarkFlagsMutuallyExclusive("password-file", "password-stdin", "generate")
	cmd.MarkFlagsOneRequired("password-file", "password-stdin", "generate")
}

func (p *passwordFlags) read(in io.Reader) (secret.Text, error) {
	switch {
	case p.generate:
		var random [18]byte
		_, _ = rand.Read(random[:]) // never fails
		return secret.New(base64.RawURLEncoding.EncodeToString(random[:])), nil
	case p.stdin:
		line, err := bufio.NewReader(io.LimitReader(in, auth.MaxPasswordBytes+2)).ReadString('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return secret.Text{}, fmt.Errorf("read the password from standard input: %w", err)
		}
		return secret.New(strings.TrimRight(line, "\r\n")), nil
	default:
		return secret.ReadFile(p.file)
	}
}

func (p *passwordFlags) show(out io.Writer, password secret.Text) error {
	if !p.generate {
		return nil
	}
	_, err := fmt.Fprintln(out, password.Reveal())
	return err
}

func newUserAddCommand() *cobra.Command {
	var password passwordFlags
	cmd := &cobra.Command{
		Use:   "add LOGIN",
		Short: "add a user",
		Long: `Add a user. A login has 1 to 64 characters of a-z 0-9 . _ @ + - and is the same in
upper and lower case. With --generate the password is the only line on standard output.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			text, err := password.read(cmd.InOrStdin())
			if err != nil {
				return usageError{err}
			}
			service, closing, err := openUsers(cmd)
			if err != nil {
				return err
			}
			defer closing()
			id, err := service.Add(cmd.Context(), args[0], text)
			if err != nil {
				return fmt.Errorf("add user %q: %w", args[0], err)
			}
			fmt.Fprintf(cmd.ErrOrStderr(), "added user %s (%s)\n", strings.ToLower(args[0]), id)
			return password.show(cmd.OutOrStdout(), text)
		},
	}
	password.add(cmd)
	return cmd
}

func newUserPasswdCommand() *cobra.Command {
	var password passwordFlags
	cmd := &cobra.Command{
		Use:   "passwd LOGIN",
		Short: "set a user's password; its tokens end at once",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			text, err := password.read(cmd.InOrStdin())
			if err != nil {
				return usageError{err}
			}
			service, closing, err := openUsers(cmd)
			if err != nil {
				return err
			}
			defer closing()
			if err := service.SetPassword(cmd.Context(), args[0], text); err != nil {
				return fmt.Errorf("set the password of %q: %w", args[0], err)
			}
			fmt.Fprintf(cmd.ErrOrStderr(), "set the password of %s; every token of it ended\n", strings.ToLower(args[0]))
			return password.show(cmd.OutOrStdout(), text)
		},
	}
	password.add(cmd)
	return cmd
}

func newUserSwitchCommand(name, short string, disabled bool) *cobra.Command {
	return &cobra.Command{
		Use:   name + " LOGIN",
		Short: short,
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			service, closing, err := openUsers(cmd)
			if err != nil {
				return err
			}
			defer closing()
			if err := service.SetDisabled(cmd.Context(), args[0], disabled); err != nil {
				return fmt.Errorf("%s user %q: %w", name, args[0], err)
			}
			fmt.Fprintf(cmd.ErrOrStderr(), "%sd user %s\n", name, strings.ToLower(args[0]))
			return nil
		},
	}
}

func newUserListCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "list users",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			service, closing, err := openUsers(cmd)
			if err != nil {
				return err
			}
			defer closing()
			list, err := service.List(cmd.Context())
			if err != nil {
				return err
			}
			if asJSON {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(notNil(list))
			}
			table := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
			fmt.Fprintln(table, "LOGIN\tSTATE\tTOKENS\tCREATED\tID")
			for _, u := range list {
				state := "active"
				if u.DisabledAt != nil {
					state = "disabled"
				}
				fmt.Fprintf(table, "%s\t%s\t%d\t%s\t%s\n", u.Login, state, u.ActiveTokens, u.CreatedAt.UTC().Format(time.RFC3339), u.ID)
			}
			return table.Flush()
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}
