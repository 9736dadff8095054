/* A policy on a log's requests: decisions are those of a store that is asked the same, and everything is counted where it belongs. */
#include <stdlib.h>

#include "../support.h"
#include "replay/replay_parts.h"

static struct cdl_replay *replay;
static struct cdl_replay_decision decision;
static struct cdl_replay_report report;
static struct caudal_problem problem;

/* ---- a replay ---- */

static struct cdl_policy *load(const char *text)
{
    static struct cdl_report findings;
    struct cdl_policy *policy = cdl_policy_load_text("p", cdl_slice_of(text), NULL, &findings);
    if (policy == NULL)
        fail_msg("%s\nin:\n%s", findings.findings[0].text, text);
    return policy;
}

static struct cdl_replay_settings usual(void)
{
    return (struct cdl_replay_settings){.keys_max = 10000, .cell_ns = SECOND, .begin_ns = EPOCH, .touch_share = 0.001};
}

static void open_with(const char *text, struct cdl_replay_settings settings)
{
    if (cdl_replay_open(&settings, load(text), &replay, &problem) != CAUDAL_OK)
        fail_msg("%s", problem.message);
}

static void open_usual(const char *text)
{
    open_with(text, usual());
}

static int teardown(void **state)
{
    (void)state;
    cdl_replay_report_free(&report);
    report = (struct cdl_replay_report){.requests = 0};
    cdl_replay_close(replay);
    replay = NULL;
    return 0;
}

static struct cdl_access_record record_of(int64_t at_ns, const char *client, const char *target)
{
    return (struct cdl_access_record){.instant_ns = at_ns,
                                      .resolution_ns = SECOND,
                                      .client = cdl_slice_of(client),
                                      .method = CDL_SLICE("GET"),
                                      .target = cdl_slice_of(target)};
}

/* Decides a request, and all before it. */
static int decide(struct cdl_replay *by, const struct cdl_access_record *record, struct cdl_replay_decision *decided)
{
    const struct cdl_replay_decision *next;
    int status = cdl_replay_request(by, record, NULL, &next);
    while (status == CAUDAL_OK && (status = cdl_replay_settle(by, &next)) == CAUDAL_OK && next != NULL)
        *decided = *next;
    return status;
}

/* Whether the request is admitted. */
static bool ask(int64_t at_ns, const char *client, const char *target)
{
    const struct cdl_access_record record = record_of(at_ns, client, target);
    assert_int_equal(decide(replay, &record, &decision), CAUDAL_OK);
    return decision.verdict == CDL_REPLAY_ADMITTED;
}

static void tell(void)
{
    cdl_replay_report_free(&report);
    assert_int_equal(cdl_replay_tell(replay, &report, &problem), CAUDAL_OK);
}

static void assert_text(struct cdl_slice got, const char *want)
{
    if (!cdl_slice_equal(got, cdl_slice_of(want)))
        fail_msg("'%.*s' is not '%s'", CDL_SLICE_ARG(got), want);
}

#define PER_CLIENT "limits: [{name: per-client, per: client_ip, rate: 3/10s burst 2}]\n"

/* ---- decisions ---- */

/* Random requests of a few clients: each is decided as a store on the same time decides it. */
static void test_decides_as_the_store_does(void **state)
{
    (void)state;
    struct rng rng = {11};
    struct world world;
    world_open(&world, "memory:?keys=1000");
    const uint32_t limit = world_add(&world, bucket_of(2, 3, 10 * SECOND));
    uint64_t refused = 0;
    open_usual(PER_CLIENT);
    int64_t now_ns = EPOCH;
    for (unsigned i = 0; i < 3000; i++) {
        char client[32];
        now_ns += (int64_t)rng_below(&rng, 3) * SECOND / 2;
        snprintf(client, sizeof client, "192.0.2.%u", (unsigned)rng_below(&rng, 5));
        world_set_time(&world, now_ns);
        const struct caudal_decision want = take(&world, limit, client, 1);
        assert_int_equal(ask(now_ns, client, "/"), want.verdict == CAUDAL_ALLOW);
        assert_int_equal(decision.decision->retry_after_ns, want.retry_after_ns);
        refused += want.verdict != CAUDAL_ALLOW;
    }
    world_close(&world);
    tell();
    assert_int_equal(report.requests, 3000);
    assert_int_equal(report.refused, refused);
    assert_int_equal(report.limits[0].refused, refused);
    assert_int_equal(report.clients, 5);
    assert_true(refused > 100);
    assert_true(report.bounds.known);
    assert_in_range(refused, report.bounds.least, report.bounds.most);
}

/* A request that comes later than a younger one is asked when the younger one was. */
static void test_time_does_not_go_back(void **state)
{
    (void)state;
    open_usual(PER_CLIENT);
    assert_true(ask(EPOCH + 10 * SECOND, "192.0.2.1", "/"));
    assert_true(ask(EPOCH, "192.0.2.1", "/"));
    assert_int_equal(decision.asked_at_ns, EPOCH + 10 * SECOND);
    assert_false(ask(EPOCH + 5 * SECOND, "192.0.2.1", "/"));
    tell();
    assert_int_equal(report.begin_ns, EPOCH + 10 * SECOND);
    assert_int_equal(report.end_ns, EPOCH + 10 * SECOND);
}

static void test_attributes_of_a_request(void **state)
{
    (void)state;
    open_usual("identity: {client_ip: {trusted_proxies: [10.0.0.0/8]}}\n"
               "limits:\n"
               "  - {name: page, when: {path: /a/*, method: GET, host: example.com}, per: client_ip, rate: 1/h}\n"
               "  - {name: who, when: {path: /user}, per: [user, query.q], rate: 1/h}\n");
    const struct cdl_field forwarded = {CDL_SLICE("X-Forwarded-For"), CDL_SLICE("198.51.100.7, 10.0.0.9")};
    struct cdl_access_record record = record_of(EPOCH, "10.0.0.1", "http://example.com//a/./b?x=1");
    record.host = CDL_SLICE("Example.COM:8443");
    record.headers[0] = forwarded;
    record.header_count = 1;
    assert_int_equal(decide(replay, &record, &decision), CAUDAL_OK);
    assert_text(decision.limit, "page");
    assert_text(decision.path, "/a/b");
    char text[CDL_ADDRESS_TEXT_MAX];
    cdl_address_format(&decision.client, text);
    assert_string_equal(text, "198.51.100.7");

    record = record_of(EPOCH, "192.0.2.9", "/user?q=7");
    record.user = CDL_SLICE("ann");
    assert_int_equal(decide(replay, &record, &decision), CAUDAL_OK);
    assert_int_equal(decision.verdict, CDL_REPLAY_ADMITTED);
    assert_int_equal(decide(replay, &record, &decision), CAUDAL_OK);
    assert_int_equal(decision.verdict, CDL_REPLAY_REFUSED);
    record.user = CDL_SLICE("bob");
    assert_int_equal(decide(replay, &record, &decision), CAUDAL_OK);
    assert_int_equal(decision.verdict, CDL_REPLAY_ADMITTED);
}

/* What may be a secret is not shown, unless the policy says so. */
static void test_secrets(void **state)
{
    (void)state;
    static const char *const policies[] = {
        "limits: [{name: k, per: [header.x-key, path.1], rate: 1/h}]\n",
        "limits: [{name: k, per: [header.x-key, path.1], rate: 1/h}]\nlog: {identities: plain}\n",
    };
    static const char *const shown[] = {"sk-l~", "sk-live-0123456789|v1"};
    for (size_t i = 0; i < COUNT_OF(policies); i++) {
        char bytes[200];
        struct cdl_writer writer = cdl_writer_on(bytes, sizeof bytes);
        open_usual(policies[i]);
        struct cdl_access_record record = record_of(EPOCH, "192.0.2.1", "/v1/x");
        record.headers[0] = (struct cdl_field){CDL_SLICE("x-key"), CDL_SLICE("sk-live-0123456789")};
        record.header_count = 1;
        assert_int_equal(decide(replay, &record, &decision), CAUDAL_OK);
        cdl_replay_write_key(replay, decision.charge, &writer);
        assert_memory_equal(bytes, shown[i], strlen(shown[i]));
        assert_int_equal(memmem(bytes, writer.length, "0123456789", 10) != NULL, i == 1);
        assert_memory_equal(bytes + writer.length - 3, "|v1", 3);
        teardown(NULL);
    }
}

/* ---- counts ---- */

static void test_what_is_not_decided_by_a_limit(void **state)
{
    (void)state;
    open_usual("exempt: [{path: /healthz}]\n"
               "limits:\n"
               "  - {name: api, when: {path: /v1/*}, per: header.x-key, rate: 1/h}\n"
               "  - {name: ip, when: {path: /ip}, per: client_ip, if_missing: skip, rate: 1/h}\n");
    assert_true(ask(EPOCH, "192.0.2.1", "/healthz"));
    assert_string_equal(decision.reason, "exempt");
    assert_true(ask(EPOCH, "192.0.2.1", "/other"));
    assert_string_equal(decision.reason, "unlimited");
    assert_false(ask(EPOCH, "192.0.2.1", "/v1/x"));
    assert_string_equal(decision.reason, "missing identity");
    assert_text(decision.limit, "api");
    assert_true(ask(EPOCH, "-", "/ip"));
    assert_true(ask(EPOCH, "host.example", ""));
    tell();
    assert_int_equal(report.requests, 5);
    assert_int_equal(report.exempt, 1);
    assert_int_equal(report.unlimited, 3);
    assert_int_equal(report.refused, 1);
    assert_int_equal(report.refused_without_limit, 1);
    assert_int_equal(report.unknown_clients, 2);
    assert_int_equal(report.pathless, 1);
    assert_int_equal(report.clients, 2);
    assert_int_equal(report.bounds.least, 1);
    assert_int_equal(report.bounds.most, 1);
}

static void test_shadow_limits_refuse_nothing(void **state)
{
    (void)state;
    open_usual("limits:\n"
               "  - {name: tight, per: client_ip, rate: 1/h, mode: shadow}\n"
               "  - {name: gone, per: client_ip, rate: 1/h, mode: off}\n"
               "  - {name: wide, per: client_ip, rate: 3/h}\n");
    for (unsigned i = 0; i < 5; i++)
        assert_int_equal(ask(EPOCH, "192.0.2.1", "/"), i < 3);
    tell();
    assert_int_equal(report.limit_count, 2);
    assert_text(report.limits[0].name, "tight");
    assert_int_equal(report.limits[0].mode, CDL_MODE_SHADOW);
    assert_int_equal(report.limits[0].refused, 2); /* of the three that passed */
    assert_text(report.limits[1].name, "wide");
    assert_int_equal(report.limits[1].refused, 2);
    assert_int_equal(report.refused, 2);
    assert_int_equal(report.clients_refused, 1);
    assert_int_equal(report.refused_keys[0].limit + report.refused_keys[1].limit, 1);
}

static void test_overrides_are_told_apart(void **state)
{
    (void)state;
    open_usual("limits:\n"
               "  - name: api\n    per: path.1\n    rate: 1/h\n"
               "    overrides: [{match: {path.1: big}, rate: 2/h}]\n");
    for (unsigned i = 0; i < 4; i++) {
        assert_int_equal(ask(EPOCH, "192.0.2.1", "/big"), i < 2);
        assert_int_equal(ask(EPOCH, "192.0.2.1", "/small"), i < 1);
    }
    tell();
    assert_int_equal(report.limit_count, 2);
    assert_int_equal(report.limits[0].refused, 3);
    assert_int_equal(report.limits[1].refused, 2);
    assert_text(report.limits[1].limit, "api");
}

static void test_stretches(void **state)
{
    (void)state;
    open_usual("limits: [{name: l, per: client_ip, rate: 1/10s}]\n");
    assert_true(ask(EPOCH, "192.0.2.1", "/"));
    assert_false(ask(EPOCH + 2 * SECOND, "192.0.2.1", "/"));
    assert_false(ask(EPOCH + 3 * SECOND, "192.0.2.1", "/"));
    assert_true(ask(EPOCH + 11 * SECOND, "192.0.2.1", "/")); /* 9 s after the first refusal */
    assert_false(ask(EPOCH + 12 * SECOND, "192.0.2.1", "/"));
    assert_false(ask(EPOCH + 14 * SECOND, "192.0.2.1", "/"));
    tell();
    assert_int_equal(report.refused_key_count, 1);
    const struct cdl_replay_key *key = &report.refused_keys[0];
    assert_text(key->key, "192.0.2.1");
    assert_int_equal(key->requests, 6);
    assert_int_equal(key->refused, 4);
    assert_int_equal(key->stretch_ns, 9 * SECOND);
    assert_int_equal(key->stretch_begin_ns, EPOCH + 2 * SECOND);
    assert_int_equal(key->second_most, 1);
    assert_int_equal(key->period_most, 3); /* windows begin with the tens of seconds */
}

/* Beyond keys_max requests are decided, but not studied, and that is told. */
static void test_more_keys_than_room(void **state)
{
    (void)state;
    struct cdl_replay_settings settings = usual();
    settings.keys_max = 10;
    open_with(PER_CLIENT, settings);
    for (unsigned i = 0; i < 25; i++) {
        char client[32];
        snprintf(client, sizeof client, "192.0.2.%u", i);
        assert_true(ask(EPOCH, client, "/"));
    }
    tell();
    assert_int_equal(report.limits[0].requests, 25);
    assert_int_equal(report.limits[0].keys, 10);
    assert_int_equal(report.limits[0].unstudied, 15);
    assert_int_equal(report.clients_unstudied, 15);
    assert_false(report.bounds.known);
    assert_int_equal(report.bounds.most, 25);
}

/* Keys may be as long as a header: they are told whole. */
static void test_long_keys(void **state)
{
    (void)state;
    static char target[5000];
    memset(target, 'x', sizeof target - 1);
    target[0] = '/';
    open_usual("limits: [{name: l, per: path, rate: 1/h}]\n");
    ask(EPOCH, "192.0.2.1", target);
    ask(EPOCH, "192.0.2.1", target);
    tell();
    assert_text(report.refused_keys[0].key, target);
}

static void test_most_refused_come_first(void **state)
{
    (void)state;
    open_usual("limits: [{name: l, per: client_ip, rate: 1/h}]\n");
    for (unsigned client = 0; client < 40; client++)
        for (unsigned i = 0; i < 2 + client * 7 % 40; i++) {
            char text[32];
            snprintf(text, sizeof text, "192.0.2.%u", client);
            ask(EPOCH, text, "/");
        }
    tell();
    assert_int_equal(report.refused_key_count, CDL_REPLAY_KEYS);
    assert_int_equal(report.busy_client_count, CDL_REPLAY_KEYS);
    for (size_t i = 0; i < CDL_REPLAY_KEYS; i++) {
        assert_int_equal(report.refused_keys[i].refused,
                         40 - i); /* 7 and 40 have no common part: each count comes once */
        assert_int_equal(report.busy_clients[i].requests, 41 - i);
        assert_int_equal(report.busy_clients[i].refused, 40 - i);
    }
}

/* ---- over time ---- */

static uint64_t sum(const uint64_t *counts, size_t count)
{
    uint64_t total = 0;
    for (size_t i = 0; i < count; i++)
        total += counts[i];
    return total;
}

/* However long the log, the series has a bounded number of steps and loses nothing. */
static void test_series_lose_nothing(void **state)
{
    (void)state;
    static const int64_t gaps_ns[] = {SECOND / 3, 17 * SECOND, HOUR, 30 * DAY, 3 * YEAR};
    struct rng rng = {5};
    for (size_t i = 0; i < COUNT_OF(gaps_ns); i++) {
        int64_t now_ns = EPOCH + 1;
        open_usual("limits: [{name: l, per: client_ip, rate: 1/h}, {name: m, per: path, rate: 1/h}]\n");
        for (unsigned n = 0; n < 2000 && now_ns < INT64_MAX / 2; n++) {
            now_ns += (int64_t)rng_below(&rng, (uint64_t)gaps_ns[i]) / 1000;
            ask(now_ns, n % 2 ? "192.0.2.1" : "192.0.2.2", n % 3 ? "/a" : "/b");
        }
        now_ns += gaps_ns[i];
        ask(now_ns, "192.0.2.3", "/c");
        tell();
        const struct cdl_replay_series *series = &report.series;
        assert_in_range(series->steps, 1, CDL_SERIES_STEPS);
        assert_int_equal(series->begin_ns, report.begin_ns / SECOND * SECOND);
        assert_true(series->begin_ns + (int64_t)series->steps * series->step_ns > now_ns);
        assert_int_equal(sum(series->offered, series->steps), report.requests);
        assert_int_equal(sum(series->admitted, series->steps), report.admitted);
        uint64_t refused = 0;
        for (size_t j = 0; j < series->limit_count; j++)
            refused += sum(series->refused[j], series->steps);
        assert_int_equal(refused, report.refused);
        teardown(NULL);
    }
}

static void test_load_of_seconds(void **state)
{
    (void)state;
    open_usual("limits: [{name: l, rate: 2/s burst 2}]\n");
    for (unsigned i = 0; i < 5; i++)
        ask(EPOCH, "192.0.2.1", "/");
    ask(EPOCH + 3 * SECOND, "192.0.2.1", "/");
    tell();
    assert_int_equal(report.offered_load.most, 5);
    assert_int_equal(report.admitted_load.most, 2);
    assert_int_equal(report.offered_load.p50, 0); /* two of four seconds had none */
    assert_int_equal(report.offered_load.p99, 5);
    tell(); /* it may be asked for again, and nothing has changed */
    assert_int_equal(report.offered_load.most, 5);
    ask(EPOCH + 4 * SECOND, "192.0.2.1", "/");
    tell();
    assert_int_equal(report.requests, 7);
}

static void test_traces(void **state)
{
    (void)state;
    struct cdl_replay_settings settings = usual();
    open_with(PER_CLIENT, settings);
    for (unsigned i = 0; i < 4; i++)
        ask(EPOCH + (int64_t)i * SECOND / 4, "192.0.2.1", "/");
    tell();
    assert_int_equal(report.trace_count, 1); /* from its first refusal on */
    assert_false(report.traces[0].from_the_beginning);
    assert_int_equal(sum(report.traces[0].refused, report.traces[0].steps), 2);
    teardown(NULL);

    settings.traced_limit = CDL_SLICE("per-client");
    settings.traced_key = CDL_SLICE("192.0.2.2");
    open_with(PER_CLIENT, settings);
    for (unsigned i = 0; i < 4; i++) {
        ask(EPOCH, "192.0.2.1", "/");
        ask(EPOCH, "192.0.2.2", "/");
    }
    tell();
    assert_int_equal(report.trace_count, 1);
    assert_text(report.traces[0].key, "192.0.2.2");
    assert_true(report.traces[0].from_the_beginning);
    assert_int_equal(report.traces[0].admitted[0], 2);
    assert_int_equal(report.traces[0].refused[0], 2);
    assert_int_equal(report.traces[0].lowest[0], 0);
    assert_int_equal(report.traces[0].highest[0], 1);
}

/* That another limit refuses a request is no admission: it ends no stretch, and the traces of both keys show what passed. */
static void test_what_another_limit_refuses(void **state)
{
    (void)state;
    open_usual("limits:\n"
               "  - {name: slow, per: client_ip, rate: 1/40s fixed_window}\n"
               "  - {name: all, rate: 1/20s fixed_window}\n");
    const int64_t begin_ns = EPOCH / (40 * SECOND) * (40 * SECOND);
    assert_true(ask(begin_ns, "192.0.2.1", "/"));
    assert_false(ask(begin_ns + SECOND, "192.0.2.1", "/")); /* slow has the longer wait */
    assert_true(ask(begin_ns + 20 * SECOND, "192.0.2.2", "/"));
    assert_false(ask(begin_ns + 25 * SECOND, "192.0.2.1", "/"));
    assert_true(ask(begin_ns + 40 * SECOND, "192.0.2.3", "/"));
    assert_false(ask(begin_ns + 42 * SECOND, "192.0.2.1", "/")); /* by all */
    assert_text(decision.limit, "all");
    assert_true(ask(begin_ns + 61 * SECOND, "192.0.2.1", "/"));
    tell();
    assert_int_equal(report.refused_key_count, 2);
    assert_text(report.refused_keys[0].key, "192.0.2.1");
    assert_int_equal(report.refused_keys[0].stretch_ns, 60 * SECOND);
    assert_int_equal(report.trace_count, 2);
    assert_text(report.traces[0].key, "192.0.2.1");
    assert_int_equal(sum(report.traces[0].admitted, report.traces[0].steps), 1);
    assert_int_equal(sum(report.traces[0].refused, report.traces[0].steps), 3);
}

/* Of many keys that are refused, those that are refused most are followed in the end. */
static void test_traces_follow_the_most_refused(void **state)
{
    (void)state;
    open_usual("limits: [{name: l, per: client_ip, rate: 1/h}]\n");
    for (unsigned client = 0; client < 200; client++)
        for (unsigned i = 0; i < (client < 190 ? 2u : 50u); i++) {
            char text[32];
            snprintf(text, sizeof text, "192.0.2.%u", client);
            ask(EPOCH, text, "/");
        }
    tell();
    assert_int_equal(report.trace_count, CDL_TRACES);
    for (size_t i = 0; i < 10; i++)
        assert_true(sum(report.traces[i].refused, report.traces[i].steps) > 40);
}

static void test_chosen_limit_must_exist(void **state)
{
    (void)state;
    struct cdl_replay_settings settings = usual();
    settings.traced_limit = CDL_SLICE("nobody");
    assert_int_equal(cdl_replay_open(&settings, load(PER_CLIENT), &replay, &problem), CAUDAL_ERR_ARGUMENT);
    assert_string_equal(problem.message, "p has no limit 'nobody'");
}

/* ---- two policies ---- */

static void test_comparison(void **state)
{
    (void)state;
    struct cdl_replay *second;
    struct cdl_replay_settings settings = usual();
    struct cdl_comparison comparison;
    struct cdl_compare *compare = cdl_compare_open(100, NULL);
    open_usual("limits: [{name: l, per: client_ip, rate: 1/h}]\n");
    assert_int_equal(cdl_replay_open(&settings, load("limits: [{name: l, per: path, rate: 3/h}]\n"), &second, &problem),
                     CAUDAL_OK);
    for (unsigned i = 0; i < 6; i++) {
        struct cdl_replay_decision other;
        const struct cdl_access_record record = record_of(EPOCH, i < 4 ? "192.0.2.1" : "192.0.2.2", "/");
        assert_int_equal(decide(replay, &record, &decision), CAUDAL_OK);
        assert_int_equal(decide(second, &record, &other), CAUDAL_OK);
        assert_true(cdl_compare_note(compare, &decision, &other));
    }
    /* First: A R R R A R. Second: A A A R R R. */
    assert_int_equal(cdl_compare_report(compare, &comparison), CAUDAL_OK);
    assert_int_equal(comparison.both_admit, 1);
    assert_int_equal(comparison.both_refuse, 2);
    assert_int_equal(comparison.first_only_refuses, 2);
    assert_int_equal(comparison.second_only_refuses, 1);
    assert_int_equal(comparison.clients_refused_by_both, 2);
    assert_int_equal(comparison.client_count, 2);
    assert_text(comparison.clients[0].client, "192.0.2.1");
    assert_int_equal(comparison.clients[0].requests, 4);
    assert_int_equal(comparison.clients[0].refused_by_first, 3);
    assert_int_equal(comparison.clients[0].refused_by_second, 1);
    cdl_comparison_free(&comparison);
    cdl_compare_close(compare);
    cdl_replay_close(second);
}

/* Requests that are under way come out in order, each with its own origin, and no other decision than if each were settled. */
static void test_decisions_come_in_order(void **state)
{
    (void)state;
    struct rng rng = {3};
    struct cdl_replay *settled;
    struct cdl_replay_settings settings = usual();
    bool admitted[300];
    uint64_t told = 0;
    open_usual(PER_CLIENT);
    assert_int_equal(cdl_replay_open(&settings, load(PER_CLIENT), &settled, &problem), CAUDAL_OK);
    for (uint64_t i = 0; i <= COUNT_OF(admitted); i++) {
        const struct cdl_replay_decision *next;
        const bool is_last = i == COUNT_OF(admitted);
        char client[32];
        snprintf(client, sizeof client, "192.0.2.%u", (unsigned)rng_below(&rng, 4));
        const struct cdl_access_record record = record_of(EPOCH + (int64_t)i * SECOND / 3, client, "/");
        const struct cdl_log_origin origin = {.line = i + 1};
        if (!is_last) {
            struct cdl_replay_decision alone = {.origin = {.line = 0}};
            assert_int_equal(decide(settled, &record, &alone), CAUDAL_OK);
            admitted[i] = alone.verdict == CDL_REPLAY_ADMITTED;
        }
        assert_int_equal(is_last ? cdl_replay_settle(replay, &next)
                                 : cdl_replay_request(replay, &record, &origin, &next),
                         CAUDAL_OK);
        for (; next != NULL; assert_int_equal(is_last ? cdl_replay_settle(replay, &next) : CAUDAL_OK, CAUDAL_OK)) {
            assert_int_equal(next->origin.line, ++told);
            assert_int_equal(next->instant_ns, EPOCH + (int64_t)(told - 1) * SECOND / 3);
            assert_int_equal(next->verdict == CDL_REPLAY_ADMITTED, admitted[told - 1]);
            assert_int_equal(next->decision->verdict == CAUDAL_ALLOW, admitted[told - 1]);
            if (!is_last)
                break;
        }
    }
    assert_int_equal(told, COUNT_OF(admitted));
    cdl_replay_close(settled);
}

/* ---- memory ---- */

/* Whichever allocation fails, it is told, and nothing is left over. */
static void test_short_of_memory(void **state)
{
    (void)state;
    struct counting_allocator counting;
    counting_allocator_init(&counting);
    struct cdl_replay_settings settings = usual();
    settings.allocator = &counting.allocator;
    settings.keys_max = 100;
    for (long fail_at = 0; fail_at < 200; fail_at++) {
        const struct cdl_access_record record = record_of(EPOCH, "192.0.2.1", "/");
        counting.calls = 0;
        counting.fail_at = fail_at;
        int status = cdl_replay_open(&settings, load(PER_CLIENT), &replay, &problem);
        if (status == CAUDAL_OK)
            status = decide(replay, &record, &decision);
        if (status == CAUDAL_OK)
            status = cdl_replay_tell(replay, &report, &problem);
        const bool did_fail = counting.calls > fail_at;
        counting.fail_at = -1;
        teardown(NULL);
        assert_int_equal(counting.live_blocks, 0);
        assert_int_equal(status, did_fail ? CAUDAL_ERR_MEMORY : CAUDAL_OK);
        if (!did_fail)
            return;
    }
    fail_msg("so many allocations for one request?");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_decides_as_the_store_does, teardown),
        cmocka_unit_test_teardown(test_time_does_not_go_back, teardown),
        cmocka_unit_test_teardown(test_decisions_come_in_order, teardown),
        cmocka_unit_test_teardown(test_attributes_of_a_request, teardown),
        cmocka_unit_test_teardown(test_secrets, teardown),
        cmocka_unit_test_teardown(test_what_is_not_decided_by_a_limit, teardown),
        cmocka_unit_test_teardown(test_shadow_limits_refuse_nothing, teardown),
        cmocka_unit_test_teardown(test_overrides_are_told_apart, teardown),
        cmocka_unit_test_teardown(test_stretches, teardown),
        cmocka_unit_test_teardown(test_more_keys_than_room, teardown),
        cmocka_unit_test_teardown(test_long_keys, teardown),
        cmocka_unit_test_teardown(test_most_refused_come_first, teardown),
        cmocka_unit_test_teardown(test_series_lose_nothing, teardown),
        cmocka_unit_test_teardown(test_load_of_seconds, teardown),
        cmocka_unit_test_teardown(test_traces, teardown),
        cmocka_unit_test_teardown(test_what_another_limit_refuses, teardown),
        cmocka_unit_test_teardown(test_traces_follow_the_most_refused, teardown),
        cmocka_unit_test_teardown(test_chosen_limit_must_exist, teardown),
        cmocka_unit_test_teardown(test_comparison, teardown),
        cmocka_unit_test_teardown(test_short_of_memory, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
