/* What a seed stands for: a limit and its leases, instances and their clocks, a network, disasters, and who wants how much. */
#ifndef TESTS_SIMULATION_SCENARIO_H
#define TESTS_SIMULATION_SCENARIO_H

#include "caudal/caudal.h"
#include "world.h"

#define INSTANCES_MAX 200
#define KEYS_MAX 48

/* What a run is for. */
enum purpose {
    TO_BREAK,     /* anything may go wrong: the bound */
    TO_GIVE_BACK, /* keys that are leased and left, again and again: the bound */
    TO_REVERT,    /* the store's state is lost or goes back in time, too */
    TO_BE_USED,   /* more is wanted than there is and nothing goes wrong: 99 % of the rate */
    TO_BE_EVEN,   /* the same, all want equally much: even shares */
    TO_SEE_EDGES  /* windows */
};

enum demand {
    STEADY,  /* each instance asks evenly */
    BURSTS,  /* several at once */
    ON_OFF,  /* for some time, and then not */
    VISITS,  /* much for a third of a ttl, and then nothing for one */
    GREEDY,  /* one instance wants most of it */
    CHANGING /* who wants how much is drawn anew now and then */
};

struct scenario {
    uint64_t seed;
    enum purpose purpose;
    struct caudal_limit limit;
    struct caudal_lease lease;
    unsigned instances, keys;
    bool is_bare; /* books without the lease store: see bare_client.h */
    int64_t length_ns;

    /* The network. */
    int64_t delay_ns;        /* one way, at least half of it and mostly less than twice */
    unsigned tail_per_mille; /* of messages, which take up to tail_ns */
    int64_t tail_ns;
    unsigned lost_per_mille;  /* of requests and of replies */
    unsigned twice_per_mille; /* of withdrawals: executed twice */
    int64_t deadline_ns;

    /* Clocks against the store's, parts in a million; steps of the real-time clock. */
    int drift_least, drift_most;
    bool steps;

    unsigned crashes, failovers;

    enum demand demand;
    int64_t gap_ns;          /* between requests, all instances together */
    uint64_t dear_per_mille; /* of requests that cost up to dear_cost instead of 1 */
    uint64_t dear_cost;
};

/* Draws one. The world has just begun with that seed. */
void scenario_draw(struct scenario *scenario, struct world *world, uint64_t seed);
void scenario_tell(const struct scenario *scenario, const struct world *world);

/* ⌈r·ttl⌉ */
uint64_t scenario_refill(const struct scenario *scenario);

#endif
