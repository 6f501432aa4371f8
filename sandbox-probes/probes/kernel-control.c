/*
 * Calls that steer the kernel. Outside each is made with arguments that the kernel
 * refuses after it has granted the right: that it comes so far is the control.
 */
#include "probe.h"

CALL(do_reboot, SYS_reboot, 1, 2, 3, NULL) /* no magic: EINVAL */
CALL(do_kexec, SYS_kexec_load, 0, 17, NULL, 0) /* too many segments: EINVAL */
CALL(do_kexec_file, SYS_kexec_file_load, -1, -1, 0, NULL, ~0UL)
CALL(do_init_module, SYS_init_module, NULL, 0, "")
CALL(do_finit_module, SYS_finit_module, -1, "", 0)
CALL(do_delete_module, SYS_delete_module, "glovebox_none", O_NONBLOCK)
CALL(do_syslog, SYS_syslog, 10, NULL, 0) /* the size of the log */
CALL(do_acct, SYS_acct, "none-here/none")
CALL(do_iopl, SYS_iopl, 0)
CALL(do_ioperm, SYS_ioperm, 0x80, 1, 0)
CALL(do_sethostname, SYS_sethostname, "probe", 5)
CALL(do_setdomainname, SYS_setdomainname, "probe", 5)
CALL(do_vhangup, SYS_vhangup)
CALL(do_personality, SYS_personality, 0xffffffffUL)
CALL(do_read_implies_exec, SYS_personality, 0x0400000)
CALL(do_modify_ldt, SYS_modify_ldt, 0, detail, 16)
CALL(do_nice, SYS_setpriority, 0, 0, 0)
CALL(do_getpriority, SYS_getpriority, 0, 0)
static int policy;
static char attributes[64];
static unsigned long mask = 1;
CALL(do_setscheduler, SYS_sched_setscheduler, 0, 0, &policy)
CALL(do_setparam, SYS_sched_setparam, 0, &policy)
CALL(do_setattr, SYS_sched_setattr, 0, NULL, 0)
CALL(do_getattr, SYS_sched_getattr, 0, attributes, 48, 0)
CALL(do_setaffinity, SYS_sched_setaffinity, 0, sizeof mask, &mask)
CALL(do_ioprio, SYS_ioprio_set, 1, 0, 0)
CALL(do_lookup_cookie, SYS_lookup_dcookie, 0, detail, 16)
CALL(do_sysctl, SYS__sysctl, NULL)
CALL(do_membarrier, SYS_membarrier, 0, 0, 0)
CALL(do_getcpu, SYS_getcpu, &policy, NULL, NULL)

CHECKS({"reboot", do_reboot}, {"kexec-load", do_kexec}, {"kexec-file-load", do_kexec_file}, {"init-module", do_init_module},
       {"finit-module", do_finit_module}, {"delete-module", do_delete_module}, {"syslog", do_syslog}, {"acct", do_acct}, {"iopl", do_iopl},
       {"ioperm", do_ioperm}, {"sethostname", do_sethostname}, {"setdomainname", do_setdomainname}, {"vhangup", do_vhangup},
       {"personality-read", do_personality}, {"personality-read-implies-exec", do_read_implies_exec}, {"modify-ldt", do_modify_ldt},
       {"setpriority", do_nice}, {"getpriority", do_getpriority}, {"sched-setscheduler", do_setscheduler}, {"sched-setparam", do_setparam},
       {"sched-setattr", do_setattr}, {"sched-getattr", do_getattr}, {"sched-setaffinity", do_setaffinity}, {"ioprio-set", do_ioprio},
       {"lookup-dcookie", do_lookup_cookie}, {"sysctl", do_sysctl}, {"membarrier", do_membarrier}, {"getcpu", do_getcpu})
