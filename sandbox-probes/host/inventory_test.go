package host

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"glovebox/threat-model/evidence"
)

// uids are clear of every slot's on a test machine.
const firstUID, uids = 990_000_000, 1000

func TestChangesNamesWhatDiffers(t *testing.T) {
	before := Inventory{"sysctl a": "1", "file /dev/x": "c", "process 7": "there"}
	if got := Changes(before, Inventory{"sysctl a": "1", "file /dev/x": "c", "process 7": "there"}); len(got) != 0 {
		t.Fatalf("control: %v", got)
	}
	got := Changes(before, Inventory{"sysctl a": "2", "process 7": "there", "mount /slots/a": "there"})
	if len(got) != 3 {
		t.Errorf("%v", got)
	}
}

// Each kind of thing that a job could leave is planted, seen, and gone when it is
// taken away.
func TestInventorySeesWhatIsPlanted(t *testing.T) {
	evidence.Proves(t, "SBX-12", "HAR-01")
	place := t.TempDir()
	scope := Scope{Dir: t.TempDir(), Label: "gbhosttest", FirstUID: firstUID, UIDs: uids, Holders: []int{os.Getpid()}, Places: []string{place}}
	slots := filepath.Join(scope.Dir, "slots")
	if err := os.Mkdir(slots, 0o700); err != nil {
		t.Fatal(err)
	}
	// A setting is planted in a namespace that this thread alone is in.
	runtime.LockOSThread() // never unlocked: the thread ends with the test
	if err := unix.Unshare(unix.CLONE_NEWUTS); err != nil {
		t.Fatal(err)
	}
	plants := map[string]func(t *testing.T) (remove func()){
		"sysctl kernel/hostname": func(t *testing.T) func() {
			name, err := os.Hostname()
			must(t, errors.Join(err, unix.Sethostname([]byte("planted"))))
			return func() { must(t, unix.Sethostname([]byte(name))) }
		},
		"file " + place + "/anything": func(t *testing.T) func() {
			path := filepath.Join(place, "anything")
			must(t, errors.Join(os.WriteFile(path, nil, 0o600), os.Chown(path, firstUID+7, 0)))
			return func() { must(t, os.Remove(path)) }
		},
		"file " + place + "/glovebox-probe": func(t *testing.T) func() {
			path := filepath.Join(place, "glovebox-probe")
			must(t, os.WriteFile(path, nil, 0o600))
			return func() { must(t, os.Remove(path)) }
		},
		"process ": func(t *testing.T) func() {
			cmd := exec.Command("/bin/sleep", "60")
			cmd.Dir, cmd.SysProcAttr = "/", &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: firstUID + 1, Gid: firstUID + 1}}
			must(t, cmd.Start())
			return func() { must(t, cmd.Process.Kill()); _ = cmd.Wait() }
		},
		"descriptors of process ": func(t *testing.T) func() {
			f, err := os.Create(filepath.Join(slots, "held"))
			must(t, err)
			return func() { must(t, errors.Join(f.Close(), os.Remove(f.Name()))) }
		},
		"mount ": func(t *testing.T) func() {
			must(t, unix.Mount("none", slots+"/.", "tmpfs", 0, "size=4096"))
			inner := filepath.Join(slots, "a")
			must(t, os.Mkdir(inner, 0o700))
			must(t, unix.Mount("none", inner, "tmpfs", 0, "size=4096"))
			return func() { must(t, errors.Join(unix.Unmount(inner, 0), unix.Unmount(slots, 0))) }
		},
		"group ": func(t *testing.T) func() {
			base := "/sys/fs/cgroup"
			if _, err := os.Stat(base + "/pids"); err == nil { // version 1 has a tree for each controller
				base += "/pids"
			}
			base = filepath.Join(base, scope.Label)
			must(t, os.MkdirAll(filepath.Join(base, "a-left"), 0o755))
			return func() { must(t, errors.Join(os.Remove(filepath.Join(base, "a-left")), os.Remove(base))) }
		},
		"socket @glovebox-host-test": func(t *testing.T) func() {
			l, err := net.Listen("unix", "@glovebox-host-test")
			must(t, err)
			return func() { must(t, l.Close()) }
		},
		"sysv shm": func(t *testing.T) func() {
			const key = 1633837924
			id, _, errno := unix.Syscall(unix.SYS_SHMGET, key, 4096, 0o1600)
			if errno != 0 {
				t.Fatal(errno)
			}
			return func() {
				if _, _, errno := unix.Syscall(unix.SYS_SHMCTL, id, 0, 0); errno != 0 {
					t.Fatal(errno)
				}
			}
		},
	}
	for name, plant := range plants {
		before := take(t, scope)
		remove := plant(t)
		planted := Changes(before, take(t, scope))
		remove()
		if !strings.Contains("\n"+strings.Join(planted, "\n"), "\n"+name) {
			t.Errorf("%s: planted and not seen; seen are %q", name, planted)
		}
		// A process that was killed stays for a moment.
		deadline := time.Now().Add(5 * time.Second)
		left := Changes(before, take(t, scope))
		for len(left) > 0 && time.Now().Before(deadline) {
			left = Changes(before, take(t, scope))
		}
		if len(left) > 0 {
			t.Errorf("%s: taken away and still seen: %q", name, left)
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func take(t *testing.T, s Scope) Inventory {
	t.Helper()
	all, err := Take(s)
	if err != nil {
		t.Fatal(err)
	}
	return all
}
