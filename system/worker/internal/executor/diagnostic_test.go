package executor

import (
	"strings"
	"testing"
)

func TestParseDiagnostic(t *testing.T) {
	t.Parallel()
	good := map[string]diagnostic{
		`{"line":1,"column":1,"message":"x"}`:                                            {1, 1, "x"},
		` { "column" : 7 , "message" : "a \"b\" ~" , "line" : 123456789 } ` + "\n":       {123456789, 7, `a "b" ~`},
		`{"line":1,"column":1,"message":"\u0041"}`:                                       {1, 1, "A"},
		`{"line":1,"column":1,"message":"` + strings.Repeat("m", 512-36) + `"}`:          {1, 1, strings.Repeat("m", 512-36)},
		`{"line":1,"column":1,"message":"\u003cscript\u003e stays text for who prints"}`: {1, 1, "<script> stays text for who prints"},
	}
	for text, want := range good {
		if got, err := parseDiagnostic([]byte(text)); err != nil || got != want {
			t.Errorf("%s: got %+v, %v", text, got, err)
		}
	}
	bad := map[string]string{
		"empty":            ``,
		"not JSON":         `line 1`,
		"list":             `[1,2,"x"]`,
		"null":             `null`,
		"cut":              `{"line":1,"column":1,"message":"x"`,
		"two objects":      `{"line":1,"column":1,"message":"x"}{}`,
		"trailing text":    `{"line":1,"column":1,"message":"x"} x`,
		"no column":        `{"line":1,"message":"x"}`,
		"no message":       `{"line":1,"column":1}`,
		"further name":     `{"line":1,"column":1,"message":"x","path":"/in"}`,
		"other case":       `{"Line":1,"column":1,"message":"x"}`,
		"name twice":       `{"line":1,"line":2,"column":1,"message":"x"}`,
		"zero":             `{"line":0,"column":1,"message":"x"}`,
		"negative":         `{"line":-1,"column":1,"message":"x"}`,
		"fraction":         `{"line":1.5,"column":1,"message":"x"}`,
		"exponent":         `{"line":1e3,"column":1,"message":"x"}`,
		"huge":             `{"line":99999999999999999999,"column":1,"message":"x"}`,
		"number as text":   `{"line":"1","column":1,"message":"x"}`,
		"text as number":   `{"line":1,"column":1,"message":1}`,
		"null message":     `{"line":1,"column":1,"message":null}`,
		"empty message":    `{"line":1,"column":1,"message":""}`,
		"nested":           `{"line":1,"column":1,"message":{"a":"x"}}`,
		"line break":       `{"line":1,"column":1,"message":"a\nb"}`,
		"escape":           `{"line":1,"column":1,"message":"\u001b[31m"}`,
		"NUL":              `{"line":1,"column":1,"message":"a\u0000"}`,
		"delete":           `{"line":1,"column":1,"message":"\u007f"}`,
		"not ASCII":        `{"line":1,"column":1,"message":"é"}`,
		"bidi":             `{"line":1,"column":1,"message":"\u202e"}`,
		"not UTF-8":        "{\"line\":1,\"column\":1,\"message\":\"\xff\"}",
		"byte order mark":  "\ufeff{\"line\":1,\"column\":1,\"message\":\"x\"}",
		"comma at the end": `{"line":1,"column":1,"message":"x",}`,
	}
	for name, text := range bad {
		if got, err := parseDiagnostic([]byte(text)); err == nil {
			t.Errorf("%s: taken as %+v", name, got)
		}
	}
}

func FuzzParseDiagnostic(f *testing.F) {
	f.Add([]byte(`{"line":1,"column":1,"message":"x"}`))
	f.Add([]byte(`{"line":1,"line":1,"column":1}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		d, err := parseDiagnostic(text)
		if err == nil && (d.line < 1 || d.column < 1 || d.message == "" || !isPrintableASCII(d.message)) {
			t.Errorf("took %q as %+v", text, d)
		}
	})
}
