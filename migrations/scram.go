package migrations

import (
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"

	"glovebox/system/platform/secret"
)

const (
	scramIterations = 4096 // PostgreSQL's own default
	scramSaltBytes  = 16
	minPassword     = 16 // bytes; these are made by machines, for machines
)

// scramVerifier returns PostgreSQL's stored form of password, after RFC 5803:
// SCRAM-SHA-256$iterations:salt$StoredKey:ServerKey. The password must be
// printable ASCII, for which SASLprep changes nothing.
func scramVerifier(password secret.Text) (string, error) {
	if password.Len() < minPassword {
		return "", fmt.Errorf("the password has %d bytes; give at least %d, for example from: openssl rand -hex 32", password.Len(), minPassword)
	}
	for _, c := range []byte(password.Reveal()) {
		if c < 0x20 || c > 0x7e {
			return "", errors.New("the password holds a character that is not printable ASCII; use letters and digits")
		}
	}
	salt := make([]byte, scramSaltBytes)
	if _, err := rand.Read(salt); err != nil {
		return "", fmt.Errorf("read randomness: %w", err)
	}
	return scramFrom(password, salt, scramIterations)
}

func scramFrom(password secret.Text, salt []byte, iterations int) (string, error) {
	salted, err := pbkdf2.Key(sha256.New, password.Reveal(), salt, iterations, sha256.Size)
	if err != nil {
		return "", fmt.Errorf("derive the key: %w", err)
	}
	stored := sha256.Sum256(mac(salted, "Client Key"))
	b64 := base64.StdEncoding.EncodeToString
	return fmt.Sprintf("SCRAM-SHA-256$%d:%s$%s:%s", iterations, b64(salt), b64(stored[:]), b64(mac(salted, "Server Key"))), nil
}

func mac(key []byte, text string) []byte {
	m := hmac.New(sha256.New, key)
	m.Write([]byte(text))
	return m.Sum(nil)
}
