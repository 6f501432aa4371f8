package attacks

import (
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"

	"glovebox/attacks/harness"
	"glovebox/attacks/oracle"
)

// timing asks whether the time of an answer tells what its bytes do not.
//
// The test: two kinds of request are sent in turn, in an order drawn anew for each
// pair, over connections that are open already. The times of both are compared by
// the Mann-Whitney test, all of them and, since other work on the machine only ever
// makes an answer later, the fastest of each three. They can be told apart if chance
// makes such a shift in fewer than one of 1,000 samples (alpha), the shift is at
// least a tenth (oracle.Compare) and the medians are a tenth apart, in the sample and again, in the same direction, in
// a second one as large: a burst of other work moves one sample, a leak moves each.
// Chance alone does so in fewer than one run of 1,000,000. The control adds a stated
// time to every request of one kind, as the product might, and must be told apart;
// until it is, the sample grows, up to a bound. It alone says when there is enough.
var timing = harness.Family{
	Name: "timing", About: "what the time of an answer tells",
	Cases: []harness.Case{
		{
			ID: "timing/login-unknown", Title: "the time of a refused login tells whether the login exists", Serial: true, World: harness.Brief,
			Requirements: []string{"AUT-05", "AUT-02"}, Threats: []string{"PUB-S2"},
			Attack:  "logins that exist with a wrong password and logins that do not exist, in turn, from many addresses",
			Control: "the same requests with a quarter of the median added to one kind are told apart",
			Oracle:  "a clock outside the server; Mann-Whitney test by permutation, alpha 0.001, twice",
			Run: func(e *harness.Env) {
				const pairs, perUser, perAddress = 60, 4, 12
				var users []*harness.User
				n := 0
				login := func(name string) time.Duration {
					if n%perAddress == 0 {
						e.From(fmt.Sprintf("127.%d.%d.%d", 60+e.Rand.IntN(100), e.Rand.IntN(250), 1+e.Rand.IntN(250)))
						e.Do(harness.Request{Method: http.MethodGet, Path: "/health"})
					}
					n++
					a := e.Do(harness.LoginRequest(name, "wrong-"+harness.RandomHex(8)))
					if a.Status != http.StatusUnauthorized {
						e.Fail("a login that must fail: %s", a.Brief())
					}
					return a.Took
				}
				used := 0
				compare(e, pairs, 0.25, func() { users = append(users, people(e, pairs/perUser)...) },
					func() time.Duration { used++; return login(users[(used-1)/perUser].Login) },
					func() time.Duration { return login("v" + harness.RandomHex(8)) })
			},
		},
		{
			ID: "timing/login-disabled", Title: "the time of a refused login tells that a user is disabled", Serial: true, World: harness.Brief, Slow: true,
			Requirements: []string{"AUT-05", "AUT-02"}, Threats: []string{"PUB-S2"},
			Attack:  "the right password of disabled users and a wrong password of living ones, in turn, from many addresses",
			Control: "the same requests with a quarter of the median added to one kind are told apart",
			Oracle:  "a clock outside the server; Mann-Whitney test by permutation, alpha 0.001, twice; the bytes of the answers are the same",
			Run: func(e *harness.Env) {
				const pairs, perUser, perAddress = 60, 4, 12
				var living, gone []*harness.User
				more := func() {
					living = append(living, people(e, pairs/perUser)...)
					for _, u := range people(e, pairs/perUser) {
						_, err := e.Admin(e.Context(), "", "user", "disable", u.Login)
						e.Must(err, "disable a user")
						gone = append(gone, u)
					}
				}
				n := 0
				bodies := map[string]bool{}
				login := func(name, password string) time.Duration {
					if n%perAddress == 0 {
						e.From(fmt.Sprintf("127.%d.%d.%d", 60+e.Rand.IntN(100), e.Rand.IntN(250), 1+e.Rand.IntN(250)))
						e.Do(harness.Request{Method: http.MethodGet, Path: "/health"})
					}
					n++
					a := e.Do(harness.LoginRequest(name, password))
					bodies[fmt.Sprint(a.Status, string(a.Body))] = true
					return a.Took
				}
				first, second := 0, 0
				compare(e, pairs, 0.25, more,
					func() time.Duration {
						first++
						return login(living[(first-1)/perUser].Login, "wrong-"+harness.RandomHex(8))
					},
					func() time.Duration {
						second++
						u := gone[(second-1)/perUser]
						return login(u.Login, u.Password)
					})
				e.Check(len(bodies) == 1, "the answers are not the same: %v", bodies)
			},
		},
		foreignOrMissing("status", "/api/v1/jobs/%s"),
		foreignOrMissing("result", "/api/v1/jobs/%s/result"),
		{
			ID: "timing/token", Title: "the time of a refused token tells how much of it was right", Serial: true, World: harness.Quiet, Slow: true,
			Requirements: []string{"AUT-01", "AUT-03"}, Threats: []string{"PUB-S1", "PUB-S2"},
			Attack:  "a live token with its last character changed, and random tokens of the same form, in turn",
			Control: "the same requests with a quarter of the median added to one kind are told apart",
			Oracle:  "a clock outside the server; Mann-Whitney test by permutation, alpha 0.001, twice",
			Run: func(e *harness.Env) {
				token := e.Token(e.NewUser())
				ask := func(t string) time.Duration {
					a := e.Do(harness.Request{Method: http.MethodGet, Path: "/api/v1/auth/me", Token: t})
					if a.Status != http.StatusUnauthorized {
						e.Fail("a wrong token: %s", a.Brief())
					}
					return a.Took
				}
				almost := func() string {
					last := token[len(token)-1]
					for {
						c := "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"[e.Rand.IntN(62)]
						if c != last {
							return token[:len(token)-1] + string(c)
						}
					}
				}
				random := func() string {
					letters := []byte(token)
					for i := len(letters) - 30; i < len(letters); i++ {
						letters[i] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"[e.Rand.IntN(62)]
					}
					return string(letters)
				}
				compare(e, 400, 0.25, func() {}, func() time.Duration { return ask(almost()) }, func() time.Duration { return ask(random()) })
			},
		},
		{
			ID: "timing/worker", Title: "the time of a refusal tells a worker which jobs exist", Serial: true, World: harness.Quiet, Slow: true,
			Requirements: []string{"MTL-04", "ARC-09"}, Threats: []string{"INT-I1"},
			Attack:  "heartbeats on another worker's live job and on jobs that never were, in turn, over one connection",
			Control: "the same requests with a quarter of the median added to one kind are told apart",
			Oracle:  "a clock outside the server; Mann-Whitney test by permutation, alpha 0.001, twice",
			Run: func(e *harness.Env) {
				_, holder, held := given(e)
				stop := keepLease(e, holder, held)
				w := ownWorker(e)
				ask := func(id string) time.Duration {
					a := harness.Assignment{ID: id, FencingToken: 1 << 40}
					got := w.Must(http.MethodGet, a.Path("input"), nil, a.Fenced())
					if got.Status != http.StatusConflict {
						e.Fail("a foreign job: %s", got.Brief())
					}
					return got.Took
				}
				compare(e, 300, 0.25, func() {}, func() time.Duration { return ask(held.ID) }, func() time.Duration { return ask(harness.UUID()) })
				stop()
				holder.Fail(held, "core_error", false)
			},
		},
	},
}

// people makes users for this case alone.
func people(e *harness.Env, n int) []*harness.User {
	all := make([]*harness.User, n)
	e.Parallel(2, func(half int) {
		for i := half; i < n; i += 2 {
			all[i] = e.NewUser()
		}
	})
	return all
}

// foreignOrMissing compares another user's job with one that never was.
func foreignOrMissing(name, path string) harness.Case {
	return harness.Case{
		ID: "timing/" + name, Title: "the time of a refusal tells that another user's job exists (" + name + ")", Serial: true, World: harness.Quiet,
		Requirements: []string{"AUT-06", "JOB-07"}, Threats: []string{"PUB-I1"},
		Attack:  "the " + name + " of another user's completed job and of jobs that never were, in turn, over one connection",
		Control: "the same requests with a quarter of the median added to one kind are told apart",
		Oracle:  "a clock outside the server; Mann-Whitney test by permutation, alpha 0.001, twice; the bytes of the answers are the same",
		Run: func(e *harness.Env) {
			f := finishedJob(e, ownWorker(e))
			token := e.Token(e.NewUser())
			bodies := map[string]bool{}
			ask := func(id string) time.Duration {
				a := e.Do(harness.Request{Method: http.MethodGet, Path: strings.Replace(path, "%s", id, 1), Token: token})
				bodies[fmt.Sprint(a.Status, string(a.Body))] = true
				return a.Took
			}
			compare(e, 400, 0.25, func() {}, func() time.Duration { return ask(f.id) }, func() time.Duration { return ask(harness.UUID()) })
			e.Check(len(bodies) == 1, "the answers are not the same: %v", bodies)
		},
	}
}

// ways are the two looks at a pair of samples: whole, and the fastest of each three.
type ways [2]way

// way is one look: the test's answer, and the difference of the medians as a part of
// the smaller.
type way struct {
	oracle.Comparison
	part float64
}

// useful is the least part that counts. Below it a row that is found costs what it
// costs to read: some 20 of 600 µs on this machine's loopback, seen now and then. It
// leads nowhere, since ids hold 74 random bits and cannot be tried out.
const useful = 0.1

func (w way) differs() bool { return w.Differs() && math.Abs(w.part) >= useful }

func look(e *harness.Env, a, b []float64) ways {
	one := func(a, b []float64) way {
		x, y := oracle.Median(a), oracle.Median(b)
		return way{oracle.Compare(e.Rand, a, b), (y - x) / min(x, y)}
	}
	return ways{one(a, b), one(fastest(a), fastest(b))}
}

// fastest keeps the smallest of each three in turn.
func fastest(sample []float64) (kept []float64) {
	for three := range slices.Chunk(sample, 3) {
		kept = append(kept, slices.Min(three))
	}
	return kept
}

// apart reports whether some way tells the samples apart.
func (w ways) apart() bool { return w[0].differs() || w[1].differs() }

// again reports whether one way told both samples apart, in the same direction.
func (w ways) again(second ways) bool {
	for i := range w {
		if w[i].differs() && second[i].differs() && w[i].Shift*second[i].Shift > 0 {
			return true
		}
	}
	return false
}

func (w ways) String() string {
	return fmt.Sprintf("shift %.3f (P %.4f, %.0f%%), of the fastest %.3f (P %.4f, %.0f%%)", w[0].Shift, w[0].P, 100*w[0].part, w[1].Shift, w[1].P, 100*w[1].part)
}

// compare samples two kinds of request and checks that their times cannot be told
// apart; added is the part of the median that the control adds to one kind. A sample
// is pairs large, or a few times that; ready is called before each such batch, where
// nothing is measured.
func compare(e *harness.Env, pairs int, added float64, ready func(), one, two func() time.Duration) {
	batch := func(a, b []float64) ([]float64, []float64) {
		ready()
		for range pairs {
			if e.Rand.IntN(2) == 0 {
				a = append(a, float64(one()))
				b = append(b, float64(two()))
			} else {
				b = append(b, float64(two()))
				a = append(a, float64(one()))
			}
		}
		return a, b
	}
	const most = 5
	var a, b []float64
	var found ways
	batches, noticed := 0, false
	for batches < most && !noticed {
		a, b = batch(a, b)
		batches++
		found = look(e, a, b)
		slower := slices.Clone(b)
		for i := range slower {
			slower[i] += added * oracle.Median(b)
		}
		control := look(e, a, slower)
		// A leak the other way may hide what the control adds.
		noticed = control.apart() || found.apart()
		e.Note("%d batches, median %.0f µs: %s; with %.0f µs more %s", batches, oracle.Median(b)/1e3, found, added*oracle.Median(b)/1e3, control)
	}
	e.Control(noticed, "a part of %.2f more on a median of %.0f µs is not noticed in %d batches of %d pairs", added, oracle.Median(b)/1e3, batches, pairs)
	second := found
	if found.apart() {
		a, b = nil, nil
		for range batches {
			a, b = batch(a, b)
		}
		second = look(e, a, b)
	}
	e.Check(!found.again(second), "they are told apart: medians %.0f µs and %.0f µs, %s, again %s", oracle.Median(a)/1e3, oracle.Median(b)/1e3, found, second)
}
