/* The life of a server: start, reload, drain. The main thread runs all of this; see server.h for who owns what. */
#include "server/server.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/problem.h"
#include "base/secret_file.h"
#include "server/account_descriptors.h"
#include "server/exchange.h"
#include "server/notify.h"
#include "server/resp.h"
#include "store/url.h"

#define MS_PER_NS 1000000
#define SECRET_MIN 16u /* bytes */
#define SECRET_MAX 4096u
#define DEFAULT_STORE "memory:?keys=1000000"

/* ---- secrets ---- */

/* Reads a secret from a file, NUL-terminated. Returns its length, 0 when there is none. */
static size_t read_secret(struct cdl_slice file, char *secret, size_t size)
{
    const ssize_t got = cdl_secret_file_read(file.bytes, secret, size - 1);
    const size_t length = got > 0 ? (size_t)got : 0;
    secret[length] = '\0';
    return length;
}

static bool read_token(struct cdl_server *server, struct cdl_slice file)
{
    if (file.length == 0 || read_secret(file, server->admin_token, sizeof server->admin_token) >= SECRET_MIN)
        return true;
    fprintf(stderr, "caudal: %s does not hold a token of at least %u bytes\n", file.bytes, SECRET_MIN);
    return false;
}

/* ---- policies ---- */

static void free_slots(void *data)
{
    struct cdl_slots *slots = data;
    for (uint32_t i = 0; i < slots->count; i++)
        cdl_counters_release(slots->counters, slots->of[i]);
    cdl_resp_passwords_free(slots->passwords);
    cdl_descriptor_series_release(slots->descriptors);
    free(slots);
}

static struct cdl_slots *acquire_slots(struct cdl_server *server, const struct cdl_policy *policy)
{
    struct cdl_slots *slots = calloc(1, sizeof *slots + policy->limit_count * sizeof slots->of[0]);
    if (slots == NULL)
        return NULL;
    slots->counters = server->counters;
    slots->descriptors = cdl_descriptor_series_acquire(server->hits, policy);
    for (; slots->count < policy->limit_count; slots->count++)
        slots->of[slots->count] = cdl_counters_acquire(server->counters, policy->limits[slots->count].name);
    if (slots->descriptors != NULL)
        return slots;
    free_slots(slots);
    return NULL;
}

/* Renews a thread's hold on the policy in force. */
static void renew(struct cdl_worker *worker)
{
    struct cdl_limiter *limiter = worker->server->limiter;
    if (worker->live != NULL && worker->live->generation == cdl_limiter_generation(limiter))
        return;
    cdl_limiter_release(worker->live);
    worker->live = cdl_limiter_acquire(limiter);
}

/* The secret that identities are keyed with when they are logged. In the store they are keyed with the one of the start. */
static int apply_secret(struct cdl_server *server, const struct cdl_policy *policy, struct caudal_problem *problem)
{
    char secret[SECRET_MAX];
    if (policy->secret_file.length == 0)
        return CAUDAL_OK;
    const size_t length = read_secret(policy->secret_file, secret, sizeof secret);
    if (length < SECRET_MIN)
        return cdl_problem(problem, CAUDAL_ERR_ARGUMENT, 0, "%s does not hold a secret of at least %u bytes",
                           policy->secret_file.bytes, SECRET_MIN);
    cdl_log_set_secret(server->log, (struct cdl_slice){secret, length});
    explicit_bzero(secret, sizeof secret);
    return CAUDAL_OK;
}

static int read_passwords(struct cdl_slots *slots, const struct cdl_policy *policy, struct caudal_problem *problem)
{
    if (policy->resp.user_count == 0)
        return CAUDAL_OK;
    slots->passwords = cdl_resp_passwords_read(policy, problem);
    return slots->passwords != NULL ? CAUDAL_OK : CAUDAL_ERR_ARGUMENT;
}

int cdl_server_apply(struct cdl_server *server, struct cdl_policy *policy, struct caudal_problem *problem)
{
    struct cdl_slots *slots = acquire_slots(server, policy);
    int status = slots == NULL ? cdl_problem(problem, CAUDAL_ERR_MEMORY, 0, "no memory for the policy's counters")
                               : read_passwords(slots, policy, problem);
    if (status == CAUDAL_OK)
        status = apply_secret(server, policy, problem);
    if (status == CAUDAL_OK) {
        const struct cdl_attachment attachment = {slots, free_slots};
        status = cdl_limiter_apply(server->limiter, policy, &attachment, problem);
    }
    if (status != CAUDAL_OK) {
        if (slots != NULL)
            free_slots(slots);
        cdl_policy_free(policy);
        return status;
    }
    server->applied_at_s = cdl_server_now_ns(server) / CDL_NS_PER_S;
    renew(&server->admin);
    for (uint32_t i = 0; i < server->worker_count; i++)
        cdl_loop_wake(&server->workers[i].loop);
    return CAUDAL_OK;
}

static void fail_reload(struct cdl_server *server, const char *why)
{
    atomic_fetch_add(&server->reload_failures, 1);
    snprintf(server->reload_error, sizeof server->reload_error, "%s", why);
    cdl_log_about(server->log, CDL_LOG_ERROR, cdl_slice_of(server->reload_error),
                  "the policy cannot be loaded; the old one stays in force", cdl_log_string("error", why));
}

static bool same_listeners(const struct cdl_listeners *a, const struct cdl_listeners *b)
{
    bool same = a->count == b->count;
    for (size_t i = 0; same && i < a->count; i++)
        same = cdl_slice_equal(a->texts[i], b->texts[i]);
    return same;
}

/* Limits change while the server runs; where it listens and where state lives do not. */
static void warn_of_what_waits(struct cdl_server *server, const struct cdl_policy *old, const struct cdl_policy *policy)
{
    const struct cdl_listen_settings *was = &old->listen, *is = &policy->listen;
    if (same_listeners(&was->http, &is->http) && same_listeners(&was->admin, &is->admin) &&
        same_listeners(&was->resp, &is->resp) && same_listeners(&was->grpc, &is->grpc) && was->workers == is->workers &&
        cdl_slice_equal(was->tls.cert, is->tls.cert) && cdl_slice_equal(old->store.url, policy->store.url) &&
        old->store.deadline_ns == policy->store.deadline_ns && old->log.format == policy->log.format &&
        old->log.level == policy->log.level && old->metrics.descriptor_values == policy->metrics.descriptor_values &&
        old->metrics.override_values == policy->metrics.override_values)
        return;
    cdl_log(server->log, CDL_LOG_WARN,
            "changes of listen, store, metrics, log.format and log.level wait for the next start",
            cdl_log_text("file", policy->file));
}

/* As the times of files go, whatever a test says that it is. */
static int64_t real_ns(void)
{
    const struct caudal_clock *clock = caudal_clock_system();
    return clock->realtime_ns(clock->context);
}

bool cdl_server_reload(struct cdl_server *server)
{
    static struct cdl_report report; /* large */
    struct caudal_problem problem;
    struct cdl_policy *policy = cdl_policy_load_file(server->options->policy_file, NULL, &report);
    if (policy == NULL) {
        char line[CDL_FINDING_TEXT_MAX + 512] = "it cannot be read";
        for (size_t i = 0; i < report.count; i++)
            if (!report.findings[i].warning) {
                cdl_finding_format(&report.findings[i], server->options->policy_file, line, sizeof line);
                break;
            }
        fail_reload(server, line);
        return false;
    }
    if (!cdl_watch_follow(&server->watch, policy))
        cdl_log(server->log, CDL_LOG_WARN, "no memory to watch other files than before");
    if (server->admin.live != NULL && server->admin.live->policy->hash == policy->hash) {
        cdl_policy_free(policy); /* the same text: nothing to do, and done */
        atomic_fetch_add(&server->reloads, 1);
        server->reload_error[0] = '\0';
        return true;
    }
    if (server->admin.live != NULL)
        warn_of_what_waits(server, server->admin.live->policy, policy);
    if (cdl_server_apply(server, policy, &problem) != CAUDAL_OK) {
        fail_reload(server, problem.message);
        return false;
    }
    atomic_fetch_add(&server->reloads, 1);
    server->reload_error[0] = '\0';
    cdl_log(server->log, CDL_LOG_INFO, "a new policy is in force",
            cdl_log_u64("generation", cdl_limiter_generation(server->limiter)),
            cdl_log_u64("limits", cdl_policy_named_limits(server->admin.live->policy)));
    return true;
}

/* ---- workers ---- */

/* The end: nothing new is taken in, what is in flight to the store is answered, and then all is closed. */
static void end_worker(struct cdl_worker *worker)
{
    cdl_loop_flush(&worker->loop); /* those that answer out of turn tell their clients where they stopped */
    cdl_loop_quiesce(&worker->loop);
    if (worker->asker.waiting > 0 && !atomic_load(&worker->server->hurried))
        return; /* the last one wakes us again */
    worker->asker.closed = true;
    cdl_store_loop_close(&worker->store_loop);
    cdl_loop_finish(&worker->loop);
}

static void on_wake(struct cdl_loop *loop)
{
    struct cdl_worker *worker = loop->context;
    if (atomic_load(&worker->server->stopping)) {
        end_worker(worker);
        return;
    }
    renew(worker);
    if (atomic_load(&worker->server->draining))
        cdl_loop_flush(loop); /* some protocols tell their clients */
}

static void run_worker(void *data)
{
    struct cdl_worker *worker = data;
    struct cdl_server *server = worker->server;
    cdl_loop_run(&worker->loop);
    cdl_limiter_release(worker->live);
    worker->live = NULL;
    if (atomic_fetch_sub(&server->running, 1) == 1)
        cdl_loop_wake(&server->admin.loop); /* it waited for the last */
}

static struct cdl_connection_bounds bounds_of(struct cdl_server *server, bool is_admin)
{
    const struct cdl_listen_settings *listen = &server->first->listen;
    return (struct cdl_connection_bounds){
        .connections_max = server->connections_max,
        .together = &server->connections[is_admin],
        .message_timeout_ms = (uint32_t)(listen->header_timeout_ns / MS_PER_NS),
        .write_timeout_ms = (uint32_t)(listen->write_timeout_ns / MS_PER_NS),
        .idle_timeout_ms = (uint32_t)(listen->idle_timeout_ns / MS_PER_NS),
    };
}

/* What was built in, and is not to be had: said once, by the first worker for all. */
static void tell_of_ring(const struct cdl_worker *worker)
{
    if (worker->loop.ring_error != 0 && worker->index == 0)
        cdl_log(worker->server->log, CDL_LOG_WARN, "io_uring cannot be used; epoll is",
                cdl_log_string("error", uv_strerror(worker->loop.ring_error)));
}

static bool open_worker(struct cdl_server *server, struct cdl_worker *worker, uint32_t index, uint64_t seed)
{
    const struct cdl_connection_bounds bounds = bounds_of(server, worker == &server->admin);
    worker->server = server;
    worker->index = index;
    worker->counters = cdl_counters_worker(server->counters, index);
    worker->latency = aligned_alloc(CDL_CACHE_LINE, sizeof *worker->latency);
    worker->top_keys = cdl_top_keys_open(CDL_TOP_KEYS, seed, cdl_allocator_default());
    worker->asker.scratch = malloc(CDL_MATCH_SCRATCH_BYTES);
    worker->body = malloc(CDL_BODY_BYTES);
    worker->messages = (struct cdl_message_memory){.bytes = malloc(CDL_RLS_MEMORY_BYTES), .size = CDL_RLS_MEMORY_BYTES};
    if (worker->latency == NULL || worker->top_keys == NULL || worker->asker.scratch == NULL || worker->body == NULL ||
        worker->messages.bytes == NULL || !cdl_loop_open(&worker->loop, &bounds))
        return false;
    memset(worker->latency, 0, sizeof *worker->latency);
    worker->loop.context = worker;
    worker->loop.on_wake = on_wake;
    tell_of_ring(worker);
    if (worker == &server->admin || !cdl_store_answers_later(server->store))
        return true;
    const bool opened = cdl_store_loop_open(&worker->store_loop, server->store, cdl_slice_of(server->store_url),
                                            &worker->loop.uv, server->log);
    worker->asker.client = worker->store_loop.client;
    return opened;
}

static void close_worker(struct cdl_worker *worker)
{
    cdl_loop_close(&worker->loop);
    cdl_top_keys_close(worker->top_keys);
    free(worker->latency);
    free(worker->asker.scratch);
    free(worker->body);
    free(worker->messages.bytes);
}

/* ---- listeners ---- */

static const struct front {
    const char *name;
    const struct cdl_protocol *protocol;
    size_t settings; /* offset in the policy's listen settings */
} fronts[CDL_FRONTS] = {
    [CDL_FRONT_HTTP] = {"http", &cdl_http_protocol, offsetof(struct cdl_listen_settings, http)},
    [CDL_FRONT_ADMIN] = {"admin", &cdl_admin_protocol, offsetof(struct cdl_listen_settings, admin)},
    [CDL_FRONT_RESP] = {"resp", &cdl_resp_protocol, offsetof(struct cdl_listen_settings, resp)},
    [CDL_FRONT_GRPC] = {"grpc", &cdl_grpc_protocol, offsetof(struct cdl_listen_settings, grpc)},
};

/* NULL: what is said there is plain. */
static struct cdl_tls_context *tls_of(const struct cdl_server *server, enum cdl_front front)
{
    if (front == CDL_FRONT_ADMIN)
        return NULL;
    return front == CDL_FRONT_GRPC ? server->tls_h2 : server->tls;
}

static void say_where(const struct cdl_server *server, enum cdl_front front, const struct cdl_listening *socket)
{
    const bool tls = tls_of(server, front) != NULL;
    printf("listening on %s %s%s\n", fronts[front].name, socket->text, tls ? " (TLS)" : "");
    const char *const path = socket->text + sizeof "unix:" - 1, *const port = strrchr(socket->text, ':') + 1;
    if (front == CDL_FRONT_HTTP && socket->is_unix)
        printf("try: curl -i --unix-socket %s http://localhost/check\n", path);
    else if (front == CDL_FRONT_HTTP)
        printf("try: curl -i %s://%s/check\n", tls ? "https" : "http", socket->text);
    else if (front == CDL_FRONT_RESP && !socket->is_unix && socket->is_local)
        printf("try: redis-cli %s-p %s CL.THROTTLE user123 15 30 60\n", tls ? "--tls " : "", port);
}

/* Opens one endpoint, on every worker or for the administrator, and says so. */
static bool listen_on(struct cdl_server *server, const struct cdl_endpoint *endpoint, enum cdl_front front)
{
    struct caudal_problem problem;
    struct cdl_listening sockets[CDL_WORKERS_MAX];
    const bool is_admin = front == CDL_FRONT_ADMIN;
    struct cdl_worker *workers = is_admin ? &server->admin : server->workers;
    const uint32_t count = is_admin ? 1 : server->worker_count;
    if (cdl_listen(endpoint, sockets, count, &problem) != CAUDAL_OK) {
        fprintf(stderr, "caudal: %s\n", problem.message);
        return false;
    }
    if (is_admin && !sockets[0].is_local && server->admin_token[0] == '\0') {
        fprintf(stderr, "caudal: admin would listen on %s, which others can reach: set listen.admin_token_file\n",
                sockets[0].text);
        return false;
    }
    server->socket_files[server->socket_file_count++] = cdl_socket_file_of(&sockets[0]);
    for (uint32_t i = 0; i < count; i++) {
        struct cdl_listener *listener = &workers[i].listeners[workers[i].listener_count++];
        const int error = cdl_listener_open(listener, &workers[i].loop, sockets[i].fd, fronts[front].protocol,
                                            tls_of(server, front), &workers[i]);
        if (error != 0) {
            fprintf(stderr, "caudal: cannot listen on %s: %s\n", sockets[0].text, uv_strerror(error));
            return false;
        }
        listener->is_local = sockets[i].is_local;
    }
    say_where(server, front, &sockets[0]);
    return true;
}

/* Where the command line says, or else where the policy does. */
static bool listen_for(struct cdl_server *server, enum cdl_front front, const char *option)
{
    const struct cdl_listeners *settings =
        (const struct cdl_listeners *)(const void *)((const char *)&server->first->listen + fronts[front].settings);
    struct cdl_endpoint endpoint;
    const char *why;
    if (option == NULL) {
        for (size_t i = 0; i < settings->count; i++)
            if (!listen_on(server, &settings->items[i], front))
                return false;
        return true;
    }
    if (strcmp(option, "none") == 0)
        return true;
    if (cdl_endpoint_parse(cdl_slice_of(option), &endpoint, &why))
        return listen_on(server, &endpoint, front);
    fprintf(stderr, "caudal: '%s' %s\n", option, why);
    return false;
}

static bool listen_for_all(struct cdl_server *server)
{
    const struct cdl_server_options *options = server->options;
    return listen_for(server, CDL_FRONT_HTTP, options->http) && listen_for(server, CDL_FRONT_ADMIN, options->admin) &&
           listen_for(server, CDL_FRONT_RESP, options->resp) && listen_for(server, CDL_FRONT_GRPC, options->grpc);
}

/* ---- starting ---- */

static bool open_log(struct cdl_server *server)
{
    const struct cdl_log_settings *settings = &server->first->log;
    const struct cdl_log_options options = {
        .fd = STDERR_FILENO,
        .level = settings->level,
        .format = settings->format,
        .repeat_window_ns = 10 * CDL_NS_PER_S,
    };
    server->log = cdl_log_open(&options);
    return server->log != NULL;
}

static struct cdl_tls_context *new_tls(const struct cdl_tls_settings *tls, const char *protocol)
{
    struct caudal_problem problem;
    const struct cdl_tls_files files = {tls->cert.bytes, tls->key.bytes,
                                        tls->client_ca.length > 0 ? tls->client_ca.bytes : NULL, protocol};
    struct cdl_tls_context *context = cdl_tls_context_new(&files, &problem);
    if (context == NULL)
        fprintf(stderr, "caudal: %s\n", problem.message);
    return context;
}

/* Clients of gRPC insist on hearing that HTTP/2 is spoken. */
static bool open_tls(struct cdl_server *server)
{
    const struct cdl_tls_settings *tls = &server->first->listen.tls;
    if (tls->cert.length == 0)
        return true;
    server->tls = new_tls(tls, NULL);
    server->tls_h2 = server->tls != NULL ? new_tls(tls, "h2") : NULL;
    return server->tls_h2 != NULL;
}

static bool open_store(struct cdl_server *server)
{
    struct caudal_problem problem;
    const struct cdl_slice configured = server->first->store.url;
    const char *url = server->options->store_url;
    if (url == NULL)
        url = configured.length > 0 ? configured.bytes : DEFAULT_STORE;
    struct cdl_writer shown = cdl_writer_on(server->store_url, sizeof server->store_url - 1);
    cdl_store_url_mask(url, &shown);
    server->store_url[shown.length] = '\0';
    char secret[SECRET_MAX];
    const struct cdl_slice file = server->first->secret_file;
    const struct caudal_store_options options = {
        .size = sizeof options,
        .clock = server->clock,
        .secret = secret,
        .secret_length = file.length > 0 ? read_secret(file, secret, sizeof secret) : 0,
        .deadline_ns = server->first->store.deadline_ns,
    };
    const int status = caudal_store_open(url, &options, &server->store, &problem);
    explicit_bzero(secret, sizeof secret);
    if (status != CAUDAL_OK)
        fprintf(stderr, "caudal: the store %s cannot be opened: %s\n", server->store_url, problem.message);
    return status == CAUDAL_OK;
}

static void set_bounds(struct cdl_server *server)
{
    const struct cdl_listen_settings *listen = &server->first->listen;
    server->http_limits = (struct cdl_http1_limits){
        .target_bytes = (uint32_t)cdl_min_u64(listen->header_bytes_max, CDL_HTTP1_HEAD_MAX),
        .head_bytes = (uint32_t)cdl_min_u64(listen->header_bytes_max, CDL_HTTP1_HEAD_MAX),
        .field_count = CDL_HTTP1_FIELDS_MAX,
        .body_bytes = (uint32_t)cdl_min_u64(listen->body_bytes_max, UINT64_C(1) << 20),
    };
    server->body_timeout_ms = (uint32_t)(listen->body_timeout_ns / MS_PER_NS);
    server->drain_ns = listen->drain_ns;
    server->connections_max = (uint32_t)cdl_min_u64(listen->connections_max, UINT32_MAX);
}

/* As many connections as the system lets us have, and some descriptors that are not for them: of our own loops and listeners, of
 * administrators, to read the policy anew, and to the store, or clients could keep it away: two servers' at the most connections
 * that a URL allows, or a cluster's of 32 at one each. */
static void bound_descriptors(struct cdl_server *server)
{
    const uint64_t each = 8 + (cdl_store_answers_later(server->store) ? 32 : 0);
    const uint64_t ours = 32 + each * server->worker_count;
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) != 0)
        return;
    if (files.rlim_cur < files.rlim_max) {
        files.rlim_cur = files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files);
        getrlimit(RLIMIT_NOFILE, &files);
    }
    const uint64_t theirs = files.rlim_cur > ours ? files.rlim_cur - ours : 1;
    if (theirs >= server->connections_max)
        return;
    server->connections_max = (uint32_t)theirs;
    cdl_log(server->log, CDL_LOG_WARN, "the system's limit of open files allows fewer connections than the policy",
            cdl_log_u64("connections", theirs));
}

static struct cdl_hits *open_hits(const struct cdl_server *server, uint32_t groups, uint64_t seed)
{
    const struct cdl_hits_options options = {
        .workers = server->worker_count + 1,
        .groups = groups,
        .all_values = CDL_SHOWN_VALUES_MAX,
        .seed = seed,
    };
    return cdl_hits_open(&options, cdl_allocator_default());
}

static bool open_parts(struct cdl_server *server)
{
    struct caudal_problem problem;
    uint32_t wanted = server->options->workers != 0 ? server->options->workers : server->first->listen.workers;
    const long cores = sysconf(_SC_NPROCESSORS_ONLN);
    server->worker_count = wanted != 0 ? wanted : (uint32_t)(cores > 0 ? cores : 1);
    if (server->worker_count > CDL_WORKERS_MAX)
        server->worker_count = CDL_WORKERS_MAX;
    const struct cdl_counters_options counters = {
        .workers = server->worker_count + 1,
        .limits = (uint32_t)cdl_min_u64(2u * server->first->limit_count + 256u, CDL_COUNTERS_LIMITS_MAX),
        .events = CDL_EVENTS,
    };
    uint64_t seed;
    if (getrandom(&seed, sizeof seed, 0) != (ssize_t)sizeof seed) {
        fprintf(stderr, "caudal: the system gives no random numbers\n");
        return false;
    }
    set_bounds(server);
    server->workers = calloc(server->worker_count, sizeof *server->workers);
    server->counters = cdl_counters_open(&counters, cdl_allocator_default());
    server->hits = open_hits(server, counters.limits, seed);
    if (server->workers == NULL || server->counters == NULL || server->hits == NULL || !open_log(server)) {
        fprintf(stderr, "caudal: no memory\n");
        return false;
    }
    if (!open_tls(server) || !read_token(server, server->first->listen.admin_token_file) || !open_store(server))
        return false;
    bound_descriptors(server);
    server->limiter = cdl_limiter_open(server->store);
    bool ok = server->limiter != NULL && open_worker(server, &server->admin, server->worker_count, seed);
    for (uint32_t i = 0; ok && i < server->worker_count; i++)
        ok = open_worker(server, &server->workers[i], i, seed);
    if (!ok) {
        fprintf(stderr, "caudal: no memory for %u workers\n", server->worker_count);
        return false;
    }
    if (!listen_for_all(server))
        return false;
    const uint32_t running = server->worker_count;
    server->worker_count = 0; /* nobody to wake yet */
    const int status = cdl_server_apply(server, server->first, &problem);
    server->worker_count = running;
    if (status != CAUDAL_OK)
        fprintf(stderr, "caudal: the policy cannot be put in force: %s\n", problem.message);
    return status == CAUDAL_OK;
}

/* ---- running ---- */

static const int signal_numbers[] = {SIGTERM, SIGINT, SIGHUP};

/* Keeps the signals that we handle from the calling thread, or lets them through again. */
static void block_signals(bool block)
{
    sigset_t set;
    sigemptyset(&set);
    for (size_t i = 0; i < sizeof signal_numbers / sizeof signal_numbers[0]; i++)
        sigaddset(&set, signal_numbers[i]);
    pthread_sigmask(block ? SIG_BLOCK : SIG_UNBLOCK, &set, NULL);
}

/* Workers end when what is in flight is answered. Until then signals are heard: one more says not to wait for that. */
static void stop(struct cdl_server *server)
{
    atomic_store(&server->draining, true); /* no client is asked to go on */
    if (!atomic_exchange(&server->stopping, true))
        cdl_loop_quiesce(&server->admin.loop);
    for (uint32_t i = 0; i < server->worker_count; i++)
        cdl_loop_wake(&server->workers[i].loop);
    cdl_loop_wake(&server->admin.loop);
}

static void on_admin_wake(struct cdl_loop *loop)
{
    struct cdl_worker *worker = loop->context;
    struct cdl_server *server = worker->server;
    if (!atomic_load(&server->stopping) || atomic_load(&server->running) > 0)
        return;
    block_signals(true); /* one more must not kill us, without its handler, on the way out */
    cdl_loop_finish(loop);
}

static void on_drained(uv_timer_t *timer)
{
    stop(timer->data);
}

/* Readiness fails first; answers go on for the drain time, each asking its client to connect anew; then it ends. */
static void drain(struct cdl_server *server)
{
    if (atomic_exchange(&server->draining, true)) {
        atomic_store(&server->hurried, true);
        stop(server); /* asked twice */
        return;
    }
    cdl_notify("STOPPING=1");
    cdl_log(server->log, CDL_LOG_INFO, "draining", cdl_log_i64("drain_ms", server->drain_ns / MS_PER_NS));
    uv_timer_start(&server->drain_timer, on_drained, (uint64_t)(server->drain_ns / MS_PER_NS), 0);
    for (uint32_t i = 0; i < server->worker_count; i++)
        cdl_loop_wake(&server->workers[i].loop);
}

static void on_signal(uv_signal_t *handle, int number)
{
    struct cdl_server *server = handle->data;
    if (number != SIGHUP)
        drain(server);
    else if (!atomic_load(&server->stopping))
        cdl_server_reload(server);
}

static void on_admin_tick(struct cdl_loop *loop)
{
    struct cdl_worker *worker = loop->context;
    if (!atomic_load(&worker->server->stopping) && cdl_watch_look(&worker->server->watch, real_ns()))
        cdl_server_reload(worker->server);
    cdl_log_tick(worker->server->log);
}

static void start_signals(struct cdl_server *server)
{
    for (size_t i = 0; i < sizeof signal_numbers / sizeof signal_numbers[0]; i++) {
        uv_signal_init(&server->admin.loop.uv, &server->signals[i]);
        server->signals[i].data = server;
        uv_signal_start(&server->signals[i], on_signal, signal_numbers[i]);
    }
    uv_timer_init(&server->admin.loop.uv, &server->drain_timer);
    server->drain_timer.data = server;
}

static int run_parts(struct cdl_server *server)
{
    int status = 0;
    start_signals(server);
    server->admin.loop.on_tick = on_admin_tick;
    server->admin.loop.on_wake = on_admin_wake;
    atomic_store(&server->running, server->worker_count);
    block_signals(true); /* workers leave them to this thread */
    for (uint32_t i = 0; i < server->worker_count; i++) {
        renew(&server->workers[i]);
        if (uv_thread_create(&server->workers[i].thread, run_worker, &server->workers[i]) != 0) {
            fprintf(stderr, "caudal: cannot start a thread\n");
            cdl_limiter_release(server->workers[i].live);
            atomic_fetch_sub(&server->running, server->worker_count - i);
            server->worker_count = i;
            status = 1;
            stop(server);
        }
    }
    if (!atomic_load(&server->stopping))
        block_signals(false);
    fflush(stdout);
    cdl_notify("READY=1");
    cdl_loop_run(&server->admin.loop);
    for (uint32_t i = 0; i < server->worker_count; i++)
        uv_thread_join(&server->workers[i].thread);
    cdl_limiter_release(server->admin.live);
    server->admin.live = NULL;
    return status;
}

static void close_parts(struct cdl_server *server)
{
    for (size_t i = 0; i < server->socket_file_count; i++)
        cdl_socket_file_remove(&server->socket_files[i]);
    if (server->limiter != NULL)
        cdl_limiter_leave_store(server->limiter);
    for (uint32_t i = 0; i < server->worker_count; i++)
        close_worker(&server->workers[i]);
    close_worker(&server->admin);
    cdl_limiter_close(server->limiter);
    caudal_store_close(server->store);
    cdl_tls_context_free(server->tls);
    cdl_tls_context_free(server->tls_h2);
    cdl_counters_close(server->counters);
    cdl_hits_close(server->hits);
    cdl_log_close(server->log);
    cdl_watch_end(&server->watch);
#ifdef CAUDAL_TEST_CLOCK
    caudal_fake_clock_free(server->test_clock);
#endif
    free(server->workers);
}

/* Prints what is wrong with the policy, and what is unwise about it. */
static struct cdl_policy *load_first(const char *file)
{
    static struct cdl_report report; /* large */
    struct cdl_policy *policy = cdl_policy_load_file(file, NULL, &report);
    for (size_t i = 0; i < report.count; i++) {
        char line[CDL_FINDING_TEXT_MAX + 512];
        cdl_finding_format(&report.findings[i], file, line, sizeof line);
        fprintf(stderr, "%s\n", line);
    }
    return policy;
}

int cdl_server_run(const struct cdl_server_options *options)
{
    struct cdl_server *server = calloc(1, sizeof *server);
    if (server == NULL)
        return 1;
    signal(SIGPIPE, SIG_IGN);
    server->options = options;
    server->clock = caudal_clock_system();
#ifdef CAUDAL_TEST_CLOCK
    server->test_clock = caudal_fake_clock_new(cdl_server_now_ns(server));
    server->clock = caudal_fake_clock_clock(server->test_clock);
#endif
    server->started_at_s = cdl_server_now_ns(server) / CDL_NS_PER_S;
    cdl_watch_start(&server->watch, options->policy_file,
                    real_ns()); /* before it is read: a change meanwhile is seen */
    server->first = load_first(options->policy_file);
    if (server->first != NULL)
        cdl_watch_follow(&server->watch, server->first);
    if (server->first == NULL || !open_parts(server))
        _exit(1); /* the system takes back what half a start has opened; nothing waits to be written */
    const int status = run_parts(server);
    close_parts(server);
    free(server);
    return status;
}
