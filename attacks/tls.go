package attacks

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"glovebox/attacks/harness"
)

// transport attacks what carries both interfaces. Its name is not tls, which is
// the library's.
var transport = harness.Family{
	Name: "tls", About: "TLS on every listener: versions, suites, certificates, tickets, records",
	Cases: []harness.Case{
		{
			ID: "tls/plain-http", Title: "the interface is served without encryption",
			Requirements: []string{"API-06", "ARC-01"}, Threats: []string{"PUB-S3"}, Safe: true,
			Attack:  "plain HTTP/1.1 and HTTP/2 requests, with a token, to the port of TLS",
			Control: "the same request over TLS is answered",
			Oracle:  "what comes back in the clear: no answer of 2xx, nothing of the user's",
			Run:     tlsPlain,
		},
		{
			ID: "tls/old-versions", Title: "a peer talks the server down to a broken version",
			Requirements: []string{"API-06"}, Threats: []string{"PUB-S3", "INT-S1"}, Safe: true,
			Attack:  "greetings of SSL 2, SSL 3, TLS 1.0 and 1.1",
			Control: "a greeting of TLS 1.2 in the same form is answered with a hello",
			Oracle:  "an alert that names the version; to SSL 2 no hello",
			Run:     tlsOld,
		},
		{
			ID: "tls/weak-suites", Title: "a connection is encrypted weakly, or not at all",
			Requirements: []string{"API-06"}, Threats: []string{"PUB-S3"}, Safe: true,
			Attack:  "each suite without encryption, authentication or forward secrecy, of RC4, DES, 3DES, CBC and export, offered alone",
			Control: "each suite that is permitted is chosen when it is offered alone with the server's kind of key",
			Oracle:  "an alert to each",
			Run:     tlsSuites,
		},
		{
			ID: "tls/prefers-13", Title: "the newer protocol is there and is not used",
			Requirements: []string{"API-06"}, Threats: []string{"PUB-S3"}, Safe: true,
			Attack:  "a peer that speaks 1.2 and 1.3",
			Control: "a peer that speaks 1.2 alone is served by 1.2",
			Oracle:  "the version that was agreed on, on each listener",
			Run:     tlsPrefers,
		},
		{
			ID: "tls/downgrade-mark", Title: "somebody in between takes 1.3 out of a greeting, and nobody notices",
			Requirements: []string{"API-06"}, Threats: []string{"PUB-S3"}, Safe: true,
			Attack:  "a greeting that offers 1.2 at most, and one that says it is a second try (SCSV)",
			Control: "the same greeting without the mark of a second try is answered with a hello",
			Oracle:  "the server's random ends in the mark of RFC 8446 §4.1.3; the second try is refused with alert 86",
			Run:     tlsDowngrade,
		},
		{
			ID: "tls/compression", Title: "compression below the encryption tells secrets by length",
			Requirements: []string{"API-06"}, Threats: []string{"PUB-S3"}, Safe: true,
			Attack:  "greetings that offer DEFLATE before nothing, and DEFLATE alone",
			Control: "the server answers the first",
			Oracle:  "no compression is chosen; DEFLATE alone is refused",
			Run:     tlsCompression,
		},
		{
			ID: "tls/renegotiation", Title: "a peer renegotiates a connection, again and again",
			Requirements: []string{"API-06"}, Threats: []string{"PUB-S3", "PUB-D1"}, Safe: true,
			Attack:  "openssl s_client asks for a renegotiation in an open TLS 1.2 connection",
			Control: "the same client is answered before it asks",
			Oracle:  "the client's own report: the server does not agree",
			Run:     tlsRenegotiation,
		},
		{
			ID: "tls/early-data", Title: "a recorded first flight is replayed as a request",
			Requirements: []string{"API-06"}, Threats: []string{"PUB-S3", "PUB-T3"}, Safe: true,
			Attack:  "a session is resumed with the request sent as early data",
			Control: "the session is given a ticket, and a plain resumption works",
			Oracle:  "the ticket permits no early data; the client's report of what the server took",
			Run:     tlsEarly,
		},
		{
			ID: "tls/tickets-across", Title: "a ticket of one listener opens the other without a certificate",
			Requirements: []string{"MTL-01", "MTL-03", "API-06"}, Threats: []string{"INT-S1", "INT-E1"},
			Attack:  "tickets of the public listener, and of the internal one as a worker, are shown to the internal one without a certificate",
			Control: "a ticket works where it was given, on the public listener; with a certificate the internal one answers",
			Oracle:  "no resumption, and no answer without a certificate",
			Run:     tlsTickets,
		},
		{
			ID: "tls/alpn", Title: "a protocol nobody thought of is agreed on",
			Requirements: []string{"API-06"}, Threats: []string{"PUB-T2"},
			Attack:  "ALPN of other protocols alone and before ours, h2 at the internal listener, none at all",
			Control: "h2 and http/1.1 are agreed on where they are offered",
			Oracle:  "the protocol of the handshake, or its refusal",
			Run:     tlsALPN,
		},
		{
			ID: "tls/certificate", Title: "the server's certificate is weak, wrong or of the wrong authority",
			Requirements: []string{"API-06", "MTL-01"}, Threats: []string{"PUB-S3", "INT-S1"},
			Attack:  "the certificates of both listeners are taken and judged, each also by the other's authority and the host's",
			Control: "each is accepted by its own authority for its own name",
			Oracle:  "key, signature, name, use and time of the leaf",
			Run:     tlsCertificate,
		},
		{
			ID: "tls/names", Title: "a name in the greeting brings out another certificate or breaks the server",
			Requirements: []string{"API-06"}, Threats: []string{"PUB-I2"}, Safe: true,
			Attack:  "SNI of other hosts, of the internal one, an address, 300 bytes, control characters, two names",
			Control: "without SNI a certificate is shown",
			Oracle:  "the same certificate, or a refusal",
			Run:     tlsNames,
		},
		{
			ID: "tls/groups", Title: "keys are exchanged over a weak curve",
			Requirements: []string{"API-06"}, Threats: []string{"PUB-S3"}, Safe: true,
			Attack:  "greetings that offer binary, 160-bit, 192-bit, anonymous and finite-field groups alone",
			Control: "x25519 and P-256 alone are answered",
			Oracle:  "an alert to each",
			Run:     tlsGroups,
		},
		{
			ID: "tls/sha1", Title: "the server signs with a broken hash",
			Requirements: []string{"API-06"}, Threats: []string{"PUB-S3"}, Safe: true,
			Attack:  "greetings that permit MD5 and SHA-1 signatures alone",
			Control: "for SHA-256 alone the key exchange is signed, and the signature's kind is read",
			Oracle:  "an alert in place of a signed key exchange",
			Run:     tlsSHA1,
		},
		{
			ID: "tls/heartbeat", Title: "a heartbeat brings out the server's memory",
			Requirements: []string{"API-06"}, Threats: []string{"PUB-I2"}, Safe: true,
			Attack:  "heartbeats that say they are longer than they are, before and behind the greeting's answer",
			Control: "the greeting itself is answered",
			Oracle:  "no heartbeat comes back",
			Run:     tlsHeartbeat,
		},
		{
			ID: "tls/records", Title: "a malformed record ends or fills the server",
			Requirements: []string{"API-06", "REL-01"}, Threats: []string{"PUB-D1", "PUB-D2"},
			Attack:  "records that are too long, empty by the thousand, of unknown kinds, greetings cut into bytes, with lengths that lie, and 300 random ones, on both listeners",
			Control: "a greeting cut into two records is answered",
			Oracle:  "the servers' processes are the same by the kernel's word, and a user is answered",
			Run:     tlsRecords,
		},
	},
}

// listeners are the addresses of TLS, with their authorities where they are known.
func listeners(e *harness.Env) map[string]string {
	all := map[string]string{"public": e.Public(0)}
	if e.Endpoint.InternalURL != "" {
		all["internal"] = e.Internal(0)
	}
	return all
}

// suites12 are those that are permitted with a key of ECDSA or RSA.
var suites12 = []uint16{0xc02b, 0xc02c, 0xcca9, 0xc02f, 0xc030, 0xcca8}

func tlsPlain(e *harness.Env) {
	u := e.Alice()
	request := me(e.Token(u)).Bytes(e.Public(0))
	e.Control(whoami(e.Do(me(e.Token(u)))) == u.Login, "over TLS")
	for listener, address := range listeners(e) {
		for name, sent := range map[string][]byte{
			"HTTP/1.1": request, "HTTP/1.0": []byte("GET /health HTTP/1.0\r\n\r\n"),
			"HTTP/2": []byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00"),
		} {
			e.Input("%s to the %s listener", name, listener)
			raw, err := e.DialTCP(e.Context(), address)
			e.Must(err, "connect")
			_, err = raw.Write(sent)
			e.Must(err, "send")
			e.Must(raw.SetReadDeadline(time.Now().Add(3*time.Second)), "wait")
			got, _ := io.ReadAll(io.LimitReader(raw, 4096)) // what came by then is what there is
			_ = raw.Close()
			e.Check(!bytes.HasPrefix(got, []byte("HTTP/1.1 2")) && !bytes.HasPrefix(got, []byte("HTTP/1.0 2")) && !bytes.Contains(got, []byte(u.Login)) && !bytes.Contains(got, []byte(`"status"`)), "got %q", got)
		}
	}
}

func tlsOld(e *harness.Env) {
	for listener, address := range listeners(e) {
		control := askHello(e, address, clientHello{version: 0x0303, suites: suites12}.record())
		e.Control(control.kind == "hello" && control.version == 0x0303, "%s: TLS 1.2 is answered with %+v", listener, control)
		for name, version := range map[string]uint16{"SSL 3": 0x0300, "TLS 1.0": 0x0301, "TLS 1.1": 0x0302, "0.0": 0, "2.0": 0x0200} {
			e.Input("%s, %s", listener, name)
			r := askHello(e, address, clientHello{version: version, suites: append([]uint16{0xc009, 0xc013, 0x002f, 0x0035, 0x000a}, suites12...)}.record())
			e.Check(r.kind != "hello", "it is answered with version %04x", r.version)
			// Refused as a version: not only because none of its suites is left.
			e.Check(r.kind == "alert" && r.alert == alertProtocolVersion, "it is not refused for its version: %+v", r)
		}
		e.Input("%s, SSL 2", listener)
		r := askHello(e, address, []byte{0x80, 0x2e, 1, 0, 2, 0, 0x15, 0, 0, 0, 0x10, 7, 0, 0xc0, 3, 0, 0x80, 1, 0, 0x80, 6, 0, 0x40, 4, 0, 0x80, 2, 0, 0x80, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16})
		e.Check(r.kind != "hello", "it is answered")
	}
}

var weakSuites = map[string]uint16{
	"NULL with MD5": 0x0001, "NULL with SHA": 0x0002, "NULL with SHA-256": 0x003b, "ECDHE NULL": 0xc010, "ECDHE ECDSA NULL": 0xc006,
	"export RC4": 0x0003, "export DES": 0x0008, "RC4 MD5": 0x0004, "RC4 SHA": 0x0005, "ECDHE RC4": 0xc011,
	"ECDHE ECDSA RC4": 0xc007, "DES": 0x0009, "3DES": 0x000a, "ECDHE 3DES": 0xc012, "ECDHE ECDSA 3DES": 0xc008, "anonymous DH": 0x0034,
	"anonymous DH GCM": 0x00a6, "anonymous ECDH": 0xc018, "anonymous RC4": 0x0018, "RSA AES CBC": 0x002f, "RSA AES-256 CBC": 0x0035,
	"RSA CBC SHA-256": 0x003c,
	"RSA GCM":         0x009c, "RSA GCM-256": 0x009d, "ECDHE CBC": 0xc013, "ECDHE CBC-256": 0xc014, "ECDHE ECDSA CBC": 0xc009, "ECDHE ECDSA CBC-256": 0xc00a,
	"ECDHE ECDSA CBC SHA-256": 0xc023, "ECDHE CBC SHA-256": 0xc027, "DHE CBC": 0x0033, "DHE GCM": 0x009e,
	"PSK": 0x008c, "PSK GCM": 0x00a8, "SRP": 0xc01d, "IDEA": 0x0007, "SEED": 0x0096, "Camellia": 0x0041, "static ECDH": 0xc02d, "GOST": 0x0081, "nothing known": 0xfafa,
}

func tlsSuites(e *harness.Env) {
	for listener, address := range listeners(e) {
		chosen := 0
		for _, suite := range suites12 {
			if r := askHello(e, address, clientHello{version: 0x0303, suites: []uint16{suite}}.record()); r.kind == "hello" && r.suite == suite {
				chosen++
			}
		}
		e.Control(chosen >= 3, "%s: %d of the permitted suites are chosen", listener, chosen)
		for name, suite := range weakSuites {
			e.Input("%s, %s", listener, name)
			r := askHello(e, address, clientHello{version: 0x0303, suites: []uint16{suite}}.record())
			e.Check(r.kind == "alert" && r.alert == alertHandshakeFailure, "it is answered with %+v", r)
		}
	}
}

// handshake makes a connection with the configuration and returns its state; the
// error of a refusal that comes behind the handshake counts as its refusal.
func handshake(e *harness.Env, address string, config *tls.Config) (tls.ConnectionState, error) {
	c, err := e.Dial(address, config)
	if err != nil {
		return tls.ConnectionState{}, err
	}
	defer c.Close()
	if err := c.Send([]byte("GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")); err != nil {
		return c.ConnectionState(), err
	}
	_, err = c.Receive(http.MethodGet, 5*time.Second)
	if err != nil && c.ConnectionState().NegotiatedProtocol == "h2" {
		err = nil // it is no HTTP/1.1
	}
	return c.ConnectionState(), err
}

// trusting returns a configuration for the named listener, with a worker's
// certificate where it needs one.
func trusting(e *harness.Env, listener string) *tls.Config {
	if listener == "public" {
		return e.TLS()
	}
	config, err := e.InternalTLS(harness.Spare1)
	e.Must(err, "be a worker")
	return config
}

func tlsPrefers(e *harness.Env) {
	for listener, address := range listeners(e) {
		e.Input("%s", listener)
		config := trusting(e, listener)
		state, err := handshake(e, address, config)
		e.Check(err == nil && state.Version == tls.VersionTLS13, "version %04x (%v)", state.Version, err)
		config.MaxVersion = tls.VersionTLS12
		state, err = handshake(e, address, config)
		e.Control(err == nil && state.Version == tls.VersionTLS12, "1.2 alone: %04x (%v)", state.Version, err)
	}
}

func tlsDowngrade(e *harness.Env) {
	for listener, address := range listeners(e) {
		e.Input("%s", listener)
		plain := askHello(e, address, clientHello{version: 0x0303, suites: suites12}.record())
		e.Control(plain.kind == "hello", "the greeting is answered with %+v", plain)
		e.Check(bytes.HasSuffix(plain.random, []byte("DOWNGRD\x01")), "the random ends in %x", plain.random)
		again := askHello(e, address, clientHello{version: 0x0303, suites: append([]uint16{0x5600}, suites12...)}.record())
		e.Check(again.kind == "alert" && again.alert == alertInappropriateFall, "the second try is answered with %+v", again)
	}
}

func tlsCompression(e *harness.Env) {
	for listener, address := range listeners(e) {
		e.Input("%s", listener)
		both := askHello(e, address, clientHello{version: 0x0303, suites: suites12, compression: []byte{1, 0}}.record())
		e.Control(both.kind == "hello", "both: %+v", both)
		e.Check(both.compression == 0, "compression %d is chosen", both.compression)
		alone := askHello(e, address, clientHello{version: 0x0303, suites: suites12, compression: []byte{1}}.record())
		e.Check(alone.kind != "hello", "DEFLATE alone is answered with %+v", alone)
	}
}

func tlsRenegotiation(e *harness.Env) {
	openssl, err := exec.LookPath("openssl")
	if err != nil {
		e.Unavailable("the program openssl, which can ask for a renegotiation")
	}
	// s_client takes a read that begins with R for the wish to renegotiate, so each
	// piece is written alone, the first when the handshake is over.
	ask := func(pieces ...string) string {
		ctx, cancel := context.WithTimeout(e.Context(), 20*time.Second)
		defer cancel()
		cmd := exec.CommandContext(ctx, openssl, "s_client", "-connect", e.Public(0), "-tls1_2", "-legacy_renegotiation")
		stdin, err := cmd.StdinPipe()
		e.Must(err, "give it input")
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		e.Must(cmd.Start(), "start openssl")
		for _, piece := range append(pieces, "") {
			select {
			case <-time.After(700 * time.Millisecond): // s_client tells nobody that it is ready
			case <-ctx.Done():
			}
			_, _ = io.WriteString(stdin, piece) // it may have ended
		}
		_ = stdin.Close()
		_ = cmd.Wait() // its end is what it is; its report decides
		return out.String()
	}
	const request = "GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
	before := ask(request)
	e.Control(strings.Contains(before, "200 OK"), "before: %s", tail(before))
	after := ask("R\n", request)
	e.Note("openssl reports: %s", tail(after))
	_, behind, asked := strings.Cut(after, "RENEGOTIATING")
	e.Control(asked, "openssl does not ask: %s", tail(after))
	e.Check(!strings.Contains(behind, "200 OK"), "the server agreed: %s", tail(after))
}

func tail(text string) string { return text[max(0, len(text)-600):] }

// oneSession is a cache that shows what it was given.
type oneSession struct{ state *tls.ClientSessionState }

func (c *oneSession) Get(string) (*tls.ClientSessionState, bool) { return c.state, c.state != nil }
func (c *oneSession) Put(_ string, state *tls.ClientSessionState) {
	if state != nil {
		c.state = state
	}
}

func tlsEarly(e *harness.Env) {
	config, cache := e.TLS(), &oneSession{}
	config.ClientSessionCache = cache
	_, err := handshake(e, e.Public(0), config)
	e.Control(err == nil && cache.state != nil, "no ticket is given (%v)", err)
	_, session, err := cache.state.ResumptionState()
	e.Must(err, "read the session")
	e.Check(!session.EarlyData, "the ticket permits early data")
	state, err := handshake(e, e.Public(0), config)
	e.Control(err == nil && state.DidResume, "a plain resumption: %v (%v)", state.DidResume, err)
	openssl, err := exec.LookPath("openssl")
	if err != nil {
		return // the ticket's own word stands
	}
	folder, err := os.MkdirTemp("", "glovebox-attack-")
	e.Must(err, "make a folder")
	e.Cleanup(func(context.Context) error { return os.RemoveAll(folder) })
	e.Must(os.WriteFile(folder+"/request", []byte("GET /health HTTP/1.1\r\nHost: x\r\n\r\n"), 0o600), "write a request")
	run := func(args ...string) string {
		ctx, cancel := context.WithTimeout(e.Context(), 10*time.Second)
		defer cancel()
		cmd := exec.CommandContext(ctx, openssl, append([]string{"s_client", "-connect", e.Public(0), "-tls1_3"}, args...)...)
		cmd.Stdin = strings.NewReader("GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
		cmd.WaitDelay = time.Second
		out, _ := cmd.CombinedOutput() // its report decides
		return string(out)
	}
	run("-sess_out", folder+"/session", "-ign_eof")
	if _, err := os.Stat(folder + "/session"); err != nil {
		return // it kept no session to try with
	}
	report := run("-sess_in", folder+"/session", "-early_data", folder+"/request", "-ign_eof")
	e.Check(!strings.Contains(report, "Early data was accepted"), "early data was accepted: %s", tail(report))
}

func tlsTickets(e *harness.Env) {
	public, cache := e.TLS(), &oneSession{}
	public.ClientSessionCache = cache
	_, err := handshake(e, e.Public(0), public)
	e.Must(err, "connect to the public listener")
	state, err := handshake(e, e.Public(0), public)
	e.Control(err == nil && state.DidResume, "a ticket works where it was given: %v (%v)", state.DidResume, err)
	worker, own := trusting(e, "internal"), &oneSession{}
	worker.ClientSessionCache = own
	for range 2 {
		state, err = handshake(e, e.Internal(0), worker)
		e.Control(err == nil, "with a certificate: %v", err)
	}
	e.Check(!state.DidResume, "the internal listener resumes sessions")
	for name, c := range map[string]*oneSession{"of the public listener": cache, "of the internal listener": own} {
		for i := range e.Servers() {
			e.Input("a ticket %s, server %d", name, i)
			none, err := e.InternalTLS("")
			e.Must(err, "trust the internal authority")
			// The public listener's ticket goes with its certificate, which the internal
			// authority did not sign: the client is made not to mind.
			none.ClientSessionCache, none.InsecureSkipVerify = c, true //nolint:gosec // the attacker does not mind
			state, err := handshake(e, e.Internal(i), none)
			e.Check(err != nil && !state.DidResume, "it was let in: resumed %v (%v)", state.DidResume, err)
		}
	}
}

func tlsALPN(e *harness.Env) {
	try := func(listener string, names ...string) (string, error) {
		config := trusting(e, listener)
		config.NextProtos = names
		state, err := handshake(e, listeners(e)[listener], config)
		return state.NegotiatedProtocol, err
	}
	for _, name := range []string{"h2", "http/1.1"} {
		got, err := try("public", name)
		e.Control(err == nil && got == name, "%s: %q (%v)", name, got, err)
	}
	for _, names := range [][]string{{"h3"}, {"spdy/3.1"}, {"http/1.0"}, {"h2c"}, {"acme-tls/1"}, {"HTTP/1.1"}, {"postgresql"}, {strings.Repeat("x", 255)}, {"\x00"}} {
		for listener := range listeners(e) {
			e.Input("%q, %s", names, listener)
			got, err := try(listener, names...)
			e.Check(err != nil || got == "", "%q is agreed on", got)
		}
	}
	for _, names := range [][]string{{"h3", "http/1.1"}, {"x", "h2"}} {
		e.Input("%q", names)
		got, err := try("public", names...)
		e.Check(err == nil && got == names[1], "%q (%v)", got, err)
	}
	e.Input("h2 at the internal listener")
	got, err := try("internal", "h2", "http/1.1")
	e.Check(err == nil && got == "http/1.1", "%q (%v)", got, err)
	got, err = try("internal", "h2")
	e.Check(err != nil || got == "", "%q is agreed on", got)
}

func tlsGroups(e *harness.Env) {
	for listener, address := range listeners(e) {
		for _, group := range []uint16{29, 23} {
			r := askHello(e, address, clientHello{version: 0x0303, suites: suites12, groups: []uint16{group}}.record())
			e.Control(r.kind == "hello", "%s: group %d is answered with %+v", listener, group, r)
		}
		for name, group := range map[string]uint16{
			"sect163k1": 1, "sect163r2": 3, "secp160k1": 15, "secp192r1": 19, "secp224r1": 21, "arbitrary prime": 0xff01, "arbitrary binary": 0xff02,
			"ffdhe2048": 256, "unknown": 0x7777,
		} {
			e.Input("%s, %s", listener, name)
			r := askHello(e, address, clientHello{version: 0x0303, suites: suites12, groups: []uint16{group}}.record())
			e.Check(r.kind != "hello", "it is answered with %+v", r)
		}
	}
}

func tlsSHA1(e *harness.Env) {
	for listener, address := range listeners(e) {
		r := askHello(e, address, clientHello{version: 0x0303, suites: suites12, signatures: []uint16{0x0403, 0x0401, 0x0804}}.record())
		e.Control(r.signature == 0x0403 || r.signature == 0x0401 || r.signature == 0x0804, "%s: SHA-256 is answered with %+v", listener, r)
		for name, signatures := range map[string][]uint16{
			"SHA-1": {0x0203, 0x0201}, "MD5": {0x0101}, "SHA-224": {0x0303, 0x0301}, "DSA": {0x0202, 0x0402}, "anonymous": {0x0400, 0x0200},
		} {
			e.Input("%s, %s", listener, name)
			r := askHello(e, address, clientHello{version: 0x0303, suites: suites12, signatures: signatures}.record())
			e.Check(r.signature == 0 && r.alert == alertHandshakeFailure, "it is signed by %04x, alert %d", r.signature, r.alert)
		}
	}
}

func tlsHeartbeat(e *harness.Env) {
	beat := []byte{24, 3, 3, 0, 3, 1, 0x40, 0} // it says that 16 KB follow
	for listener, address := range listeners(e) {
		e.Input("%s", listener)
		greeting := clientHello{version: 0x0303, suites: suites12, more: extension(15, []byte{1})}.record()
		e.Control(askHello(e, address, greeting).kind == "hello", "the greeting is not answered")
		for name, sent := range map[string][]byte{"before": append(slices.Clone(beat), greeting...), "behind": append(slices.Clone(greeting), beat...)} {
			e.Input("%s, %s", listener, name)
			conn, err := e.DialTCP(e.Context(), address)
			e.Must(err, "connect")
			_, err = conn.Write(sent)
			e.Must(err, "send")
			e.Must(conn.SetReadDeadline(time.Now().Add(time.Second)), "wait")
			got, _ := io.ReadAll(io.LimitReader(conn, 1<<20)) // what came by then is what there is
			_ = conn.Close()
			for len(got) >= 5 {
				n := 5 + int(got[3])<<8 + int(got[4])
				e.Check(got[0] != 24, "a heartbeat of %d bytes comes back", n)
				got = got[min(n, len(got)):]
			}
		}
	}
}

func tlsRecords(e *harness.Env) {
	before := slices.Clone(e.Endpoint.PIDs.Server)
	greeting := clientHello{version: 0x0303, suites: suites12}.record()
	record := func(kind byte, body []byte) []byte {
		return append([]byte{kind, 3, 3, byte(len(body) >> 8), byte(len(body))}, body...)
	}
	split := append(record(22, greeting[5:20]), record(22, greeting[20:])...)
	for listener, address := range listeners(e) {
		e.Control(askHello(e, address, split).kind == "hello", "%s: a greeting in two records is not answered", listener)
		tries := map[string][]byte{
			"too long": append([]byte{22, 3, 3, 0x48, 0x01}, make([]byte, 0x4801)...), "empty, a thousand": bytes.Repeat(record(22, nil), 1000),
			"unknown kind": record(99, []byte("x")), "alert first": record(21, []byte{2, 40}),
			"data first": record(23, []byte("GET / HTTP/1.1\r\n\r\n")), "cipher change, a thousand": bytes.Repeat(record(20, []byte{1}), 1000),
			"warnings, a thousand": bytes.Repeat(record(21, []byte{1, 90}), 1000), "greeting twice": append(slices.Clone(greeting), greeting...),
			"long greeting": record(22, append([]byte{1, 0xff, 0xff, 0xff}, make([]byte, 16000)...)),
		}
		for i := range 300 {
			spoilt := slices.Clone(greeting)
			for range 1 + e.Rand.IntN(6) {
				spoilt[e.Rand.IntN(len(spoilt))] = byte(e.Rand.Uint32())
			}
			tries[fmt.Sprintf("random %d", i)] = spoilt
		}
		for name, sent := range tries {
			e.Input("%s, %s", listener, name)
			conn, err := e.DialTCP(e.Context(), address)
			e.Must(err, "connect")
			_, _ = conn.Write(sent) // the server may have gone already
			closing(conn)
		}
	}
	e.Input("")
	for _, pid := range before {
		_, err := os.Stat(fmt.Sprintf("/proc/%d", pid))
		e.Check(err == nil, "the server %d is gone", pid)
	}
	a, err := e.Try(me(e.Token(e.Alice())))
	e.Check(err == nil && whoami(a) == e.Alice().Login, "a user is answered %s (%v)", a.Brief(), err)
}

// closing ends the sending side and gives the peer a moment for its answer.
func closing(conn net.Conn) {
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.CloseWrite()
	}
	_ = conn.SetReadDeadline(time.Now().Add(200 * time.Millisecond))
	_, _ = conn.Read(make([]byte, 64))
	_ = conn.Close()
}
