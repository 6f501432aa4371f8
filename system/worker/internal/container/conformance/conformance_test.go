package conformance_test

import (
	"strings"
	"testing"
	"time"

	"glovebox/system/worker/internal/container"
	"glovebox/system/worker/internal/container/conformance"
	"glovebox/system/worker/internal/container/enginetest"
	"glovebox/threat-model/evidence"
)

// obedient keeps the contract for any input: it upper-cases.
const obedient = `
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>
int main(int argc, char **argv)
{
	static char buf[65536];
	(void)argv;
	signal(SIGXFSZ, SIG_IGN);
	if (argc > 1) return 2;
	int in = open("/in/input", O_RDONLY), out = open("/out/result", O_WRONLY);
	long n, total = 0;
	if (in < 0 || out < 0) return 2;
	while ((n = read(in, buf, sizeof buf)) > 0) {
		for (long i = 0; i < n; i++) if (buf[i] >= 'a' && buf[i] <= 'z') buf[i] -= 32;
		for (long done = 0; done < n;) {
			long w = write(out, buf + done, n - done);
			if (w < 0) return ON_FULL;
			done += w;
		}
		total += n;
	}
	EXTRA;
	return total ? 0 : 3;
}`

func core(onFull, extra string) string {
	return strings.NewReplacer("ON_FULL", onFull, "EXTRA", extra).Replace(obedient)
}

func TestContractKeptAndBroken(t *testing.T) {
	evidence.Proves(t, "COR-02", "COR-01")
	real, bare := enginetest.Podman(t), enginetest.NewBare(t)
	for name, c := range map[string]struct {
		source string
		fails  []string // beginnings of the names of exactly the failing checks
	}{
		"kept":                     {core("5", ""), nil},
		"partial result, exit 0":   {core("0", ""), []string{"says that a result"}},
		"own code for a full file": {core("1", ""), []string{"says that a result"}},
		"takes arguments":          {strings.Replace(core("5", ""), "if (argc > 1) return 2;", "", 1), []string{"refuses an argument"}},
		"empty result, exit 0":     {strings.Replace(core("5", ""), "total ? 0 : 3", "0", 1), []string{"stands an empty input"}},
		"depends on the moment": {core("5", `unsigned lo, hi; __asm__ volatile("rdtsc" : "=a"(lo), "=d"(hi)); char b[4] = {lo, lo >> 8, lo >> 16, hi}; if (total > 16 && write(out, b, 4) != 4) return 5`),
			[]string{"gives the same", "says the same of 4 KiB", "says the same of 64 KiB", "says the same of 100,000"}},
		"makes a socket": {"#include <sys/socket.h>\n" + core("5", "if (total > 100000) socket(AF_INET, SOCK_STREAM, 0)"),
			[]string{"stands 1048576 bytes within", "stands 1048577 bytes", "stands 1048576 bytes in"}},
		"crashes":                     {core("5", "if (total == 1) *(volatile char *)8 = 1"), []string{"stands one zero byte"}},
		"a diagnostic with an escape": {core("5", `if (!total && write(out, "{\"line\":1,\"column\":1,\"message\":\"\\u001b[2J\"}", 44) < 0) return 5`), []string{"stands an empty input"}},
		"a good diagnostic":           {core("5", `if (!total && write(out, "{\"line\":1,\"column\":1,\"message\":\"no bytes\"}\n", 42) < 0) return 5`), nil},
	} {
		t.Run(name, func(t *testing.T) {
			// The real engine where a wall of its matters; the rest is the same without.
			var engine enginetest.Engine = bare
			if name == "kept" || name == "makes a socket" {
				engine = real
			}
			img := enginetest.ImageOf(t, enginetest.Compile(t, []byte(c.source)))
			m := enginetest.Maker(t, engine, img, func(l *container.Limits) { l.Timeout = 20 * time.Second; l.MaxResultBytes = 2 << 20 })
			suite := conformance.Suite{Maker: *m, Sample: []byte("print('a sample of some length')\n")}
			checks, err := suite.Run(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			var failed []string
			for _, check := range checks {
				if !check.Passed {
					failed = append(failed, check.Name+": "+check.Detail)
				}
			}
			if len(checks) < 12 || len(failed) != len(c.fails) {
				t.Fatalf("%d checks; failed are:\n%s", len(checks), strings.Join(failed, "\n"))
			}
			for i, want := range c.fails {
				if !strings.HasPrefix(failed[i], want) {
					t.Errorf("failed is %q, wanted %q", failed[i], want)
				}
			}
		})
	}
}
