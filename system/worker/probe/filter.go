package probe

import (
	"fmt"
	"os"
	"slices"

	"glovebox/system/worker/internal/container/seccomp"
)

// Filter chooses the seccomp profile of an attempt. The zero value is the core's.
type Filter struct {
	// Errno lets a forbidden call fail with EPERM instead of killing, so that one
	// attempt can try many.
	Errno bool
	// Off runs without a filter, to see the walls behind it.
	Off bool
	// Add allows names whatever their arguments, Remove forbids names.
	Add, Remove []string
}

func (b *Bench) profile(f Filter) (string, error) {
	text, err := f.render()
	if err != nil {
		return "", err
	}
	file, err := os.CreateTemp(b.dir, "profile-*.json")
	if err != nil {
		return "", fmt.Errorf("write the profile: %w", err)
	}
	_, err = file.Write(text)
	if closeErr := file.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return "", fmt.Errorf("write the profile: %w", err)
	}
	return file.Name(), nil
}

func (f Filter) render() ([]byte, error) {
	if f.Off {
		return []byte(`{"defaultAction":"SCMP_ACT_ALLOW","architectures":["SCMP_ARCH_X86_64","SCMP_ARCH_X86","SCMP_ARCH_X32"],"syscalls":[]}`), nil
	}
	policy, err := seccomp.Load()
	if err != nil {
		return nil, err
	}
	if len(f.Add) > 0 {
		policy = policy.With(f.Add...)
	}
	if len(f.Remove) > 0 {
		policy = without(policy, f.Remove)
	}
	mode := seccomp.Core
	if f.Errno {
		mode = seccomp.Probe
	}
	return policy.Render(mode)
}

// Profile returns the bytes of the profile that f stands for, in the engine's form.
func (f Filter) Profile() ([]byte, error) { return f.render() }

// without takes names out of the policy, wherever they stand.
func without(p seccomp.Policy, names []string) seccomp.Policy {
	gone := func(name string) bool { return slices.Contains(names, name) }
	out := seccomp.Policy{Note: p.Note, Architectures: p.Architectures, Allow: map[string][]string{}}
	for reason, group := range p.Allow {
		out.Allow[reason] = slices.DeleteFunc(slices.Clone(group), gone)
	}
	out.Conditional = slices.DeleteFunc(slices.Clone(p.Conditional), func(c seccomp.Conditional) bool { return gone(c.Name) })
	out.Errno = slices.DeleteFunc(slices.Clone(p.Errno), func(e seccomp.Errno) bool { return gone(e.Name) })
	return out
}

// Names lists what the policy allows, in whole or by argument, and what it
// answers with an error of its own.
func Names() (allowed, answered []string, err error) {
	policy, err := seccomp.Load()
	if err != nil {
		return nil, nil, err
	}
	for _, group := range policy.Allow {
		allowed = append(allowed, group...)
	}
	for _, c := range policy.Conditional {
		allowed = append(allowed, c.Name)
	}
	for _, e := range policy.Errno {
		answered = append(answered, e.Name)
	}
	slices.Sort(allowed)
	slices.Sort(answered)
	return allowed, answered, nil
}
