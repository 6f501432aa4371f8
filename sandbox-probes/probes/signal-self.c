/*
 * The core signals itself (signal=N): as first process of its namespace, what it
 * does not handle does nothing, so that it can forge neither a kill nor SIGSYS.
 */
#include "probe.h"

int main(void)
{
	if (slurp(INPUT, order, sizeof order) < 0)
		return 2;
	order[strcspn(order, "\n")] = 0;
	int number = (int)param("signal", SIGKILL);
	long sent = syscall(SYS_tgkill, getpid(), (int)syscall(SYS_gettid), number);
	line("CHECK sent note - answer=%ld\nEND\n", sent);
	flush_report();
	return 0;
}
