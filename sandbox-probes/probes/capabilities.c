/* The core has no capability and gets none; prctl is closed whole. */
#include "probe.h"
#include <linux/capability.h>
#include <sys/prctl.h>

static struct __user_cap_header_struct head = {_LINUX_CAPABILITY_VERSION_3, 0};
static struct __user_cap_data_struct data[2];
CALL(do_capget, SYS_capget, &head, data)
static int do_capset(void)
{
	int err = refused(syscall(SYS_capget, &head, data));

	return err == EPERM || err == OPEN ? refused(syscall(SYS_capset, &head, data)) : err;
}
/* held reads one capability set of our own status. */
static int held(const char *name)
{
	char status[8192], *at;
	unsigned long long set = 0;

	if (slurp("/proc/self/status", status, sizeof status) < 0)
		return errno;
	at = strstr(status, name);
	if (!at || sscanf(at + strlen(name), "%llx", &set) != 1)
		return ENODATA;
	say("%llx", set);
	return set ? OPEN : EPERM;
}
static int effective(void) { return held("CapEff:"); }
static int permitted(void) { return held("CapPrm:"); }
static int bounding(void) { return held("CapBnd:"); }
CALL(ambient, SYS_prctl, PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
CALL(keepcaps, SYS_prctl, PR_SET_KEEPCAPS, 1, 0, 0, 0)
CALL(securebits, SYS_prctl, PR_GET_SECUREBITS, 0, 0, 0, 0)
CALL(dumpable, SYS_prctl, PR_SET_DUMPABLE, 1, 0, 0, 0)
CALL(nnp, SYS_prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
CALL(name, SYS_prctl, PR_SET_NAME, "forged", 0, 0, 0)
CALL(pdeathsig, SYS_prctl, PR_SET_PDEATHSIG, 0, 0, 0, 0)
CALL(subreaper, SYS_prctl, PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
CALL(thp, SYS_prctl, PR_SET_THP_DISABLE, 1, 0, 0, 0)
CALL(ksm, SYS_prctl, 67 /* PR_SET_MEMORY_MERGE */, 0, 0, 0, 0)
CALL(tsc, SYS_prctl, PR_SET_TSC, PR_TSC_ENABLE, 0, 0, 0)
CALL(speculation, SYS_prctl, PR_GET_SPECULATION_CTRL, 0, 0, 0, 0)
CALL(timerslack, SYS_prctl, PR_GET_TIMERSLACK, 0, 0, 0, 0)
CALL(seccomp_prctl, SYS_prctl, PR_GET_SECCOMP, 0, 0, 0, 0)
CALL(do_seccomp, SYS_seccomp, 2, 0, "\0\0\0\0")

CHECKS({"effective", effective}, {"permitted", permitted}, {"bounding", bounding}, {"capget", do_capget}, {"capset", do_capset},
       {"prctl-cap-ambient", ambient}, {"prctl-keepcaps", keepcaps}, {"prctl-securebits", securebits}, {"prctl-dumpable", dumpable},
       {"prctl-no-new-privs", nnp}, {"prctl-name", name}, {"prctl-pdeathsig", pdeathsig}, {"prctl-subreaper", subreaper},
       {"prctl-thp", thp}, {"prctl-memory-merge", ksm}, {"prctl-tsc", tsc}, {"prctl-speculation", speculation},
       {"prctl-timerslack", timerslack}, {"prctl-seccomp", seccomp_prctl}, {"seccomp", do_seccomp})
