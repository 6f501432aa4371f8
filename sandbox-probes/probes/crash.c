/* Every way a program crashes by itself; the name of the check chooses one. */
#include "probe.h"

#pragma GCC diagnostic ignored "-Winfinite-recursion"

static int segv(void)
{
	*(volatile int *)8 = 1;
	return OPEN;
}
static int illegal(void)
{
	__asm__ volatile("ud2");
	return OPEN;
}
static int divide(void)
{
	int quotient = 1, rest = 0, zero = 0;

	__asm__ volatile("idivl %2" : "+a"(quotient), "+d"(rest) : "r"(zero));
	return quotient;
}
static int trap(void)
{
	__asm__ volatile("int3");
	return OPEN;
}
static int bus(void)
{
	int fd = open(RESULT, O_RDWR);
	volatile char *at = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (ftruncate(fd, 0))
		return errno;
	at[0] = 'x';
	return OPEN;
}
static int aborted(void) { abort(); }
static int stack(void)
{
	volatile char room[1 << 16];

	room[0] = 1;
	return stack() + room[0];
}
static int privileged(void)
{
	__asm__ volatile("hlt");
	return OPEN;
}
/* Faults without end, each caught: none of them is the kernel's to tell. */
static int caught(void)
{
	struct sigaction how = {.sa_handler = on_crash, .sa_flags = SA_NODEFER};
	volatile int left = 5000;

	sigaction(SIGSEGV, &how, NULL);
	if (sigsetjmp(crashed, 1))
		left--;
	if (left)
		*(volatile int *)8 = 1;
	return OPEN;
}
/* The name under which the kernel's log would tell of this program. */
static void take_name(void)
{
	char name[16];
	int fd = open("/proc/self/comm", O_WRONLY);

	snprintf(name, sizeof name, "gbcrash%ld", param("name", 0));
	if (fd < 0 || write(fd, name, strlen(name)) < 0)
		_exit(71);
	close(fd);
}
static int noncanonical(void)
{
	*(volatile int *)0xdead000000000000 = 1;
	return OPEN;
}

int main(void)
{
	static const struct check ways[] = {{"segv", segv}, {"illegal", illegal}, {"divide", divide}, {"trap", trap}, {"bus", bus},
		{"abort", aborted}, {"stack", stack}, {"privileged", privileged}, {"noncanonical", noncanonical}, {"caught", caught}, {NULL, NULL}};

	if (slurp(INPUT, order, sizeof order) < 0)
		return 2;
	order[strcspn(order, "\n")] = 0;
	if (param("name", 0))
		take_name();
	for (const struct check *c = ways; c->name; c++)
		if (named(c->name))
			return c->act();
	return 3;
}
