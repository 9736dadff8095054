/* What replay.c keeps while requests come, and tell.c makes a report of. */
#ifndef CDL_REPLAY_REPLAY_PARTS_H
#define CDL_REPLAY_REPLAY_PARTS_H

#include "caudal/clock.h"
#include "limiter/limiter.h"
#include "metrics/histogram.h"
#include "replay/book.h"
#include "replay/log_request.h"
#include "replay/replay.h"
#include "replay/series.h"
#include "replay/trace.h"

/* Of a key under one rate. Most keys of a log are seen once, and a study is large: it begins with the second request. */
struct cdl_replay_key_state {
    uint64_t requests, refused;
    void *study;    /* NULL: the only request is the one below */
    bool has_first; /* and the study has not been told of it */
    int64_t first_ns;
    uint64_t first_cost;
    bool is_refused; /* since stretch_begin_ns, without an admission */
    bool is_chosen;  /* it is the one that is to be traced */
    uint32_t trace;  /* that it is followed by, and one more; 0: none */
    int64_t stretch_begin_ns, last_refused_ns;
    int64_t longest_ns, longest_begin_ns; /* of the stretches that are over */
};

struct cdl_replay_client_state {
    uint64_t requests, refused;
};

/* Of a rate of the policy. */
struct cdl_replay_rate_state {
    struct cdl_study_rule *study; /* NULL until it is asked */
    struct caudal_limit limit;    /* what is enforced here */
    uint64_t requests, refused, unstudied;
    uint64_t keys, keys_refused;
    uint32_t together; /* a rate that was asked together with this one, or itself: the trees of a union-find */
    uint32_t series;   /* which of the series its refusals are counted in, and one more; 0: none yet */
};

/* A request goes through three steps, between which others take theirs, so that memory has time to come:
 *
 *   match    which limits apply, under which keys; the places of all these keys are fetched
 *   look up  what is known of the client and the keys is found, and fetched
 *   decide   the log's time is set, the limiter is asked, and all is counted */
#define CDL_REPLAY_STEP UINT64_C(4)                /* requests between two steps */
#define CDL_REPLAY_UNDER_WAY (4 * CDL_REPLAY_STEP) /* a power of two, and room for the decision that was given last */

struct cdl_replay_under_way {
    struct cdl_asker asker;
    char *scratch, *request_scratch;
    struct cdl_log_request request;
    struct cdl_log_origin origin;
    int64_t instant_ns;
    struct cdl_expected expected;              /* of the first key */
    struct cdl_book_entry *client;             /* NULL: there is no room for it */
    struct cdl_book_entry *keys[CDL_PLAN_MAX]; /* likewise, one for each charge */
};

/* The requests of each second. */
struct cdl_replay_seconds {
    struct cdl_histogram histogram; /* of seconds by their requests, but the last second */
    uint64_t last, most;            /* in the last second, and in any before it */
};

struct cdl_replay {
    const struct caudal_allocator *allocator;
    struct cdl_replay_settings settings;
    struct caudal_fake_clock *clock;
    struct caudal_store *store;
    struct cdl_limiter *limiter;
    struct cdl_live_policy *live;
    struct cdl_replay_under_way *under_way; /* CDL_REPLAY_UNDER_WAY of them, a ring */
    uint64_t matched, looked_up, decided;   /* how many requests have taken that step */
    struct cdl_replay_decision decision;    /* the last */
    int64_t now_ns, begin_ns;
    bool has_begun;

    uint32_t rate_count;
    uint32_t chosen_limit; /* in the policy; CDL_NONE: no key was chosen to be traced */
    struct cdl_replay_rate_state *rates;
    struct cdl_book keys;     /* by rate and key */
    struct cdl_book clients;  /* by address */
    struct cdl_trace *traces; /* CDL_TRACES */

    uint64_t requests, refused, exempt, unlimited, refused_without_limit, unknown_clients, pathless, clients_unstudied;
    uint64_t clients_refused;

    int64_t second; /* since 1970: the one that is counted now */
    struct cdl_replay_seconds offered_seconds, admitted_seconds;
    struct cdl_steps steps;
    uint64_t offered[CDL_SERIES_STEPS], admitted[CDL_SERIES_STEPS];
    uint32_t series_count;
    uint32_t series_rate[CDL_REPLAY_LIMIT_SERIES];
    uint64_t refused_by[CDL_REPLAY_LIMIT_SERIES + 1][CDL_SERIES_STEPS]; /* the last: by all others */
    bool has_others;
};

/* The rate that stands for all that were ever asked together with this one, directly or through others. */
uint32_t cdl_replay_together(struct cdl_replay_rate_state *rates, uint32_t rate);

/* What the study of a key has found. */
void cdl_replay_find(const struct cdl_replay_rate_state *rate, const struct cdl_replay_key_state *state,
                     struct cdl_study_findings *findings);

/* A key for people, whatever it is made of. */
void cdl_replay_show_key(const struct cdl_policy *policy, uint32_t limit, struct cdl_slice key,
                         struct cdl_writer *writer);

/* The address that a book of clients has an entry for; empty: unknown. */
struct cdl_slice cdl_replay_client_text(struct cdl_arena *arena, struct cdl_book_entry *client);

#endif
