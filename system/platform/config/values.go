package config

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"glovebox/system/platform/secret"
)

// Duration is a time span written as Go writes it: "30s", "1h30m".
type Duration time.Duration

// Std returns the standard library's type.
func (d Duration) Std() time.Duration { return time.Duration(d) }

// String implements fmt.Stringer.
func (d Duration) String() string { return time.Duration(d).String() }

// MarshalText implements encoding.TextMarshaler.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *Duration) UnmarshalText(b []byte) error {
	v, err := time.ParseDuration(string(b))
	if err != nil {
		return errors.New("a duration such as \"30s\" or \"168h\"")
	}
	*d = Duration(v)
	return nil
}

// Bytes is a size: a whole number of bytes, or one with a binary unit, "10MiB".
type Bytes int64

// Int64 returns the number of bytes.
func (b Bytes) Int64() int64 { return int64(b) }

// MarshalText implements encoding.TextMarshaler.
func (b Bytes) MarshalText() ([]byte, error) { return strconv.AppendInt(nil, int64(b), 10), nil }

var byteUnits = []struct {
	suffix string
	factor int64
}{{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"B", 1}, {"", 1}}

// UnmarshalText implements encoding.TextUnmarshaler.
func (b *Bytes) UnmarshalText(text []byte) error {
	s := strings.TrimSpace(string(text))
	for _, u := range byteUnits {
		digits, ok := strings.CutSuffix(s, u.suffix)
		if !ok {
			continue
		}
		n, err := strconv.ParseInt(strings.TrimSpace(digits), 10, 64)
		if err != nil || n < 0 || n > math.MaxInt64/u.factor {
			break
		}
		*b = Bytes(n * u.factor)
		return nil
	}
	return errors.New("a size such as 1048576 or \"10MiB\" (B, KiB, MiB, GiB, TiB)")
}

// Check collects problems; its methods are no-ops where the condition holds.
type Check struct{ problems Problems }

// Problems returns what was found.
func (c *Check) Problems() Problems { return c.problems }

// Require records a problem unless ok.
func (c *Check) Require(ok bool, key, is, form, remedy string) {
	if !ok {
		c.problems = append(c.problems, Problem{Key: key, Is: is, Form: form, Remedy: remedy})
	}
}

// NotEmpty requires text.
func (c *Check) NotEmpty(key, value, form string) {
	c.Require(value != "", key, "is not set", form, "set it in the file or in "+EnvName(key))
}

// Range requires low <= value <= high.
func (c *Check) Range(key string, value, low, high int64, unit string) {
	c.Require(value >= low && value <= high, key, fmt.Sprintf("is %d", value),
		fmt.Sprintf("%d to %d %s", low, high, unit), "choose a value in this range")
}

// Span requires low <= value <= high.
func (c *Check) Span(key string, value Duration, low, high time.Duration) {
	c.Require(value.Std() >= low && value.Std() <= high, key, "is "+value.String(),
		fmt.Sprintf("a duration from %s to %s", low, high), "choose a value in this range")
}

// Secret takes a secret from its inline form, which only the environment can set,
// or from its file; exactly one must be given. minBytes is its least length. The
// characters appear in no problem.
func (c *Check) Secret(key string, inline secret.Text, file string, minBytes int) secret.Text {
	fileKey := key + "_file"
	form := fmt.Sprintf("at least %d bytes, in %s or in a file named by %s", minBytes, EnvName(key), fileKey)
	if inline.IsZero() == (file == "") {
		is := "is not set"
		if file != "" {
			is = "is set both inline and by " + fileKey
		}
		c.Require(false, key, is, form, "give exactly one of the two")
		return secret.Text{}
	}
	if file != "" {
		text, err := secret.ReadFile(file)
		if err != nil {
			c.Require(false, fileKey, err.Error(), form, "make the file readable to this process only")
			return secret.Text{}
		}
		inline = text
	}
	c.Require(inline.Len() >= minBytes, key, fmt.Sprintf("has %d bytes", inline.Len()), form, "make a longer one, for example with: openssl rand -hex 32")
	return inline
}
