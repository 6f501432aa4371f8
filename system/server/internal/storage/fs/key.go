package fs

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"strings"
)

// MaxKeyBytes bounds a key, so that its file name fits every file system.
const MaxKeyBytes = 200

// checkKey holds keys to [a-z0-9._-] in segments that begin with a letter or a
// digit. Keys are made by this program; one of another form is its fault, never a
// person's, and is refused before it is a path.
func checkKey(key string) error {
	if key == "" || len(key) > MaxKeyBytes {
		return fmt.Errorf("storage key of %d bytes is not of 1 to %d", len(key), MaxKeyBytes)
	}
	for segment := range strings.SplitSeq(key, "/") {
		if segment == "" || !isAlphanumeric(segment[0]) {
			return fmt.Errorf("storage key has a segment that does not begin with a letter or digit")
		}
		for i := range len(segment) {
			if c := segment[i]; !isAlphanumeric(c) && c != '.' && c != '_' && c != '-' {
				return fmt.Errorf("storage key has the byte 0x%02x, which is not allowed", c)
			}
		}
	}
	return nil
}

func isAlphanumeric(c byte) bool { return 'a' <= c && c <= 'z' || '0' <= c && c <= '9' }

// place returns the shard folder and the file name of a key.
func place(key string) (shard, name string, err error) {
	if err := checkKey(key); err != nil {
		return "", "", err
	}
	return shardName(sha256.Sum256([]byte(key))[0]), strings.ReplaceAll(key, "/", "~"), nil
}

// keyOf is the inverse of place; ok is false for a name this package did not make
// or that lies in the wrong shard.
func keyOf(shard, name string) (key string, ok bool) {
	key = strings.ReplaceAll(name, "~", "/")
	wantShard, wantName, err := place(key)
	return key, err == nil && wantShard == shard && wantName == name
}

func shardName(b byte) string { return hex.EncodeToString([]byte{b}) }

// shard opens the folder in which key lies.
func (s *Store) shard(key string) (folder *os.Root, name string, err error) {
	shard, name, err := place(key)
	if err != nil {
		return nil, "", err
	}
	folder, err = openFolder(s.objects, shard)
	return folder, name, err
}
