// Package filter holds the system-call filter against an expected table, in user
// space: the program that the kernel has installed for a core is fetched from the
// kernel and run over every call number, every argument case and every
// architecture, without making a single call.
package filter

import (
	"encoding/binary"
	"fmt"
)

// Instruction is one of classic BPF, as the kernel keeps it.
type Instruction struct {
	Code   uint16
	JT, JF uint8
	K      uint32
}

// Call is what a filter sees of a system call (struct seccomp_data).
type Call struct {
	Number int32
	Arch   uint32
	IP     uint64
	Args   [6]uint64
}

// Architectures by the kernel's audit numbers.
const (
	X86_64 = 0xc000003e
	I386   = 0x40000003
	ARM64  = 0xc00000b7
)

// X32 is set in the number of a call by the x32 door.
const X32 = 0x40000000

// Actions of a filter, without their data.
const (
	KillProcess = 0x80000000
	KillThread  = 0x00000000
	Errno       = 0x00050000
	Allow       = 0x7fff0000
)

// Action splits a filter's answer into action and data.
func Action(answer uint32) (action, data uint32) { return answer & 0xffff0000, answer & 0xffff }

// Say puts an answer into words.
func Say(answer uint32) string {
	action, data := Action(answer)
	switch action {
	case KillProcess:
		return "kill process"
	case KillThread:
		return "kill thread"
	case Errno:
		return fmt.Sprintf("errno %d", data)
	case Allow:
		return "allow"
	}
	return fmt.Sprintf("action %#x", answer)
}

// Instruction classes and parts of classic BPF that a seccomp filter may use.
const (
	classMask = 0x07
	ld        = 0x00
	ldx       = 0x01
	st        = 0x02
	stx       = 0x03
	alu       = 0x04
	jmp       = 0x05
	ret       = 0x06
	misc      = 0x07

	modeMask = 0xe0
	absolute = 0x20
	imm      = 0x00
	mem      = 0x60
	length   = 0x80

	opMask = 0xf0
	srcX   = 0x08
)

// dataSize is the size of struct seccomp_data.
const dataSize = 64

func (c Call) bytes() [dataSize]byte {
	var b [dataSize]byte
	binary.NativeEndian.PutUint32(b[0:], uint32(c.Number))
	binary.NativeEndian.PutUint32(b[4:], c.Arch)
	binary.NativeEndian.PutUint64(b[8:], c.IP)
	for i, arg := range c.Args {
		binary.NativeEndian.PutUint64(b[16+8*i:], arg)
	}
	return b
}

// Run runs program on call and returns its answer.
func Run(program []Instruction, call Call) (uint32, error) {
	var a, x uint32
	var scratch [16]uint32
	data := call.bytes()
	for pc := 0; pc < len(program); pc++ {
		in := program[pc]
		operand := in.K
		if in.Code&srcX != 0 {
			operand = x
		}
		switch in.Code & classMask {
		case ld, ldx:
			value, err := load(in, data, scratch)
			if err != nil {
				return 0, fmt.Errorf("instruction %d: %w", pc, err)
			}
			if in.Code&classMask == ld {
				a = value
			} else {
				x = value
			}
		case st, stx:
			if in.K >= uint32(len(scratch)) {
				return 0, fmt.Errorf("instruction %d: no scratch word %d", pc, in.K)
			}
			if scratch[in.K] = a; in.Code&classMask == stx {
				scratch[in.K] = x
			}
		case alu:
			value, err := compute(in.Code&opMask, a, operand)
			if err != nil {
				return 0, fmt.Errorf("instruction %d: %w", pc, err)
			}
			a = value
		case jmp:
			skip, err := jump(in, a, operand)
			if err != nil {
				return 0, fmt.Errorf("instruction %d: %w", pc, err)
			}
			pc += skip
		case ret:
			if in.Code&0x18 == 0x10 {
				return a, nil
			}
			return in.K, nil
		case misc:
			if in.Code&0xf8 == 0x80 {
				a = x
			} else {
				x = a
			}
		}
	}
	return 0, fmt.Errorf("the program of %d instructions ends without an answer", len(program))
}

func load(in Instruction, data [dataSize]byte, scratch [16]uint32) (uint32, error) {
	switch in.Code & modeMask {
	case absolute:
		if in.K%4 != 0 || in.K > dataSize-4 {
			return 0, fmt.Errorf("no word at offset %d", in.K)
		}
		return binary.NativeEndian.Uint32(data[in.K:]), nil
	case imm:
		return in.K, nil
	case length:
		return dataSize, nil
	case mem:
		if in.K >= uint32(len(scratch)) {
			return 0, fmt.Errorf("no scratch word %d", in.K)
		}
		return scratch[in.K], nil
	}
	return 0, fmt.Errorf("load %#x is not one a filter may use", in.Code)
}

func compute(op uint16, a, operand uint32) (uint32, error) {
	switch op {
	case 0x00:
		return a + operand, nil
	case 0x10:
		return a - operand, nil
	case 0x20:
		return a * operand, nil
	case 0x30:
		if operand == 0 {
			return 0, fmt.Errorf("division by zero")
		}
		return a / operand, nil
	case 0x40:
		return a | operand, nil
	case 0x50:
		return a & operand, nil
	case 0x60:
		return a << (operand & 31), nil
	case 0x70:
		return a >> (operand & 31), nil
	case 0x80:
		return -a, nil
	case 0xa0:
		return a ^ operand, nil
	}
	return 0, fmt.Errorf("operation %#x is unknown", op)
}

func jump(in Instruction, a, operand uint32) (int, error) {
	var taken bool
	switch in.Code & opMask {
	case 0x00:
		return int(in.K), nil
	case 0x10:
		taken = a == operand
	case 0x20:
		taken = a > operand
	case 0x30:
		taken = a >= operand
	case 0x40:
		taken = a&operand != 0
	default:
		return 0, fmt.Errorf("jump %#x is unknown", in.Code)
	}
	if taken {
		return int(in.JT), nil
	}
	return int(in.JF), nil
}
