/* No second process, by any call that makes one. */
#include "probe.h"
#include <sched.h>

static int child(long pid)
{
	if (pid == 0)
		_exit(0);
	return refused(pid);
}
static int by_fork(void) { return child(syscall(SYS_fork)); }
static int by_clone(void) { return child(syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0)); }
static int by_clone_parent(void) { return child(syscall(SYS_clone, CLONE_PARENT | SIGCHLD, 0, 0, 0, 0)); }
static int by_clone_files(void) { return child(syscall(SYS_clone, CLONE_FILES | CLONE_FS | SIGCHLD, 0, 0, 0, 0)); }
static int nothing(void *unused)
{
	(void)unused;
	_exit(0);
}
static int by_clone_vm(void)
{
	char *stack = mmap(NULL, 1 << 16, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return stack == MAP_FAILED ? errno : refused(clone(nothing, stack + (1 << 16), CLONE_VM | CLONE_VFORK | SIGCHLD, NULL));
}
static int by_vfork(void)
{
	long pid = vfork();
	if (pid == 0)
		_exit(0);
	return refused(pid);
}
/* The kernel takes the flags' lower half; a high CLONE_THREAD must not count. */
static int high_bits(void) { return child(syscall(SYS_clone, (0x10000L << 32) | SIGCHLD, 0, 0, 0, 0)); }

CHECKS({"fork", by_fork}, {"vfork", by_vfork}, {"clone", by_clone}, {"clone-parent", by_clone_parent}, {"clone-files", by_clone_files},
       {"clone-vm", by_clone_vm}, {"clone-high-bits", high_bits})
