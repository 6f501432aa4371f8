/* No new namespace, and no way into another one. */
#include "probe.h"
#include <sched.h>

CALL(user, SYS_unshare, CLONE_NEWUSER)
CALL(mnt, SYS_unshare, CLONE_NEWNS)
CALL(net, SYS_unshare, CLONE_NEWNET)
CALL(pid, SYS_unshare, CLONE_NEWPID)
CALL(ipc, SYS_unshare, CLONE_NEWIPC)
CALL(uts, SYS_unshare, CLONE_NEWUTS)
CALL(cgroup, SYS_unshare, CLONE_NEWCGROUP)
CALL(timens, SYS_unshare, 0x80)
CALL(files, SYS_unshare, CLONE_FILES)
static int enter(void)
{
	int fd = open("/proc/self/ns/net", O_RDONLY), err;

	if (fd < 0)
		return errno;
	err = refused(syscall(SYS_setns, fd, 0));
	close(fd);
	return err;
}
static int related(void)
{
	int fd = open("/proc/self/ns/user", O_RDONLY), err;

	if (fd < 0)
		return errno;
	err = refused(syscall(SYS_ioctl, fd, 0xb703L /* NS_GET_NSTYPE */, 0));
	close(fd);
	return err;
}
/* clone is allowed for threads: a thread must not bring a namespace. */
static int nothing(void *unused)
{
	(void)unused;
	syscall(SYS_exit, 0);
	return 0;
}
static int thread_with(int flags)
{
	char *stack = mmap(NULL, 1 << 16, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (stack == MAP_FAILED)
		return errno;
	return refused(clone(nothing, stack + (1 << 16), CLONE_VM | CLONE_SIGHAND | CLONE_THREAD | flags, NULL));
}
static int thread_net(void) { return thread_with(CLONE_NEWNET); }
static int thread_uts(void) { return thread_with(CLONE_NEWUTS); }
static int thread_ipc(void) { return thread_with(CLONE_NEWIPC); }
static int thread_mnt(void) { return thread_with(CLONE_NEWNS); }
static int thread_cgroup(void) { return thread_with(CLONE_NEWCGROUP); }
static struct { uint64_t word[11]; } args = {{CLONE_NEWUSER}};
CALL(do_clone3, SYS_clone3, &args, 7) /* a size too small: EINVAL outside, never a child */

CHECKS({"unshare-user", user}, {"unshare-mnt", mnt}, {"unshare-net", net}, {"unshare-pid", pid}, {"unshare-ipc", ipc}, {"unshare-uts", uts},
       {"unshare-cgroup", cgroup}, {"unshare-time", timens}, {"unshare-files", files}, {"setns", enter}, {"ns-ioctl", related},
       {"thread-newnet", thread_net}, {"thread-newuts", thread_uts}, {"thread-newipc", thread_ipc}, {"thread-newns", thread_mnt},
       {"thread-newcgroup", thread_cgroup},
       {"clone3", do_clone3})
