/* /proc tells nothing of the host: no counters, no identity, no memory, no keys. */
#include "probe.h"

/* any returns OPEN if one of the files gives a byte, naming it. */
static int any(const char *const *paths)
{
	int last = ENOENT;

	for (; *paths; paths++) {
		int err = readable(*paths);
		if (err == OPEN) {
			say("%s", *paths);
			return OPEN;
		}
		last = err;
	}
	return last;
}
#define FILES(name, ...)                                              \
	static int name(void)                                         \
	{                                                             \
		static const char *const paths[] = {__VA_ARGS__, NULL}; \
		return any(paths);                                    \
	}
FILES(memory, "/proc/meminfo", "/proc/vmstat", "/proc/zoneinfo", "/proc/buddyinfo", "/proc/pagetypeinfo", "/proc/slabinfo", "/proc/vmallocinfo")
FILES(scheduler, "/proc/stat", "/proc/loadavg", "/proc/uptime", "/proc/schedstat", "/proc/sched_debug", "/proc/timer_list", "/proc/pressure/cpu")
FILES(interrupts, "/proc/interrupts", "/proc/softirqs")
FILES(disks, "/proc/diskstats", "/proc/partitions", "/proc/swaps", "/proc/mdstat")
FILES(kernel_memory, "/proc/kcore", "/proc/kallsyms", "/proc/kmsg", "/proc/kpagecount", "/proc/kpageflags", "/proc/kpagecgroup", "/proc/iomem", "/proc/ioports")
FILES(identity, "/proc/version", "/proc/cmdline", "/proc/cpuinfo", "/proc/config.gz", "/proc/sys/kernel/random/boot_id", "/proc/sys/kernel/osrelease", "/proc/sys/kernel/hostname")
FILES(modules, "/proc/modules", "/proc/filesystems", "/proc/devices", "/proc/misc", "/proc/crypto", "/proc/dma", "/proc/fb")
FILES(keys, "/proc/keys", "/proc/key-users")
FILES(locks, "/proc/locks", "/proc/sysvipc/shm", "/proc/sysvipc/sem", "/proc/sysvipc/msg")
FILES(sysctls, "/proc/sys/fs/file-nr", "/proc/sys/fs/inode-nr", "/proc/sys/fs/dentry-state", "/proc/sys/kernel/core_pattern", "/proc/sys/kernel/pid_max", "/proc/sys/kernel/random/entropy_avail", "/proc/sys/kernel/random/uuid")
FILES(groups, "/proc/cgroups", "/proc/execdomains", "/proc/consoles")
static int folders(void)
{
	static const char *const names[] = {"/proc/sys", "/proc/irq", "/proc/fs", "/proc/bus", "/proc/driver", "/proc/tty", "/proc/acpi", "/proc/asound", "/proc/scsi", "/proc/sysvipc", "/proc/pressure", "/proc/dynamic_debug"};
	struct stat st;

	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (!stat(names[i], &st)) {
			say("%s", names[i]);
			return OPEN;
		}
	return ENOENT;
}
static int pagemap(void)
{
	uint64_t entry = 0;
	int fd = open("/proc/self/pagemap", O_RDONLY);
	ssize_t n;

	if (fd < 0)
		return errno;
	n = pread(fd, &entry, sizeof entry, (off_t)((uintptr_t)&entry / 4096 * 8));
	close(fd);
	if (n != sizeof entry)
		return EIO;
	return entry & ((1ULL << 55) - 1) ? OPEN : EACCES; /* frame numbers read as zero without rights */
}
static int stack(void) { return readable("/proc/self/stack"); }

CHECKS({"memory-counters", memory}, {"scheduler-counters", scheduler}, {"interrupt-counters", interrupts}, {"disk-counters", disks},
       {"kernel-memory", kernel_memory}, {"identity", identity}, {"modules", modules}, {"keys", keys}, {"locks", locks},
       {"sysctls", sysctls}, {"groups", groups}, {"folders", folders}, {"pagemap-frames", pagemap}, {"kernel-stack", stack})
