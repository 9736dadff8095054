/* A policy: who is limited, how, and how the server is set up. Read once from a YAML file, then immutable; it may be read by
 * any number of threads, and lives in one arena that is freed at once.
 *
 * examples/policy.yaml is the manual of the file, with every setting, its unit and its default.
 *
 * Every slice here is followed by a NUL, so that it can be handed to what wants a C string. */
#ifndef CDL_POLICY_POLICY_H
#define CDL_POLICY_POLICY_H

#include "base/arena.h"
#include "base/endpoint.h"
#include "base/log.h"
#include "caudal/limit.h"
#include "identity/forwarded.h"
#include "policy/lookup.h"
#include "policy/pattern.h"
#include "policy/report.h"
#include "wire/ratelimit_fields.h"

#define CDL_POLICY_LIMITS_MAX 20000u
#define CDL_POLICY_RATES_MAX                                                                                           \
    64000u              /* limits and overrides together: a store holds 1,000 more, for those that come with calls */
#define CDL_PER_MAX 16u /* identities of one limit */
#define CDL_CONDITIONS_MAX 32u /* of one rule */
#define CDL_POLICY_NAME_MAX 100u
#define CDL_RATE_NAME_MAX 255u
#define CDL_LISTENERS_MAX 8u
#define CDL_PLAN_MAX 64u /* limits that may apply to one request */

#define CDL_RESP_USERS_MAX 64u
#define CDL_POLICY_SOURCES_MAX 256u

#define CDL_NONE UINT32_MAX /* where an index may be missing */

/* ------------------------------------------------------------------------------------------------------ identities */

enum cdl_identity_kind {
    CDL_IDENTITY_CLIENT_IP,
    CDL_IDENTITY_METHOD,
    CDL_IDENTITY_HOST,
    CDL_IDENTITY_PATH,
    CDL_IDENTITY_SEGMENT,   /* path.N */
    CDL_IDENTITY_TEMPLATE,  /* /users/{id} */
    CDL_IDENTITY_HEADER,    /* header.NAME */
    CDL_IDENTITY_COOKIE,    /* cookie.NAME */
    CDL_IDENTITY_QUERY,     /* query.NAME */
    CDL_IDENTITY_ATTRIBUTE, /* NAME, or attribute.NAME: sent by the caller */
};

/* Something that a request has and that can be asked for. */
struct cdl_identity {
    enum cdl_identity_kind kind;
    struct cdl_slice text;            /* as a policy spells it, header names in lower case: "header.x-api-key" */
    struct cdl_slice name;            /* "x-api-key" */
    unsigned segment;                 /* the N of path.N */
    struct cdl_path_pattern template; /* of CDL_IDENTITY_TEMPLATE */
    struct cdl_place place;
};

/* Whether a client can choose the value at will, so that a random one each time is a fresh bucket each time. */
bool cdl_identity_is_client_chosen(const struct cdl_identity *identity);
bool cdl_identity_equal(const struct cdl_identity *a, const struct cdl_identity *b);

/* ------------------------------------------------------------------------------------------------------ conditions */

enum cdl_pattern_kind {
    CDL_PATTERN_EXACT,
    CDL_PATTERN_GLOB,
    CDL_PATTERN_PATH,
    CDL_PATTERN_NETWORK, /* of client_ip */
};

struct cdl_pattern {
    enum cdl_pattern_kind kind;
    struct cdl_slice text;
    struct cdl_path_pattern path;
    struct cdl_network network;
};

/* Holds when the value (for a header sent several times: one of them) matches one of the patterns. A request that does not have
 * the value never matches. */
struct cdl_condition {
    struct cdl_identity what;
    const struct cdl_pattern *any_of;
    size_t count;
};

/* All conditions together; none at all holds for every request. */
struct cdl_rule {
    const struct cdl_condition *conditions;
    size_t count;
    struct cdl_place place;
};

/* ---------------------------------------------------------------------------------------------------------- limits */

enum cdl_if_missing {
    CDL_MISSING_DENY,  /* the request is refused */
    CDL_MISSING_SKIP,  /* the limit does not apply */
    CDL_MISSING_VALUE, /* as if `missing_value` had been sent */
};

enum cdl_on_failure {
    CDL_FAILURE_ALLOW,
    CDL_FAILURE_DENY,  /* 503, never 429 */
    CDL_FAILURE_LOCAL, /* the limit's share in this process's memory */
};

/* Where a limit is counted, when several servers share the store. */
enum cdl_sharing {
    CDL_SHARING_STRICT, /* every decision in the store */
    CDL_SHARING_LEASED, /* busy keys by tokens withdrawn from the store before: see store/lease/ */
    CDL_SHARING_LOCAL,  /* this instance's share, in this process's memory: the store is never asked */
};

enum cdl_mode {
    CDL_MODE_ENFORCE,
    CDL_MODE_SHADOW, /* decided, counted and logged, but never refuses */
    CDL_MODE_OFF,    /* as if it were not there */
};

/* A part of a whole: numerator / denominator, both > 0 and at most 1 together; 0/0: not given; 0/1: nothing. */
struct cdl_ratio {
    uint32_t numerator, denominator;
};

/* Of a leased limit. */
struct cdl_lease_settings {
    int64_t ttl_ns;           /* how long withdrawn tokens may be spent */
    uint32_t share_per_mille; /* the most of what the store has that is withdrawn at once */
    bool strict_bound;        /* the store holds less by what may be withdrawn, so that the sum is what the rate says */
};

/* What a request costs, in tokens. `header` where there is one; else what the caller says; else `standard`. */
struct cdl_cost {
    bool pinned;             /* always `standard` */
    struct cdl_slice header; /* in lower case; empty: none */
    uint64_t standard;
    uint64_t min, max; /* bounds of what is not standard. A header that is no number costs `max`: junk gains nothing */
};

/* Another rate for some values of the limit's `per`. */
struct cdl_override {
    const struct cdl_pattern *match; /* one a `per`, in its order; "*" where the policy names none */
    uint32_t rate;                   /* index in the policy's rates */
    bool exact;                      /* each `match` is: found by hash, and tried before all others */
    struct cdl_place place;
};

/* The hash that an exact override is found by: of all values of `per`, in order. */
uint64_t cdl_override_hash(const struct cdl_slice *values, uint32_t count);

/* What asks by a limit. */
enum cdl_rule_kind {
    CDL_RULE_REQUEST,    /* a request that it applies to: `when` and `per` */
    CDL_RULE_DESCRIPTOR, /* a descriptor of Envoy's rate limit service: see policy/domain.h */
    CDL_RULE_PER_CALL,   /* a caller that brings the rate: CL.THROTTLE, and descriptors with a limit of their own */
};

struct cdl_limit_rule {
    struct cdl_slice name; /* unique */
    enum cdl_rule_kind kind;
    const struct cdl_descriptor_rule *descriptor; /* of CDL_RULE_DESCRIPTOR; else NULL */
    const struct cdl_calendar *calendar; /* counted by civil windows; its rate is then per call. NULL: it is not */
    struct cdl_rule when;
    const struct cdl_identity *per;
    uint32_t per_count;
    uint32_t key_shape; /* limits of equal shape have equal `per` and fallbacks, and so equal keys for one request */
    enum cdl_if_missing if_missing;
    struct cdl_slice missing_value;
    uint32_t rate; /* index in the policy's rates */
    struct cdl_cost cost;
    const struct cdl_override *overrides;
    uint32_t override_count;
    struct cdl_lookup exact_overrides;
    const uint32_t *pattern_overrides; /* the others, in the order of the file */
    uint32_t pattern_override_count;
    enum cdl_on_failure on_store_failure;
    enum cdl_sharing sharing;
    struct cdl_lease_settings lease; /* the defaults, when it is not leased */
    struct cdl_ratio local_share;    /* 0/0: one part in `instances` */
    enum cdl_mode mode;
    bool count_refused; /* a request that is refused spends what is left, up to its cost */
    int64_t jitter_ns;  /* at most so much is added to Retry-After */
    struct cdl_place place;
};

/* What a store is asked to enforce: a limit's own rate or an override's. */
struct cdl_rate {
    struct caudal_limit limit;
    struct cdl_slice name; /* of the limit in the store: unique, 1 to 255 bytes, and the same after a reload */
    uint32_t limit_index;
    uint32_t override_index; /* CDL_NONE: the limit's own */
    bool per_call;           /* `limit` is "unlimited"; what is enforced comes with each question */
    struct cdl_place place;
};

/* Whether a rate of this limit is decided by leases. A log would have to know when each token was spent, so it stays strict. */
bool cdl_rate_is_leased(const struct cdl_limit_rule *limit, const struct caudal_limit *rate);

/* The tokens of a bucket that strict_bound keeps out of the store: as many as come in while a lease lives, rounded up. */
uint64_t cdl_lease_reserve(const struct cdl_lease_settings *lease, const struct caudal_limit *rate);

/* The most that one request can get at once: the capacity, less what strict_bound keeps out of the store. */
uint64_t cdl_rate_capacity(const struct cdl_limit_rule *limit, const struct caudal_limit *rate);

/* ---------------------------------------------------------------------------------------------------------- server */

struct cdl_listeners {
    const struct cdl_endpoint *items;
    const struct cdl_slice *texts; /* as written */
    size_t count;                  /* 0: none */
};

struct cdl_tls_settings {
    struct cdl_slice cert, key, client_ca; /* files; empty: none. cert and key come together */
};

struct cdl_listen_settings {
    struct cdl_listeners http, admin, resp, grpc; /* resp and grpc may be off: count 0 */
    struct cdl_slice admin_token_file;            /* empty: none */
    struct cdl_tls_settings tls;
    uint32_t workers; /* 0: one for each processor */
    int64_t drain_ns;
    int64_t header_timeout_ns, body_timeout_ns, idle_timeout_ns, write_timeout_ns;
    uint64_t connections_max, header_bytes_max, body_bytes_max;
};

struct cdl_store_settings {
    struct cdl_slice url;
    int64_t deadline_ns; /* of one decision, where the store is elsewhere; 0: what the URL says, or the store's own */
};

/* What a user of the Redis front end may do. Commands that only talk (PING, HELLO, ...) are anybody's. */
enum cdl_resp_right {
    CDL_RESP_THROTTLE = 1 << 0, /* CL.THROTTLE and its like: limits that come with the call */
    CDL_RESP_TAKE = 1 << 1,     /* CAUDAL.TAKE, CAUDAL.CHECK */
    CDL_RESP_PEEK = 1 << 2,     /* CAUDAL.PEEK */
    CDL_RESP_REFUND = 1 << 3,
    CDL_RESP_RESET = 1 << 4,
    CDL_RESP_EXPLAIN = 1 << 5,
    CDL_RESP_ALL = (1 << 6) - 1,
};

struct cdl_resp_user {
    struct cdl_slice name; /* "default" is who says AUTH with a password alone */
    struct cdl_slice password_file;
    uint32_t rights; /* enum cdl_resp_right */
    struct cdl_place place;
};

struct cdl_resp_settings {
    bool cl_throttle, throttle, gcra;  /* commands in the shapes of other programs */
    const struct cdl_resp_user *users; /* none: nobody has to say who they are, and may do all */
    uint32_t user_count;
    uint32_t limit; /* index in the policy's limits: what limits that come with a command are counted under */
};

enum cdl_log_identities {
    CDL_IDENTITIES_MASKED,
    CDL_IDENTITIES_KEYED,
    CDL_IDENTITIES_PLAIN,
};

struct cdl_log_settings {
    enum cdl_log_format format;
    enum cdl_log_level level;
    struct cdl_ratio denied; /* the part of refusals that is logged */
    enum cdl_log_identities identities;
};

/* Series of metrics that show what requests bring, beyond those that the files make: how many of them there may be. */
struct cdl_metrics_settings {
    uint32_t descriptor_values; /* of each rule with detailed_metric or value_to_metric */
    uint32_t
        override_values; /* of each domain, for descriptors that bring a limit of their own; 0: no values are shown */
};

/* ---------------------------------------------------------------------------------------------------------- policy */

struct cdl_index;  /* policy/index.h */
struct cdl_domain; /* policy/domain.h */

struct cdl_policy {
    struct cdl_slice file;
    uint64_t hash;                   /* of the bytes of all its files */
    const struct cdl_slice *sources; /* the files it was read from, and the folders that were looked through for them */
    uint32_t source_count;

    struct cdl_client_rule client;
    struct cdl_slice secret_file; /* empty: none */
    const struct cdl_rule *exemptions;
    uint32_t exemption_count;
    const struct cdl_limit_rule *limits; /* in the order of the file: those of requests, of descriptors, and per call */
    uint32_t limit_count;
    uint32_t request_limit_count; /* those at the front that are of requests */
    const struct cdl_rate *rates; /* each limit's own, followed by those of its overrides */
    uint32_t rate_count;
    uint32_t shape_count; /* key_shape is below it */

    enum cdl_fields_revision fields;
    uint32_t instances; /* how many servers share the store */
    struct cdl_listen_settings listen;
    struct cdl_store_settings store;
    struct cdl_log_settings log;
    struct cdl_metrics_settings metrics;
    struct cdl_resp_settings resp;
    const struct cdl_domain *domains; /* of Envoy's rate limit service */
    uint32_t domain_count;
    struct cdl_lookup domain_names;

    struct cdl_index *exemption_index;
    struct cdl_index *limit_index;
    struct cdl_lookup limit_names;
    struct cdl_arena arena; /* holds all of it, this struct too */
};

/**
 * Reads a policy from a file, or from a text that is called `file` in messages. It may also be a file of Envoy's rate limit
 * service, or a folder of these (policy/domain.h). Files that a policy names are sought where it lies.
 *
 * @param allocator  NULL: the C library; must outlive the policy
 * @param report     receives errors and warnings, sorted by place; what it held before is dropped
 * @return the policy, perhaps with warnings; NULL when there are errors. Nothing but memory is left behind by either.
 */
struct cdl_policy *cdl_policy_load_file(const char *path, const struct caudal_allocator *allocator,
                                        struct cdl_report *report);
struct cdl_policy *cdl_policy_load_text(const char *file, struct cdl_slice text,
                                        const struct caudal_allocator *allocator, struct cdl_report *report);

/* NULL does nothing. */
void cdl_policy_free(struct cdl_policy *policy);

/* The index of a limit, or CDL_NONE. */
uint32_t cdl_policy_find(const struct cdl_policy *policy, struct cdl_slice name);

/* How many limits the files name: those whose rate comes with each call are not among them. */
uint32_t cdl_policy_named_limits(const struct cdl_policy *policy);

/* Calls back for each key that a policy may have, with the map that it stands in: ("limits", "name"). */
void cdl_policy_each_key(void (*call)(void *context, const char *map, const char *key), void *context);

#endif
