package attacks

import (
	"bytes"
	"io"
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
