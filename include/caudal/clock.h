/* Clocks. The library reads time only through one of these, so a program or a test can supply its own. */
#ifndef CAUDAL_CLOCK_H
#define CAUDAL_CLOCK_H

#include <stdint.h>

#include "status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Two readings in nanoseconds. Token buckets and sliding logs count on the monotonic one; epoch-aligned windows on the
 * real-time one. Both functions may be called from any thread at once, must not block and must not call the library. */
struct caudal_clock {
    size_t size; /* sizeof(struct caudal_clock) */
    void *context;
    int64_t (*monotonic_ns)(void *context); /* never set back; its zero means nothing */
    int64_t (*realtime_ns)(void *context);  /* since 1970-01-01T00:00:00Z */
};

/**
 * The operating system's clocks: CLOCK_MONOTONIC and CLOCK_REALTIME.
 *
 * @return a constant clock, never NULL; lives for ever
 *
 * Thread-safe.
 */
CAUDAL_API const struct caudal_clock *caudal_clock_system(void);

/* A clock that stands still until it is told otherwise, for tests. Its two readings are always the same number. */
struct caudal_fake_clock;

/**
 * Makes a fake clock.
 *
 * @param now_ns  its first reading
 * @return the clock, to be freed with caudal_fake_clock_free; NULL when memory is short
 *
 * Thread-safe.
 */
CAUDAL_API struct caudal_fake_clock *caudal_fake_clock_new(int64_t now_ns);

/**
 * Frees a fake clock. No store may use it any more.
 *
 * @param clock  the clock; NULL does nothing
 */
CAUDAL_API void caudal_fake_clock_free(struct caudal_fake_clock *clock);

/**
 * Sets a fake clock, forward or back.
 *
 * @param clock   the clock, not NULL
 * @param now_ns  its new reading
 *
 * Thread-safe: a reader sees the old reading or the new one.
 */
CAUDAL_API void caudal_fake_clock_set(struct caudal_fake_clock *clock, int64_t now_ns);

/**
 * Moves a fake clock.
 *
 * @param clock     the clock, not NULL
 * @param delta_ns  nanoseconds to add, negative to go back
 *
 * Thread-safe.
 */
CAUDAL_API void caudal_fake_clock_advance(struct caudal_fake_clock *clock, int64_t delta_ns);

/**
 * The fake clock as a clock to open a store with.
 *
 * @param clock  the clock, not NULL
 * @return a clock that reads it; valid until caudal_fake_clock_free
 *
 * Thread-safe.
 */
CAUDAL_API const struct caudal_clock *caudal_fake_clock_clock(struct caudal_fake_clock *clock);

#ifdef __cplusplus
}
#endif
#endif
