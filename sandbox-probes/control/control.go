// Package control runs a probe outside the sandbox, to show that what it tries
// can be done at all: a probe that is stopped in the sandbox and would be stopped
// anywhere proves nothing.
//
// The program runs as root in a throw-away folder. Its mounts, host name and
// System V objects are in namespaces of its own, for the host's sake: these hold
// nothing back.
package control

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// timeout bounds one control.
const timeout = 20 * time.Second

// maxResult bounds what is read of a control's result.
const maxResult = 8 << 20

// Folder makes a throw-away folder with the files of the contract and a copy of
// the program. The caller removes it.
func Folder(program string, input []byte) (string, error) {
	dir, err := os.MkdirTemp("", "gbc")
	if err != nil {
		return "", fmt.Errorf("make the control's folder: %w", err)
	}
	if err := fill(dir, program, input); err != nil {
		return "", errors.Join(fmt.Errorf("fill the control's folder: %w", err), os.RemoveAll(dir))
	}
	return dir, nil
}

func fill(dir, program string, input []byte) error {
	for _, name := range []string{"in", "out", "etc", "run", "etc/nothing"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			return err
		}
	}
	for name, content := range map[string][]byte{"in/input": input, "out/result": nil, "etc/hostname": nil} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o700); err != nil {
			return err
		}
	}
	// Something to find: the sandbox has no socket anywhere.
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		return err
	}
	defer syscall.Close(fd)
	if err := syscall.Bind(fd, &syscall.SockaddrUnix{Name: filepath.Join(dir, "run/engine.sock")}); err != nil {
		return err
	}
	return duplicate(program, filepath.Join(dir, "core"))
}

func duplicate(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o700)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

// Result is what a control left.
type Result struct {
	Result []byte // of out/result
	State  *os.ProcessState
}

// Run runs program unconfined on input and returns its result.
func Run(ctx context.Context, program string, input []byte) (Result, error) {
	dir, err := Folder(program, input)
	if err != nil {
		return Result{}, err
	}
	defer os.RemoveAll(dir)
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	cmd := Command(ctx, program, dir)
	cmd.SysProcAttr.Unshareflags = syscall.CLONE_NEWNS | syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC
	stdin, err := os.Open(filepath.Join(dir, "in/input"))
	if err != nil {
		return Result{}, err
	}
	defer stdin.Close()
	cmd.Stdin = stdin
	// Something to find: the sandbox passes none on.
	cmd.ExtraFiles = []*os.File{stdin}
	// Held from before the start: a control may take the name away.
	result, err := os.Open(filepath.Join(dir, "out/result"))
	if err != nil {
		return Result{}, err
	}
	defer result.Close()
	err = cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return Result{}, fmt.Errorf("run the control: %w", err)
	}
	content, err := io.ReadAll(io.LimitReader(result, maxResult))
	return Result{Result: content, State: cmd.ProcessState}, err
}

// Command is the unconfined program in folder dir, not yet started.
func Command(ctx context.Context, program, dir string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, program)
	cmd.Dir = dir
	cmd.Env = []string{"SECRET_OF_THE_HOST=planted"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
	return cmd
}
