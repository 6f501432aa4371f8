package traffic

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
)

// File is what a user sends, and what must come back.
type File struct {
	Name    string
	Content []byte
	Sent    string // SHA-256 of Content, in hex
	Want    string // SHA-256 of the result, in hex
}

// The shapes of files, in bytes and milliseconds, and how many of a hundred.
const (
	smallBytes, mediumBytes, largeBytes = 50_000, 400_000, 3_000_000
	mediumShare, largeShare             = 12, 3
	pauseShare, pauseMS                 = 40, 900 // the core waits so long before it copies
	longShare, longMS                   = 3, 6000 // longer than a lease
)

// NewFile makes a file that no other has the bytes of. The core copies everything
// after a first line that tells it to wait.
func NewFile(random *rand.Rand, name string) File {
	size := 1 + random.IntN(smallBytes)
	switch share := random.IntN(100); {
	case share < largeShare:
		size = largeBytes/2 + random.IntN(largeBytes/2)
	case share < largeShare+mediumShare:
		size = smallBytes + random.IntN(mediumBytes-smallBytes)
	}
	pause := 0
	switch share := random.IntN(100); {
	case share < longShare:
		pause = longMS
	case share < longShare+pauseShare:
		pause = 1 + random.IntN(pauseMS)
	}
	return fileOf(random, name, size, pause)
}

// SlowFile makes a small file at which the core waits for pauseMS milliseconds.
func SlowFile(random *rand.Rand, name string, pauseMS int) File {
	return fileOf(random, name, 1+random.IntN(smallBytes), pauseMS)
}

// SizedFile makes a file of so many bytes that the core copies at once.
func SizedFile(random *rand.Rand, name string, size int) File { return fileOf(random, name, size, 0) }

func fileOf(random *rand.Rand, name string, size, pauseMS int) File {
	var body bytes.Buffer
	fmt.Fprintf(&body, "%s %016x\n", name, random.Uint64())
	filler := make([]byte, size)
	for i := range filler {
		filler[i] = byte(random.Uint32())
	}
	body.Write(filler)
	content := body.Bytes()
	if pauseMS > 0 {
		content = append(fmt.Appendf(nil, "#!act sleep %d\n", pauseMS), content...)
	}
	return File{Name: name, Content: content, Sent: hexSum(content), Want: hexSum(body.Bytes())}
}

func hexSum(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}
