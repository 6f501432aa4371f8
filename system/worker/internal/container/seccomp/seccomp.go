// Package seccomp renders the engine's seccomp profiles from one data file,
// policy.json, so that what is tried in the probes is what the core runs under.
//
// A call is allowed by name, or by name and arguments; anything else meets the
// profile's default action. Each condition is a list of alternatives, and an
// alternative is a list of comparisons that must all hold.
package seccomp

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"
)

//go:embed policy.json
var policyJSON []byte

// Mode chooses what happens on a call that the policy does not allow.
type Mode string

// The modes.
const (
	// Core kills the whole process: a core that asks for such a call is hostile or
	// broken, and the verdict says so.
	Core Mode = "SCMP_ACT_KILL_PROCESS"
	// Probe lets the call fail with EPERM, so that one probe can try many.
	Probe Mode = "SCMP_ACT_ERRNO"
)

// Policy is the data file.
type Policy struct {
	Note          string              `json:"note"`
	Architectures []string            `json:"architectures"`
	Allow         map[string][]string `json:"allow"` // reason -> names
	Conditional   []Conditional       `json:"conditional"`
	Errno         []Errno             `json:"errno"`
}

// Conditional allows a call where one of the alternatives holds.
type Conditional struct {
	Name string         `json:"name"`
	Why  string         `json:"why"`
	Any  [][]Comparison `json:"any"`
}

// Comparison holds when the argument, masked if there is a mask, equals a value.
type Comparison struct {
	Arg    uint   `json:"arg"`
	Mask   uint64 `json:"mask,omitempty"`
	Equals uint64 `json:"equals"`
}

// Errno answers a call with an error number in every mode.
type Errno struct {
	Name  string `json:"name"`
	Errno uint   `json:"errno"`
	Why   string `json:"why"`
}

// Load parses the built-in policy and refuses a name that appears twice.
func Load() (Policy, error) {
	var p Policy
	dec := json.NewDecoder(bytes.NewReader(policyJSON))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&p); err != nil {
		return Policy{}, fmt.Errorf("read the seccomp policy: %w", err)
	}
	seen := map[string]bool{}
	for _, name := range p.names() {
		if seen[name] {
			return Policy{}, fmt.Errorf("read the seccomp policy: %s appears twice", name)
		}
		seen[name] = true
	}
	return p, nil
}

func (p Policy) names() []string {
	var names []string
	for _, group := range p.Allow {
		names = append(names, group...)
	}
	for _, c := range p.Conditional {
		names = append(names, c.Name)
	}
	for _, e := range p.Errno {
		names = append(names, e.Name)
	}
	return names
}

// With returns a copy that allows names whatever their arguments. The self-test
// needs it to reach the walls behind the filter; the core's profile never does.
func (p Policy) With(names ...string) Policy {
	keep := func(name string) bool { return !slices.Contains(names, name) }
	out := Policy{Note: p.Note, Architectures: p.Architectures, Allow: map[string][]string{"lifted for a probe": names}}
	for reason, group := range p.Allow {
		for _, name := range group {
			if keep(name) {
				out.Allow[reason] = append(out.Allow[reason], name)
			}
		}
	}
	for _, c := range p.Conditional {
		if keep(c.Name) {
			out.Conditional = append(out.Conditional, c)
		}
	}
	for _, e := range p.Errno {
		if keep(e.Name) {
			out.Errno = append(out.Errno, e)
		}
	}
	return out
}

// profile is the engine's form.
type profile struct {
	DefaultAction   string   `json:"defaultAction"`
	DefaultErrnoRet *uint    `json:"defaultErrnoRet,omitempty"`
	Architectures   []string `json:"architectures"`
	Syscalls        []rule   `json:"syscalls"`
}

type rule struct {
	Names    []string   `json:"names"`
	Action   string     `json:"action"`
	ErrnoRet *uint      `json:"errnoRet,omitempty"`
	Args     []argument `json:"args"`
}

type argument struct {
	Index    uint   `json:"index"`
	Value    uint64 `json:"value"`
	ValueTwo uint64 `json:"valueTwo"`
	Op       string `json:"op"`
}

const (
	actAllow = "SCMP_ACT_ALLOW"
	actErrno = "SCMP_ACT_ERRNO"
)

// Render returns the profile of mode in the JSON form of podman and runc. The
// same policy gives the same bytes.
func (p Policy) Render(mode Mode) ([]byte, error) {
	out := profile{DefaultAction: string(mode), Architectures: p.Architectures}
	if mode == Probe {
		eperm := uint(1)
		out.DefaultErrnoRet = &eperm
	}
	var plain []string
	for _, group := range p.Allow {
		plain = append(plain, group...)
	}
	slices.Sort(plain)
	out.Syscalls = append(out.Syscalls, rule{Names: plain, Action: actAllow, Args: []argument{}})
	for _, c := range p.Conditional {
		for _, all := range c.Any {
			out.Syscalls = append(out.Syscalls, rule{Names: []string{c.Name}, Action: actAllow, Args: arguments(all)})
		}
	}
	for _, e := range p.Errno {
		out.Syscalls = append(out.Syscalls, rule{Names: []string{e.Name}, Action: actErrno, ErrnoRet: &e.Errno, Args: []argument{}})
	}
	text, err := json.MarshalIndent(out, "", " ")
	if err != nil {
		return nil, fmt.Errorf("render the seccomp profile: %w", err)
	}
	return text, nil
}

// arguments turns comparisons into libseccomp's: for a masked one, value is the
// mask and valueTwo what must remain.
func arguments(all []Comparison) []argument {
	args := make([]argument, 0, len(all))
	for _, c := range all {
		if c.Mask == 0 {
			args = append(args, argument{Index: c.Arg, Value: c.Equals, Op: "SCMP_CMP_EQ"})
			continue
		}
		args = append(args, argument{Index: c.Arg, Value: c.Mask, ValueTwo: c.Equals, Op: "SCMP_CMP_MASKED_EQ"})
	}
	return args
}
