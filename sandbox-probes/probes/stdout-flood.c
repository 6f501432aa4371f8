/* A flood on standard output and error (bytes=N): it must reach no disk and no log, and do no harm. */
#include "probe.h"

int main(void)
{
	static char chunk[1 << 16];
	long total, got[2] = {0, 0};

	if (slurp(INPUT, order, sizeof order) < 0)
		return 2;
	order[strcspn(order, "\n")] = 0;
	total = param("bytes", 32L << 20);
	memset(chunk, 'x', sizeof chunk);
	chunk[sizeof chunk - 1] = '\n';
	for (int to = 1; to <= 2; to++)
		while (got[to - 1] < total) {
			ssize_t n = write(to, chunk, sizeof chunk);
			if (n < 0)
				break;
			got[to - 1] += n;
		}
	line("CHECK flood note - stdout=%ld stderr=%ld\nEND\n", got[0], got[1]);
	flush_report();
	return 0;
}
