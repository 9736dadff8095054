/* One simulated run, whole. */
#ifndef TESTS_SIMULATION_RUN_H
#define TESTS_SIMULATION_RUN_H

#include "far_store.h"
#include "instances.h"
#include "judges.h"

struct run {
    struct world world;
    struct scenario scenario;
    struct far_store store;
    struct judges judges;
    struct instance instances[INSTANCES_MAX];
    struct ask *asks; /* all of the run */
    uint64_t asked, ended, leased, refused, by_store;
};

/* Runs one seed. The struct is zero before the first and may be used again. */
void run_seed(struct run *run, uint64_t seed, bool tells);
void run_free(struct run *run);

#endif
