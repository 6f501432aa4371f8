/* The core cannot become somebody else. */
#include "probe.h"

CALL(do_setuid, SYS_setuid, 0)
CALL(do_setgid, SYS_setgid, 0)
CALL(do_setreuid, SYS_setreuid, 0, 0)
CALL(do_setregid, SYS_setregid, 0, 0)
CALL(do_setresuid, SYS_setresuid, 0, 0, 0)
CALL(do_setresgid, SYS_setresgid, 0, 0, 0)
CALL(do_setfsuid, SYS_setfsuid, 0)
CALL(do_setfsgid, SYS_setfsgid, 0)
CALL(do_setgroups, SYS_setgroups, 0, NULL)
CALL(do_getuid, SYS_getuid)
CALL(do_getgroups, SYS_getgroups, 0, NULL)
static int is_root(void)
{
	char status[8192], *uid;
	int real = 0;

	if (slurp("/proc/self/status", status, sizeof status) < 0)
		return errno;
	uid = strstr(status, "\nUid:");
	if (!uid || sscanf(uid + 5, "%d", &real) != 1)
		return ENODATA;
	return real ? EPERM : OPEN;
}

CHECKS({"is-root", is_root}, {"setuid", do_setuid}, {"setgid", do_setgid}, {"setreuid", do_setreuid}, {"setregid", do_setregid},
       {"setresuid", do_setresuid}, {"setresgid", do_setresgid}, {"setfsuid", do_setfsuid}, {"setfsgid", do_setfsgid},
       {"setgroups", do_setgroups}, {"getuid", do_getuid}, {"getgroups", do_getgroups})
