package local

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"

	"glovebox/ci/engine"
	"glovebox/system/testdb"
)

// System is a running system.
type System struct {
	Endpoint
	Processes []Process `json:"processes"`

	mu      sync.Mutex
	opts    Options
	state   string
	engine  *engine.Service
	cluster *testdb.Cluster

	// internalAddresses is what each worker calls.
	internalAddresses []string
}

// path returns a path below the state folder.
func (s *System) path(name string) string { return filepath.Join(s.state, name) }

// binary returns the copy of a program that every uid can execute.
func (s *System) binary(name string) string { return s.path(filepath.Join("bin", name)) }

// makeFolders lays out the state folder. It is traversable by every uid; what
// lies in each folder is readable only by those it is for.
func (s *System) makeFolders() error {
	if err := os.RemoveAll(s.LogsDir); err != nil {
		return err
	}
	// os.Mkdir, not MkdirAll: a folder that is there already was made by somebody
	// else, in a place where everybody may make folders.
	if err := os.Mkdir(s.state, 0o711); err != nil {
		return fmt.Errorf("make the state folder: %w", err)
	}
	folders := []struct {
		name string
		mode os.FileMode
		uid  int
		gid  int
	}{
		{"bin", 0o755, 0, 0}, {"etc", 0o755, 0, 0}, {"run", 0o711, 0, 0}, {"tls", 0o755, 0, 0}, {"users", 0o700, 0, 0},
		{"secrets", 0o711, 0, 0},
		// makeCertificates gives the first two away when all is written.
		{"tls/server", 0o700, 0, 0}, {"tls/worker", 0o700, 0, 0}, {"tls/spare", 0o700, 0, 0},
		// The group may list and delete; files are 0600, so that only the server reads.
		{"storage", 0o2770, uids["server"], storageGroup},
	}
	for _, f := range folders {
		if err := os.Mkdir(s.path(f.name), 0o700); err != nil {
			return err
		}
		if f.name == "storage" && s.opts.StorageBytes > 0 {
			if err := mountMemory(s.path(f.name), s.opts.StorageBytes); err != nil {
				return err
			}
		}
		if os.Getuid() == 0 {
			if err := os.Chown(s.path(f.name), f.uid, f.gid); err != nil {
				return err
			}
		}
		if err := os.Chmod(s.path(f.name), unixMode(f.mode)); err != nil {
			return err
		}
	}
	return os.MkdirAll(s.LogsDir, 0o755)
}

// mountMemory mounts a file system of size bytes at dir; clearState detaches it.
func mountMemory(dir string, size int64) error {
	if err := syscall.Mount("glovebox-storage", dir, "tmpfs", syscall.MS_NOSUID|syscall.MS_NODEV|syscall.MS_NOEXEC, fmt.Sprintf("size=%d", size)); err != nil {
		return fmt.Errorf("mount the storage's file system: %w", err)
	}
	return nil
}

// unixMode turns the octal setgid bit into Go's.
func unixMode(mode os.FileMode) os.FileMode {
	out := mode & 0o777
	if mode&0o2000 != 0 {
		out |= os.ModeSetgid
	}
	return out
}

// copyPrograms puts the programs where the uids can reach them, whatever the
// rights of the project's own folder.
func (s *System) copyPrograms() error {
	from := filepath.Join(s.opts.Root, "out/bin")
	entries, err := os.ReadDir(from)
	if err != nil {
		return fmt.Errorf("the programs are not built; run make build: %w", err)
	}
	for _, e := range entries {
		source := filepath.Join(from, e.Name())
		if other := s.opts.Programs[e.Name()]; other != "" {
			source = other
		}
		content, err := os.ReadFile(source)
		if err != nil {
			return err
		}
		if err := os.WriteFile(s.binary(e.Name()), content, 0o755); err != nil {
			return err
		}
	}
	return nil
}

// defaultImage reads the reference of the project's own core image.
func (o Options) defaultImage() (string, error) { return o.builtImage("core") }

// builtImage reads the reference of an image that `make image` has built.
func (o Options) builtImage(name string) (string, error) {
	path := filepath.Join(o.Root, "out/images", name+".json")
	content, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("the image %s is not built; run make build: %w", name, err)
	}
	var built struct {
		Ref string `json:"ref"`
	}
	if err := json.Unmarshal(content, &built); err != nil || built.Ref == "" {
		return "", fmt.Errorf("%s names no image; run make build", path)
	}
	return built.Ref, nil
}
