/*
 * execve is allowed, because the runtime's own start comes after the filter: it
 * must find nothing to run but the core itself. Each check returns only if the
 * program did not start.
 */
#include "probe.h"

/* starts writes a program into path, if it can, and tries to run it. */
static int starts(const char *path)
{
	static char *const argv[] = {"x", NULL}, *const envp[] = {NULL};

	syscall(SYS_execve, path, argv, envp);
	return errno;
}
static int script(void)
{
	int fd = open(RESULT, O_WRONLY);

	if (fd >= 0) {
		if (write(fd, "#!/core\n", 8) != 8)
			return EIO;
		close(fd);
	}
	return starts(RESULT);
}
static int result_through_fd(void)
{
	char path[64];
	int fd = open(RESULT, O_RDONLY);

	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	return starts(path);
}
static int input(void) { return starts(INPUT); }
static int shell(void) { return starts("/bin/sh"); }
static int hostname_file(void) { return starts("etc/hostname"); }
static int by_descriptor(void)
{
	int fd = open(INPUT, O_RDONLY);
	static char *const none[] = {NULL};

	return refused(syscall(SYS_execveat, fd, "", none, none, AT_EMPTY_PATH));
}
static int from_memory(void)
{
	static char *const none[] = {NULL};
	long fd = syscall(SYS_memfd_create, "x", 0);

	return fd < 0 ? errno : refused(syscall(SYS_execveat, fd, "", none, none, AT_EMPTY_PATH));
}
CALL(do_uselib, SYS_uselib, "none")

CHECKS({"result-script", script}, {"result-through-fd", result_through_fd}, {"input", input}, {"shell", shell},
       {"hostname-file", hostname_file}, {"execveat", by_descriptor}, {"memfd-execveat", from_memory}, {"uselib", do_uselib})
