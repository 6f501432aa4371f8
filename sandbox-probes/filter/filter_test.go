package filter

import (
	"testing"

	"glovebox/threat-model/evidence"
)

// model decides as the table says, written anew from its words.
func model(t Table, edit func(Call, uint32) uint32) Decide {
	byNumber := map[int32]bool{}
	for _, n := range t.Allow {
		byNumber[n] = true
	}
	return func(call Call) (uint32, error) {
		answer := uint32(KillProcess)
		switch {
		case call.Arch != X86_64 || call.Number&X32 != 0 && call.Number > 0:
		case byNumber[call.Number]:
			answer = Allow
		default:
			for _, a := range t.Answer {
				if a.Number == call.Number {
					answer = Errno | a.Errno
				}
			}
			for _, c := range t.Conditional {
				for _, args := range c.Pass {
					if withArgs(c.Number, args) == call {
						answer = Allow
					}
				}
			}
		}
		return edit(call, answer), nil
	}
}

func TestCompareNoticesEachChange(t *testing.T) {
	evidence.Proves(t, "SBX-06")
	table, err := Load()
	if err != nil {
		t.Fatal(err)
	}
	same := func(_ Call, answer uint32) uint32 { return answer }
	if faults, decisions, err := table.Compare(model(table, same), KillProcess); err != nil || len(faults) != 0 || decisions < 5000 {
		t.Fatalf("control: %v, %d decisions, %v", faults, decisions, err)
	}
	named := map[int32]bool{}
	for _, n := range table.Numbers() {
		named[n] = true
	}
	for number := range int32(480) { // the kernel's table ends before
		change := func(call Call, answer uint32) uint32 {
			switch {
			case call.Number != number || call.Arch != X86_64:
				return answer
			case named[number]:
				return KillProcess
			}
			return Allow
		}
		if faults, _, err := table.Compare(model(table, change), KillProcess); err != nil || len(faults) == 0 {
			t.Errorf("call %d decided otherwise is not noticed (%v)", number, err)
		}
	}
	for name, change := range map[string]func(Call, uint32) uint32{
		"the 32-bit door": func(c Call, a uint32) uint32 {
			if c.Arch == I386 {
				return Allow
			}
			return a
		},
		"the x32 door": func(c Call, a uint32) uint32 {
			if c.Number == X32|39 {
				return Allow
			}
			return a
		},
	} {
		if faults, _, err := table.Compare(model(table, change), KillProcess); err != nil || len(faults) == 0 {
			t.Errorf("%s open is not noticed (%v)", name, err)
		}
	}
}

func TestRunKnowsTheInstructions(t *testing.T) {
	data := Call{Number: 59, Arch: X86_64, Args: [6]uint64{0x1_0000_0002, 3}}
	tests := map[string]struct {
		program []Instruction
		want    uint32
	}{
		"return k":        {[]Instruction{{0x06, 0, 0, Allow}}, Allow},
		"return a":        {[]Instruction{{0x20, 0, 0, 0}, {0x16, 0, 0, 0}}, 59},
		"load high half":  {[]Instruction{{0x20, 0, 0, 20}, {0x16, 0, 0, 0}}, 1},
		"jump if equal":   {[]Instruction{{0x20, 0, 0, 4}, {0x15, 1, 0, X86_64}, {0x06, 0, 0, 1}, {0x06, 0, 0, 2}}, 2},
		"jump if not":     {[]Instruction{{0x20, 0, 0, 0}, {0x15, 0, 1, 60}, {0x06, 0, 0, 1}, {0x06, 0, 0, 2}}, 2},
		"jump if greater": {[]Instruction{{0x20, 0, 0, 0}, {0x25, 0, 1, 58}, {0x06, 0, 0, 1}, {0x06, 0, 0, 2}}, 1},
		"jump if set":     {[]Instruction{{0x20, 0, 0, 24}, {0x45, 0, 1, 4}, {0x06, 0, 0, 1}, {0x06, 0, 0, 2}}, 2},
		"jump always":     {[]Instruction{{0x05, 0, 0, 1}, {0x06, 0, 0, 1}, {0x06, 0, 0, 2}}, 2},
		"and, scratch":    {[]Instruction{{0x20, 0, 0, 24}, {0x54, 0, 0, 2}, {0x02, 0, 0, 3}, {0x00, 0, 0, 0}, {0x60, 0, 0, 3}, {0x16, 0, 0, 0}}, 2},
		"x register":      {[]Instruction{{0x01, 0, 0, 5}, {0x00, 0, 0, 6}, {0x0c, 0, 0, 0}, {0x16, 0, 0, 0}}, 11},
	}
	for name, test := range tests {
		if got, err := Run(test.program, data); err != nil || got != test.want {
			t.Errorf("%s: %#x, %v; wanted %#x", name, got, err, test.want)
		}
	}
	for name, program := range map[string][]Instruction{
		"no answer": {{0x20, 0, 0, 0}}, "odd offset": {{0x20, 0, 0, 2}, {0x16, 0, 0, 0}}, "beyond": {{0x20, 0, 0, 64}, {0x16, 0, 0, 0}},
		"division by zero": {{0x34, 0, 0, 0}, {0x16, 0, 0, 0}},
	} {
		if _, err := Run(program, data); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestStrictestAnswerCounts(t *testing.T) {
	one := func(answer uint32) []Instruction { return []Instruction{{0x06, 0, 0, answer}} }
	for _, programs := range [][][]Instruction{{one(Allow), one(KillProcess)}, {one(KillProcess), one(Allow)}, {one(Errno | 1), one(KillProcess), one(KillThread)}} {
		if got, err := Of(programs)(Call{}); err != nil || got != KillProcess {
			t.Errorf("%s, %v", Say(got), err)
		}
	}
	if got, _ := Of([][]Instruction{one(Allow), one(Errno | 1)})(Call{}); got != Errno|1 {
		t.Error(Say(got))
	}
}
