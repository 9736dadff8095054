/* Who says whether a run was right.
 *
 * bound      what a bucket admits, over all instances and in every interval of length t, is at most C + r·(t + ttl), where C is the
 *            capacity in the store: B, or B − ⌈r·ttl⌉ with strict_bound, which makes it at most B + r·t. Judged in one pass and in
 *            whole numbers: the greatest surplus over all beginnings falls with time and grows with what is admitted. An
 *            instance measures ttl by a clock of its own; ttl here is what the slowest of them takes for it. Each failover may
 *            give the capacity away once more. And no giving back credits more than is left of the charge.
 * windows    at most N are admitted in each window; of a sliding one, also by its weighted sum at each admission. Where clocks are slower than the
 *            store's, a lease may outlive its window's edge by what they lose in a ttl: what was spent in that time after an edge counts as
 *            before it, if there was room.
 * holdings   an instance spends from leases only what it withdrew, was told of, has not spent or given back, and what is not too
 *            old. This finds at once what would break a bound only with bad luck.
 * remaining  a leased decision names no more than that.
 * refusals   a refusal is repeated from memory only while the store would refuse, and the wait that it names ends no later than the store's.
 *            Not judged where tokens were given back or a store reverted since, nor by clocks that are slow.
 * stranded   no withdrawal is of more than ⌈r·ttl⌉ tokens, and no instance holds more of one key: what a crash takes along has been refilled
 *            after ttl.
 * use        where more is wanted than there is, at least 99 % of the rate is admitted, less the tokens of one ttl, which may be held
 *            unspent when the counting ends.
 * shares     instances that want equally much are admitted equally much, from 3 ttl after a change on: Jain's index is at least 0.99, or
 *            the greatest and the smallest differ by no more than one batch and what chance does to those who are decided by the store one by
 *            one, first come, first served: six standard deviations, √(mean) each.
 * ends       every call ends exactly once. */
#ifndef TESTS_SIMULATION_JUDGES_H
#define TESTS_SIMULATION_JUDGES_H

#include "scenario.h"

enum judge {
    BOUND,
    WINDOWS,
    HOLDINGS,
    REMAINING,
    REFUSALS,
    STRANDED,
    USE,
    SHARES,
    ENDS,
    JUDGES
};

extern const char *const judge_names[JUDGES];

struct admission {
    int64_t at_ns;
    uint64_t cost;
    uint16_t key, instance;
    bool leased;
};

struct judges {
    struct admission *admissions;
    size_t count, room;
    uint64_t biggest_batch;
    bool sat[JUDGES]; /* had something to judge */
    bool failed[JUDGES];
    char why[JUDGES][240]; /* of the first failure */
};

/* The memory for admissions is kept from run to run. */
void judges_begin(struct judges *judges);
void judges_free(struct judges *judges);

void judge_fails(struct judges *judges, enum judge judge, const struct world *world, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
void judges_admit(struct judges *judges, struct admission admission);
/* When all is over: bound, windows, use and shares. */
void judges_conclude(struct judges *judges, const struct scenario *scenario, const struct world *world);

#endif
