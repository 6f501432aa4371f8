/* Every way to run on: only the deadline ends these. */
#include "probe.h"
#include <pthread.h>

static int spin(void)
{
	for (;;)
		__asm__ volatile("");
	return 0;
}
static int sleeps(void)
{
	for (;;)
		pause_ms(1000);
	return 0;
}
static int deaf(void)
{
	sigset_t all;
	struct sigaction ignore = {.sa_handler = SIG_IGN};

	for (int n = 1; n < 65; n++)
		sigaction(n, &ignore, NULL);
	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, NULL);
	return sleeps();
}
static void *spin_thread(void *arg)
{
	spin();
	return arg;
}
static int many(void)
{
	pthread_t t;

	for (int i = 0; i < 8; i++)
		pthread_create(&t, NULL, spin_thread, NULL);
	return spin();
}
static void *sleep_thread(void *arg)
{
	sleeps();
	return arg;
}
/* The first thread ends, another stays: the process must not count as done. */
static int leader_leaves(void)
{
	pthread_t t;

	line("CHECK leader note - the first thread has left\nEND\n");
	flush_report();
	if (pthread_create(&t, NULL, sleep_thread, NULL))
		return 3;
	syscall(SYS_exit, 0);
	return 4;
}
static int runs_itself(void)
{
	static char *const again[] = {"x", NULL}, *const none[] = {NULL};

	syscall(SYS_execve, "/proc/self/exe", again, none);
	return 5;
}
static int waits(void)
{
	static int word;

	return syscall(SYS_futex, &word, 0 /* FUTEX_WAIT */, 0, NULL, NULL, 0) < 0 ? 7 : 8;
}
static int yields(void)
{
	for (;;)
		syscall(SYS_sched_yield);
	return 0;
}
static int writes(void)
{
	static char chunk[1 << 16];
	int fd = open(RESULT, O_WRONLY);

	for (;;)
		if (pwrite(fd, chunk, sizeof chunk, 0) < 0)
			return 9;
}

int main(void)
{
	static const struct check ways[] = {{"spin", spin}, {"sleep", sleeps}, {"deaf", deaf}, {"spin-threads", many}, {"leader-leaves", leader_leaves},
		{"exec-loop", runs_itself}, {"wait-forever", waits}, {"yield-loop", yields}, {"rewrite-result", writes}, {NULL, NULL}};

	if (slurp(INPUT, order, sizeof order) < 0)
		return 2;
	order[strcspn(order, "\n")] = 0;
	for (const struct check *c = ways; c->name; c++)
		if (named(c->name))
			return c->act();
	return 3;
}
