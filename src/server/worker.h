/* What the server's threads share, and what each has for itself. */
#ifndef CDL_SERVER_WORKER_H
#define CDL_SERVER_WORKER_H

#include "base/arith.h"
#include "base/log.h"
#include "limiter/limiter.h"
#include "metrics/counters.h"
#include "metrics/histogram.h"
#include "metrics/hits.h"
#include "metrics/top_keys.h"
#include "net/connection.h"
#include "net/listen.h"
#include "server/server.h"
#include "server/store_loop.h"
#include "server/watch.h"
#include "wire/http1.h"
#include "wire/http1_response.h"
#include "wire/rls_message.h"

#define CDL_WORKERS_MAX 256u
#define CDL_TOP_KEYS 128u
#define CDL_SHOWN_VALUES_MAX 10000u /* series of metrics that show values out of requests, of all rules together */
#define CDL_BODY_BYTES ((size_t)480 * 1024)
/* The longest answer: a body, and a head that never comes near the rest. */
#define CDL_ANSWER_BYTES ((size_t)512 * 1024)

struct cdl_server;

/* What a server listens for, each with a protocol of its own. */
enum cdl_front {
    CDL_FRONT_HTTP,
    CDL_FRONT_ADMIN, /* the main thread's */
    CDL_FRONT_RESP,
    CDL_FRONT_GRPC,
    CDL_FRONTS,
};

/* Numbers beside the decisions; the order of the names in admin.c. */
enum cdl_event {
    CDL_EVENT_BAD_REQUEST,       /* malformed, too large, too late */
    CDL_EVENT_IGNORED_FORWARDED, /* a peer that is not trusted named another client */
    CDL_EVENT_CANCELLED, /* a call that nobody waited for any more when it was answered, for another reason than the next */
    CDL_EVENT_DEADLINE_EXCEEDED, /* a call that was not answered within the time that it gave */
    CDL_EVENT_DESCRIPTOR_REQUEST,
    CDL_EVENT_DESCRIPTOR_BAD_REQUEST, /* of these, those that could not be read or were not right */
    CDL_EVENT_DESCRIPTOR_FAILURE,     /* of these, those that were decided without the store */
    CDL_EVENT_DOMAIN_NOT_FOUND,       /* descriptors of a domain that no file names */
    CDL_EVENTS,
};

/* A thread that answers requests. */
struct cdl_worker {
    struct cdl_loop loop;
    struct cdl_listener listeners[CDL_FRONTS * CDL_LISTENERS_MAX];
    size_t listener_count;
    struct cdl_server *server;
    uv_thread_t thread;
    uint32_t index;               /* among those that count */
    struct cdl_live_policy *live; /* held by this thread */
    struct cdl_counters_worker *counters;
    struct cdl_histogram *latency;
    struct cdl_top_keys *top_keys;
    char *body;                         /* CDL_BODY_BYTES */
    struct cdl_message_memory messages; /* CDL_RLS_MEMORY_BYTES, of the message at hand */
    uint64_t sampled_of;                /* refusals, for choosing those that are logged */
    int64_t date_s;                     /* the second that `date` tells */
    char date[CDL_HTTP_DATE_LENGTH];
    struct cdl_asker asker;           /* large; its answer is to the request at hand */
    struct cdl_store_loop store_loop; /* open where the store answers later; not the main thread's */
};

struct cdl_descriptor_series; /* server/account_descriptors.h */
struct cdl_resp_passwords;    /* server/resp.h */

/* Beside each policy in force: where each of its limits is counted, and the passwords of its users. */
struct cdl_slots {
    struct cdl_descriptor_series *descriptors;
    struct cdl_counters *counters;
    struct cdl_resp_passwords *passwords; /* NULL: it has no users */
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
    struct cdl_hits *hits;
    struct cdl_log *log;
    struct cdl_tls_context *tls, *tls_h2; /* NULL: none; the second is of gRPC */
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

    struct cdl_socket_file socket_files[CDL_FRONTS * CDL_LISTENERS_MAX]; /* of Unix sockets among all listeners */
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

/* The protocols of the listeners. */
extern const struct cdl_protocol cdl_http_protocol, cdl_admin_protocol, cdl_resp_protocol, cdl_grpc_protocol;

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
