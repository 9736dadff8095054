/* `listen:`, `store:`, `log:` and `metrics:`: how the server is set up. */
#include "policy/load.h"

#define MS UINT64_C(1000000)
#define SECOND (1000 * MS)
#define HOUR (3600 * SECOND)
#define KIB (UINT64_C(1) << 10)
#define MIB (UINT64_C(1) << 20)

#define FILE_PATH "the path of a file"

/* ---------------------------------------------------------------------------------------------------------- listen */

static bool read_endpoint(struct cdl_loader *loader, const struct cdl_yaml_node *node, const char *key,
                          struct cdl_slice *text, struct cdl_endpoint *endpoint)
{
    struct cdl_slice written;
    const char *why;
    if (!cdl_read_scalar(loader, node, key, "an address such as 127.0.0.1:8080", &written))
        return false;
    *text = cdl_arena_copy(loader->arena, written);
    if (cdl_endpoint_parse(*text, endpoint, &why))
        return true;
    cdl_report_error(loader->report, node->place, "'%.40s': '%.60s' %s", key, written.bytes, why);
    return false;
}

static void read_listeners(struct cdl_loader *loader, const struct cdl_yaml_node *node,
                           const struct cdl_setting *setting, void *target)
{
    struct cdl_listeners *listeners = target;
    struct cdl_items items;
    if (node->kind == CDL_YAML_SCALAR && cdl_slice_equal(node->text, CDL_SLICE("none"))) {
        *listeners = (struct cdl_listeners){.count = 0};
        return;
    }
    if (!cdl_read_items(loader, node, setting->key, &items))
        return;
    if (items.count > CDL_LISTENERS_MAX) {
        cdl_report_error(loader->report, node->place, "'%s': %u addresses are more than %u", setting->key, items.count,
                         CDL_LISTENERS_MAX);
        return;
    }
    struct cdl_slice *texts = cdl_arena_allocate(loader->arena, items.count, sizeof *texts);
    struct cdl_endpoint *endpoints = cdl_arena_allocate(loader->arena, items.count, sizeof *endpoints);
    if (texts == NULL || endpoints == NULL)
        return;
    const struct cdl_yaml_node *item = items.first;
    for (uint32_t i = 0; i < items.count; i++, item = item->next)
        read_endpoint(loader, item, setting->key, &texts[i], &endpoints[i]);
    *listeners = (struct cdl_listeners){endpoints, texts, items.count};
}

static void read_workers(struct cdl_loader *loader, const struct cdl_yaml_node *node, const struct cdl_setting *setting,
                         void *target)
{
    if (node->kind == CDL_YAML_SCALAR && cdl_slice_equal(node->text, CDL_SLICE("auto")))
        *(uint32_t *)target = 0;
    else
        cdl_read_u32(loader, node, setting, target);
}

static void read_tls(struct cdl_loader *loader, const struct cdl_yaml_node *node, const struct cdl_setting *setting,
                     void *target)
{
    struct cdl_tls_settings *tls = target;
    size_t errors = loader->report->errors;
    cdl_read_map(loader, node, setting->detail, tls);
    if (loader->report->errors == errors && (tls->cert.length == 0 || tls->key.length == 0))
        cdl_report_error(loader->report, node->place, "'tls': 'cert' and 'key' come together; '%s' is missing",
                         tls->cert.length == 0 ? "cert" : "key");
}

static const struct cdl_setting tls_settings[] = {
    {"cert", cdl_read_text, offsetof(struct cdl_tls_settings, cert), FILE_PATH},
    {"key", cdl_read_text, offsetof(struct cdl_tls_settings, key), FILE_PATH},
    {"client_ca", cdl_read_text, offsetof(struct cdl_tls_settings, client_ca), FILE_PATH},
};
const struct cdl_shape cdl_tls_shape = CDL_SHAPE("listen.tls", tls_settings);

#define OF_LISTEN(member) offsetof(struct cdl_listen_settings, member)

static const struct cdl_bounds timeout_bounds = {10 * MS, HOUR};

static const struct cdl_setting timeouts_settings[] = {
    {"header", cdl_read_duration, OF_LISTEN(header_timeout_ns), &timeout_bounds},
    {"body", cdl_read_duration, OF_LISTEN(body_timeout_ns), &timeout_bounds},
    {"idle", cdl_read_duration, OF_LISTEN(idle_timeout_ns), &timeout_bounds},
    {"write", cdl_read_duration, OF_LISTEN(write_timeout_ns), &timeout_bounds},
};
const struct cdl_shape cdl_timeouts_shape = CDL_SHAPE("listen.timeouts", timeouts_settings);

static const struct cdl_setting caps_settings[] = {
    {"connections", cdl_read_u64, OF_LISTEN(connections_max), &(const struct cdl_bounds){1, 1000000}},
    {"header", cdl_read_bytes, OF_LISTEN(header_bytes_max), &(const struct cdl_bounds){KIB, MIB}},
    {"body", cdl_read_bytes, OF_LISTEN(body_bytes_max), &(const struct cdl_bounds){KIB, MIB}},
};
const struct cdl_shape cdl_caps_shape = CDL_SHAPE("listen.caps", caps_settings);

static const struct cdl_setting listen_settings[] = {
    {"http", read_listeners, OF_LISTEN(http), NULL},
    {"admin", read_listeners, OF_LISTEN(admin), NULL},
    {"resp", read_listeners, OF_LISTEN(resp), NULL},
    {"grpc", read_listeners, OF_LISTEN(grpc), NULL},
    {"admin_token_file", cdl_read_text, OF_LISTEN(admin_token_file), FILE_PATH},
    {"tls", read_tls, OF_LISTEN(tls), &cdl_tls_shape},
    {"workers", read_workers, OF_LISTEN(workers), &(const struct cdl_bounds){1, 256}},
    {"drain", cdl_read_duration, OF_LISTEN(drain_ns), &(const struct cdl_bounds){0, HOUR}},
    {"timeouts", cdl_read_inner, 0, &cdl_timeouts_shape},
    {"caps", cdl_read_inner, 0, &cdl_caps_shape},
};
const struct cdl_shape cdl_listen_shape = CDL_SHAPE("listen", listen_settings);

/* ----------------------------------------------------------------------------------------------------------- store */

/* Only the scheme is looked at here; the store reads the rest when it is opened. */
static void read_url(struct cdl_loader *loader, const struct cdl_yaml_node *node, const struct cdl_setting *setting,
                     void *target)
{
    static const char *const schemes[] = {"memory:",           "redis://",         "rediss://",
                                          "redis-sentinel://", "redis-cluster://", "unix:"};
    struct cdl_slice text;
    if (!cdl_read_scalar(loader, node, setting->key, "the URL of a store, such as memory:?keys=1000000", &text))
        return;
    for (size_t i = 0; i < sizeof schemes / sizeof schemes[0]; i++)
        if (strncmp(text.bytes, schemes[i], strlen(schemes[i])) == 0) {
            *(struct cdl_slice *)target = cdl_arena_copy(loader->arena, text);
            return;
        }
    /* It may hold a password, so no more than a scheme is shown. */
    int shown = (int)strcspn(text.bytes, ":/@");
    cdl_report_error(loader->report, node->place,
                     "'%s': '%.*s' is not the scheme of a store; expected memory:, redis://, rediss://, "
                     "redis-sentinel://, redis-cluster:// or unix:",
                     setting->key, shown > 40 ? 40 : shown, text.bytes);
}

#define OF_STORE(member) offsetof(struct cdl_store_settings, member)

static const struct cdl_setting store_settings[] = {
    {"url", read_url, OF_STORE(url), NULL},
    {"deadline", cdl_read_duration, OF_STORE(deadline_ns), &(const struct cdl_bounds){MS, 60 * SECOND}},
};
const struct cdl_shape cdl_store_shape = CDL_SHAPE("store", store_settings);

/* ------------------------------------------------------------------------------------------------------------- log */

#define OF_LOG(member) offsetof(struct cdl_log_settings, member)

static const struct cdl_setting log_settings[] = {
    {"format", cdl_read_word, OF_LOG(format), CDL_WORDS("text", "json")},
    {"level", cdl_read_word, OF_LOG(level), CDL_WORDS("debug", "info", "warn", "error")},
    {"denied", cdl_read_ratio, OF_LOG(denied), "nothing is allowed"},
    {"identities", cdl_read_word, OF_LOG(identities), CDL_WORDS("masked", "keyed", "plain")},
};
const struct cdl_shape cdl_log_shape = CDL_SHAPE("log", log_settings);

/* --------------------------------------------------------------------------------------------------------- metrics */

#define OF_METRICS(member) offsetof(struct cdl_metrics_settings, member)

static const struct cdl_bounds values_bounds = {0, 10000};

static const struct cdl_setting metrics_settings[] = {
    {"descriptor_values", cdl_read_u32, OF_METRICS(descriptor_values), &values_bounds},
    {"override_values", cdl_read_u32, OF_METRICS(override_values), &values_bounds},
};
const struct cdl_shape cdl_metrics_shape = CDL_SHAPE("metrics", metrics_settings);

void cdl_load_metrics(struct cdl_loader *loader, const struct cdl_yaml_node *node)
{
    if (node != NULL)
        cdl_read_map(loader, node, &cdl_metrics_shape, &loader->policy->metrics);
}

/* -------------------------------------------------------------------------------------------------------- defaults */

static void set_defaults(struct cdl_policy *policy)
{
    static const struct cdl_slice texts[] = {CDL_SLICE("127.0.0.1:8080"), CDL_SLICE("127.0.0.1:9080"),
                                             CDL_SLICE("127.0.0.1:6380"), CDL_SLICE("127.0.0.1:8081")};
    static const struct cdl_endpoint endpoints[] = {
        {.host = CDL_SLICE("127.0.0.1"), .path = {"", 0}, .port = 8080},
        {.host = CDL_SLICE("127.0.0.1"), .path = {"", 0}, .port = 9080},
        {.host = CDL_SLICE("127.0.0.1"), .path = {"", 0}, .port = 6380},
        {.host = CDL_SLICE("127.0.0.1"), .path = {"", 0}, .port = 8081},
    };
    const struct cdl_slice none = {"", 0};
    policy->listen = (struct cdl_listen_settings){
        .http = {&endpoints[0], &texts[0], 1},
        .admin = {&endpoints[1], &texts[1], 1},
        .resp = {&endpoints[2], &texts[2], 1},
        .grpc = {&endpoints[3], &texts[3], 1},
        .admin_token_file = none,
        .tls = {none, none, none},
        .drain_ns = 5 * SECOND,
        .header_timeout_ns = 10 * SECOND,
        .body_timeout_ns = 10 * SECOND,
        .idle_timeout_ns = 60 * SECOND,
        .write_timeout_ns = 10 * SECOND,
        .connections_max = 10000,
        .header_bytes_max = 16 * KIB,
        .body_bytes_max = 64 * KIB,
    };
    policy->store = (struct cdl_store_settings){.url = CDL_SLICE("memory:")};
    policy->log = (struct cdl_log_settings){.format = CDL_LOG_AS_JSON, .level = CDL_LOG_INFO, .denied = {0, 1}};
    policy->metrics = (struct cdl_metrics_settings){.descriptor_values = 100};
}

void cdl_load_server(struct cdl_loader *loader, const struct cdl_yaml_node *listen, const struct cdl_yaml_node *store,
                     const struct cdl_yaml_node *log)
{
    struct cdl_policy *policy = loader->policy;
    set_defaults(policy);
    if (listen != NULL)
        cdl_read_map(loader, listen, &cdl_listen_shape, &policy->listen);
    if (store != NULL && store->kind == CDL_YAML_SCALAR && !cdl_yaml_is_null(store))
        read_url(loader, store, &(const struct cdl_setting){.key = "store"}, &policy->store.url);
    else if (store != NULL)
        cdl_read_map(loader, store, &cdl_store_shape, &policy->store);
    if (log != NULL)
        cdl_read_map(loader, log, &cdl_log_shape, &policy->log);
}
