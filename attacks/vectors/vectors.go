// Package vectors holds the inputs of attacks that are data: one failure each, in
// YAML files with a fixed form. A key that is not known, an id that stands twice
// or an entry that does not say why it is there does not load.
package vectors

import (
	"bytes"
	"embed"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"strings"

	"gopkg.in/yaml.v3"
)

//go:embed *.yaml
var files embed.FS

// Vector is one hostile input. Exactly one of Text and Base64 is set, unless the
// input is empty; Repeat lengthens it.
type Vector struct {
	ID     string `yaml:"id"`
	Why    string `yaml:"why"` // what goes wrong where it is believed
	Text   string `yaml:"text"`
	Base64 string `yaml:"base64"`
	Repeat int    `yaml:"repeat"`
}

// Bytes is the input itself.
func (v Vector) Bytes() string {
	text := v.Text
	if v.Base64 != "" {
		decoded, _ := base64.StdEncoding.DecodeString(v.Base64) // Load has judged it
		text = string(decoded)
	}
	return strings.Repeat(text, max(v.Repeat, 1))
}

// Load reads NAME.yaml.
func Load(name string) ([]Vector, error) {
	content, err := files.ReadFile(name + ".yaml")
	if err != nil {
		return nil, fmt.Errorf("read vectors: %w", err)
	}
	all, err := parse(content)
	if err != nil {
		return nil, fmt.Errorf("vectors %s: %w", name, err)
	}
	return all, nil
}

func parse(content []byte) ([]Vector, error) {
	var all []Vector
	dec := yaml.NewDecoder(bytes.NewReader(content))
	dec.KnownFields(true)
	if err := dec.Decode(&all); err != nil {
		return nil, err
	}
	if err := dec.Decode(new(any)); !errors.Is(err, io.EOF) {
		return nil, errors.New("something stands behind the list")
	}
	if len(all) == 0 {
		return nil, errors.New("the list is empty")
	}
	seen := map[string]bool{}
	for _, v := range all {
		switch {
		case v.ID == "" || seen[v.ID]:
			return nil, fmt.Errorf("id %q is empty or stands there twice", v.ID)
		case v.Why == "":
			return nil, fmt.Errorf("%s does not say why it is there", v.ID)
		case v.Text != "" && v.Base64 != "":
			return nil, fmt.Errorf("%s has both text and base64", v.ID)
		case v.Repeat < 0 || v.Repeat > 1<<20:
			return nil, fmt.Errorf("%s repeats %d times", v.ID, v.Repeat)
		}
		if _, err := base64.StdEncoding.DecodeString(v.Base64); err != nil {
			return nil, fmt.Errorf("%s: %w", v.ID, err)
		}
		seen[v.ID] = true
	}
	return all, nil
}

// Names lists the files, without their ending.
func Names() ([]string, error) {
	entries, err := files.ReadDir(".")
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		names = append(names, strings.TrimSuffix(e.Name(), ".yaml"))
	}
	return names, nil
}
