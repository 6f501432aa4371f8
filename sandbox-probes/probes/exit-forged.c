/* Exit codes that look like something else (code=N): 137 is no kill, 159 no SIGSYS. */
#include "probe.h"

int main(void)
{
	if (slurp(INPUT, order, sizeof order) < 0)
		return 2;
	order[strcspn(order, "\n")] = 0;
	line("CHECK forged note - left before the exit\n");
	flush_report();
	_exit((int)param("code", 0));
}
