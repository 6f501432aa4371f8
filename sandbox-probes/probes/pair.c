/*
 * One of two jobs that try to pass each other a bit. The runner appends orders to
 * the input while the program runs, "N channel send BIT", "N channel receive" and
 * "N - end", and each is answered by a line "N VALUE" in the result. Outside, as
 * the control, both run in one folder; PROBE_ROLE then tells their order files
 * apart, and everything else is shared.
 */
#include "probe.h"
#include "pair-channel.h"
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/vfs.h>

#define FAR (256 << 10) /* in the result, beyond the answers */

static long failed(void) { return -errno; }
static int shared_file(void)
{
	static int fd = -1;
	if (fd < 0)
		fd = open(RESULT, O_RDWR);
	return fd;
}
static long content_send(int bit)
{
	char byte = bit ? 'x' : 0;
	return pwrite(shared_file(), &byte, 1, FAR) < 0 ? failed() : 0;
}
static long content_receive(void)
{
	char byte = 0;
	return pread(shared_file(), &byte, 1, FAR) < 0 ? failed() : byte;
}
static long size_send(int bit) { return ftruncate(shared_file(), FAR + 4096 + bit) ? failed() : 0; }
static long size_receive(void)
{
	struct stat st;
	return fstat(shared_file(), &st) ? failed() : st.st_size;
}
static long time_send(int bit) { return bit ? content_send(1) : 0; }
static long time_receive(void)
{
	static struct timespec last;
	struct stat st;
	long changed;

	if (fstat(shared_file(), &st))
		return failed();
	changed = st.st_mtim.tv_nsec != last.tv_nsec || st.st_mtim.tv_sec != last.tv_sec;
	last = st.st_mtim;
	return changed;
}
static long blocks_send(int bit)
{
	static char chunk[1 << 16];
	/* Unconfined, as many as show beside all else that is written to a disk. */
	int chunks = getenv("PROBE_ROLE") ? 1024 : 8;

	if (ftruncate(shared_file(), FAR))
		return failed();
	for (int i = 0; bit && i < chunks; i++)
		if (pwrite(shared_file(), chunk, sizeof chunk, FAR + i * (long)sizeof chunk) < 0)
			return failed();
	return 0;
}
static long free_blocks(const char *path)
{
	struct statfs st;
	int fd = open(path, O_RDONLY);
	long err;

	if (fd < 0)
		return failed();
	err = fstatfs(fd, &st) ? failed() : (long)st.f_bfree;
	close(fd);
	return err;
}
static long blocks_receive(void) { return free_blocks(RESULT); }
/* The device nodes lie on the host's /dev, where root can also put a file. */
static long dev_blocks_send(int bit)
{
	static char chunk[1 << 16];
	long err = 0;

	if (!bit)
		return syscall(SYS_unlink, "/dev/glovebox-pair") && errno != ENOENT ? failed() : 0;
	int fd = open("/dev/glovebox-pair", O_CREAT | O_WRONLY, 0600);
	if (fd < 0)
		return failed();
	for (int i = 0; i < 16; i++)
		if (write(fd, chunk, sizeof chunk) < 0)
			err = failed();
	close(fd);
	return err;
}
static long root_blocks_receive(void) { return free_blocks("."); }
static long dev_blocks_receive(void) { return free_blocks("/dev/null"); }
static long flock_send(int bit)
{
	static int fd = -1;
	if (fd < 0)
		fd = open("core", O_RDONLY);
	return syscall(SYS_flock, fd, bit ? LOCK_EX | LOCK_NB : LOCK_UN) ? failed() : 0;
}
static long flock_receive(void)
{
	int fd = open("core", O_RDONLY);
	long err = syscall(SYS_flock, fd, LOCK_EX | LOCK_NB) ? failed() : 0;

	close(fd);
	return err;
}
static long record_send(int bit)
{
	struct flock lock = {.l_type = (short)(bit ? F_WRLCK : F_UNLCK), .l_start = FAR, .l_len = 1};
	return syscall(SYS_fcntl, shared_file(), F_SETLK, &lock) ? failed() : 0;
}
static long record_receive(void)
{
	struct flock lock = {.l_type = F_WRLCK, .l_start = FAR, .l_len = 1};
	return syscall(SYS_fcntl, shared_file(), F_GETLK, &lock) ? failed() : lock.l_type != F_UNLCK;
}
static long abstract_send(int bit)
{
	static int fd = -1;
	struct sockaddr_un a = {.sun_family = AF_UNIX, .sun_path = "\0glovebox-pair"};

	if (fd >= 0)
		close(fd);
	fd = -1;
	if (!bit)
		return 0;
	fd = (int)syscall(SYS_socket, AF_UNIX, SOCK_STREAM, 0);
	return fd < 0 || syscall(SYS_bind, fd, &a, sizeof(sa_family_t) + 14) ? failed() : 0;
}
static long abstract_receive(void)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX, .sun_path = "\0glovebox-pair"};
	int fd = (int)syscall(SYS_socket, AF_UNIX, SOCK_STREAM, 0);
	long err;

	if (fd < 0)
		return failed();
	err = syscall(SYS_bind, fd, &a, sizeof(sa_family_t) + 14) ? failed() : 0;
	close(fd);
	return err;
}
static long memory_file_send(int bit)
{
	if (!bit)
		return syscall(SYS_unlink, "/dev/shm/glovebox-pair") && errno != ENOENT ? failed() : 0;
	int fd = open("/dev/shm/glovebox-pair", O_CREAT | O_RDWR, 0600);
	if (fd < 0)
		return failed();
	close(fd);
	return 0;
}
static long memory_file_receive(void)
{
	struct stat st;
	return stat("/dev/shm/glovebox-pair", &st) ? failed() : 1;
}
static long segment_send(int bit)
{
	long id = syscall(SYS_shmget, 0x676c6f76, 4096, bit ? 01600 : 0600);

	if (id < 0)
		return errno == ENOENT && !bit ? 0 : failed();
	return !bit && syscall(SYS_shmctl, id, 0, NULL) ? failed() : 0;
}
static long segment_receive(void)
{
	long id = syscall(SYS_shmget, 0x676c6f76, 4096, 0600);
	return id < 0 ? failed() : 1;
}
static long queue_send(int bit)
{
	if (!bit)
		return syscall(SYS_mq_unlink, "glovebox-pair") && errno != ENOENT ? failed() : 0;
	long fd = syscall(SYS_mq_open, "glovebox-pair", O_CREAT | O_RDWR, 0600, NULL);
	if (fd < 0)
		return failed();
	close((int)fd);
	return 0;
}
static long queue_receive(void)
{
	long fd = syscall(SYS_mq_open, "glovebox-pair", O_RDWR, 0, NULL);
	if (fd < 0)
		return failed();
	close((int)fd);
	return 1;
}

static const struct channel own_channels[] = {
	{"file-content", content_send, content_receive},
	{"file-size", size_send, size_receive},
	{"file-times", time_send, time_receive},
	{"free-blocks", blocks_send, blocks_receive},
	{"free-blocks-root", blocks_send, root_blocks_receive},
	{"free-blocks-dev", dev_blocks_send, dev_blocks_receive},
	{"file-lock", flock_send, flock_receive},
	{"record-lock", record_send, record_receive},
	{"abstract-socket", abstract_send, abstract_receive},
	{"memory-file", memory_file_send, memory_file_receive},
	{"shared-segment", segment_send, segment_receive},
	{"message-queue", queue_send, queue_receive},
	{NULL, NULL, NULL},
};

static const struct channel *find(const char *name)
{
	const struct channel *const tables[] = {own_channels, kernel_channels};

	for (int t = 0; t < 2; t++)
		for (const struct channel *c = tables[t]; c->name; c++)
			if (!strcmp(c->name, name))
				return c;
	return NULL;
}

int main(void)
{
	const char *role = getenv("PROBE_ROLE");
	char orders[64] = INPUT, answers[64] = RESULT, text[128];
	off_t at = 0, said = 0;
	int in, out;

	if (role) {
		snprintf(orders, sizeof orders, "in/orders-%s", role);
		snprintf(answers, sizeof answers, "out/answers-%s", role);
	}
	in = open(orders, O_RDONLY);
	out = open(answers, O_WRONLY);
	if (in < 0 || out < 0)
		return 2;
	for (int first = 1;; first = 0) {
		char name[64], verb[16], *end = NULL;
		const struct channel *c;
		long number, bit = 0, value;
		int n;

		for (;;) {
			ssize_t got = pread(in, text, sizeof text - 1, at);
			text[got > 0 ? got : 0] = 0;
			if ((end = strchr(text, '\n')))
				break;
			pause_ms(1);
		}
		*end = 0;
		at += end + 1 - text;
		if (first && sscanf(text, "%ld", &number) != 1)
			continue; /* the line that chose this program */
		if (sscanf(text, "%ld %63s %15s %ld", &number, name, verb, &bit) < 3)
			return 3;
		if (!strcmp(verb, "end"))
			return 0;
		c = find(name);
		value = !c ? -ENOSYS : !strcmp(verb, "send") ? c->send((int)bit) : c->receive();
		n = snprintf(text, sizeof text, "%ld %ld\n", number, value);
		if (pwrite(out, text, (size_t)n, said) != n)
			return 4;
		said += n;
	}
}
