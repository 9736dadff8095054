/* What a request has to be asked: a policy and a request become a plan, a list of questions to the store.
 *
 * Pure: no clock, no allocation, no I/O. The caller gives the memory that keys are written into. */
#ifndef CDL_POLICY_MATCH_H
#define CDL_POLICY_MATCH_H

#include "policy/policy.h"
#include "policy/request.h"

/* Enough scratch for a request as large as a server takes by default, whatever the policy. With less, a request that needs
 * more is refused as too long. */
#define CDL_MATCH_SCRATCH_BYTES ((size_t)256 << 10)

enum cdl_outcome {
    CDL_OUTCOME_LIMITED = 0, /* ask the store: `charges`, all together; none of them: nothing limits this request */
    CDL_OUTCOME_EXEMPT,      /* not limited: `exemption` says so */

    /* Refused without asking the store. `limit` says so, and `identity` is the index in its `per`. */
    CDL_OUTCOME_MISSING,   /* the request lacks an identity, and the limit denies such requests */
    CDL_OUTCOME_AMBIGUOUS, /* a header that is an identity was sent with two different values: which one would count? */
    CDL_OUTCOME_TOO_LONG,  /* a key is longer than CAUDAL_KEY_MAX, or the keys do not fit the scratch */
    CDL_OUTCOME_TOO_MANY,  /* more than CDL_PLAN_MAX limits apply to it */
};

/* One question to the store. */
struct cdl_charge {
    uint32_t limit;       /* index in the policy's limits */
    uint32_t override;    /* index in the limit's overrides, or CDL_NONE */
    uint32_t rate;        /* index in the policy's rates: what is enforced */
    struct cdl_slice key; /* borrowed from the scratch */
    uint64_t cost;
    struct caudal_limit per_call; /* what is enforced, of a rate that is per call; `size` 0: another */
    int64_t ends_at_ns;           /* when its window ends, by the realtime clock, if a calendar says so; else 0 */
};

struct cdl_plan {
    enum cdl_outcome outcome;
    uint32_t exemption, limit, identity; /* CDL_NONE where they have no meaning */
    uint32_t
        shadow_refusals; /* limits in shadow mode that would have refused without asking the store, and are not in `charges` */
    size_t count;
    struct cdl_charge charges[CDL_PLAN_MAX]; /* in the order of the policy */
};

/* `cost` is what the caller says that the request costs; CDL_COST_UNSAID: nothing. */
#define CDL_COST_UNSAID UINT64_MAX
void cdl_policy_match(const struct cdl_policy *policy, const struct cdl_request *request, uint64_t cost, char *scratch,
                      size_t scratch_size, struct cdl_plan *plan);

/* The key of values of a limit's `per`, in its order: what cdl_policy_match would count them under. Codes as caudal_key_join. */
int cdl_policy_key(const struct cdl_slice *values, size_t count, char *buffer, size_t size, size_t *length);

#endif
