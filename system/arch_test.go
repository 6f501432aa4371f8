// Package system_test holds the rules of the tree: who may import whom, with a
// sentence for each line, and a check that each rule can still fail.
package system_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"glovebox/threat-model/evidence"
)

const module = "glovebox"

// pure is what a domain package may import besides itself: the parts of the
// standard library that reach nothing outside the process, and the one table a
// worker and a server must agree on.
var pure = []string{
	"cmp", "crypto/subtle", "encoding/hex", "errors", "fmt", "maps", "math", "slices", "sort", "strconv", "strings", "time", "unicode", "unicode/utf8",
	module + "/system/protocol/failure",
}

// only lists packages whose direct imports are a closed list.
var only = []struct {
	pkg     string
	imports []string
	why     string
}{
	{module + "/system/server/internal/jobs/domain", pure, "ARC-06: the life of a job is pure code; the race is decided by the adapter, the rule here"},
	{module + "/system/protocol", []string{module + "/system/protocol/failure"}, "the internal API is types and nothing else"},
	{module + "/system/protocol/failure", nil, "one table, shared by both sides, that depends on neither"},
}

// never lists what a package tree must not reach, directly or through others.
var never = []struct {
	tree, forbidden, why string
}{
	{"system/server/...", "github.com/containers", "ARC-03, ARC-08: the server never starts a container and knows no engine"},
	{"system/server/...", module + "/system/worker", "ARC-03: the server depends on nothing of the worker"},
	{"system/worker/cmd/worker", "github.com/jackc/pgx", "ARC-09: the worker has no database"},
	{"system/worker/cmd/worker", module + "/system/server", "ARC-09: the worker holds no user logic"},
	{"system/worker/cmd/worker", "github.com/containers", "SBX-09: the network-facing worker holds no engine"},
	{"system/worker/cmd/launcher", "github.com/jackc/pgx", "the launcher has no database"},
	{"system/worker/cmd/launcher", module + "/system/server", "the launcher knows nothing of users and jobs"},
	{"system/worker/cmd/launcher", module + "/system/worker/internal/jobs", "the launcher has no network: it never speaks to the server"},
	{"system/platform/...", module + "/system/server", "what every binary uses depends on none of them"},
	{"system/platform/...", module + "/system/worker", "what every binary uses depends on none of them"},
	{"chaos/history", module + "/system", "HAR-06: a check that takes its rules from the code under test finds nothing"},
	{"system/server/internal/jobs", "net/http", "ARC-06: the service translates nothing; its adapters do"},
	{"system/server/internal/jobs", "github.com/jackc/pgx", "ARC-06: the service names its store by an interface"},
}

type goPackage struct {
	ImportPath, Dir string
	Imports, Deps   []string
	GoFiles         []string
}

var packages = sync.OnceValues(func() (map[string]goPackage, error) {
	cmd := exec.Command("go", "list", "-json=ImportPath,Dir,Imports,Deps,GoFiles", "./...")
	cmd.Dir = ".."
	out, err := cmd.Output()
	if err != nil {
		return nil, err
	}
	all := make(map[string]goPackage)
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p goPackage
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, err
		}
		all[p.ImportPath] = p
	}
})

func under(tree, pkg string) bool {
	root, whole := strings.CutSuffix(tree, "/...")
	root = module + "/" + root
	return pkg == root || whole && strings.HasPrefix(pkg, root+"/")
}

func TestDomainImportsOnlyPureCode(t *testing.T) {
	evidence.Proves(t, "ARC-06")
	all, err := packages()
	if err != nil {
		t.Fatal(err)
	}
	for _, rule := range only {
		p, ok := all[rule.pkg]
		if !ok {
			t.Errorf("the rule for %s guards nothing: the package is gone", rule.pkg)
		}
		for _, imported := range p.Imports {
			if !slices.Contains(rule.imports, imported) {
				t.Errorf("%s imports %s: %s", rule.pkg, imported, rule.why)
			}
		}
	}
	for path := range all {
		if strings.HasSuffix(path, "/domain") && !slices.ContainsFunc(only, func(r struct {
			pkg     string
			imports []string
			why     string
		}) bool {
			return r.pkg == path
		}) {
			t.Errorf("%s is a domain package without a rule", path)
		}
	}
}

func TestForbiddenImports(t *testing.T) {
	evidence.Proves(t, "ARC-03", "ARC-06")
	all, err := packages()
	if err != nil {
		t.Fatal(err)
	}
	reaches := func(p goPackage, forbidden string) string {
		for _, dep := range p.Deps {
			if dep == forbidden || strings.HasPrefix(dep, forbidden+"/") {
				return dep
			}
		}
		return ""
	}
	for _, rule := range never {
		matched := false
		for path, p := range all {
			if !under(rule.tree, path) {
				continue
			}
			matched = true
			if dep := reaches(p, rule.forbidden); dep != "" {
				t.Errorf("%s reaches %s: %s", path, dep, rule.why)
			}
		}
		if !matched {
			t.Errorf("the rule against %s guards nothing: %s is gone", rule.forbidden, rule.tree)
		}
		// Control: the forbidden thing exists somewhere, so the rule can fail.
		found := false
		for path, p := range all {
			found = found || strings.HasPrefix(path, rule.forbidden) || reaches(p, rule.forbidden) != ""
		}
		if !found {
			t.Errorf("nothing reaches %s any more: the rule cannot fail, delete it", rule.forbidden)
		}
	}
}

func TestNoCatchAllPackages(t *testing.T) {
	evidence.Proves(t, "ARC-06")
	all, err := packages()
	if err != nil {
		t.Fatal(err)
	}
	banned := []string{"common", "util", "utils", "helper", "helpers", "misc", "shared"}
	for path := range all {
		for element := range strings.SplitSeq(path, "/") {
			if slices.Contains(banned, element) {
				t.Errorf("%s: a package is named after what it holds, not %q", path, element)
			}
		}
	}
}

// readAllCalls returns the positions of io.ReadAll whose argument is not limited
// on the spot.
func readAllCalls(fset *token.FileSet, file *ast.File) []token.Pos {
	var found []token.Pos
	isIO := func(e ast.Expr, name string) bool {
		sel, ok := e.(*ast.SelectorExpr)
		if !ok || sel.Sel.Name != name {
			return false
		}
		pkg, ok := sel.X.(*ast.Ident)
		return ok && pkg.Name == "io"
	}
	ast.Inspect(file, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok || !isIO(call.Fun, "ReadAll") || len(call.Args) != 1 {
			return true
		}
		if inner, ok := call.Args[0].(*ast.CallExpr); !ok || !isIO(inner.Fun, "LimitReader") {
			found = append(found, call.Pos())
		}
		return true
	})
	return found
}

func TestNoUnboundedReadAll(t *testing.T) {
	evidence.Proves(t, "UPL-02")
	fset := token.NewFileSet()
	control, err := parser.ParseFile(fset, "control.go", `package p
import "io"
func f(r io.Reader) { io.ReadAll(r); io.ReadAll(io.LimitReader(r, 1)) }`, 0)
	if err != nil || len(readAllCalls(fset, control)) != 1 {
		t.Fatalf("control failed: the instrument finds %d of 1 (%v)", len(readAllCalls(fset, control)), err)
	}
	err = filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(fset, path, nil, 0)
		if err != nil {
			return err
		}
		for _, pos := range readAllCalls(fset, file) {
			t.Errorf("%s: io.ReadAll without io.LimitReader: memory would grow with what was sent", fset.Position(pos))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestFilesHoldOneConcept(t *testing.T) {
	const most = 600
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && slices.Contains([]string{".git", "out", ".cache", "target", "node_modules"}, d.Name()) {
			return filepath.SkipDir
		}
		switch filepath.Ext(path) {
		case ".go", ".rs", ".cc", ".cpp", ".h", ".c", ".sql":
		default:
			return nil
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if n := bytes.Count(content, []byte("\n")); n > most {
			t.Errorf("%s has %d lines, %d at most: split it by concept", path, n, most)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
