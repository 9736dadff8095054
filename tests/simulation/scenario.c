#include "scenario.h"

#include <stdio.h>

#include "base/arith.h"

static const char *const purposes[] = {"to break",   "to give back", "to revert",
                                       "to be used", "to be even",   "to see edges"};
static const char *const demands[] = {"steady", "bursts", "on and off", "visits", "greedy", "changing"};

uint64_t scenario_refill(const struct scenario *scenario)
{
    const cdl_u128 product = (cdl_u128)scenario->limit.count * (uint64_t)scenario->lease.ttl_ns;
    return (uint64_t)((product + scenario->limit.period_ns - 1) / scenario->limit.period_ns);
}

/* A rate that refills `tokens` thousandths of a token in a ttl, in odd numbers. */
static void draw_rate(struct scenario *scenario, struct world *world, int64_t tokens)
{
    struct caudal_limit *limit = &scenario->limit;
    limit->count = (uint64_t)chance_magnitude(world, 1, 1000);
    limit->period_ns = limit->count * (uint64_t)scenario->lease.ttl_ns / (uint64_t)tokens * 1000 + 1;
}

static void draw_bucket(struct scenario *scenario, struct world *world)
{
    struct caudal_limit *limit = &scenario->limit;
    draw_rate(scenario, world, chance_magnitude(world, 50, 300000));
    const uint64_t refill = scenario_refill(scenario);
    limit->burst = (uint64_t)chance_magnitude(world, 1, chance_is(world, 500) ? 100000 : 4 * (int64_t)refill + 8);
    scenario->lease.strict_bound = chance_is(world, 350);
    if (scenario->lease.strict_bound)
        limit->burst += refill;
}

static void draw_window(struct scenario *scenario, struct world *world)
{
    struct caudal_limit *limit = &scenario->limit;
    limit->algorithm = chance_is(world, 500) ? CAUDAL_FIXED_WINDOW : CAUDAL_SLIDING_WINDOW;
    limit->count = (uint64_t)chance_magnitude(world, 1, 2000);
    limit->period_ns = (uint64_t)chance_magnitude(world, scenario->lease.ttl_ns / 2, 20 * scenario->lease.ttl_ns);
    scenario->lease.strict_bound = chance_is(world, 350);
}

/* Much is wanted of a bucket that is deep enough to hold what comes in while nobody can have heard of it. */
static void draw_busy_bucket(struct scenario *scenario, struct world *world)
{
    struct caudal_limit *limit = &scenario->limit;
    draw_rate(scenario, world, chance_magnitude(world, 1000, 30000));
    const int64_t refill = (int64_t)scenario_refill(scenario);
    limit->burst = (uint64_t)chance_between(world, 2 * refill + 2, 4 * refill + 8);
    scenario->lease.strict_bound = chance_is(world, 250);
    if (scenario->lease.strict_bound)
        limit->burst += (uint64_t)refill;
}

static void draw_network(struct scenario *scenario, struct world *world)
{
    const int64_t ttl_ns = scenario->lease.ttl_ns;
    scenario->delay_ns = chance_magnitude(world, 10 * MICROSECOND, ttl_ns);
    scenario->tail_per_mille = chance_is(world, 500) ? 0 : (unsigned)chance_below(world, 50);
    scenario->tail_ns = chance_between(world, scenario->delay_ns, 4 * ttl_ns);
    scenario->lost_per_mille = chance_is(world, 400) ? 0 : (unsigned)chance_below(world, 200);
    scenario->twice_per_mille = chance_is(world, 700) ? 0 : (unsigned)chance_below(world, 300);
    scenario->deadline_ns = chance_between(world, 3 * scenario->delay_ns, 3 * scenario->delay_ns + 2 * ttl_ns);
}

static void draw_disasters(struct scenario *scenario, struct world *world)
{
    draw_network(scenario, world);
    if (chance_is(world, 700)) {
        scenario->drift_least = chance_is(world, 300) ? 0 : -400;
        scenario->drift_most = 400;
    }
    scenario->steps = chance_is(world, 500);
    scenario->crashes = chance_is(world, 400) ? 0 : (unsigned)chance_below(world, 12);
    scenario->demand = (enum demand)chance_below(world, CHANGING + 1);
    scenario->keys = chance_is(world, 600) ? 1 : 1 + (unsigned)chance_below(world, KEYS_MAX);
    if (chance_is(world, 300)) {
        scenario->dear_per_mille = chance_below(world, 500);
        scenario->dear_cost = 2 + chance_below(world, 6);
    }
}

static void draw_peace(struct scenario *scenario, struct world *world)
{
    const int64_t ttl_ns = scenario->lease.ttl_ns;
    scenario->delay_ns = chance_magnitude(world, 10 * MICROSECOND, ttl_ns / 20);
    scenario->deadline_ns = ttl_ns;
    scenario->drift_least = -200;
    scenario->drift_most = 200;
}

/* `load` thousandths of the rate are wanted, in about so many requests. */
static void draw_length(struct scenario *scenario, int64_t load, int64_t requests)
{
    const cdl_u128 gap = (cdl_u128)scenario->limit.period_ns * 1000 / scenario->limit.count / (uint64_t)load;
    scenario->gap_ns = gap == 0 ? 1 : (int64_t)gap;
    scenario->length_ns = scenario->gap_ns * requests;
}

void scenario_draw(struct scenario *scenario, struct world *world, uint64_t seed)
{
    static const enum purpose turns[] = {TO_BREAK,  TO_BE_USED, TO_BREAK,     TO_SEE_EDGES,
                                         TO_REVERT, TO_BE_EVEN, TO_GIVE_BACK, TO_SEE_EDGES};
    *scenario = (struct scenario){
        .seed = seed, .purpose = turns[seed % 8], .limit = CAUDAL_LIMIT_INIT, .lease = CAUDAL_LEASE_INIT, .keys = 1};
    scenario->lease.ttl_ns = chance_magnitude(world, 10 * MILLISECOND, SECOND);
    scenario->lease.share_per_mille = chance_is(world, 500) ? 500 : (uint32_t)chance_between(world, 1, 1000);
    scenario->instances = (unsigned)chance_magnitude(world, 1, chance_is(world, 100) ? INSTANCES_MAX : 24);
    int64_t load = chance_magnitude(world, 200, 6000), requests = chance_between(world, 1000, 4000);
    switch (scenario->purpose) {
    case TO_SEE_EDGES:
        draw_window(scenario, world);
        draw_disasters(scenario, world);
        break;
    case TO_BREAK:
    case TO_REVERT:
        draw_bucket(scenario, world);
        draw_disasters(scenario, world);
        scenario->failovers = scenario->purpose == TO_REVERT ? 1 + (unsigned)chance_below(world, 4) : 0;
        break;
    case TO_GIVE_BACK:
        draw_busy_bucket(scenario, world);
        draw_rate(scenario, world, chance_magnitude(world, 20000, 150000));
        scenario->limit.burst = scenario_refill(scenario) * (uint64_t)chance_between(world, 3, 6);
        draw_peace(scenario, world);
        scenario->demand = VISITS;
        scenario->instances = (unsigned)chance_between(world, 2, 8);
        load = chance_between(world, 1050, 1600);
        requests = 6000;
        break;
    case TO_BE_USED:
    case TO_BE_EVEN:
        draw_busy_bucket(scenario, world);
        draw_peace(scenario, world);
        scenario->lease.share_per_mille = 500;
        scenario->instances = 1 + (unsigned)chance_below(world, 12);
        load = chance_between(world, 1400, 3000);
        requests = 7000;
        break;
    }
    draw_length(scenario, load, requests);
    scenario->is_bare = scenario->purpose == TO_BREAK && chance_is(world, 300);
}

void scenario_tell(const struct scenario *scenario, const struct world *world)
{
    char text[CAUDAL_LIMIT_TEXT_MAX] = "";
    caudal_limit_format(&scenario->limit, text, sizeof text);
    world_tell(world, "seed %llu, %s: %s, ttl %.3f ms, %s, %s", (unsigned long long)scenario->seed,
               purposes[scenario->purpose], text, (double)scenario->lease.ttl_ns / 1e6,
               scenario->lease.strict_bound ? "strict" : "not strict",
               scenario->is_bare ? "bare books" : "lease stores");
    world_tell(world, "share %u, %u instances, %u keys, %s, a request each %.3f ms for %.3f ms",
               scenario->lease.share_per_mille, scenario->instances, scenario->keys, demands[scenario->demand],
               (double)scenario->gap_ns / 1e6, (double)scenario->length_ns / 1e6);
    world_tell(world,
               "delay %.3f ms, %u/1000 up to %.3f ms, %u/1000 lost, %u/1000 twice, deadline %.3f ms, %u crashes, "
               "%u failovers, drift %d to %d",
               (double)scenario->delay_ns / 1e6, scenario->tail_per_mille, (double)scenario->tail_ns / 1e6,
               scenario->lost_per_mille, scenario->twice_per_mille, (double)scenario->deadline_ns / 1e6,
               scenario->crashes, scenario->failovers, scenario->drift_least, scenario->drift_most);
}
