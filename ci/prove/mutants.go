package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

// A mutant is a correct output with one small fault in it.
type mutant struct {
	kind, path string
	text       []byte
	code       []byte // the normalised bytecode of the correct output
	outcome    outcome
}

type outcome int

const (
	survived outcome = iota // same bytecode: the oracle is blind to it
	differs
	doesNotCompile
)

type trial struct{ mutants []mutant }

// tryMutants makes count mutants, the kinds in turn, of files chosen by seed, and
// asks the oracle about each.
func tryMutants(ctx context.Context, files []verdict, count int, seed uint64, workers int) (*trial, error) {
	if len(files) == 0 {
		return nil, errors.New("no correct output to mutate")
	}
	t := &trial{mutants: makeMutants(files, count, seed)}
	err := inParallel(len(t.mutants), workers, func(i int) error {
		m := &t.mutants[i]
		dump, compiles, err := filter(ctx, m.text, compiler, "-s", "-o", "-", "-")
		if err != nil {
			return err
		}
		if !compiles {
			m.outcome = doesNotCompile
			return nil
		}
		code, err := withoutLines(dump)
		if err != nil {
			return err
		}
		if !bytes.Equal(code, m.code) {
			m.outcome = differs
		}
		return nil
	})
	return t, err
}

func makeMutants(files []verdict, count int, seed uint64) []mutant {
	r := rand.New(rand.NewPCG(seed, seed)) // repeatable on purpose: the seed is printed
	var mutants []mutant
	type place struct {
		path string
		at   replacement
	}
	made := make(map[place]bool)
	scanned := make(map[string][]token)
	for tries := 0; len(mutants) < count && tries < 50*count; tries++ {
		kind := mutations[tries%len(mutations)] // some kinds have few places: the others make up
		file := files[r.IntN(len(files))]
		if scanned[file.path] == nil {
			scanned[file.path] = scan(file.output)
		}
		places := kind.find(scanned[file.path], r)
		if len(places) == 0 {
			continue
		}
		chosen := places[r.IntN(len(places))]
		text := chosen.apply(file.output)
		if bytes.Equal(text, file.output) || made[place{file.path, chosen}] {
			continue // not a mutant, or one that was made before
		}
		made[place{file.path, chosen}] = true
		mutants = append(mutants, mutant{kind: kind.name, path: file.path, text: text, code: file.code})
	}
	return mutants
}

func (t *trial) claims(wanted int) []claim {
	c := claim{name: claimMutants}
	kinds := make(map[string]int)
	for _, m := range t.mutants {
		kinds[m.kind]++
		if m.outcome == survived && c.why == "" {
			c.why = fmt.Sprintf("%q in %s was not noticed", m.kind, m.path)
		}
	}
	if len(t.mutants) < wanted && c.why == "" {
		c.why = fmt.Sprintf("only %d of %d mutants could be made", len(t.mutants), wanted)
	}
	for _, m := range mutations {
		if kinds[m.name] == 0 && c.why == "" {
			c.why = fmt.Sprintf("no mutant of the kind %q was made", m.name)
		}
	}
	return []claim{c}
}

func (t *trial) print(seed uint64, took time.Duration) {
	counts := make(map[string][3]int)
	var all [3]int
	for _, m := range t.mutants {
		c := counts[m.kind]
		c[m.outcome]++
		counts[m.kind] = c
		all[m.outcome]++
	}
	for _, m := range mutations {
		c := counts[m.name]
		fmt.Printf("mutants: %-26s %3d differ, %3d do not compile, %d survive\n", m.name, c[differs], c[doesNotCompile], c[survived])
	}
	fmt.Printf("mutants: %d in all, %d differ, %d do not compile, %d survive (seed %d, %.1f s)\n",
		len(t.mutants), all[differs], all[doesNotCompile], all[survived], seed, took.Seconds())
}
