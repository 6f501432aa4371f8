/* The result's owner, mode, times, flags and attributes stay as they were. */
#include "probe.h"
#include <linux/fs.h>
#include <sys/ioctl.h>

static int result(void) { return open(RESULT, O_RDWR); }
static int flags(int change)
{
	int fd = result(), now = 0, err;

	if (fd < 0)
		return errno;
	err = refused(ioctl(fd, FS_IOC_GETFLAGS, &now));
	if (err == OPEN) {
		now |= change;
		err = refused(ioctl(fd, FS_IOC_SETFLAGS, &now));
	}
	close(fd);
	return err;
}
static int nodump(void) { return flags(FS_NODUMP_FL); }
static int getx(void)
{
	struct fsxattr x;
	int fd = result(), err = refused(ioctl(fd, FS_IOC_FSGETXATTR, &x));

	close(fd);
	return err;
}
CALL(do_chmod, SYS_chmod, RESULT, 04777)
CALL(do_fchmod, SYS_fchmod, result(), 04777)
CALL(do_fchmodat, SYS_fchmodat, AT_FDCWD, RESULT, 0777)
CALL(do_fchmodat2, 452, AT_FDCWD, RESULT, 0777, 0)
CALL(do_chown, SYS_chown, RESULT, 0, 0)
CALL(do_fchown, SYS_fchown, result(), 0, 0)
CALL(do_lchown, SYS_lchown, RESULT, 0, 0)
CALL(do_fchownat, SYS_fchownat, AT_FDCWD, RESULT, 0, 0, 0)
CALL(do_utime, SYS_utime, RESULT, NULL)
CALL(do_utimes, SYS_utimes, RESULT, NULL)
CALL(do_futimesat, SYS_futimesat, AT_FDCWD, RESULT, NULL)
CALL(do_utimensat, SYS_utimensat, AT_FDCWD, RESULT, NULL, 0)
CALL(do_setxattr, SYS_setxattr, RESULT, "trusted.glovebox", "x", 1, 0)
CALL(do_lsetxattr, SYS_lsetxattr, RESULT, "trusted.glovebox", "x", 1, 0)
CALL(do_fsetxattr, SYS_fsetxattr, result(), "trusted.glovebox", "x", 1, 0)
CALL(do_removexattr, SYS_removexattr, RESULT, "user.none")
CALL(do_listxattr, SYS_listxattr, RESULT, NULL, 0)
CALL(do_getxattr, SYS_getxattr, RESULT, "user.none", NULL, 0)

CHECKS({"chmod", do_chmod}, {"fchmod", do_fchmod}, {"fchmodat", do_fchmodat}, {"fchmodat2", do_fchmodat2},
       {"chown", do_chown}, {"fchown", do_fchown}, {"lchown", do_lchown}, {"fchownat", do_fchownat},
       {"utime", do_utime}, {"utimes", do_utimes}, {"futimesat", do_futimesat}, {"utimensat", do_utimensat},
       {"setxattr", do_setxattr}, {"lsetxattr", do_lsetxattr}, {"fsetxattr", do_fsetxattr}, {"removexattr", do_removexattr},
       {"listxattr", do_listxattr}, {"getxattr", do_getxattr}, {"ioctl-setflags", nodump}, {"ioctl-fsgetxattr", getx})
