/* What a replay has found: all numbers, and no word of how they are shown. The writers (report_text.c, report_json.c, report_html.c) read
 * this and nothing else, so that they cannot disagree.
 *
 * Slices and arrays live in the report's arena. */
#ifndef CDL_REPLAY_REPORT_H
#define CDL_REPLAY_REPORT_H

#include "base/arena.h"
#include "policy/policy.h"
#include "replay/log_reader.h"
#include "replay/study.h"

#define CDL_REPLAY_KEYS 20u        /* that are listed of each kind */
#define CDL_REPLAY_LIMIT_SERIES 8u /* limits whose refusals are followed over time, each by itself */
#define CDL_REPLAY_PEAK_BINS 64u

/* How many were refused at the log's stamps as they are, and how many may have been, over all places within the stamps' cells that the
 * requests may have had. Without `known`, least is 0 and most all that were asked. */
struct cdl_replay_bounds {
    bool known;
    uint64_t least, most;
};

/* What it takes to refuse nothing, and to refuse something to at most `touch_share` of the keys only. */
struct cdl_replay_headroom {
    uint64_t for_all, for_most;
};

struct cdl_replay_variant {
    uint64_t refused, keys_refused;
    uint64_t most_in_a_period; /* tokens that passed for one key in some moving period: count is what the limit says */
};

/* One rate of the ladder, per period of the limit, and the bursts that go with it. */
struct cdl_replay_rung {
    double rate;
    struct cdl_replay_headroom burst; /* UINT64_MAX: above what a limit may have */
};

/* Keys by the most that they asked for within one period of the clock: bin n counts those with 2^(n/4) <= peak < 2^((n+1)/4). */
struct cdl_replay_peaks {
    uint64_t keys[CDL_REPLAY_PEAK_BINS];
};

/* A limit, or an override of one: what the policy calls a rate. */
struct cdl_replay_limit {
    struct cdl_slice name;  /* of the rate: "per-client" or the override's name */
    struct cdl_slice limit; /* the limit's name */
    struct cdl_slice rate;  /* "100/min burst 20" */
    struct caudal_limit what;
    uint32_t rate_index, limit_index; /* in the policy */
    enum cdl_mode mode;
    uint64_t requests;     /* that it was asked about */
    uint64_t refused;      /* that it refused, being the limit that binds; in shadow mode: would have refused */
    uint64_t keys;         /* that were seen */
    uint64_t keys_refused; /* that were refused at least once */
    uint64_t unstudied;    /* requests of keys beyond keys_max, which the next four do not tell of */
    struct cdl_replay_bounds bounds; /* if it stood alone */
    struct cdl_replay_variant variants[CDL_STUDY_VARIANTS];
    struct cdl_replay_headroom burst;         /* of a token bucket at the limit's rate */
    struct cdl_replay_headroom fixed_count;   /* of a fixed window of the limit's period */
    struct cdl_replay_headroom sliding_count; /* of a sliding window */
    struct cdl_replay_rung rungs[CDL_STUDY_RATES];
    struct cdl_replay_headroom
        rate_at_burst; /* the lowest rung, in tokens per period and rounded up, that does with the limit's own burst;
                                               * UINT64_MAX: none does */
    struct cdl_replay_peaks peaks;
};

struct cdl_replay_key {
    uint32_t limit;       /* index in the report's limits */
    struct cdl_slice key; /* for people, as the policy wants identities shown */
    uint64_t requests, refused;
    uint64_t second_most; /* asked for within one second of the clock */
    uint64_t period_most; /* within one period of the limit */
    int64_t stretch_ns;   /* the longest time from a refusal to the next admission (or the last refusal of all) */
    int64_t stretch_begin_ns;
};

struct cdl_replay_client {
    struct cdl_slice client; /* address */
    uint64_t requests, refused;
};

/* Counts over time. Step n covers [begin_ns + n·step_ns, begin_ns + (n+1)·step_ns). */
struct cdl_replay_series {
    int64_t begin_ns, step_ns; /* a multiple of a second */
    size_t steps;
    uint64_t *offered, *admitted;
    size_t limit_count; /* at most CDL_REPLAY_LIMIT_SERIES + 1 */
    uint32_t limits[CDL_REPLAY_LIMIT_SERIES +
                    1]; /* indices in the report's limits; CDL_NONE: all others, and refusals without a limit */
    uint64_t *refused[CDL_REPLAY_LIMIT_SERIES + 1];
};

/* The level of one key's bucket over time: whole tokens that remained after each request. */
struct cdl_replay_trace {
    uint32_t limit; /* index in the report's limits */
    struct cdl_slice key;
    bool from_the_beginning; /* else from its first refusal on */
    int64_t begin_ns, step_ns;
    size_t steps;
    uint64_t *admitted, *refused; /* by this limit, or by another that applied */
    uint64_t *lowest, *highest;   /* remaining; UINT64_MAX where there was no request in the step */
};

/* Requests in each second from the first to the last, seconds without any included. */
struct cdl_replay_load {
    uint64_t p50, p99, most;
};

struct cdl_replay_report {
    struct cdl_arena arena;
    struct cdl_slice policy_file;
    double touch_share; /* of keys: 0.001 unless it is chosen */
    bool interrupted;   /* the log was not read to its end */

    struct cdl_log_stats log; /* all zero of generated traffic */
    size_t source_count;
    struct cdl_log_source_stats *sources;

    int64_t begin_ns, end_ns; /* of the first and the last request */
    uint64_t requests;
    uint64_t admitted, refused; /* together: requests */
    uint64_t exempt;            /* of those admitted: not limited by the policy's choice */
    uint64_t unlimited;         /* of those admitted: no limit applies */
    uint64_t
        refused_without_limit; /* of those refused: no identity, ambiguous, too long, too many limits (see enum cdl_outcome) */
    uint64_t unknown_clients;        /* requests whose client has no address */
    uint64_t pathless;               /* requests without a path */
    struct cdl_replay_bounds bounds; /* of `refused` */
    uint64_t clients, clients_refused;
    uint64_t clients_unstudied; /* requests of clients beyond keys_max */
    uint64_t keys,
        forgotten; /* in the store: that were seen, and that it forgot while they mattered: then it was too small */
    struct cdl_replay_load offered_load, admitted_load;

    size_t limit_count;
    struct cdl_replay_limit
        *limits; /* those of requests that were asked, in the policy's order; and those never asked, with zeros */
    size_t refused_key_count;
    struct cdl_replay_key *refused_keys; /* most refused first */
    size_t busy_client_count;
    struct cdl_replay_client *busy_clients; /* most requests first */
    struct cdl_replay_series series;
    size_t trace_count;
    struct cdl_replay_trace *traces; /* the chosen key's, or those of the most refused ones, most refused first */
};

/* Two policies on the same requests. */
struct cdl_comparison_client {
    struct cdl_slice client;
    uint64_t requests, refused_by_first, refused_by_second;
};

struct cdl_comparison {
    struct cdl_arena arena;
    uint64_t both_admit, both_refuse, first_only_refuses, second_only_refuses; /* requests */
    uint64_t clients_refused_by_both, clients_refused_by_first,
        clients_refused_by_second; /* the last two: by that one only */
    size_t client_count;
    struct cdl_comparison_client
        *clients; /* who change sides, by the number of requests that do, most first; CDL_REPLAY_KEYS at most */
};

void cdl_replay_report_free(struct cdl_replay_report *report);

#endif
