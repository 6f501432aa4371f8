/* Nothing under /proc can be written that reaches beyond the core itself. */
#include "probe.h"

/* An id map is written once, so the attack needs a namespace of its own first. */
static int in_new_namespace(const char *path, const char *text)
{
	if (syscall(SYS_unshare, 0x10000000 /* CLONE_NEWUSER */))
		return errno;
	return writable(path, text);
}
static int setgroups_file(void) { return in_new_namespace("/proc/self/setgroups", "deny"); }
static int uid_map(void) { return in_new_namespace("/proc/self/uid_map", "0 0 1"); }
static int gid_map(void)
{
	int err = in_new_namespace("/proc/self/setgroups", "deny");
	return err ? err : writable("/proc/self/gid_map", "0 0 1");
}
static int oom_lower(void) { return writable("/proc/self/oom_score_adj", "-1000"); }
static int core_pattern(void) { return try_open("/proc/sys/kernel/core_pattern", O_WRONLY); }
static int overcommit(void) { return try_open("/proc/sys/vm/overcommit_memory", O_WRONLY); }
static int drop_caches(void) { return try_open("/proc/sys/vm/drop_caches", O_WRONLY); }
static int hostname(void) { return try_open("/proc/sys/kernel/hostname", O_WRONLY); }
static int msgmax(void) { return try_open("/proc/sys/kernel/msgmax", O_WRONLY); }
static int ns_last_pid(void) { return try_open("/proc/sys/kernel/ns_last_pid", O_WRONLY); }
static int forward(void) { return try_open("/proc/sys/net/ipv4/ip_forward", O_WRONLY); }
static int irq(void) { return try_open("/proc/irq/default_smp_affinity", O_WRONLY); }
/* Setting it once is anybody's right while it is unset, and moves a counter that all see. */
static int loginuid(void) { return writable("/proc/self/loginuid", "0"); }

CHECKS({"setgroups", setgroups_file}, {"uid-map", uid_map}, {"gid-map", gid_map}, {"oom-score-lower", oom_lower}, {"sys-core-pattern", core_pattern},
       {"sys-overcommit", overcommit}, {"sys-drop-caches", drop_caches}, {"sys-hostname", hostname},
       {"sys-msgmax", msgmax}, {"sys-ns-last-pid", ns_last_pid}, {"sys-ip-forward", forward}, {"irq-affinity", irq},
       {"loginuid", loginuid})
