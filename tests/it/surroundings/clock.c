/* A wall clock that begins elsewhere: CLOCK_BEGINS, in seconds since 1970. Every other clock is the
   kernel's, so timers run as they do. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <time.h>

int clock_gettime(clockid_t id, struct timespec *now) {
    static int (*kernel)(clockid_t, struct timespec *);
    static long offset;
    if (!kernel) {
        struct timespec real;
        int (*found)(clockid_t, struct timespec *) = dlsym(RTLD_NEXT, "clock_gettime");
        found(CLOCK_REALTIME, &real);
        offset = atol(getenv("CLOCK_BEGINS")) - real.tv_sec;
        kernel = found;
    }
    int failed = kernel(id, now);
    if (!failed && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE))
        now->tv_sec += offset;
    return failed;
}
