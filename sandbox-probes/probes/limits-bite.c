/*
 * Limits that bite by an error: descriptors, address space, threads. The limit is
 * given by name; more than that many got is a breach.
 */
#include "probe.h"
#include <pthread.h>

static void close_above(int low)
{
	for (int fd = low + 1; fd < 9000; fd++)
		close(fd);
}
static int files(void)
{
	long limit = param("nofile", 64), n = 0;

	while (n < 4096 && open(INPUT, O_RDONLY) >= 0)
		n++;
	int err = n == 4096 ? OPEN : errno;
	close_above(result_fd);
	say("got=%ld limit=%ld", n, limit);
	return n > limit ? OPEN : err;
}
static int address_space(void)
{
	long limit = param("as", 1536L << 20), step = 16L << 20, n = 0;

	while (n < 4096 && mmap(NULL, (size_t)step, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0) != MAP_FAILED)
		n++;
	say("got=%ld limit=%ld", n * step, limit);
	return n * step > limit ? OPEN : ENOMEM;
}
static int one_large(void)
{
	void *at = mmap(NULL, (size_t)(param("as", 1536L << 20) + 4096), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	return at == MAP_FAILED ? errno : OPEN;
}
static int by_brk(void)
{
	unsigned long now = (unsigned long)syscall(SYS_brk, 0), wanted = now + (unsigned long)param("as", 1536L << 20);
	return (unsigned long)syscall(SYS_brk, wanted) == wanted ? OPEN : ENOMEM;
}
static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
static void *wait_at_gate(void *arg)
{
	pthread_mutex_lock(&gate);
	pthread_mutex_unlock(&gate);
	return arg;
}
static int threads(void)
{
	static pthread_t all[1024];
	long limit = param("pids", 16), n = 0;
	pthread_attr_t small;
	int err = OPEN;

	pthread_attr_init(&small);
	pthread_attr_setstacksize(&small, 1 << 16);
	pthread_mutex_lock(&gate);
	while (n < 1024 && !(err = pthread_create(&all[n], &small, wait_at_gate, NULL)))
		n++;
	pthread_mutex_unlock(&gate);
	for (long i = 0; i < n; i++)
		pthread_join(all[i], NULL);
	say("got=%ld limit=%ld", n + 1, limit);
	return n + 1 > limit ? OPEN : err;
}

CHECKS({"descriptors", files}, {"threads", threads}, {"one-large-mapping", one_large}, {"brk", by_brk},
       {"address-space", address_space})
