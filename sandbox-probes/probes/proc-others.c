/* The core sees no process but itself, and reaches none. */
#include "probe.h"
#include <dirent.h>
#include <ctype.h>

static int listed(void)
{
	DIR *d = opendir("/proc");
	int others = 0;

	if (!d)
		return errno;
	for (struct dirent *e; (e = readdir(d));)
		if (isdigit((unsigned char)e->d_name[0]) && atoi(e->d_name) != getpid()) {
			others++;
			say("%s", e->d_name);
		}
	closedir(d);
	return others ? OPEN : ESRCH;
}
static int first(void) { return getpid() == 1 ? ESRCH : OPEN; }
static int has_parent(void) { return parent() == 0 ? ESRCH : OPEN; }
static int other(void) { return parent() > 0 ? parent() : 2; }
static int parent_environment(void)
{
	char path[64];

	snprintf(path, sizeof path, "/proc/%d/environ", other());
	return readable(path);
}
static int parent_memory(void)
{
	char path[64];

	snprintf(path, sizeof path, "/proc/%d/mem", other());
	return try_open(path, O_RDONLY);
}
static int parent_folder(void)
{
	char path[64];

	snprintf(path, sizeof path, "/proc/%d/cwd", other());
	return try_open(path, O_RDONLY | O_DIRECTORY);
}
/* tgkill is allowed for abort: it must find nobody else. */
static int tgkill_other(void) { return refused(syscall(SYS_tgkill, other(), other(), 0)); }
static int tgkill_all(void)
{
	for (int pid = 2; pid < 32768; pid++)
		if (pid != getpid() && !syscall(SYS_tgkill, pid, pid, 0)) {
			say("%d", pid);
			return OPEN;
		}
	return ESRCH;
}
static char info[128];
CALL(do_kill, SYS_kill, other(), 0)
CALL(do_kill_self, SYS_kill, getpid(), 0)
CALL(do_tkill, SYS_tkill, other(), 0)
CALL(do_sigqueue, SYS_rt_sigqueueinfo, getpid(), 0, info)
CALL(do_tgsigqueue, SYS_rt_tgsigqueueinfo, getpid(), getpid(), 0, info)
CALL_FD(do_pidfd_open, SYS_pidfd_open, getpid(), 0)
CALL(do_pidfd_signal, SYS_pidfd_send_signal, -1, 0, NULL, 0)
CALL(do_getppid, SYS_getppid)
CALL(do_getpgid, SYS_getpgid, 0)
CALL(do_setpgid, SYS_setpgid, 999999999, 0)
CALL(do_getsid, SYS_getsid, 0)
CALL(do_wait4, SYS_wait4, -1, NULL, 1, NULL)
CALL(do_waitid, SYS_waitid, 0, 0, NULL, 5, NULL)
CALL(do_pause, SYS_rt_sigtimedwait, "\0\0\0\0\0\0\0", NULL, "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 8)

CHECKS({"listed", listed}, {"is-first", first}, {"has-parent", has_parent}, {"parent-environment", parent_environment},
       {"parent-memory", parent_memory}, {"parent-folder", parent_folder}, {"tgkill-other", tgkill_other}, {"tgkill-range", tgkill_all},
       {"kill-other", do_kill}, {"kill-self", do_kill_self}, {"tkill", do_tkill},
       {"rt-sigqueueinfo", do_sigqueue}, {"rt-tgsigqueueinfo", do_tgsigqueue}, {"pidfd-open", do_pidfd_open},
       {"pidfd-send-signal", do_pidfd_signal}, {"getppid", do_getppid}, {"getpgid", do_getpgid}, {"setpgid", do_setpgid}, {"getsid", do_getsid},
       {"wait4", do_wait4}, {"waitid", do_waitid}, {"rt-sigtimedwait", do_pause})
