package main

import (
	"math/rand/v2"
	"slices"
)

// A mutation is one small fault a printer or a renamer could make. find lists the
// places of a text it applies to, as replacements.
type mutation struct {
	name string
	find func(tokens []token, r *rand.Rand) []replacement
}

// A replacement puts text in the place of bytes begin..end.
type replacement struct {
	begin, end int
	text       string
}

func (r replacement) apply(text []byte) []byte {
	return slices.Concat(text[:r.begin], []byte(r.text), text[r.end:])
}

var mutations = []mutation{
	{"swap a local", swapLocal},
	{"change a global", changeGlobal},
	{"change an operator", changeOperator},
	{"drop a local", drop("local")},
	{"drop a not", drop("not")},
	{"change a string", changeString},
	{"change a number", changeNumber},
	{"change a constant", changeConstant},
	{"truncate a call", truncateCall},
	{"call a method as a field", methodToField},
	{"drop a semicolon", drop(";")},
	{"drop an argument", dropArgument},
}

// locals are the names the text declares somewhere.
func locals(tokens []token) []string {
	seen := make(map[string]bool)
	var names []string
	for i := 1; i < len(tokens); i++ {
		if before := tokens[i-1].text; tokens[i].kind == name && (before == "local" || before == "for") && !seen[tokens[i].text] {
			seen[tokens[i].text] = true
			names = append(names, tokens[i].text)
		}
	}
	return names
}

// before a name, these show that it is used and not declared.
var beforeUse = map[string]bool{
	"=": true, "return": true, "+": true, "-": true, "*": true, "/": true, "..": true, "==": true, "~=": true,
	"<=": true, ">=": true, ">": true, "and": true, "or": true, "not": true, "#": true, "[": true, "if": true, "while": true,
}

func swapLocal(tokens []token, r *rand.Rand) []replacement {
	names := locals(tokens)
	var found []replacement
	for i := 1; i < len(tokens); i++ {
		t := tokens[i]
		if t.kind != name || !beforeUse[tokens[i-1].text] || !slices.Contains(names, t.text) || len(names) < 2 {
			continue
		}
		other := names[r.IntN(len(names))]
		if other != t.text {
			found = append(found, replacement{t.begin, t.end, other})
		}
	}
	return found
}

func changeGlobal(tokens []token, _ *rand.Rand) []replacement {
	names := locals(tokens)
	var found []replacement
	for i := 1; i < len(tokens); i++ {
		t := tokens[i]
		if t.kind == name && beforeUse[tokens[i-1].text] && len(t.text) > 2 && !slices.Contains(names, t.text) {
			found = append(found, replacement{t.begin, t.end, t.text[:len(t.text)-1] + "Q"})
		}
	}
	return found
}

var operators = map[string]string{
	"+": "-", "-": "+", "*": "/", "/": "*", "//": "/", "%": "*", "..": "+", "==": "~=", "~=": "==", "<": "<=",
	"<=": "<", ">": ">=", ">=": ">", "and": "or", "or": "and", "&": "|", "|": "&", "<<": ">>", ">>": "<<",
}

func changeOperator(tokens []token, _ *rand.Rand) []replacement {
	var found []replacement
	for _, t := range tokens {
		if other := operators[t.text]; other != "" && t.kind != str {
			if t.kind == keyword {
				other = " " + other + " "
			}
			found = append(found, replacement{t.begin, t.end, other})
		}
	}
	return found
}

func drop(word string) func([]token, *rand.Rand) []replacement {
	return func(tokens []token, _ *rand.Rand) []replacement {
		var found []replacement
		for _, t := range tokens {
			if t.text == word && t.kind != str {
				found = append(found, replacement{t.begin, t.end, " "})
			}
		}
		return found
	}
}

// changeString changes one character or one escape of a quoted string.
func changeString(tokens []token, r *rand.Rand) []replacement {
	var found []replacement
	for _, t := range tokens {
		if t.kind != str || t.text[0] == '[' || len(t.text) < 3 {
			continue
		}
		at := 1 + r.IntN(len(t.text)-2)
		for i := 1; i < len(t.text)-1; i++ { // an escape is more telling than a letter
			if t.text[i] == '\\' {
				at = i + 1
				break
			}
		}
		if c := t.text[at]; isLetter(c) && c != '_' {
			other := "t"
			if c == 't' {
				other = "n"
			}
			found = append(found, replacement{t.begin + at, t.begin + at + 1, other})
		} else if isDigit(c) {
			found = append(found, replacement{t.begin + at, t.begin + at + 1, string('0' + (c-'0'+1)%10)})
		}
	}
	return found
}

func changeNumber(tokens []token, _ *rand.Rand) []replacement {
	var found []replacement
	for _, t := range tokens {
		if t.kind == number && isDigit(t.text[0]) {
			found = append(found, replacement{t.begin, t.begin + 1, string('0' + (t.text[0]-'0'+1)%10)})
		}
	}
	return found
}

func changeConstant(tokens []token, _ *rand.Rand) []replacement {
	other := map[string]string{"true": "false", "false": "true", "nil": "false"}
	var found []replacement
	for _, t := range tokens {
		if t.kind == keyword && other[t.text] != "" {
			found = append(found, replacement{t.begin, t.end, other[t.text]})
		}
	}
	return found
}

// truncateCall puts the parentheses that cut a call to one value:
// `return f(x)end` becomes `return(f(x))end`.
func truncateCall(tokens []token, _ *rand.Rand) []replacement {
	var found []replacement
	for i := 0; i+2 < len(tokens); i++ {
		if tokens[i].text != "return" || tokens[i+1].kind != name || tokens[i+2].text != "(" {
			continue
		}
		if end := closing(tokens, i+2); end > 0 && end+1 < len(tokens) && tokens[end+1].text == "end" {
			found = append(found, replacement{tokens[i+1].begin, tokens[i+1].begin, "("})
			last := &found[len(found)-1]
			last.end = tokens[end].end
			last.text = "(" + joined(tokens[i+1:end+1]) + ")"
		}
	}
	return found
}

// closing is the index of the ')' that closes the '(' at open, or 0.
func closing(tokens []token, open int) int {
	depth := 0
	for i := open; i < len(tokens); i++ {
		switch {
		case tokens[i].kind == str:
		case tokens[i].text == "(":
			depth++
		case tokens[i].text == ")":
			if depth--; depth == 0 {
				return i
			}
		}
	}
	return 0
}

func joined(tokens []token) string {
	text := ""
	for _, t := range tokens {
		text += " " + t.text
	}
	return text
}

func methodToField(tokens []token, _ *rand.Rand) []replacement {
	var found []replacement
	for _, t := range tokens {
		if t.kind == symbol && t.text == ":" {
			found = append(found, replacement{t.begin, t.end, "."})
		}
	}
	return found
}

// dropArgument removes a last argument: `,x)` becomes `)`.
func dropArgument(tokens []token, _ *rand.Rand) []replacement {
	var found []replacement
	for i := 1; i+2 < len(tokens); i++ {
		middle := tokens[i+1]
		if tokens[i].kind == symbol && tokens[i].text == "," && tokens[i+2].text == ")" && (middle.kind != symbol || middle.text == "...") {
			found = append(found, replacement{tokens[i].begin, middle.end, ""})
		}
	}
	return found
}
