package memory_test

import (
	"testing"

	"glovebox/system/server/internal/storage/blobtest"
	"glovebox/system/server/internal/storage/memory"
)

func TestConformance(t *testing.T) {
	blobtest.Exercise(t, func(*testing.T) blobtest.Subject {
		s := memory.New(0)
		return blobtest.Subject{Store: s, Leftovers: func(*testing.T) int { return int(s.Reserved()) }}
	})
}
