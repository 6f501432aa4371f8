// Package engine starts a private podman service: own storage, own run folder,
// own locks, own configuration, apart from the machine's podman. Tests of the
// sandbox and `make up` run on it; an installation has a service of its own.
//
// The service is started in a session of its own and answers on a unix socket
// in the caller's folder. Stop ends it and takes back everything it left on the
// host, mounts included, so that the folder can be removed.
package engine

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// maxDir keeps the socket and conmon's own socket paths within the kernel's
// 107 bytes.
const maxDir = 48

// Options say where and how the service runs.
type Options struct {
	// Dir is an absolute path of at most 48 bytes, made with mode 0700 if missing.
	Dir string
	// Runtime is the OCI runtime the service uses for every container; the REST
	// API ignores a runtime named in a request. Default "runc".
	Runtime string
	// Driver is the storage driver. Default "vfs": the launcher brings its own
	// root filesystems, and vfs leaves no mount on the host.
	Driver string
	// NoLoginID leaves out the audit login id (see serveScript), to show that a
	// launcher notices.
	NoLoginID bool
}

// Service is a running engine.
type Service struct {
	Socket string // path of the unix socket
	PID    int    // of the service process
	Dir    string

	done     chan struct{}
	exitErr  error
	stopOnce sync.Once
	stopErr  error
}

// Start runs a service and returns once it answers. The caller must Stop it. The
// context bounds the start only.
func Start(ctx context.Context, o Options) (*Service, error) {
	if o.Runtime == "" {
		o.Runtime = "runc"
	}
	if o.Driver == "" {
		o.Driver = "vfs"
	}
	if !filepath.IsAbs(o.Dir) || len(o.Dir) > maxDir {
		return nil, fmt.Errorf("engine folder %q must be an absolute path of at most %d bytes, because unix socket paths are short", o.Dir, maxDir)
	}
	for _, name := range []string{o.Runtime, "podman", "conmon"} {
		if _, err := exec.LookPath(name); err != nil {
			return nil, fmt.Errorf("find %s: %w; install it (Debian: podman, conmon, runc)", name, err)
		}
	}
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the engine's folder: %w", err)
	}
	s := &Service{Dir: o.Dir, Socket: filepath.Join(o.Dir, "s"), done: make(chan struct{})}
	conf, err := writeConf(o)
	if err != nil {
		return nil, err
	}
	if err := os.Remove(s.Socket); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("remove the last socket: %w", err)
	}
	if err := s.launch(conf, o); err != nil {
		return nil, err
	}
	if err := s.awaitAnswer(ctx); err != nil {
		return nil, errors.Join(err, s.Stop())
	}
	return s, nil
}

// serveScript gives the service, and with it every container, an audit login id.
// While it is unset a core may set it, once for each of its threads, and each time
// moves a session counter that all jobs can read (SBX-15). Where it is set already,
// or the kernel has none, the refusal is right.
const serveScript = `{ echo 0 >/proc/self/loginuid; } 2>/dev/null; ` + bareScript

const bareScript = `exec podman "$@"`

func (s *Service) launch(conf string, o Options) error {
	log, err := os.OpenFile(filepath.Join(o.Dir, "log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("open the engine's log: %w", err)
	}
	defer log.Close()
	script := serveScript
	if o.NoLoginID {
		script = bareScript
	}
	cmd := exec.Command("sh", "-c", script, "podman",
		"--root", filepath.Join(o.Dir, "root"), "--runroot", filepath.Join(o.Dir, "run"),
		"--storage-driver", o.Driver, "--log-level", "warn",
		"system", "service", "--time", "0", "unix://"+s.Socket)
	// The monitor writes a file named oom into the folder it was started in when the
	// core's memory ran out.
	cmd.Dir = o.Dir
	// The service and every process it starts read the file named here.
	cmd.Env = []string{"CONTAINERS_CONF=" + conf, "PATH=" + os.Getenv("PATH"), "HOME=" + o.Dir}
	cmd.Stdout, cmd.Stderr = log, log // a file, not a pipe: conmon inherits it
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start podman system service: %w", err)
	}
	s.PID = cmd.Process.Pid
	go func() {
		s.exitErr = cmd.Wait()
		close(s.done)
	}()
	return nil
}

// awaitAnswer asks until the service answers, it ends, or ctx is done.
func (s *Service) awaitAnswer(ctx context.Context) error {
	client := http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", s.Socket)
		},
	}}
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://engine/_ping", nil)
		if err != nil {
			return err
		}
		if resp, err := client.Do(req); err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-s.done:
			return fmt.Errorf("podman system service ended at once (%v); its log is %s", s.exitErr, filepath.Join(s.Dir, "log"))
		case <-ctx.Done():
			return fmt.Errorf("podman system service does not answer on %s: %w", s.Socket, ctx.Err())
		case <-ticker.C:
		}
	}
}

// Kill ends the service process as a crash would, and leaves everything else; Start
// with the same options takes over what is there.
func (s *Service) Kill() error {
	if err := syscall.Kill(s.PID, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("kill podman system service: %w", err)
	}
	<-s.done
	return nil
}

// Done is closed when the service process has ended.
func (s *Service) Done() <-chan struct{} { return s.done }

// Stop ends the service and releases its mounts; it tolerates being called twice.
// Containers still running are not its business: the launcher removes its own.
func (s *Service) Stop() error {
	s.stopOnce.Do(func() {
		s.stopErr = s.stop()
	})
	return s.stopErr
}

func (s *Service) stop() error {
	if err := syscall.Kill(s.PID, syscall.SIGTERM); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("end podman system service: %w", err)
	}
	timer := time.NewTimer(5 * time.Second)
	defer timer.Stop()
	select {
	case <-s.done:
	case <-timer.C:
		if err := syscall.Kill(s.PID, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("kill podman system service: %w", err)
		}
		<-s.done
	}
	return releaseMounts(s.Dir)
}

// releaseMounts detaches every mount below dir, deepest first.
func releaseMounts(dir string) error {
	table, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return fmt.Errorf("read the mount table: %w", err)
	}
	lines := strings.Split(string(table), "\n")
	var errs []error
	for i := len(lines) - 1; i >= 0; i-- {
		fields := strings.Fields(lines[i])
		if len(fields) < 5 || !strings.HasPrefix(fields[4], dir+"/") {
			continue
		}
		if err := syscall.Unmount(fields[4], syscall.MNT_DETACH); err != nil && !errors.Is(err, syscall.EINVAL) {
			errs = append(errs, fmt.Errorf("unmount %s: %w", fields[4], err))
		}
	}
	return errors.Join(errs...)
}

// limit returns the hard limit of this process in the row of /proc/self/limits
// that starts with name, at most ceiling. A container can be given no more than
// that where CAP_SYS_RESOURCE is missing.
func limit(name string, ceiling uint64) (uint64, error) {
	table, err := os.ReadFile("/proc/self/limits")
	if err != nil {
		return 0, fmt.Errorf("read own limits: %w", err)
	}
	for line := range strings.SplitSeq(string(table), "\n") {
		rest, ok := strings.CutPrefix(line, name)
		if !ok {
			continue
		}
		fields := strings.Fields(rest)
		if len(fields) < 2 {
			break
		}
		if fields[1] == "unlimited" {
			return ceiling, nil
		}
		hard, err := strconv.ParseUint(fields[1], 10, 64)
		if err != nil {
			return 0, fmt.Errorf("read own limit %q: %w", name, err)
		}
		return min(hard, ceiling), nil
	}
	return 0, fmt.Errorf("own limits have no row %q", name)
}
