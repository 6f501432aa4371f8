package testdb

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// held keeps the write ends of the keepers' pipes open for this process's life.
var held []*os.File

// startPrivate starts a cluster that lives exactly as long as this process,
// however it ends. The postmaster's parent is a shell that waits for the end of
// its standard input: a pipe that only this process holds. Then it stops the
// cluster and removes the folder, so that not even a killed test leaves one.
func startPrivate(ctx context.Context) (*Cluster, error) {
	dir, err := os.MkdirTemp("/tmp", "gbpg-") // short: the socket's path is bounded
	if err != nil {
		return nil, fmt.Errorf("make a folder for the private cluster: %w", err)
	}
	c, err := prepare(ctx, dir, Options{})
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	const keeper = `dir=$1; shift; "$@" & child=$!; read -r _; kill -INT $child; wait $child; rm -rf "$dir"`
	args := append([]string{"-c", keeper, "keeper", dir, filepath.Join(c.bin, "postgres"), "-D", c.data()}, c.settings()...)
	cmd := exec.Command("/bin/sh", args...)
	// The folder is the cluster's user's own: a link there must not be followed.
	log, err := os.OpenFile(c.logFile(), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, fmt.Errorf("make the private cluster's log: %w", err)
	}
	defer log.Close()
	read, write, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("make the keeper's pipe: %w", err)
	}
	defer read.Close()
	cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = "/", read, log, log, c.cred
	cmd.Env = []string{"PATH=/usr/bin:/bin", "LC_ALL=C.UTF-8", "TZ=UTC"}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the private cluster: %w", err)
	}
	held = append(held, write)
	return c, c.await(ctx)
}

// await asks until the cluster answers.
func (c *Cluster) await(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		conn, err := pgx.Connect(ctx, c.AdminURL("postgres").Reveal())
		if err == nil {
			return conn.Close(ctx)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			log, _ := os.ReadFile(c.logFile())
			return fmt.Errorf("wait for the private cluster: %w: %s", err, strings.TrimSpace(tail(log)))
		}
	}
}
