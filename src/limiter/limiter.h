/* START HERE: a request, a policy and a store become one answer.
 *
 *   match   which limits apply, and under which keys (policy/match.h)
 *   take    all limits that are enforced together, all or nothing; those in shadow mode each by itself, afterwards, and only of
 *           a request that passes: a refused request spends nothing. Limits that are counted here (`sharing: local`) go first
 *           and are given back when the store refuses
 *   combine the limit that binds speaks for all
 *   fail    what is answered when the store cannot say is chosen by each limit in the policy, in cdl_limiter_on_failure alone
 *
 * A store may answer at once or later (store/call.h), and so does the limiter: inquiry.c takes these steps either way.
 *
 * A policy that is in force is bound to the store's limits and counted by those who use it: a reload puts another one in force
 * at once, and what the old one needed and no other that is still in use is removed from the store when the last worker has left it. A limit that stays under
 * its name keeps its state; one whose rate has changed keeps what was spent (caudal_set_limit). */
#ifndef CDL_LIMITER_LIMITER_H
#define CDL_LIMITER_LIMITER_H

#include <stdatomic.h>

#include "policy/match.h"
#include "store/call.h"

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
    /* Where limits are counted that are shared with nobody, always or while the store is away, and its number of each of their rates;
     * CDL_NONE for others. NULL where no limit is to. */
    struct caudal_store *local;
    uint32_t *local_rates;
    struct cdl_attachment attachment;
    _Atomic uint32_t users;
    struct cdl_live_policy *next; /* older, or NULL; the limiter's */
};

/* The store must outlive the limiter. NULL when memory is short. */
struct cdl_limiter *cdl_limiter_open(struct caudal_store *store);
/* After every user has released its policy. */
void cdl_limiter_close(struct cdl_limiter *limiter);
/* The store is about to be closed: nothing is removed from it any more, which takes a look at the whole table for each limit. */
void cdl_limiter_leave_store(struct cdl_limiter *limiter);

/* Puts a policy in force. It is the limiter's from now on, with what is attached to it (NULL: nothing); on failure nothing has
 * changed, and both are still the caller's. */
int cdl_limiter_apply(struct cdl_limiter *limiter, struct cdl_policy *policy, const struct cdl_attachment *attachment,
                      struct caudal_problem *problem);

/* The policy in force, held until it is released; NULL before the first. Any thread. */
struct cdl_live_policy *cdl_limiter_acquire(struct cdl_limiter *limiter);
void cdl_limiter_release(struct cdl_live_policy *live);
/* Its generation; 0 before the first. Cheap: for finding out whether to acquire anew. */
uint64_t cdl_limiter_generation(const struct cdl_limiter *limiter);

/* ---- answers ---- */

enum cdl_answer_kind {
    CDL_ANSWER_ALLOWED,     /* also when no limit applies, or the request is exempt: then `count` is 0 */
    CDL_ANSWER_REFUSED,     /* by the limit `binding`, or without asking the store: see plan.outcome */
    CDL_ANSWER_UNAVAILABLE, /* the store could not say, and the limit is to fail closed */
};

struct cdl_answer {
    struct cdl_live_policy *live; /* that it is an answer by: what the plan's numbers mean */
    struct cdl_instant taken;     /* when the limits that are counted here were charged, ahead of the store's answer */
    enum cdl_answer_kind kind;
    bool named;                                     /* of one limit by its name; `overall` tells all */
    uint32_t binding;                               /* index in plan.charges; CDL_NONE: no limit speaks */
    uint32_t shadow_refusals;                       /* limits in shadow mode that would have refused */
    struct caudal_decision overall;                 /* of the limits that are enforced */
    struct caudal_decision decisions[CDL_PLAN_MAX]; /* one for each of plan.charges */
    struct cdl_plan plan;
};

/* What a thread asks with. */
struct cdl_asker {
    struct cdl_store_client *client; /* NULL: every question is answered within the call, by waiting if need be */
    char *scratch;                   /* CDL_MATCH_SCRATCH_BYTES */
    uint32_t waiting;                /* inquiries that wait; beyond CDL_WAITING_MAX they fail at once */
    int64_t
        deadline_ns; /* of what is asked from now on, by caudal_clock_system()'s monotonic clock; 0: the store's own */
    bool closed;     /* the client is being closed: what is asked fails at once, as when the store is away */
    struct cdl_answer answer; /* large; to the last question, until the next one or cdl_inquiry_answer */
};

#define CDL_WAITING_MAX 10000u

/* ---- asking ---- */

enum cdl_ask {
    CDL_ASK_TAKE,
    CDL_ASK_PEEK,   /* what CDL_ASK_TAKE would be answered; spends nothing */
    CDL_ASK_REFUND, /* gives back, to every limit, as if admitted at that cost. `overall` tells the one with least left */
};

/* A question that waits for a store that answers later. It holds the policy that it was asked of. */
struct cdl_inquiry;

/* Asks about a request. NULL: it is answered, in asker->answer, whose keys lie in the scratch. Otherwise say who awaits the
 * answer before anything else happens in this thread; what `request` borrows is not needed any more. */
struct cdl_inquiry *cdl_limiter_ask(struct cdl_asker *asker, struct cdl_live_policy *live,
                                    const struct cdl_request *request, enum cdl_ask ask, uint64_t cost);

/* Both halves of cdl_limiter_ask, for whoever has something to do in between: what applies to the request, in asker->answer, and then the
 * store's answer to it. `request` is needed by the first half only. */
void cdl_limiter_match(struct cdl_asker *asker, struct cdl_live_policy *live, const struct cdl_request *request,
                       uint64_t cost);
struct cdl_inquiry *cdl_limiter_ask_matched(struct cdl_asker *asker, enum cdl_ask ask);

/* Asks the limits of a plan that the caller has made: asker->answer.plan, all of it, with keys in the asker's scratch. For what is no
 * request (a descriptor, a limit that comes with the call). Returns as cdl_limiter_ask, by the same rules: what is enforced is decided all or
 * nothing, then what is in shadow mode. */
struct cdl_inquiry *cdl_limiter_ask_plan(struct cdl_asker *asker, struct cdl_live_policy *live, enum cdl_ask ask);

/* One limit by its name, and a key by the values of its `per`. */
struct cdl_named_key {
    uint32_t limit; /* index in the policy's limits, or CDL_NONE */
    const struct cdl_slice *values;
    size_t value_count;
};

/* Asks that limit alone, and returns as cdl_limiter_ask. What is no question is answered at once, with an empty plan; the status of `overall` is
 * CAUDAL_ERR_UNKNOWN without a limit, CAUDAL_ERR_ARGUMENT when the number of values is not that of its `per` or one is empty, or
 * CAUDAL_ERR_KEY. A limit that is off answers like any other here: it was asked for by name. */
struct cdl_inquiry *cdl_limiter_ask_named(struct cdl_asker *asker, struct cdl_live_policy *live,
                                          const struct cdl_named_key *key, enum cdl_ask ask, uint64_t cost);

/* `done` is called once, when the answer is there, and frees the inquiry or sees to it. */
void cdl_inquiry_await(struct cdl_inquiry *inquiry, void (*done)(struct cdl_inquiry *inquiry, void *context),
                       void *context);
/* The answer of an inquiry that is done, in its asker's `answer`. Its keys live as long as the inquiry. */
const struct cdl_answer *cdl_inquiry_answer(struct cdl_inquiry *inquiry);
/* Of one that is done. NULL does nothing. */
void cdl_inquiry_free(struct cdl_inquiry *inquiry);
/* Keeps what asker->answer holds as an inquiry that is done; NULL: memory is short. */
struct cdl_inquiry *cdl_inquiry_keep(struct cdl_asker *asker);

/* For an administrator: looks at a key, or forgets it and then looks, at the store itself, waiting for it if need be. Returns what
 * status `decision` has; a store that is away is an error here, whatever the limit chose. */
int cdl_limiter_inspect(const struct cdl_live_policy *live, const struct cdl_named_key *key, bool forget, char *scratch,
                        struct caudal_decision *decision);

/* The answer of a limit whose store failed with `status`: the only place where that is decided. A decision without verdict whose source
 * is CAUDAL_SOURCE_LOCAL_SHARE says that the limit's local share is to decide. */
struct caudal_decision cdl_limiter_on_failure(const struct cdl_limit_rule *limit, int status);

/* What the decision on one of an answer's charges was taken by: the limit's rate, or this instance's share of it. */
struct caudal_limit cdl_answer_limit(const struct cdl_answer *answer, const struct cdl_charge *charge,
                                     const struct caudal_decision *decision);

#endif
