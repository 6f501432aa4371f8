package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"glovebox/ci/local"
)

// person is one user with the client's state in a folder of its own.
type person struct {
	system *local.System
	user   local.User
	home   string
}

// glovebox runs the client as this person would.
func (p person) glovebox(ctx context.Context, args ...string) (stdout, stderr string, err error) {
	cmd := exec.CommandContext(ctx, "out/bin/glovebox", args...)
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + p.home, "XDG_STATE_HOME=" + filepath.Join(p.home, "state"), "XDG_CONFIG_HOME=" + filepath.Join(p.home, "config"),
		"GLOVEBOX_URL=" + p.system.PublicURL, "GLOVEBOX_CA_FILE=" + p.system.CAFile, "GLOVEBOX_TOKEN_FILE=" + filepath.Join(p.home, "token"),
	}
	var out, errs strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errs
	err = cmd.Run()
	return out.String(), errs.String(), err
}

func people(system *local.System, work string) []person {
	var all []person
	for i, u := range system.Users {
		all = append(all, person{system, u, filepath.Join(work, fmt.Sprintf("user-%d", i), "home")})
	}
	return all
}

// processAll sends every user's files at the same time.
func processAll(ctx context.Context, system *local.System, items []item, work string) error {
	group, ctx := errgroup.WithContext(ctx)
	for i, p := range people(system, work) {
		if err := os.MkdirAll(p.home, 0o700); err != nil {
			return err
		}
		var files []string
		for n, it := range items {
			if n%2 == i {
				files = append(files, it.input)
			}
		}
		outDir := filepath.Join(work, fmt.Sprintf("user-%d", i), "out")
		if err := os.MkdirAll(outDir, 0o755); err != nil {
			return err
		}
		group.Go(func() error {
			begin := time.Now()
			if _, stderr, err := p.glovebox(ctx, "login", p.user.Login, "--password-file", p.user.PasswordFile); err != nil {
				return fmt.Errorf("login of %s: %w: %s", p.user.Login, err, stderr)
			}
			args := append([]string{"process", "--output-dir", outDir, "--jobs", "4"}, files...)
			if _, stderr, err := p.glovebox(ctx, args...); err != nil {
				return fmt.Errorf("glovebox process of %s: %w: %s", p.user.Login, err, stderr)
			}
			fmt.Printf("  %-6s sent %d files and has %d results after %.1f s\n", p.user.Login, len(files), len(files), time.Since(begin).Seconds())
			return nil
		})
	}
	return group.Wait()
}

// showRefusal sends a file that is not Lua and shows what its owner reads.
func showRefusal(ctx context.Context, system *local.System, work string) error {
	path := filepath.Join(work, "broken.lua")
	if err := os.WriteFile(path, []byte("local function f(a, b)\n  return a + * b\nend\n"), 0o600); err != nil {
		return err
	}
	_, stderr, err := people(system, work)[0].glovebox(ctx, "process", path, "-o", filepath.Join(work, "broken.out"))
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 4 {
		return fmt.Errorf("a file that is not Lua should end the client with status 4: %v: %s", err, stderr)
	}
	fmt.Printf("\nA file that is not Lua ends with status 4 and says where:\n")
	for line := range strings.Lines(stderr) {
		if strings.Contains(line, "error:") || strings.Contains(line, "hint:") {
			fmt.Print("  " + line)
		}
	}
	return nil
}
