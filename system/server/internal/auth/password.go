package auth

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/crypto/argon2"

	"glovebox/system/platform/secret"
)

// Bounds of a password. The upper one keeps a hash's cost independent of what a
// stranger sends.
const (
	MinPasswordRunes = 12
	MaxPasswordBytes = 1024
)

const (
	saltBytes = 16
	hashBytes = 32
	// Stored parameters beyond these are not ours: a row that was tampered with
	// must not make a login cost gigabytes.
	maxMemoryKiB = 4 << 20
	maxTime      = 100
	maxThreads   = 64
)

// Params are argon2id's costs.
type Params struct {
	Time      uint32
	MemoryKiB uint32
	Threads   uint8
}

// DefaultParams are OWASP's lower recommendation for argon2id: about 60 ms and
// 19 MiB for one password.
var DefaultParams = Params{Time: 2, MemoryKiB: 19 << 10, Threads: 1}

// CheckPassword judges a new password: long enough, and text. There are no rules
// about kinds of characters.
func CheckPassword(password secret.Text) error {
	text := password.Reveal()
	switch {
	case !utf8.ValidString(text) || strings.ContainsRune(text, 0):
		return errors.New("the password is not text")
	case len(text) > MaxPasswordBytes:
		return fmt.Errorf("the password is longer than %d bytes", MaxPasswordBytes)
	case utf8.RuneCountInString(text) < MinPasswordRunes:
		return fmt.Errorf("the password has fewer than %d characters; use a longer one or --generate", MinPasswordRunes)
	}
	return nil
}

// Hasher makes and checks password hashes, a bounded number at once: each holds
// its memory for its whole time.
type Hasher struct {
	params  Params
	permits chan struct{}
	wait    time.Duration
	dummy   string // a hash of nothing anybody knows, with the current costs
}

// NewHasher returns a Hasher of at most concurrency hashes at once. A caller waits
// for its turn for at most wait and is then refused with CodeOverloaded.
func NewHasher(params Params, concurrency int, wait time.Duration) *Hasher {
	h := &Hasher{params: params, permits: make(chan struct{}, concurrency), wait: wait}
	var unknown [32]byte
	_, _ = rand.Read(unknown[:]) // never fails
	h.dummy = h.encode(unknown[:])
	return h
}

// Hash returns the hash of a password in PHC form, with its parameters and salt
// (AUT-02).
func (h *Hasher) Hash(ctx context.Context, password secret.Text) (string, error) {
	release, err := h.acquire(ctx)
	if err != nil {
		return "", err
	}
	defer release()
	return h.encode([]byte(password.Reveal())), nil
}

// Verify reports whether password belongs to encoded, in constant time. An empty
// encoded stands for a user that does not exist: the work is the same and the
// answer is no. stale tells that the stored costs are below today's.
func (h *Hasher) Verify(ctx context.Context, encoded string, password secret.Text) (ok, stale bool, err error) {
	release, err := h.acquire(ctx)
	if err != nil {
		return false, false, err
	}
	defer release()
	exists := encoded != ""
	if !exists {
		encoded = h.dummy
	}
	stored, err := decode(encoded)
	if err != nil {
		return false, false, err
	}
	key := argon2.IDKey([]byte(password.Reveal()), stored.salt, stored.params.Time, stored.params.MemoryKiB, stored.params.Threads, uint32(len(stored.key)))
	same := subtle.ConstantTimeCompare(key, stored.key) == 1
	return same && exists, stored.params.weaker(h.params), nil
}

func (h *Hasher) acquire(ctx context.Context) (release func(), err error) {
	timer := time.NewTimer(h.wait)
	defer timer.Stop()
	select {
	case h.permits <- struct{}{}:
		return func() { <-h.permits }, nil
	case <-timer.C:
		return nil, &Error{Code: CodeOverloaded, Message: "too many logins at once; try again", Retry: h.wait}
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (h *Hasher) encode(password []byte) string {
	var salt [saltBytes]byte
	_, _ = rand.Read(salt[:]) // never fails
	p := h.params
	key := argon2.IDKey(password, salt[:], p.Time, p.MemoryKiB, p.Threads, hashBytes)
	b64 := base64.RawStdEncoding
	return fmt.Sprintf("$argon2id$v=%d$m=%d,t=%d,p=%d$%s$%s", argon2.Version, p.MemoryKiB, p.Time, p.Threads,
		b64.EncodeToString(salt[:]), b64.EncodeToString(key))
}

func (p Params) weaker(than Params) bool {
	return p.Time < than.Time || p.MemoryKiB < than.MemoryKiB || p.Threads < than.Threads
}

type storedHash struct {
	params    Params
	salt, key []byte
}

// decode reads the PHC form. Its errors hold nothing of the hash.
func decode(encoded string) (storedHash, error) {
	bad := errors.New("a stored password hash is not argon2id in PHC form; set the password again")
	fields := strings.Split(encoded, "$")
	if len(fields) != 6 || fields[0] != "" || fields[1] != "argon2id" || fields[2] != "v="+strconv.Itoa(argon2.Version) {
		return storedHash{}, bad
	}
	var s storedHash
	costs := strings.Split(fields[3], ",")
	if len(costs) != 3 {
		return storedHash{}, bad
	}
	for i, c := range []struct {
		name string
		most uint64
		set  func(uint64)
	}{
		{"m=", maxMemoryKiB, func(v uint64) { s.params.MemoryKiB = uint32(v) }},
		{"t=", maxTime, func(v uint64) { s.params.Time = uint32(v) }},
		{"p=", maxThreads, func(v uint64) { s.params.Threads = uint8(v) }},
	} {
		digits, ok := strings.CutPrefix(costs[i], c.name)
		v, err := strconv.ParseUint(digits, 10, 32)
		if !ok || err != nil || v < 1 || v > c.most {
			return storedHash{}, bad
		}
		c.set(v)
	}
	var saltErr, keyErr error
	s.salt, saltErr = base64.RawStdEncoding.Strict().DecodeString(fields[4])
	s.key, keyErr = base64.RawStdEncoding.Strict().DecodeString(fields[5])
	if saltErr != nil || keyErr != nil || len(s.salt) < 8 || len(s.key) < 16 || len(s.key) > 64 {
		return storedHash{}, bad
	}
	return s, nil
}
