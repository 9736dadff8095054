/* A store holds the state of every key under every limit and decides.
 *
 *     struct caudal_store *store;
 *     caudal_store_open("memory:?keys=1000000", NULL, &store, NULL);
 *     uint32_t per_client;
 *     caudal_add_limit(store, "per-client", &limit, &per_client, NULL);
 *     struct caudal_decision decision;
 *     caudal_take(store, per_client, "203.0.113.7", 11, 1, &decision);
 *     if (decision.verdict == CAUDAL_ALLOW) ...
 *
 * Threads: every function may be called from any thread at any time, but for caudal_store_close, which must be the last.
 * Processes: after fork(2), a store in a Redis or Valkey may be used by one of the two processes only: they share its sockets.
 * Time: a function without `_at` reads the store's clock; its `_at` twin takes the caller's. Do not mix the two on one
 * store unless both count from the same zero. A bucket's clock tells instants apart within a window of years (of days, for
 * rates of thousands in lowest terms): a charge dated outside moves it, and what other keys owe beyond it is cut. A Redis or
 * Valkey counts microseconds: the caller's instant is rounded down to one, and is CAUDAL_ERR_ARGUMENT when it lies before 0
 * (1970) or beyond 2^52 microseconds (2112).
 * Memory: deciding (take, peek, take_up_to, refund, reset, take_all, take_batch, at any `now`) allocates nothing in a memory
 * store. In a Redis or Valkey it does while the most calls so far are under way at once.
 */
#ifndef CAUDAL_STORE_H
#define CAUDAL_STORE_H

#include <stdint.h>

#include "clock.h"
#include "key.h"
#include "limit.h"
#include "status.h"

#ifdef __cplusplus
extern "C" {
#endif

struct caudal_store;

enum caudal_verdict {
    CAUDAL_NO_VERDICT = 0, /* the call failed; look at `status` */
    CAUDAL_ALLOW = 1,      /* spent */
    CAUDAL_DENY = 2,       /* not now; nothing was spent; retry_after_ns says when */
    CAUDAL_NEVER = 3,      /* no wait helps: the cost is above the capacity, or the bucket has no refill */
};

/* Who took the decision. */
enum caudal_source {
    CAUDAL_SOURCE_STORE = 0,          /* the limit's own state */
    CAUDAL_SOURCE_LEASE = 1,          /* tokens withdrawn before */
    CAUDAL_SOURCE_DENY_CACHE = 2,     /* a refusal that still holds */
    CAUDAL_SOURCE_LOCAL_SHARE = 3,    /* the store is away: this instance's share of the limit */
    CAUDAL_SOURCE_FAILURE_POLICY = 4, /* the store is away: the answer the policy chose */
};

struct caudal_decision {
    int status;                  /* CAUDAL_OK, or why there is no verdict */
    enum caudal_verdict verdict; /* the answer; CAUDAL_NO_VERDICT unless status is CAUDAL_OK */
    enum caudal_source source;   /* who gave it */
    uint32_t binding;            /* caudal_take_all: index of the request that binds; 0 otherwise */
    uint64_t capacity;           /* the most that can be taken at once; UINT64_MAX for unlimited */
    uint64_t granted;            /* tokens that this call spent; 0 unless verdict is CAUDAL_ALLOW */
    uint64_t remaining;          /* whole tokens left after it */
    int64_t
        retry_after_ns; /* 0 when allowed; for CAUDAL_DENY the first moment at which the same call passes, > 0; -1 for CAUDAL_NEVER */
    int64_t reset_after_ns; /* until the key is as one never seen; 0 when it is already; -1 if it never will be */
    uint64_t error_bound;   /* by how many tokens `remaining` may be wrong; 0: exact */
};

/* One question to the store. */
struct caudal_request {
    uint32_t limit;    /* from caudal_add_limit */
    const void *key;   /* any bytes, NUL included; may be NULL when key_length is 0 */
    size_t key_length; /* at most CAUDAL_KEY_MAX */
    uint64_t cost;     /* tokens */
};

/* Memory for a store. Called while opening, closing and changing limits only; of a store that is elsewhere, at any time. */
struct caudal_allocator {
    size_t size; /* sizeof(struct caudal_allocator) */
    void *context;
    /* Returns `bytes` zeroed bytes aligned to `alignment` (a power of two), or NULL. */
    void *(*allocate)(void *context, size_t bytes, size_t alignment);
    /* Gives back what allocate returned, with the same `bytes`. */
    void (*release)(void *context, void *memory, size_t bytes);
};

/* Set `size`, zero the rest, and fill in what should differ from the default. */
struct caudal_store_options {
    size_t size;                              /* sizeof(struct caudal_store_options) */
    const struct caudal_clock *clock;         /* NULL: caudal_clock_system(); must outlive the store */
    const struct caudal_allocator *allocator; /* NULL: the C library and mmap; copied */
    const void *secret;                       /* what keys are made unreadable with before they leave the process */
    size_t secret_length;                     /* 0: no secret; all that share a store need the same one; copied */
    int64_t deadline_ns;                      /* of one call to a store that is elsewhere; 0: the URL's, or 15 ms */
};

/**
 * Opens a store.
 *
 * "memory:" keeps its state in this process. Parameters, as in "memory:?keys=1000000&log_entries=50000":
 *   keys         keys held at once (default 1000000; 1 to 2^32): about 21 bytes each, fixed at open
 *   wide_keys    keys held at once whose state does not fit 64 bits: sliding logs, windows with large counts, and keys whose
 *                limit comes with each question (default keys, but 1024 at least and 2^24 at most; 1 to 2^28): about 90
 *                bytes each
 *   log_entries  admissions held at once by all sliding logs together (default keys or 65536, the larger; at most
 *                2^30): about 13 bytes each
 * The memory of the last two is reserved at open and touched only as it is used.
 *
 * A Redis or Valkey keeps state that any number of processes share:
 *
 *     redis://[user:password@]host[:port][/db]        one server, port 6379; rediss:// is the same over TLS
 *     unix:/path                                      the same through a Unix socket
 *     redis-sentinel://[user:password@]host[:port],…/name[/db]   the primary that these sentinels (port 26379) name
 *     redis-cluster://[user:password@]host[:port],…   a cluster, found by any of up to 16 nodes, port 6379
 *
 * A host that is left out is 127.0.0.1, and IPv6 addresses stand in brackets. ":password@" is the default user's. In a user, password,
 * path and value the bytes that separate parts are written as %XX: '@' as %40, '%' as %25, '/' as %2F, '?' as %3F, '&' as %26.
 * Parameters, as in "redis://cache.example.org?password_file=/etc/caudal/password&deadline=20ms":
 *   user, password_file, password_env   the user; the file, or the variable of the environment, that holds the password. Read now; line
 *                                       ends after the password are not of it
 *   sentinel_user, sentinel_password_file, sentinel_password_env   the same for the sentinels
 *   db              the database, where the path does not say it
 *   tls             yes or no, of redis-sentinel and redis-cluster
 *   tls_ca, tls_cert, tls_key   PEM files: authorities (default: the system's), a client's certificate, its key
 *   tls_name        the name that the certificate must have (default: the host's)
 *   tls_verify      no trusts any certificate (default yes)
 *   protocol        of RESP, 2 or 3 (default 3 where the server knows it)
 *   prefix          of names of keys: 1 to 64 bytes without braces and control characters (default caudal)
 *   deadline        of one call: a whole number and its unit, 1ms to 60s (default 15ms)
 *   connect_timeout of connecting and greeting, 1ms to 60s (default 1s)
 *   connections     to each server, from each loop or waiting thread, 1 to 16 (default 1)
 *   clients         threads that may wait for answers at once, 1 to 256 (default 8)
 *   in_flight       calls on a connection that wait for their answers, 1 to 65536 (default 4096); one more fails at once
 *   breaker         time-outs in a row after which calls fail at once until the server answers again, 1 to 1000 (default 5)
 *   wait_replicas   replicas that must confirm what was taken, 0 to 16 (default 0)
 * No message shows more of such a URL than the names of its parameters.
 *
 * @param url      what to open
 * @param options  may be NULL
 * @param store    receives the store; NULL on failure
 * @param problem  receives position and explanation on failure; may be NULL
 * @return CAUDAL_OK; CAUDAL_ERR_ARGUMENT; CAUDAL_ERR_SYNTAX for a URL that is not understood (an unknown scheme or
 *         parameter included); CAUDAL_ERR_MEMORY
 */
CAUDAL_API int caudal_store_open(const char *url, const struct caudal_store_options *options,
                                 struct caudal_store **store, struct caudal_problem *problem);

/**
 * Closes a store and frees all it holds. No other call on it may be running or follow.
 *
 * @param store  the store; NULL does nothing
 */
CAUDAL_API void caudal_store_close(struct caudal_store *store);

/* A look at a store as a whole. */
struct caudal_store_stats {
    size_t size;             /* in: sizeof(struct caudal_store_stats) */
    uint64_t limits;         /* limits added and not removed */
    uint64_t bytes;          /* memory reserved for state */
    uint64_t slots;          /* room for keys, all tables together */
    uint64_t live_keys;      /* keys whose state differs from a key never seen, at the store's clock */
    uint64_t inserted;       /* keys that came in since the store was opened */
    uint64_t live_evictions; /* keys forgotten while their state still mattered, for want of room */
};

/**
 * Counts what a store holds. Takes time in proportion to its size; for monitoring, not for each request.
 *
 * @param store  the store
 * @param stats  receives the numbers; its `size` must be set
 * @return CAUDAL_OK or CAUDAL_ERR_ARGUMENT
 */
CAUDAL_API int caudal_store_stats(struct caudal_store *store, struct caudal_store_stats *stats);

/**
 * Adds a limit to a store.
 *
 * @param store    the store
 * @param name     1 to 255 bytes, NUL-terminated, unique in the store; copied
 * @param limit    what to enforce; copied
 * @param id       receives the number that requests name the limit by
 * @param problem  receives the reason on failure; may be NULL
 * @return CAUDAL_OK; CAUDAL_ERR_ARGUMENT; CAUDAL_ERR_LIMIT; CAUDAL_ERR_EXISTS; CAUDAL_ERR_FULL above 65,000 limits;
 *         CAUDAL_ERR_MEMORY
 */
CAUDAL_API int caudal_add_limit(struct caudal_store *store, const char *name, const struct caudal_limit *limit,
                                uint32_t *id, struct caudal_problem *problem);

/**
 * Finds a limit by its name.
 *
 * @param store  the store
 * @param name   its name
 * @param id     receives its number
 * @return CAUDAL_OK, CAUDAL_ERR_ARGUMENT or CAUDAL_ERR_UNKNOWN
 */
CAUDAL_API int caudal_find_limit(struct caudal_store *store, const char *name, uint32_t *id);

/**
 * Says what a limit is at present.
 *
 * @param store  the store
 * @param id     its number
 * @param limit  receives the limit; its `size` must be set
 * @return CAUDAL_OK, CAUDAL_ERR_ARGUMENT or CAUDAL_ERR_UNKNOWN
 */
CAUDAL_API int caudal_get_limit(struct caudal_store *store, uint32_t id, struct caudal_limit *limit);

/**
 * Changes a limit under live state. What was spent stays spent, in tokens: a bucket's debt, a window's count and a log's
 * entries are kept and judged by the new limit from this instant. Where the state has no meaning under the new limit
 * (another algorithm, another window length) counting starts again. A debt that has to be rounded is rounded down, by at most
 * what the faster of the two rates refills in a nanosecond (by 2^-20 of a token for a limit that does not refill).
 *
 * Takes time in proportion to the table when the new rate needs another resolution of time, else a few microseconds;
 * decisions go on meanwhile. In a Redis or Valkey a key follows at its next question, from which on its debt is kept at the new
 * rate; rounding is by microseconds there.
 *
 * @param store    the store
 * @param id       the limit's number
 * @param limit    what to enforce from now on
 * @param problem  receives the reason on failure; may be NULL
 * @return CAUDAL_OK; CAUDAL_ERR_ARGUMENT, CAUDAL_ERR_LIMIT, CAUDAL_ERR_UNKNOWN or CAUDAL_ERR_FULL, all of which change nothing
 */
CAUDAL_API int caudal_set_limit(struct caudal_store *store, uint32_t id, const struct caudal_limit *limit,
                                struct caudal_problem *problem);
/** caudal_set_limit at the caller's `now_ns`. */
CAUDAL_API int caudal_set_limit_at(struct caudal_store *store, uint32_t id, const struct caudal_limit *limit,
                                   int64_t now_ns, struct caudal_problem *problem);

/**
 * Removes a limit and the state of all its keys. Its number becomes CAUDAL_ERR_UNKNOWN. What a Redis or Valkey holds of its keys
 * stays there until it expires, for others may count on it: a limit that is added under the same name finds it.
 *
 * @param store  the store
 * @param id     the limit's number
 * @return CAUDAL_OK, CAUDAL_ERR_ARGUMENT or CAUDAL_ERR_UNKNOWN
 */
CAUDAL_API int caudal_remove_limit(struct caudal_store *store, uint32_t id);

/* How a limit is leased: its tokens are withdrawn from the store in batches, and spent by this process without asking again. Start from
 * CAUDAL_LEASE_INIT. */
struct caudal_lease {
    size_t size;              /* sizeof(struct caudal_lease) */
    int64_t ttl_ns;           /* how long a batch may be spent, from before the store was asked: 1 ms to 10 s */
    uint32_t share_per_mille; /* the most that one batch takes of what the store has: 1 to 1000 */
    int strict_bound;         /* not 0: what the bound would grow by is taken off the limit's burst in the store */
};

#define CAUDAL_LEASE_INIT                                                                                              \
    {                                                                                                                  \
        sizeof(struct caudal_lease), INT64_C(100000000), 500, 0                                                        \
    }

/**
 * Has a limit's hot keys decided from leases. Over all processes that share the store and lease the limit with the same ttl, at most
 * burst + rate · (t + ttl) is admitted in any interval t, whatever is lost, late or repeated and whoever crashes; with strict_bound at
 * most burst + rate · t. A window's lease ends with its window, and the limit holds as it is. Decisions from a lease have the source
 * CAUDAL_SOURCE_LEASE and tell of this process's part: `remaining` is what it holds, and the store may have more by up to `error_bound`.
 * A refusal is remembered until it ends (CAUDAL_SOURCE_DENY_CACHE). Keys that are asked about rarely, and buckets that are nearly empty,
 * are decided by the store each time, as are calls with a time of their own (`_at`).
 *
 * @param store    the store, which must be one that processes share
 * @param id       the limit's number
 * @param lease    how; NULL: not any more
 * @param problem  receives the reason on failure; may be NULL
 * @return CAUDAL_OK; CAUDAL_ERR_ARGUMENT for a ttl or share that is out of range; CAUDAL_ERR_UNKNOWN; CAUDAL_ERR_UNSUPPORTED for a
 *         sliding_log, an unlimited limit, and a store that keeps its state in this process; CAUDAL_ERR_LIMIT when strict_bound
 *         leaves a burst below 1; CAUDAL_ERR_MEMORY. Nothing has changed unless it is CAUDAL_OK
 */
CAUDAL_API int caudal_lease_limit(struct caudal_store *store, uint32_t id, const struct caudal_lease *lease,
                                  struct caudal_problem *problem);

/**
 * Takes `cost` tokens, or none. Cost 0 spends nothing; it is refused only while a limit that was lowered leaves the key more
 * than its whole capacity in debt.
 *
 * @param store       the store
 * @param limit       from caudal_add_limit
 * @param key         who is limited: any bytes; may be NULL when key_length is 0
 * @param key_length  bytes at key, at most CAUDAL_KEY_MAX
 * @param cost        tokens
 * @param decision    receives the answer
 * @return CAUDAL_OK with a verdict in `decision`; CAUDAL_ERR_ARGUMENT, CAUDAL_ERR_KEY or CAUDAL_ERR_UNKNOWN without one
 */
CAUDAL_API int caudal_take(struct caudal_store *store, uint32_t limit, const void *key, size_t key_length,
                           uint64_t cost, struct caudal_decision *decision);
/** caudal_take at the caller's `now_ns`. */
CAUDAL_API int caudal_take_at(struct caudal_store *store, uint32_t limit, const void *key, size_t key_length,
                              uint64_t cost, int64_t now_ns, struct caudal_decision *decision);

/**
 * Says what caudal_take would answer, and spends nothing. `remaining` and `reset_after_ns` are as after the take when it
 * would be allowed; with cost 0 they describe the key as it is.
 *
 * Parameters and codes as caudal_take.
 *
 * @return as caudal_take; `granted` is always 0
 */
CAUDAL_API int caudal_peek(struct caudal_store *store, uint32_t limit, const void *key, size_t key_length,
                           uint64_t cost, struct caudal_decision *decision);
/** caudal_peek at the caller's `now_ns`. */
CAUDAL_API int caudal_peek_at(struct caudal_store *store, uint32_t limit, const void *key, size_t key_length,
                              uint64_t cost, int64_t now_ns, struct caudal_decision *decision);

/**
 * Takes as many tokens as there are, at most `maximum`; fewer than `minimum` are not taken at all.
 * A refusal is the one that caudal_take of `minimum` would give.
 *
 * @param store       the store
 * @param limit       from caudal_add_limit
 * @param key         who is limited
 * @param key_length  bytes at key
 * @param minimum     the least worth having
 * @param maximum     the most, >= minimum
 * @param decision    receives the answer; `granted` says how many were taken
 * @return as caudal_take; CAUDAL_ERR_ARGUMENT also for maximum < minimum
 */
CAUDAL_API int caudal_take_up_to(struct caudal_store *store, uint32_t limit, const void *key, size_t key_length,
                                 uint64_t minimum, uint64_t maximum, struct caudal_decision *decision);
/** caudal_take_up_to at the caller's `now_ns`. */
CAUDAL_API int caudal_take_up_to_at(struct caudal_store *store, uint32_t limit, const void *key, size_t key_length,
                                    uint64_t minimum, uint64_t maximum, int64_t now_ns,
                                    struct caudal_decision *decision);

/**
 * Gives tokens back. A bucket never holds more than its capacity and a window never less than nothing used; a sliding log
 * gives back its newest entries first.
 *
 * @param store       the store
 * @param limit       from caudal_add_limit
 * @param key         who is limited
 * @param key_length  bytes at key
 * @param tokens      how many
 * @param decision    receives the key as it is afterwards, with the numbers of a caudal_peek of cost 0 and always CAUDAL_ALLOW:
 *                    giving back is never refused; may be NULL
 * @return as caudal_take
 */
CAUDAL_API int caudal_refund(struct caudal_store *store, uint32_t limit, const void *key, size_t key_length,
                             uint64_t tokens, struct caudal_decision *decision);
/** caudal_refund at the caller's `now_ns`. */
CAUDAL_API int caudal_refund_at(struct caudal_store *store, uint32_t limit, const void *key, size_t key_length,
                                uint64_t tokens, int64_t now_ns, struct caudal_decision *decision);

/**
 * Forgets a key under one limit, as if it had never been seen. Other keys and limits are untouched.
 *
 * @param store       the store
 * @param limit       from caudal_add_limit
 * @param key         who is limited
 * @param key_length  bytes at key
 * @return CAUDAL_OK (also when there was nothing), CAUDAL_ERR_ARGUMENT, CAUDAL_ERR_KEY or CAUDAL_ERR_UNKNOWN
 */
CAUDAL_API int caudal_reset(struct caudal_store *store, uint32_t limit, const void *key, size_t key_length);

#define CAUDAL_TAKE_ALL_MAX 64 /* requests in one caudal_take_all */

/**
 * Takes from several limits, all or nothing. A (limit, key) that is named twice is charged for both.
 *
 * Allowed when every request is; then `decisions` tell what each left. Refused when one is; nothing is spent, the
 * requests that refuse say why, and those that would have passed report what they still hold. Two calls that compete for
 * several limits in a memory store may, for some nanoseconds, see a charge that the other is about to give back: one of
 * them can then be refused although a moment later it would have passed; more than the limits allow is never admitted.
 *
 * @param store      the store
 * @param requests   the questions
 * @param count      1 to CAUDAL_TAKE_ALL_MAX
 * @param decisions  receives one answer for each request, in order
 * @param overall    receives the answer to the whole: the binding request's decision (on a refusal the refusing request
 *                   that recovers last, CAUDAL_NEVER before any wait; otherwise the one with least remaining), its index in
 *                   `binding`, and the overall verdict
 * @return CAUDAL_OK; CAUDAL_ERR_ARGUMENT, CAUDAL_ERR_KEY or CAUDAL_ERR_UNKNOWN, with nothing spent from any limit
 */
CAUDAL_API int caudal_take_all(struct caudal_store *store, const struct caudal_request *requests, size_t count,
                               struct caudal_decision *decisions, struct caudal_decision *overall);
/** caudal_take_all at the caller's `now_ns`. */
CAUDAL_API int caudal_take_all_at(struct caudal_store *store, const struct caudal_request *requests, size_t count,
                                  int64_t now_ns, struct caudal_decision *decisions, struct caudal_decision *overall);

/**
 * Says what caudal_take_all would answer, and spends nothing. When every request would pass, each decision is as after the
 * whole; `granted` is 0.
 *
 * Parameters and codes as caudal_take_all.
 *
 * @return as caudal_take_all
 */
CAUDAL_API int caudal_peek_all(struct caudal_store *store, const struct caudal_request *requests, size_t count,
                               struct caudal_decision *decisions, struct caudal_decision *overall);
/** caudal_peek_all at the caller's `now_ns`. */
CAUDAL_API int caudal_peek_all_at(struct caudal_store *store, const struct caudal_request *requests, size_t count,
                                  int64_t now_ns, struct caudal_decision *decisions, struct caudal_decision *overall);

/**
 * Decides many independent requests as caudal_take would one after the other, reading the clock once and fetching memory
 * ahead: the fastest way to ask.
 *
 * @param store      the store
 * @param requests   the questions
 * @param count      how many; 0 is allowed
 * @param decisions  receives one answer for each request, in order; a request that fails carries its code in `status`
 *                   and the others are decided all the same
 * @return CAUDAL_OK; otherwise the code of the first request that failed, or CAUDAL_ERR_ARGUMENT for a NULL array
 */
CAUDAL_API int caudal_take_batch(struct caudal_store *store, const struct caudal_request *requests, size_t count,
                                 struct caudal_decision *decisions);
/** caudal_take_batch at the caller's `now_ns`. */
CAUDAL_API int caudal_take_batch_at(struct caudal_store *store, const struct caudal_request *requests, size_t count,
                                    int64_t now_ns, struct caudal_decision *decisions);

#ifdef __cplusplus
}
#endif
#endif
