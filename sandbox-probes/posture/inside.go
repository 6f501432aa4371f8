package posture

import (
	"fmt"
	"slices"
	"strings"
)

// Inside reads what the posture probe wrote. The text is a hostile core's own
// word; it is compared with the kernel's view from outside.
func (v View) Inside(result []byte) (Posture, error) {
	p := Posture{}
	complete := false
	devices := map[string]string{}
	for line := range strings.Lines(string(result)) {
		kind, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		name, value, _ := strings.Cut(rest, " ")
		switch kind {
		case "FILE":
			v.file(p, strings.TrimPrefix(name, "/proc/self/"), unescape(value))
		case "LINK":
			v.link(p, strings.TrimPrefix(name, "/proc/self/"), unescape(value))
		case "DIR":
			entries := strings.Fields(value)
			slices.Sort(entries)
			if name != "/proc/self/fd" { // listed by target below
				p["folder "+name] = strings.Join(entries, " ")
			}
		case "INODE":
			device, facts, _ := strings.Cut(value, " ")
			device, _, _ = strings.Cut(device, ":")
			if name == "core" {
				devices[device] = "the slot's"
			}
			if name == "proc" { // the link count of /proc follows all processes
				facts = strings.Split(facts, " nlink=")[0]
			}
			p["file "+name] = device + " " + facts
		case "ERROR":
			p["refused "+strings.TrimPrefix(name, "/proc/self/")] = value
		case "UNAME":
			p["uname"] = rest
		case "END":
			complete = true
		default:
			return nil, fmt.Errorf("read a posture: line %q is of no known kind", line)
		}
	}
	if !complete {
		return nil, fmt.Errorf("read a posture: the probe did not come to its end")
	}
	v.nameDevices(p, devices)
	return p, nil
}

// nameDevices tells the slot's file system from all others.
func (v View) nameDevices(p Posture, devices map[string]string) {
	for key, value := range p {
		if !strings.HasPrefix(key, "file ") {
			continue
		}
		device, facts, _ := strings.Cut(value, " ")
		where := "another file system"
		if devices[device] != "" {
			where = devices[device]
		}
		p[key] = facts + " on " + where
	}
}

func (v View) file(p Posture, name, text string) {
	switch name {
	case "status":
		v.status(p, text)
	case "limits":
		v.limits(p, text)
	case "mountinfo":
		v.mounts(p, text)
	case "cgroup":
		v.cgroups(p, text)
	case "net/dev":
		v.interfaces(p, text)
	default:
		words := strings.Fields(strings.ReplaceAll(text, "\x00", " "))
		p[name] = v.words(strings.Join(words, " "))
	}
}

func (v View) interfaces(p Posture, text string) {
	var names []string
	for line := range strings.Lines(text) {
		if name, _, ok := strings.Cut(line, ":"); ok {
			names = append(names, strings.TrimSpace(name))
		}
	}
	slices.Sort(names)
	p["interfaces"] = strings.Join(names, " ")
}

func (v View) link(p Posture, name, target string) {
	if kind, ok := strings.CutPrefix(name, "ns/"); ok {
		p["namespace "+kind] = v.namespace(kind, target)
		return
	}
	p["link "+name] = pipeName.ReplaceAllString(target, "$1")
}

// unescape undoes the probe's escaping of a file's bytes.
func unescape(text string) string {
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] != '\\' || i+1 >= len(text) {
			b.WriteByte(text[i])
			continue
		}
		i++
		switch text[i] {
		case 'n':
			b.WriteByte('\n')
		case 'x':
			var c byte
			if i+2 < len(text) {
				_, _ = fmt.Sscanf(text[i+1:i+3], "%02x", &c) // a malformed one stays zero and shows
			}
			b.WriteByte(c)
			i += 2
		default:
			b.WriteByte(text[i])
		}
	}
	return b.String()
}
