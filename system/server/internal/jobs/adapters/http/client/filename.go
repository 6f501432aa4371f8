package client

import (
	"errors"
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxLabelBytes bounds a display label.
const maxLabelBytes = 255

// parseDisposition reads `form-data; name="…"; filename="…"; filename*=…` and is
// strict about the name, which decides, and lenient about the file's name, which
// is display text: whatever stands there, something comes out.
func parseDisposition(header string) (name, fileName string, err error) {
	kind, rest, _ := strings.Cut(header, ";")
	if !strings.EqualFold(strings.TrimSpace(kind), "form-data") {
		return "", "", errors.New("the part is not form-data")
	}
	names := 0
	var extended string
	for rest != "" {
		var key, value string
		key, value, rest = nextParameter(rest)
		switch key {
		case "name":
			names++
			name = value
		case "name*":
			return "", "", errors.New("the part's name may not be extended")
		case "filename":
			if fileName == "" {
				fileName = value
			}
		case "filename*":
			if extended == "" {
				extended = decodeExtended(value)
			}
		}
	}
	if names != 1 {
		return "", "", errors.New("the part needs one name")
	}
	if extended != "" {
		fileName = extended // RFC 6266: the extended form has precedence
	}
	return name, fileName, nil
}

// nextParameter takes one `key=value` off the front. Inside quotes a backslash
// escapes a quote or a backslash; before anything else it is itself, as in the
// Windows paths that old browsers send.
func nextParameter(s string) (key, value, rest string) {
	end := strings.IndexAny(s, "=;")
	if end < 0 || s[end] == ';' {
		_, rest, _ = strings.Cut(s, ";")
		return "", "", rest
	}
	key = strings.ToLower(strings.TrimSpace(s[:end]))
	s = strings.TrimLeft(s[end+1:], " \t")
	if !strings.HasPrefix(s, `"`) {
		value, rest, _ = strings.Cut(s, ";")
		return key, strings.TrimSpace(value), rest
	}
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		switch c := s[i]; {
		case c == '\\' && i+1 < len(s) && (s[i+1] == '"' || s[i+1] == '\\'):
			i++
			b.WriteByte(s[i])
		case c == '"':
			_, rest, _ = strings.Cut(s[i+1:], ";")
			return key, b.String(), rest
		default:
			b.WriteByte(c)
		}
	}
	return key, b.String(), "" // the quote never closes
}

// decodeExtended reads RFC 5987's charset'language'percent-encoded; "" where it
// is not UTF-8 in that form.
func decodeExtended(value string) string {
	parts := strings.SplitN(value, "'", 3)
	if len(parts) != 3 || !strings.EqualFold(parts[0], "utf-8") {
		return ""
	}
	decoded, err := url.PathUnescape(parts[2])
	if err != nil {
		return ""
	}
	return decoded
}

// displayLabel makes a person-readable label from a hostile name: the part behind
// the last slash or backslash, without control, format, bidirectional and other
// invisible characters, at most 255 bytes (UPL-05). It is never empty.
func displayLabel(name string) string {
	if i := strings.LastIndexAny(name, `/\`); i >= 0 {
		name = name[i+1:]
	}
	name = strings.Map(func(r rune) rune {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			// IsPrint is false for Cc, Cf (bidi, zero width), Co, Cs, Cn, and for
			// every space but U+0020.
			return -1
		}
		return r
	}, name)
	name = strings.Trim(name, " .")
	if len(name) > maxLabelBytes {
		name = shorten(name)
	}
	if name == "" {
		return "file"
	}
	return name
}

// shorten cuts in the middle: the extension tells a person what the file is.
func shorten(name string) string {
	const maxExtension = 16
	extension := ""
	if i := strings.LastIndexByte(name, '.'); i > 0 && len(name)-i <= maxExtension {
		name, extension = name[:i], name[i:]
	}
	name = name[:maxLabelBytes-len(extension)]
	for !utf8.ValidString(name) {
		name = name[:len(name)-1]
	}
	return name + extension
}
