/* An answer of the limiter as an HTTP answer. */
#ifndef CDL_SERVER_REPLY_H
#define CDL_SERVER_REPLY_H

#include "server/exchange.h"

/* 200 with the fields that tell what is left, or the refusal: 429 (or, with `deny_as_403`, 403 with the true status in
 * Caudal-Status, for proxies that know no other way to refuse), 503 when the store is away and the limit fails closed, 400 and
 * 403 for requests that are refused without asking the store. A refusal names its limit in Caudal-Limit. */
void cdl_reply(struct cdl_exchange *exchange, const struct cdl_answer *answer, bool deny_as_403);

/* What 503 says. Nobody knows for how long, so there is no Retry-After. */
#define CDL_REPLY_STORE_AWAY "the store is away, nobody knows until when, and the limit is to refuse then"

/* A refusal in words, without numbers. The limit's name may be empty. */
void cdl_reply_problem(struct cdl_exchange *exchange, unsigned status, bool deny_as_403, struct cdl_slice limit,
                       const char *detail);

/* Why a request was refused without asking the store, in words; returns the status for it. */
unsigned cdl_reply_why(const struct cdl_live_policy *live, const struct cdl_plan *plan, struct cdl_writer *why);

/* Seconds for Retry-After, with the limit's jitter; 0: none. */
uint64_t cdl_reply_retry_after(const struct cdl_answer *answer);

/* What a limit is called where clients see it: by the name that its rate has in a file of descriptors, else by its own. */
struct cdl_slice cdl_reply_name(const struct cdl_limit_rule *limit);

/* The lines RateLimit-Policy and so on of a decision, in the policy's revision. */
void cdl_reply_fields(const struct cdl_answer *answer, int64_t now_ns, struct cdl_writer *lines);

#endif
