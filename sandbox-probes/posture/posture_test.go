package posture

import (
	"strings"
	"testing"

	"glovebox/threat-model/evidence"
)

// A planted difference must be reported, whatever its kind.
func TestDiffReportsEveryKindOfDifference(t *testing.T) {
	evidence.Proves(t, "SBX-05", "SBX-07")
	want := map[string]Line{"status CapBnd": {Is: "0"}, "namespace net": {Is: "its own"}, "newer": {Is: "1", MayLack: true}}
	good := Posture{"status CapBnd": "0", "namespace net": "its own"}
	if d := Diff(want, good); len(d) != 0 {
		t.Fatalf("control: %v", d)
	}
	tests := map[string]func(Posture){
		"a line changed":        func(p Posture) { p["status CapBnd"] = "8" },
		"a line more":           func(p Posture) { p["mount /host"] = "everything" },
		"a line less":           func(p Posture) { delete(p, "namespace net") },
		"an optional one wrong": func(p Posture) { p["newer"] = "2" },
	}
	for name, plant := range tests {
		p := Posture{"status CapBnd": "0", "namespace net": "its own"}
		plant(p)
		if d := Diff(want, p); len(d) != 1 {
			t.Errorf("%s: %v", name, d)
		}
	}
}

func TestInsideReadsTheProbe(t *testing.T) {
	v := View{UIDBase: 800000000, IDRange: 65536, Name: "a-1", Namespaces: map[string]string{"net": "net:[1]", "pid": "pid:[2]"}}
	p, err := v.Inside([]byte(strings.Join([]string{
		`FILE /proc/self/status Name:\x09core\nUid:\x091\x091\nCapEff:\x0900\nSigIgn:\x090000000180000004\nNSpid:\x0977\x091\nVmRSS:\x091 kB\n`,
		`FILE /proc/self/uid_map          0  800000000      65536\n`,
		`FILE /proc/self/mountinfo 1 0 0:1 /rootfs / ro - tmpfs tmpfs rw,size=4k\n2 1 0:2 / /sys ro - sysfs sysfs ro\n3 2 0:3 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n4 2 0:4 / /sys ro - tmpfs tmpfs ro,uid=800000000\n`,
		"LINK /proc/self/ns/net net:[1]", "LINK /proc/self/ns/pid pid:[3]", "LINK /proc/self/fd/1 pipe:[55]",
		"INODE core 27:3 mode=100555", "INODE dev/null 6:3 mode=20666", "DIR run b a", "END", "",
	}, "\n")))
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]string{
		"status Uid": "1 1", "status SigIgn": "0000000000000004", "status NSpid": "2 levels", "uid_map": "0 BASE 65536", "namespace net": "the host's", "namespace pid": "its own",
		"link fd/1": "pipe", "file core": "mode=100555 on the slot's", "file dev/null": "mode=20666 on another file system", "folder run": "a b",
		"mount /sys": "/ of tmpfs, ro; file system ro,uid=BASE", "mount /": "/rootfs of tmpfs, ro; file system rw,size=N",
	} {
		if p[key] != want {
			t.Errorf("%s is %q, wanted %q", key, p[key], want)
		}
	}
	for _, hidden := range []string{"mount /sys/fs/cgroup", "status VmRSS", "status Name"} {
		if _, ok := p[hidden]; ok {
			t.Errorf("%s is there", hidden)
		}
	}
	for _, bad := range []string{"FILE /proc/self/comm core\\n\n", "NOISE x\nEND\n"} {
		if _, err := v.Inside([]byte(bad)); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}

func TestExpectedRefusesUnknownKeys(t *testing.T) {
	if _, err := LoadExpected([]byte("inside: {a: b}\noutside: {a: {is: c, loosening: why}}")); err != nil {
		t.Errorf("control: %v", err)
	}
	for _, text := range []string{"inside: {a: b}", "inside: {a: b}\noutside: {a: {is: c, reason: why}}", "else: {}"} {
		if _, err := LoadExpected([]byte(text)); err == nil {
			t.Errorf("%q is accepted", text)
		}
	}
}
