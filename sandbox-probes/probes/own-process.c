/*
 * What the core can do to itself. These are open by nature; each must stay its
 * own business. They are listed so that a change of the kernel shows.
 */
#include "probe.h"

static int answer(void) { return 7; }
static int rewrite_code(void)
{
	int fd = open("/proc/self/mem", O_RDWR), err;
	char byte;

	if (fd < 0)
		return errno;
	err = refused(pread(fd, &byte, 1, (off_t)(uintptr_t)&answer));
	if (err == OPEN)
		err = refused(pwrite(fd, &byte, 1, (off_t)(uintptr_t)&answer));
	close(fd);
	return err;
}
static int rename_itself(void) { return writable("/proc/self/comm", "conmon"); }
static int oom_raise(void) { return writable("/proc/self/oom_score_adj", "999"); }
static int dump_filter(void) { return writable("/proc/self/coredump_filter", "0x7f"); }
static int clear_refs(void) { return writable("/proc/self/clear_refs", "1"); }
static int autogroup(void) { return writable("/proc/self/autogroup", "0"); }
static int make_code(void)
{
	static const unsigned char code[] = {0xb8, 42, 0, 0, 0, 0xc3};
	void *at = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (at == MAP_FAILED)
		return errno;
	memcpy(at, code, sizeof code);
	if (mprotect(at, 4096, PROT_READ | PROT_EXEC))
		return errno;
	return ((int (*)(void))at)() == 42 ? OPEN : EFAULT;
}

static int projects(void) { return writable("/proc/self/projid_map", "0 0 1"); }
static int current_call(void)
{
	char text[256] = "";

	if (slurp("/proc/self/syscall", text, sizeof text) < 0)
		return errno;
	return strlen(text) > 1 ? OPEN : ENODATA;
}

CHECKS({"rewrite-code-through-proc-mem", rewrite_code}, {"rename-itself", rename_itself}, {"oom-score-within-rights", oom_raise},
       {"coredump-filter", dump_filter}, {"clear-refs", clear_refs}, {"autogroup", autogroup}, {"project-map", projects}, {"current-call", current_call}, {"write-then-execute", make_code})
