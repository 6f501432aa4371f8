/* What the core can ask of the kernel without a file tells only of itself. */
#include "probe.h"
#include <sys/sysinfo.h>
#include <sys/vfs.h>

CALL(do_sysinfo, SYS_sysinfo, report + sizeof report - 512)
/* other compares the file system behind path with the root's. */
static int other(const char *path)
{
	struct statfs root, it;
	int a = open(".", O_RDONLY | O_DIRECTORY), b = open(path, O_RDONLY), err = OPEN;

	if (a < 0 || b < 0)
		return errno;
	if (syscall(SYS_fstatfs, a, &root) || syscall(SYS_fstatfs, b, &it))
		err = errno;
	else if (!it.f_blocks)
		err = ENODATA; /* one without blocks has no free ones to watch */
	else if (!memcmp(&root.f_fsid, &it.f_fsid, sizeof root.f_fsid) && root.f_blocks == it.f_blocks)
		err = EXDEV;
	say("type=%lx blocks=%lu free=%lu", (long)it.f_type, (unsigned long)it.f_blocks, (unsigned long)it.f_bfree);
	close(a);
	close(b);
	return err;
}
static int dev(void) { return other("/dev"); }
static int dev_null(void) { return other("/dev/null"); }
static int sys(void) { return other("/sys"); }

CHECKS({"sysinfo", do_sysinfo}, {"fstatfs-dev", dev}, {"fstatfs-dev-null", dev_null}, {"fstatfs-sys", sys})
