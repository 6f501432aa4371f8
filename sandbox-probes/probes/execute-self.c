/* Running the core once more gives it nothing: filter, capabilities and limits stay. */
#include "probe.h"
#include <sys/resource.h>

int main(void)
{
	char status[8192], name[64] = "", *at;
	struct rlimit files;
	unsigned mode = 9;
	unsigned long long bounding = 9;

	if (slurp("/proc/self/cmdline", name, sizeof name) < 0)
		return 39;
	if (strcmp(name, "again")) {
		char *const again[] = {"again", NULL}, *const none[] = {NULL};
		syscall(SYS_execve, "/proc/self/exe", again, none);
		return 40;
	}
	if (slurp("/proc/self/status", status, sizeof status) < 0)
		return 41;
	at = strstr(status, "\nSeccomp:");
	if (!at || sscanf(at + 9, "%u", &mode) != 1)
		return 42;
	at = strstr(status, "CapBnd:");
	if (!at || sscanf(at + 7, "%llx", &bounding) != 1)
		return 43;
	getrlimit(RLIMIT_NOFILE, &files);
	line("CHECK filter-after-exec %s seccomp=%u\n", mode == 2 ? "shut EPERM" : "open -", mode);
	line("CHECK capabilities-after-exec %s bounding=%llx\n", bounding ? "open -" : "shut EPERM", bounding);
	line("CHECK limits-after-exec %s nofile=%lu\n", files.rlim_max <= 64 ? "shut EMFILE" : "open -", (unsigned long)files.rlim_max);
	line("END\n");
	flush_report();
	return 0;
}
