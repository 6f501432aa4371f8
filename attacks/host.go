package attacks

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"glovebox/attacks/harness"
	"glovebox/attacks/identity"
	"glovebox/attacks/oracle"
)

// host attacks from a process of the system's own users, or of a stranger's, on
// the machine where it runs: files, sockets, other processes.
var host = harness.Family{
	Name: "host", About: "the users, files and sockets of the machine",
	Cases: join(hostSockets, hostFiles, hostProcesses),
}

// everybody are the users who must each have no more than their own.
func everybody(e *harness.Env) map[string]identity.User {
	return map[string]identity.User{"server": user(e, "server"), "worker": user(e, "worker"), "sweeper": user(e, "sweeper"), "stranger": stranger}
}

// denied reports whether err is the kernel's refusal, or that the way there is closed.
func denied(err error) bool {
	return errors.Is(err, syscall.EACCES) || errors.Is(err, syscall.EPERM)
}

// read opens a file as somebody.
func read(as identity.User, path string) error {
	return identity.As(as, func() error {
		f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
		if err != nil {
			return err
		}
		return f.Close()
	})
}

var hostSockets = []harness.Case{
	{
		ID: "host/engine-socket", Title: "a process other than the launcher speaks to the container engine",
		Requirements: []string{"SBX-09", "ARC-02"}, Threats: []string{"LCH-S1", "OPS-E2"},
		Attack:  "connect to the engine's socket as the server's, the worker's, the sweeper's and a stranger's user; list the folder, make a file in it",
		Control: "root connects",
		Oracle:  "the kernel's answer to connect and open",
		Run: func(e *harness.Env) {
			socket := e.Endpoint.Sockets.Engine
			e.Control(dialUnix("unix", socket) == nil, "root cannot connect")
			for name, who := range everybody(e) {
				e.Input("%s", name)
				err := identity.As(who, func() error { return dialUnix("unix", socket) })
				e.Check(denied(err), "connect: %v", err)
				err = identity.As(who, func() error { return os.WriteFile(filepath.Join(filepath.Dir(socket), "x"), nil, 0o600) })
				e.Check(denied(err), "make a file beside it: %v", err)
				err = identity.As(who, func() error { return os.Remove(socket) })
				e.Check(denied(err), "remove it: %v", err)
			}
		},
	},
	{
		ID: "host/launcher-socket", Title: "a process other than the worker is given sandboxes", Lock: "launcher",
		Requirements: []string{"SBX-09"}, Threats: []string{"LCH-S1"},
		Attack:  "connect to both launchers' sockets as the server's, the sweeper's, a stranger's and a sandbox's user; replace a socket; as root ask for a sandbox",
		Control: "the worker's user is answered",
		Oracle:  "the kernel's answer to connect; the launcher's answer to root",
		Run: func(e *harness.Env) {
			for _, socket := range launcherSockets(e) {
				e.Control(identity.As(user(e, "worker"), func() error { return dialUnix("unixpacket", socket) }) == nil, "the worker cannot connect")
				people := everybody(e)
				delete(people, "worker")
				people["sandbox"] = identity.User{UID: 300000, GID: 300000}
				people["group of the worker"] = identity.User{UID: stranger.UID, GID: user(e, "worker").GID}
				for name, who := range people {
					e.Input("%s", name)
					err := identity.As(who, func() error { return dialUnix("unixpacket", socket) })
					e.Check(denied(err), "connect: %v", err)
				}
				for name, who := range everybody(e) {
					e.Input("%s", name)
					err := identity.As(who, func() error { return os.Remove(socket) })
					e.Check(denied(err), "remove the socket: %v", err)
					err = identity.As(who, func() error {
						l, err := net.Listen("unixpacket", filepath.Join(filepath.Dir(socket), "other.sock"))
						if err == nil {
							err = errors.Join(errOpened, l.Close())
						}
						return err
					})
					e.Check(denied(err), "listen beside it: %v", err)
				}
			}
		},
	},
	{
		ID: "host/listeners", Title: "a process listens where it should not",
		Requirements: []string{"MTL-01", "ARC-02", "DBS-02"}, Threats: []string{"OPS-E1", "OPS-E2"},
		Attack:  "the listening sockets of every process of the system",
		Control: "each server's two doors are seen",
		Oracle:  "socket table of the kernel, by the descriptors of each process",
		Run: func(e *harness.Env) {
			local := map[string]int{}
			look := func(kind string, most int, pids ...int) {
				for _, pid := range pids {
					sockets, err := oracle.SocketsOf(pid)
					e.Must(err, "look at the sockets of %s", kind)
					listening := 0
					for _, s := range sockets {
						if s.Listening {
							listening++
							e.Check(s.Local.Addr().IsLoopback(), "%s listens at %s", kind, s.Local)
						}
					}
					local[kind] += listening
					e.Check(listening <= most, "%s listens at %d places", kind, listening)
				}
			}
			pids := e.Endpoint.PIDs
			look("server", 3, pids.Server...) // public, internal, metrics
			look("worker", 1, pids.Worker...) // metrics
			look("launcher", 1, pids.Launcher...)
			look("sweeper", 0, pids.Sweeper)
			look("engine", 0, pids.Engine)
			look("database", 0, pids.Postgres)
			e.Control(local["server"] == 3*len(pids.Server) && local["worker"] == len(pids.Worker), "seen: %v", local)
		},
	},
	{
		ID: "host/connections", Title: "a process reaches what is none of its business", Slow: true,
		Requirements: []string{"ARC-02", "SBX-09"}, Threats: []string{"OPS-E2"},
		Attack:  "the connections of every process while jobs run, twenty looks",
		Control: "the worker's connection to the internal API is seen",
		Oracle:  "socket table of the kernel",
		Run: func(e *harness.Env) {
			internal := map[string]bool{}
			for i := range e.Servers() {
				internal[e.Internal(i)] = true
			}
			seen := 0
			alice := e.Alice()
			e.Done(alice, harness.Lua(), "completed") // from here on the workers work
			for range 20 {
				e.Submit(alice, harness.Lua())
				for _, pid := range e.Endpoint.PIDs.Worker {
					sockets, err := oracle.SocketsOf(pid)
					e.Must(err, "look at the worker's sockets")
					for _, s := range sockets {
						if s.Listening || s.Remote.Port() == 0 {
							continue
						}
						if internal[s.Remote.String()] {
							seen++
							continue
						}
						e.Check(s.Remote.Addr().IsLoopback() && isListener(sockets, s.Local.Port()), "the worker reaches %s", s.Remote)
					}
				}
				for kind, pids := range map[string][]int{"launcher": e.Endpoint.PIDs.Launcher, "sweeper": {e.Endpoint.PIDs.Sweeper}, "engine": {e.Endpoint.PIDs.Engine}} {
					for _, pid := range pids {
						sockets, err := oracle.SocketsOf(pid)
						e.Must(err, "look at the sockets of %s", kind)
						for _, s := range sockets {
							e.Check(s.Listening || isListener(sockets, s.Local.Port()), "%s reaches %s", kind, s.Remote)
						}
					}
				}
			}
			e.Control(seen > 0, "no connection of a worker to the internal API was seen")
		},
	},
}

// isListener reports whether one of the sockets listens at the port: a connection
// there came from outside.
func isListener(sockets []oracle.Socket, port uint16) bool {
	return slices.ContainsFunc(sockets, func(s oracle.Socket) bool { return s.Listening && s.Local.Port() == port })
}

// launcherSockets are the sockets of all launchers.
func launcherSockets(e *harness.Env) []string {
	all, err := filepath.Glob(filepath.Join(filepath.Dir(e.Endpoint.Sockets.Launcher), "launcher-*.sock"))
	e.Must(err, "list the launchers' sockets")
	if len(all) != len(e.Endpoint.PIDs.Launcher) {
		e.Fail("%d sockets of %d launchers", len(all), len(e.Endpoint.PIDs.Launcher))
	}
	return all
}

var hostFiles = []harness.Case{
	{
		ID: "host/storage", Title: "somebody else on the machine reads or changes users' files",
		Requirements: []string{"STO-01", "ARC-02", "UPL-05"}, Threats: []string{"STO-I1", "OPS-E2"},
		Attack:  "list, read, write and link every folder and file of the storage as the worker's, a stranger's and a sandbox's user, and with the numbers of their groups",
		Control: "the server's user reads a result",
		Oracle:  "the kernel's answer to each call",
		Run: func(e *harness.Env) {
			job := e.Done(e.Alice(), harness.Lua(), "completed")
			result := e.Result(e.Alice(), job.ID).Body
			file := stored(e, result)
			e.Control(file != "" && read(user(e, "server"), file) == nil, "the server's user cannot read %q", filepath.Base(file))
			root := e.Endpoint.StorageRoot
			people := map[string]identity.User{"worker": user(e, "worker"), "stranger": stranger, "sandbox": {UID: 300000, GID: 300000}, "nobody": {UID: 65534, GID: 65534}}
			for name, who := range people {
				e.Input("%s", name)
				for what, try := range map[string]func() error{
					"list the root":    func() error { _, err := os.ReadDir(root); return err },
					"list the objects": func() error { _, err := os.ReadDir(filepath.Join(root, "objects")); return err },
					"look at a file":   func() error { _, err := os.Stat(file); return err },
					"read a file":      func() error { _, err := os.ReadFile(file); return err },
					"write a file":     func() error { return os.WriteFile(file, nil, 0o600) },
					"make a file":      func() error { return os.WriteFile(filepath.Join(root, "x"), nil, 0o600) },
					"link to a file":   func() error { return os.Link(file, "/tmp/"+harness.RandomHex(8)) },
					"remove a file":    func() error { return os.Remove(file) },
					"rename the root":  func() error { return os.Rename(root, root+"x") },
					"open the root":    func() error { return os.Chmod(root, 0o777) },
				} {
					err := identity.As(who, try)
					e.Check(denied(err), "%s: %v", what, err)
				}
			}
		},
	},
	{
		ID: "host/sweeper-reads", Title: "the process that deletes reads what users sent",
		Requirements: []string{"STO-01", "PIP-12"}, Threats: []string{"STO-I1"},
		Attack:  "open every file of the storage for reading, for writing, and change its mode, as the sweeper's user with its group",
		Control: "the same user lists the folders, as it needs to",
		Oracle:  "the kernel's answer to each call",
		Run: func(e *harness.Env) {
			e.Done(e.Alice(), harness.Lua(), "completed")
			sweeper := user(e, "sweeper")
			listed := 0
			err := identity.As(sweeper, func() error {
				entries, err := os.ReadDir(filepath.Join(e.Endpoint.StorageRoot, "objects"))
				listed = len(entries)
				return err
			})
			e.Control(err == nil && listed == 256, "it lists %d folders (%v)", listed, err)
			all := disk(e).Below("objects/")
			e.Control(len(all) >= 2, "only %d files lie in storage", len(all))
			for _, path := range all[:min(len(all), 40)] {
				file := filepath.Join(e.Endpoint.StorageRoot, path)
				err := read(sweeper, file)
				e.Check(denied(err) || errors.Is(err, fs.ErrNotExist), "read: %v", err)
				err = identity.As(sweeper, func() error { return os.Chmod(file, 0o666) })
				e.Check(denied(err) || errors.Is(err, fs.ErrNotExist), "change the mode: %v", err)
				err = identity.As(sweeper, func() error {
					f, err := os.OpenFile(file, os.O_WRONLY, 0)
					if err == nil {
						err = errors.Join(errOpened, f.Close())
					}
					return err
				})
				e.Check(denied(err) || errors.Is(err, fs.ErrNotExist), "write: %v", err)
			}
		},
	},
	{
		ID: "host/secret-files", Title: "a process reads a secret that is another's",
		Requirements: []string{"REL-04", "ARC-02", "PIP-12"}, Threats: []string{"OPS-I1", "OPS-E2"},
		Attack:  "every file of secrets, of keys, of authorities and of the database's folder, as each of the system's users and as a stranger",
		Control: "each owner reads its own",
		Oracle:  "the kernel's answer to open, for each pair of user and file",
		Run: func(e *harness.Env) {
			owner := map[string]string{
				"secrets/server.url": "server", "secrets/token-secret": "server", "secrets/sweeper.url": "sweeper", "secrets/operator.url": "", "secrets/migrator.url": "",
				"pg/admin-password": "", "users/alice.password": "", "pki": "",
			}
			for _, dir := range []string{"tls/server", "tls/worker", "tls/spare", "pki"} {
				keys, err := filepath.Glob(statePath(e, dir+"/*.key"))
				e.Must(err, "list the keys")
				e.Control(len(keys) > 0, "no key lies in %s", dir)
				for _, key := range keys {
					name, _ := filepath.Rel(statePath(e, ""), key)
					owner[name] = map[string]string{"tls/server": "server", "tls/worker": "worker"}[dir]
				}
			}
			own := 0
			for file, whose := range owner {
				for name, who := range everybody(e) {
					e.Input("%s reads %s", name, file)
					err := read(who, statePath(e, file))
					if name == whose {
						own++
						e.Control(err == nil, "the owner cannot: %v", err)
						continue
					}
					e.Check(denied(err), "%v", err)
				}
			}
			e.Input("afterwards")
			e.Control(own >= 6, "only %d files were read by their owners", own)
		},
	},
	{
		ID: "host/workspaces", Title: "the worker's process reaches the files of a sandbox by their paths",
		Requirements: []string{"SBX-09", "ARC-02", "JOB-10"}, Threats: []string{"LCH-T1", "LCH-E1", "NBR-I1"},
		Attack:  "list, open and make files below the launchers' slots and the engine's storage, as each user",
		Control: "root lists the slots",
		Oracle:  "the kernel's answer to each call",
		Run: func(e *harness.Env) {
			for i := range e.Endpoint.PIDs.Launcher {
				root := statePath(e, "slots-"+strconv.Itoa(i))
				entries, err := os.ReadDir(root)
				e.Control(err == nil, "root cannot list the slots: %v", err)
				for name, who := range everybody(e) {
					e.Input("%s", name)
					err := identity.As(who, func() error { _, err := os.ReadDir(root); return err })
					e.Check(denied(err), "list the slots: %v", err)
					err = identity.As(who, func() error { return os.WriteFile(filepath.Join(root, "x"), nil, 0o600) })
					e.Check(denied(err), "make a file there: %v", err)
					err = identity.As(who, func() error { _, err := os.ReadDir(statePath(e, "eng")); return err })
					e.Check(denied(err), "list the engine's storage: %v", err)
					for _, entry := range entries {
						err := identity.As(who, func() error { _, err := os.ReadDir(filepath.Join(root, entry.Name())); return err })
						e.Check(denied(err) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR), "list %s: %v", entry.Name(), err)
					}
				}
			}
		},
	},
	{
		ID: "host/configuration", Title: "a process changes its own program or configuration, or another's",
		Requirements: []string{"ARC-02", "REL-03", "SBX-08"}, Threats: []string{"OPS-E2", "LCH-T1", "BOX-S1"},
		Attack:  "write, replace, remove and open up every program, configuration and trusted certificate, as each user; write to the logs",
		Control: "each user reads its configuration",
		Oracle:  "the kernel's answer to each call; inventory of the folders before and after",
		Run: func(e *harness.Env) {
			folders := []string{"bin", "etc", "tls", "run"}
			before := map[string]oracle.Inventory{}
			for _, dir := range folders {
				all, err := oracle.Disk(statePath(e, dir), dir != "run")
				e.Must(err, "look at %s", dir)
				before[dir] = all
			}
			for name, who := range everybody(e) {
				e.Control(name == "stranger" || read(who, e.Endpoint.Configs.Server) == nil, "%s cannot read the configuration", name)
				for _, dir := range folders {
					for path, entry := range before[dir] {
						if entry.Mode.IsDir() {
							if path == name { // its own folder of keys
								continue
							}
							err := identity.As(who, func() error { return os.WriteFile(filepath.Join(statePath(e, dir), path, "x"), nil, 0o600) })
							e.Check(denied(err), "%s made a file in %s/%s: %v", name, dir, path, err)
							continue
						}
						if strings.HasPrefix(path, name+"/") {
							continue
						}
						file := filepath.Join(statePath(e, dir), path)
						err := identity.As(who, func() error {
							f, err := os.OpenFile(file, os.O_WRONLY, 0)
							if err == nil {
								err = errors.Join(errOpened, f.Close())
							}
							return err
						})
						e.Check(denied(err) || entry.Mode&fs.ModeSocket != 0, "%s opened %s/%s for writing: %v", name, dir, path, err)
						err = identity.As(who, func() error { return os.Rename(file, file+"x") })
						e.Check(denied(err), "%s renamed %s/%s: %v", name, dir, path, err)
					}
				}
				err := identity.As(who, func() error {
					f, err := os.OpenFile(filepath.Join(e.Endpoint.LogsDir, "server-0.log"), os.O_WRONLY|os.O_APPEND, 0)
					if err == nil {
						err = errors.Join(errOpened, f.Close())
					}
					return err
				})
				e.Check(denied(err), "%s opened a log: %v", name, err)
			}
			for _, dir := range folders {
				now, err := oracle.Disk(statePath(e, dir), dir != "run")
				e.Must(err, "look at %s", dir)
				e.Check(len(before[dir].Diff(now)) == 0, "%s has changed: %v", dir, before[dir].Diff(now))
			}
		},
	},
	{
		ID: "host/names-on-disk", Title: "who looks at the disk learns what users' files are called, or anybody may open them",
		Requirements: []string{"UPL-05", "STO-01"}, Threats: []string{"STO-I1", "PUB-T4"},
		Attack:  "uploads with names that are found by a search: plain, with dots, slashes, NUL, device names; then every name, mode, owner and link count of the storage",
		Control: "the uploads are on disk, by their bytes",
		Oracle:  "inventory of the storage",
		Run: func(e *harness.Env) {
			alice := e.Alice()
			mark := "mark" + harness.RandomHex(6)
			for _, name := range []string{mark, "../../" + mark, "/etc/" + mark, mark + "/../x", "C:\\" + mark, ".." + mark, mark + "%00.lua", "con." + mark, "-rf " + mark} {
				content := harness.Lua()
				r := harness.SubmitRequest(e.Token(alice), content)
				r.Body = harness.Form(name, content)
				got := e.Do(r)
				if got.Status == 201 {
					e.Control(stored(e, content) != "", "the upload %q is not on disk", name)
				}
			}
			for path, entry := range disk(e) {
				e.Check(!strings.Contains(path, mark) && !strings.Contains(path, ".."), "the storage has the name %q", path)
				switch {
				case entry.Mode.IsDir():
					e.Check(entry.Mode.Perm()&0o007 == 0, "%s is open to all: %s", path, entry)
				case entry.Mode.IsRegular():
					e.Check(entry.Mode.Perm() == 0o600 && entry.Links == 1 && int(entry.UID) == e.Endpoint.UIDs["server"], "%s: %s", path, entry)
				default:
					e.Check(false, "%s is no file: %s", path, entry)
				}
			}
			for _, where := range []string{"/etc/" + mark, filepath.Join(filepath.Dir(e.Endpoint.StorageRoot), mark), filepath.Join(filepath.Dir(filepath.Dir(e.Endpoint.StorageRoot)), mark)} {
				_, err := os.Lstat(where)
				e.Check(errors.Is(err, fs.ErrNotExist), "%s is there", where)
			}
		},
	},
}

var hostProcesses = []harness.Case{
	{
		ID: "host/identities", Title: "a process runs with more than it needs",
		Requirements: []string{"ARC-02", "SBX-09"}, Threats: []string{"OPS-E2"},
		Attack:  "user, groups and capabilities of every process of the system, all threads",
		Control: "the launcher, which needs root, is seen as root",
		Oracle:  "process table of the kernel",
		Run: func(e *harness.Env) {
			p, err := oracle.ReadProcess(e.Endpoint.PIDs.Launcher[0])
			e.Must(err, "look at the launcher")
			e.Control(p.UIDs[1] == 0 && p.CapEff != 0, "the launcher is seen as %+v", p.UIDs)
			ids := map[int]string{}
			for kind, pids := range map[string][]int{"server": e.Endpoint.PIDs.Server, "worker": e.Endpoint.PIDs.Worker, "sweeper": {e.Endpoint.PIDs.Sweeper}} {
				for _, pid := range pids {
					want := user(e, kind)
					tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", pid))
					e.Must(err, "list the threads")
					e.Control(len(tasks) > 1, "%s has %d threads", kind, len(tasks))
					p, err := oracle.ReadProcess(pid)
					e.Must(err, "look at %s", kind)
					e.Check(p.UIDs == [4]int{want.UID, want.UID, want.UID, want.UID} && p.GIDs == [4]int{want.GID, want.GID, want.GID, want.GID}, "%s runs as %v %v", kind, p.UIDs, p.GIDs)
					e.Check(slices.Equal(p.Groups, want.Groups), "%s is in the groups %v", kind, p.Groups)
					e.Check(p.CapEff == 0, "%s has the capabilities %x", kind, p.CapEff)
				}
				uid := e.Endpoint.UIDs[kind]
				e.Check(uid != 0 && ids[uid] == "", "%s shares uid %d with %s", kind, uid, ids[uid])
				ids[uid] = kind
			}
		},
	},
	{
		ID: "host/descriptors", Title: "a process holds a file or socket that is none of its business",
		Requirements: []string{"ARC-02", "SBX-09"}, Threats: []string{"OPS-E2", "LCH-E1"},
		Attack:  "the open files of every process while jobs run",
		Control: "the server's storage and the worker's way to the launcher are seen",
		Oracle:  "process table of the kernel: paths of open files",
		Run: func(e *harness.Env) {
			storage := e.Endpoint.StorageRoot
			state := filepath.Dir(storage)
			alice := e.Alice()
			held := false
			for range 10 {
				e.Submit(alice, harness.Lua())
				for kind, pids := range map[string][]int{"server": e.Endpoint.PIDs.Server, "worker": e.Endpoint.PIDs.Worker, "launcher": e.Endpoint.PIDs.Launcher} {
					for _, pid := range pids {
						open, err := oracle.Descriptors(pid)
						e.Must(err, "look at the open files of %s", kind)
						for _, d := range open {
							in := func(dir string) bool { return strings.HasPrefix(d.Target, filepath.Join(state, dir)) }
							held = held || kind == "server" && in("storage")
							bad := kind != "server" && in("storage") || in("pki") || in("users") || in("pg/") || kind != "launcher" && in("eng") ||
								kind == "server" && (in("slots") || in("tls/worker")) || kind == "worker" && in("tls/server") || kind == "launcher" && (in("tls") || in("secrets")) ||
								d.Target == "/dev/mem" || d.Target == "/dev/kmsg"
							e.Check(!bad, "%s has %s open", kind, d.Target)
						}
					}
				}
			}
			e.Control(held, "the server's storage is not seen among its open files")
		},
	},
	{
		ID: "host/other-processes", Title: "a process reads, stops or steers another",
		Requirements: []string{"ARC-02", "REL-04"}, Threats: []string{"OPS-E2", "OPS-I1"},
		Attack:  "environment, memory, open files and system calls of every process of another user, and signals to it, as each user",
		Control: "root reads the same environment",
		Oracle:  "the kernel's answer to open and kill",
		Run: func(e *harness.Env) {
			pids := map[string]int{"server": e.Endpoint.PIDs.Server[0], "worker": e.Endpoint.PIDs.Worker[0], "sweeper": e.Endpoint.PIDs.Sweeper, "launcher": e.Endpoint.PIDs.Launcher[0], "engine": e.Endpoint.PIDs.Engine, "database": e.Endpoint.PIDs.Postgres}
			for target, pid := range pids {
				_, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
				e.Control(err == nil, "root cannot read the environment of %s", target)
				for name, who := range everybody(e) {
					if name == target {
						continue
					}
					e.Input("%s at %s", name, target)
					for _, file := range []string{"environ", "mem", "maps", "auxv", "syscall", "stack", "personality", "io"} {
						err := identity.As(who, func() error { _, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, file)); return err })
						e.Check(err != nil, "%s can be read", file)
					}
					err := identity.As(who, func() error { _, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid)); return err })
					e.Check(denied(err), "open files: %v", err)
					for _, sig := range []syscall.Signal{0, syscall.SIGURG} {
						err := identity.As(who, func() error { return syscall.Kill(pid, sig) })
						e.Check(denied(err), "signal %d: %v", sig, err)
					}
				}
			}
		},
	},
}
