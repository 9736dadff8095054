/* The processes that lease: each a lease store of its own over a link, a loop's client with it, and a clock. */
#ifndef TESTS_SIMULATION_INSTANCES_H
#define TESTS_SIMULATION_INSTANCES_H

#include "far_store.h"
#include "scenario.h"

#define LOTS_MAX 32

/* A batch as the judges see it. */
struct lot {
    uint64_t left;
    int64_t dies_ns; /* by the instance's clock */
    int64_t charged_at_ns;
    bool is_heard; /* its reply has come in time */
};

struct holding {
    struct lot lots[LOTS_MAX];
    unsigned count;
    int64_t refused_at_ns; /* by the store, of the last refusal that was heard */
};

struct ask;

struct instance {
    struct run *run;
    unsigned number;
    struct link link;
    struct caudal_store *store;
    struct cdl_store_client *client;
    uint32_t limit;
    bool is_up;
    uint64_t epoch;
    /* Its clocks. */
    struct caudal_clock clock;
    int64_t base_ns, drift, step_ns;
    uint64_t alarms; /* only the last one counts */
    /* What it wants. */
    int64_t gap_ns; /* INT64_MAX: nothing */
    uint64_t demands;
    struct holding holdings[KEYS_MAX];
};

void instances_begin(struct run *run);
/* No more is wanted. */
void instances_end(struct run *run);

int64_t instance_monotonic(const struct instance *instance);

/* What the far store tells of withdrawals: one was executed, its reply was delivered, tokens are being given back. */
void instance_charged(struct instance *instance, unsigned key, int64_t asked_ns, uint64_t granted);
void instance_heard(struct instance *instance, unsigned key, int64_t charged_at_ns);
void instance_gives_back(struct instance *instance, unsigned key, int64_t charged_at_ns, uint64_t tokens);

#endif
