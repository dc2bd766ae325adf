/* A clock that steps, for one program: preloaded, it moves CLOCK_REALTIME by 100 s to and fro every
 * 50 ms, as far as a signed command may be off. All other clocks are those of the system. */

#define _GNU_SOURCE
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

enum { STEP_S = 50, PERIOD_NS = 50000000 };

static int read_clock(clockid_t clock, struct timespec *now) {
    return (int)syscall(SYS_clock_gettime, clock, now);
}

static void step(struct timespec *now) {
    struct timespec monotonic;
    read_clock(CLOCK_MONOTONIC, &monotonic);
    long periods = monotonic.tv_sec * (1000000000L / PERIOD_NS) + monotonic.tv_nsec / PERIOD_NS;
    now->tv_sec += periods % 2 ? STEP_S : -STEP_S;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    int result = read_clock(clock, now);
    if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
        step(now);
    }
    return result;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    struct timespec time;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &time);
    now->tv_sec = time.tv_sec;
    now->tv_usec = time.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *out) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (out) {
        *out = now.tv_sec;
    }
    return now.tv_sec;
}
