package campaign

import (
	"math/rand/v2"
	"time"

	"glovebox/chaos/fault"
	"glovebox/chaos/rig"
)

// Case is a named regression: faults in a fixed order, for a fault that another
// system shipped or that this suite once found here.
type Case struct {
	Name  string
	Title string
	Kinds []fault.Kind
}

// fixed wraps one certain fault as a kind.
func fixed(name, title string, requirements []string, make func() fault.Fault) fault.Kind {
	return fault.Kind{Name: name, Title: title, Requirements: requirements, Family: "process", Alone: true, Make: func(*rand.Rand, *rig.Rig) fault.Fault { return make() }}
}

// Cases lists the named regressions.
func Cases() []Case {
	point := func(server, at string, skip int, stop bool) fault.Kind {
		return fixed("at-"+at, "a server at "+at, []string{"STO-02", "STO-03"}, func() fault.Fault { return fault.CrashAt(server, at, skip, stop) })
	}
	clock := func(process string, skew time.Duration) fault.Kind {
		return fixed("clock-"+process, "the clock of "+process+" off", []string{"STO-03", "JOB-06"}, func() fault.Fault { return fault.WrongClock(process, skew, 6*time.Second) })
	}
	kind := func(name string) fault.Kind {
		for _, k := range fault.Kinds() {
			if k.Name == name {
				return k
			}
		}
		panic("there is no kind of fault " + name)
	}
	return []Case{
		{"q1-sweep-against-commit", "Q1, Q10: a server stops between rename and commit for longer than the orphans' age, under a sweeper that goes on", []fault.Kind{
			point("server-0", "finish/stored", 0, true), point("server-1", "finish/before-commit", 1, true), point("server-0", "submit/stored", 0, true), point("server-1", "submit/before-commit", 0, true),
		}},
		{"q12-lost-completion", "Q12: the answer to a completion is lost", []fault.Kind{
			point("server-0", "finish/committed", 0, false), point("server-1", "finish/committed", 2, false), kind("net-mute-workers"),
		}},
		{"q24-leftovers", "Q24: what a killed worker, launcher or engine leaves", []fault.Kind{
			kind("kill-worker"), kind("kill-launcher"), kind("kill-engine"), kind("rolling-workers"), kind("kill-workers"), kind("kill-everything"),
		}},
		{"q28-disk", "Q28: a full and a read-only disk", []fault.Kind{kind("disk-full"), kind("disk-read-only"), kind("disk-full")}},
		{"q40-old-snapshot", "Q40: an old snapshot, and a database that restarts under it", []fault.Kind{kind("old-snapshot"), kind("old-snapshot"), kind("restart-postgres")}},
		{"clocks", "every role hours ahead and hours behind", []fault.Kind{
			clock("sweeper", 30*time.Hour), clock("sweeper", -30*time.Hour), clock("server-0", 5*time.Hour), clock("server-1", -5*time.Hour), clock("worker-0", 5*time.Hour), clock("worker-1", -5*time.Hour),
		}},
	}
}
