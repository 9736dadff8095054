/* Which limits can be enforced exactly.
 *
 * The algorithms compute with products of a count and a time. The bounds of caudal/limit.h are chosen so that such a
 * product fits 128 bits with room to spare, and so that the time from empty to full fits an int64_t of nanoseconds.
 * They are enforced here, once, when a limit is made; the code that decides relies on them and does not check again.
 *
 * Comparisons are multiplied out instead of divided, so they are exact at the edge: a bucket that refills in exactly a
 * hundred years is legal, one that takes a fraction of a nanosecond more is not.
 */
#include "algorithm/limit.h"

#include <inttypes.h>

#include "base/arith.h"
#include "base/problem.h"

/* The messages below name these bounds in words. */
_Static_assert(CAUDAL_CAPACITY_MAX == UINT64_C(1) << 40, "messages say 2^40");
_Static_assert(CAUDAL_REFILL_MAX_NS == UINT64_C(36525) * 86400 * CDL_NS_PER_S, "messages say 100 years");
_Static_assert(CAUDAL_REFILL_MAX_NS <= INT64_MAX, "the time from empty to full fits an int64_t");

const char *caudal_algorithm_name(enum caudal_algorithm algorithm)
{
    switch (algorithm) {
    case CAUDAL_TOKEN_BUCKET:
        return "token_bucket";
    case CAUDAL_FIXED_WINDOW:
        return "fixed_window";
    case CAUDAL_SLIDING_WINDOW:
        return "sliding_window";
    case CAUDAL_SLIDING_LOG:
        return "sliding_log";
    case CAUDAL_UNLIMITED:
        return "unlimited";
    }
    return NULL; /* not in a `default:`, so that the compiler names a case that is missing above */
}

uint64_t caudal_limit_capacity(const struct caudal_limit *limit)
{
    if (limit == NULL)
        return 0;
    if (limit->algorithm == CAUDAL_UNLIMITED)
        return UINT64_MAX;
    if (limit->algorithm == CAUDAL_TOKEN_BUCKET && limit->burst != CAUDAL_BURST_DEFAULT)
        return limit->burst;
    return limit->count;
}

/* Faults of the calling program rather than of the limit that somebody chose. */
static int check_argument(const struct caudal_limit *limit, struct caudal_problem *problem)
{
    if (limit == NULL)
        return cdl_problem(problem, CAUDAL_ERR_ARGUMENT, 0, "the limit is NULL");
    if (limit->size != sizeof *limit)
        return cdl_problem(problem, CAUDAL_ERR_ARGUMENT, 0,
                           "a limit's size field is %zu, not %zu; start from CAUDAL_LIMIT_INIT", limit->size,
                           sizeof *limit);
    if (caudal_algorithm_name(limit->algorithm) == NULL)
        return cdl_problem(problem, CAUDAL_ERR_ARGUMENT, 0, "there is no algorithm with the number %d",
                           (int)limit->algorithm);
    return CAUDAL_OK;
}

/* A number on a limit that ignores numbers is a contradiction, and most likely a mistake in the algorithm. */
static int check_unlimited(const struct caudal_limit *limit, struct caudal_problem *problem)
{
    if (limit->count != 0 || limit->period_ns != 0 || limit->burst != CAUDAL_BURST_DEFAULT)
        return cdl_problem(problem, CAUDAL_ERR_LIMIT, 0,
                           "unlimited has no count, period or burst; leave them as CAUDAL_LIMIT_INIT sets them");
    return CAUDAL_OK;
}

static int check_rate(const struct caudal_limit *limit, const struct cdl_limit_places *places,
                      struct caudal_problem *problem)
{
    if (limit->period_ns == 0)
        return cdl_problem(problem, CAUDAL_ERR_LIMIT, places->period, "a period of 0 is no period; give a longer one");
    if (limit->period_ns > CAUDAL_REFILL_MAX_NS)
        return cdl_problem(problem, CAUDAL_ERR_LIMIT, places->period,
                           "a period of %" PRIu64 " ns is above 100 years; give a shorter one", limit->period_ns);
    if ((cdl_u128)limit->count * CDL_NS_PER_S > (cdl_u128)limit->period_ns * CAUDAL_RATE_MAX_PER_SECOND)
        return cdl_problem(problem, CAUDAL_ERR_LIMIT, places->count,
                           "a rate of %" PRIu64 " per %" PRIu64
                           " ns is above %u a second; give a smaller count or a longer period",
                           limit->count, limit->period_ns, CAUDAL_RATE_MAX_PER_SECOND);
    return CAUDAL_OK;
}

static int check_bucket(const struct caudal_limit *limit, const struct cdl_limit_places *places,
                        struct caudal_problem *problem)
{
    size_t place = limit->burst == CAUDAL_BURST_DEFAULT ? places->count : places->burst;
    uint64_t capacity = caudal_limit_capacity(limit);
    if (capacity > CAUDAL_CAPACITY_MAX)
        return cdl_problem(problem, CAUDAL_ERR_LIMIT, place,
                           "a capacity of %" PRIu64 " is above 2^40; give a smaller burst", capacity);
    /* From empty to full takes capacity·period/count. A count of 0 never refills, by choice. */
    if (limit->count > 0 && (cdl_u128)capacity * limit->period_ns > (cdl_u128)limit->count * CAUDAL_REFILL_MAX_NS)
        return cdl_problem(problem, CAUDAL_ERR_LIMIT, place,
                           "a burst of %" PRIu64 " at %" PRIu64 " per %" PRIu64
                           " ns takes above 100 years to refill; give a smaller burst or a higher rate",
                           capacity, limit->count, limit->period_ns);
    return CAUDAL_OK;
}

static int check_window(const struct caudal_limit *limit, const struct cdl_limit_places *places,
                        struct caudal_problem *problem)
{
    if (limit->burst != CAUDAL_BURST_DEFAULT)
        return cdl_problem(problem, CAUDAL_ERR_LIMIT, places->burst,
                           "a burst of %" PRIu64 " on a %s: only a token_bucket has one; leave it out", limit->burst,
                           caudal_algorithm_name(limit->algorithm));
    if (limit->algorithm == CAUDAL_SLIDING_LOG && limit->count > CAUDAL_LOG_COUNT_MAX)
        return cdl_problem(problem, CAUDAL_ERR_LIMIT, places->count,
                           "a count of %" PRIu64 " is above the %u of a sliding_log; give a smaller one, "
                           "or another algorithm",
                           limit->count, CAUDAL_LOG_COUNT_MAX);
    if (limit->count > CAUDAL_CAPACITY_MAX)
        return cdl_problem(problem, CAUDAL_ERR_LIMIT, places->count,
                           "a count of %" PRIu64 " is above 2^40; give a smaller one", limit->count);
    return CAUDAL_OK;
}

/* Limits that come with each call are checked each time, and most are far from any bound: at most a million tokens, of which each comes within
 * half an hour and none faster than one a nanosecond. */
#define FAR_BURST (UINT64_C(1) << 20)
#define FAR_PERIOD_NS (UINT64_C(1) << 41)
_Static_assert(FAR_BURST *FAR_PERIOD_NS <= CAUDAL_REFILL_MAX_NS && FAR_BURST <= CAUDAL_CAPACITY_MAX, "within both");

static inline bool is_far_from_bounds(const struct caudal_limit *limit)
{
    return limit->size == sizeof *limit && limit->algorithm == CAUDAL_TOKEN_BUCKET && limit->count > 0 &&
           limit->count <= limit->period_ns && limit->period_ns <= FAR_PERIOD_NS && limit->burst <= FAR_BURST;
}

int cdl_limit_check_at(const struct caudal_limit *limit, const struct cdl_limit_places *places,
                       struct caudal_problem *problem)
{
    int status = check_argument(limit, problem);
    if (status != CAUDAL_OK)
        return status;
    if (limit->algorithm == CAUDAL_UNLIMITED)
        return check_unlimited(limit, problem);
    status = check_rate(limit, places, problem);
    if (status != CAUDAL_OK)
        return status;
    if (limit->algorithm == CAUDAL_TOKEN_BUCKET)
        return check_bucket(limit, places, problem);
    return check_window(limit, places, problem);
}

int caudal_limit_check(const struct caudal_limit *limit, struct caudal_problem *problem)
{
    static const struct cdl_limit_places nowhere = {0};
    if (limit != NULL && is_far_from_bounds(limit))
        return CAUDAL_OK;
    return cdl_limit_check_at(limit, &nowhere, problem);
}
