/* What an answer tells a client about its limits, in the spelling of several revisions:
 *
 *     ietf-11            RateLimit-Policy: "per-client";q=100;w=60, "everybody";q=5000;w=1
 *                        RateLimit: "per-client";r=50;t=30
 *     ietf-12            RateLimit: "per-client";a=50;w=30;c=1
 *     ietf-06            RateLimit-Limit: 100 · RateLimit-Remaining: 50 · RateLimit-Reset: 30
 *     x-ratelimit-epoch  X-RateLimit-Limit: 100 · X-RateLimit-Remaining: 50 · X-RateLimit-Reset: 1764547230
 *     x-ratelimit-delta  X-RateLimit-Limit: 100 · X-RateLimit-Remaining: 50 · X-RateLimit-Reset: 30
 *     none
 *
 * (draft-ietf-httpapi-ratelimit-headers; values are structured fields, RFC 9651.) RateLimit-Policy tells the limits that it
 * is given, the rest tells the one that binds. (The server gives the one that binds, and no other.)
 *
 * What the numbers mean:
 *   q, w       how much in how long, as the policy says it. Of a bucket: its rate, which is what holds over any length of time. w
 *              is left away when the period is not whole seconds, since the drafts have no way to say it, and for a limit
 *              that never refills, whose q is its capacity.
 *   Limit      where Remaining counts down from, the capacity. These revisions have no window beside it.
 *   r, a       whole tokens left.
 *   t, w of a  after an admission, when everything is there again. After a refusal, when the same request passes: the drafts want
 *              Retry-After not to be earlier than this. Rounded up, 0 only when it is now; left away when that is never.
 *   Reset      the same, as a delta. As an epoch it is rounded up but for a tenth of a second, so that it is one number
 *              in all replies of a window: a bucket's may be early by so much, Retry-After never is.
 */
#ifndef CDL_WIRE_RATELIMIT_FIELDS_H
#define CDL_WIRE_RATELIMIT_FIELDS_H

#include "base/writer.h"
#include "caudal/store.h"

enum cdl_fields_revision {
    CDL_FIELDS_IETF_11, /* the default */
    CDL_FIELDS_IETF_12,
    CDL_FIELDS_IETF_06,
    CDL_FIELDS_X_RATELIMIT_EPOCH,
    CDL_FIELDS_X_RATELIMIT_DELTA,
    CDL_FIELDS_NONE,
};

/* By its name, as above; "x-ratelimit" is the epoch form. False: there is none of that name. */
bool cdl_fields_revision_find(struct cdl_slice name, enum cdl_fields_revision *revision);

/* What is told of a limit whatever is left of it. */
struct cdl_fields_policy {
    struct cdl_slice name; /* any bytes */
    uint64_t quota;
    uint64_t window_s; /* 0: not told */
    uint64_t capacity; /* UINT64_MAX: unlimited, of which nothing is told */
};

struct cdl_fields_policy cdl_fields_policy_of(struct cdl_slice name, const struct caudal_limit *limit);

struct cdl_fields_answer {
    const struct cdl_fields_policy
        *policies; /* those that applied; of names that differ in case only the first is told */
    size_t policy_count;
    size_t binding;                         /* the one that the decision is about */
    const struct caudal_decision *decision; /* the deciding read, never a later one */
    uint64_t cost;
    int64_t now_ns; /* since the epoch, when the decision was taken; for the epoch form */
};

/* Writes field lines, each with its CRLF; none for an unlimited limit, for CAUDAL_NO_VERDICT and for CDL_FIELDS_NONE. */
void cdl_fields_write(struct cdl_writer *lines, enum cdl_fields_revision revision,
                      const struct cdl_fields_answer *answer);

/* A limit's name as it stands in these fields, without its quotes. A string of RFC 9651 is printable ASCII, so other bytes are
 * escaped as in a URI, and so is '%' itself, that no two names become one. */
void cdl_fields_write_name(struct cdl_writer *writer, struct cdl_slice name);

/* Nanoseconds as whole seconds, rounded up; what is whole already stays. 0 for what is not positive. */
uint64_t cdl_seconds_up(int64_t ns);

/* Seconds for Retry-After, at least 1: never before the request passes. 0: there is no such field, since the request was not
 * refused or no wait helps.
 *
 * With a span, up to that many whole seconds are added, chosen by `hash`, so that clients which are refused together do not come
 * back together. For a client to be told one instant, whenever it asks, its hash must stay the same: take it of key and limit. */
uint64_t cdl_retry_after_seconds(const struct caudal_decision *decision, uint32_t jitter_span_s, uint64_t hash);

/* "Retry-After: 3" and its CRLF; nothing for 0. */
void cdl_retry_after_write(struct cdl_writer *lines, uint64_t seconds);

#endif
