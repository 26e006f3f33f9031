/* A wall clock that begins elsewhere (CLOCK_BEGINS, in seconds since 1970) or jumps while the program
   runs (CLOCK_STEP, a file with the seconds as a long). Every other clock is the kernel's, so timers
   run as they do. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

int clock_gettime(clockid_t id, struct timespec *now) {
    static int (*kernel)(clockid_t, struct timespec *);
    static long offset;
    static const volatile long *step;
    if (!kernel) {
        struct timespec real;
        int (*found)(clockid_t, struct timespec *) = dlsym(RTLD_NEXT, "clock_gettime");
        found(CLOCK_REALTIME, &real);
        if (getenv("CLOCK_BEGINS"))
            offset = atol(getenv("CLOCK_BEGINS")) - real.tv_sec;
        if (getenv("CLOCK_STEP")) {
            int file = open(getenv("CLOCK_STEP"), O_RDONLY | O_CLOEXEC);
            void *mapped = mmap(0, sizeof(long), PROT_READ, MAP_SHARED, file, 0);
            step = mapped == MAP_FAILED ? 0 : mapped;
        }
        kernel = found;
    }
    int failed = kernel(id, now);
    if (!failed && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE))
        now->tv_sec += offset + (step ? *step : 0);
    return failed;
}
