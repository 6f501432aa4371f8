/* Clocks can be read, never set. */
#include "probe.h"
#include <sys/time.h>

static struct timespec now;
static char adjust[256];
CALL(do_clock_settime, SYS_clock_settime, CLOCK_MONOTONIC, &now)
CALL(do_clock_settime_real, SYS_clock_settime, CLOCK_REALTIME, NULL)
CALL(do_settimeofday, SYS_settimeofday, NULL, NULL)
CALL(do_adjtimex, SYS_adjtimex, adjust)
CALL(do_clock_adjtime, SYS_clock_adjtime, CLOCK_REALTIME, adjust)
CALL(do_gettimeofday, SYS_gettimeofday, adjust, NULL)
static struct timespec moment = {0, 1000};
CALL(do_getres, SYS_clock_getres, CLOCK_MONOTONIC, &now)
CALL(do_nanosleep, SYS_nanosleep, &moment, NULL)
CALL(do_time, SYS_time, NULL)

CHECKS({"clock-settime", do_clock_settime}, {"clock-settime-real", do_clock_settime_real}, {"settimeofday", do_settimeofday},
       {"adjtimex", do_adjtimex}, {"clock-adjtime", do_clock_adjtime}, {"gettimeofday", do_gettimeofday}, {"time", do_time},
       {"clock-getres", do_getres}, {"nanosleep", do_nanosleep})
