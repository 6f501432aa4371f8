package attacks

import (
	"encoding/binary"
	"io"
	"time"

	"glovebox/attacks/harness"
)

// clientHello is a TLS greeting made by hand, to offer what no library would.
type clientHello struct {
	version     uint16 // legacy_version: what TLS 1.2 and older go by
	suites      []uint16
	compression []byte   // default: none alone
	groups      []uint16 // default: x25519 and P-256
	signatures  []uint16 // default: ECDSA and RSA with SHA-256
	more        []byte   // further extensions, as they stand
}

// extension frames one.
func extension(kind uint16, body []byte) []byte {
	out := binary.BigEndian.AppendUint16(nil, kind)
	out = binary.BigEndian.AppendUint16(out, uint16(len(body))) //nolint:gosec // ours are short
	return append(out, body...)
}

// list16 is a list of 16-bit numbers behind its length.
func list16(values []uint16) []byte {
	out := binary.BigEndian.AppendUint16(nil, uint16(2*len(values))) //nolint:gosec // ours are short
	for _, v := range values {
		out = binary.BigEndian.AppendUint16(out, v)
	}
	return out
}

// record is the greeting in one record.
func (h clientHello) record() []byte {
	if h.compression == nil {
		h.compression = []byte{0}
	}
	if h.groups == nil {
		h.groups = []uint16{29, 23}
	}
	if h.signatures == nil {
		h.signatures = []uint16{0x0403, 0x0804, 0x0401}
	}
	body := binary.BigEndian.AppendUint16(nil, h.version)
	body = append(body, []byte(harness.RandomHex(16))...) // 32 bytes
	body = append(body, 0)                                // no session
	body = append(body, list16(h.suites)...)
	body = append(body, byte(len(h.compression)))
	body = append(body, h.compression...)
	var extensions []byte
	extensions = append(extensions, extension(10, list16(h.groups))...)
	extensions = append(extensions, extension(11, []byte{1, 0})...)
	extensions = append(extensions, extension(13, list16(h.signatures))...)
	extensions = append(extensions, extension(0xff01, []byte{0})...)
	extensions = append(extensions, h.more...)
	body = binary.BigEndian.AppendUint16(body, uint16(len(extensions))) //nolint:gosec // ours are short
	body = append(body, extensions...)
	message := append([]byte{1, 0, byte(len(body) >> 8), byte(len(body))}, body...)
	return append([]byte{22, 3, 1, byte(len(message) >> 8), byte(len(message))}, message...)
}

// helloReply is what a server says to a greeting.
type helloReply struct {
	kind        string // of its first record: "hello", "alert", "other", "" where it says nothing
	alert       byte   // the first one, also behind a hello
	version     uint16
	suite       uint16
	compression byte
	random      []byte
	signature   uint16 // of the key exchange of TLS 1.2; 0 where none is signed
}

// The alerts that cases ask for.
const (
	alertHandshakeFailure  = 40
	alertProtocolVersion   = 70
	alertInappropriateFall = 86
)

// askHello sends the greeting to the address and reads what comes up to an alert,
// the server's last message of TLS 1.2 or the end of what is in the clear.
func askHello(e *harness.Env, address string, greeting []byte) (r helloReply) {
	conn, err := e.DialTCP(e.Context(), address)
	e.Must(err, "connect to %s", address)
	defer conn.Close()
	const patience = 5 * time.Second
	e.Must(conn.SetDeadline(time.Now().Add(patience)), "set a deadline")
	if _, err := conn.Write(greeting); err != nil {
		return r
	}
	var messages []byte
	for {
		head := make([]byte, 5)
		if _, err := io.ReadFull(conn, head); err != nil {
			return r
		}
		body := make([]byte, binary.BigEndian.Uint16(head[3:]))
		if _, err := io.ReadFull(conn, body); err != nil {
			return r
		}
		switch head[0] {
		case 21:
			if len(body) >= 2 {
				r.alert = body[1]
			}
			r.first("alert")
			return r
		case 22:
			messages = append(messages, body...)
		default:
			r.first("other")
			return r
		}
		for len(messages) >= 4 {
			n := 4 + int(messages[1])<<16 + int(messages[2])<<8 + int(messages[3])
			if len(messages) < n {
				break
			}
			if ended := r.take(messages[0], messages[4:n]); ended {
				return r
			}
			messages = messages[n:]
		}
	}
}

func (r *helloReply) first(kind string) {
	if r.kind == "" {
		r.kind = kind
	}
}

// take reads one message of the handshake and reports whether it is the last.
func (r *helloReply) take(kind byte, body []byte) (ended bool) {
	const hello, keyExchange, done = 2, 12, 14
	switch kind {
	case hello:
		r.first("hello")
		if len(body) < 38 || len(body) < 38+int(body[34]) {
			return true
		}
		r.version, r.random = binary.BigEndian.Uint16(body), body[2:34]
		rest := body[35+int(body[34]):]
		r.suite, r.compression = binary.BigEndian.Uint16(rest), rest[2]
	case keyExchange: // a named curve, a point, then the kind of signature
		if len(body) > 4 && len(body) >= 6+int(body[3]) {
			r.signature = binary.BigEndian.Uint16(body[4+int(body[3]):])
		}
	case done:
		return true
	default:
		r.first("other")
	}
	return false
}
