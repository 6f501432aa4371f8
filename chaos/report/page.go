package report

import (
	_ "embed"
	"errors"
	"fmt"
	"html/template"
	"os"
	"strings"
	"time"

	"glovebox/chaos/history"
	"glovebox/chaos/model"
	"glovebox/chaos/validate"
)

//go:embed page.html
var pageText string

var page = template.Must(template.New("page").Funcs(template.FuncMap{
	"round": round,
	"join":  func(texts []string) string { return strings.Join(texts, " and ") },
	"inc":   func(n int) int { return n + 1 },
	"add":   func(a, b float64) float64 { return a + b },
	"at":    func(ns int64) string { return time.Duration(ns).Round(100 * time.Millisecond).String() },
}).Parse(pageText))

// pageData is what the page shows.
type pageData struct {
	Run        model.Run
	Summary    validate.Summary
	Rules      []ruleLine
	Violations []history.Violation
	Timeline   timeline
	Overview   overview
}

type ruleLine struct {
	validate.Rule
	Violations int
}

// Write makes one self-contained page: no script, no font, no address of another
// host.
func Write(path string, run model.Run, record history.Record, violations []history.Violation) error {
	data := pageData{
		Run: run, Summary: validate.Summarise(run, record), Violations: violations[:min(len(violations), shown)],
		Timeline: drawTimeline(run, record, model.MostContested(record.Snapshot)), Overview: drawOverview(run, record),
	}
	by := map[string]int{}
	for _, v := range violations {
		by[v.Rule]++
	}
	for _, rule := range validate.Rules() {
		data.Rules = append(data.Rules, ruleLine{rule, by[rule.Name]})
	}
	f, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	return errors.Join(page.Execute(f, data), f.Close())
}
