package auth

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"strings"

	"glovebox/system/platform/secret"
)

const (
	// TokenPrefix begins every token, so that a scanner finds one in the wrong place.
	TokenPrefix = "gbx_"
	tokenBytes  = 32
)

// MinSecretBytes is the least length of the HMAC secret (AUT-04).
const MinSecretBytes = 32

// Hash identifies a token without being one: HMAC-SHA256 under the server's
// secret. Who reads the database cannot make a token from it, nor test a guess
// without the secret (AUT-03).
type Hash [sha256.Size]byte

// Minter makes tokens and their hashes. Another secret gives other hashes: every
// token made before is then unknown.
type Minter struct{ key secret.Text }

// NewMinter returns a Minter. The secret's length was judged with the
// configuration; a shorter one here is a fault of the program.
func NewMinter(key secret.Text) *Minter {
	if key.Len() < MinSecretBytes {
		panic("auth: the token secret is shorter than 32 bytes")
	}
	return &Minter{key: key}
}

// Mint returns a new token of 32 random bytes, and its hash.
func (m *Minter) Mint() (secret.Text, Hash) {
	var random [tokenBytes]byte
	_, _ = rand.Read(random[:]) // never fails
	text := secret.New(TokenPrefix + base64.RawURLEncoding.EncodeToString(random[:]))
	return text, m.hash(text)
}

// Hash returns the hash of a token; ok is false where the text cannot be one.
func (m *Minter) Hash(token secret.Text) (Hash, bool) {
	encoded, ok := strings.CutPrefix(token.Reveal(), TokenPrefix)
	if !ok {
		return Hash{}, false
	}
	// Strict: of all texts that decode to the same bytes, one is the token.
	decoded, err := base64.RawURLEncoding.Strict().DecodeString(encoded)
	if err != nil || len(decoded) != tokenBytes || strings.ContainsAny(encoded, "\r\n") {
		return Hash{}, false
	}
	return m.hash(token), true
}

func (m *Minter) hash(token secret.Text) Hash {
	mac := hmac.New(sha256.New, []byte(m.key.Reveal()))
	mac.Write([]byte(token.Reveal()))
	return Hash(mac.Sum(nil))
}
