/* Names cannot be changed: no rename, link, symlink, removal, folder or node. */
#include "probe.h"

CALL(do_rename, SYS_rename, RESULT, "out/other")
CALL(do_renameat, SYS_renameat, AT_FDCWD, RESULT, AT_FDCWD, "out/other")
CALL(do_renameat2, SYS_renameat2, AT_FDCWD, RESULT, AT_FDCWD, INPUT, 2 /* RENAME_EXCHANGE */)
CALL(do_rename_folder, SYS_rename, "out", "elsewhere")
CALL(do_link, SYS_link, RESULT, "out/other")
CALL(do_linkat, SYS_linkat, AT_FDCWD, RESULT, AT_FDCWD, "out/other", 0)
CALL(do_linkat_proc, SYS_linkat, AT_FDCWD, "/proc/self/fd/1", AT_FDCWD, "out/other", AT_SYMLINK_FOLLOW)
CALL(do_symlink, SYS_symlink, "/etc/passwd", "out/other")
CALL(do_symlinkat, SYS_symlinkat, "/etc/passwd", AT_FDCWD, "out/other")
CALL(do_unlink, SYS_unlink, RESULT)
CALL(do_unlinkat, SYS_unlinkat, AT_FDCWD, RESULT, 0)
CALL(do_mkdir, SYS_mkdir, "out/folder", 0700)
CALL(do_mkdirat, SYS_mkdirat, AT_FDCWD, "out/folder", 0700)
CALL(do_rmdir, SYS_rmdir, "etc/nothing")
CALL(do_mknod, SYS_mknod, "out/pipe", S_IFIFO | 0600, 0)
CALL(do_mknodat, SYS_mknodat, AT_FDCWD, "out/pipe", S_IFIFO | 0600, 0)
CALL(do_mknod_device, SYS_mknod, "out/mem", S_IFCHR | 0600, 0x101)
CALL(do_creat, SYS_creat, "out/other", 0600)
CALL_FD(do_legacy_open, SYS_open, RESULT, O_RDONLY)

CHECKS({"rename", do_rename}, {"renameat", do_renameat}, {"renameat2-exchange", do_renameat2}, {"rename-folder", do_rename_folder},
       {"link", do_link}, {"linkat", do_linkat}, {"linkat-proc-fd", do_linkat_proc}, {"symlink", do_symlink}, {"symlinkat", do_symlinkat},
       {"unlink", do_unlink}, {"unlinkat", do_unlinkat}, {"mkdir", do_mkdir}, {"mkdirat", do_mkdirat}, {"rmdir", do_rmdir},
       {"mknod-fifo", do_mknod}, {"mknodat-fifo", do_mknodat}, {"mknod-device", do_mknod_device}, {"creat", do_creat},
       {"legacy-open", do_legacy_open})
