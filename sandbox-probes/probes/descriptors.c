/* No descriptor leads out: none is inherited, and /proc/self/fd opens no more than the path did. */
#include "probe.h"
#include <dirent.h>

static int inherited(void)
{
	int found = 0;

	for (int fd = 3; fd < 1024; fd++) {
		struct stat st;
		if (fd != result_fd && !fstat(fd, &st)) {
			found++;
			say("descriptor %d is open", fd);
		}
	}
	return found ? OPEN : EBADF;
}
static int standard_input(void)
{
	struct stat st, null;

	if (fstat(0, &st) || stat("/dev/null", &null))
		return errno;
	return st.st_rdev == null.st_rdev && S_ISCHR(st.st_mode) ? ENODEV : OPEN;
}
/* The monitor reads standard output through a pipe: its other end must stay its own. */
static int read_monitor_pipe(void) { return try_open("/proc/self/fd/1", O_RDONLY | O_NONBLOCK); }
static int up_and_out(void)
{
	int fd = open("in", O_RDONLY | O_DIRECTORY), err;
	struct stat root, up;

	err = fd < 0 ? errno : refused(fstatat(fd, "../../../../../../../../..", &up, 0));
	if (err == OPEN && !stat(".", &root) && root.st_ino == up.st_ino && root.st_dev == up.st_dev)
		err = EXDEV; /* we came out where we were */
	close(fd);
	return err;
}
/* other is the parent, or where there is none the first process. */
static const char *other(const char *what)
{
	static char path[64];

	snprintf(path, sizeof path, "/proc/%d/%s", parent() > 0 ? parent() : 1, what);
	return path;
}
static int other_root(void)
{
	struct stat root, found;

	if (stat(".", &root) || stat(other("root"), &found))
		return errno;
	return root.st_ino == found.st_ino && root.st_dev == found.st_dev ? EXDEV : OPEN;
}
static int other_file(void) { return readable(other("root/etc/passwd")); }
/* sockets looks for an engine's socket, or anybody's, in the whole tree. */
static int sockets_below(const char *path, int depth)
{
	DIR *d = opendir(path);
	int found = 0;

	if (!d)
		return 0;
	for (struct dirent *e; (e = readdir(d)) && !found;) {
		char full[512];
		struct stat st;
		if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..") || !strcmp(e->d_name, "proc"))
			continue;
		snprintf(full, sizeof full, "%.240s/%.240s", path, e->d_name);
		if (lstat(full, &st))
			continue;
		if (S_ISSOCK(st.st_mode) || S_ISBLK(st.st_mode)) {
			say("%.200s", full);
			found = 1;
		} else if (S_ISDIR(st.st_mode) && depth)
			found = sockets_below(full, depth - 1);
	}
	closedir(d);
	return found;
}
static int sockets(void) { return sockets_below(".", 6) ? OPEN : ENOENT; }
struct handle { unsigned bytes; int type; unsigned char data[128]; };
static struct handle handle = {.bytes = 128};
static int mount_id;
CALL(name_to_handle, SYS_name_to_handle_at, AT_FDCWD, INPUT, &handle, &mount_id, 0)
CALL(open_by_handle, SYS_open_by_handle_at, AT_FDCWD, &handle, O_RDONLY)
static struct { uint64_t flags, mode, resolve; } how = {O_RDONLY, 0, 0};
CALL_FD(do_openat2, SYS_openat2, AT_FDCWD, INPUT, &how, sizeof how)
CALL_FD(do_dup, SYS_dup, 0)
CALL_FD(do_dup2, SYS_dup2, 0, 40)
CALL_FD(do_dup3, SYS_dup3, 0, 40, 0)
CALL(do_close_range, SYS_close_range, 50, 60, 0)
CALL(do_chdir, SYS_chdir, ".")
CALL(do_fchdir, SYS_fchdir, -1)
CALL(do_getcwd, SYS_getcwd, detail, 256)
CALL(do_access, SYS_access, INPUT, 0)
CALL(do_statx, SYS_statx, AT_FDCWD, INPUT, 0, 0xfff, report + sizeof report - 1024)

CHECKS({"inherited", inherited}, {"standard-input-is-null", standard_input}, {"read-monitor-pipe", read_monitor_pipe},
       {"walk-up", up_and_out}, {"other-root", other_root}, {"other-root-passwd", other_file}, {"sockets-in-tree", sockets},
       {"name-to-handle", name_to_handle}, {"open-by-handle", open_by_handle}, {"openat2", do_openat2}, {"dup", do_dup}, {"dup2", do_dup2},
       {"dup3", do_dup3}, {"close-range", do_close_range}, {"chdir", do_chdir}, {"fchdir", do_fchdir}, {"getcwd", do_getcwd},
       {"access", do_access}, {"statx", do_statx})
