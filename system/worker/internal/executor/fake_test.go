package executor_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"glovebox/system/platform/logging"
	"glovebox/system/protocol"
	"glovebox/system/worker/internal/container/verdict"
	"glovebox/system/worker/internal/executor"
	"glovebox/system/worker/internal/jobs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// box is a launcher whose slots are two files in a folder. core writes the
// result and says how it ended.
type box struct {
	t    *testing.T
	core func(ctx context.Context, input, result string) (verdict.Verdict, error)

	acquireErr error

	mu       sync.Mutex
	made     int
	released int
}

func (b *box) Ready(context.Context) error { return nil }

func (b *box) Acquire(context.Context) (executor.Slot, error) {
	if b.acquireErr != nil {
		return nil, b.acquireErr
	}
	dir := b.t.TempDir()
	s := &slot{box: b, in: filepath.Join(dir, "input"), out: filepath.Join(dir, "result")}
	var err error
	if s.input, err = os.Create(s.in); err != nil {
		return nil, err
	}
	if err := os.WriteFile(s.out, nil, 0o600); err != nil {
		return nil, err
	}
	if s.result, err = os.Open(s.out); err != nil {
		return nil, err
	}
	b.mu.Lock()
	b.made++
	b.mu.Unlock()
	return s, nil
}

func (b *box) leaked() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.made - b.released
}

type slot struct {
	box           *box
	in, out       string
	input, result *os.File
	once          sync.Once
}

func (s *slot) Input() *os.File  { return s.input }
func (s *slot) Result() *os.File { return s.result }

func (s *slot) Run(ctx context.Context) (verdict.Verdict, error) {
	return s.box.core(ctx, s.in, s.out)
}

func (s *slot) Release(context.Context) error {
	err := errors.New("released twice")
	s.once.Do(func() {
		s.box.mu.Lock()
		s.box.released++
		s.box.mu.Unlock()
		err = errors.Join(s.input.Close(), s.result.Close())
	})
	return err
}

// wire is an Exchange that gives input and takes the result into memory.
type wire struct {
	input      string
	fetchErr   error
	deliverErr error
	panics     bool

	delivered []byte
	sum       [32]byte
	said      string
	calls     int
}

func (w *wire) FetchInput(_ context.Context, dst io.WriterAt) error {
	if w.panics {
		panic("the exchange broke")
	}
	if w.fetchErr != nil {
		return w.fetchErr
	}
	_, err := dst.WriteAt([]byte(w.input), 0)
	return err
}

func (w *wire) DeliverResult(_ context.Context, src io.ReaderAt, size int64, sum [32]byte, provenance string) error {
	w.calls++
	w.said = provenance
	if w.deliverErr != nil {
		return w.deliverErr
	}
	w.delivered = make([]byte, size)
	if n, err := src.ReadAt(w.delivered, 0); n != len(w.delivered) {
		return err
	}
	w.sum = sum
	return nil
}

func (b *box) execute(ctx context.Context, w *wire, change func(*protocol.Assignment)) jobs.Outcome {
	a := protocol.Assignment{InputSize: int64(len(w.input)), TimeoutSeconds: 30, MaxResultBytes: 1 << 20}
	if change != nil {
		change(&a)
	}
	return executor.New(b, discard()).Execute(ctx, a, w)
}

func discard() *slog.Logger { return logging.New(io.Discard, "test", slog.LevelDebug) }

// ended is a core that writes text and ends as v says, with the result judged in
// order.
func ended(t *testing.T, text string, v verdict.Verdict) func(context.Context, string, string) (verdict.Verdict, error) {
	return func(_ context.Context, _, result string) (verdict.Verdict, error) {
		if err := os.WriteFile(result, []byte(text), 0o600); err != nil {
			t.Error(err)
		}
		if v.Result == (verdict.Result{}) {
			v.Result = verdict.Result{OK: true, Size: int64(len(text))}
		}
		return v, nil
	}
}
