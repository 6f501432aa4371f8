package attacks

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"glovebox/attacks/harness"
)

// bruteforce guesses: many times, at once, from many addresses, under many names.
// The main world permits 5 failures of a login and 30 attempts of an address in a
// window, over both of its servers together.
var bruteforce = harness.Family{
	Name: "bruteforce", About: "guessing passwords and getting around the limits on it",
	Cases: []harness.Case{
		{
			ID: "bruteforce/one-login", Title: "a password is guessed by trying long enough, from many addresses and on two servers",
			Requirements: []string{"AUT-05"}, Threats: []string{"PUB-S2"},
			Attack:  "wrong passwords for one login, each from another address, the servers by turns",
			Control: "the first guesses are judged, and another user logs in meanwhile",
			Oracle:  "the count of guesses that were judged; the right password afterwards is not judged either",
			Run:     bruteOneLogin,
		},
		{
			ID: "bruteforce/one-address", Title: "one address tries the passwords of everybody",
			Requirements: []string{"AUT-05"}, Threats: []string{"PUB-S2", "PUB-D4"},
			Attack:  "logins of ever other names from one address, the servers by turns",
			Control: "another address logs in meanwhile",
			Oracle:  "the count of attempts that were judged",
			Run:     bruteOneAddress,
		},
		{
			ID: "bruteforce/parallel", Title: "guesses that arrive at once outrun the counter",
			Requirements: []string{"AUT-05"}, Threats: []string{"PUB-S2", "PUB-D4"},
			Attack:  "40 wrong passwords of one login at the same moment, half to each server, from 40 addresses",
			Control: "some of them are judged",
			Oracle:  "the count of 401 among the answers",
			Run:     bruteParallel,
		},
		{
			ID: "bruteforce/forged-address", Title: "a header that names another address evades the limit",
			Requirements: []string{"AUT-05"}, Threats: []string{"PUB-S2"},
			Attack:  "the attempts of one address, each with another X-Forwarded-For, Forwarded, X-Real-IP and the like",
			Control: "an attempt really made from another address is judged",
			Oracle:  "the count of attempts that were judged",
			Run:     bruteForged,
		},
		{
			ID: "bruteforce/spelled-otherwise", Title: "the same login in another spelling has a limit of its own",
			Requirements: []string{"AUT-05"}, Threats: []string{"PUB-S2"},
			Attack:  "wrong passwords for one login in upper, lower and mixed case",
			Control: "the login is one user in every spelling: the right password works in upper case",
			Oracle:  "the count of guesses that were judged over all spellings",
			Run:     bruteSpelled,
		},
		{
			ID: "bruteforce/shut-out", Title: "an address that is blocked goes on to lock a user out",
			Requirements: []string{"AUT-05"}, Threats: []string{"PUB-D1"},
			Attack:  "an address that has used up its attempts guesses at a user's login",
			Control: "the address is blocked",
			Oracle:  "the user logs in from elsewhere as if nothing had been",
			Run:     bruteShutOut,
		},
		{
			ID: "bruteforce/retry-after", Title: "a refusal tells nobody when to come back, so that clients hammer",
			Requirements: []string{"AUT-05", "API-07"}, Threats: []string{"PUB-D4"},
			Attack:  "guesses until they are refused",
			Control: "a guess before that has no Retry-After",
			Oracle:  "Retry-After of the refusal, in whole seconds within the window",
			Run:     bruteRetryAfter,
		},
		{
			ID: "bruteforce/window-ends", Title: "a guesser shuts a user out for ever", World: harness.Brief, Slow: true,
			Requirements: []string{"AUT-05"}, Threats: []string{"PUB-D1"},
			Attack:  "guesses until the login is refused",
			Control: "the right password is refused then",
			Oracle:  "the right password is accepted once the window has passed",
			Run:     bruteWindow,
		},
		{
			ID: "bruteforce/success-resets-nothing", Title: "a guesser with an account of his own clears the counter with it",
			Requirements: []string{"AUT-05"}, Threats: []string{"PUB-S2"},
			Attack:  "from one address, a login of one's own after every few guesses at others",
			Control: "one's own login works at first",
			Oracle:  "the count of attempts of the address that were judged",
			Run:     bruteOwnAccount,
		},
		{
			ID: "bruteforce/other-server", Title: "an address that one server blocks is free at the other",
			Requirements: []string{"AUT-05"}, Threats: []string{"PUB-S2"},
			Attack:  "the attempts of one address split over both servers and over new connections",
			Control: "the address is blocked on the first server",
			Oracle:  "it is blocked on the other server and on a fresh connection",
			Run:     bruteSplit,
		},
	},
}

const (
	failuresPerLogin   = 5
	attemptsPerAddress = 30
)

// steady waits where the window that counts is about to end: attempts on both sides
// of it are counted apart, as they should be, and prove nothing.
func steady(e *harness.Env) {
	const window, margin = 15 * time.Minute, 20 * time.Second
	e.Await(2*margin, func() bool { return time.Duration(time.Now().UnixNano())%window < window-margin })
}

// guess is a wrong password for login, at server i.
func guess(login string, i int) harness.Request {
	r := harness.LoginRequest(login, "wrong-"+harness.RandomHex(8))
	r.Server = i
	return r
}

// address makes up a loopback address.
func address(e *harness.Env) string {
	return fmt.Sprintf("127.%d.%d.%d", 1+e.Rand.IntN(250), e.Rand.IntN(250), 1+e.Rand.IntN(250))
}

func bruteOneLogin(e *harness.Env) {
	steady(e)
	victim, other := e.NewUser(), e.NewUser()
	judged := 0
	for i := range 4 * failuresPerLogin {
		e.From(address(e))
		if a := e.Do(guess(victim.Login, i)); a.Status == http.StatusUnauthorized {
			judged++
		} else {
			e.Check(refused(a, http.StatusTooManyRequests, "rate_limited"), "guess %d: %s", i, a.Brief())
		}
	}
	e.Control(judged > 0, "no guess was judged")
	e.Check(judged <= failuresPerLogin, "%d guesses were judged, %d are permitted", judged, failuresPerLogin)
	for i := range e.Servers() {
		e.From(address(e))
		r := harness.LoginRequest(victim.Login, victim.Password)
		r.Server = i
		e.Check(!hasToken(e.Do(r)), "server %d judges a password although there were too many", i)
	}
	e.Control(hasToken(e.Do(harness.LoginRequest(other.Login, other.Password))), "another user logs in")
}

// spend makes attempts from the case's address until one is refused, and returns
// how many were judged.
func spend(e *harness.Env, more func(i int) []string) (judged int) {
	for i := range attemptsPerAddress * 2 {
		r := guess("n"+harness.RandomHex(8), i)
		if more != nil {
			r.Header = append(r.Header, more(i)...)
		}
		switch a := e.Do(r); a.Status {
		case http.StatusUnauthorized:
			judged++
		case http.StatusTooManyRequests:
		default:
			e.Check(false, "attempt %d: %s", i, a.Brief())
		}
	}
	return judged
}

func bruteOneAddress(e *harness.Env) {
	steady(e)
	here, u := address(e), e.NewUser()
	e.From(here)
	judged := spend(e, nil)
	e.Check(judged <= attemptsPerAddress, "%d attempts were judged, %d are permitted", judged, attemptsPerAddress)
	e.Check(!hasToken(e.Do(harness.LoginRequest(u.Login, u.Password))), "the blocked address still logs in")
	e.From(address(e))
	e.Control(judged > 0 && hasToken(e.Do(harness.LoginRequest(u.Login, u.Password))), "another address logs in")
}

func bruteParallel(e *harness.Env) {
	steady(e)
	victim := e.NewUser()
	const callers = 40
	var judged, limited, odd atomic.Int64
	addresses := make([]string, callers)
	for i := range addresses {
		addresses[i] = address(e)
	}
	clients := make([]*harness.Conn, callers)
	for i := range clients {
		e.From(addresses[i])
		clients[i] = e.MustDial(e.Public(i), nil)
	}
	e.Parallel(callers, func(i int) {
		const limit = 20 * time.Second
		if err := clients[i].Send(guess(victim.Login, i).Bytes(e.Public(i))); err != nil {
			odd.Add(1)
			return
		}
		switch a, err := clients[i].Receive(http.MethodPost, limit); {
		case err == nil && a.Status == http.StatusUnauthorized:
			judged.Add(1)
		case err == nil && (a.Status == http.StatusTooManyRequests || a.Status == http.StatusServiceUnavailable):
			limited.Add(1)
		default:
			odd.Add(1)
		}
	})
	e.Control(judged.Load() > 0, "none of %d guesses was judged", callers)
	e.Check(judged.Load() <= failuresPerLogin, "%d guesses were judged, %d are permitted", judged.Load(), failuresPerLogin)
	e.Check(odd.Load() == 0, "%d answers were neither a verdict nor a refusal", odd.Load())
}

func bruteForged(e *harness.Env) {
	steady(e)
	e.From(address(e))
	judged := spend(e, func(i int) []string {
		forged := fmt.Sprintf("10.%d.%d.%d", i, e.Rand.IntN(250), e.Rand.IntN(250))
		return []string{
			"X-Forwarded-For: " + forged, "Forwarded: for=" + forged, "X-Real-IP: " + forged, "X-Client-IP: " + forged, "CF-Connecting-IP: " + forged,
			"True-Client-IP: " + forged, "X-Cluster-Client-IP: " + forged, "Via: 1.1 " + forged, "X-Forwarded-For: 127.0.0.1",
		}
	})
	e.Check(judged <= attemptsPerAddress, "%d attempts were judged, %d are permitted", judged, attemptsPerAddress)
	e.From(address(e))
	e.Control(e.Do(guess("n"+harness.RandomHex(8), 0)).Status == http.StatusUnauthorized, "an attempt from another address is judged")
}

func bruteSpelled(e *harness.Env) {
	steady(e)
	victim := e.NewUser()
	e.Control(hasToken(e.Do(harness.LoginRequest(strings.ToUpper(victim.Login), victim.Password))), "the login in upper case")
	judged := 0
	for i := range 4 * failuresPerLogin {
		e.From(address(e))
		spelled := []byte(victim.Login)
		for j := range spelled {
			if e.Rand.IntN(2) == 0 {
				spelled[j] = strings.ToUpper(string(spelled[j]))[0]
			}
		}
		if e.Do(guess(string(spelled), i)).Status == http.StatusUnauthorized {
			judged++
		}
	}
	e.Check(judged <= failuresPerLogin, "%d guesses were judged, %d are permitted", judged, failuresPerLogin)
}

func bruteShutOut(e *harness.Env) {
	steady(e)
	victim := e.NewUser()
	e.From(address(e))
	spend(e, nil)
	blocked := e.Do(guess(victim.Login, 0))
	e.Control(blocked.Status == http.StatusTooManyRequests, "the address is not blocked: %s", blocked.Brief())
	for i := range 4 * failuresPerLogin {
		e.Do(guess(victim.Login, i))
	}
	e.From(address(e))
	a := e.Do(harness.LoginRequest(victim.Login, victim.Password))
	e.Check(hasToken(a), "the user is locked out: %s", a.Brief())
}

func bruteRetryAfter(e *harness.Env) {
	steady(e)
	victim := e.NewUser()
	first := e.Do(guess(victim.Login, 0))
	e.Control(first.Status == http.StatusUnauthorized && first.Header.Get("Retry-After") == "", "the first guess: %s", first.Brief())
	for i := range 4 * failuresPerLogin {
		e.From(address(e))
		if a := e.Do(guess(victim.Login, i)); a.Status != http.StatusUnauthorized {
			seconds, err := strconv.Atoi(a.Header.Get("Retry-After"))
			const window = 15 * 60
			e.Check(err == nil && seconds >= 1 && seconds <= window, "Retry-After is %q", a.Header.Get("Retry-After"))
			return
		}
	}
	e.Check(false, "no guess was refused")
}

func bruteWindow(e *harness.Env) {
	victim := e.NewUser()
	for range 2 * failuresPerLogin {
		e.Do(guess(victim.Login, 0))
	}
	a := e.Do(harness.LoginRequest(victim.Login, victim.Password))
	e.Control(a.Status == http.StatusTooManyRequests, "the right password is not refused: %s", a.Brief())
	const twoWindows = 12 * time.Second
	e.Check(e.Await(twoWindows, func() bool {
		e.From(address(e))
		return hasToken(e.Do(harness.LoginRequest(victim.Login, victim.Password)))
	}), "the user is still locked out after two windows")
}

func bruteOwnAccount(e *harness.Env) {
	steady(e)
	own := e.NewUser()
	here := address(e)
	e.From(here)
	judged, entered := 0, 0
	for i := range 2 * attemptsPerAddress {
		if i%3 == 0 {
			if hasToken(e.Do(harness.LoginRequest(own.Login, own.Password))) {
				entered++
			}
			continue
		}
		if e.Do(guess("n"+harness.RandomHex(8), i)).Status == http.StatusUnauthorized {
			judged++
		}
	}
	e.Control(entered > 0, "one's own login never worked")
	e.Check(judged+entered <= attemptsPerAddress, "%d guesses and %d logins were judged, %d attempts are permitted", judged, entered, attemptsPerAddress)
}

func bruteSplit(e *harness.Env) {
	steady(e)
	here := address(e)
	e.From(here)
	for i := range attemptsPerAddress + 2 {
		e.Do(guess("n"+harness.RandomHex(8), 0))
		if i%10 == 0 {
			e.From(here) // a new connection
		}
	}
	e.Control(e.Do(guess("n"+harness.RandomHex(8), 0)).Status == http.StatusTooManyRequests, "the first server does not block")
	e.Check(e.Do(guess("n"+harness.RandomHex(8), 1)).Status == http.StatusTooManyRequests, "the other server does not know of it")
	e.From(here)
	e.Check(e.Do(guess("n"+harness.RandomHex(8), 1)).Status == http.StatusTooManyRequests, "a new connection is a new start")
}
