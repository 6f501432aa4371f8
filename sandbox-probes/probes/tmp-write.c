/* There is no place to write but the result: no tmpfs, no shared memory, no /dev. */
#include "probe.h"

static int make(const char *path)
{
	int err = try_open(path, O_CREAT | O_WRONLY | O_EXCL);

	if (err == OPEN)
		syscall(SYS_unlink, path); /* outside; inside it is never reached */
	return err;
}
static int in_tmp(void) { return make("/tmp/glovebox-probe"); }
static int in_vartmp(void) { return make("/var/tmp/glovebox-probe"); }
static int in_shm(void) { return make("/dev/shm/glovebox-probe"); }
static int in_dev(void) { return make("/dev/glovebox-probe"); }
static int in_run(void) { return make("/run/glovebox-probe"); }
static int nameless_shm(void) { return try_open("/dev/shm", O_TMPFILE | O_RDWR); }
static int nameless_dev(void) { return try_open("/dev", O_TMPFILE | O_RDWR); }
static int nameless_tmp(void) { return try_open("/tmp", O_TMPFILE | O_RDWR); }

CHECKS({"create-in-tmp", in_tmp}, {"create-in-var-tmp", in_vartmp}, {"create-in-shm", in_shm}, {"create-in-dev", in_dev},
       {"create-in-run", in_run}, {"tmpfile-shm", nameless_shm}, {"tmpfile-dev", nameless_dev}, {"tmpfile-tmp", nameless_tmp})
