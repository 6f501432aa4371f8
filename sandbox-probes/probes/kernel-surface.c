/* The kernel's large interfaces are closed: bpf, io_uring, keys, perf, userfaultfd and their like. */
#include "probe.h"

static char room[256];
static uint64_t many[16];
static struct timeval now;
CALL_FD(do_bpf, SYS_bpf, 0, room, 0)
CALL_FD(do_userfaultfd, SYS_userfaultfd, 0)
CALL_FD(do_perf, SYS_perf_event_open, NULL, 0, -1, -1, 0)
CALL_FD(do_uring_setup, SYS_io_uring_setup, 1, room)
CALL(do_uring_enter, SYS_io_uring_enter, -1, 0, 0, 0, NULL, 0)
CALL(do_uring_register, SYS_io_uring_register, -1, 0, NULL, 0)
CALL(do_keyctl, SYS_keyctl, 0, -3, 0)
CALL(do_add_key, SYS_add_key, "user", "glovebox", "x", 1, -1)
CALL(do_request_key, SYS_request_key, "user", "glovebox", NULL, 0)
CALL_FD(do_fanotify, SYS_fanotify_init, 0, 0)
CALL(do_fanotify_mark, SYS_fanotify_mark, -1, 0, 0, -1, NULL)
CALL_FD(do_inotify, SYS_inotify_init, 0)
CALL_FD(do_inotify1, SYS_inotify_init1, 0)
CALL(do_inotify_watch, SYS_inotify_add_watch, -1, ".", 0xfff)
CALL(do_landlock, SYS_landlock_create_ruleset, NULL, 0, 1)
CALL(do_landlock_add, SYS_landlock_add_rule, -1, 1, NULL, 0)
CALL(do_landlock_restrict, SYS_landlock_restrict_self, -1, 0)
CALL_FD(do_memfd, SYS_memfd_create, "x", 0)
CALL_FD(do_memfd_secret, 447, 0)
CALL(do_pkey_alloc, SYS_pkey_alloc, 0, 0)
CALL(do_pkey_free, SYS_pkey_free, 1)
CALL_FD(do_eventfd, SYS_eventfd, 0)
CALL_FD(do_eventfd2, SYS_eventfd2, 0, 0)
CALL_FD(do_signalfd, SYS_signalfd4, -1, many, 8, 0)
CALL_FD(do_timerfd, SYS_timerfd_create, 1, 0)
CALL(do_aio, SYS_io_setup, 1, many)
CALL(do_aio_destroy, SYS_io_destroy, 0)
CALL(do_timer, SYS_timer_create, 1, NULL, room)
CALL(do_itimer, SYS_setitimer, 0, NULL, NULL)
CALL(do_alarm, SYS_alarm, 0)
CALL(do_pipe, SYS_pipe, room)
CALL(do_pipe2, SYS_pipe2, room, 0)
CALL(do_select, SYS_select, 0, NULL, NULL, NULL, &now)
CALL(do_poll, SYS_poll, NULL, 0, 0)
CALL_FD(do_epoll_create, SYS_epoll_create, 1)
CALL_FD(do_epoll_create1, SYS_epoll_create1, 0)
CALL(do_epoll_pwait, SYS_epoll_pwait, -1, room, 1, 0, NULL, 8)
CALL(do_epoll_wait, SYS_epoll_wait, -1, room, 1, 0)
CALL(do_lsm_list, 461, room, room, 0)
CALL(do_lsm_self, 459, 100, room, room, 0)
CALL(do_cachestat, 451, -1, many, many, 0)
CALL(do_futex_waitv, SYS_futex_waitv, NULL, 0, 0, NULL, 0)
CALL(do_futex_wake, 454, many, 1, 1, 2)
CALL(do_futex_requeue, 456, NULL, 0, 1, 1)
CALL(do_rt_sigsuspend, SYS_rt_sigpending, many, 8)

CHECKS({"bpf", do_bpf}, {"userfaultfd", do_userfaultfd}, {"perf-event-open", do_perf}, {"io-uring-setup", do_uring_setup},
       {"io-uring-enter", do_uring_enter}, {"io-uring-register", do_uring_register}, {"keyctl", do_keyctl}, {"add-key", do_add_key},
       {"request-key", do_request_key}, {"fanotify-init", do_fanotify}, {"fanotify-mark", do_fanotify_mark}, {"inotify-init", do_inotify},
       {"inotify-init1", do_inotify1}, {"inotify-add-watch", do_inotify_watch}, {"landlock-create-ruleset", do_landlock},
       {"landlock-add-rule", do_landlock_add}, {"landlock-restrict-self", do_landlock_restrict}, {"memfd-create", do_memfd},
       {"memfd-secret", do_memfd_secret}, {"pkey-alloc", do_pkey_alloc}, {"pkey-free", do_pkey_free}, {"eventfd", do_eventfd},
       {"eventfd2", do_eventfd2}, {"signalfd4", do_signalfd}, {"timerfd-create", do_timerfd}, {"io-setup", do_aio},
       {"io-destroy", do_aio_destroy}, {"timer-create", do_timer}, {"setitimer", do_itimer}, {"alarm", do_alarm}, {"pipe", do_pipe}, {"pipe2", do_pipe2},
       {"select", do_select}, {"poll", do_poll}, {"epoll-create", do_epoll_create}, {"epoll-create1", do_epoll_create1},
       {"epoll-pwait", do_epoll_pwait}, {"epoll-wait", do_epoll_wait},
       {"lsm-list-modules", do_lsm_list}, {"lsm-get-self-attr", do_lsm_self}, {"cachestat", do_cachestat},
       {"futex-waitv", do_futex_waitv}, {"futex-wake", do_futex_wake},
       {"futex-requeue", do_futex_requeue}, {"rt-sigpending", do_rt_sigsuspend})
