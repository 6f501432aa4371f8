/*
 * The result cannot grow past its bound (limit=BYTES), by no way of growing. The
 * kernel holds it to one byte more than is taken: that byte tells a cut result.
 */
#include "probe.h"

static off_t limit(void) { return param("limit", (1 << 20) + 1); }
static int result(void) { return open(RESULT, O_RDWR); }
static int finish(int fd, int err)
{
	struct stat st = {0};

	fstat(fd, &st);
	say("size=%lld blocks=%lld", (long long)st.st_size, (long long)st.st_blocks);
	if (ftruncate(fd, 0))
		say("cannot cut back");
	close(fd);
	return err;
}
static int fill(void)
{
	static char chunk[1 << 16];
	int fd = result();
	off_t done = 0;

	while (done <= limit()) {
		ssize_t n = pwrite(fd, chunk, sizeof chunk, done);
		if (n < 0)
			return finish(fd, errno);
		done += n;
	}
	return finish(fd, OPEN);
}
static int at_limit(void)
{
	int fd = result();
	return finish(fd, refused(pwrite(fd, "x", 1, limit())));
}
static int beyond(void)
{
	int fd = result();
	return finish(fd, refused(pwrite(fd, "x", 1, limit() + (1 << 30))));
}
static int seek_write(void)
{
	int fd = result();

	if (lseek(fd, limit() + 4096, SEEK_SET) < 0)
		return finish(fd, errno);
	return finish(fd, refused(write(fd, "x", 1)));
}
static int grown(void)
{
	int fd = result();
	return finish(fd, refused(ftruncate(fd, limit() + 1)));
}
static int appended(void)
{
	int fd = open(RESULT, O_WRONLY | O_APPEND), err;

	if (ftruncate(fd, limit()))
		return finish(fd, errno);
	err = refused(write(fd, "x", 1));
	return finish(fd, err);
}
static int many_lists(void)
{
	static char chunk[1 << 16];
	struct { void *at; size_t size; } list[64];
	int fd = result();

	for (int i = 0; i < 64; i++)
		list[i].at = chunk, list[i].size = sizeof chunk;
	long n = syscall(SYS_writev, fd, list, 64);
	if (n > limit())
		return finish(fd, OPEN);
	n = syscall(SYS_writev, fd, list, 64);
	return finish(fd, refused(n));
}
CALL(do_truncate, SYS_truncate, RESULT, limit() + 1)
CALL(do_fallocate, SYS_fallocate, result(), 0, 0, limit() + 4096)
CALL(do_fallocate_keep, SYS_fallocate, result(), 1, 0, 64L << 20)
CALL(do_fallocate_far, SYS_fallocate, result(), 1, 1L << 30, 1 << 20)
CALL(do_fallocate_punch, SYS_fallocate, result(), 3, 0, 4096)
static off_t zero;
CALL(do_sendfile, SYS_sendfile, result(), open(INPUT, O_RDONLY), &zero, 10)
CALL(do_copy_range, SYS_copy_file_range, open(INPUT, O_RDONLY), NULL, result(), NULL, 1, 0)
CALL(do_splice, SYS_splice, open(INPUT, O_RDONLY), NULL, -1, NULL, 1, 0)
CALL(do_tee, SYS_tee, -1, -1, 1, 0)
CALL(do_vmsplice, SYS_vmsplice, -1, NULL, 1, 0)
CALL(do_pwritev, SYS_pwritev, result(), NULL, 0, 0)
CALL(do_pwritev2, SYS_pwritev2, result(), NULL, 0, 0, 0, 0)
CALL(do_preadv2, SYS_preadv2, result(), NULL, 0, 0, 0, 0)
CALL(do_sync_range, SYS_sync_file_range, result(), 0, 0, 0)
CALL(do_fsync, SYS_fsync, result())
CALL(do_sync, SYS_sync)
CALL(do_syncfs, SYS_syncfs, result())

CHECKS({"fill", fill}, {"write-at-limit", at_limit}, {"write-far-beyond", beyond}, {"seek-and-write", seek_write},
       {"ftruncate-beyond", grown}, {"append-at-limit", appended}, {"writev-beyond", many_lists},
       {"truncate", do_truncate}, {"fallocate", do_fallocate}, {"fallocate-keep-size", do_fallocate_keep},
       {"fallocate-far", do_fallocate_far}, {"fallocate-punch", do_fallocate_punch}, {"sendfile", do_sendfile},
       {"copy-file-range", do_copy_range}, {"splice", do_splice}, {"tee", do_tee}, {"vmsplice", do_vmsplice},
       {"pwritev", do_pwritev}, {"pwritev2", do_pwritev2}, {"preadv2-nowait", do_preadv2}, {"sync-file-range", do_sync_range},
       {"fsync", do_fsync}, {"sync", do_sync}, {"syncfs", do_syncfs})
