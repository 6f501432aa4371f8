// Package posture collects all that the kernel says of a core, from inside by the
// posture probe and from outside of the same process, and compares each line with
// what is expected. One whole comparison finds what nobody thought of asking.
package posture

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Posture is one view of a process: a name for each thing the kernel shows.
type Posture map[string]string

// View translates numbers that differ from run to run into words that do not.
type View struct {
	UIDBase, IDRange uint32
	Name             string            // of the attempt
	Label            string            // of its launcher
	Namespaces       map[string]string // the host's own, by type
}

var (
	number   = regexp.MustCompile(`\d+`)
	longID   = regexp.MustCompile(`[0-9a-f]{64}`)
	quantity = regexp.MustCompile(`(size|nr_inodes)=\d+k?`)
	pipeName = regexp.MustCompile(`^(pipe|socket):\[\d+\]$`)
)

// words replaces ids of the slot's range, random names and sizes of host memory.
func (v View) words(text string) string {
	if v.Name != "" {
		text = strings.ReplaceAll(text, v.Name, "ATTEMPT")
	}
	if v.Label != "" {
		text = strings.ReplaceAll(text, v.Label, "LAUNCHER")
	}
	text = longID.ReplaceAllString(text, "ID")
	text = quantity.ReplaceAllString(text, "$1=N")
	return number.ReplaceAllStringFunc(text, func(s string) string {
		n, err := strconv.ParseUint(s, 10, 64)
		if err != nil || n < uint64(v.UIDBase) || n >= uint64(v.UIDBase)+uint64(v.IDRange) || v.UIDBase == 0 {
			return s
		}
		if n == uint64(v.UIDBase) {
			return "BASE"
		}
		return "BASE+" + strconv.FormatUint(n-uint64(v.UIDBase), 10)
	})
}

func (v View) namespace(kind, target string) string {
	if host, ok := v.Namespaces[kind]; ok && host == target {
		return "the host's"
	}
	return "its own"
}

// volatile are fields of status that change by themselves, or that the host's
// processor decides.
var volatile = []string{"Name", "State", "Tgid", "Ngid", "Pid", "PPid", "TracerPid", "FDSize", "NStgid", "NSpgid", "NSsid", "Kthread",
	"HugetlbPages", "CoreDumping", "THP_enabled", "untag_mask", "x86_Thread_features", "x86_Thread_features_locked", "SigQ", "Speculation_Store_Bypass",
	"SpeculationIndirectBranch", "Cpus_allowed", "Cpus_allowed_list", "Mems_allowed", "Mems_allowed_list", "voluntary_ctxt_switches",
	"nonvoluntary_ctxt_switches"}

func (v View) status(into Posture, text string) {
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if slices.Contains(volatile, name) || strings.HasPrefix(name, "Vm") || strings.HasPrefix(name, "Rss") {
			continue
		}
		value = strings.Join(strings.Fields(value), " ")
		if name == "NSpid" { // how deep, not which
			value = fmt.Sprintf("%d levels", len(strings.Fields(value)))
		}
		if name == "SigIgn" {
			value = withoutLibrarySignals(value)
		}
		into["status "+name] = v.words(value)
	}
}

// librarySignals are the two that glibc keeps to itself, 32 and 33 (nptl(7)). Its
// posix_spawn leaves them ignored in what it starts, and so make in the engine and
// in every core below: who started the engine decides, not the sandbox.
const librarySignals = 1<<31 | 1<<32

// withoutLibrarySignals clears those in a mask; what is no mask stays as it is.
func withoutLibrarySignals(mask string) string {
	set, err := strconv.ParseUint(mask, 16, 64)
	if err != nil {
		return mask
	}
	return fmt.Sprintf("%016x", set&^librarySignals)
}

func (v View) limits(into Posture, text string) {
	for line := range strings.Lines(text) {
		if len(line) < 68 || !strings.HasPrefix(line, "Max ") {
			continue
		}
		name := strings.TrimSpace(line[:26])
		if name == "Max pending signals" { // the host's memory decides
			continue
		}
		into["limit "+name[4:]] = strings.TrimSpace(line[26:47]) + " / " + strings.TrimSpace(line[47:68])
	}
}

// mounts lists what can be reached: a mount is out of sight when a later one
// covers its place.
func (v View) mounts(into Posture, text string) {
	type mount struct{ place, value string }
	var seen []mount
	for line := range strings.Lines(text) {
		left, right, ok := strings.Cut(strings.TrimSpace(line), " - ")
		l, r := strings.Fields(left), strings.Fields(right)
		if !ok || len(l) < 6 || len(r) < 3 {
			into["mount unreadable"] = line
			continue
		}
		place := l[4]
		seen = slices.DeleteFunc(seen, func(m mount) bool {
			return m.place == place && place != "/" || strings.HasPrefix(m.place, strings.TrimSuffix(place, "/")+"/")
		})
		seen = append(seen, mount{place, v.words(fmt.Sprintf("%s of %s, %s; file system %s", l[3], r[0], l[5], r[2]))})
	}
	for _, m := range seen {
		into["mount "+m.place] = m.value
	}
}

func (v View) cgroups(into Posture, text string) {
	paths := map[string]bool{}
	for line := range strings.Lines(text) {
		if fields := strings.SplitN(strings.TrimSpace(line), ":", 3); len(fields) == 3 {
			paths[v.words(fields[2])] = true
		}
	}
	into["cgroup"] = strings.Join(slices.Sorted(maps.Keys(paths)), " ")
}

// Difference is one line that is not as expected.
type Difference struct{ Key, Want, Got string }

func (d Difference) String() string {
	return fmt.Sprintf("%s: expected %q, got %q", d.Key, d.Want, d.Got)
}

// absent stands for a line that is not there.
const absent = "(absent)"

// Diff compares line by line, both ways.
func Diff(want map[string]Line, got Posture) []Difference {
	var out []Difference
	for _, key := range slices.Sorted(maps.Keys(want)) {
		value, ok := got[key]
		switch {
		case !ok && want[key].MayLack:
		case !ok:
			out = append(out, Difference{key, want[key].Is, absent})
		case value != want[key].Is:
			out = append(out, Difference{key, want[key].Is, value})
		}
	}
	for _, key := range slices.Sorted(maps.Keys(got)) {
		if _, ok := want[key]; !ok {
			out = append(out, Difference{key, absent, got[key]})
		}
	}
	return out
}
