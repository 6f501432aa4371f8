// Package workers is the allow-list of workers (MTL-02). A certificate says who
// connects; this list says who may, and is asked with each request, so that a
// removal acts on connections that are already open.
package workers

import (
	"errors"
	"time"
)

// ErrUnknown is the answer for a worker that is not on the list.
var ErrUnknown = errors.New("there is no such worker on the list; see: glovebox-server worker list")

// Worker is one line of the list.
type Worker struct {
	ID         string     `json:"id"`
	Allowed    bool       `json:"allowed"`
	AddedAt    time.Time  `json:"added_at"`
	RemovedAt  *time.Time `json:"removed_at,omitempty"`
	LastSeenAt *time.Time `json:"last_seen_at,omitempty"`
	SlotsFree  *int       `json:"slots_free,omitempty"`
	SlotsTotal *int       `json:"slots_total,omitempty"`
}
