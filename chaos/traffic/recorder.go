package traffic

import (
	"sync"
	"time"

	"glovebox/chaos/history"
)

// Recorder keeps the history of one run: every operation of every user, with its
// answer or the lack of one.
type Recorder struct {
	began time.Time

	mu        sync.Mutex
	events    []history.Event
	surprises []string
}

// NewRecorder starts the clock of a history.
func NewRecorder() *Recorder { return &Recorder{began: time.Now()} }

// Began is the wall clock at nanosecond 0 of the history.
func (r *Recorder) Began() time.Time { return r.began }

// Now is the history's clock, in nanoseconds.
func (r *Recorder) Now() int64 { return int64(time.Since(r.began)) }

// Add keeps an event.
func (r *Recorder) Add(e history.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, e)
}

// Surprise keeps an answer that a friendly user must never get.
func (r *Recorder) Surprise(text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.surprises = append(r.surprises, text)
}

// Events returns what was kept so far.
func (r *Recorder) Events() []history.Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]history.Event(nil), r.events...)
}

// Surprises returns the answers that should not have come.
func (r *Recorder) Surprises() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]string(nil), r.surprises...)
}
