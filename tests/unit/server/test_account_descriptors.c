/* Hits of descriptors as they are counted and told: one worker without sockets over a memory store on a fake clock, policies as the files of
 * Envoy's rate limit service have them, and the page of metrics read back. */
#include "server/account_descriptors.h"

#include <stdlib.h>

#include "../later_store.h"
#include "../metrics/exposition_reader.h"
#include "base/memory.h"
#include "server/exchange.h"

#define TOTAL "ratelimit_service_rate_limit_total_hits"
#define WITHIN "ratelimit_service_rate_limit_within_limit"
#define NEAR "ratelimit_service_rate_limit_near_limit"
#define OVER "ratelimit_service_rate_limit_over_limit"
#define SHADOW "ratelimit_service_rate_limit_shadow_mode"
#define ERRORS "ratelimit_service_should_rate_limit_error"

/* ---- a server of one worker, put together by hand ---- */

struct bed {
    struct world world;
    struct later_store store;           /* asked by waiting; it may be away */
    struct counting_allocator counting; /* of the hits */
    struct cdl_server server;
    struct cdl_worker worker;
};

static struct bed bed;
static struct cdl_report report;

static int setup(void **state)
{
    (void)state;
    static const struct cdl_counters_options counters = {.workers = 1, .limits = 64, .events = CDL_EVENTS};
    static const struct cdl_hits_options hits = {.workers = 1, .groups = 64, .all_values = 1000};
    memset(&bed, 0, sizeof bed);
    counting_allocator_init(&bed.counting);
    world_open(&bed.world, "memory:?keys=10000");
    bed.server.clock = caudal_fake_clock_clock(bed.world.clock);
    later_open(&bed.store, &bed.world);
    bed.server.store = &bed.store.head;
    bed.server.limiter = cdl_limiter_open(bed.server.store);
    bed.server.counters = cdl_counters_open(&counters, cdl_allocator_default());
    bed.server.hits = cdl_hits_open(&hits, &bed.counting.allocator);
    bed.server.admin.server = &bed.server;
    bed.worker.server = &bed.server;
    bed.worker.counters = cdl_counters_worker(bed.server.counters, 0);
    bed.worker.top_keys = cdl_top_keys_open(CDL_TOP_KEYS, 1, cdl_allocator_default());
    bed.worker.asker.scratch = malloc(CDL_MATCH_SCRATCH_BYTES);
    assert_true(bed.server.limiter != NULL && bed.server.counters != NULL && bed.server.hits != NULL &&
                bed.worker.top_keys != NULL && bed.worker.asker.scratch != NULL);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    cdl_limiter_release(bed.worker.live);
    cdl_limiter_release(bed.server.admin.live);
    cdl_limiter_close(bed.server.limiter);
    cdl_top_keys_close(bed.worker.top_keys);
    free(bed.worker.asker.scratch);
    cdl_counters_close(bed.server.counters);
    cdl_hits_close(bed.server.hits);
    assert_int_equal(bed.counting.live_blocks, 0);
    later_close(&bed.store);
    world_close(&bed.world);
    return 0;
}

static void apply_with(const char *text, struct cdl_metrics_settings metrics)
{
    struct caudal_problem problem;
    struct cdl_policy *policy = cdl_policy_load_text("p", cdl_slice_of(text), NULL, &report);
    if (policy == NULL)
        fail_msg("%s\nin:\n%s", report.findings[0].text, text);
    policy->metrics = metrics;
    if (cdl_server_apply(&bed.server, policy, &problem) != CAUDAL_OK)
        fail_msg("%s", problem.message);
    cdl_limiter_release(bed.worker.live);
    bed.worker.live = cdl_limiter_acquire(bed.server.limiter);
}

static void apply(const char *text)
{
    apply_with(text, (struct cdl_metrics_settings){.descriptor_values = 100});
}

/* ---- requests ---- */

/* Cuts "key=value" or "key" up to a comma or the end. */
static const char *cut_entry(const char *text, struct cdl_descriptor_entry *entry)
{
    const size_t length = strcspn(text, ","), key = strcspn(text, "=");
    entry->key = (struct cdl_slice){text, key < length ? key : length};
    entry->value = key < length ? (struct cdl_slice){text + key + 1, length - key - 1} : CDL_SLICE("");
    return text[length] == ',' ? text + length + 1 : NULL;
}

#define ENTRIES 4

/* A request of one domain. */
struct request {
    struct cdl_descriptor_entry entries[4][ENTRIES];
    struct cdl_descriptor descriptors[4];
    struct cdl_descriptor_request all;
};

/* A descriptor "key=value,key=value". */
static struct cdl_descriptor *add(struct request *request, const char *entries)
{
    const size_t index = request->all.descriptor_count++;
    struct cdl_descriptor *descriptor = &request->descriptors[index];
    *descriptor = (struct cdl_descriptor){.entries = request->entries[index]};
    while (entries != NULL)
        entries = cut_entry(entries, &request->entries[index][descriptor->entry_count++]);
    request->all.descriptors = request->descriptors;
    return descriptor;
}

static enum cdl_answer_kind ask_for(const struct request *request)
{
    struct cdl_descriptor_result results[CDL_DESCRIPTORS_MAX];
    struct cdl_asker *asker = &bed.worker.asker;
    cdl_descriptors_match(bed.worker.live->policy, &request->all, cdl_server_now_ns(&bed.server), asker->scratch,
                          CDL_MATCH_SCRATCH_BYTES, &asker->answer.plan, results);
    assert_null(cdl_limiter_ask_plan(asker, bed.worker.live, CDL_ASK_TAKE));
    cdl_account(&bed.worker, &asker->answer);
    cdl_account_descriptors(&bed.worker, &request->all, results, &asker->answer);
    return asker->answer.kind;
}

/* Asks for `hits` of the domain "d" by one descriptor, or by two that are asked together. */
static enum cdl_answer_kind ask(const char *entries, const char *more, uint64_t hits)
{
    struct request request = {.all = {.domain = CDL_SLICE("d"), .hits = hits}};
    add(&request, entries);
    if (more != NULL)
        add(&request, more);
    return ask_for(&request);
}

static void ask_often(const char *entries, unsigned times)
{
    while (times-- > 0)
        ask(entries, NULL, 1);
}

/* ---- what is told ---- */

struct page {
    struct cdl_exposition page;
    struct read_page read;
};

static void open_page(struct page *page)
{
    struct cdl_slice text;
    cdl_exposition_begin(&page->page, CDL_PROMETHEUS_TEXT, 16 << 20);
    cdl_expose_descriptors(&bed.server, &page->page);
    assert_int_equal(cdl_exposition_finish(&page->page, &text), CAUDAL_OK);
    assert_int_equal(page->page.refused, 0);
    if (!read_exposition(text, false, &page->read))
        fail_msg("line %zu: %s in\n%.*s", page->read.line, page->read.why, CDL_SLICE_ARG(text));
}

static void close_page(struct page *page)
{
    read_page_free(&page->read);
    cdl_exposition_end(&page->page);
}

static int64_t number_of(const struct read_sample *sample)
{
    char digits[32];
    snprintf(digits, sizeof digits, "%.*s", CDL_SLICE_ARG(sample->value));
    return strtoll(digits, NULL, 10);
}

/* -1: there is no such series. */
static int64_t told(const char *name, const char *labels)
{
    struct page page;
    open_page(&page);
    const struct read_sample *sample = read_find(&page.read, name, labels);
    const int64_t number = sample == NULL ? -1 : number_of(sample);
    close_page(&page);
    return number;
}

static size_t series_of(const char *name)
{
    struct page page;
    size_t count = 0;
    open_page(&page);
    for (size_t i = 0; i < page.read.count; i++)
        count += cdl_slice_equal(page.read.samples[i].name, cdl_slice_of(name));
    close_page(&page);
    return count;
}

/* What a rule was asked about, what was spent, near its limit, and over it. */
static void assert_hits(const char *labels, int64_t total, int64_t within, int64_t near, int64_t over)
{
    assert_int_equal(told(TOTAL, labels), total);
    assert_int_equal(told(WITHIN, labels), within);
    assert_int_equal(told(NEAR, labels), near);
    assert_int_equal(told(OVER, labels), over);
}

/* ---- cases ---- */

#define LIMIT(count) "  rate_limit: {unit: hour, requests_per_unit: " #count "}\n"

static const char plain[] = "domain: d\n"
                            "descriptors:\n"
                            "- key: k\n" LIMIT(20) "- key: k\n"
                                                   "  value: vip\n" LIMIT(10) "- key: small\n" LIMIT(1);

static void C95_what_is_within_is_what_the_store_counts(void **state)
{
    (void)state;
    apply(plain);
    assert_hits("domain=d,key1=k", 0, 0, -1, 0); /* there before the first */
    ask_often("k=a", 25);
    assert_hits("domain=d,key1=k", 25, 20, 4, 5);
    ask_often("k=b", 3);
    assert_hits("domain=d,key1=k", 28, 23, 4, 5); /* of all values together */
    ask_often("k=vip", 1);
    assert_hits("domain=d,key1=k_vip", 1, 1, -1, 0);
}

static void several_hits_are_all_within_or_all_over(void **state)
{
    (void)state;
    apply(plain);
    for (int i = 0; i < 4; i++)
        ask("k=vip", NULL, 3);
    assert_hits("domain=d,key1=k_vip", 12, 9, 1, 3); /* 9 of 10, of which one beyond 8 */
    ask("k=vip", NULL, UINT32_MAX);
    assert_hits("domain=d,key1=k_vip", 12 + INT64_C(4294967295), 9, 1, 3 + INT64_C(4294967295));
    struct request look = {.all = {.domain = CDL_SLICE("d")}};
    struct cdl_descriptor *descriptor = add(&look, "k=vip");
    descriptor->has_hits = true; /* of none: it looks */
    ask_for(&look);
    assert_int_equal(told(TOTAL, "domain=d,key1=k_vip"), 12 + INT64_C(4294967295));
    assert_int_equal(told("ratelimit_service_total_requests", "grpc_method=ShouldRateLimit"), 6);
}

static void what_another_rule_refused_was_asked_about_and_not_spent(void **state)
{
    (void)state;
    apply(plain);
    ask_often("small=x", 1);
    assert_int_equal(ask("k=a", "small=x", 1), CDL_ANSWER_REFUSED);
    assert_hits("domain=d,key1=k", 1, 0, -1, 0);
    assert_hits("domain=d,key1=small", 2, 1, 1, 1);
    apply("domain: d\n"
          "descriptors:\n"
          "- key: k\n"
          "  count_refused: true\n" LIMIT(20) "- key: small\n" LIMIT(1));
    assert_int_equal(ask("k=a", "small=x", 1), CDL_ANSWER_REFUSED);
    assert_hits("domain=d,key1=k", 2, 1, -1, 0);
}

static void shadow_and_quota(void **state)
{
    (void)state;
    apply("domain: d\n"
          "descriptors:\n"
          "- key: s\n"
          "  shadow_mode: true\n" LIMIT(1) "- key: q\n"
                                           "  quota_mode: true\n" LIMIT(1));
    ask_often("s=x", 3);
    ask_often("q=x", 3);
    assert_hits("domain=d,key1=s", 3, 1, 1, 2);
    assert_hits("domain=d,key1=q", 3, 1, 1, 2);
    assert_int_equal(told(SHADOW, "domain=d,key1=s"), 2);
    assert_int_equal(told(SHADOW, "domain=d,key1=q"), -1);
}

static void what_has_no_limit_is_not_counted(void **state)
{
    (void)state;
    apply("domain: d\n"
          "descriptors:\n"
          "- key: free\n"
          "- key: off\n"
          "  rate_limit: {unlimited: true}\n"
          "- key: old\n"
          "  rate_limit: {name: old, unit: hour, requests_per_unit: 5}\n"
          "- key: new\n"
          "  rate_limit: {unit: hour, requests_per_unit: 5, replaces: [{name: old}]}\n");
    ask_often("free=x", 1);
    ask_often("off=x", 1);
    ask_often("nobody=x", 1);
    ask("old=x", "new=x", 1);
    assert_int_equal(told(TOTAL, "domain=d,key1=off"), 0);
    assert_int_equal(told(TOTAL, "domain=d,key1=old"), 0);
    assert_int_equal(told(TOTAL, "domain=d,key1=new"), 1);
    assert_int_equal(told("ratelimit_service_rate_limit_domain_not_found", ""), 0);
    struct request request = {.all = {.domain = CDL_SLICE("nowhere")}};
    add(&request, "k=x");
    add(&request, "k=y");
    assert_int_equal(ask_for(&request), CDL_ANSWER_ALLOWED);
    assert_int_equal(told("ratelimit_service_rate_limit_domain_not_found", ""), 2);
    assert_int_equal(series_of(TOTAL), 3); /* of off, old and new */
}

static void C93_every_level_is_a_label(void **state)
{
    (void)state;
    apply("domain: d.e/f\n"
          "descriptors:\n"
          "- key: a|b\n"
          "  value: \"1.2.3.4\"\n"
          "  descriptors:\n"
          "  - key: any\n"
          "    descriptors:\n"
          "    - key: q\n"
          "      value: 'say \"x\\y\"'\n"
          "      rate_limit: {unit: hour, requests_per_unit: 5}\n");
    struct request request = {.all = {.domain = CDL_SLICE("d.e/f")}};
    add(&request, "a|b=1.2.3.4,any=thing,q=say \"x\\y\"");
    ask_for(&request);
    assert_hits("domain=d.e/f,key1=a|b_1.2.3.4,key2=any,key3=q_say \"x\\y\"", 1, 1, -1, 0);
}

static const char nested[] = "domain: d\n"
                             "descriptors:\n"
                             "- key: route\n"
                             "  value_to_metric: true\n"
                             "  descriptors:\n"
                             "  - key: user\n"
                             "    rate_limit: {unit: hour, requests_per_unit: 5}\n"
                             "  - key: user\n"
                             "    value: eve\n"
                             "    detailed_metric: true\n"
                             "    rate_limit: {unit: hour, requests_per_unit: 5}\n"
                             "- key: all\n"
                             "  descriptors:\n"
                             "  - key: ip\n"
                             "    detailed_metric: true\n"
                             "    rate_limit: {unit: hour, requests_per_unit: 5}\n"
                             "- key: wild\n"
                             "  value: api/*\n"
                             "  rate_limit: {unit: hour, requests_per_unit: 5}\n"
                             "- key: shown\n"
                             "  value: api/*\n"
                             "  value_to_metric: true\n"
                             "  rate_limit: {unit: hour, requests_per_unit: 5}\n"
                             "- key: shared\n"
                             "  value: api/*\n"
                             "  share_threshold: true\n"
                             "  value_to_metric: true\n"
                             "  rate_limit: {unit: hour, requests_per_unit: 5}\n";

static void values_are_shown_where_a_file_says_so(void **state)
{
    (void)state;
    apply(nested);
    ask_often("route=/x,user=ann", 1);
    ask_often("route=/y,user=eve", 1);
    ask_often("all=here,ip=2001:db8::1", 1);
    ask_often("wild=api/1", 1);
    ask_often("shown=api/1", 1);
    ask_often("shared=api/1", 1);
    assert_int_equal(told(TOTAL, "domain=d,key1=route_/x,key2=user"), 1);
    assert_int_equal(told(TOTAL, "domain=d,key1=route_/y,key2=user_eve"), 1);
    assert_int_equal(told(TOTAL, "domain=d,key1=all_here,key2=ip_2001:db8::1"), 1);
    assert_int_equal(told(TOTAL, "domain=d,key1=wild_api/*"), 1);
    assert_int_equal(told(TOTAL, "domain=d,key1=shown_api/1"), 1);
    assert_int_equal(told(TOTAL, "domain=d,key1=shared_api/*"), 1);
    assert_int_equal(series_of(TOTAL), 6);
}

static void C92_values_beyond_what_the_policy_allows_are_other(void **state)
{
    (void)state;
    apply_with(nested, (struct cdl_metrics_settings){.descriptor_values = 2});
    const size_t bytes = bed.counting.live_bytes;
    for (unsigned i = 0; i < 1000; i++) {
        char entries[64];
        snprintf(entries, sizeof entries, "route=%u,user=%u", i, i);
        ask_often(entries, 1);
        snprintf(entries, sizeof entries, "all=%u,ip=%u", i, i);
        ask_often(entries, 1);
    }
    assert_int_equal(bed.counting.live_bytes, bytes);
    assert_int_equal(told(TOTAL, "domain=d,key1=route_1,key2=user"), 1);
    assert_int_equal(told(TOTAL, "domain=d,key1=route_2,key2=user"), -1);
    assert_int_equal(told(TOTAL, "domain=d,key1=route_other,key2=user"), 998);
    assert_int_equal(told(TOTAL, "domain=d,key1=all_other,key2=ip_other"), 998);
    assert_int_equal(told("caudal_descriptor_labels_dropped_total", "what=value"), 2 * 998);
    apply_with(nested, (struct cdl_metrics_settings){.descriptor_values = 0}); /* then nothing is asked for */
    ask_often("all=1,ip=1", 1);
    assert_int_equal(told(TOTAL, "domain=d,key1=all,key2=ip"), 1);
}

static void ask_with_a_limit(const char *entries)
{
    struct request request = {.all = {.domain = CDL_SLICE("d")}};
    struct cdl_descriptor *descriptor = add(&request, entries);
    descriptor->has_limit = true;
    descriptor->requests_per_unit = 1;
    descriptor->unit = CDL_UNIT_HOUR;
    ask_for(&request);
}

static void C92_limits_that_a_request_brings(void **state)
{
    (void)state;
    apply(plain);
    assert_int_equal(told(TOTAL, "domain=d,key1=override"), -1);
    for (unsigned i = 0; i < 1000; i++) {
        char entries[64];
        snprintf(entries, sizeof entries, "user=%u,page=x", i / 2);
        ask_with_a_limit(entries);
    }
    assert_hits("domain=d,key1=override", 1000, 500, 500, 500);
    assert_int_equal(series_of(TOTAL), 4);
    apply_with(plain, (struct cdl_metrics_settings){.override_values = 3});
    for (unsigned i = 0; i < 1000; i++) {
        char entries[64];
        snprintf(entries, sizeof entries, "user=%u,page=y", i);
        ask_with_a_limit(entries);
    }
    assert_hits("domain=d,key1=user_2,key2=page_y", 1, 1, 1, 0);
    assert_int_equal(told(TOTAL, "domain=d,key1=user_3,key2=page_y"), -1);
    assert_hits("domain=d,key1=override", 1997, 1497, 1497, 500);
}

static void a_store_that_is_away_is_an_error_and_no_refusal(void **state)
{
    (void)state;
    apply("domain: d\n"
          "descriptors:\n"
          "- key: open\n"
          "  on_store_failure: allow\n" LIMIT(5) "- key: shut\n"
                                                 "  on_store_failure: deny\n" LIMIT(
                                                     5) "- key: here\n"
                                                        "  on_store_failure: local\n" LIMIT(5));
    assert_int_equal(told(ERRORS, "err_type=redis_error"), 0);
    bed.store.is_away = true;
    assert_int_equal(ask("open=x", NULL, 2), CDL_ANSWER_ALLOWED);
    assert_int_equal(ask("shut=x", NULL, 2), CDL_ANSWER_UNAVAILABLE);
    assert_hits("domain=d,key1=open", 2, 0, -1, 0);
    assert_hits("domain=d,key1=shut", 2, 0, -1, 0);
    assert_int_equal(told(ERRORS, "err_type=redis_error"), 2);
    assert_int_equal(ask("here=x", NULL, 6), CDL_ANSWER_REFUSED); /* somebody did count */
    assert_hits("domain=d,key1=here", 6, 0, -1, 6);
    assert_int_equal(told(ERRORS, "err_type=redis_error"), 2);
    assert_int_equal(told(ERRORS, "err_type=service_error"), 0);
    cdl_account_bad_descriptors(&bed.worker);
    assert_int_equal(told(ERRORS, "err_type=service_error"), 1);
    assert_int_equal(told("ratelimit_service_total_requests", "grpc_method=ShouldRateLimit"), 4);
}

static void C95_counters_outlive_reloads(void **state)
{
    (void)state;
    int64_t before = 0;
    for (unsigned i = 0; i < 30; i++) {
        apply(i % 3 == 0 ? plain : nested);
        ask_often(i % 3 == 0 ? "k=a" : "route=/x,user=ann", 1);
        if (i == 0)
            continue;
        const int64_t k = told(TOTAL, "domain=d,key1=k"), now = k + told(TOTAL, "domain=d,key1=route_/x,key2=user");
        assert_int_equal(k, i / 3 + 1);
        assert_true(now > before);
        before = now;
    }
    assert_int_equal(before, 30);
    atomic_store(&bed.server.reloads, 29);
    atomic_store(&bed.server.reload_failures, 2);
    assert_int_equal(told("ratelimit_service_config_load_success", ""), 30);
    assert_int_equal(told("ratelimit_service_config_load_error", ""), 2);
}

static void a_policy_without_domains_is_told_nothing_about(void **state)
{
    (void)state;
    struct page page;
    apply("limits: [{name: a, rate: 1/s}]\n");
    open_page(&page);
    assert_int_equal(page.read.count, 0);
    close_page(&page);
    apply(plain);
    ask_often("k=a", 1);
    apply("limits: [{name: a, rate: 1/s}]\n");
    assert_int_equal(told(TOTAL, "domain=d,key1=k"), 1); /* what was counted stays */
}

static void short_memory_is_other(void **state)
{
    (void)state;
    /* Without memory for the groups all of it is "other", and requests are counted. */
    bed.counting.fail_at = bed.counting.calls;
    apply(plain);
    ask_often("k=a", 1);
    assert_true(told(TOTAL, "domain=other") == 1 || told(TOTAL, "domain=d,key1=k") == 1);
    assert_true(told("caudal_descriptor_labels_dropped_total", "what=rule") > 0);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(C95_what_is_within_is_what_the_store_counts),
        CASE(several_hits_are_all_within_or_all_over),
        CASE(what_another_rule_refused_was_asked_about_and_not_spent),
        CASE(shadow_and_quota),
        CASE(what_has_no_limit_is_not_counted),
        CASE(C93_every_level_is_a_label),
        CASE(values_are_shown_where_a_file_says_so),
        CASE(C92_values_beyond_what_the_policy_allows_are_other),
        CASE(C92_limits_that_a_request_brings),
        CASE(a_store_that_is_away_is_an_error_and_no_refusal),
        CASE(C95_counters_outlive_reloads),
        CASE(a_policy_without_domains_is_told_nothing_about),
        CASE(short_memory_is_other),
    };
    return cmocka_run_group_tests_name("account_descriptors", tests, NULL, NULL);
}
