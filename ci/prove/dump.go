package main

import (
	"bytes"
	"errors"
	"fmt"
)

// withoutLines blanks, in the stripped bytecode of Lua 5.4, the two line numbers
// each function keeps (where it begins and ends), and nothing else. What is left
// is the program: code, constants in full, upvalues, parameters, stack sizes.
// Comparing dumps is stricter than comparing listings, which round floats.
//
// The format is that of ldump.c; anything unexpected is an error, and so is
// debug information that stripping should have removed.
func withoutLines(dump []byte) ([]byte, error) {
	d := &dumpReader{in: dump}
	d.copyBytes(headerSize)
	if !bytes.HasPrefix(dump, []byte("\x1bLua\x54\x00")) {
		return nil, errors.New("not a bytecode file of Lua 5.4")
	}
	d.copyBytes(1) // upvalues of the main function
	d.function()
	if d.err == nil && d.at != len(d.in) {
		d.err = fmt.Errorf("%d bytes after the program", len(d.in)-d.at)
	}
	if d.err != nil {
		return nil, fmt.Errorf("read bytecode: %w", d.err)
	}
	return d.out, nil
}

// Signature, version, format, check bytes, three sizes, two check numbers.
const headerSize = 4 + 1 + 1 + 6 + 3 + 8 + 8

// Type tags of constants, from lobject.h.
const (
	tagNil         = 0x00
	tagFalse       = 0x01
	tagTrue        = 0x11
	tagInteger     = 0x03
	tagFloat       = 0x13
	tagShortString = 0x04
	tagLongString  = 0x14
)

type dumpReader struct {
	in  []byte
	at  int
	out []byte
	err error
}

func (d *dumpReader) copyBytes(n int) {
	if d.err != nil {
		return
	}
	if n < 0 || n > len(d.in)-d.at {
		d.err = errors.New("it ends too early")
		return
	}
	d.out = append(d.out, d.in[d.at:d.at+n]...)
	d.at += n
}

// size reads an unsigned number of 7-bit groups, the last with the high bit set.
func (d *dumpReader) size(keep bool) int {
	start, value := d.at, 0
	for d.err == nil {
		if d.at == len(d.in) || value > 1<<40 {
			d.err = errors.New("a number does not end")
			return 0
		}
		b := d.in[d.at]
		d.at++
		value = value<<7 | int(b&0x7f)
		if b&0x80 != 0 {
			break
		}
	}
	if keep {
		d.out = append(d.out, d.in[start:d.at]...)
	}
	return value
}

func (d *dumpReader) count() int { return d.size(true) }

func (d *dumpReader) tag() byte {
	d.copyBytes(1)
	if d.err != nil {
		return tagNil
	}
	return d.out[len(d.out)-1]
}

func (d *dumpReader) text() {
	if n := d.count(); n > 0 {
		d.copyBytes(n - 1)
	}
}

func (d *dumpReader) function() {
	d.text() // source: absent when stripped
	d.size(false)
	d.size(false)
	d.copyBytes(3) // parameters, vararg, stack size
	const instruction, upvalue = 4, 3
	d.copyBytes(instruction * d.count())
	for range d.count() {
		d.constant()
	}
	d.copyBytes(upvalue * d.count())
	for range d.count() {
		if d.err != nil {
			return
		}
		d.function()
	}
	for range 4 { // line info, absolute line info, locals, upvalue names
		if n := d.count(); n != 0 && d.err == nil {
			d.err = errors.New("it is not stripped")
		}
	}
}

func (d *dumpReader) constant() {
	const number = 8
	switch tag := d.tag(); tag {
	case tagNil, tagFalse, tagTrue:
	case tagInteger, tagFloat:
		d.copyBytes(number)
	case tagShortString, tagLongString:
		d.text()
	default:
		d.err = fmt.Errorf("constant of unknown type %#x", tag)
	}
}
