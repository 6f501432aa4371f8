/*
 * What every probe shares: how it is told what to try, and how it says what came
 * of it.
 *
 * A probe is a static program with a table of checks. Each check tries one thing
 * that must not work and returns 0 if it worked, or the errno of the refusal. The
 * program reads in/input, whose first line is "PROGRAM [check ...] [key=value ...]"
 * (no check: all of them), and writes one line a check to out/result:
 *
 *     CHECK name open - detail          it worked
 *     CHECK name shut EPERM detail      it was refused
 *     CHECK name signal SIGSEGV detail  it crashed
 *     CHECK name note - detail          it measured something
 *
 * Both paths are relative: the same program is the core in its sandbox, where the
 * working folder is /, and the control outside, in a throw-away folder.
 */
#ifndef PROBE_H
#define PROBE_H
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define INPUT "in/input"
#define RESULT "out/result"

enum { OPEN = 0, NOTE = -1 };

struct check {
	const char *name;
	int (*act)(void);
};

static char order[4096];      /* the first line of the input */
static char report[1 << 18];  /* all lines so far */
static size_t reported;
static char detail[512];
static int result_fd = -1;   /* kept open: a check may take the name away */
static sigjmp_buf crashed;

/* say sets the detail of the check that runs. */
static __attribute__((unused, format(printf, 1, 2))) void say(const char *form, ...)
{
	va_list args;

	va_start(args, form);
	vsnprintf(detail, sizeof detail, form, args);
	va_end(args);
	for (char *c = detail; *c; c++)
		if (*c < ' ' || *c > '~')
			*c = ' ';
}

/* refused turns a system call's return value into a check's. */
static __attribute__((unused)) int refused(long value) { return value < 0 ? errno : OPEN; }

/* refused_fd does so for a call that gives a descriptor, and gives it back. */
static __attribute__((unused)) int refused_fd(long fd)
{
	if (fd < 0)
		return errno;
	close((int)fd);
	return OPEN;
}

/* try_open opens path and lets go of it. */
static __attribute__((unused)) int try_open(const char *path, int flags) { return refused_fd(open(path, flags, 0600)); }

/* readable tries to read one byte of path. */
static __attribute__((unused)) int readable(const char *path)
{
	char byte;
	int fd = open(path, O_RDONLY | O_NONBLOCK);
	int err = OPEN;

	if (fd < 0)
		return errno;
	ssize_t n = read(fd, &byte, 1);
	if (n < 0)
		err = errno;
	else if (n == 0)
		err = ENODATA;
	close(fd);
	return err;
}

/* writable tries to write text to path. */
static __attribute__((unused)) int writable(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY);
	int err = OPEN;

	if (fd < 0)
		return errno;
	if (write(fd, text, strlen(text)) < 0)
		err = errno;
	close(fd);
	return err;
}

/* slurp reads at most size - 1 bytes of path and ends them with a zero. */
static __attribute__((unused)) ssize_t slurp(const char *path, char *into, size_t size)
{
	int fd = open(path, O_RDONLY);
	size_t have = 0;

	if (fd < 0)
		return -1;
	while (have < size - 1) {
		ssize_t n = read(fd, into + have, size - 1 - have);
		if (n <= 0)
			break;
		have += (size_t)n;
	}
	close(fd);
	into[have] = 0;
	return (ssize_t)have;
}

/* parent is the number of the parent process, 0 where there is none to be seen. */
static __attribute__((unused)) int parent(void)
{
	char text[4096], *at;

	if (slurp("/proc/self/status", text, sizeof text) < 0 || !(at = strstr(text, "\nPPid:")))
		return -1;
	return atoi(at + 6);
}

static __attribute__((unused)) void pause_ms(long ms)
{
	struct timespec t = {ms / 1000, ms % 1000 * 1000000};

	nanosleep(&t, NULL);
}

/* param returns the number given as key=number, or the other one. */
static __attribute__((unused)) long param(const char *key, long otherwise)
{
	size_t n = strlen(key);

	for (const char *at = strchr(order, ' '); at; at = strchr(at + 1, ' '))
		if (!strncmp(at + 1, key, n) && at[1 + n] == '=')
			return strtol(at + 2 + n, NULL, 10);
	return otherwise;
}

/* flush puts the report, whole, into the result: a check may kill the program. */
static __attribute__((unused)) void flush_report(void)
{
	if (result_fd < 0)
		result_fd = open(RESULT, O_WRONLY);
	if (result_fd < 0)
		_exit(70);
	for (size_t done = 0; done < reported;) {
		ssize_t n = pwrite(result_fd, report + done, reported - done, (off_t)done);
		if (n <= 0)
			_exit(71);
		done += (size_t)n;
	}
	if (ftruncate(result_fd, (off_t)reported))
		_exit(72);
}

static __attribute__((unused, format(printf, 1, 2))) void line(const char *form, ...)
{
	va_list args;

	va_start(args, form);
	int n = vsnprintf(report + reported, sizeof report - reported, form, args);
	va_end(args);
	if (n > 0 && reported + (size_t)n < sizeof report)
		reported += (size_t)n;
}

static void on_crash(int number) { siglongjmp(crashed, number); }

static __attribute__((unused)) void run_check(const struct check *c)
{
	static const int deadly[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE};
	struct sigaction how = {.sa_handler = on_crash};
	int result, number;

	detail[0] = 0;
	for (size_t i = 0; i < sizeof deadly / sizeof *deadly; i++)
		sigaction(deadly[i], &how, NULL);
	signal(SIGXFSZ, SIG_IGN); /* the write's own error says it better */
	number = sigsetjmp(crashed, 1);
	if (number) {
		line("CHECK %s signal SIG%s %s\n", c->name, sigabbrev_np(number), detail);
		return;
	}
	result = c->act();
	if (result == NOTE)
		line("CHECK %s note - %s\n", c->name, detail);
	else if (result == OPEN)
		line("CHECK %s open - %s\n", c->name, detail);
	else
		line("CHECK %s shut %s %s\n", c->name, strerrorname_np(result) ? strerrorname_np(result) : "?", detail);
}

/* named reports whether the order names the check, or no check at all. */
static __attribute__((unused)) int named(const char *name)
{
	char words[sizeof order], *rest = NULL;
	int any = 0;

	strcpy(words, order);
	strtok_r(words, " ", &rest);
	for (char *w = strtok_r(NULL, " ", &rest); w; w = strtok_r(NULL, " ", &rest)) {
		if (strchr(w, '='))
			continue;
		any = 1;
		if (!strcmp(w, name))
			return 1;
	}
	return !any;
}

static __attribute__((unused)) int run_checks(const struct check *checks)
{
	if (slurp(INPUT, order, sizeof order) < 0)
		return 2;
	order[strcspn(order, "\n")] = 0;
	flush_report();
	for (const struct check *c = checks; c->name; c++)
		if (named(c->name)) {
			run_check(c);
			flush_report();
		}
	line("END\n");
	flush_report();
	return 0;
}

#define CHECKS(...)                                                  \
	static const struct check checks[] = {__VA_ARGS__, {NULL, NULL}}; \
	int main(void) { return run_checks(checks); }

/* CALL is a check that makes one raw system call. */
#define CALL(name, number, ...) \
	static int name(void) { return refused(syscall(number, ##__VA_ARGS__)); }
#define CALL_FD(name, number, ...) \
	static int name(void) { return refused_fd(syscall(number, ##__VA_ARGS__)); }
#endif
