/*
 * Other doors into the kernel than the 64-bit call: the 32-bit gate, the x32
 * numbers, numbers out of range, the old vsyscall page. One check an attempt: the
 * filter kills at the first.
 */
#include "probe.h"
#include <pthread.h>

static volatile long answer = -1;
static long int80(long number)
{
	long value;

	__asm__ volatile("int $0x80" : "=a"(value) : "a"(number), "b"(0), "c"(0), "d"(0) : "memory", "r8", "r9", "r10", "r11");
	return value;
}
static int refused_raw(long value)
{
	say("answer=%ld", value);
	return value < 0 ? (int)-value : OPEN;
}
static int gate_getpid(void) { return refused_raw(int80(20)); }
static int gate_time(void) { return refused_raw(int80(13)); }
static int gate_unknown(void) { return refused_raw(int80(9999)); }
static int x32_getpid(void) { return refused(syscall(0x40000000 | SYS_getpid)); }
static int x32_times(void) { return refused(syscall(0x40000000 | SYS_times, NULL)); }
static int x32_ptrace(void) { return refused(syscall(0x40000000 | 521, 0, 0, 0, 0)); }
static int negative(void) { return refused(syscall(-1)); }
static int high_half(void) { return refused(syscall((1L << 32) | SYS_getuid)); }
static void *in_thread(void *arg)
{
	(void)arg;
	answer = int80(20);
	return NULL;
}
static void *x32_in_thread(void *arg)
{
	(void)arg;
	long value = syscall(0x40000000 | SYS_getpid);

	answer = value < 0 ? -errno : value; /* -1 must go on meaning that none came */
	return NULL;
}
/* The filter may kill the thread alone: what counts is that no answer comes. */
static int thread(void *(*act)(void *))
{
	pthread_t t;

	if (pthread_create(&t, NULL, act, NULL))
		return errno;
	for (int i = 0; i < 100 && answer == -1; i++)
		pause_ms(2);
	say("answer=%ld", answer);
	return answer == -1 ? ESRCH : answer < 0 ? (int)-answer : OPEN;
}
static int gate_thread(void) { return thread(in_thread); }
static int x32_thread(void) { return thread(x32_in_thread); }
static int vsyscall_time(void)
{
	long (*old)(long *) = (long (*)(long *))0xffffffffff600400;
	return refused_raw(old(NULL));
}
static int vsyscall_read(void) { return *(volatile unsigned char *)0xffffffffff600000 ? OPEN : OPEN; }

CHECKS({"int80-getpid", gate_getpid}, {"int80-time", gate_time}, {"int80-unknown", gate_unknown}, {"x32-getpid", x32_getpid}, {"x32-times", x32_times},
       {"x32-ptrace", x32_ptrace}, {"number-negative", negative}, {"number-high-half", high_half},
       {"int80-thread", gate_thread}, {"x32-thread", x32_thread}, {"vsyscall-time", vsyscall_time}, {"vsyscall-read", vsyscall_read})
