/* Threads that start together, round after round. What is true of a round is checked between rounds, by the test's own thread,
 * when all others stand still: a failed assertion must not leave any other. */
#ifndef TESTS_CONCURRENCY_CREW_H
#define TESTS_CONCURRENCY_CREW_H

#include <stdatomic.h>

#include "../unit/support.h"
#include "store/memory_store.h"

#define CREW_MAX 16u

struct crew_job {
    unsigned threads; /* at most CREW_MAX */
    uint64_t rounds;
    void (*before)(uint64_t round); /* NULL: nothing */
    void (*work)(unsigned thread, uint64_t round);
    void (*after)(uint64_t round);
};

void crew_run(const struct crew_job *job);

/* Every tag of the narrow table is there once, and every (key, number) of the wide one; the pools' chunks add up. */
void assert_store_is_sound(struct caudal_store *store);

/* How many entries and records carry a state, expired ones included. */
uint64_t states_held(struct caudal_store *store);

#endif
