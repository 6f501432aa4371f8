package userns

import (
	"errors"
	"testing"

	"glovebox/threat-model/evidence"
)

// rootless is the map that podman makes for a user 1000 with one sub-id range.
var rootless = Map{{0, 1000, 1}, {1, 300000, 262144}}

func TestARangeMustLieInOneExtentAndSpareRoot(t *testing.T) {
	evidence.Proves(t, "SBX-01")
	for name, c := range map[string]struct {
		m          Map
		base, size uint64
		want       bool
	}{
		"host":                      {whole, 1_900_000_000, 65536, true},
		"first slot":                {rootless, 1, 65536, true},
		"last slot":                 {rootless, 196609, 65536, true},
		"one id beyond":             {rootless, 196610, 65536, false},
		"with the namespace's root": {rootless, 0, 65536, false},
		"root of the host":          {whole, 0, 65536, false},
		"over two extents":          {Map{{0, 1000, 1}, {1, 300000, 65536}, {65537, 900000, 65536}}, 32769, 65536, false},
		"second extent":             {Map{{0, 1000, 1}, {1, 300000, 65536}, {65537, 900000, 65536}}, 65537, 65536, true},
		"nothing":                   {rootless, 1, 0, false},
		"no map":                    {nil, 1, 1, false},
	} {
		if got := c.m.covers(c.base, c.size); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestOutside(t *testing.T) {
	for id, want := range map[uint64]uint64{0: 1000, 1: 300000, 65533: 365532} {
		if got, err := rootless.outside(id); err != nil || got != want {
			t.Errorf("%d is outside %d, %v; wanted %d", id, got, err, want)
		}
	}
	if _, err := rootless.outside(1 << 20); !errors.Is(err, ErrUnmapped) {
		t.Errorf("error is %v", err)
	}
}

func TestParse(t *testing.T) {
	m, err := Parse("         0       1000          1\n         1     300000     262144\n")
	if err != nil || len(m) != 2 || m[1] != rootless[1] {
		t.Errorf("%v, %v", m, err)
	}
	if _, err := Parse("0 x 1\n"); err == nil {
		t.Error("a malformed line is taken")
	}
}
