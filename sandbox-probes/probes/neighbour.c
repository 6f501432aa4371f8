/* A well-behaved core: it works for work=MS and copies its input. The others' attacks must not touch it. */
#include "probe.h"

int main(void)
{
	static char text[1 << 16];
	ssize_t n = slurp(INPUT, text, sizeof text);
	uint64_t sum = 14695981039346656037u;
	struct timespec from, now;

	if (n < 0)
		return 2;
	memcpy(order, text, strcspn(text, "\n"));
	clock_gettime(CLOCK_MONOTONIC, &from);
	do {
		for (ssize_t i = 0; i < n; i++)
			sum = (sum ^ (unsigned char)text[i]) * 1099511628211u;
		pause_ms(1);
		clock_gettime(CLOCK_MONOTONIC, &now);
	} while ((now.tv_sec - from.tv_sec) * 1000 + (now.tv_nsec - from.tv_nsec) / 1000000 < param("work", 0));
	sum = 14695981039346656037u;
	for (ssize_t i = 0; i < n; i++)
		sum = (sum ^ (unsigned char)text[i]) * 1099511628211u;
	line("%s\nFNV %016llx\n", text, (unsigned long long)sum);
	flush_report();
	return 0;
}
