package jobs

import (
	"sync"

	"glovebox/system/server/internal/jobs/domain"
)

// resultsAtOnce is how many results of one attempt a server receives at the same
// time: the one that counts, and its repeat after a connection that died unseen.
const resultsAtOnce = 2

// receiving counts the results on their way in. Without a bound, a worker that was
// taken over could fill the storage down to its floor with one job, by results
// that it begins and never ends (UPL-04). It is safe for concurrent use.
type receiving struct {
	mu   sync.Mutex
	held map[domain.Fence]int
}

func newReceiving() *receiving { return &receiving{held: map[domain.Fence]int{}} }

// enter counts one more of fence's results and returns what takes it back, or
// CodeUnavailable beyond the bound: the worker tries again, as after any fault.
func (r *receiving) enter(fence domain.Fence) (leave func(), err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.held[fence] >= resultsAtOnce {
		return nil, domain.Refuse(domain.CodeUnavailable, "other results of this attempt are still on their way")
	}
	r.held[fence]++
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.held[fence]--; r.held[fence] == 0 {
			delete(r.held, fence)
		}
	}, nil
}
