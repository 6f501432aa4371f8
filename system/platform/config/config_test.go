package config_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"glovebox/system/platform/config"
	"glovebox/system/platform/secret"
	"glovebox/threat-model/evidence"
)

type sample struct {
	Lease struct {
		Duration config.Duration `toml:"duration"`
	} `toml:"lease"`
	Limits struct {
		MaxInputBytes config.Bytes `toml:"max_input_bytes"`
		Peers         []string     `toml:"peers"`
	} `toml:"limits"`
	Slots int         `toml:"slots"`
	Key   secret.Text `toml:"key"`
	Key2  string      `toml:"key_file"`
}

func (s *sample) Validate() config.Problems {
	var c config.Check
	c.Span("lease.duration", s.Lease.Duration, 3*time.Second, time.Hour)
	c.Range("slots", int64(s.Slots), 1, 64, "slots")
	if !s.Key.IsZero() || s.Key2 != "" {
		s.Key = c.Secret("key", s.Key, s.Key2, 32)
	}
	return c.Problems()
}

func defaults() *sample {
	s := &sample{Slots: 2}
	s.Lease.Duration = config.Duration(30 * time.Second)
	return s
}

func file(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "x.toml")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestOrderOfSources(t *testing.T) {
	evidence.Proves(t, "REL-03")
	path := file(t, "slots = 3\n[lease]\nduration = \"40s\"\n[limits]\nmax_input_bytes = \"10MiB\"\n")
	s := defaults()
	if err := config.Load(path, []string{"GLOVEBOX_LEASE_DURATION=50s", "GLOVEBOX_LIMITS_PEERS=a, b", "HOME=/"}, s); err != nil {
		t.Fatal(err)
	}
	if s.Slots != 3 || s.Lease.Duration.Std() != 50*time.Second || s.Limits.MaxInputBytes != 10<<20 || strings.Join(s.Limits.Peers, "+") != "a+b" {
		t.Fatalf("got %+v", s)
	}
	s = defaults()
	if err := config.Load("", nil, s); err != nil || s.Slots != 2 {
		t.Fatalf("defaults alone: %+v, %v", s, err)
	}
}

// Each fault names the key, the wanted form and the remedy, and repeats no value
// that could be a secret.
func TestFaultsNameKeyFormAndRemedy(t *testing.T) {
	evidence.Proves(t, "REL-03")
	const canary = "canary-s3cr3t"
	tests := map[string]struct {
		content string
		environ []string
		want    []string
	}{
		"unknown key":     {content: "[lease]\nduratoin = \"3s\"\n", want: []string{"lease.duratoin", "unknown key", "spelling"}},
		"wrong type":      {content: "slots = \"" + canary + "\"\n", want: []string{"slots", "line 1"}},
		"bad duration":    {content: "[lease]\nduration = \"" + canary + "\"\n", want: []string{"lease.duration", "line 2"}},
		"syntax":          {content: "key = \"" + canary + "\n", want: []string{"line 1", "TOML"}},
		"out of range":    {content: "slots = 0\n", want: []string{"slots", "1 to 64", "choose"}},
		"too short lease": {content: "[lease]\nduration = \"1s\"\n", want: []string{"lease.duration", "3s"}},
		"environment":     {environ: []string{"GLOVEBOX_SLOTS=" + canary}, want: []string{"slots", "GLOVEBOX_SLOTS", "whole number"}},
		"size":            {environ: []string{"GLOVEBOX_LIMITS_MAX_INPUT_BYTES=" + canary}, want: []string{"limits.max_input_bytes", "10MiB"}},
		"short secret":    {environ: []string{"GLOVEBOX_KEY=" + canary}, want: []string{"key", "at least 32 bytes", "openssl"}},
		"secret inline":   {content: "key = \"" + canary + strings.Repeat("x", 32) + "\"\n", want: []string{"key", "stands in the configuration file", "key_file", "GLOVEBOX_KEY", "move it"}},
		"secret twice":    {environ: []string{"GLOVEBOX_KEY=" + canary, "GLOVEBOX_KEY_FILE=/nowhere"}, want: []string{"key_file", "exactly one"}},
		"secret missing":  {environ: []string{"GLOVEBOX_KEY_FILE=/nowhere/at/all"}, want: []string{"key_file", "open secret file"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			path := ""
			if tc.content != "" {
				path = file(t, tc.content)
			}
			err := config.Load(path, tc.environ, defaults())
			if err == nil {
				t.Fatal("accepted")
			}
			for _, want := range tc.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q is not in: %v", want, err)
				}
			}
			if strings.Contains(err.Error(), canary) {
				t.Errorf("a value is repeated: %v", err)
			}
		})
	}
	if err := config.Load("/nowhere/at/all.toml", nil, defaults()); err == nil || !strings.Contains(err.Error(), "cannot read") {
		t.Errorf("missing file: %v", err)
	}
}

func TestBytes(t *testing.T) {
	tests := map[string]int64{"0": 0, "17": 17, "17B": 17, "1KiB": 1024, " 2 MiB ": 2 << 20, "3GiB": 3 << 30, "1TiB": 1 << 40}
	for text, want := range tests {
		var b config.Bytes
		if err := b.UnmarshalText([]byte(text)); err != nil || b.Int64() != want {
			t.Errorf("%q: %d, %v", text, b, err)
		}
	}
	for _, text := range []string{"", "-1", "1MB", "x", "9999999999GiB", "1.5MiB"} {
		var b config.Bytes
		if err := b.UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q: accepted as %d", text, b)
		}
	}
}

func TestKeysAndEnvironmentNames(t *testing.T) {
	got := strings.Join(config.Keys(defaults()), " ")
	if want := "key key_file lease.duration limits.max_input_bytes limits.peers slots"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := config.EnvName("lease.duration"); got != "GLOVEBOX_LEASE_DURATION" {
		t.Error(got)
	}
}

// Of two keys that differ in capital letters alone, one would win without a word.
func TestKeysInOtherLettersAreUnknown(t *testing.T) {
	evidence.Proves(t, "REL-03")
	for content, key := range map[string]string{
		"Slots = 3\n": "Slots", "[Lease]\nduration = \"40s\"\n": "Lease", "[lease]\nDURATION = \"3s\"\n": "lease.DURATION", "[lease]\nduration = \"40s\"\nDuration = \"3s\"\n": "lease.Duration",
	} {
		err := config.Load(file(t, content), nil, defaults())
		if err == nil || !strings.Contains(err.Error(), key+": unknown key") {
			t.Errorf("%q: %v, want %s refused", content, err, key)
		}
	}
	if err := config.Load(file(t, "slots = 3\nlease.duration = \"40s\"\n"), nil, defaults()); err != nil {
		t.Errorf("dotted keys: %v", err)
	}
}
