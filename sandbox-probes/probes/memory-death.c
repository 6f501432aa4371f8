/*
 * Memory beyond the slot's limit, got in every way the core has. The kernel must
 * kill, and the verdict must be out of memory; a limit that does not bite ends the
 * program with 9, at most=BYTES above nothing, so that the host is not hurt.
 */
#include "probe.h"
#include <pthread.h>

static long most;
static int held_on(void) { return 9; }
static int anonymous(void)
{
	for (long got = 0; got < most; got += 1 << 20) {
		char *at = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (at == MAP_FAILED)
			return 6;
		memset(at, 1, 1 << 20);
	}
	return held_on();
}
static int by_brk(void)
{
	char *start = (char *)syscall(SYS_brk, 0);

	for (long got = 0; got < most; got += 1 << 20) {
		if ((char *)syscall(SYS_brk, start + got + (1 << 20)) != start + got + (1 << 20))
			return 6;
		memset(start + got, 1, 1 << 20);
	}
	return held_on();
}
static int shared(void)
{
	for (long got = 0; got < most; got += 1 << 20) {
		char *at = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
		if (at == MAP_FAILED)
			return 6;
		memset(at, 1, 1 << 20);
	}
	return held_on();
}
static void *eat(void *arg)
{
	anonymous();
	return arg;
}
static int in_thread(void)
{
	pthread_t t;

	if (pthread_create(&t, NULL, eat, NULL))
		return 3;
	pthread_join(t, NULL);
	return held_on();
}

int main(void)
{
	static const struct check ways[] = {{"anonymous", anonymous}, {"brk", by_brk}, {"shared", shared}, {"thread", in_thread}, {NULL, NULL}};

	if (slurp(INPUT, order, sizeof order) < 0)
		return 2;
	order[strcspn(order, "\n")] = 0;
	most = param("most", 64L << 20);
	for (const struct check *c = ways; c->name; c++)
		if (named(c->name))
			return c->act();
	return 3;
}
