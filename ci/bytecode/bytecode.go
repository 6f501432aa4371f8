// Package bytecode tells whether two Lua programs are the same program: whether
// Lua's own compiler makes the same code of both.
//
// Both sources are compiled stripped (no names, no line table), listed, and
// compared after blanking what only layout changes: addresses, and the line
// numbers where functions begin and end. Nothing but comments, blanks and the
// names of locals can differ between two programs that compare equal.
package bytecode

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
)

// Compiler is the program that compiles and lists.
const Compiler = "luac5.4"

// ErrNotLua says that the compiler refuses a source.
var ErrNotLua = errors.New("not a Lua program")

var (
	address  = regexp.MustCompile(`0x[0-9a-f]+`)
	function = regexp.MustCompile(`<[^>\n]*:(\d+),(\d+)>`)
)

// Listing returns the normalised code of the source at path. A source that does
// not compile is ErrNotLua.
func Listing(ctx context.Context, path string) ([]byte, error) {
	dir, err := os.MkdirTemp("", "glovebox-luac-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	compiled := filepath.Join(dir, "code")
	if out, err := exec.CommandContext(ctx, Compiler, "-s", "-o", compiled, "--", path).CombinedOutput(); err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			return nil, fmt.Errorf("%w: %s", ErrNotLua, bytes.TrimSpace(out))
		}
		return nil, fmt.Errorf("run %s: %w", Compiler, err)
	}
	// In one step the listing would be taken before stripping.
	listing, err := exec.CommandContext(ctx, Compiler, "-l", "-l", "-p", compiled).Output()
	if err != nil {
		return nil, fmt.Errorf("list the code: %w", err)
	}
	return function.ReplaceAll(address.ReplaceAll(listing, nil), []byte("<>")), nil
}

// Same reports whether the two sources compile to the same code.
func Same(ctx context.Context, original, result string) (bool, error) {
	a, err := Listing(ctx, original)
	if err != nil {
		return false, fmt.Errorf("original: %w", err)
	}
	b, err := Listing(ctx, result)
	if err != nil {
		return false, fmt.Errorf("result: %w", err)
	}
	return bytes.Equal(a, b), nil
}
