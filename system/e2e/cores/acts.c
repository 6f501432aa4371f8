// A core of many parts. Input that begins with the line "#!act NAME [NUMBER]" makes
// it play that part, each a way in which a core can go wrong; every other input is
// copied. One image then serves all tests of bad cores.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static int in, out;
static off_t body;  // where the input goes on after its first line

static void wait_ms(long ms) {
  struct timespec t = {ms / 1000, ms % 1000 * 1000000};
  nanosleep(&t, 0);
}

// copy writes the input from its body on; 0, 5 beyond a bound, 70 otherwise.
static int copy(void) {
  static char buffer[65536];
  ssize_t n;
  for (off_t at = body; (n = pread(in, buffer, sizeof buffer, at)) > 0; at += n)
    for (ssize_t done = 0; done < n;) {
      ssize_t w = write(out, buffer + done, (size_t)(n - done));
      if (w <= 0) return errno == EFBIG || errno == ENOSPC ? 5 : 70;
      done += w;
    }
  return n < 0 ? 70 : 0;
}

static void *eat(void *unused) {
  for (;;) {
    char *p = mmap(0, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) return unused;
    memset(p, 1, 1 << 20);
  }
}

static void *spin(void *unused) {
  for (volatile int i = 0;; i++) (void)i;
  return unused;
}

static void *finish_later(void *unused) {
  wait_ms(300);
  _exit(copy());
  return unused;
}

static void *last_breath(void *unused) {
  wait_ms(20);
  return unused;
}

static int threads(long wanted) {
  pthread_t id;
  long made = 0;
  while (made < wanted && pthread_create(&id, 0, last_breath, 0) == 0) made++;
  return made < wanted ? copy() : 70;  // the bound must be met
}

// reserve takes address space and touches none of it.
static int reserve(void) {
  const long step = 64L << 20;
  for (long had = 0; had < 1L << 40; had += step)
    if (mmap(0, step, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0) == MAP_FAILED)
      return 6;
  return 70;  // the bound must be met
}

static int descriptors(void) {
  for (int had = 0; had < 10000; had++)
    if (open("/in/input", O_RDONLY) < 0) return errno == EMFILE ? copy() : 70;
  return 70;  // the bound must be met
}

// spin_everywhere uses all the processor time that all threads can have.
static int spin_everywhere(void) {
  pthread_t id;
  for (int i = 0; i < 8; i++) (void)pthread_create(&id, 0, spin, 0);
  return spin(0), 0;
}

static int print(long bytes) {
  static char line[1 << 20];
  memset(line, 'x', sizeof line);
  for (long done = 0; done < bytes; done += (long)sizeof line)
    if (write(1, line, sizeof line) < 0 && write(2, line, sizeof line) < 0) break;
  return copy();
}

// past writes bytes zeros, and looks at errors or not.
static int past(long bytes, int careless) {
  static char block[65536];
  while (bytes > 0) {
    size_t n = bytes < (long)sizeof block ? (size_t)bytes : sizeof block;
    ssize_t w = write(out, block, n);
    if (w < 0 && !careless) return errno == EFBIG ? 5 : 70;
    bytes -= w < 0 || careless ? (long)n : w;
  }
  return 0;
}

// call tries what the sandbox must not allow.
static int call(const char *name) {
  struct timespec times[2] = {{1, 0}, {1, 0}};
  if (!strcmp(name, "fork")) return syscall(SYS_fork) == 0 ? (eat(0), 0) : copy();
  if (!strcmp(name, "chmod")) return chmod("/out/result", 04777), copy();
  if (!strcmp(name, "fchmod")) return fchmod(out, 04777), copy();
  if (!strcmp(name, "chown")) return fchown(out, 0, 0), copy();
  if (!strcmp(name, "times")) return futimens(out, times), copy();
  if (!strcmp(name, "attribute")) return (void)syscall(SYS_fsetxattr, out, "user.x", "y", 1, 0), copy();
  if (!strcmp(name, "unlink")) return unlink("/out/result"), copy();
  if (!strcmp(name, "rename")) return rename("/out/result", "/out/x"), copy();
  if (!strcmp(name, "link")) return link("/out/result", "/out/x"), copy();
  if (!strcmp(name, "preallocate")) return (void)fallocate(out, 1, 0, 64 << 20), copy();
  if (!strcmp(name, "socket")) return socket(AF_INET, SOCK_STREAM, 0), copy();
  if (!strcmp(name, "ptrace")) return (void)syscall(SYS_ptrace, 0, 0, 0, 0), copy();
  if (!strcmp(name, "kill")) return kill(-1, SIGKILL), copy();
  return 70;
}

static int crash(long sig) {
  if (sig == SIGSEGV) return *(volatile int *)8;
  if (sig == SIGABRT) abort();
  if (sig == SIGILL) __builtin_trap();
  if (sig == SIGFPE) {
    volatile int one = 1, zero = 0;
    return one / zero;
  }
  return 70;
}

static int play(const char *name, long number, const char *word) {
  pthread_t id;
  if (!strcmp(name, "sleep")) return wait_ms(number), copy();
  if (!strcmp(name, "loop")) return spin(0), 0;
  if (!strcmp(name, "loop-everywhere")) return spin_everywhere();
  if (!strcmp(name, "reserve")) return reserve();
  if (!strcmp(name, "descriptors")) return descriptors();
  if (!strcmp(name, "memory")) return eat(0), 6;
  if (!strcmp(name, "memory-thread")) return pthread_create(&id, 0, eat, 0), pthread_join(id, 0), copy();
  if (!strcmp(name, "threads")) return threads(number);
  if (!strcmp(name, "left-running")) return pthread_create(&id, 0, spin, 0), copy();
  if (!strcmp(name, "late")) return pthread_create(&id, 0, finish_later, 0), (void)syscall(SYS_exit, 0), 70;
  if (!strcmp(name, "print")) return print(number);
  if (!strcmp(name, "past")) return past(number, 0);
  if (!strcmp(name, "past-careless")) return past(number, 1);
  if (!strcmp(name, "empty")) return 0;
  if (!strcmp(name, "hole")) return ftruncate(out, number), 0;
  if (!strcmp(name, "exit")) return copy(), (int)number;
  if (!strcmp(name, "crash")) return crash(number);
  if (!strcmp(name, "raise")) return (void)syscall(SYS_tgkill, getpid(), gettid(), number), copy();
  if (!strcmp(name, "call")) return call(word);
  return 70;
}

int main(void) {
  char line[128] = "", name[32] = "", word[32] = "";
  in = open("/in/input", O_RDONLY);
  out = open("/out/result", O_WRONLY);
  if (in < 0 || out < 0) return 2;
  if (pread(in, line, sizeof line - 1, 0) < 0) return 70;
  char *end = strchr(line, '\n');
  if (!end || strncmp(line, "#!act ", 6)) return copy();
  body = end - line + 1;
  if (sscanf(line + 6, "%31s %31s", name, word) < 1) return 70;
  return play(name, atol(word), word);
}
