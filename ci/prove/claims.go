package main

import (
	"fmt"
	"time"
)

// The claims over the corpus; core/test/requirements.tsv names them too.
const (
	claimCorpus    = "proof_corpus_is_whole"
	claimShipped   = "proof_bytecode_identical"
	claimKeptLines = "proof_bytecode_identical_with_lines"
	claimRefusals  = "proof_refuses_what_lua_refuses"
	claimSize      = "proof_output_never_larger"
	claimMutants   = "proof_notices_every_mutant"
)

// accepted are the files whose outputs may be mutated.
func (p *proof) accepted() []verdict {
	var good []verdict
	for _, v := range p.verdicts {
		if v.fault == "" && v.output != nil {
			good = append(good, v)
		}
	}
	return good
}

func (p *proof) claims() []claim {
	claims := []claim{{name: claimCorpus}, {name: claimShipped}, {name: claimKeptLines}, {name: claimRefusals}, {name: claimSize}}
	if n := len(p.verdicts); n < leastFiles {
		claims[0].why = fmt.Sprintf("only %d files, expected at least %d; run ci/corpus --refresh", n, leastFiles)
	}
	faults := make(map[string][]verdict)
	for _, v := range p.verdicts {
		if v.fault != "" {
			faults[v.claim] = append(faults[v.claim], v)
		}
	}
	for i := range claims {
		if list := faults[claims[i].name]; len(list) > 0 {
			claims[i].why = fmt.Sprintf("%d files, the first %s: %s", len(list), list[0].path, list[0].fault)
		}
	}
	return claims
}

func (p *proof) print(took time.Duration) {
	in, out, proven := 0, 0, 0
	for _, v := range p.verdicts {
		if v.fault == "" && v.output != nil {
			proven++
			in += v.size
			out += len(v.output)
		}
	}
	share := 0.0
	if in > 0 {
		share = 100 * float64(out) / float64(in)
	}
	fmt.Printf("corpus: %d files, %d identical bytecode (as shipped and with lines), %d refused by both, %d faults\n",
		len(p.verdicts), proven, p.refused, len(p.verdicts)-proven-p.refused)
	fmt.Printf("corpus: %d bytes in, %d out (%.1f %%), %.1f s\n", in, out, share, took.Seconds())
}
