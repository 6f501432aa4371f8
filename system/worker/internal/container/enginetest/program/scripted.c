/*
 * A core that does what its input says, for tests of everything around a core.
 * The first line of /in/input is a command and its argument; the rest is data.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

static char head[4096];
static ssize_t have;
static int in, out;

static void put(const char *text)
{
	if (write(out, text, strlen(text)) < 0)
		_exit(70);
}

/* copy streams all of the input after the first line into the result. */
static int copy(void)
{
	static char buf[1 << 16];
	char *nl = memchr(head, '\n', (size_t)have);
	ssize_t n = nl ? have - (nl + 1 - head) : 0;

	if (n > 0)
		memcpy(buf, nl + 1, (size_t)n);
	else
		n = read(in, buf, sizeof buf);
	for (; n > 0; n = read(in, buf, sizeof buf)) {
		for (ssize_t done = 0; done < n;) {
			ssize_t w = write(out, buf + done, (size_t)(n - done));
			if (w < 0)
				return errno == EFBIG ? 5 : 70;
			done += w;
		}
	}
	return n < 0 ? 70 : 0;
}

static int fill(void)
{
	static char buf[1 << 16];

	for (;;)
		if (write(out, buf, sizeof buf) < 0)
			return errno == EFBIG ? 5 : 70;
}

static void *spin(void *arg)
{
	for (;;)
		__asm__ volatile("");
	return arg;
}

static int memory(void)
{
	for (size_t step = 1 << 20;;) {
		char *p = mmap(NULL, step, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (p == MAP_FAILED)
			return 6;
		memset(p, 1, step);
	}
}

int main(void)
{
	in = open("/in/input", O_RDONLY);
	out = open("/out/result", O_WRONLY);
	if (in < 0 || out < 0)
		return 70;
	have = read(in, head, sizeof head - 1);
	if (have < 0)
		return 70;
	char verb[32] = "", arg[64] = "";
	sscanf(head, "%31s %63s", verb, arg);

	if (!strcmp(verb, "exit"))
		return put("half"), atoi(arg);
	if (!strcmp(verb, "nothing"))
		return 0;
	if (!strcmp(verb, "copy"))
		return copy();
	if (!strcmp(verb, "fill"))
		return fill();
	if (!strcmp(verb, "loop"))
		spin(NULL);
	if (!strcmp(verb, "sleep"))
		for (;;)
			sleep(1000);
	if (!strcmp(verb, "segv"))
		*(volatile char *)8 = 1;
	if (!strcmp(verb, "abort"))
		abort();
	if (!strcmp(verb, "memory"))
		return memory();
	if (!strcmp(verb, "flood")) {
		static char junk[1 << 16];
		for (size_t left = (size_t)atoi(arg) << 20; left > 0; left -= sizeof junk)
			if (write(1, junk, sizeof junk) < 0)
				return 70;
		return put("done"), 0;
	}
	if (!strcmp(verb, "socket"))
		return socket(AF_INET, SOCK_STREAM, 0), 0;
	if (!strcmp(verb, "fork"))
		return fork(), 0;
	if (!strcmp(verb, "wx"))
		return mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED, 0;
	if (!strcmp(verb, "chmod"))
		return chmod("/out/result", 04777), 0;
	if (!strcmp(verb, "threads")) {
		pthread_t t;
		if (pthread_create(&t, NULL, spin, NULL))
			return 70;
		return put("done"), 0; /* with a thread still running */
	}
	if (!strcmp(verb, "late")) { /* the main thread ends, another writes on */
		pthread_t t;
		if (pthread_create(&t, NULL, spin, NULL))
			return 70;
		put("half");
		pthread_exit(NULL);
	}
	return 2;
}
