/* Limits are read-only to the core, in both directions. */
#include "probe.h"
#include <sys/resource.h>

struct pair { uint64_t soft, hard; };
static int change(int which, int64_t by)
{
	struct pair now;

	if (syscall(SYS_prlimit64, 0, which, NULL, &now))
		return errno;
	now.soft = now.hard = now.hard + (uint64_t)by;
	return refused(syscall(SYS_prlimit64, 0, which, &now, NULL));
}
static int set(int which, uint64_t value)
{
	struct pair wanted = {value, value};
	return refused(syscall(SYS_prlimit64, 0, which, &wanted, NULL));
}
static int core_to_zero(void) { return set(RLIMIT_CORE, 0); }
static int fsize_up(void) { return change(RLIMIT_FSIZE, 4096); }
static int nofile_same(void) { return change(RLIMIT_NOFILE, 0); }
static int nofile_down(void) { return change(RLIMIT_NOFILE, -1); }
static int as_up(void) { return change(RLIMIT_AS, 4096); }
static int cpu_same(void) { return change(RLIMIT_CPU, 0); }
static int nproc_up(void) { return change(RLIMIT_NPROC, 0); }
static int memlock_up(void) { return change(RLIMIT_MEMLOCK, 0); }
static int first_process(void)
{
	struct pair wanted = {1 << 20, 1 << 20};
	return refused(syscall(SYS_prlimit64, getpid(), RLIMIT_FSIZE, &wanted, NULL));
}
static struct pair kept;
CALL(do_setrlimit, SYS_setrlimit, RLIMIT_CORE, &kept)
CALL(do_getrlimit, SYS_getrlimit, RLIMIT_CORE, &kept)
CALL(do_getrusage, SYS_getrusage, 0, report + sizeof report - 256)
CALL(do_times, SYS_times, report + sizeof report - 256)

CHECKS({"core-to-zero", core_to_zero}, {"fsize-up", fsize_up}, {"nofile-same", nofile_same}, {"nofile-down", nofile_down}, {"as-up", as_up},
       {"cpu-same", cpu_same}, {"nproc-same", nproc_up}, {"memlock-same", memlock_up}, {"by-own-pid", first_process},
       {"setrlimit", do_setrlimit}, {"getrlimit", do_getrlimit}, {"getrusage", do_getrusage}, {"times", do_times})
