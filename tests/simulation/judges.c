#include "judges.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arith.h"

const char *const judge_names[JUDGES] = {"bound",    "windows", "holdings", "remaining", "refusals",
                                         "stranded", "use",     "shares",   "ends"};

void judges_begin(struct judges *judges)
{
    struct admission *const admissions = judges->admissions;
    const size_t room = judges->room;
    memset(judges, 0, sizeof *judges);
    judges->admissions = admissions;
    judges->room = room;
}

void judges_free(struct judges *judges)
{
    free(judges->admissions);
    memset(judges, 0, sizeof *judges);
}

void judge_fails(struct judges *judges, enum judge judge, const struct world *world, const char *format, ...)
{
    char why[200];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(why, sizeof why, format, arguments);
    va_end(arguments);
    world_tell(world, "FAILED %s: %s", judge_names[judge], why);
    if (!judges->failed[judge])
        snprintf(judges->why[judge], sizeof judges->why[judge], "at %.6f ms: %s",
                 (double)(world->now_ns - world->began_ns) / 1e6, why);
    judges->failed[judge] = true;
}

void judges_admit(struct judges *judges, struct admission admission)
{
    if (judges->count == judges->room) {
        judges->room = judges->room == 0 ? 4096 : 2 * judges->room;
        judges->admissions = realloc(judges->admissions, judges->room * sizeof judges->admissions[0]);
        if (judges->admissions == NULL)
            abort();
    }
    judges->admissions[judges->count++] = admission;
}

static int by_key_and_time(const void *one, const void *other)
{
    const struct admission *a = one, *b = other;
    if (a->key != b->key)
        return a->key < b->key ? -1 : 1;
    return a->at_ns != b->at_ns ? (a->at_ns < b->at_ns ? -1 : 1) : (int)b->leased - (int)a->leased;
}

/* What the slowest clock takes for a ttl. Clocks show whole nanoseconds. */
static int64_t longest_ttl(const struct scenario *scenario)
{
    const int64_t ttl_ns = scenario->lease.ttl_ns, million = 1000000;
    if (scenario->drift_least >= 0)
        return ttl_ns;
    return (int64_t)((cdl_u128)(ttl_ns + 1) * (uint64_t)million / (uint64_t)(million + scenario->drift_least)) + 1;
}

/* ---- buckets ---- */

/* All in units of 1/period tokens, of which count are refilled in a nanosecond. */
static void judge_bound(struct judges *judges, const struct scenario *scenario, const struct world *world)
{
    const struct caudal_limit *limit = &scenario->limit;
    const uint64_t capacity = limit->burst - (scenario->lease.strict_bound ? scenario_refill(scenario) : 0);
    const cdl_u128 bound = (cdl_u128)capacity * limit->period_ns * (scenario->failovers + 1) +
                           (cdl_u128)limit->count * (uint64_t)longest_ttl(scenario);
    cdl_u128 surplus = 0;
    for (size_t i = 0; i < judges->count; i++) {
        const struct admission *now = &judges->admissions[i], *before = i > 0 ? now - 1 : now;
        if (i == 0 || before->key != now->key)
            surplus = 0;
        else {
            const cdl_u128 refilled = (cdl_u128)limit->count * (uint64_t)(now->at_ns - before->at_ns);
            surplus = surplus > refilled ? surplus - refilled : 0;
        }
        surplus += (cdl_u128)now->cost * limit->period_ns;
        judges->sat[BOUND] = true;
        if (surplus > bound) {
            judge_fails(judges, BOUND, world, "key %u: %.3f tokens above the bound of %.3f, by %.6f ms", now->key,
                        (double)(surplus - bound) / (double)limit->period_ns, (double)bound / (double)limit->period_ns,
                        (double)(now->at_ns - world->began_ns) / 1e6);
            return;
        }
    }
}

/* ---- windows ---- */

struct window {
    int64_t index;
    uint64_t previous, current;
};

static void open_window(struct window *window, int64_t index)
{
    window->previous = index == window->index + 1 ? window->current : 0;
    window->current = 0;
    window->index = index;
}

static bool fits(const struct window *window, const struct scenario *scenario, int64_t at_ns)
{
    const uint64_t period = scenario->limit.period_ns;
    const uint64_t into = (uint64_t)(at_ns - window->index * (int64_t)period);
    cdl_u128 sum = (cdl_u128)window->current * period;
    if (scenario->limit.algorithm == CAUDAL_SLIDING_WINDOW && scenario->failovers == 0)
        sum += (cdl_u128)window->previous * (period - into);
    return sum <= (cdl_u128)scenario->limit.count * period * (scenario->failovers + 1);
}

static void judge_windows(struct judges *judges, const struct scenario *scenario, const struct world *world)
{
    const int64_t period_ns = (int64_t)scenario->limit.period_ns;
    const int64_t late_ns = longest_ttl(scenario) - scenario->lease.ttl_ns;
    struct window window = {.index = INT64_MIN};
    for (size_t i = 0; i < judges->count; i++) {
        const struct admission *now = &judges->admissions[i];
        const int64_t index = now->at_ns / period_ns;
        if (i == 0 || now->key != judges->admissions[i - 1].key)
            window = (struct window){.index = index};
        judges->sat[WINDOWS] = true;
        if (index != window.index && now->leased && now->at_ns - index * period_ns <= late_ns) {
            struct window before = window;
            if (before.index != index - 1)
                open_window(&before, index - 1);
            before.current += now->cost;
            if (fits(&before, scenario, index * period_ns - 1)) {
                window = before;
                continue;
            }
        }
        if (index > window.index)
            open_window(&window, index);
        window.current += now->cost;
        if (!fits(&window, scenario, now->at_ns)) {
            judge_fails(judges, WINDOWS, world, "key %u: %llu and %llu before in the window at %.6f ms", now->key,
                        (unsigned long long)window.current, (unsigned long long)window.previous,
                        (double)(now->at_ns - world->began_ns) / 1e6);
            return;
        }
    }
}

/* ---- use and shares ---- */

static double admitted_between(const struct judges *judges, int64_t from_ns, int64_t to_ns, double *each)
{
    double sum = 0;
    for (size_t i = 0; i < judges->count; i++) {
        const struct admission *admission = &judges->admissions[i];
        if (admission->at_ns < from_ns || admission->at_ns >= to_ns)
            continue;
        sum += (double)admission->cost;
        if (each != NULL)
            each[admission->instance] += (double)admission->cost;
    }
    return sum;
}

/* When the capacity that was there at the beginning has been used up. */
static int64_t when_busy(const struct scenario *scenario, const struct world *world)
{
    const double rate = (double)scenario->limit.count / (double)scenario->limit.period_ns;
    const double wanted = 1 / (double)scenario->gap_ns;
    return world->began_ns + 5 * scenario->lease.ttl_ns +
           (int64_t)(1.5 * (double)scenario->limit.burst / (wanted - rate));
}

static void judge_use(struct judges *judges, const struct scenario *scenario, const struct world *world)
{
    const int64_t from_ns = when_busy(scenario, world), to_ns = world->began_ns + scenario->length_ns;
    if (to_ns - from_ns < 30 * scenario->lease.ttl_ns)
        return;
    judges->sat[USE] = true;
    const double refilled = (double)scenario->limit.count / (double)scenario->limit.period_ns *
                            (double)(to_ns - from_ns);
    const double admitted = admitted_between(judges, from_ns, to_ns, NULL);
    if (admitted < 0.99 * refilled - (double)scenario_refill(scenario) - 1)
        judge_fails(judges, USE, world, "%.1f of %.1f tokens were used (%.2f %%)", admitted, refilled,
                    100 * admitted / refilled);
}

static void judge_shares_of(struct judges *judges, const struct scenario *scenario, const struct world *world,
                            unsigned instances, int64_t from_ns, int64_t to_ns)
{
    double each[INSTANCES_MAX] = {0};
    const double sum = admitted_between(judges, from_ns, to_ns, each);
    if (instances < 2 || to_ns - from_ns < 5 * scenario->lease.ttl_ns || sum < 100 * instances)
        return;
    judges->sat[SHARES] = true;
    double squares = 0, least = each[0], most = each[0];
    for (unsigned i = 0; i < instances; i++) {
        squares += each[i] * each[i];
        least = each[i] < least ? each[i] : least;
        most = each[i] > most ? each[i] : most;
    }
    const double jain = sum * sum / (instances * squares);
    const double chances = 6 * sqrt(sum / instances);
    if (jain < 0.99 && most - least > (double)judges->biggest_batch + chances)
        judge_fails(judges, SHARES, world,
                    "%.0f to %.0f tokens each of %u instances, Jain's index %.4f, batches of %llu", least, most,
                    instances, jain, (unsigned long long)judges->biggest_batch);
}

/* Half of the instances begin in the middle of the run. */
static void judge_shares(struct judges *judges, const struct scenario *scenario, const struct world *world)
{
    const int64_t middle_ns = world->began_ns + scenario->length_ns / 2, ttl_ns = scenario->lease.ttl_ns;
    judge_shares_of(judges, scenario, world, (scenario->instances + 1) / 2, world->began_ns + 3 * ttl_ns, middle_ns);
    judge_shares_of(judges, scenario, world, scenario->instances, middle_ns + 3 * ttl_ns,
                    world->began_ns + scenario->length_ns);
}

void judges_conclude(struct judges *judges, const struct scenario *scenario, const struct world *world)
{
    qsort(judges->admissions, judges->count, sizeof judges->admissions[0], by_key_and_time);
    if (scenario->limit.algorithm == CAUDAL_TOKEN_BUCKET)
        judge_bound(judges, scenario, world);
    else
        judge_windows(judges, scenario, world);
    if (scenario->purpose == TO_BE_USED)
        judge_use(judges, scenario, world);
    if (scenario->purpose == TO_BE_EVEN)
        judge_shares(judges, scenario, world);
}
