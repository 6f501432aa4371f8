/* The input cannot be changed, by no way that leads to its inode. */
#include "probe.h"

static int rdwr(void) { return try_open(INPUT, O_RDWR); }
static int wronly(void) { return try_open(INPUT, O_WRONLY); }
static int append(void) { return try_open(INPUT, O_WRONLY | O_APPEND); }
static int truncated(void) { return try_open(INPUT, O_RDONLY | O_TRUNC); }
static int through_root(void)
{
	char path[4096 + 32];
	char cwd[4096] = "";

	if (readlink("/proc/self/cwd", cwd, sizeof cwd - 1) < 0)
		return errno;
	snprintf(path, sizeof path, "/proc/self/root%s/" INPUT, strcmp(cwd, "/") ? cwd : "");
	return try_open(path, O_WRONLY);
}
static int reopened(void)
{
	char path[64];
	int fd = open(INPUT, O_RDONLY), err;

	if (fd < 0)
		return errno;
	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	err = try_open(path, O_RDWR);
	close(fd);
	return err;
}
static int cut(void)
{
	int fd = open(INPUT, O_RDWR);
	int err = fd < 0 ? errno : refused(ftruncate(fd, 0));

	close(fd);
	return err;
}
static int mapped(void)
{
	int fd = open(INPUT, O_RDWR);
	void *at;

	if (fd < 0)
		return errno;
	at = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (at == MAP_FAILED)
		return errno;
	*(volatile char *)at = 'x';
	return OPEN;
}

CHECKS({"open-read-write", rdwr}, {"open-write", wronly}, {"open-append", append}, {"open-truncate", truncated},
       {"open-through-proc-root", through_root}, {"reopen-through-proc-fd", reopened}, {"ftruncate", cut}, {"map-shared", mapped})
