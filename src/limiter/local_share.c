#include "limiter/local_share.h"

#include "base/arith.h"

struct cdl_ratio cdl_local_ratio(const struct cdl_policy *policy, const struct cdl_limit_rule *limit)
{
    if (limit->local_share.denominator != 0)
        return limit->local_share;
    return (struct cdl_ratio){1, policy->instances > 0 ? policy->instances : 1};
}

static uint64_t greatest_divisor(cdl_u128 a, cdl_u128 b)
{
    while (b != 0) {
        const cdl_u128 rest = a % b;
        a = b;
        b = rest;
    }
    return (uint64_t)a;
}

/* Whole tokens, rounded down; one of them is left, if there was any. */
static uint64_t part_of(uint64_t tokens, struct cdl_ratio share)
{
    const uint64_t part = (uint64_t)((cdl_u128)tokens * share.numerator / share.denominator);
    return part > 0 ? part : cdl_min_u64(tokens, 1);
}

/* Whether `scaled` can be enforced at count/period; then it is set to that. */
static bool try_rate(struct caudal_limit *scaled, cdl_u128 count, cdl_u128 period_ns)
{
    if (count > UINT64_MAX || period_ns > UINT64_MAX)
        return false;
    scaled->count = (uint64_t)count;
    scaled->period_ns = (uint64_t)period_ns;
    return caudal_limit_check(scaled, NULL) == CAUDAL_OK;
}

/* The rate times the share: exactly, in the policy's own period if that divides; in lowest terms; or else, the bounds of what can be
 * enforced being what they are, the nearest below. A rate that is too slow for any period is none: what is there can be spent. */
static void scale_rate(struct caudal_limit *scaled, const struct caudal_limit *limit, struct cdl_ratio share)
{
    const cdl_u128 count = (cdl_u128)limit->count * share.numerator;
    const uint64_t common = greatest_divisor(count, share.denominator);
    const cdl_u128 period_ns = (cdl_u128)limit->period_ns * (share.denominator / common);
    if (try_rate(scaled, count / common, period_ns))
        return;
    const uint64_t lowest = greatest_divisor(count / common, period_ns);
    if (try_rate(scaled, count / common / lowest, period_ns / lowest))
        return;
    if (count >= share.denominator && try_rate(scaled, count / share.denominator, limit->period_ns))
        return;
    const cdl_u128 whole = (cdl_u128)limit->period_ns * share.denominator;
    if (count == 0 || !try_rate(scaled, 1, (whole + count - 1) / count))
        try_rate(scaled, 0, limit->period_ns);
}

struct caudal_limit cdl_local_limit(const struct caudal_limit *limit, struct cdl_ratio share)
{
    struct caudal_limit scaled = *limit;
    if (limit->algorithm == CAUDAL_UNLIMITED)
        return scaled;
    if (limit->algorithm != CAUDAL_TOKEN_BUCKET) {
        scaled.count = part_of(limit->count, share);
        return scaled;
    }
    scaled.burst = part_of(caudal_limit_capacity(limit), share);
    scale_rate(&scaled, limit, share);
    return scaled;
}
