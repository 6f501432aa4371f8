package vectors

import "testing"

func TestOnlyTheFormLoads(t *testing.T) {
	for name, tc := range map[string]struct {
		text string
		ok   bool
	}{
		"good":        {`[{id: a, why: b, text: c}, {id: d, why: e, base64: AA==, repeat: 3}, {id: empty, why: f, text: ""}]`, true},
		"unknown key": {`[{id: a, why: b, text: c, more: d}]`, false},
		"twice":       {`[{id: a, why: b}, {id: a, why: c}]`, false},
		"no id":       {`[{why: b}]`, false},
		"no reason":   {`[{id: a, text: c}]`, false},
		"both forms":  {`[{id: a, why: b, text: c, base64: AA==}]`, false},
		"bad base64":  {`[{id: a, why: b, base64: "?"}]`, false},
		"too many":    {`[{id: a, why: b, text: c, repeat: 99999999}]`, false},
		"empty":       {`[]`, false},
		"something":   {"[{id: a, why: b}]\n---\n[]", false},
	} {
		if _, err := parse([]byte(tc.text)); (err == nil) != tc.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
	v := Vector{Base64: "AAE=", Repeat: 2}
	if v.Bytes() != "\x00\x01\x00\x01" {
		t.Errorf("got %q", v.Bytes())
	}
}
