package main

import (
	"bytes"
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"glovebox/threat-model/evidence"
)

const sample = "local a,b=1,2.5\nlocal function f(c)return c+a..'x\\n' end\nif not b then print(f(a,nil))end\nreturn f(b)\n"

// script writes a stand-in for the core: a shell program over stdin.
func script(t *testing.T, body string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "core")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+body+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

func sampleFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "sample.lua")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// A core that is wrong in one way must be found out under the right claim.
func TestProofFindsWrongCores(t *testing.T) {
	evidence.Proves(t, "HAR-01", "COR-04")
	cases := []struct {
		name, core, source, claim string
	}{
		{"the identity is right", "cat", sample, ""},
		{"one operator changed", "sed s/c+a/c-a/", sample, claimShipped},
		{"lines moved", `if [ "$1" = --keep-lines ]; then tr '\n' ' '; else cat; fi`, sample, claimKeptLines},
		{"refuses a program", "exit 3", sample, claimRefusals},
		{"accepts what is no program", "cat", "local = 1\n", claimRefusals},
		{"refuses what is no program", "exit 3", "local = 1\n", ""},
		{"output grows", "cat; echo 'local spare = 1'", sample, claimSize},
		{"output does not compile", "head -c 20", sample, claimShipped},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			v, err := proveFile(context.Background(), script(t, c.core), sampleFile(t, c.source))
			if err != nil {
				t.Fatal(err)
			}
			if v.claim != c.claim {
				t.Errorf("claim against which the fault counts: got %q (%s), want %q", v.claim, v.fault, c.claim)
			}
		})
	}
}

func TestSmallCorpusIsNoProof(t *testing.T) {
	evidence.Proves(t, "HAR-01")
	p := &proof{verdicts: make([]verdict, leastFiles-1)}
	if c := p.claims()[0]; c.name != claimCorpus || c.why == "" {
		t.Errorf("a corpus of %d files passed: %+v", leastFiles-1, c)
	}
}

func compiled(t *testing.T, source string, flags ...string) []byte {
	t.Helper()
	dump, ok, err := filter(context.Background(), []byte(source), compiler, append(flags, "-o", "-", "-")...)
	if err != nil || !ok {
		t.Fatalf("compile %q: %v %t", source, err, ok)
	}
	return dump
}

func TestComparisonSeesEverythingButLines(t *testing.T) {
	base := "local x=0.1 return function(a)return a+x end"
	cases := []struct {
		name, other string
		same        bool
	}{
		{"lines", "local x=0.1\n\nreturn function(a)\nreturn a+x\nend", true},
		{"names", "local y=0.1 return function(b)return b+y end", true},
		{"the 17th digit of a float", "local x=0.10000000000000002 return function(a)return a+x end", false},
		{"operator", "local x=0.1 return function(a)return a-x end", false},
		{"a parameter", "local x=0.1 return function(a,b)return a+x end", false},
		{"vararg", "local x=0.1 return function(a,...)return a+x end", false},
	}
	for _, c := range cases {
		same, err := sameCode(compiled(t, base, "-s"), compiled(t, c.other, "-s"))
		if err != nil {
			t.Fatal(err)
		}
		if same != c.same {
			t.Errorf("%s: same = %t", c.name, same)
		}
	}
}

func TestDumpsThatAreNotWhole(t *testing.T) {
	dump := compiled(t, sample, "-s")
	for cut := range len(dump) {
		if _, err := withoutLines(dump[:cut]); err == nil {
			t.Errorf("the first %d of %d bytes passed as a program", cut, len(dump))
		}
	}
	if _, err := withoutLines(append(bytes.Clone(dump), 0)); err == nil {
		t.Error("a program with a byte behind it passed")
	}
	if _, err := withoutLines(compiled(t, sample)); err == nil || !strings.Contains(err.Error(), "not stripped") {
		t.Errorf("unstripped bytecode: %v", err)
	}
}

// Every kind of mutation finds a place, changes the text, and is noticed.
func TestEveryMutationApplies(t *testing.T) {
	source := "local a=1 local b='x\\n'local function f(c)return f(c,a)end if not b then a=g+a end;(f)(a:m(true,b))return a and b\n"
	code, err := withoutLines(compiled(t, source, "-s"))
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(1, 1))
	for _, m := range mutations {
		text := strings.Replace(source, "g+a", "glob_al+a", 1)
		if m.name != "change a global" {
			text = source
		} else if code, err = withoutLines(compiled(t, text, "-s")); err != nil {
			t.Fatal(err)
		}
		places := m.find(scan([]byte(text)), r)
		if len(places) == 0 {
			t.Errorf("%s: no place found", m.name)
			continue
		}
		mutated := places[0].apply([]byte(text))
		if string(mutated) == text {
			t.Errorf("%s: the text did not change", m.name)
		}
		dump, ok, err := filter(context.Background(), mutated, compiler, "-s", "-o", "-", "-")
		if err != nil {
			t.Fatal(err)
		}
		if !ok {
			continue
		}
		changed, err := withoutLines(dump)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Equal(changed, code) {
			t.Errorf("%s: not noticed in %s", m.name, mutated)
		}
	}
}

func TestASurvivorFailsTheClaim(t *testing.T) {
	all := make([]mutant, 0, len(mutations))
	for _, m := range mutations {
		all = append(all, mutant{kind: m.name, outcome: differs})
	}
	tr := &trial{mutants: all}
	if c := tr.claims(len(all))[0]; c.why != "" {
		t.Fatalf("all noticed, yet: %s", c.why)
	}
	if c := tr.claims(len(all) + 1)[0]; c.why == "" {
		t.Error("too few mutants passed")
	}
	tr.mutants[3].outcome = survived
	if c := tr.claims(len(all))[0]; c.why == "" {
		t.Error("a mutant survived and the claim holds")
	}
}
