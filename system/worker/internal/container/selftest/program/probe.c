/*
 * The self-test's probe: it runs in the core's own spec, tries one group of
 * walls, and writes what it met, one "name value" a line. /in/input names the
 * group. Values are errno numbers (0 = it worked) unless the name says otherwise.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#ifndef AF_VSOCK
#define AF_VSOCK 40
#endif

static int out;

static void say(const char *name, long value)
{
	char line[128];
	int n = snprintf(line, sizeof line, "%s %ld\n", name, value);

	if (write(out, line, (size_t)n) != n)
		_exit(70);
}

static long err(long result) { return result < 0 ? errno : 0; }

/* show copies a file of /proc into the result, each line after a name. */
static void show(const char *name, const char *path)
{
	static char buf[16384];
	int fd = open(path, O_RDONLY);
	ssize_t n = fd < 0 ? -1 : read(fd, buf, sizeof buf - 1);

	if (n < 0) {
		say(name, errno);
		return;
	}
	buf[n] = 0;
	for (char *line = strtok(buf, "\n"); line; line = strtok(NULL, "\n"))
		dprintf(out, "%s: %s\n", name, line);
	close(fd);
}

static void try_socket(const char *name, int family, int type)
{
	say(name, err(socket(family, type, 0)));
}

/* read_only tells whether the mount of path refuses writing, whoever asks. */
static void read_only(const char *name, const char *path)
{
	struct statfs fs;
	int fd = open(path, O_RDONLY);

	say(name, fd >= 0 && fstatfs(fd, &fs) == 0 && (fs.f_flags & 1 /* ST_RDONLY */));
}

/* set_login_id does what every thread may do once while the engine has none: it
   moves a counter that all jobs could read. */
static void set_login_id(void)
{
	int fd = open("/proc/self/loginuid", O_WRONLY);

	say("login_id", err(fd < 0 ? -1 : write(fd, "0", 1)));
}

static int walls(long bound)
{
	long page = 4096;
	struct rlimit raise;

	show("status", "/proc/self/status");
	show("uid_map", "/proc/self/uid_map");

	try_socket("socket_inet", AF_INET, SOCK_STREAM);
	try_socket("socket_inet6", AF_INET6, SOCK_STREAM);
	try_socket("socket_unix", AF_UNIX, SOCK_STREAM);
	try_socket("socket_netlink", AF_NETLINK, SOCK_RAW);
	try_socket("socket_packet", AF_PACKET, SOCK_RAW);
	try_socket("socket_vsock", AF_VSOCK, SOCK_STREAM);
	say("unshare_user", err(unshare(CLONE_NEWUSER)));
	say("unshare_mount", err(unshare(CLONE_NEWNS)));
	say("fork", err(syscall(SYS_fork)));
	say("clone_process", err(syscall(SYS_clone, 17 /* SIGCHLD */, 0, 0, 0, 0)));
	say("memfd", err(syscall(SYS_memfd_create, "x", 0)));
	say("write_exec", err((long)mmap(NULL, page, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == -1 ? -1 : 0));

	say("input_for_writing", err(open("/in/input", O_WRONLY)));
	say("create_in_out", err(open("/out/x", O_CREAT | O_WRONLY, 0600)));
	say("create_in_root", err(open("/x", O_CREAT | O_WRONLY, 0600)));
	read_only("root_read_only", "/");
	read_only("input_read_only", "/in/input");
	say("proc_counters", err(open("/proc/stat", O_RDONLY)));
	set_login_id();

	raise.rlim_cur = raise.rlim_max = RLIM_INFINITY;
	say("raise_limit", err(setrlimit(RLIMIT_FSIZE, &raise)));
	/* Within the bound, so that only the filter can refuse: ext4 would give blocks
	   beyond it too, and tmpfs would not. */
	say("preallocate", err(fallocate(out, FALLOC_FL_KEEP_SIZE, 0, page)));
	say("last_byte", err(pwrite(out, "x", 1, bound - 1)));
	say("beyond_last_byte", err(pwrite(out, "x", 1, bound)));
	return 0;
}

/* memory touches as many bytes as its argument says: 6 = it could. */
static int memory(long bytes)
{
	const long step = 1 << 20;

	for (long had = 0; had < bytes; had += step) {
		char *p = mmap(NULL, step, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (p == MAP_FAILED)
			return 3;
		memset(p, 1, step);
	}
	return 6;
}

/* address_space reserves without touching: how many MiB were given. */
static int address_space(void)
{
	const long step = 16 << 20;
	long had = 0;

	while (had < 1L << 40 && mmap(NULL, step, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0) != MAP_FAILED)
		had += step;
	say("address_space_mib", had >> 20);
	return 0;
}

/* tasks forks, where a test profile lets it, until it is refused. */
static int tasks(long most)
{
	long made = 0;

	while (made < most) {
		long pid = syscall(SYS_clone, 17, 0, 0, 0, 0);
		if (pid == 0)
			for (;;)
				sleep(1000);
		if (pid < 0)
			break;
		made++;
	}
	say("tasks_made", made);
	return 0;
}

static volatile int stop;

static void *spin(void *arg)
{
	while (!stop)
		;
	return arg;
}

static long milliseconds(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* cpu spins on two threads for a second and tells the milliseconds it was given.
 * Where that is more than percent of the time it goes on, for eight seconds at most:
 * a quota takes back later what a late tick gave too much, and a busy or emulated
 * host has late ticks. Without a quota the share stays as it is. */
static int cpu(long percent)
{
	pthread_t t[2];
	struct timespec second = { 1, 0 };
	long wall, used;

	for (int i = 0; i < 2; i++)
		if (pthread_create(&t[i], NULL, spin, NULL))
			return 70;
	long start = milliseconds(CLOCK_MONOTONIC);
	do {
		nanosleep(&second, NULL);
		wall = milliseconds(CLOCK_MONOTONIC) - start;
		used = milliseconds(CLOCK_PROCESS_CPUTIME_ID);
	} while (used * 100 > percent * wall && wall < 8000);
	stop = 1;
	say("wall_ms", wall);
	say("cpu_ms", used);
	return 0;
}

int main(void)
{
	char line[64] = "", name[32] = "";
	long arg = 0;
	int in = open("/in/input", O_RDONLY);

	out = open("/out/result", O_WRONLY);
	if (in < 0 || out < 0 || read(in, line, sizeof line - 1) < 0)
		return 70;
	sscanf(line, "%31s %ld", name, &arg);
	if (!strcmp(name, "walls"))
		return walls(arg);
	if (!strcmp(name, "memory"))
		return memory(arg);
	if (!strcmp(name, "address_space"))
		return address_space();
	if (!strcmp(name, "tasks"))
		return tasks(arg);
	if (!strcmp(name, "cpu"))
		return cpu(arg);
	if (!strcmp(name, "forbidden"))
		return socket(AF_INET, SOCK_STREAM, 0), 0;
	if (!strcmp(name, "endless"))
		spin(NULL);
	return 2;
}
