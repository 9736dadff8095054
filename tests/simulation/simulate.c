/* Leases under simulation: the library's own lease store, in 1 to 200 instances over a network and a store that are simulated, for one run a
 * seed. What is asserted is in judges.h.
 *
 *     simulate --seeds 1-10000      runs them; prints TAP, a test for each judge, and each seed that failed
 *     simulate --seed 42 --trace    runs one and tells what happens
 *
 * Exit status: 0 when every run was right, 1 when one was not, 2 when the arguments are not understood. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "run.h"

/* A judge that had nothing to do in so many runs would be asleep. */
#define SEEDS_FOR_ALL_JUDGES 200
#define FAILURES_SHOWN 10

/* 2025-12-01T00:00:00Z */
#define START (INT64_C(1764547200) * SECOND)

void run_seed(struct run *run, uint64_t seed, bool tells)
{
    struct world *world = &run->world;
    world_begin(world, seed, START, tells);
    world->now_ns = world->began_ns = START + (int64_t)chance_below(world, 86400 * UINT64_C(1000000000));
    judges_begin(&run->judges);
    scenario_draw(&run->scenario, world, seed);
    scenario_tell(&run->scenario, world);
    run->asked = run->ended = run->leased = run->refused = run->by_store = 0;
    far_store_begin(run);
    instances_begin(run);
    const struct scenario *scenario = &run->scenario;
    const int64_t rest_ns = 3 * scenario->lease.ttl_ns + 2 * scenario->deadline_ns;
    while (world_step(world, world->began_ns + scenario->length_ns + rest_ns))
        continue;
    instances_end(run);
    judges_conclude(&run->judges, scenario, world);
    world_tell(world, "%llu asked, %llu by lease, %llu refused from memory, %llu by the store, %llu events",
               (unsigned long long)run->asked, (unsigned long long)run->leased, (unsigned long long)run->refused,
               (unsigned long long)run->by_store, (unsigned long long)world->planned);
    far_store_end(run);
}

void run_free(struct run *run)
{
    world_free(&run->world);
    judges_free(&run->judges);
}

struct tally {
    uint64_t seeds, sat[JUDGES], failed[JUDGES];
};

static void count(struct tally *tally, const struct run *run)
{
    const struct judges *judges = &run->judges;
    tally->seeds++;
    for (unsigned i = 0; i < JUDGES; i++) {
        tally->sat[i] += judges->sat[i] || judges->failed[i];
        tally->failed[i] += judges->failed[i];
        if (judges->failed[i] && tally->failed[i] <= FAILURES_SHOWN)
            printf("# seed %llu: %s: %s\n", (unsigned long long)run->scenario.seed, judge_names[i], judges->why[i]);
    }
}

static int report(const struct tally *tally)
{
    bool failed = false;
    printf("1..%u\n", JUDGES);
    for (unsigned i = 0; i < JUDGES; i++) {
        const bool asleep = tally->sat[i] == 0 && tally->seeds >= SEEDS_FOR_ALL_JUDGES;
        const bool good = tally->failed[i] == 0 && !asleep;
        printf("%s %u - %s (%llu seeds", good ? "ok" : "not ok", i + 1, judge_names[i],
               (unsigned long long)tally->sat[i]);
        if (tally->failed[i] > 0)
            printf(", %llu failed", (unsigned long long)tally->failed[i]);
        printf(")\n");
        failed |= !good;
    }
    return failed ? 1 : 0;
}

static bool read_number(const char *text, char **end, uint64_t *number)
{
    *number = strtoull(text, end, 10);
    return *end != text;
}

static bool read_arguments(char **arguments, uint64_t *from, uint64_t *to, bool *tells)
{
    char *end;
    bool found = false;
    for (; *arguments != NULL; arguments++) {
        if (strcmp(*arguments, "--trace") == 0) {
            *tells = true;
            continue;
        }
        const bool one = strcmp(*arguments, "--seed") == 0;
        if ((!one && strcmp(*arguments, "--seeds") != 0) || *++arguments == NULL ||
            !read_number(*arguments, &end, from))
            return false;
        *to = *from;
        if (!one && (*end != '-' || !read_number(end + 1, &end, to)))
            return false;
        if (*end != '\0' || *to < *from)
            return false;
        found = true;
    }
    return found;
}

int main(int count_of_arguments, char **arguments)
{
    uint64_t from = 0, to = 0;
    bool tells = false;
    if (count_of_arguments < 1 || !read_arguments(arguments + 1, &from, &to, &tells)) {
        fputs("usage: simulate --seeds FROM-TO | --seed N [--trace]\n", stderr);
        return 2;
    }
    struct run *run = calloc(1, sizeof *run);
    if (run == NULL)
        abort();
    struct tally tally = {0};
    for (uint64_t seed = from; seed <= to; seed++) {
        run_seed(run, seed, tells);
        count(&tally, run);
    }
    run_free(run);
    free(run);
    return report(&tally);
}
