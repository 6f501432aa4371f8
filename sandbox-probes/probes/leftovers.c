/*
 * The core ends at once and leaves somebody behind (only where the filter is lifted:
 * under it no second process can be). The child would write on into the result.
 */
#include "probe.h"

/* A control must not stay on the host; in the sandbox nobody is in a hurry. */
static long life(void) { return getenv("SECRET_OF_THE_HOST") ? 300 : 20000; }

static long spawn(void) { return syscall(SYS_fork); }
static void live_on(void)
{
	int fd = open(RESULT, O_WRONLY);

	for (long ms = 0; ms < life(); ms += 2) {
		if (pwrite(fd, "forged\n", 7, 0) < 0)
			_exit(71);
		pause_ms(2);
	}
	_exit(0);
}
static int child(void)
{
	if (spawn() == 0)
		live_on();
	pause_ms(20);
	return 0;
}
static int daemonised(void)
{
	if (spawn() == 0) {
		syscall(SYS_setsid);
		if (spawn() == 0)
			live_on();
		_exit(0);
	}
	pause_ms(20);
	return 0;
}
static int deaf(void)
{
	if (spawn() == 0) {
		struct sigaction ignore = {.sa_handler = SIG_IGN};
		for (int n = 1; n < 65; n++)
			sigaction(n, &ignore, NULL);
		live_on();
	}
	pause_ms(20);
	return 0;
}
/* A stopped process takes no signal but the last one. */
static int stopped(void)
{
	long sleeper = spawn();

	if (sleeper == 0)
		live_on();
	pause_ms(20); /* it has written once */
	syscall(SYS_kill, sleeper, SIGSTOP);
	if (spawn() == 0) {
		pause_ms(life());
		syscall(SYS_kill, sleeper, SIGKILL);
		_exit(0);
	}
	return 0;
}
static int tree(void)
{
	for (int depth = 0; depth < 6; depth++)
		if (spawn() != 0) {
			if (depth)
				live_on();
			pause_ms(20);
			return 0;
		}
	live_on();
	return 0;
}
/* The child is killed for its memory, the parent does not care. */
static int memory_child(void)
{
	long most = param("most", 64L << 20), pid = spawn();

	if (pid == 0) {
		for (long got = 0; got < most; got += 1 << 20) {
			char *at = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
			if (at == MAP_FAILED)
				_exit(6);
			memset(at, 1, 1 << 20);
		}
		_exit(9);
	}
	syscall(SYS_wait4, pid, NULL, 0, NULL);
	return 0;
}

int main(void)
{
	static const struct check ways[] = {{"child", child}, {"daemon", daemonised}, {"deaf", deaf}, {"stopped", stopped}, {"tree", tree},
		{"memory-child", memory_child}, {NULL, NULL}};

	if (slurp(INPUT, order, sizeof order) < 0)
		return 2;
	order[strcspn(order, "\n")] = 0;
	line("END\n");
	flush_report();
	for (const struct check *c = ways; c->name; c++)
		if (named(c->name))
			return c->act();
	return 3;
}
