/* What the server's threads share, and what each has for itself. */
#ifndef CDL_SERVER_WORKER_H
#define CDL_SERVER_WORKER_H

#include "base/arith.h"
#include "base/log.h"
#include "limiter/limiter.h"
#include "metrics/counters.h"
#include "metrics/histogram.h"
#include "metrics/top_keys.h"
#include "net/connection.h"
#include "net/listen.h"
#include "server/server.h"
#include "server/store_loop.h"
#include "server/watch.h"
#include "wire/http1.h"
#include "wire/http1_response.h"

#define CDL_WORKERS_MAX 256u
#define CDL_TOP_KEYS 128u
#define CDL_BODY_BYTES ((size_t)480 * 1024)
/* The longest answer: a body, and a head that never comes near the rest. */
#define CDL_ANSWER_BYTES ((size_t)512 * 1024)

struct cdl_server;

/* Numbers beside the decisions; the order of the names in admin.c. */
enum cdl_event {
    CDL_EVENT_BAD_REQUEST,       /* malformed, too large, too late */
    CDL_EVENT_IGNORED_FORWARDED, /* a peer that is not trusted named another client */
    CDL_EVENTS,
};

/* A thread that answers requests. */
struct cdl_worker {
    struct cdl_loop loop;
    struct cdl_listener listeners[CDL_LISTENERS_MAX];
    size_t listener_count;
    struct cdl_server *server;
    uv_thread_t thread;
    struct cdl_live_policy *live; /* held by this thread */
    struct cdl_counters_worker *counters;
    struct cdl_histogram *latency;
    struct cdl_top_keys *top_keys;
    char *body;          /* CDL_BODY_BYTES */
    uint64_t sampled_of; /* refusals, for choosing those that are logged */
    int64_t date_s;      /* the second that `date` tells */
    char date[CDL_HTTP_DATE_LENGTH];
    struct cdl_asker asker;           /* large; its answer is to the request at hand */
    struct cdl_store_loop store_loop; /* open where the store answers later; not the main thread's */
};

/* Beside each policy in force: the counters' slot of each of its limits. */
struct cdl_slots {
    struct cdl_counters *counters;
    uint32_t count;
    uint32_t of[];
};

struct cdl_server {
    const struct cdl_server_options *options;
    struct cdl_policy *first; /* the policy of the start until it is in force */
    struct caudal_store *store;
    char store_url[512]; /* without its secrets; cut where it is longer */
    struct cdl_limiter *limiter;
    struct cdl_counters *counters;
    struct cdl_log *log;
    struct cdl_tls_context *tls;
    const struct caudal_clock *clock;
#ifdef CAUDAL_TEST_CLOCK
    struct caudal_fake_clock *test_clock; /* what `clock` reads, in builds for tests */
#endif
    struct cdl_http1_limits http_limits;
    uint32_t body_timeout_ms;
    uint32_t connections_max; /* of clients on all workers; and of administrators */
    int64_t drain_ns;

    struct cdl_worker *workers;
    uint32_t worker_count;           /* that were started */
    _Atomic uint32_t running;        /* of them, those that have not ended */
    struct cdl_worker admin;         /* the main thread's; it decides nothing, but looks at keys */
    char admin_token[256];           /* empty: none is asked for */
    _Atomic uint64_t connections[2]; /* that are open: of clients on all workers, of administrators */

    struct cdl_socket_file socket_files[2 * CDL_LISTENERS_MAX]; /* of Unix sockets among both kinds of listeners */
    size_t socket_file_count;

    struct cdl_watch watch;
    _Atomic uint64_t reloads, reload_failures;
    char reload_error[512];
    int64_t applied_at_s;
    _Atomic bool draining, stopping, hurried; /* hurried: what is in flight is not waited for */
    uv_timer_t drain_timer;
    uv_signal_t signals[3];
    int64_t started_at_s;
};

/* The protocols of the public and of the admin listener. */
extern const struct cdl_protocol cdl_http_protocol, cdl_admin_protocol;

/* Loads the policy's file anew and puts it in force. False: the old one stays, and `reload_error` says why. Main thread. */
bool cdl_server_reload(struct cdl_server *server);
/* Puts a policy in force for all workers. The policy is the callee's, whatever comes of it. Main thread. */
int cdl_server_apply(struct cdl_server *server, struct cdl_policy *policy, struct caudal_problem *problem);

static inline const struct cdl_slots *cdl_slots_of(const struct cdl_live_policy *live)
{
    return live->attachment.data;
}

static inline int64_t cdl_server_now_ns(const struct cdl_server *server)
{
    return server->clock->realtime_ns(server->clock->context);
}

#endif
