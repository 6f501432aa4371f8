/* No other process's memory, registers or descriptors. */
#include "probe.h"
#include <sys/ptrace.h>
#include <sys/uio.h>

static char here[8], there[8];
static struct iovec local = {here, 1}, remote = {there, 1};
CALL(attach, SYS_ptrace, PTRACE_ATTACH, 999999999, 0, 0)
CALL(seize, SYS_ptrace, PTRACE_SEIZE, 999999999, 0, 0)
CALL(peek, SYS_ptrace, PTRACE_PEEKDATA, 999999999, here, here)
CALL(traceme, SYS_ptrace, PTRACE_TRACEME, 0, 0, 0)
CALL(do_readv, SYS_process_vm_readv, getpid(), &local, 1, &remote, 1, 0)
CALL(do_writev, SYS_process_vm_writev, getpid(), &local, 1, &remote, 1, 0)
CALL(do_kcmp, SYS_kcmp, getpid(), getpid(), 0, 0, 0)
CALL(do_getfd, SYS_pidfd_getfd, -1, 0, 0)
CALL(do_process_madvise, SYS_process_madvise, -1, &local, 1, 0, 0)
CALL(do_mrelease, 448, -1, 0)
CALL(do_robust, SYS_get_robust_list, 0, here, there)

CHECKS({"ptrace-attach", attach}, {"ptrace-seize", seize}, {"ptrace-peek", peek}, {"ptrace-traceme", traceme}, {"process-vm-readv", do_readv},
       {"process-vm-writev", do_writev}, {"kcmp", do_kcmp}, {"pidfd-getfd", do_getfd}, {"process-madvise", do_process_madvise},
       {"process-mrelease", do_mrelease}, {"get-robust-list", do_robust})
