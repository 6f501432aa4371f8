package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

const config = `{"process":{"user":{"umask":63},"env":["A=b"]},"mounts":[],"linux":{"maskedPaths":["/sys"],"readonlyPaths":["/proc/sys"],
 "uidMappings":[{}],"gidMappings":[{}],"namespaces":[{"type":"network"},{"type":"user"},{"type":"pid"}]}}`

func TestCutTakesOutWhatIsNamed(t *testing.T) {
	tests := map[string]string{
		"namespace:network": `"namespaces":[{"type":"user"},{"type":"pid"}]`,
		"namespace:user":    `"namespaces":[{"type":"network"},{"type":"pid"}]`,
		"masks":             `"readonlyPaths"`,
		"readonly-paths":    `"maskedPaths"`,
		"env":               "DATABASE_PASSWORD=planted",
		"umask":             `"umask":18`,
		"device":            `"destination":"/dev/kmsg"`,
	}
	for name, want := range tests {
		dir := t.TempDir()
		path := filepath.Join(dir, "config.json")
		if err := os.WriteFile(path, []byte(config), 0o600); err != nil {
			t.Fatal(err)
		}
		cuts := filepath.Join(dir, "cuts.json")
		if err := cut(cuts, path); err != nil {
			t.Fatalf("without cuts: %v", err)
		}
		if text, _ := os.ReadFile(path); string(text) != config {
			t.Fatal("without cuts the configuration changed")
		}
		list, err := json.Marshal([]string{name})
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(cuts, list, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := cut(cuts, path); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		text, err := os.ReadFile(path)
		if err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%s: %s, %v", name, text, err)
		}
		if name == "namespace:user" && strings.Contains(string(text), "uidMappings") {
			t.Error("the maps stay without their namespace")
		}
	}
}

func TestCutRefusesWhatIsNotThere(t *testing.T) {
	var c map[string]any
	if err := json.Unmarshal([]byte(config), &c); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"namespace:time", "anything"} {
		if err := apply(c, name); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestBundleIsFound(t *testing.T) {
	for _, args := range [][]string{{"create", "--bundle", "/b", "id"}, {"create", "--bundle=/b", "id"}, {"-b", "/b", "create"}} {
		if got := bundle(args); !reflect.DeepEqual(got, "/b") {
			t.Errorf("%v: %q", args, got)
		}
	}
}
