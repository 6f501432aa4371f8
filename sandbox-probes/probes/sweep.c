/*
 * Every call number from=N to to=M but those named by skip=N, with arguments that
 * no call can use; one line a number: its errno, or 0. Numbers that the filter
 * allows are skipped, since some of them would end the program.
 */
#include "probe.h"

static int skipped(long number)
{
	for (const char *at = strstr(order, " skip="); at; at = strstr(at + 1, " skip="))
		if (strtol(at + 6, NULL, 10) == number)
			return 1;
	return 0;
}

int main(void)
{
	if (slurp(INPUT, order, sizeof order) < 0)
		return 2;
	order[strcspn(order, "\n")] = 0;
	for (long number = param("from", 0); number <= param("to", 600); number++) {
		if (skipped(number))
			continue;
		long value = syscall(number, -1L, -1L, -1L, -1L, -1L, -1L);
		line("NUMBER %ld %s\n", number, value >= 0 ? "0" : strerrorname_np(errno) ? strerrorname_np(errno) : "?");
		flush_report(); /* the next number may be the last */
	}
	line("END\n");
	flush_report();
	return 0;
}
