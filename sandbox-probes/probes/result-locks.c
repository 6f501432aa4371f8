/* No lock, lease, owner, seal or hint on the result: nothing that a later reader feels. fcntl is closed whole. */
#include "probe.h"
#include <sys/file.h>

static int with(int command, long argument)
{
	int fd = open(RESULT, O_RDWR), err;

	if (fd < 0)
		return errno;
	err = refused(syscall(SYS_fcntl, fd, (long)command, argument));
	close(fd);
	return err;
}
static struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
static uint64_t hint = 1;
static int setlk(void) { return with(F_SETLK, (long)&whole); }
static int setlkw(void) { return with(F_SETLKW, (long)&whole); }
static int ofd(void) { return with(F_OFD_SETLK, (long)&whole); }
static int getlk(void) { return with(F_GETLK, (long)&whole); }
static int lease(void) { return with(F_SETLEASE, F_RDLCK); }
static int notify(void) { return with(F_NOTIFY, 0); }
static int owner(void) { return with(F_SETOWN, getpid()); }
static int signal_number(void) { return with(F_SETSIG, 0); }
static int pipe_size(void) { return with(F_SETPIPE_SZ, 4096); }
static int seals(void) { return with(F_ADD_SEALS, 0); }
static int write_hint(void) { return with(F_SET_RW_HINT, (long)&hint); }
static int copy(void) { return with(F_DUPFD, 0); }
static int status_flags(void) { return with(F_GETFL, 0); }
static int locked(void)
{
	int fd = open(RESULT, O_RDWR), err = refused(syscall(SYS_flock, fd, LOCK_EX | LOCK_NB));

	close(fd);
	return err;
}
/* The kernel takes the command as 32 bits: high bits must not slip past the list. */
static int high_bits(void)
{
	int fd = open(RESULT, O_RDWR), err = refused(syscall(SYS_fcntl, fd, (1L << 32) | F_SETLK, &whole));

	close(fd);
	return err;
}

CHECKS({"flock", locked}, {"fcntl-setlk", setlk}, {"fcntl-setlkw", setlkw}, {"fcntl-ofd-setlk", ofd}, {"fcntl-getlk", getlk},
       {"fcntl-setlease", lease}, {"fcntl-notify", notify}, {"fcntl-setown", owner}, {"fcntl-setsig", signal_number},
       {"fcntl-setpipe-sz", pipe_size}, {"fcntl-add-seals", seals}, {"fcntl-set-rw-hint", write_hint}, {"fcntl-high-bits", high_bits},
       {"fcntl-dupfd", copy}, {"fcntl-getfl", status_flags})
