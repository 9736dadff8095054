/* The admin listener: metrics, health, limits, keys, reload. Its own address, loopback unless told otherwise, and with a bearer token
 * when it is not. Runs in the main thread, beside the workers, and takes no time of theirs. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "identity/path.h"
#include "policy/explain_domain.h"
#include "server/account_descriptors.h"
#include "server/exchange.h"
#include "server/reply.h"
#include "store/lease/lease_store.h"
#include "wire/json_api.h"

/* Grown as needed. As many limits as a policy may have, and as many series of values, each of them as long as may be. */
#define METRICS_BYTES_MAX ((size_t)128 << 20)
#define TOP_MAX 100u

/* ---- health ---- */

static void healthz(struct cdl_exchange *exchange)
{
    cdl_exchange_reply(exchange, 200, CDL_SLICE("text/plain"), CDL_SLICE(""), CDL_SLICE("ok\n"));
}

/* Whether all workers can ask the store. */
static bool store_is_up(const struct cdl_server *server)
{
    bool up = true;
    for (uint32_t i = 0; i < server->worker_count && cdl_store_answers_later(server->store); i++)
        up &= atomic_load_explicit(&server->workers[i].store_loop.is_up, memory_order_relaxed);
    return up;
}

/* Without its store it still answers, as the policy says, and is to get requests: all others are without it, too. */
static void readyz(struct cdl_exchange *exchange)
{
    const struct cdl_server *server = exchange->worker->server;
    if (atomic_load(&server->draining))
        cdl_exchange_reply(exchange, 503, CDL_SLICE("text/plain"), CDL_SLICE(""), CDL_SLICE("draining\n"));
    else
        cdl_exchange_reply(exchange, 200, CDL_SLICE("text/plain"), CDL_SLICE(""),
                           store_is_up(server) ? CDL_SLICE("ready\n") : CDL_SLICE("degraded: the store is away\n"));
}

/* ---- metrics ---- */

static void number(struct cdl_exposition *page, enum cdl_metric_type type, const char *name, const char *help,
                   uint64_t value)
{
    cdl_exposition_family(page, type, name, help);
    cdl_exposition_u64(page, NULL, 0, value);
}

static void expose_store(struct cdl_server *server, struct cdl_exposition *page)
{
    struct caudal_store_stats stats = {.size = sizeof stats};
    caudal_store_stats(server->store, &stats);
    number(page, CDL_METRIC_GAUGE, "caudal_store_limits", "Limits in the store.", stats.limits);
    number(page, CDL_METRIC_GAUGE, "caudal_store_bytes", "Memory reserved for keys.", stats.bytes);
    number(page, CDL_METRIC_GAUGE, "caudal_store_slots", "Room for keys.", stats.slots);
    number(page, CDL_METRIC_GAUGE, "caudal_store_live_keys", "Keys whose state matters.", stats.live_keys);
    number(page, CDL_METRIC_COUNTER, "caudal_store_inserted", "Keys that came in.", stats.inserted);
    number(page, CDL_METRIC_COUNTER, "caudal_store_live_evictions", "Keys forgotten for want of room.",
           stats.live_evictions);
}

static void expose_store_health(struct cdl_server *server, struct cdl_exposition *page)
{
    const bool up = store_is_up(server);
    number(page, CDL_METRIC_GAUGE, "caudal_store_up", "1 while all workers can ask the store.", up);
    number(page, CDL_METRIC_GAUGE, "caudal_store_fallback_active",
           "1 while limits answer as their on_store_failure says, because the store is away.", !up);
    if (server->store->ops->events == NULL)
        return;
    const struct cdl_store_events *events = server->store->ops->events(server->store);
    cdl_exposition_family(page, CDL_METRIC_COUNTER, "caudal_store_events",
                          "What came of asking the store, other than a decision.");
    for (unsigned i = CDL_STORE_NONE + 1; i < CDL_STORE_EVENTS; i++) {
        const struct cdl_label event = {"event", cdl_slice_of(cdl_store_event_name((enum cdl_store_event)i))};
        cdl_exposition_u64(page, &event, 1, atomic_load_explicit(&events->counts[i], memory_order_relaxed));
    }
}

static void expose_leases(struct cdl_server *server, struct cdl_exposition *page)
{
    struct cdl_lease_counts counts;
    if (server->store->ops->lease_counts == NULL)
        return;
    cdl_store_lease_counts(server->store, &counts);
    number(page, CDL_METRIC_COUNTER, "caudal_lease_decisions", "Decisions on leased limits without asking the store.",
           counts.by_lease + counts.by_refusal);
    number(page, CDL_METRIC_COUNTER, "caudal_lease_denials", "Of these, refusals that still held.", counts.by_refusal);
    number(page, CDL_METRIC_COUNTER, "caudal_lease_store_calls", "Times that the store was asked about leased limits.",
           counts.store_calls);
    number(page, CDL_METRIC_COUNTER, "caudal_lease_waits", "Times that a call waited for tokens to be withdrawn.",
           counts.waits);
    number(page, CDL_METRIC_COUNTER, "caudal_lease_stranded_tokens", "Withdrawn tokens that died unspent.",
           counts.stranded);
    number(page, CDL_METRIC_COUNTER, "caudal_lease_given_back_tokens", "Withdrawn tokens that went back to the store.",
           counts.given_back);
    number(page, CDL_METRIC_GAUGE, "caudal_lease_lots", "Batches of tokens that are held.", counts.lots);
}

static void expose_connections(struct cdl_server *server, struct cdl_exposition *page)
{
    uint64_t accepted = 0, rejected = 0, timed_out = 0, open = 0;
    for (uint32_t i = 0; i < server->worker_count; i++) {
        const struct cdl_loop *loop = &server->workers[i].loop;
        accepted += atomic_load_explicit(&loop->accepted, memory_order_relaxed);
        rejected += atomic_load_explicit(&loop->rejected, memory_order_relaxed);
        timed_out += atomic_load_explicit(&loop->timed_out, memory_order_relaxed);
        open += atomic_load_explicit(&loop->open, memory_order_relaxed);
    }
    number(page, CDL_METRIC_COUNTER, "caudal_connections_accepted", "Connections that were let in.", accepted);
    number(page, CDL_METRIC_COUNTER, "caudal_connections_rejected", "Connections beyond the cap.", rejected);
    number(page, CDL_METRIC_COUNTER, "caudal_connections_timed_out", "Connections closed for slowness.", timed_out);
    number(page, CDL_METRIC_GAUGE, "caudal_connections_open", "Connections that are open.", open);
}

static void expose_latency(struct cdl_server *server, struct cdl_exposition *page)
{
    struct cdl_histogram_snapshot *sum = calloc(1, sizeof *sum);
    if (sum == NULL)
        return;
    for (uint32_t i = 0; i < server->worker_count; i++)
        cdl_histogram_add(sum, server->workers[i].latency);
    cdl_exposition_family(page, CDL_METRIC_HISTOGRAM, "caudal_request_duration_seconds",
                          "From a request that has been read to its answer.");
    cdl_histogram_expose(sum, page, NULL, 0);
    free(sum);
}

static void expose_policy(struct cdl_server *server, struct cdl_exposition *page)
{
    cdl_exposition_family(page, CDL_METRIC_COUNTER, "caudal_policy_reloads",
                          "Policies that were loaded after the first.");
    const struct cdl_label ok = {"result", CDL_SLICE("ok")}, failed = {"result", CDL_SLICE("failed")};
    cdl_exposition_u64(page, &ok, 1, atomic_load(&server->reloads));
    cdl_exposition_u64(page, &failed, 1, atomic_load(&server->reload_failures));
    number(page, CDL_METRIC_GAUGE, "caudal_policy_generation", "Which policy is in force.",
           cdl_limiter_generation(server->limiter));
    number(page, CDL_METRIC_GAUGE, "caudal_policy_applied_timestamp_seconds", "Since when it is in force.",
           (uint64_t)server->applied_at_s);
}

static void expose_events(struct cdl_server *server, struct cdl_exposition *page)
{
    number(page, CDL_METRIC_COUNTER, "caudal_http_bad_requests", "Requests that could not be read.",
           cdl_counters_event_sum(server->counters, CDL_EVENT_BAD_REQUEST));
    number(page, CDL_METRIC_COUNTER, "caudal_forwarded_ignored",
           "Requests of peers that are not trusted but name another client.",
           cdl_counters_event_sum(server->counters, CDL_EVENT_IGNORED_FORWARDED));
    number(page, CDL_METRIC_COUNTER, "caudal_calls_cancelled",
           "gRPC calls that were given up by their client before they were answered.",
           cdl_counters_event_sum(server->counters, CDL_EVENT_CANCELLED));
    number(page, CDL_METRIC_COUNTER, "caudal_calls_deadline_exceeded",
           "gRPC calls that were not answered within the time that they gave.",
           cdl_counters_event_sum(server->counters, CDL_EVENT_DEADLINE_EXCEEDED));
    number(page, CDL_METRIC_COUNTER, "caudal_log_lines_lost", "Log lines that nobody took.", cdl_log_lost(server->log));
}

static struct cdl_slice header_of(const struct cdl_exchange *exchange, struct cdl_slice name)
{
    for (size_t i = 0; i < exchange->request->field_count; i++)
        if (cdl_slice_equal_nocase(exchange->request->fields[i].name, name))
            return exchange->request->fields[i].value;
    return (struct cdl_slice){NULL, 0};
}

static void metrics(struct cdl_exchange *exchange)
{
    struct cdl_server *server = exchange->worker->server;
    const enum cdl_exposition_format format = cdl_exposition_choose(header_of(exchange, CDL_SLICE("accept")));
    struct cdl_exposition page;
    cdl_exposition_begin(&page, format, METRICS_BYTES_MAX);
    cdl_exposition_family(&page, CDL_METRIC_INFO, "caudal_build", "The program that is running.");
    const struct cdl_label version = {"version", cdl_slice_of(caudal_version())};
    cdl_exposition_u64(&page, &version, 1, 1);
    cdl_counters_expose(server->counters, &page);
    expose_latency(server, &page);
    expose_store(server, &page);
    expose_store_health(server, &page);
    expose_leases(server, &page);
    expose_connections(server, &page);
    expose_policy(server, &page);
    cdl_expose_descriptors(server, &page);
    expose_events(server, &page);
    number(&page, CDL_METRIC_GAUGE, "caudal_start_time_seconds", "When the program started.",
           (uint64_t)server->started_at_s);
    struct cdl_slice text;
    if (cdl_exposition_finish(&page, &text) == CAUDAL_OK)
        cdl_exchange_reply_large(exchange, 200, cdl_slice_of(cdl_exposition_content_type(format)), text);
    else
        cdl_exchange_problem(exchange, 500, "the metrics do not fit %zu bytes", METRICS_BYTES_MAX);
    cdl_exposition_end(&page);
}

/* ---- limits ---- */

static void reply_json(struct cdl_exchange *exchange, unsigned status, json_t *value)
{
    char *text = value == NULL ? NULL : json_dumps(value, JSON_COMPACT | JSON_ENSURE_ASCII);
    if (text == NULL)
        cdl_exchange_problem(exchange, 500, "no memory for the answer");
    else
        cdl_exchange_reply_large(exchange, status, CDL_TYPE_JSON, cdl_slice_of(text));
    free(text);
    json_decref(value);
}

static json_t *text_of(struct cdl_slice slice)
{
    json_t *text = json_stringn(slice.bytes == NULL ? "" : slice.bytes, slice.length);
    return text != NULL ? text : json_string("(not UTF-8)");
}

static json_t *rate_of(const struct cdl_policy *policy, uint32_t rate)
{
    char text[2 * CAUDAL_LIMIT_TEXT_MAX];
    struct cdl_writer writer = cdl_writer_on(text, sizeof text);
    cdl_explain_rate_text(policy, rate, &writer);
    return text_of(cdl_written(&writer));
}

static json_t *limit_of(const struct cdl_policy *policy, const struct cdl_limit_rule *limit)
{
    json_t *per = json_array(), *overrides = json_array();
    for (uint32_t i = 0; i < limit->per_count; i++)
        json_array_append_new(per, text_of(limit->per[i].text));
    for (uint32_t i = 0; i < limit->override_count; i++)
        json_array_append_new(overrides, rate_of(policy, limit->overrides[i].rate));
    return json_pack("{s:o, s:o, s:o, s:s, s:s, s:o}", "name", text_of(limit->name), "rate",
                     rate_of(policy, limit->rate), "per", per, "mode", cdl_mode_word(limit->mode), "sharing",
                     cdl_sharing_word(limit->sharing), "overrides", overrides);
}

static void limits(struct cdl_exchange *exchange)
{
    struct cdl_server *server = exchange->worker->server;
    const struct cdl_live_policy *live = exchange->worker->live;
    char hash[17];
    snprintf(hash, sizeof hash, "%016llx", (unsigned long long)live->policy->hash);
    json_t *list = json_array();
    for (uint32_t i = 0; i < live->policy->limit_count; i++)
        if (live->policy->limits[i].kind != CDL_RULE_PER_CALL)
            json_array_append_new(list, limit_of(live->policy, &live->policy->limits[i]));
    json_t *value = json_pack("{s:I, s:s, s:o, s:I, s:I, s:I, s:o}", "generation", (json_int_t)live->generation, "hash",
                              hash, "file", text_of(live->policy->file), "applied_at", (json_int_t)server->applied_at_s,
                              "reloads", (json_int_t)atomic_load(&server->reloads), "reload_failures",
                              (json_int_t)atomic_load(&server->reload_failures), "limits", list);
    if (value != NULL && server->reload_error[0] != '\0')
        json_object_set_new(value, "last_reload_error", json_string(server->reload_error));
    reply_json(exchange, 200, value);
}

/* ---- keys ---- */

static int digit_of(char c)
{
    const char lower = cdl_ascii_lower(c);
    return c >= '0' && c <= '9' ? c - '0' : lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

/* What a part of a path stands for; a '%' that begins no escape stands for itself. */
static void decode_part(struct cdl_slice part, struct cdl_writer *decoded)
{
    for (size_t i = 0; i < part.length; i++) {
        char byte = part.bytes[i];
        if (byte == '%' && part.length - i > 2 && digit_of(part.bytes[i + 1]) >= 0 &&
            digit_of(part.bytes[i + 2]) >= 0) {
            byte = (char)(digit_of(part.bytes[i + 1]) << 4 | digit_of(part.bytes[i + 2]));
            i += 2;
        }
        cdl_write(decoded, (struct cdl_slice){&byte, 1});
    }
}

/* /v1/keys/LIMIT/PART/PART…, each part percent-encoded. */
static bool read_key(struct cdl_exchange *exchange, struct cdl_slice rest, char *memory, struct cdl_named_key *key,
                     struct cdl_slice values[CDL_PER_MAX])
{
    struct cdl_writer writer = cdl_writer_on(memory, CDL_BODY_BYTES);
    struct cdl_slice parts[CDL_PER_MAX + 1];
    size_t count = 0;
    for (;;) {
        const char *slash = rest.length > 0 ? memchr(rest.bytes, '/', rest.length) : NULL;
        const struct cdl_slice raw = slash == NULL ? rest : cdl_slice_head(rest, (size_t)(slash - rest.bytes));
        const size_t start = writer.length;
        decode_part(raw, &writer);
        parts[count++] = (struct cdl_slice){memory + start, writer.length - start};
        if (slash == NULL)
            break;
        if (count > CDL_PER_MAX) {
            cdl_exchange_problem(exchange, 400, "no key has more than %u parts", CDL_PER_MAX);
            return false;
        }
        rest = cdl_slice_from(rest, raw.length + 1);
    }
    key->limit = cdl_policy_find(exchange->worker->live->policy, parts[0]);
    if (key->limit == CDL_NONE) {
        cdl_exchange_problem(exchange, 404, "there is no limit '%.*s'", (int)cdl_min_u64(parts[0].length, 100),
                             parts[0].bytes);
        return false;
    }
    for (size_t i = 1; i < count; i++) {
        values[i - 1] = parts[i];
        if (parts[i].length == 0) {
            cdl_exchange_problem(exchange, 400, "part %zu of the key is empty", i);
            return false;
        }
    }
    key->values = values;
    key->value_count = count - 1;
    return true;
}

static void log_reset(struct cdl_exchange *exchange, const struct cdl_named_key *key)
{
    const struct cdl_address peer = cdl_exchange_peer(exchange);
    char by[CDL_ADDRESS_TEXT_MAX] = "unix";
    if (peer.family != 0)
        cdl_address_format(&peer, by);
    cdl_account_reset(exchange->worker, exchange->worker->live, key, by);
}

static void keys(struct cdl_exchange *exchange, struct cdl_slice rest)
{
    struct cdl_worker *worker = exchange->worker;
    struct cdl_slice values[CDL_PER_MAX];
    struct cdl_named_key key;
    if (!cdl_exchange_allows(exchange, "GET HEAD DELETE") || !read_key(exchange, rest, worker->body, &key, values))
        return;
    const bool reset = cdl_slice_equal(exchange->request->method, CDL_SLICE("DELETE"));
    const struct cdl_limit_rule *limit = &worker->live->policy->limits[key.limit];
    struct caudal_decision decision;
    const int status = cdl_limiter_inspect(worker->live, &key, reset, worker->asker.scratch, &decision);
    if (status == CAUDAL_ERR_ARGUMENT) {
        cdl_exchange_problem(exchange, 400, "a key of this limit has parts: %u, not %zu", limit->per_count,
                             key.value_count);
        return;
    }
    if (status != CAUDAL_OK) {
        cdl_exchange_problem(exchange, 503, "%s", caudal_status_text(status));
        return;
    }
    if (reset)
        log_reset(exchange, &key);
    char text[2048];
    struct cdl_writer body = cdl_writer_on(text, sizeof text);
    const struct cdl_json_decision told = {limit->name, &decision};
    cdl_json_write_decision(&body, &told, NULL, 0);
    cdl_exchange_reply(exchange, 200, CDL_TYPE_JSON, CDL_SLICE("Cache-Control: no-store\r\n"), cdl_written(&body));
}

/* ---- the most refused ---- */

static const char *name_of_rate(const struct cdl_live_policy *live, uint32_t id)
{
    for (uint32_t i = 0; i < live->policy->rate_count; i++)
        if (live->rates[i] == id)
            return live->policy->limits[live->policy->rates[i].limit_index].name.bytes;
    return "(gone)";
}

static void top(struct cdl_exchange *exchange)
{
    struct cdl_server *server = exchange->worker->server;
    struct cdl_top_keys *sketches[CDL_WORKERS_MAX];
    struct cdl_top_list list;
    for (uint32_t i = 0; i < server->worker_count; i++)
        sketches[i] = server->workers[i].top_keys;
    if (cdl_top_keys_merge(sketches, server->worker_count, TOP_MAX, &list) != CAUDAL_OK) {
        cdl_exchange_problem(exchange, 500, "no memory for the answer");
        return;
    }
    json_t *entries = json_array();
    for (size_t i = 0; i < list.count; i++)
        json_array_append_new(entries, json_pack("{s:s, s:o, s:I, s:I}", "limit",
                                                 name_of_rate(exchange->worker->live, list.keys[i].limit), "key",
                                                 text_of(cdl_top_key_shown(&list.keys[i])), "refused_at_most",
                                                 (json_int_t)list.keys[i].count, "refused_at_least",
                                                 (json_int_t)(list.keys[i].count - list.keys[i].error)));
    reply_json(exchange, 200,
               json_pack("{s:o, s:I, s:I}", "keys", entries, "refusals", (json_int_t)list.added, "missed",
                         (json_int_t)list.missed));
    cdl_top_list_free(&list);
}

/* ---- reload ---- */

static void reload(struct cdl_exchange *exchange)
{
    struct cdl_server *server = exchange->worker->server;
    if (cdl_server_reload(server))
        limits(exchange);
    else
        cdl_exchange_problem(exchange, 422, "%s", server->reload_error);
}

#ifdef CAUDAL_TEST_CLOCK
/* POST /test/clock {"now_ns": N}: only in builds for tests. */
static void set_clock(struct cdl_exchange *exchange)
{
    json_t *root = json_loadb(exchange->request->body.bytes, exchange->request->body.length, 0, NULL);
    const json_t *now = json_object_get(root, "now_ns");
    if (!json_is_integer(now)) {
        cdl_exchange_problem(exchange, 400, "expected {\"now_ns\": N}");
    } else {
        caudal_fake_clock_set(exchange->worker->server->test_clock, (int64_t)json_integer_value(now));
        cdl_exchange_reply(exchange, 200, CDL_TYPE_JSON, CDL_SLICE(""), CDL_SLICE("{}"));
    }
    json_decref(root);
}
#endif

/* ---- who may ---- */

/* Compares in a time that does not tell how much of it is right. */
static bool same_secret(struct cdl_slice given, const char *secret)
{
    const size_t length = strlen(secret);
    unsigned char differs = given.length != length;
    for (size_t i = 0; i < given.length; i++)
        differs |= (unsigned char)(given.bytes[i] ^ secret[length == 0 ? 0 : i % length]);
    return differs == 0;
}

static bool may_ask(struct cdl_exchange *exchange)
{
    const char *token = exchange->worker->server->admin_token;
    const struct cdl_slice given = header_of(exchange, CDL_SLICE("authorization")), scheme = CDL_SLICE("Bearer ");
    if (token[0] == '\0')
        return true;
    return given.length > scheme.length && cdl_slice_equal_nocase(cdl_slice_head(given, scheme.length), scheme) &&
           same_secret(cdl_slice_from(given, scheme.length), token);
}

void cdl_admin(struct cdl_exchange *exchange)
{
    static const struct {
        struct cdl_slice path;
        void (*handle)(struct cdl_exchange *exchange);
        const char *methods;
        bool is_public; /* says nothing about anybody */
    } resources[] = {
        {CDL_SLICE("/healthz"), healthz, "GET HEAD", true},   {CDL_SLICE("/readyz"), readyz, "GET HEAD", true},
        {CDL_SLICE("/metrics"), metrics, "GET HEAD", false},  {CDL_SLICE("/v1/limits"), limits, "GET HEAD", false},
#ifdef CAUDAL_TEST_CLOCK
        {CDL_SLICE("/test/clock"), set_clock, "POST", false},
#endif
        {CDL_SLICE("/v1/top"), top, "GET HEAD", false},       {CDL_SLICE("/v1/reload"), reload, "POST", false},
    };
    const struct cdl_slice prefix = CDL_SLICE("/v1/keys/");
    const bool may = may_ask(exchange);
    for (size_t i = 0; i < sizeof resources / sizeof resources[0]; i++) {
        if (!cdl_slice_equal(exchange->path, resources[i].path))
            continue;
        if (!may && !resources[i].is_public)
            break;
        if (cdl_exchange_allows(exchange, resources[i].methods))
            resources[i].handle(exchange);
        return;
    }
    if (!may)
        cdl_exchange_reply(exchange, 401, CDL_TYPE_PROBLEM, CDL_SLICE("WWW-Authenticate: Bearer\r\n"),
                           CDL_SLICE("{\"status\":401,\"title\":\"Unauthorized\"}"));
    else if (exchange->path.length > prefix.length &&
             cdl_slice_equal(cdl_slice_head(exchange->path, prefix.length), prefix))
        keys(exchange, cdl_slice_from(exchange->path, prefix.length));
    else
        cdl_exchange_problem(
            exchange, 404,
            "there is /metrics, /healthz, /readyz, /v1/limits, /v1/keys/LIMIT/KEY, /v1/top and /v1/reload");
}

static size_t receive(struct cdl_connection *connection, char *bytes, size_t length, struct cdl_writer *output,
                      bool *finish)
{
    return cdl_exchange_serve(connection, bytes, length, output, finish, cdl_admin);
}

const struct cdl_protocol cdl_admin_protocol = {
    .state_bytes = sizeof(struct cdl_http_state),
    .kept_max = 2 * (CDL_HTTP1_HEAD_MAX + ((size_t)1 << 20)),
    .receive = receive,
    .give_up = cdl_exchange_give_up,
    .closed = cdl_exchange_closed,
};
