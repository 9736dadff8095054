/* A token bucket has two numbers, and a log tells for each rate of a ladder which burst goes with it: the lower the rate, the larger the
 * burst. Traffic has a knee. Below the rate that it sustains, bursts grow with the length of the log, for they carry what the rate should;
 * above the rate at which its clumps drain, more rate buys hardly any burst. At the knee the product of both is least, whatever the unit of
 * time. So a login page's three requests in a row get a burst of 3 and a low rate, and a steady client its rate and hardly a burst.
 *
 * A short log would make everything a clump. So rungs whose bucket does not refill within the log's time do not count; when none is
 * left, the log says nothing of the rate, and only the burst is fitted. */
#include "replay/fit.h"

#include "base/arith.h"

/* The smallest number of two significant digits that is not below. */
static uint64_t round_up(uint64_t number)
{
    uint64_t unit = 1;
    while (number / unit >= 100)
        unit *= 10;
    const uint64_t rest = number % unit;
    return rest == 0 || number > UINT64_MAX - unit ? number : number - rest + unit;
}

/* Any double from 0 to 2^63; without a C library's ceil, whose result is the same. */
static uint64_t ceiling(double number)
{
    const uint64_t whole = (uint64_t)number;
    return (double)whole < number ? whole + 1 : whole;
}

static bool is_legal(const struct caudal_limit *limit)
{
    return caudal_limit_check(limit, NULL) == CAUDAL_OK;
}

/* At least `rate` tokens in `period_ns`. A small number is rounded up by a lot, unless it counts in a longer period: 1.3 a minute are 13 in
 * ten minutes. */
static bool set_rate(struct caudal_limit *limit, double rate, uint64_t period_ns)
{
    const double most = (double)CAUDAL_CAPACITY_MAX;
    for (unsigned tens = 0; tens <= 2; tens++, rate *= 10, period_ns *= 10) {
        if (!(rate > 0 && rate <= most) || period_ns > CAUDAL_REFILL_MAX_NS)
            return false;
        limit->count = round_up(ceiling(rate));
        limit->period_ns = period_ns;
        if ((double)limit->count <= 1.15 * rate || period_ns > CAUDAL_REFILL_MAX_NS / 10)
            break;
    }
    return true;
}

/* What a bucket has to hold so that `burst` can be had of it, and the cost of a request, and a lease's reserve stays out of reach. */
static void set_burst(struct caudal_limit *limit, uint64_t burst, const struct cdl_limit_rule *rule)
{
    burst = burst > rule->cost.standard ? burst : rule->cost.standard;
    burst = burst > 0 ? burst : 1;
    limit->burst = burst;
    if (rule->lease.strict_bound && cdl_rate_is_leased(rule, limit))
        limit->burst += cdl_min_u64(cdl_lease_reserve(&rule->lease, limit), CAUDAL_CAPACITY_MAX);
    limit->burst = round_up(limit->burst);
}

/* The bucket of one rung; false when there is none. */
static bool bucket_of_rung(const struct cdl_replay_limit *seen, const struct cdl_limit_rule *rule, unsigned n,
                           struct caudal_limit *limit)
{
    const struct cdl_replay_rung *rung = &seen->rungs[n];
    *limit = (struct caudal_limit)CAUDAL_LIMIT_INIT;
    if (rung->burst.for_most > CAUDAL_CAPACITY_MAX || !set_rate(limit, rung->rate, seen->what.period_ns))
        return false;
    set_burst(limit, rung->burst.for_most, rule);
    return is_legal(limit);
}

static double rate_of(const struct caudal_limit *limit)
{
    return (double)limit->count / (double)limit->period_ns;
}

/* The rung of the knee, or CDL_STUDY_RATES. */
static unsigned find_knee(const struct cdl_replay_limit *seen, const struct cdl_limit_rule *rule, int64_t span_ns)
{
    unsigned best = CDL_STUDY_RATES;
    double least = 0;
    for (unsigned n = 0; n < CDL_STUDY_RATES; n++) {
        struct caudal_limit limit;
        if (!bucket_of_rung(seen, rule, n, &limit) || (double)limit.burst > rate_of(&limit) * (double)span_ns)
            continue;
        const double product = (double)limit.burst * rate_of(&limit);
        if (best == CDL_STUDY_RATES || product < least) {
            best = n;
            least = product;
        }
    }
    return best;
}

/* Buckets of about half and twice the rate, or what comes next to them. */
static void add_alternatives(const struct cdl_replay_limit *seen, const struct cdl_limit_rule *rule, unsigned beside,
                             struct cdl_fit *fit)
{
    static const int steps[] = {-2, 2, -4, 4, -1, 1};
    for (size_t i = 0; i < sizeof steps / sizeof steps[0] && fit->alternative_count < CDL_FIT_ALTERNATIVES; i++) {
        const int n = (int)beside + steps[i];
        struct caudal_limit *limit = &fit->alternatives[fit->alternative_count];
        if (n >= 0 && n < (int)CDL_STUDY_RATES && bucket_of_rung(seen, rule, (unsigned)n, limit))
            fit->alternative_count++;
    }
}

static void take(struct cdl_fit *fit, enum cdl_fit_result result, const struct caudal_limit *limit,
                 uint64_t needed_for_all)
{
    fit->result = result;
    fit->limit = *limit;
    fit->touches_none = caudal_limit_capacity(limit) >= needed_for_all;
}

static void fit_bucket(const struct cdl_replay_limit *seen, const struct cdl_limit_rule *rule, int64_t span_ns,
                       struct cdl_fit *fit)
{
    const unsigned knee = find_knee(seen, rule, span_ns);
    const unsigned n = knee < CDL_STUDY_RATES ? knee : CDL_STUDY_OWN_RATE;
    struct caudal_limit limit;
    if (!bucket_of_rung(seen, rule, n, &limit))
        return;
    if (n == CDL_STUDY_OWN_RATE) {
        limit.count = fit->limit.count; /* as the policy says it, also where that is not round */
        limit.period_ns = fit->limit.period_ns;
        set_burst(&limit, seen->rungs[n].burst.for_most, rule);
        if (!is_legal(&limit))
            return;
    }
    take(fit, knee < CDL_STUDY_RATES ? CDL_FIT_FOUND : CDL_FIT_BURST_ONLY, &limit, seen->rungs[n].burst.for_all);
    add_alternatives(seen, rule, n, fit);
}

static uint64_t twice(uint64_t count)
{
    return count > UINT64_MAX / 2 ? UINT64_MAX : 2 * count;
}

/* The most that a key asked for in any period, however it lies, but for a few keys. It lies in two windows of the clock; and it conforms to
 * each bucket of the ladder that suits the key, which lets no more through than its burst and one period's tokens. */
static uint64_t count_of_log(const struct cdl_replay_limit *seen)
{
    uint64_t count = twice(seen->fixed_count.for_most);
    for (unsigned n = 0; n < CDL_STUDY_RATES; n++) {
        const struct cdl_replay_rung *rung = &seen->rungs[n];
        if (rung->burst.for_most <= CAUDAL_CAPACITY_MAX && rung->rate > 0 && rung->rate < (double)CAUDAL_CAPACITY_MAX)
            count = cdl_min_u64(count, rung->burst.for_most + ceiling(rung->rate));
    }
    return count;
}

static void fit_window(const struct cdl_replay_limit *seen, const struct cdl_limit_rule *rule, int64_t span_ns,
                       struct cdl_fit *fit)
{
    struct caudal_limit limit = fit->limit;
    const bool is_log = limit.algorithm == CAUDAL_SLIDING_LOG;
    const struct cdl_replay_headroom *count = limit.algorithm == CAUDAL_FIXED_WINDOW ? &seen->fixed_count
                                                                                     : &seen->sliding_count;
    const uint64_t for_most = is_log ? count_of_log(seen) : count->for_most;
    const uint64_t least = rule->cost.standard > 0 ? rule->cost.standard : 1;
    const unsigned knee = find_knee(seen, rule, span_ns), n = knee < CDL_STUDY_RATES ? knee : CDL_STUDY_OWN_RATE;
    fit->alternative_count = bucket_of_rung(seen, rule, n, &fit->alternatives[0]);
    add_alternatives(seen, rule, n, fit);
    limit.count = round_up(for_most > least ? for_most : least);
    if (is_legal(&limit))
        take(fit, CDL_FIT_FOUND, &limit, is_log ? twice(seen->fixed_count.for_all) : count->for_all);
}

void cdl_fit_limit(const struct caudal_limit *now, const struct cdl_limit_rule *rule,
                   const struct cdl_replay_limit *seen, int64_t span_ns, struct cdl_fit *fit)
{
    *fit = (struct cdl_fit){.result = CDL_FIT_NONE, .limit = *now};
    if (now->algorithm == CAUDAL_UNLIMITED || now->count == 0)
        fit->result = CDL_FIT_CHOSEN;
    else if (seen == NULL || seen->requests == 0 || seen->requests == seen->unstudied)
        fit->result = CDL_FIT_UNSEEN;
    else if (now->algorithm == CAUDAL_TOKEN_BUCKET)
        fit_bucket(seen, rule, span_ns, fit);
    else
        fit_window(seen, rule, span_ns, fit);
}
