/* START HERE: a policy on yesterday's requests.
 *
 *     cdl_replay_open(&settings, policy, &replay, &problem);
 *     for each request, in order of time:
 *         cdl_replay_request(replay, &record, &origin, &decision);        a decision, if it is not NULL: of a request before it
 *     while (cdl_replay_settle(replay, &decision) == CAUDAL_OK && decision != NULL)
 *         ...                                                             those that are still under way
 *     cdl_replay_tell(replay, &report, &problem);
 *
 * The limiter is the server's own, over a memory store whose clock shows the stamp of the request that is asked about: what is refused
 * here is what the server would have refused. A request whose stamp is before the last one's is asked at the last one's. Beside each
 * decision stands a study of its key (study.h), and all is counted for the report.
 *
 * Memory: 21 bytes for each key in the store and some 120 for each that is seen, 700 from its
 * second request on; keys_max bounds both. */
#ifndef CDL_REPLAY_REPLAY_H
#define CDL_REPLAY_REPLAY_H

#include "replay/report.h"

struct cdl_replay;

#define CDL_REPLAY_KEYS_DEFAULT 4000000u

struct cdl_replay_settings {
    uint64_t keys_max;  /* of the store, and of what is studied; 1 to 2^32 */
    int64_t cell_ns;    /* how coarse stamps are, when bounds are wanted; 0: they are not */
    int64_t begin_ns;   /* the first request's stamp */
    double touch_share; /* 0 to 1 */
    struct cdl_slice traced_limit,
        traced_key; /* whose bucket is followed; empty: the most refused ones. Of several parts, the key is written
                                                * with "|" between them */
    const struct caudal_allocator *allocator; /* NULL: the C library's */
};

enum cdl_replay_verdict {
    CDL_REPLAY_ADMITTED,
    CDL_REPLAY_REFUSED,
};

/* Slices live until the next request, or the next that is settled. */
struct cdl_replay_decision {
    struct cdl_log_origin origin; /* of the request, as it was given */
    int64_t instant_ns;           /* its stamp */
    int64_t asked_at_ns;
    enum cdl_replay_verdict verdict;
    struct cdl_address client;       /* grouped, as the policy says; family 0: unknown */
    struct cdl_slice path;           /* normalised; empty: none */
    struct cdl_slice limit;          /* the name of the one that speaks; empty: none */
    const struct cdl_charge *charge; /* its question, and its decision; NULL: none was asked, and `reason` says why */
    const struct caudal_decision *decision;
    const char *reason;       /* "exempt", "unlimited", "missing identity", ...; NULL: the limit has decided */
    uint32_t shadow_refusals; /* limits in shadow mode that would have refused */
};

/* A key for people: its parts with "|" between them. What came in a header, a cookie or a query may be a secret: of it, the first four
 * characters are shown and eight digits of a hash, unless the policy's log.identities is "plain". */
void cdl_replay_write_key(const struct cdl_replay *replay, const struct cdl_charge *charge, struct cdl_writer *writer);

/* The policy is the replay's from now on, also when this fails. CAUDAL_OK; CAUDAL_ERR_ARGUMENT for a traced limit that the policy
 * does not have; CAUDAL_ERR_FULL; CAUDAL_ERR_MEMORY. */
int cdl_replay_open(const struct cdl_replay_settings *settings, struct cdl_policy *policy, struct cdl_replay **replay,
                    struct caudal_problem *problem);
void cdl_replay_close(struct cdl_replay *replay);

/* The next request. Decisions come in the same order, but a few requests later: what a request needs of memory is fetched while those before it
 * are decided. *decision is one of them, or NULL. `origin` may be NULL, for traffic from no log. CAUDAL_OK or CAUDAL_ERR_MEMORY. */
int cdl_replay_request(struct cdl_replay *replay, const struct cdl_access_record *record,
                       const struct cdl_log_origin *origin, const struct cdl_replay_decision **decision);

/* Decides the next of the requests that are under way; *decision is NULL when there is none any more. */
int cdl_replay_settle(struct cdl_replay *replay, const struct cdl_replay_decision **decision);

/* What was found so far, by the requests that are settled; the replay may go on. Everything but `log`, `sources` and `interrupted`, which are the caller's to fill
 * in. Lives as long as the replay, until cdl_replay_free. CAUDAL_OK or CAUDAL_ERR_MEMORY. */
int cdl_replay_tell(struct cdl_replay *replay, struct cdl_replay_report *report, struct caudal_problem *problem);

/* ---- two policies ---- */

struct cdl_compare;

struct cdl_compare *cdl_compare_open(uint64_t clients_max, const struct caudal_allocator *allocator);
void cdl_compare_close(struct cdl_compare *compare);
/* Both decisions on one request. False: memory is short. */
bool cdl_compare_note(struct cdl_compare *compare, const struct cdl_replay_decision *first,
                      const struct cdl_replay_decision *second);
int cdl_compare_report(const struct cdl_compare *compare, struct cdl_comparison *comparison);
void cdl_comparison_free(struct cdl_comparison *comparison);

#endif
