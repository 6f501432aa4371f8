/* /dev holds nothing but the harmless nodes. */
#include "probe.h"
#include <dirent.h>

static int unexpected(void)
{
	static const char *const known[] = {".", "..", "null", "zero", "full", "tty", "random", "urandom", "ptmx", "pts", "mqueue", "fd", "stdin", "stdout", "stderr", "core", "shm"};
	DIR *d = opendir("/dev");
	int found = 0;

	if (!d)
		return errno;
	for (struct dirent *e; (e = readdir(d));) {
		int ok = 0;
		for (size_t i = 0; i < sizeof known / sizeof *known; i++)
			ok |= !strcmp(known[i], e->d_name);
		if (!ok) {
			found = 1;
			say("%s", e->d_name);
		}
	}
	closedir(d);
	return found ? OPEN : ENOENT;
}
static int first(const char *const *paths)
{
	int err = ENOENT;

	for (; *paths; paths++) {
		err = try_open(*paths, O_RDONLY | O_NONBLOCK);
		if (err == OPEN) {
			say("%s", *paths);
			return OPEN;
		}
	}
	return err;
}
#define NODES(name, ...)                                              \
	static int name(void)                                         \
	{                                                             \
		static const char *const paths[] = {__VA_ARGS__, NULL}; \
		return first(paths);                                  \
	}
NODES(kernel_log, "/dev/kmsg")
NODES(kvm, "/dev/kvm", "/dev/vhost-net", "/dev/vhost-vsock")
NODES(vsock, "/dev/vsock")
NODES(fuse, "/dev/fuse", "/dev/cuse")
NODES(disks, "/dev/vda", "/dev/sda", "/dev/nvme0n1", "/dev/loop0", "/dev/loop-control", "/dev/mapper/control", "/dev/pmem0")
NODES(tun, "/dev/net/tun")
NODES(consoles, "/dev/console", "/dev/tty0", "/dev/tty1", "/dev/ttyS0")
NODES(misc, "/dev/mem", "/dev/kmem", "/dev/port", "/dev/hwrng", "/dev/userfaultfd", "/dev/uinput", "/dev/rtc0", "/dev/watchdog", "/dev/rfkill", "/dev/autofs")
static int folder_writable(void)
{
	int err = try_open("/dev/glovebox-node", O_CREAT | O_WRONLY);
	if (err == OPEN)
		syscall(SYS_unlink, "/dev/glovebox-node");
	return err;
}
static int terminals(void)
{
	int fd = open("/dev/ptmx", O_RDWR | O_NOCTTY), err, unlock = 0;

	if (fd < 0)
		return errno;
	err = refused(syscall(SYS_ioctl, fd, 0x40045431L /* TIOCSPTLCK */, &unlock));
	close(fd);
	return err;
}
static int inject(void) { return refused(syscall(SYS_ioctl, 0, 0x5412L /* TIOCSTI */, "x")); }
static int entropy(void)
{
	int fd = open("/dev/urandom", O_RDWR), err;
	int count = 0;

	if (fd < 0)
		return errno;
	err = refused(syscall(SYS_ioctl, fd, 0x80045200L /* RNDGETENTCNT */, &count));
	close(fd);
	return err;
}
/* The kernel takes the request as 32 bits. */
static int high_bits(void) { return refused(syscall(SYS_ioctl, 0, (1L << 32) | 0x5401L, detail)); }

CHECKS({"unexpected-nodes", unexpected}, {"kernel-log", kernel_log}, {"kvm", kvm}, {"vsock", vsock}, {"fuse", fuse},
       {"disks", disks}, {"tun", tun}, {"consoles", consoles}, {"misc", misc}, {"create-node", folder_writable},
       {"pty-unlock", terminals}, {"tty-inject", inject}, {"rng-ioctl", entropy}, {"ioctl-high-bits", high_bits})
