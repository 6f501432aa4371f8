package main

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"
)

// perPackage is how many files of each Debian package are taken, spread evenly
// over its sorted list, so that every run takes the same.
const perPackage = 13

var wanted = []string{"prosody", "nmap-common", "luarocks", "lua-penlight"}

// item is one file on its way through the system.
type item struct {
	origin string // package, or "samples"
	name   string // path within its origin
	input  string // the copy that is uploaded, under a name of its own
	result string
	run    bool // it prints the same every time: compare by running too
}

// gather picks the files and copies them under names that cannot collide.
func gather(corpus, samples, work string) ([]item, error) {
	var items []item
	for _, origin := range wanted {
		found, err := luaFiles(filepath.Join(corpus, origin))
		if err != nil || len(found) < perPackage {
			return nil, fmt.Errorf("the corpus has %d Lua files of %s (%v); run make corpus", len(found), origin, err)
		}
		for i := range perPackage {
			path := found[i*len(found)/perPackage]
			rel, err := filepath.Rel(filepath.Join(corpus, origin), path)
			if err != nil {
				return nil, err
			}
			items = append(items, item{origin: origin, name: rel, input: path})
		}
	}
	own, err := luaFiles(samples)
	if err != nil {
		return nil, err
	}
	for _, path := range own {
		items = append(items, item{origin: "samples", name: filepath.Base(path), input: path, run: true})
	}
	for i := range items {
		user := i % 2
		dir := filepath.Join(work, fmt.Sprintf("user-%d", user))
		base := fmt.Sprintf("%02d-%s", i, filepath.Base(items[i].name))
		copied := filepath.Join(dir, "in", base)
		if err := copyFile(items[i].input, copied); err != nil {
			return nil, err
		}
		items[i].input = copied
		items[i].result = filepath.Join(dir, "out", resultName(base))
	}
	return items, nil
}

// resultName is the name the client gives a result in --output-dir.
func resultName(base string) string {
	ext := filepath.Ext(base)
	return strings.TrimSuffix(base, ext) + ".out" + ext
}

func luaFiles(dir string) ([]string, error) {
	var found []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() && filepath.Ext(path) == ".lua" {
			if info, statErr := d.Info(); statErr == nil && info.Size() > 0 {
				found = append(found, path)
			}
		}
		return err
	})
	sort.Strings(found)
	return found, err
}

func copyFile(from, to string) error {
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	_, copyErr := io.Copy(out, in)
	if err := out.Close(); err != nil {
		return err
	}
	return copyErr
}
