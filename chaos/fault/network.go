package fault

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"glovebox/chaos/rig"
)

// pairs are the kinds of connections, by how the links between them are named.
var pairs = []struct{ name, title, prefix, infix string }{
	{"users", "users and a server", "users>", ""},
	{"workers", "a worker and its server", "worker-", ">server-"},
	{"database", "a server and PostgreSQL", "server-", ">database"},
	{"sweeper", "the sweeper and PostgreSQL", "sweeper>", ""},
}

func networkKinds() []Kind {
	var all []Kind
	for _, pair := range pairs {
		for _, way := range []struct{ name, title string }{
			{"cut", "no connection between %s"},
			{"slow", "a slow network between %s"},
			{"deaf", "requests do not arrive between %s"},
			{"mute", "answers do not arrive between %s"},
			{"short", "connections break in the middle between %s"},
		} {
			all = append(all, Kind{
				GoesOn: pair.name == "sweeper", Name: "net-" + way.name + "-" + pair.name, Title: fmt.Sprintf(way.title, pair.title), Requirements: []string{"HAR-06", "JOB-08", "JOB-05"},
				Make: func(random *rand.Rand, r *rig.Rig) Fault {
					var links []string
					for _, name := range r.Links.Names() {
						if strings.HasPrefix(name, pair.prefix) && strings.Contains(name, pair.infix) {
							links = append(links, name)
						}
					}
					return &network{link: pick(random, links), way: way.name, hold: between(random, 2*time.Second, rig.Lease+3*time.Second), bytes: 500 + random.IntN(60_000), delay: 50 + random.IntN(400)}
				},
			})
		}
	}
	return all
}

// network spoils one link.
type network struct {
	always
	link, way    string
	hold         time.Duration
	bytes, delay int
}

func (n *network) String() string {
	detail := ""
	switch n.way {
	case "slow":
		detail = fmt.Sprintf(" by %d ms", n.delay)
	case "short":
		detail = fmt.Sprintf(" after %d bytes", n.bytes)
	}
	return fmt.Sprintf("%s %s%s for %s", n.way, n.link, detail, n.hold.Round(100*time.Millisecond))
}

func (n *network) Hold() time.Duration { return n.hold }

func (n *network) Inject(_ context.Context, s *Scene) error {
	switch n.way {
	case "cut":
		return s.Links.Cut(n.link)
	case "slow":
		return s.Links.Slow(n.link, n.delay)
	case "deaf":
		return s.Links.Silence(n.link, rig.Up)
	case "mute":
		return s.Links.Silence(n.link, rig.Down)
	case "short":
		direction := rig.Up
		if n.bytes%2 == 0 {
			direction = rig.Down
		}
		return s.Links.CutAfter(n.link, direction, n.bytes)
	}
	return fmt.Errorf("there is no way %q to spoil a link", n.way)
}

func (n *network) Heal(ctx context.Context, s *Scene) error { return s.Links.Mend(n.link) }
