package attacks

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"glovebox/attacks/harness"
)

// inTheClear sends text to address without TLS and returns what comes until the
// other side ends the connection or says nothing for a while.
func inTheClear(e *harness.Env, address, text string) string {
	conn, err := e.DialTCP(e.Context(), address)
	e.Must(err, "connect to %s", address)
	defer conn.Close()
	e.Must(conn.SetDeadline(time.Now().Add(5*time.Second)), "set a deadline")
	if _, err := conn.Write([]byte(text)); err != nil {
		return ""
	}
	var got bytes.Buffer
	_, _ = io.Copy(&got, io.LimitReader(conn, 64<<10)) // how it ends is not asked
	return got.String()
}

// contains reports whether text holds one of the words.
func contains(text string, words ...string) bool {
	for _, w := range words {
		if strings.Contains(text, w) {
			return true
		}
	}
	return false
}

// harnessWait is how long an answer may take before there is none.
const harnessWait = 5 * time.Second

// lineReader reads a stream of lines and counted bytes.
type lineReader struct{ r *bufio.Reader }

func newLineReader(r io.Reader) lineReader { return lineReader{bufio.NewReaderSize(r, 1<<20)} }

func (l lineReader) line() (string, error) {
	text, err := l.r.ReadString('\n')
	return strings.TrimSuffix(text, "\n"), err
}

func (l lineReader) take(n int) ([]byte, error) {
	content := make([]byte, n)
	_, err := io.ReadFull(l.r, content)
	return content, err
}

// exchangeOver sends a request through TLS over an open connection and returns the
// status of the answer.
func exchangeOver(c net.Conn, config *tls.Config, request []byte) (int, error) {
	secured := tls.Client(c, config)
	if _, err := secured.Write(request); err != nil {
		return 0, err
	}
	answer, err := http.ReadResponse(bufio.NewReader(secured), nil)
	if err != nil {
		return 0, err
	}
	_, _ = io.Copy(io.Discard, answer.Body)
	return answer.StatusCode, answer.Body.Close()
}
