package attacks

import (
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"time"

	"glovebox/attacks/forge"
	"glovebox/attacks/harness"
)

// mtls attacks the internal API's door: certificates that are missing, foreign,
// out of time, for another use, or of a name that is almost a worker's.
var mtls = harness.Family{
	Name: "mtls", About: "certificates and identities of the internal API",
	Cases: join(mtlsCertificates, mtlsNames, mtlsChanges, mtlsCrossing),
}

// handshakes tries a certificate with both versions of TLS: in 1.2 the server
// refuses within the handshake, in 1.3 after it, so only a request tells.
func handshakes(e *harness.Env, what string, show func(*tls.Config)) {
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		config, err := e.InternalTLS("")
		e.Must(err, "trust the internal authority")
		config.MaxVersion = version
		show(config)
		a, err := claimOver(e, config)
		e.Check(err != nil, "%s over %s: the server answered %s", what, tls.VersionName(version), a.Brief())
	}
}

// claimOver sends a claim without a request id, which claims nothing: whoever is
// let in is told 400.
func claimOver(e *harness.Env, config *tls.Config) (harness.Answer, error) {
	c, err := e.Dial(e.Internal(0), config)
	if err != nil {
		return harness.Answer{}, err
	}
	defer c.Close()
	r := harness.Request{Method: http.MethodPost, Path: "/internal/v1/jobs/claim", Header: []string{harness.JSONType}, Body: harness.Slots}
	if err := c.Send(r.Bytes(e.Internal(0))); err != nil {
		return harness.Answer{}, err
	}
	return c.Receive(http.MethodPost, 5*time.Second)
}

// letIn is the control of these cases: a good certificate of a listed worker is
// answered by the route itself.
func letIn(e *harness.Env) (id string) {
	id = listed(e)
	a, err := claimOver(e, showing(e, forged(e, forge.Client(workerName+id))))
	e.Control(err == nil && a.Status == http.StatusBadRequest, "a good certificate: %s (%v)", a.Brief(), err)
	return id
}

func show(pair tls.Certificate) func(*tls.Config) {
	return func(c *tls.Config) {
		c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }
	}
}

// refusedAtDoor is a case in which a certificate of the name of a listed worker
// must not get past the handshake.
func refusedAtDoor(name, title, attack string, pair func(e *harness.Env, worker string) map[string]tls.Certificate) harness.Case {
	return harness.Case{
		ID: "mtls/" + name, Title: title, World: harness.Quiet,
		Requirements: []string{"MTL-01"}, Threats: []string{"INT-S1"},
		Attack:  attack + ", in the name of a listed worker, over TLS 1.2 and 1.3",
		Control: "the worker's good certificate is let in",
		Oracle:  "bytes on the wire: no answer of the API comes",
		Run: func(e *harness.Env) {
			id := letIn(e)
			for what, p := range pair(e, id) {
				handshakes(e, what, show(p))
			}
		},
	}
}

// one signs a leaf, changed, and gives it the name of its fault.
func one(e *harness.Env, by *forge.Authority, fault string, leaf forge.Leaf, chain ...*forge.Authority) map[string]tls.Certificate {
	pair, err := by.Sign(leaf, chain...)
	e.Must(err, "forge a certificate")
	return map[string]tls.Certificate{fault: pair}
}

var mtlsCertificates = []harness.Case{
	{
		ID: "mtls/no-certificate", Title: "somebody without a certificate asks for work", World: harness.Quiet,
		Requirements: []string{"MTL-01"}, Threats: []string{"INT-S1"},
		Attack:  "a claim without a client certificate, over TLS 1.2 and 1.3",
		Control: "a good certificate is let in",
		Oracle:  "bytes on the wire: no answer of the API comes",
		Run: func(e *harness.Env) {
			letIn(e)
			handshakes(e, "no certificate", func(*tls.Config) {})
		},
	},
	refusedAtDoor("foreign-authority", "a certificate of another authority is a worker's", "a leaf of an own authority, whose name is that of the real one",
		func(e *harness.Env, id string) map[string]tls.Certificate {
			real := stolen(e, internalCA)
			own, err := forge.NewAuthority(real.Cert.Subject.CommonName, nil)
			e.Must(err, "make an authority")
			return one(e, own, "foreign authority", forge.Client(workerName+id), own)
		}),
	refusedAtDoor("self-signed", "a certificate that vouches for itself is a worker's", "a self-signed leaf",
		func(e *harness.Env, id string) map[string]tls.Certificate {
			return one(e, nil, "self-signed", forge.Client(workerName+id))
		}),
	refusedAtDoor("public-authority", "the authority of the public listener makes workers", "a leaf of the system's own public authority",
		func(e *harness.Env, id string) map[string]tls.Certificate {
			return one(e, stolen(e, publicCA), "public authority", forge.Client(workerName+id), stolen(e, publicCA))
		}),
	refusedAtDoor("expired", "a certificate works after its end", "a leaf of the right authority that ended a minute ago",
		func(e *harness.Env, id string) map[string]tls.Certificate {
			leaf := forge.Client(workerName + id)
			leaf.To = time.Now().Add(-time.Minute)
			return one(e, stolen(e, internalCA), "expired", leaf)
		}),
	refusedAtDoor("not-yet", "a certificate works before its beginning", "a leaf of the right authority that begins in half an hour",
		func(e *harness.Env, id string) map[string]tls.Certificate {
			leaf := forge.Client(workerName + id)
			leaf.From = time.Now().Add(30 * time.Minute)
			return one(e, stolen(e, internalCA), "not yet valid", leaf)
		}),
	refusedAtDoor("wrong-use", "a certificate for another use is a worker's", "leaves of the right authority for servers, for code, for any use, for none",
		func(e *harness.Env, id string) map[string]tls.Certificate {
			all := map[string]tls.Certificate{}
			for what, use := range map[string][]x509.ExtKeyUsage{
				"for servers": {x509.ExtKeyUsageServerAuth}, "for code": {x509.ExtKeyUsageCodeSigning}, "for any": {x509.ExtKeyUsageAny}, "for none": nil,
			} {
				leaf := forge.Client(workerName + id)
				leaf.Use = use
				all[what] = one(e, stolen(e, internalCA), what, leaf)[what]
			}
			return all
		}),
	refusedAtDoor("authority-as-leaf", "an authority's certificate is a worker's", "a certificate for clients that may sign others",
		func(e *harness.Env, id string) map[string]tls.Certificate {
			leaf := forge.Client(workerName + id)
			leaf.IsCA = true
			return one(e, stolen(e, internalCA), "an authority", leaf)
		}),
	refusedAtDoor("worker-signs", "a worker makes workers", "a leaf signed through an intermediate that the right authority signed, with the chain",
		func(e *harness.Env, id string) map[string]tls.Certificate {
			between, err := forge.NewAuthority("between", stolen(e, internalCA))
			e.Must(err, "make an intermediate")
			return one(e, between, "through an intermediate", forge.Client(workerName+id), between)
		}),
	{
		ID: "mtls/without-key", Title: "a worker's certificate works without its key", World: harness.Quiet,
		Requirements: []string{"MTL-01"}, Threats: []string{"INT-S1", "INT-S2"},
		Attack:  "the certificate of a listed worker, which is no secret, with another key",
		Control: "the worker's own pair is let in",
		Oracle:  "bytes on the wire: no answer of the API comes",
		Run: func(e *harness.Env) {
			id := letIn(e)
			pair := forged(e, forge.Client(workerName+id))
			other := forged(e, forge.Client(workerName+id))
			pair.PrivateKey = other.PrivateKey
			handshakes(e, "another key", show(pair))
		},
	},
	{
		ID: "mtls/plain", Title: "the internal API speaks without TLS", World: harness.Quiet,
		Requirements: []string{"MTL-01", "API-06"}, Threats: []string{"INT-S1"},
		Attack:  "HTTP/1.1, HTTP/2 with prior knowledge and an upgrade to it, in the clear",
		Control: "the same port speaks TLS to a worker",
		Oracle:  "bytes on the wire: nothing of the API, and the connection ends",
		Run: func(e *harness.Env) {
			letIn(e)
			claim := "POST /internal/v1/jobs/claim HTTP/1.1\r\nHost: x\r\nGlovebox-Request-Id: " + harness.UUID() + "\r\nContent-Type: application/json\r\nContent-Length: 34\r\n\r\n" + string(harness.Slots)
			for what, text := range map[string]string{
				"HTTP/1.1": claim,
				"HTTP/2":   "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00",
				"upgrade":  "GET /internal/v1/jobs/claim HTTP/1.1\r\nHost: x\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n",
			} {
				e.Input("%s", what)
				got := inTheClear(e, e.Internal(0), text)
				e.Check(!contains(got, "error", "lease", "101 ", "HTTP/1.1 2"), "the port said %q", got)
			}
		},
	},
}
