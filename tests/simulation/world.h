/* The world of one simulated run: its time, its chance, and what is still to happen.
 *
 * Everything that happens is an event in one queue, events of one instant happen in the order in which they were planned, and all
 * chance comes from one seed: so a seed is a run, and a run that fails can be looked at again. The world's time is the store's clock;
 * what drifts, drifts against it. */
#ifndef TESTS_SIMULATION_WORLD_H
#define TESTS_SIMULATION_WORLD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MICROSECOND INT64_C(1000)
#define MILLISECOND INT64_C(1000000)
#define SECOND INT64_C(1000000000)

struct event {
    int64_t at_ns;
    uint64_t order;
    void (*act)(void *subject, uint64_t detail);
    void *subject;
    uint64_t detail;
};

struct world {
    int64_t now_ns, began_ns;
    uint64_t random;
    struct event *events; /* a heap, the next one first */
    size_t count, room;
    uint64_t planned;
    bool tells; /* what happens, on stdout */
};

/* The memory for events is kept from run to run. */
void world_begin(struct world *world, uint64_t seed, int64_t now_ns, bool tells);
void world_free(struct world *world);

/* Plans an event, now or later. */
void world_plan(struct world *world, int64_t at_ns, void (*act)(void *subject, uint64_t detail), void *subject,
                uint64_t detail);
/* Lets the next event happen, if there is one up to that instant. */
bool world_step(struct world *world, int64_t until_ns);

/* One line of the trace. */
void world_tell(const struct world *world, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* ---- chance ---- */

/* SplitMix64. */
static inline uint64_t chance(struct world *world)
{
    uint64_t z = world->random += UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
    return z ^ z >> 31;
}

/* 0 to n - 1. */
static inline uint64_t chance_below(struct world *world, uint64_t n)
{
    return chance(world) % n;
}

/* From `least` to `most`. */
static inline int64_t chance_between(struct world *world, int64_t least, int64_t most)
{
    return least + (int64_t)chance_below(world, (uint64_t)(most - least) + 1);
}

static inline bool chance_is(struct world *world, unsigned per_mille)
{
    return chance_below(world, 1000) < per_mille;
}

/* From `least` (1 or more) to `most`, each order of magnitude about as likely as any other. */
int64_t chance_magnitude(struct world *world, int64_t least, int64_t most);

#endif
