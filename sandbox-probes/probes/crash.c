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
static int noncanonical(void)
{
	*(volatile int *)0xdead000000000000 = 1;
	return OPEN;
}

int main(void)
{
	static const struct check ways[] = {{"segv", segv}, {"illegal", illegal}, {"divide", divide}, {"trap", trap}, {"bus", bus},
		{"abort", aborted}, {"stack", stack}, {"privileged", privileged}, {"noncanonical", noncanonical}, {NULL, NULL}};

	if (slurp(INPUT, order, sizeof order) < 0)
		return 2;
	order[strcspn(order, "\n")] = 0;
	for (const struct check *c = ways; c->name; c++)
		if (named(c->name))
			return c->act();
	return 3;
}
