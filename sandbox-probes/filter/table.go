package filter

import (
	"bytes"
	_ "embed"
	"fmt"
	"maps"
	"slices"

	"gopkg.in/yaml.v3"
)

//go:embed syscalls.yaml
var text []byte

// MaxNumber is the last call number that is looked at; the kernel's table ends
// below 500.
const MaxNumber = 1023

// Conditional is a call that is allowed by argument.
type Conditional struct {
	Number int32      `yaml:"number"`
	Why    string     `yaml:"why"`
	Pass   [][]uint64 `yaml:"pass"`
	Kill   [][]uint64 `yaml:"kill"`
}

// Answered is a call that always fails with an error number.
type Answered struct {
	Number int32  `yaml:"number"`
	Errno  uint32 `yaml:"errno"`
	Why    string `yaml:"why"`
}

// Table is what a filter must decide.
type Table struct {
	Allow       map[string]int32       `yaml:"allow"`
	Conditional map[string]Conditional `yaml:"conditional"`
	Answer      map[string]Answered    `yaml:"answer"`
}

// Load reads the built-in table.
func Load() (Table, error) {
	var t Table
	dec := yaml.NewDecoder(bytes.NewReader(text))
	dec.KnownFields(true)
	if err := dec.Decode(&t); err != nil {
		return t, fmt.Errorf("read syscalls.yaml: %w", err)
	}
	return t, nil
}

// Numbers returns every number that does not always kill, in order.
func (t Table) Numbers() []int32 {
	var all []int32
	for _, n := range t.Allow {
		all = append(all, n)
	}
	for _, c := range t.Conditional {
		all = append(all, c.Number)
	}
	for _, a := range t.Answer {
		all = append(all, a.Number)
	}
	slices.Sort(all)
	return all
}

// Names returns the names that are allowed, in whole or by argument, in order.
func (t Table) Names() []string {
	names := slices.Collect(maps.Keys(t.Allow))
	names = slices.AppendSeq(names, maps.Keys(t.Conditional))
	slices.Sort(names)
	return names
}

// Decide is a filter: what it answers to a call.
type Decide func(Call) (uint32, error)

// Of makes a Decide of filters that are installed together: the kernel runs all
// of them and takes the strictest answer.
func Of(programs [][]Instruction) Decide {
	return func(call Call) (uint32, error) {
		answer := uint32(Allow)
		for _, p := range programs {
			one, err := Run(p, call)
			if err != nil {
				return 0, err
			}
			if a, _ := Action(one); int32(a) < int32(answer&0xffff0000) { // the order is that of signed numbers
				answer = one
			}
		}
		return answer, nil
	}
}

// Fault is one decision that is not the table's.
type Fault struct {
	Call      string
	Want, Got string
}

func (f Fault) String() string { return fmt.Sprintf("%s: expected %s, got %s", f.Call, f.Want, f.Got) }

// Compare runs decide over the whole table and returns what differs, with the
// number of decisions looked at. unnamed is the action for all that is not in the
// table: killing, or EPERM under the probes' profile. Numbers above all named ones
// may be answered ENOSYS instead, as the runtime does.
func (t Table) Compare(decide Decide, unnamed uint32) (faults []Fault, decisions int, err error) {
	c := comparison{decide: decide, unnamed: unnamed, top: slices.Max(t.Numbers())}
	named := map[int32]bool{}
	for _, n := range t.Numbers() {
		named[n] = true
	}
	for number := int32(0); number <= MaxNumber; number++ {
		if !named[number] {
			c.refused(Call{Number: number, Arch: X86_64})
			c.refused(Call{Number: number, Arch: X86_64, Args: [6]uint64{^uint64(0), ^uint64(0), ^uint64(0), ^uint64(0), ^uint64(0), ^uint64(0)}})
		}
		for _, arch := range []uint32{I386, ARM64, 0} {
			c.killed(Call{Number: number, Arch: arch})
		}
		c.refused(Call{Number: number | X32, Arch: X86_64})
	}
	c.refused(Call{Number: -1, Arch: X86_64})
	for _, number := range t.Allow {
		c.expect(Call{Number: number, Arch: X86_64}, "allow", Allow)
		c.expect(Call{Number: number, Arch: X86_64, Args: [6]uint64{7, 7, 7, 7, 7, 7}}, "allow", Allow)
	}
	for _, a := range t.Answer {
		c.expect(Call{Number: a.Number, Arch: X86_64}, Say(Errno|a.Errno), Errno|a.Errno)
	}
	for _, k := range t.Conditional {
		for _, args := range k.Pass {
			c.expect(withArgs(k.Number, args), "allow", Allow)
		}
		for _, args := range k.Kill {
			c.refused(withArgs(k.Number, args))
		}
	}
	return c.faults, c.decisions, c.err
}

func withArgs(number int32, args []uint64) Call {
	call := Call{Number: number, Arch: X86_64}
	copy(call.Args[:], args)
	return call
}

type comparison struct {
	decide    Decide
	unnamed   uint32
	top       int32
	faults    []Fault
	decisions int
	err       error
}

func (c *comparison) ask(call Call) (uint32, bool) {
	if c.err != nil {
		return 0, false
	}
	var answer uint32
	answer, c.err = c.decide(call)
	c.decisions++
	return answer, c.err == nil
}

func (c *comparison) fault(call Call, want string, got uint32) {
	c.faults = append(c.faults, Fault{fmt.Sprintf("call %d of architecture %#x with %x", call.Number, call.Arch, call.Args), want, Say(got)})
}

func (c *comparison) expect(call Call, want string, answer uint32) {
	if got, ok := c.ask(call); ok && got != answer {
		c.fault(call, want, got)
	}
}

// refused wants the action for what is not named.
func (c *comparison) refused(call Call) {
	got, ok := c.ask(call)
	if !ok || got == c.unnamed {
		return
	}
	const enosys = 38
	if call.Number > c.top && call.Number&X32 == 0 && got == Errno|enosys {
		return
	}
	if call.Number&X32 != 0 && killing(got) {
		return
	}
	c.fault(call, Say(c.unnamed), got)
}

// killed wants the end of at least the thread.
func (c *comparison) killed(call Call) {
	if got, ok := c.ask(call); ok && !killing(got) {
		c.fault(call, "kill", got)
	}
}

func killing(answer uint32) bool {
	action, _ := Action(answer)
	return action == KillProcess || action == KillThread
}
