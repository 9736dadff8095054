/* What a limit's sharing means for one of its rates. */
#include "base/arith.h"
#include "policy/policy.h"

bool cdl_rate_is_leased(const struct cdl_limit_rule *limit, const struct caudal_limit *rate)
{
    return limit->sharing == CDL_SHARING_LEASED && rate->algorithm != CAUDAL_SLIDING_LOG &&
           rate->algorithm != CAUDAL_UNLIMITED;
}

uint64_t cdl_lease_reserve(const struct cdl_lease_settings *lease, const struct caudal_limit *rate)
{
    if (rate->period_ns == 0)
        return 0; /* unlimited, or a limit that was not read */
    const cdl_u128 tokens = ((cdl_u128)rate->count * (uint64_t)lease->ttl_ns + rate->period_ns - 1) / rate->period_ns;
    return tokens > UINT64_MAX ? UINT64_MAX : (uint64_t)tokens;
}

uint64_t cdl_rate_capacity(const struct cdl_limit_rule *limit, const struct caudal_limit *rate)
{
    const uint64_t capacity = caudal_limit_capacity(rate);
    if (!limit->lease.strict_bound || !cdl_rate_is_leased(limit, rate) || rate->algorithm != CAUDAL_TOKEN_BUCKET)
        return capacity; /* a window's lease dies with the window: nothing has to be kept back */
    const uint64_t reserve = cdl_lease_reserve(&limit->lease, rate);
    return reserve < capacity ? capacity - reserve : 0;
}
