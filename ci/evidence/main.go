// Command evidence merges what the test runners left into one document a suite.
//
// Go tests append JSON lines through evidence.Proves. Rust and C++ tests know
// nothing of requirements: their runner's output (`test NAME ... ok`, `ok NAME`)
// is joined with a mapping file NAME<TAB>IDS, checked both ways, so that neither
// a mapping without a test nor a renamed test can go unseen (HAR-01).
//
// Programs such as the probes write their document themselves; with --written it is
// only counted, and refused if it is of another source.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"time"

	"glovebox/threat-model/evidence"
)

// listFlag collects a repeated flag.
type listFlag []string

func (l *listFlag) String() string     { return strings.Join(*l, ",") }
func (l *listFlag) Set(s string) error { *l = append(*l, s); return nil }

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "evidence: "+err.Error())
		os.Exit(1)
	}
}

func run() error {
	suite := flag.String("suite", "", "suite name, see threat-model/evidence.Suites")
	out := flag.String("out", "", "document to write")
	parts := flag.String("parts", "", "folder of JSON lines written by Go tests")
	started := flag.Int64("started", 0, "start of the run, seconds since 1970")
	seed := flag.Int64("seed", 0, "seed of the run")
	image := flag.String("image", "", "manifest digest of the core image that ran")
	var runners listFlag
	flag.Var(&runners, "runner", "PREFIX=OUTPUT=MAPPING of a Rust or C++ run; may be repeated")
	written := flag.String("written", "", "document that a suite wrote itself: count it, write nothing")
	flag.Parse()

	digest, dirty, err := evidence.SourceDigest(".")
	if err != nil {
		return err
	}
	if *written != "" {
		return count(*written, *suite, digest)
	}
	doc := evidence.Document{
		Suite: *suite, SourceDigest: digest, Dirty: dirty, ImageDigest: *image, Seed: *seed,
		Started: time.Unix(*started, 0).UTC(), Finished: time.Now().UTC().Truncate(time.Second), Machine: evidence.Machine(),
	}
	if *parts != "" {
		if doc.Cases, err = readParts(*parts); err != nil {
			return err
		}
	}
	for _, r := range runners {
		fields := strings.Split(r, "=")
		if len(fields) != 3 {
			return errors.New("--runner wants PREFIX=OUTPUT=MAPPING")
		}
		cases, err := joinRunner(fields[0], fields[1], fields[2])
		if err != nil {
			return err
		}
		doc.Cases = append(doc.Cases, cases...)
	}
	if err := doc.Write(*out); err != nil {
		return err
	}
	return tell(doc, *out)
}

// count tells what is in the document that the suite itself wrote of this source.
func count(path, suite, digest string) error {
	doc, err := evidence.Read(path)
	if err != nil {
		return err
	}
	if doc.Suite != suite {
		return fmt.Errorf("%s is of suite %s, wanted %s", path, doc.Suite, suite)
	}
	if doc.SourceDigest != digest {
		return fmt.Errorf("%s is of source %.12s, the working tree is %.12s; run the suite again", path, doc.SourceDigest, digest)
	}
	return tell(doc, path)
}

// tell prints the counts of a document; anything but held or unavailable is an error.
func tell(doc evidence.Document, path string) error {
	counts := make(map[evidence.Verdict]int)
	proved := make(map[string]bool)
	for _, c := range doc.Cases {
		counts[c.Verdict]++
		if c.Verdict == evidence.Held {
			for _, id := range c.Requirements {
				proved[id] = true
			}
		}
	}
	fmt.Printf("evidence: %s: %d held, %d breached, %d error, %d unavailable; %d requirements spoken for\n",
		path, counts[evidence.Held], counts[evidence.Breached], counts[evidence.Errored], counts[evidence.Unavailable], len(proved))
	if counts[evidence.Breached]+counts[evidence.Errored] > 0 {
		return errors.New("not every case held")
	}
	return nil
}
