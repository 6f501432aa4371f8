package attacks

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"glovebox/attacks/harness"
	"glovebox/attacks/oracle"
)

// timing asks whether the time of an answer tells what its bytes do not.
//
// The test: two kinds of request are sent in turn, in an order drawn anew for each
// pair, over connections that are open already. The times of both are compared by
// the Mann-Whitney test. They can be told apart if chance makes such a shift in
// fewer than one of 1,000 samples and the shift is at least a tenth (oracle.Compare),
// in the sample and again in a second one: a burst of other work on the machine
// moves one sample, a leak moves each. The control adds a stated time to every
// request of one kind, as the product might, and must be told apart.
var timing = harness.Family{
	Name: "timing", About: "what the time of an answer tells",
	Cases: []harness.Case{
		{
			ID: "timing/login-unknown", Title: "the time of a refused login tells whether the login exists", Serial: true, World: harness.Brief,
			Requirements: []string{"AUT-05", "AUT-02"}, Threats: []string{"PUB-S2"},
			Attack:  "logins that exist with a wrong password and logins that do not exist, in turn, from many addresses",
			Control: "the same requests with a quarter of the median added to one kind are told apart",
			Oracle:  "a clock outside the server; Mann-Whitney test by permutation, twice",
			Run: func(e *harness.Env) {
				const pairs, perUser, perAddress = 60, 4, 12
				users := people(e, 2*pairs/perUser+1)
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
				compare(e, pairs, 0.25,
					func() time.Duration { used++; return login(users[(used-1)/perUser%len(users)].Login) },
					func() time.Duration { return login("v" + harness.RandomHex(8)) })
			},
		},
		{
			ID: "timing/login-disabled", Title: "the time of a refused login tells that a user is disabled", Serial: true, World: harness.Brief,
			Requirements: []string{"AUT-05", "AUT-02"}, Threats: []string{"PUB-S2"},
			Attack:  "the right password of disabled users and a wrong password of living ones, in turn, from many addresses",
			Control: "the same requests with a quarter of the median added to one kind are told apart",
			Oracle:  "a clock outside the server; Mann-Whitney test by permutation, twice; the bytes of the answers are the same",
			Run: func(e *harness.Env) {
				const pairs, perUser, perAddress = 60, 4, 12
				living, gone := people(e, 2*pairs/perUser+1), people(e, 2*pairs/perUser+1)
				for _, u := range gone {
					_, err := e.Admin(e.Context(), "", "user", "disable", u.Login)
					e.Must(err, "disable a user")
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
				compare(e, pairs, 0.25,
					func() time.Duration {
						first++
						return login(living[(first-1)/perUser%len(living)].Login, "wrong-"+harness.RandomHex(8))
					},
					func() time.Duration {
						second++
						u := gone[(second-1)/perUser%len(gone)]
						return login(u.Login, u.Password)
					})
				e.Check(len(bodies) == 1, "the answers are not the same: %v", bodies)
			},
		},
		foreignOrMissing("status", "/api/v1/jobs/%s"),
		foreignOrMissing("result", "/api/v1/jobs/%s/result"),
		{
			ID: "timing/token", Title: "the time of a refused token tells how much of it was right", Serial: true, World: harness.Quiet,
			Requirements: []string{"AUT-01", "AUT-03"}, Threats: []string{"PUB-S1", "PUB-S2"},
			Attack:  "a live token with its last character changed, and random tokens of the same form, in turn",
			Control: "the same requests with a quarter of the median added to one kind are told apart",
			Oracle:  "a clock outside the server; Mann-Whitney test by permutation, twice",
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
				compare(e, 400, 0.25, func() time.Duration { return ask(almost()) }, func() time.Duration { return ask(random()) })
			},
		},
		{
			ID: "timing/worker", Title: "the time of a refusal tells a worker which jobs exist", Serial: true, World: harness.Quiet,
			Requirements: []string{"MTL-04", "ARC-09"}, Threats: []string{"INT-I1"},
			Attack:  "heartbeats on another worker's live job and on jobs that never were, in turn, over one connection",
			Control: "the same requests with a quarter of the median added to one kind are told apart",
			Oracle:  "a clock outside the server; Mann-Whitney test by permutation, twice",
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
				compare(e, 300, 0.25, func() time.Duration { return ask(held.ID) }, func() time.Duration { return ask(harness.UUID()) })
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
		Oracle:  "a clock outside the server; Mann-Whitney test by permutation, twice; the bytes of the answers are the same",
		Run: func(e *harness.Env) {
			f := finishedJob(e, ownWorker(e))
			token := e.Token(e.NewUser())
			bodies := map[string]bool{}
			ask := func(id string) time.Duration {
				a := e.Do(harness.Request{Method: http.MethodGet, Path: strings.Replace(path, "%s", id, 1), Token: token})
				bodies[fmt.Sprint(a.Status, string(a.Body))] = true
				return a.Took
			}
			compare(e, 400, 0.25, func() time.Duration { return ask(f.id) }, func() time.Duration { return ask(harness.UUID()) })
			e.Check(len(bodies) == 1, "the answers are not the same: %v", bodies)
		},
	}
}

// compare samples two kinds of request and checks that their times cannot be told
// apart; added is the part of the median that the control adds to one kind.
func compare(e *harness.Env, pairs int, added float64, one, two func() time.Duration) {
	sample := func() (a, b []float64) {
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
	a, b := sample()
	found := oracle.Compare(e.Rand, a, b)
	more := added * oracle.Median(b)
	slower := make([]float64, len(b))
	for i := range b {
		slower[i] = b[i] + more
	}
	control := oracle.Compare(e.Rand, a, slower)
	e.Control(control.Differs() || found.Shift < -0.1, "%.0f µs more on a median of %.0f µs are not noticed: shift %.3f, P %.4f", more/1e3, oracle.Median(b)/1e3, control.Shift, control.P)
	again := found
	if found.Differs() {
		a, b = sample()
		again = oracle.Compare(e.Rand, a, b)
	}
	e.Note("medians %.0f µs and %.0f µs, shift %.3f, P %.4f, then %.3f, %.4f", oracle.Median(a)/1e3, oracle.Median(b)/1e3, found.Shift, found.P, again.Shift, again.P)
	e.Check(!(found.Differs() && again.Differs() && found.Shift*again.Shift > 0), "they are told apart: medians %.0f µs and %.0f µs, shift %.3f (P %.4f), again %.3f (P %.4f)",
		oracle.Median(a)/1e3, oracle.Median(b)/1e3, found.Shift, found.P, again.Shift, again.P)
}
