package jobs_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"runtime"
	"strconv"
	"testing"

	"glovebox/system/protocol"
	"glovebox/system/worker/internal/jobs"
	"glovebox/threat-model/evidence"
)

// largeBytes is far beyond any buffer on the way.
const largeBytes = 128 << 20

// zeros is a file of zeros that takes no room.
type zeros struct{}

func (zeros) Read(b []byte) (int, error) {
	clear(b)
	return len(b), nil
}

func (zeros) ReadAt(b []byte, _ int64) (int, error) {
	clear(b)
	return len(b), nil
}

func (zeros) WriteAt(b []byte, _ int64) (int, error) { return len(b), nil }

// Input and result pass through without being held: what the process allocates,
// server of the test included, does not grow with the file.
func TestMemoryDoesNotGrowWithTheFile(t *testing.T) {
	evidence.Proves(t, "UPL-02")
	s := newServer(t)
	s.setHook(func(verb string, _ int, w http.ResponseWriter, r *http.Request) bool {
		switch verb {
		case "input":
			w.Header().Set("Content-Length", strconv.Itoa(largeBytes))
			_, _ = io.Copy(w, io.LimitReader(zeros{}, largeBytes))
		case "result":
			sum := sha256.New()
			n, err := io.Copy(sum, r.Body)
			if err != nil {
				t.Error(err)
			}
			_ = json.NewEncoder(w).Encode(protocol.ResultAnswer{Status: "completed", SHA256: hex.EncodeToString(sum.Sum(nil)), Size: n})
		}
		return true
	})
	client := newClient(t, s, fast)
	hash := sha256.New()
	if _, err := io.Copy(hash, io.LimitReader(zeros{}, largeBytes)); err != nil {
		t.Fatal(err)
	}
	sum := [32]byte(hash.Sum(nil))
	a := protocol.Assignment{ID: "0b0b081d-fa52-4c40-8375-123456789abc", FencingToken: 1, InputSize: largeBytes, InputSHA256: hex.EncodeToString(sum[:])}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if err := client.Input(context.Background(), a, zeros{}); err != nil {
		t.Fatal(err)
	}
	if err := client.Result(context.Background(), jobs.Fence{JobID: a.ID, Token: 1}, zeros{}, largeBytes, sum, ""); err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	if grown := after.TotalAlloc - before.TotalAlloc; grown > largeBytes/2 {
		t.Errorf("moved %d MiB each way and allocated %d MiB", largeBytes>>20, grown>>20)
	} else {
		t.Logf("moved %d MiB each way and allocated %d KiB in all", largeBytes>>20, grown>>10)
	}
}
