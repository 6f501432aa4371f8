// Package config reads a program's settings once, at start, and refuses to go on
// with a doubtful one.
//
// Order: the caller's defaults, then a strict TOML file (an unknown key is an
// error), then the environment (key `lease.duration` is GLOVEBOX_LEASE_DURATION),
// then the type's own Validate. Each fault names the key, the form its value
// has, and the remedy; a secret's characters appear in none of them (REL-03).
package config

import (
	"bytes"
	"encoding"
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/pelletier/go-toml/v2"

	"glovebox/system/platform/secret"
)

// EnvPrefix starts the name of every environment variable that overrides a key.
const EnvPrefix = "GLOVEBOX_"

// Problem is one fault of one key.
type Problem struct {
	Key    string // dotted, as in the file; empty for the file itself
	Is     string // what is wrong, without the value of a secret
	Form   string // the form that is wanted
	Remedy string // what to do
}

// Error implements error.
func (p Problem) Error() string {
	var b strings.Builder
	if p.Key != "" {
		b.WriteString(p.Key + ": ")
	}
	b.WriteString(p.Is)
	if p.Form != "" {
		b.WriteString("; wanted: " + p.Form)
	}
	if p.Remedy != "" {
		b.WriteString("; " + p.Remedy)
	}
	return b.String()
}

// Problems is every fault found, so that one start shows them all.
type Problems []Problem

// Error implements error.
func (ps Problems) Error() string {
	lines := make([]string, len(ps))
	for i, p := range ps {
		lines[i] = p.Error()
	}
	return "configuration is not usable:\n  " + strings.Join(lines, "\n  ")
}

// Validator is a configuration that can judge itself after loading.
type Validator interface{ Validate() Problems }

// Load fills into (a pointer to a struct that already holds the defaults) from
// the TOML file at path (none when path is empty) and from environ (the form of
// os.Environ). It returns Problems when anything is wrong.
func Load(path string, environ []string, into any) error {
	if path != "" {
		if err := loadFile(path, into); err != nil {
			return err
		}
		if problems := secretsOfFile(into); len(problems) > 0 {
			return problems
		}
	}
	if problems := overrideFromEnv(environ, into); len(problems) > 0 {
		return problems
	}
	if v, ok := into.(Validator); ok {
		if problems := v.Validate(); len(problems) > 0 {
			return problems
		}
	}
	return nil
}

func loadFile(path string, into any) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return Problems{{Is: fmt.Sprintf("cannot read %s: %v", path, errors.Unwrap(err)), Form: "a readable TOML file", Remedy: "give --config the right path"}}
	}
	dec := toml.NewDecoder(bytes.NewReader(content)).DisallowUnknownFields()
	err = dec.Decode(into)
	var strict *toml.StrictMissingError
	if errors.As(err, &strict) {
		var problems Problems
		for _, e := range strict.Errors {
			row, _ := e.Position()
			problems = append(problems, Problem{
				Key: strings.Join(e.Key(), "."), Is: fmt.Sprintf("unknown key (line %d)", row),
				Form: "one of the documented keys", Remedy: "correct its spelling or remove it",
			})
		}
		return problems
	}
	var decode *toml.DecodeError
	if errors.As(err, &decode) {
		// DecodeError's long form quotes the line, which may hold a secret: only
		// the position and the short text are shown.
		row, col := decode.Position()
		return Problems{{
			Key: strings.Join(decode.Key(), "."), Is: fmt.Sprintf("line %d, column %d: %s", row, col, shortCause(decode)),
			Form: "TOML 1.0 with a value of the key's type", Remedy: "correct the value",
		}}
	}
	if err != nil {
		return Problems{{Is: "cannot decode the file", Form: "TOML 1.0", Remedy: "correct the syntax"}}
	}
	if problems := otherLetters(content, into); len(problems) > 0 {
		return problems
	}
	return nil
}

// otherLetters refuses keys that the decoder took for ours although they differ in
// capital letters: of two that differ in nothing else, one would silently win.
func otherLetters(content []byte, into any) Problems {
	var tree map[string]any
	if err := toml.Unmarshal(content, &tree); err != nil {
		return Problems{{Is: "cannot decode the file", Form: "TOML 1.0", Remedy: "correct the syntax"}}
	}
	known := map[string]bool{}
	for _, key := range Keys(into) {
		for ; key != ""; key = key[:max(strings.LastIndexByte(key, '.'), 0)] {
			known[key] = true
		}
	}
	var problems Problems
	var visit func(prefix string, tree map[string]any)
	visit = func(prefix string, tree map[string]any) {
		for name, value := range tree {
			key := prefix + name
			if !known[key] {
				problems = append(problems, Problem{Key: key, Is: "unknown key", Form: "one of the documented keys, in small letters", Remedy: "correct its spelling or remove it"})
				continue
			}
			if below, ok := value.(map[string]any); ok {
				visit(key+".", below)
			}
		}
	}
	visit("", tree)
	slices.SortFunc(problems, func(a, b Problem) int { return strings.Compare(a.Key, b.Key) })
	return problems
}

// secretsOfFile refuses secrets that the file itself gave: it is made to be read,
// copied and kept in a repository. A secret comes from the environment or from a
// file of its own, whose mode is looked at.
func secretsOfFile(into any) Problems {
	var problems Problems
	walk(reflect.ValueOf(into).Elem(), "", func(key string, field reflect.Value) {
		if text, ok := field.Interface().(secret.Text); ok && !text.IsZero() {
			problems = append(problems, Problem{
				Key: key, Is: "is a secret and stands in the configuration file", Form: "a file of its own named by " + key + "_file, or " + EnvName(key),
				Remedy: "move it there, and make a new one if others could read this file",
			})
		}
	})
	return problems
}

// shortCause keeps the decoder's fixed wording and drops everything after a
// quote, where it repeats text of the file.
func shortCause(err error) string {
	text := err.Error()
	if i := strings.IndexAny(text, "\"'`"); i >= 0 {
		text = strings.TrimRight(text[:i], ": ")
	}
	return text
}

// Keys lists every key of the configuration type of v with its environment
// variable, sorted; documentation and completion are made from it.
func Keys(v any) []string {
	var keys []string
	walk(reflect.ValueOf(v).Elem(), "", func(key string, _ reflect.Value) { keys = append(keys, key) })
	sort.Strings(keys)
	return keys
}

// EnvName returns the environment variable that overrides key.
func EnvName(key string) string {
	return EnvPrefix + strings.ToUpper(strings.NewReplacer(".", "_", "-", "_").Replace(key))
}

func overrideFromEnv(environ []string, into any) Problems {
	env := make(map[string]string, len(environ))
	for _, kv := range environ {
		if name, value, ok := strings.Cut(kv, "="); ok && strings.HasPrefix(name, EnvPrefix) {
			env[name] = value
		}
	}
	var problems Problems
	walk(reflect.ValueOf(into).Elem(), "", func(key string, field reflect.Value) {
		value, ok := env[EnvName(key)]
		if !ok {
			return
		}
		if err := setText(field, value); err != nil {
			problems = append(problems, Problem{Key: key, Is: "environment variable " + EnvName(key) + " has a value of the wrong form", Form: err.Error(), Remedy: "correct or unset it"})
		}
	})
	return problems
}

// walk visits every leaf of a struct tree by its toml names.
func walk(v reflect.Value, prefix string, visit func(string, reflect.Value)) {
	t := v.Type()
	for i := range t.NumField() {
		field := t.Field(i)
		name, _, _ := strings.Cut(field.Tag.Get("toml"), ",")
		if !field.IsExported() || name == "-" {
			continue
		}
		if name == "" {
			name = strings.ToLower(field.Name)
		}
		key := name
		if prefix != "" {
			key = prefix + "." + name
		}
		_, isText := v.Field(i).Addr().Interface().(encoding.TextUnmarshaler)
		if field.Type.Kind() == reflect.Struct && !isText {
			walk(v.Field(i), key, visit)
			continue
		}
		visit(key, v.Field(i))
	}
}

func setText(field reflect.Value, value string) error {
	if u, ok := field.Addr().Interface().(encoding.TextUnmarshaler); ok {
		return u.UnmarshalText([]byte(value))
	}
	switch field.Kind() {
	case reflect.String:
		field.SetString(value)
	case reflect.Bool:
		b, err := strconv.ParseBool(value)
		if err != nil {
			return errors.New("true or false")
		}
		field.SetBool(b)
	case reflect.Int, reflect.Int64, reflect.Int32:
		n, err := strconv.ParseInt(value, 10, field.Type().Bits())
		if err != nil {
			return errors.New("a whole number")
		}
		field.SetInt(n)
	case reflect.Uint, reflect.Uint64, reflect.Uint32, reflect.Uint16:
		n, err := strconv.ParseUint(value, 10, field.Type().Bits())
		if err != nil {
			return errors.New("a whole number, zero or more")
		}
		field.SetUint(n)
	case reflect.Slice:
		if field.Type().Elem().Kind() != reflect.String {
			return errors.New("a key that the environment can set")
		}
		var items []string
		for item := range strings.SplitSeq(value, ",") {
			if item = strings.TrimSpace(item); item != "" {
				items = append(items, item)
			}
		}
		field.Set(reflect.ValueOf(items))
	default:
		return errors.New("a key that the environment can set")
	}
	return nil
}
