package attacks

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"glovebox/attacks/harness"
	"glovebox/attacks/oracle"
)

// dos attacks what others need: connections, processors, memory, disk, rows, logs.
// A friendly user asks throughout, from another address, over new connections; its
// answers are counted and timed from outside.
var dos = harness.Family{
	Name: "dos", About: "what one takes from all, with a friendly user served throughout",
	Cases: join(dosConnections, dosStreams, dosWork, dosGrowth),
}

// friend asks while an attack runs.
type friend struct {
	stop   context.CancelFunc
	done   sync.WaitGroup
	mu     sync.Mutex
	times  []float64 // milliseconds
	faults []string
}

// befriend starts a friendly user's requests: a new connection, a token that is
// looked up in the database, every fifth of a second.
func befriend(e *harness.Env) *friend {
	f := &friend{}
	token := e.Token(e.Alice())
	source := fmt.Sprintf("127.200.%d.%d", 1+e.Rand.IntN(250), 1+e.Rand.IntN(250))
	ctx, stop := context.WithCancel(e.Context())
	f.stop = stop
	config := e.TLS()
	config.NextProtos = []string{"http/1.1"}
	client := &http.Client{Timeout: 12 * time.Second, Transport: &http.Transport{
		TLSClientConfig: config, DisableKeepAlives: true,
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			return (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(source)}}).DialContext(ctx, network, address)
		},
	}}
	f.done.Go(func() {
		tick := time.NewTicker(200 * time.Millisecond)
		defer tick.Stop()
		for ctx.Err() == nil {
			f.ask(ctx, client, e.Public(0), token)
			select {
			case <-tick.C:
			case <-ctx.Done():
			}
		}
	})
	return f
}

func (f *friend) ask(ctx context.Context, client *http.Client, address, token string) {
	request, err := http.NewRequestWithContext(context.WithoutCancel(ctx), http.MethodGet, "https://"+address+"/api/v1/auth/me", nil)
	if err != nil {
		return
	}
	request.Header.Set("Authorization", "Bearer "+token)
	began := time.Now()
	answer, err := client.Do(request)
	took := float64(time.Since(began)) / 1e6
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case err != nil:
		f.faults = append(f.faults, err.Error())
	case answer.StatusCode != http.StatusOK:
		_ = answer.Body.Close()
		f.faults = append(f.faults, answer.Status)
	default:
		_ = answer.Body.Close()
		f.times = append(f.times, took)
	}
}

// served ends the friendly user's requests and checks that each was answered, none
// later than most.
func (f *friend) served(e *harness.Env, most time.Duration) {
	f.stop()
	f.done.Wait()
	var worst float64
	for _, t := range f.times {
		worst = max(worst, t)
	}
	e.Note("the friendly user: %d answers, median %.0f ms, slowest %.0f ms, faults %v", len(f.times), oracle.Median(f.times), worst, f.faults)
	e.Check(len(f.faults) == 0 && len(f.times) > 0, "the friendly user was not served %d times of %d: %.300v", len(f.faults), len(f.times)+len(f.faults), f.faults)
	e.Check(worst <= float64(most)/1e6, "the friendly user waited %.0f ms", worst)
}

// calm shows before an attack that the friendly user is served at all.
func calm(e *harness.Env) {
	a := e.Do(harness.Request{Method: http.MethodGet, Path: "/api/v1/auth/me", Token: e.Token(e.Alice())})
	e.Control(a.Status == http.StatusOK, "the friendly user before: %s", a.Brief())
}

// serverPID is the first server, which is the one that is attacked.
func serverPID(e *harness.Env) int { return e.Endpoint.PIDs.Server[0] }

// bounded runs an attack and checks that the server's memory grows by no more than
// most, that the friendly user is served within patience, and that the server gives
// back its connections.
func bounded(e *harness.Env, most int64, patience time.Duration, attack func(stop <-chan time.Time)) {
	calm(e)
	before, err := oracle.SocketsOf(serverPID(e))
	e.Must(err, "look at the server's connections")
	watch, err := oracle.WatchMemory(20*time.Millisecond, serverPID(e))
	e.Must(err, "watch the server's memory")
	f := befriend(e)
	attack(time.After(attackTime))
	f.served(e, patience)
	growth := watch.Growth()
	e.Note("the server's memory grew by %d KiB", growth>>10)
	e.Check(growth <= most, "the server's memory grew by %d bytes", growth)
	var now []oracle.Socket
	e.Check(e.Await(15*time.Second, func() bool {
		now, err = oracle.SocketsOf(serverPID(e))
		return err == nil && len(now) <= len(before)+4 // the real workers' come and go
	}), "the server had %d sockets and has %d", len(before), len(now))
}

const (
	attackTime = 4 * time.Second
	patience   = 6 * time.Second
	modest     = 96 << 20 // bytes of growth that a server's usual work explains
)

// from dials from an address of this machine's loopback.
func from(e *harness.Env, source, address string) (net.Conn, error) {
	d := net.Dialer{Timeout: 10 * time.Second, LocalAddr: &net.TCPAddr{IP: net.ParseIP(source)}}
	return d.DialContext(e.Context(), "tcp", address)
}

// crowd opens n connections from each source and keeps them open, anew when the
// server closes one, until stop; begin is what each says first.
func crowd(e *harness.Env, address string, sources []string, n int, begin func(net.Conn), stop <-chan time.Time) {
	over := make(chan struct{})
	var all sync.WaitGroup
	for _, source := range sources {
		for range n {
			all.Go(func() {
				for {
					select {
					case <-over:
						return
					default:
					}
					c, err := from(e, source, address)
					if err != nil {
						select {
						case <-over:
							return
						case <-time.After(20 * time.Millisecond):
						}
						continue
					}
					begin(c)
					closed := make(chan struct{})
					go func() {
						defer close(closed)
						_, _ = c.Read(make([]byte, 1))
					}()
					select {
					case <-over:
					case <-closed:
					}
					_ = c.Close()
					<-closed
				}
			})
		}
	}
	<-stop
	close(over)
	all.Wait()
}

// heldFrom returns the server's connections from a source, by inode.
func heldFrom(e *harness.Env, source string) map[string]bool {
	sockets, err := oracle.SocketsOf(serverPID(e))
	e.Must(err, "look at the server's sockets")
	held := map[string]bool{}
	for _, s := range sockets {
		if s.Remote.Addr().String() == source {
			held[s.Inode] = true
		}
	}
	return held
}

var dosConnections = []harness.Case{
	{
		ID: "dos/one-address", Title: "one address takes all connections", Serial: true,
		Requirements: []string{"REL-01", "API-06"}, Threats: []string{"PUB-D1"},
		Attack:  "three hundred silent connections from one address, opened anew when they are closed",
		Control: "the friendly user is served before; connections of the address are seen at the server",
		Oracle:  "socket table: the address never holds more than a quarter; the friendly user's answers; the server's memory",
		Run: func(e *harness.Env) {
			const source, quarter = "127.201.1.1", 100
			most := 0
			bounded(e, modest, patience, func(stop <-chan time.Time) {
				end := make(chan time.Time)
				done := make(chan struct{})
				go func() {
					defer close(done)
					crowd(e, e.Public(0), []string{source}, 300, func(net.Conn) {}, end)
				}()
				before := heldFrom(e, source)
				e.Await(attackTime, func() bool {
					now := heldFrom(e, source) // what was there a look ago is held, not about to be closed
					both := 0
					for inode := range now {
						if before[inode] {
							both++
						}
					}
					most, before = max(most, both), now
					return false
				})
				<-stop
				close(end)
				<-done
			})
			e.Control(most > 10, "only %d connections were seen", most)
			e.Check(most <= quarter, "the address held %d connections", most)
		},
	},
	{
		ID: "dos/many-addresses", Title: "silent connections from many addresses shut others out", Serial: true,
		Requirements: []string{"API-06", "REL-01"}, Threats: []string{"PUB-D1"},
		Attack:  "nine hundred silent connections from twelve addresses, more than the server takes, opened anew when they are closed",
		Control: "the friendly user is served before",
		Oracle:  "the friendly user's answers: late, and never missing; the server's memory and connections",
		Run: func(e *harness.Env) {
			bounded(e, modest, 11*time.Second, func(stop <-chan time.Time) {
				crowd(e, e.Public(0), addresses(202, 12), 75, func(net.Conn) {}, stop)
			})
		},
	},
	{
		ID: "dos/half-handshakes", Title: "handshakes that are begun and left shut others out", Serial: true,
		Requirements: []string{"API-06", "REL-01"}, Threats: []string{"PUB-D1"},
		Attack:  "half a ClientHello, a whole one without an end, bytes that are no TLS, on two hundred connections from four addresses",
		Control: "the friendly user is served before",
		Oracle:  "the friendly user's answers; the server's memory and connections",
		Run: func(e *harness.Env) {
			hello := []byte{22, 3, 1, 2, 0, 1, 0, 1, 252, 3, 3}
			var turn atomic.Int64
			bounded(e, modest, patience, func(stop <-chan time.Time) {
				crowd(e, e.Public(0), addresses(203, 4), 50, func(c net.Conn) {
					switch turn.Add(1) % 3 {
					case 0:
						_, _ = c.Write(hello)
					case 1:
						_, _ = c.Write([]byte("GET / HTTP/1.1\r\n"))
					default:
						_, _ = c.Write([]byte{22, 3, 1, 63, 255})
					}
				}, stop)
			})
		},
	},
	{
		ID: "dos/handshakes", Title: "handshakes without end burn the processors that others need", Serial: true, Slow: true,
		Requirements: []string{"REL-01"}, Threats: []string{"PUB-D1"},
		Attack:  "whole handshakes, one after another, on twelve lines from four addresses, none with a request",
		Control: "handshakes are made; the friendly user is served before",
		Oracle:  "the friendly user's answers; the server's memory and connections",
		Run: func(e *harness.Env) {
			var made atomic.Int64
			config := e.TLS()
			config.ServerName = "localhost"
			bounded(e, modest, patience, func(stop <-chan time.Time) {
				repeat(12, stop, func(i int) {
					c, err := from(e, addresses(204, 4)[i%4], e.Public(0))
					if err != nil {
						return
					}
					defer c.Close()
					_ = c.SetDeadline(time.Now().Add(3 * time.Second))
					if tls.Client(c, config).HandshakeContext(e.Context()) == nil {
						made.Add(1)
					}
				})
			})
			e.Control(made.Load() > 100, "only %d handshakes were made", made.Load())
		},
	},
	{
		ID: "dos/slow-headers", Title: "headers that trickle hold connections", Serial: true,
		Requirements: []string{"API-06"}, Threats: []string{"PUB-D1"},
		Attack:  "requests whose headers come a byte at a time, on eighty connections from two addresses",
		Control: "the friendly user is served before",
		Oracle:  "how long the server bears one; the friendly user's answers; the server's memory",
		Run: func(e *harness.Env) {
			config := e.TLS()
			config.ServerName, config.NextProtos = "localhost", []string{"http/1.1"}
			var mu sync.Mutex
			var longest time.Duration
			bounded(e, modest, patience, func(stop <-chan time.Time) {
				repeat(80, stop, func(i int) {
					c, err := from(e, addresses(205, 2)[i%2], e.Public(0))
					if err != nil {
						return
					}
					defer c.Close()
					t := tls.Client(c, config)
					if t.HandshakeContext(e.Context()) != nil {
						return
					}
					began := time.Now()
					gone := make(chan struct{})
					go func() { defer close(gone); _, _ = t.Read(make([]byte, 512)) }()
					head := "GET /health HTTP/1.1\r\nHost: x\r\nX: " + strings.Repeat("y", 500)
					for k := 0; k < len(head); k++ {
						if _, err := t.Write([]byte{head[k]}); err != nil {
							break
						}
						select {
						case <-gone:
							k = len(head)
						case <-time.After(100 * time.Millisecond):
						}
						if time.Since(began) > 8*time.Second {
							break
						}
					}
					mu.Lock()
					longest = max(longest, time.Since(began))
					mu.Unlock()
				})
			})
			e.Check(longest > 0 && longest < 5*time.Second, "a trickle was borne for %s", longest)
		},
	},
	{
		ID: "dos/strangers-at-internal", Title: "a stranger without a certificate shuts the workers out", Serial: true, Slow: true,
		Requirements: []string{"MTL-01", "REL-01"}, Threats: []string{"INT-D1", "PUB-D1"},
		Attack:  "six hundred silent connections to the workers' listener from one address, opened anew when they are closed",
		Control: "a worker's request is answered before",
		Oracle:  "a worker's requests over new connections from its own address: each answered; jobs are finished by the real workers",
		Run: func(e *harness.Env) {
			w := listed(e)
			ask := func() error {
				c, err := e.Dial(e.Internal(0), workerTLS(e, w))
				if err != nil {
					return err
				}
				defer c.Close()
				r := harness.Request{Method: http.MethodPost, Path: "/internal/v1/jobs/claim", Header: []string{harness.JSONType}, Body: harness.Slots}
				if err := c.Send(r.Bytes(e.Internal(0))); err != nil {
					return err
				}
				_, err = c.Receive(http.MethodPost, 10*time.Second)
				return err
			}
			e.Control(ask() == nil, "a worker before")
			stop := make(chan time.Time)
			done := make(chan struct{})
			go func() {
				defer close(done)
				crowd(e, e.Internal(0), []string{"127.206.1.1"}, 600, func(net.Conn) {}, stop)
			}()
			e.Await(time.Second, func() bool { return len(heldFrom(e, "127.206.1.1")) > 90 })
			for i := range 6 {
				began := time.Now()
				err := ask()
				e.Check(err == nil && time.Since(began) < 5*time.Second, "worker's request %d: %v after %s", i, err, time.Since(began))
			}
			close(stop)
			<-done
			e.Check(e.Done(e.Alice(), harness.Lua(), "completed").Status == "completed", "a job is not finished")
		},
	},
}

// addresses are loopback addresses that no other case uses.
func addresses(second, n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf("127.%d.%d.7", second, i+1)
	}
	return all
}

// repeat runs call on n lines again and again until stop.
func repeat(n int, stop <-chan time.Time, call func(i int)) {
	over := make(chan struct{})
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			for {
				select {
				case <-over:
					return
				default:
					call(i)
				}
			}
		})
	}
	<-stop
	close(over)
	all.Wait()
}
