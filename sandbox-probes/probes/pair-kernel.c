/* The channels of the pair that go through the kernel's own counters and tables. */
#include "probe.h"
#include "pair-channel.h"
#include <pthread.h>
#include <sys/sysinfo.h>

static long failed(void) { return -errno; }

/* number_after reads the number that follows word in the file. */
static long number_after(const char *path, const char *word)
{
	static char text[1 << 18];
	char *at;

	if (slurp(path, text, sizeof text) < 0)
		return failed();
	at = strstr(text, word);
	return at ? strtol(at + strlen(word), NULL, 10) : -ENODATA;
}
/* since turns a counter into what it grew by since the last look. */
static long since(long *last, long now)
{
	long grown = now - *last;

	if (now < 0)
		return now;
	*last = now;
	return grown;
}

static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
static pthread_t waiting[16];
static int waiters;
static void *wait_at_gate(void *arg)
{
	pthread_mutex_lock(&gate);
	pthread_mutex_unlock(&gate);
	return arg;
}
/* threads: sixteen of them, or none */
static long threads_send(int bit)
{
	if (bit && !waiters) {
		pthread_mutex_lock(&gate);
		while (waiters < 16 && !pthread_create(&waiting[waiters], NULL, wait_at_gate, NULL))
			waiters++;
	} else if (!bit && waiters) {
		pthread_mutex_unlock(&gate);
		while (waiters)
			pthread_join(waiting[--waiters], NULL);
	}
	return 0;
}
static long loadavg_receive(void) { return number_after("/proc/loadavg", "/"); }
static long sysinfo_procs(void)
{
	struct sysinfo s;
	return syscall(SYS_sysinfo, &s) ? failed() : s.procs;
}
static char *held;
static long memory_send(int bit)
{
	/* Unconfined, as much as shows beside all else that a host does. */
	size_t size = getenv("PROBE_ROLE") ? 1024u << 20 : 24u << 20;

	if (!held)
		held = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (held == MAP_FAILED)
		return failed();
	for (size_t at = 0; bit && at < size; at += 4096)
		held[at] = 1;
	if (!bit)
		madvise(held, size, MADV_DONTNEED);
	return 0;
}
static long sysinfo_free(void)
{
	struct sysinfo s;
	return syscall(SYS_sysinfo, &s) ? failed() : (long)(s.freeram >> 20);
}
static long meminfo_free(void) { return number_after("/proc/meminfo", "MemFree:"); }
static long faults_send(int bit)
{
	static char *pages;

	if (!pages)
		pages = mmap(NULL, 24 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (pages == MAP_FAILED)
		return failed();
	for (int i = 0; bit && i < 4; i++) {
		for (size_t at = 0; at < 24 << 20; at += 4096)
			pages[at] = 1;
		madvise(pages, 24 << 20, MADV_DONTNEED);
	}
	return 0;
}
static long vmstat_receive(void)
{
	static long last;
	return since(&last, number_after("/proc/vmstat", "pgfault "));
}
static long switches_send(int bit)
{
	for (int i = 0; bit && i < 20000; i++)
		syscall(SYS_sched_yield);
	for (int i = 0; bit && i < 300; i++)
		nanosleep(&(struct timespec){0, 1000}, NULL);
	return 0;
}
static long stat_receive(void)
{
	static long last;
	return since(&last, number_after("/proc/stat", "ctxt "));
}
static long files_send(int bit)
{
	static int open_fds[40], n;

	while (bit && n < 40)
		open_fds[n++] = open(INPUT, O_RDONLY);
	while (!bit && n)
		close(open_fds[--n]);
	return 0;
}
static long files_receive(void) { return number_after("/proc/sys/fs/file-nr", ""); }

/* futex: who waits on a page of the program file can be counted by who wakes it */
static int *common_page(void)
{
	static int *at;

	if (!at) {
		int fd = open("core", O_RDONLY);
		at = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
		close(fd);
	}
	return at;
}
static pthread_t sleeper;
static int asleep;
static void *sleep_on_page(void *arg)
{
	syscall(SYS_futex, common_page(), 0 /* FUTEX_WAIT, shared */, *common_page(), &(struct timespec){5, 0}, NULL, 0);
	return arg;
}
static long futex_send(int bit)
{
	if (asleep) {
		syscall(SYS_futex, common_page(), 1, 100, NULL, NULL, 0);
		pthread_join(sleeper, NULL);
		asleep = 0;
	}
	if (bit) {
		if (pthread_create(&sleeper, NULL, sleep_on_page, NULL))
			return failed();
		asleep = 1;
		pause_ms(5);
	}
	return 0;
}
static long futex_receive(void)
{
	long woken = syscall(SYS_futex, common_page(), 1 /* FUTEX_WAKE */, 100, NULL, NULL, 0);
	return woken < 0 ? failed() : woken;
}
/* inode numbers of pipes and of files in /proc come from one counter of the kernel */
static long pipes_send(int bit)
{
	int ends[2];

	for (int i = 0; bit && i < 6000; i++) {
		if (pipe2(ends, 0))
			return failed();
		close(ends[0]);
		close(ends[1]);
	}
	return 0;
}
static long pipe_inode(void)
{
	static long last;
	struct stat st = {0};
	int ends[2];

	for (int i = 0; i < 1100; i++) {
		if (pipe2(ends, 0))
			return failed();
		if (fstat(ends[0], &st))
			return failed();
		close(ends[0]);
		close(ends[1]);
	}
	return since(&last, (long)st.st_ino);
}
static long proc_files(int count)
{
	struct stat st = {0};
	char path[64];

	for (int i = 0; i < count; i++) {
		int fd = open("/dev/null", O_RDONLY);
		snprintf(path, sizeof path, "/proc/self/fdinfo/%d", fd);
		if (fd < 0 || stat(path, &st))
			return failed();
		close(fd);
		struct stat gone;
		if (!stat(path, &gone)) /* this look makes the kernel forget the entry */
			return -EEXIST;
	}
	return (long)st.st_ino;
}
static long proc_inodes_send(int bit) { return bit ? (proc_files(6000) < 0 ? failed() : 0) : 0; }
static long proc_inode(void)
{
	static long last;
	return since(&last, proc_files(1100));
}
/* terminals: numbers of a pty master are given out by instance */
static long ptys_send(int bit)
{
	static int open_fds[8], n;

	while (bit && n < 8) {
		int fd = open("/dev/ptmx", O_RDWR | O_NOCTTY);
		if (fd < 0)
			return failed();
		open_fds[n++] = fd;
	}
	while (!bit && n)
		close(open_fds[--n]);
	return 0;
}
static long pty_number(void)
{
	char path[64];
	int fd = open("/dev/ptmx", O_RDWR | O_NOCTTY);
	long number;

	if (fd < 0)
		return failed();
	snprintf(path, sizeof path, "/proc/self/fdinfo/%d", fd);
	number = number_after(path, "tty-index:");
	close(fd);
	return number;
}
static long tcp_alloc(void) { return number_after("/proc/self/net/sockstat", "alloc "); }
static long sockets_send(int bit)
{
	static int fds[30], n;

	while (bit && n < 30) {
		int fd = (int)syscall(SYS_socket, 2, 1, 0);
		if (fd < 0)
			return failed();
		fds[n++] = fd;
	}
	while (!bit && n)
		close(fds[--n]);
	return 0;
}
/* audit sessions: each thread may start one, and their numbers come from one counter */
static void *start_session(void *arg)
{
	int fd = open("/proc/thread-self/loginuid", O_WRONLY);

	*(long *)arg = fd < 0 || write(fd, "0", 1) < 0 ? failed() : number_after("/proc/thread-self/sessionid", "");
	close(fd);
	return NULL;
}
static long sessions(int count)
{
	long value = 0;
	pthread_t t;

	for (int i = 0; i < count; i++) {
		if (pthread_create(&t, NULL, start_session, &value))
			return failed();
		pthread_join(t, NULL);
		if (value < 0)
			return value;
	}
	return value;
}
static long sessions_send(int bit) { return bit ? sessions(20) : 0; }
static long sessions_receive(void)
{
	static long last;
	return since(&last, sessions(1));
}
/* /proc shows in its own link count how many processes there are, everybody's counted */
static long processes_send(int bit)
{
	static long children[16];
	static int n;

	while (bit && n < 16) {
		long pid = syscall(SYS_fork);
		if (pid == 0)
			for (;;)
				pause_ms(1000);
		if (pid < 0)
			return failed();
		children[n++] = pid;
	}
	while (!bit && n) {
		syscall(SYS_kill, children[--n], SIGKILL);
		syscall(SYS_wait4, children[n], NULL, 0, NULL);
	}
	return 0;
}
static long processes_receive(void)
{
	struct stat st;
	return stat("/proc", &st) ? failed() : (long)st.st_nlink;
}
static long name_send(int bit) { return syscall(SYS_sethostname, bit ? "one" : "zero", bit ? 3 : 4) ? failed() : 0; }
static long name_receive(void)
{
	char text[65] = "";

	if (slurp("/proc/sys/kernel/hostname", text, sizeof text) < 0)
		return failed();
	return text[0] == 'o';
}
static long key_send(int bit)
{
	long key = syscall(SYS_add_key, "user", "glovebox-pair", bit ? "1" : "0", 1, -4 /* the user's keyring */);
	return key < 0 ? failed() : 0;
}
static long key_receive(void)
{
	char byte = 0;
	long key = syscall(SYS_request_key, "user", "glovebox-pair", NULL, -4);

	if (key < 0 || syscall(SYS_keyctl, 11 /* READ */, key, &byte, 1) < 0)
		return failed();
	return byte;
}
/* processor time: the one channel that is accepted in writing */
static volatile int spinning;
static pthread_t spinner[2];
static void *spin(void *arg)
{
	while (spinning)
		__asm__ volatile("");
	return arg;
}
static long load_send(int bit)
{
	static int running;

	if (bit && !running) {
		spinning = running = 1;
		for (int i = 0; i < 2; i++)
			pthread_create(&spinner[i], NULL, spin, NULL);
	} else if (!bit && running) {
		spinning = running = 0;
		for (int i = 0; i < 2; i++)
			pthread_join(spinner[i], NULL);
	}
	return 0;
}
static long load_receive(void)
{
	struct timespec from, now;
	long turns = 0;

	clock_gettime(CLOCK_MONOTONIC, &from);
	do {
		for (volatile int i = 0; i < 1000; i++)
			;
		turns++;
		clock_gettime(CLOCK_MONOTONIC, &now);
	} while ((now.tv_sec - from.tv_sec) * 1000 + (now.tv_nsec - from.tv_nsec) / 1000000 < 60);
	return turns;
}

const struct channel kernel_channels[] = {
	{"thread-count-loadavg", threads_send, loadavg_receive},
	{"thread-count-sysinfo", threads_send, sysinfo_procs},
	{"free-memory-sysinfo", memory_send, sysinfo_free},
	{"free-memory-meminfo", memory_send, meminfo_free},
	{"page-faults", faults_send, vmstat_receive},
	{"context-switches", switches_send, stat_receive},
	{"open-files", files_send, files_receive},
	{"futex-on-program", futex_send, futex_receive},
	{"pipe-inode-numbers", pipes_send, pipe_inode},
	{"proc-inode-numbers", proc_inodes_send, proc_inode},
	{"terminal-numbers", ptys_send, pty_number},
	{"tcp-socket-count", sockets_send, tcp_alloc},
	{"audit-sessions", sessions_send, sessions_receive},
	{"process-count", processes_send, processes_receive},
	{"host-name", name_send, name_receive},
	{"user-keyring", key_send, key_receive},
	{"processor-load", load_send, load_receive},
	{NULL, NULL, NULL},
};
