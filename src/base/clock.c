/* The only file that reads clocks. Everything else is handed a time, or a caudal_clock. */
#include "base/clock.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

static int64_t read_clock(clockid_t id)
{
    struct timespec ts;
    clock_gettime(id, &ts); /* cannot fail: both ids exist on every system we build for, and ts is ours */
    return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

static int64_t system_monotonic_ns(void *context)
{
    (void)context;
    return read_clock(CLOCK_MONOTONIC);
}

static int64_t system_realtime_ns(void *context)
{
    (void)context;
    return read_clock(CLOCK_REALTIME);
}

const struct caudal_clock *caudal_clock_system(void)
{
    static const struct caudal_clock clock = {
        .size = sizeof clock,
        .monotonic_ns = system_monotonic_ns,
        .realtime_ns = system_realtime_ns,
    };
    return &clock;
}

void cdl_sleep_until(int64_t monotonic_ns)
{
    const int64_t at = monotonic_ns > 0 ? monotonic_ns : 0;
    const struct timespec ts = {.tv_sec = at / 1000000000, .tv_nsec = at % 1000000000};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL) == EINTR)
        ; /* the instant stays the same */
}

struct caudal_fake_clock {
    struct caudal_clock clock;
    _Atomic int64_t now_ns;
};

static int64_t fake_now_ns(void *context)
{
    struct caudal_fake_clock *clock = context;
    return atomic_load_explicit(&clock->now_ns, memory_order_acquire);
}

struct caudal_fake_clock *caudal_fake_clock_new(int64_t now_ns)
{
    struct caudal_fake_clock *clock = malloc(sizeof *clock);
    if (clock == NULL)
        return NULL;
    clock->clock = (struct caudal_clock){
        .size = sizeof clock->clock,
        .context = clock,
        .monotonic_ns = fake_now_ns,
        .realtime_ns = fake_now_ns,
    };
    atomic_init(&clock->now_ns, now_ns);
    return clock;
}

void caudal_fake_clock_free(struct caudal_fake_clock *clock)
{
    free(clock);
}

void caudal_fake_clock_set(struct caudal_fake_clock *clock, int64_t now_ns)
{
    atomic_store_explicit(&clock->now_ns, now_ns, memory_order_release);
}

void caudal_fake_clock_advance(struct caudal_fake_clock *clock, int64_t delta_ns)
{
    atomic_fetch_add_explicit(&clock->now_ns, delta_ns, memory_order_acq_rel);
}

const struct caudal_clock *caudal_fake_clock_clock(struct caudal_fake_clock *clock)
{
    return &clock->clock;
}
