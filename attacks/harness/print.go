package harness

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"glovebox/threat-model/evidence"
)

// printer tells of a run as it goes.
type printer struct {
	o     Options
	began time.Time

	mu   sync.Mutex
	done int
	of   int
}

func newPrinter(o Options) *printer { return &printer{o: o, began: time.Now()} }

const (
	green  = "32"
	red    = "31;1"
	yellow = "33"
	faint  = "2"
)

func (p *printer) paint(color, text string) string {
	if !p.o.Color {
		return text
	}
	return "\x1b[" + color + "m" + text + "\x1b[0m"
}

func (p *printer) printf(format string, args ...any) {
	if p.o.JSON {
		return
	}
	fmt.Fprintf(p.o.Out, format, args...)
}

func (p *printer) say(format string, args ...any) { p.printf(format+"\n", args...) }

func (p *printer) begin(cases []*Case) {
	p.of = len(cases)
	p.say("%d cases, seed %d", len(cases), p.o.Seed)
}

// starting shows a step of a world's start on a line that the next one overwrites.
func (p *printer) starting(world, step string) {
	if p.o.Color {
		p.printf("\r\x1b[2K%s", p.paint(faint, fmt.Sprintf("starting %s: %s", world, step)))
	}
}

func (p *printer) started(s *System, took time.Duration) {
	if p.o.Color {
		p.printf("\r\x1b[2K")
	}
	p.say("\n%s", p.paint(faint, fmt.Sprintf("world %s: %d servers, %d workers, started in %.1f s", s.World,
		s.Servers(), len(s.Endpoint.PIDs.Worker), took.Seconds())))
}

var marks = map[evidence.Verdict]struct{ mark, color string }{
	evidence.Held: {"✔", green}, evidence.Breached: {"✘", red}, evidence.Errored: {"!", yellow}, evidence.Unavailable: {"-", faint},
}

// outcome shows a case as soon as it has ended.
func (p *printer) outcome(o Outcome) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done++
	if p.o.JSON {
		_ = json.NewEncoder(p.o.Out).Encode(o.evidence()) // as good as the reader's pipe
		return
	}
	m := marks[o.Verdict]
	p.printf("%s %s %-44s %s %s\n", p.paint(faint, fmt.Sprintf("%3d/%d", p.done, p.of)), p.paint(m.color, m.mark), o.Case.ID, o.Case.Title,
		p.paint(faint, fmt.Sprintf("(%d checks, %s)", o.Checks, short(o.Took))))
	switch o.Verdict {
	case evidence.Breached:
		p.breach(o)
	case evidence.Errored:
		p.say("      %s", p.paint(yellow, indent(o.Detail)))
		p.exchange(o)
		p.again(o)
	case evidence.Unavailable:
		p.say("      missing: %s", indent(o.Detail))
	}
}

// breach shows everything that is needed to see it again.
func (p *printer) breach(o Outcome) {
	c := o.Case
	p.say("      %s %s", p.paint(red, "BREACHED:"), c.Title)
	p.say("      requirements %s, threats %s", strings.Join(c.Requirements, " "), orNone(c.Threats))
	p.say("      attack       %s", c.Attack)
	p.say("      oracle       %s", c.Oracle)
	for _, b := range o.Breaches {
		p.say("      saw          %s", indent(b))
	}
	for _, n := range o.Notes {
		p.say("      note         %s", indent(n))
	}
	p.exchange(o)
	p.again(o)
}

func (p *printer) exchange(o Outcome) {
	for _, entry := range o.Exchange {
		p.say("      %s", p.paint(faint, indent(strings.TrimRight(entry, "\n"))))
	}
}

func (p *printer) again(o Outcome) {
	command := fmt.Sprintf("make attack CASE=%s SEED=%d", o.Case.ID, p.o.Seed)
	if t := p.o.Target; t != nil {
		command = fmt.Sprintf("glovebox-attack run --target %s … --seed %d %s", t.URL, p.o.Seed, o.Case.ID)
	}
	p.say("      again        %s", command)
}

func orNone(ids []string) string {
	if len(ids) == 0 {
		return "none named"
	}
	return strings.Join(ids, " ")
}

func indent(text string) string { return strings.ReplaceAll(text, "\n", "\n      ") }

func short(d time.Duration) string {
	if d >= 10*time.Second {
		return fmt.Sprintf("%.0f s", d.Seconds())
	}
	if d >= time.Second {
		return fmt.Sprintf("%.1f s", d.Seconds())
	}
	return fmt.Sprintf("%d ms", d.Milliseconds())
}

// end shows the counts by family.
func (p *printer) end(outcomes []Outcome) {
	if p.o.JSON {
		return
	}
	p.say("")
	Table(p.o.Out, p.o.Families, outcomes)
	p.say("\n%d cases in %s, seed %d", len(outcomes), short(time.Since(p.began)), p.o.Seed)
}

// Table writes how many cases of each family came out how.
func Table(w io.Writer, families []Family, outcomes []Outcome) {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "family\theld\tbreached\terror\tunavailable\tchecks\tseconds\t")
	var total row
	for _, f := range families {
		var n row
		for _, o := range outcomes {
			if strings.HasPrefix(o.Case.ID, f.Name+"/") {
				n.add(o)
				total.add(o)
			}
		}
		if n.cases > 0 {
			n.write(table, f.Name)
		}
	}
	total.write(table, "all")
	_ = table.Flush() // as good as the writer
}

type row struct {
	counts        [4]int
	cases, checks int
	took          time.Duration
}

func (n *row) add(o Outcome) {
	for i, v := range evidence.Verdicts {
		if o.Verdict == v {
			n.counts[i]++
		}
	}
	n.cases++
	n.checks += o.Checks
	n.took += o.Took
}

func (n *row) write(w io.Writer, name string) {
	fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%d\t%.1f\t\n", name, n.counts[0], n.counts[1], n.counts[2], n.counts[3], n.checks, n.took.Seconds())
}
