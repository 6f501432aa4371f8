package vm

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Options say what to run in a machine.
type Options struct {
	// Input is a folder whose program run is started in the machine, as root, with a
	// copy of the folder as its own. What it leaves below out/ comes back.
	Input string
	// Output is a folder, which is made.
	Output string
	// MemoryMiB and Processors size the machine.
	MemoryMiB, Processors int
	// Timeout ends a machine that does not power off by itself.
	Timeout time.Duration
}

// outputBytes bounds what a machine may bring back.
const outputBytes = 64 << 20

// Boot starts the machine, waits until it has powered off, and unpacks what it
// brought back. The error tells where its console's text is.
func Boot(ctx context.Context, img Image, o Options) error {
	if err := os.MkdirAll(o.Output, 0o755); err != nil {
		return fmt.Errorf("make the machine's output: %w", err)
	}
	work, err := os.MkdirTemp("", "gbvm")
	if err != nil {
		return fmt.Errorf("make the machine's disks: %w", err)
	}
	defer os.RemoveAll(work)
	in, out, console := filepath.Join(work, "in"), filepath.Join(work, "out"), filepath.Join(o.Output, "console")
	if err := run(ctx, "tar", "--owner=0", "--group=0", "-C", o.Input, "-cf", in, "."); err != nil {
		return fmt.Errorf("make the machine's input: %w", err)
	}
	if err := errors.Join(os.WriteFile(out, nil, 0o600), os.Truncate(out, outputBytes)); err != nil {
		return fmt.Errorf("make the machine's output: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, o.Timeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, "qemu-system-x86_64", "-machine", "q35", "-accel", "tcg,thread=multi", "-cpu", "max",
		"-smp", strconv.Itoa(o.Processors), "-m", strconv.Itoa(o.MemoryMiB), "-nodefaults", "-no-reboot", "-display", "none", "-nic", "none",
		"-serial", "file:"+console, "-kernel", img.Kernel, "-initrd", img.Initrd,
		"-append", "root=/dev/vda rw console=ttyS0 panic=-1 quiet systemd.show_status=false systemd.unified_cgroup_hierarchy=1 mitigations=off",
		"-drive", "file="+img.Disk+",format=raw,if=virtio,snapshot=on",
		"-drive", "file="+in+",format=raw,if=virtio,readonly=on",
		"-drive", "file="+out+",format=raw,if=virtio")
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "TMPDIR=" + work}
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("run the machine: %w; %s; its console is %s", errors.Join(err, ctx.Err()), strings.TrimSpace(said.String()), console)
	}
	if err := unpack(out, o.Output); err != nil {
		return fmt.Errorf("take the machine's output: %w; its console is %s", err, console)
	}
	return nil
}

// unpack writes the regular files of a tar into folder.
func unpack(archive, folder string) error {
	f, err := os.Open(archive)
	if err != nil {
		return err
	}
	defer f.Close()
	root, err := os.OpenRoot(folder)
	if err != nil {
		return err
	}
	defer root.Close()
	r := tar.NewReader(f)
	files := 0
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		if h.Typeflag != tar.TypeReg {
			continue
		}
		// Flat: the machine makes no folders.
		to, err := root.Create(filepath.Base(h.Name))
		if err != nil {
			return err
		}
		_, err = io.Copy(to, r)
		if err = errors.Join(err, to.Close()); err != nil {
			return err
		}
		files++
	}
	if files == 0 {
		return errors.New("it holds nothing: the machine did not come to its end")
	}
	return nil
}
