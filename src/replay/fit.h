/* Which limit would have suited the requests that were seen of one. Pure: numbers of a report in, limits out. Each is fitted as if it
 * stood alone.
 *
 * The target is that of the report: something is refused to at most touch_share of the keys. All numbers are rounded up, to two
 * significant digits, which refuses nothing more. */
#ifndef CDL_REPLAY_FIT_H
#define CDL_REPLAY_FIT_H

#include "replay/report.h"

enum cdl_fit_result {
    CDL_FIT_FOUND,
    CDL_FIT_BURST_ONLY, /* found, but that no rate of the ladder carries the traffic: the rate is what it was */
    CDL_FIT_UNSEEN,     /* no request has met the limit */
    CDL_FIT_CHOSEN,     /* an unlimited rate or a count of 0 is a choice, and no estimate */
    CDL_FIT_NONE,       /* what would do is above what a limit of this algorithm may have */
};

#define CDL_FIT_ALTERNATIVES 2u

struct cdl_fit {
    enum cdl_fit_result result;
    struct caudal_limit limit; /* what was there, unless one was found */
    bool touches_none;         /* of the keys that were studied */
    uint32_t alternative_count;
    struct caudal_limit alternatives[CDL_FIT_ALTERNATIVES]; /* token buckets that meet the same target */
};

/* `rule` is the limit's in the policy; `seen` may be NULL: it saw nothing; `span_ns` is the time from the first to the last request. */
void cdl_fit_limit(const struct caudal_limit *now, const struct cdl_limit_rule *rule,
                   const struct cdl_replay_limit *seen, int64_t span_ns, struct cdl_fit *fit);

#endif
