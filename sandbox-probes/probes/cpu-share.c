/* Four threads that spin for wall=MS get no more processor time than the quota, cpus=PERCENT. */
#include "probe.h"
#include <pthread.h>

static volatile int stop;
static void *spin(void *arg)
{
	while (!stop)
		__asm__ volatile("");
	return arg;
}

static int share(void)
{
	struct timespec used, from, to;
	long wall = param("wall", 1000), cpus = param("cpus", 100), ms, took;
	pthread_t t[4];

	clock_gettime(CLOCK_MONOTONIC, &from);
	for (int i = 0; i < 4; i++)
		if (pthread_create(&t[i], NULL, spin, NULL))
			return errno;
	pause_ms(wall);
	stop = 1;
	for (int i = 0; i < 4; i++)
		pthread_join(t[i], NULL);
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
	clock_gettime(CLOCK_MONOTONIC, &to);
	ms = used.tv_sec * 1000 + used.tv_nsec / 1000000;
	took = (to.tv_sec - from.tv_sec) * 1000 + (to.tv_nsec - from.tv_nsec) / 1000000;
	say("cpu_ms=%ld wall_ms=%ld", ms, took);
	/* one period of 100 ms may be used up before and after, hence the constant */
	return ms > took * cpus / 100 + 150 ? OPEN : EAGAIN;
}

CHECKS({"share", share})
