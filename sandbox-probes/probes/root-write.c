/* The root filesystem cannot be written: no file can be made anywhere. */
#include "probe.h"

static int make(const char *path) { return try_open(path, O_CREAT | O_WRONLY | O_EXCL); }
static int in_root(void) { return make("planted"); }
static int in_in(void) { return make("in/planted"); }
static int in_out(void) { return make("out/planted"); }
static int in_etc(void) { return make("etc/planted"); }
static int in_run(void) { return make("run/planted"); }
static int over_core(void) { return try_open("core", O_WRONLY); }
static int over_core_truncated(void) { return try_open("core", O_WRONLY | O_TRUNC); }
static int over_hostname(void) { return try_open("etc/hostname", O_WRONLY); }
static int nameless_root(void) { return try_open(".", O_TMPFILE | O_RDWR); }
static int nameless_out(void) { return try_open("out", O_TMPFILE | O_RDWR); }
static int over_links(void) { return try_open("/proc/self/cwd/planted-too", O_CREAT | O_WRONLY); }

CHECKS({"create-in-root", in_root}, {"create-in-in", in_in}, {"create-in-out", in_out}, {"create-in-etc", in_etc},
       {"create-in-run", in_run}, {"write-core", over_core}, {"truncate-core", over_core_truncated},
       {"write-hostname", over_hostname}, {"tmpfile-root", nameless_root}, {"tmpfile-out", nameless_out},
       {"create-through-proc-cwd", over_links})
