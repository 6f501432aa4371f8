/* No mount is made, moved, looked up or left; the root stays. */
#include "probe.h"
#include <sys/mount.h>

static char room[512];
static struct { uint64_t word[4]; } attr;
static struct { uint32_t size, spare; uint64_t id, param; } request = {24, 0, 1, 1};
CALL(do_mount, SYS_mount, "none", "etc", "tmpfs", 0, NULL)
CALL(do_mount_bind, SYS_mount, "in", "etc", NULL, MS_BIND, NULL)
CALL(do_mount_proc, SYS_mount, "proc", "etc", "proc", 0, NULL)
CALL(do_mount_remount, SYS_mount, NULL, "none-here", NULL, MS_REMOUNT, NULL)
CALL(do_umount, SYS_umount2, "none-here", 0)
CALL(do_pivot, SYS_pivot_root, "none-here", "none-here")
CALL(do_chroot, SYS_chroot, ".")
CALL_FD(do_fsopen, SYS_fsopen, "tmpfs", 0)
CALL(do_fsconfig, SYS_fsconfig, -1, 6, NULL, NULL, 0)
CALL(do_fsmount, SYS_fsmount, -1, 0, 0)
CALL_FD(do_fspick, SYS_fspick, AT_FDCWD, "/", 0)
CALL_FD(do_open_tree, SYS_open_tree, AT_FDCWD, "/", 0)
CALL_FD(do_open_tree_clone, SYS_open_tree, AT_FDCWD, ".", 1)
CALL(do_move_mount, SYS_move_mount, -1, "", -1, "", 4)
CALL(do_setattr, SYS_mount_setattr, AT_FDCWD, "none-here", 0, &attr, sizeof attr)
CALL(do_statmount, 457, &request, room, sizeof room, 0)
CALL(do_listmount, 458, &request, room, 1, 0)
CALL(do_open_tree_attr, 467, -1, "", 0, NULL, 0)
CALL(do_swapon, SYS_swapon, "none-here", 0)
CALL(do_swapoff, SYS_swapoff, "none-here")
CALL(do_quotactl, SYS_quotactl, 0x800002 << 8, "none-here", 0, room)
CALL(do_quotactl_fd, 443, -1, 0, 0, room)
CALL(do_statfs, SYS_statfs, ".", room)
CALL(do_ustat, SYS_ustat, 0, room)
CALL(do_sysfs, SYS_sysfs, 3, 0, 0)

CHECKS({"mount-tmpfs", do_mount}, {"mount-bind", do_mount_bind}, {"mount-proc", do_mount_proc}, {"mount-remount", do_mount_remount},
       {"umount2", do_umount}, {"pivot-root", do_pivot}, {"chroot", do_chroot}, {"fsopen", do_fsopen}, {"fsconfig", do_fsconfig},
       {"fsmount", do_fsmount}, {"fspick", do_fspick}, {"open-tree", do_open_tree}, {"open-tree-clone", do_open_tree_clone},
       {"move-mount", do_move_mount}, {"mount-setattr", do_setattr}, {"statmount", do_statmount}, {"listmount", do_listmount},
       {"open-tree-attr", do_open_tree_attr}, {"swapon", do_swapon}, {"swapoff", do_swapoff}, {"quotactl", do_quotactl},
       {"quotactl-fd", do_quotactl_fd}, {"statfs", do_statfs}, {"ustat", do_ustat}, {"sysfs", do_sysfs})
