/* START HERE: a request, a policy and a store become one answer.
 *
 *   match   which limits apply, and under which keys (policy/match.h)
 *   take    all limits that are enforced together, all or nothing; those in shadow mode each by itself, afterwards, and only of
 *           a request that passes: a refused request spends nothing
 *   combine the limit that binds speaks for all
 *   fail    what is answered when the store cannot say is chosen by each limit in the policy, in cdl_limiter_on_failure alone
 *
 * A policy that is in force is bound to the store's limits and counted by those who use it: a reload puts another one in force
 * at once, and what the old one needed and no other that is still in use is removed from the store when the last worker has left it. A limit that stays under
 * its name keeps its state; one whose rate has changed keeps what was spent (caudal_set_limit). */
#ifndef CDL_LIMITER_LIMITER_H
#define CDL_LIMITER_LIMITER_H

#include <stdatomic.h>

#include "caudal/store.h"
#include "policy/match.h"

struct cdl_limiter;

/* What a user of the limiter keeps beside each policy, and how it is freed once nobody uses the policy any more. */
struct cdl_attachment {
    void *data;
    void (*free)(void *data);
};

/* A policy in force. */
struct cdl_live_policy {
    struct cdl_policy *policy;
    struct caudal_store *store;
    struct cdl_limiter *limiter;
    uint64_t generation; /* 1 for the first, one more for each that came into force */
    uint32_t *rates;     /* the store's number of each of the policy's rates */
    struct cdl_attachment attachment;
    _Atomic uint32_t users;
    struct cdl_live_policy *next; /* older, or NULL; the limiter's */
};

/* The store must outlive the limiter. NULL when memory is short. */
struct cdl_limiter *cdl_limiter_open(struct caudal_store *store);
/* After every user has released its policy. */
void cdl_limiter_close(struct cdl_limiter *limiter);

/* Puts a policy in force. It is the limiter's from now on, with what is attached to it (NULL: nothing); on failure nothing has
 * changed, and both are still the caller's. */
int cdl_limiter_apply(struct cdl_limiter *limiter, struct cdl_policy *policy, const struct cdl_attachment *attachment,
                      struct caudal_problem *problem);

/* The policy in force, held until it is released; NULL before the first. Any thread. */
struct cdl_live_policy *cdl_limiter_acquire(struct cdl_limiter *limiter);
void cdl_limiter_release(struct cdl_live_policy *live);
/* Its generation; 0 before the first. Cheap: for finding out whether to acquire anew. */
uint64_t cdl_limiter_generation(const struct cdl_limiter *limiter);

enum cdl_answer_kind {
    CDL_ANSWER_ALLOWED,     /* also when no limit applies, or the request is exempt: then `count` is 0 */
    CDL_ANSWER_REFUSED,     /* by the limit `binding`, or without asking the store: see plan.outcome */
    CDL_ANSWER_UNAVAILABLE, /* the store could not say, and the limit is to fail closed */
};

struct cdl_answer {
    enum cdl_answer_kind kind;
    struct caudal_decision overall;                 /* of the limits that are enforced */
    uint32_t binding;                               /* index in plan.charges; CDL_NONE: no limit speaks */
    uint32_t shadow_refusals;                       /* limits in shadow mode that would have refused */
    struct caudal_decision decisions[CDL_PLAN_MAX]; /* one for each of plan.charges */
    struct cdl_plan plan;
};

/* Answers a request. `scratch` is CDL_MATCH_SCRATCH_BYTES of the caller's thread. */
void cdl_limiter_take(const struct cdl_live_policy *live, const struct cdl_request *request, uint64_t cost,
                      char *scratch, struct cdl_answer *answer);
/* Says what cdl_limiter_take would answer, and spends nothing. */
void cdl_limiter_peek(const struct cdl_live_policy *live, const struct cdl_request *request, uint64_t cost,
                      char *scratch, struct cdl_answer *answer);
/* Gives back to every limit of the request, as if it had been admitted at that cost. `overall` tells the one with least left. */
void cdl_limiter_refund(const struct cdl_live_policy *live, const struct cdl_request *request, uint64_t cost,
                        char *scratch, struct cdl_answer *answer);

/* One limit by its name, and a key by the values of its `per`. */
struct cdl_named_key {
    uint32_t limit; /* index in the policy's limits */
    const struct cdl_slice *values;
    size_t value_count;
};

enum cdl_named_operation {
    CDL_NAMED_TAKE,
    CDL_NAMED_PEEK,
    CDL_NAMED_REFUND,
    CDL_NAMED_RESET,
};

/* Takes, looks, gives back or forgets under that limit alone. Returns CAUDAL_OK with a decision (after a reset: the key as it is
 * now); CAUDAL_ERR_ARGUMENT when the number of values is not that of the limit's `per`; CAUDAL_ERR_KEY. A limit that is off
 * answers like any other here: it was asked for by name. */
int cdl_limiter_named(const struct cdl_live_policy *live, const struct cdl_named_key *key,
                      enum cdl_named_operation operation, uint64_t cost, char *scratch,
                      struct caudal_decision *decision);

/* The answer of a limit whose store failed with `status`: the only place where that is decided. */
struct caudal_decision cdl_limiter_on_failure(const struct cdl_limit_rule *limit, int status);

#endif
