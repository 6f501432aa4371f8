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

/* Tables of the network that count the host's sockets and packets in every namespace. */
static int sockstat(void)
{
	char text[4096], *at;
	long alloc = 0;

	if (slurp("/proc/self/net/sockstat", text, sizeof text) < 0)
		return errno;
	at = strstr(text, "alloc ");
	if (at)
		alloc = strtol(at + 6, NULL, 10);
	say("tcp alloc=%ld", alloc);
	return alloc ? OPEN : ENODATA;
}
static int softnet(void) { return readable("/proc/self/net/softnet_stat"); }
/* /proc counts all processes of the machine in its own links. */
static int proc_links(void)
{
	struct stat st;

	if (stat("/proc", &st))
		return errno;
	say("links=%lu", (unsigned long)st.st_nlink);
	return st.st_nlink > 10 ? OPEN : ENODATA;
}

CHECKS({"sysinfo", do_sysinfo}, {"fstatfs-dev", dev}, {"fstatfs-dev-null", dev_null}, {"fstatfs-sys", sys},
       {"net-sockstat", sockstat}, {"net-softnet", softnet}, {"proc-links", proc_links})
