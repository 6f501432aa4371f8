package main

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"glovebox/system/platform/config"
	"glovebox/system/platform/logging"
	"glovebox/system/worker/internal/container"
	"glovebox/system/worker/internal/container/image"
	"glovebox/system/worker/internal/container/slotfs"
	"glovebox/system/worker/internal/container/userns"
)

// settings are every key of the launcher's configuration.
type settings struct {
	Listen   listenSettings   `toml:"listen"`
	Engine   engineSettings   `toml:"engine"`
	Slots    slotSettings     `toml:"slots"`
	Sandbox  sandboxSettings  `toml:"sandbox"`
	SelfTest selfTestSettings `toml:"selftest"`
	Limits   limitSettings    `toml:"limits"`
	Metrics  metricsSettings  `toml:"metrics"`
	Log      logSettings      `toml:"log"`
}

type listenSettings struct {
	Socket  string `toml:"socket"`   // unix socket the worker connects to
	PeerUID int64  `toml:"peer_uid"` // uid of the worker
}

type engineSettings struct {
	Socket string `toml:"socket"` // unix socket of podman system service
}

type slotSettings struct {
	Root    string `toml:"root"`     // folder below which attempts live
	UIDBase int64  `toml:"uid_base"` // first user id of slot 0, in the launcher's own numbers
	Backing string `toml:"backing"`  // auto, tmpfs or loop
}

type sandboxSettings struct {
	Slots int64 `toml:"slots"`
	// Warm is how many containers are made ahead and wait for a job, 0 to slots; -1 is
	// one for each slot. One that waits costs memory (figures in docs/ARCHITECTURE.md)
	// and no processor time, and saves its job the making of a container.
	Warm              int64           `toml:"warm"`
	Image             string          `toml:"image"`   // oci:/layout@sha256:DIGEST
	Runtime           string          `toml:"runtime"` // what the engine service was started with
	MemoryBytes       config.Bytes    `toml:"memory_bytes"`
	AddressSpaceBytes config.Bytes    `toml:"address_space_bytes"`
	Threads           int64           `toml:"threads"`
	CPUPercent        int64           `toml:"cpu_percent"` // 100 = one processor
	Timeout           config.Duration `toml:"timeout"`
}

type selfTestSettings struct {
	Image string `toml:"image"` // of the probe, as sandbox.image
}

type limitSettings struct {
	MaxInputBytes  config.Bytes `toml:"max_input_bytes"`
	MaxResultBytes config.Bytes `toml:"max_result_bytes"`
}

type metricsSettings struct {
	Listen string `toml:"listen"` // loopback address; empty = off
}

type logSettings struct {
	Level string `toml:"level"`
}

// uidBase is the default of slots.uid_base: high above all users of the host, or in a
// user namespace the first id behind its root.
func uidBase() int64 {
	if userns.Inside() {
		return 1
	}
	return 1_900_000_000
}

func defaults() *settings {
	l := container.Defaults()
	return &settings{
		Slots: slotSettings{UIDBase: uidBase(), Backing: string(slotfs.Auto)},
		Sandbox: sandboxSettings{
			Slots: 2, Warm: -1, Runtime: "runc", MemoryBytes: config.Bytes(l.MemoryBytes), AddressSpaceBytes: config.Bytes(l.AddressSpaceBytes),
			Threads: l.Pids, CPUPercent: int64(l.CPUs * 100), Timeout: config.Duration(l.Timeout),
		},
		Limits:  limitSettings{MaxInputBytes: config.Bytes(l.MaxInputBytes), MaxResultBytes: config.Bytes(l.MaxResultBytes)},
		Metrics: metricsSettings{Listen: "127.0.0.1:9467"},
		Log:     logSettings{Level: "info"},
	}
}

// loadSettings reads the file and the environment.
func loadSettings(path string) (*settings, error) {
	s := defaults()
	if err := config.Load(path, os.Environ(), s); err != nil {
		return nil, err
	}
	return s, nil
}

// lastUID is the highest host id a slot may use: beyond it some tools read a
// negative number.
const lastUID = 1<<31 - 1

// Validate implements config.Validator.
func (s *settings) Validate() config.Problems {
	var c config.Check
	c.NotEmpty("listen.socket", s.Listen.Socket, "an absolute path of at most 100 bytes")
	c.Require(len(s.Listen.Socket) <= 100, "listen.socket", "is too long for a unix socket", "at most 100 bytes", "choose a shorter path")
	c.Range("listen.peer_uid", s.Listen.PeerUID, 0, lastUID, "(a user id)")
	c.NotEmpty("engine.socket", s.Engine.Socket, "the absolute path of podman's socket")
	c.Require(filepath.IsAbs(s.Slots.Root) && filepath.Clean(s.Slots.Root) != "/", "slots.root", "is not an absolute path below /", "an absolute path", "set a folder of the launcher's own")
	c.Range("sandbox.slots", s.Sandbox.Slots, 1, 256, "slots")
	c.Range("sandbox.warm", s.Sandbox.Warm, -1, s.Sandbox.Slots, "slots with a container made ahead (-1: all)")
	s.checkRange(&c)
	switch slotfs.Backing(s.Slots.Backing) {
	case slotfs.Auto, slotfs.Tmpfs, slotfs.Loop:
	default:
		c.Require(false, "slots.backing", "is of no known kind", "auto, tmpfs or loop", "correct it")
	}
	files := slotfs.Config{Backing: slotfs.Backing(s.Slots.Backing), MaxInputBytes: s.Limits.MaxInputBytes.Int64(), MaxResultBytes: s.Limits.MaxResultBytes.Int64()}
	c.Require(!userns.Inside() || files.Resolve() != slotfs.Loop, "slots.backing", "comes to disks, which a rootless launcher cannot mount",
		fmt.Sprintf("limits.max_input_bytes and limits.max_result_bytes of %d together, or backing tmpfs", slotfs.AutoTmpfsBytes), "lower the limits, or take the slots' files into memory")
	requireImage(&c, "sandbox.image", s.Sandbox.Image)
	requireImage(&c, "selftest.image", s.SelfTest.Image)
	c.NotEmpty("sandbox.runtime", s.Sandbox.Runtime, "the name of an OCI runtime, as runc")
	c.Range("sandbox.memory_bytes", s.Sandbox.MemoryBytes.Int64(), container.MinMemoryBytes, 1<<46, "bytes")
	c.Range("sandbox.address_space_bytes", s.Sandbox.AddressSpaceBytes.Int64(), container.MinAddressSpaceBytes, 1<<46, "bytes")
	c.Range("sandbox.threads", s.Sandbox.Threads, 1, 4096, "threads")
	c.Range("sandbox.cpu_percent", s.Sandbox.CPUPercent, 5, 25600, "percent of one processor")
	c.Span("sandbox.timeout", s.Sandbox.Timeout, 10*time.Millisecond, 24*time.Hour)
	c.Range("limits.max_input_bytes", s.Limits.MaxInputBytes.Int64(), 1, container.MaxFileBytes, "bytes")
	c.Range("limits.max_result_bytes", s.Limits.MaxResultBytes.Int64(), 1, container.MaxFileBytes, "bytes")
	if s.Metrics.Listen != "" {
		c.Require(isLoopback(s.Metrics.Listen), "metrics.listen", "is not a loopback address", "127.0.0.1:PORT, or empty for none", "figures are not for the network")
	}
	if _, err := logging.ParseLevel(s.Log.Level); err != nil {
		c.Require(false, "log.level", "is not a level", "debug, info, warn or error", "correct it")
	}
	return c.Problems()
}

// checkRange demands ids for each slot and for the self-test's.
func (s *settings) checkRange(c *config.Check) {
	size := (s.Sandbox.Slots + 1) * container.IDRange
	if userns.Inside() {
		if err := userns.Require(uint64(max(s.Slots.UIDBase, 0)), uint64(max(size, 0))); err != nil {
			c.Require(false, "slots.uid_base", err.Error(), "1 or more, with 65536 ids for each slot and one more", "enlarge the range or use fewer slots")
		}
		return
	}
	c.Require(s.Slots.UIDBase >= 1<<17 && s.Slots.UIDBase+size-1 <= lastUID, "slots.uid_base", "leaves no room for the slots",
		"131072 or more, with 65536 ids for each slot and one more below 2147483648", "choose a range that no user and no /etc/subuid line has")
}

func requireImage(c *config.Check, key, text string) {
	if _, err := image.ParseRef(text); err != nil {
		is := err.Error()
		if text == "" {
			is = "is not set"
		}
		c.Require(false, key, is, "oci:/absolute/layout@sha256:DIGEST", "take the \"ref\" that ci/image prints")
	}
}

func isLoopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback()
}

// limits are the sandbox's bounds.
func (s *settings) limits() (container.Limits, error) {
	l := container.Defaults()
	l.MemoryBytes, l.AddressSpaceBytes = s.Sandbox.MemoryBytes.Int64(), s.Sandbox.AddressSpaceBytes.Int64()
	l.Pids, l.CPUs = s.Sandbox.Threads, float64(s.Sandbox.CPUPercent)/100
	l.MaxInputBytes, l.MaxResultBytes = s.Limits.MaxInputBytes.Int64(), s.Limits.MaxResultBytes.Int64()
	l.Timeout = s.Sandbox.Timeout.Std()
	return l, l.Validate()
}

// warm is how many containers are made ahead.
func (s *settings) warm() int {
	if s.Sandbox.Warm < 0 {
		return int(s.Sandbox.Slots)
	}
	return int(s.Sandbox.Warm)
}

// name is the launcher's own name, which its containers and cgroups bear. It
// follows from slots.root, of which a lock keeps every second launcher away: so
// none ever takes another's attempts for leftovers.
func (s *settings) name() (string, error) {
	root, err := filepath.Abs(s.Slots.Root)
	if err != nil || root == "" {
		return "", errors.New("slots.root has no absolute form")
	}
	sum := sha256.Sum256([]byte(root))
	return "glovebox-" + hex.EncodeToString(sum[:4]), nil
}
