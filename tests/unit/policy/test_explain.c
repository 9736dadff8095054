/* A policy in words: the promise of each algorithm, and that its numbers are what a store admits. */
#include "policy/explain.h"

#include <stdlib.h>

#include "../support.h"

static const char *in_words(const struct caudal_limit *limit)
{
    static char text[CDL_EXPLAIN_RATE_MAX + 1];
    struct cdl_writer writer = cdl_writer_on(text, CDL_EXPLAIN_RATE_MAX);
    cdl_explain_rate(limit, &writer);
    assert_false(writer.overflow);
    text[writer.length] = '\0';
    return text;
}

static void promises_in_words(void **state)
{
    (void)state;
    static const struct {
        const char *rate, *words;
    } cases[] = {
        {"100/minute", "at most 100 at once, then 1.67 a second; up to 200 in one minute"},
        {"100/minute burst 20", "at most 20 at once, then 1.67 a second; up to 120 in one minute"},
        {"5000/second", "at most 5000 at once, then 5000 a second; up to 10000 in one second"},
        {"1/s", "at most 1 at once, then 1 a second; up to 2 in one second"},
        {"3/2s", "at most 3 at once, then 1.5 a second; up to 6 in 2 seconds"},
        {"1000/hour", "at most 1000 at once, then one every 3.6 seconds; up to 2000 in one hour"},
        {"10/hour burst 1", "at most 1 at once, then one every 6 minutes; up to 11 in one hour"},
        {"1/day", "at most 1 at once, then one every day; up to 2 in one day"},
        {"1/90s", "at most 1 at once, then one every 1.5 minutes; up to 2 in 90 seconds"},
        {"1/month", "at most 1 at once, then one every 4.29 weeks; up to 2 in 30 days"},
        {"0/s burst 5", "at most 5 in all, then nothing: it never refills"},
        {"0/s", "nothing, ever: it holds no token"},
        {"5/s burst 0", "nothing, ever: it holds no token"},
        {"1/ns", "at most 1 at once, then 1000000000 a second; up to 2 in one nanosecond"},
        {"1/3d", "at most 1 at once, then one every 3 days; up to 2 in 3 days"},
        {"100/minute fixed_window",
         "at most 100 in each minute by the clock; up to 200 within one minute across the edge of two"},
        {"7/30s sliding_window", "at most 7 in each 30 seconds by the clock, less what the one before weighs; never "
                                 "above 14 within 30 seconds"},
        {"5 per 10 min sliding_log", "at most 5 within any 10 minutes, exactly"},
        {"0/s sliding_log", "nothing, ever: its count is 0"},
        {"unlimited", "everything: nothing is counted"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct caudal_limit limit;
        assert_int_equal(caudal_limit_parse(cases[i].rate, &limit, NULL), CAUDAL_OK);
        assert_string_equal(in_words(&limit), cases[i].words);
    }
}

/* "up to N in one period" is attained by a client that takes all it can, and not passed. */
static void the_bound_in_words_is_what_a_store_admits(void **state)
{
    (void)state;
    static const char *const rates[] = {
        "100/minute", "100/minute burst 20", "100/minute burst 1", "10/hour burst 50", "7/3s burst 2", "1/s",
        "3/2s",       "13/day burst 4"};
    for (size_t i = 0; i < COUNT_OF(rates); i++) {
        struct caudal_limit limit;
        struct world world;
        assert_int_equal(caudal_limit_parse(rates[i], &limit, NULL), CAUDAL_OK);
        world_open(&world, "memory:?keys=1000");
        uint32_t id = world_add(&world, limit);
        uint64_t admitted = drain(&world, id, "k");
        for (uint64_t token = 1; token <= limit.count; token++) {
            world_set_time(&world, EPOCH + (int64_t)(token * limit.period_ns / limit.count));
            admitted += drain(&world, id, "k");
        }
        const char *said = strstr(in_words(&limit), "up to ");
        assert_non_null(said);
        assert_int_equal(admitted, strtoull(said + strlen("up to "), NULL, 10));
        world_close(&world);
    }
}

static void any_legal_bucket_has_words(void **state)
{
    (void)state;
    struct rng rng = {7};
    for (int i = 0; i < 20000; i++) {
        struct caudal_limit limit = random_bucket(&rng);
        char expected[64];
        snprintf(expected, sizeof expected, "at most %llu at once", (unsigned long long)caudal_limit_capacity(&limit));
        assert_non_null(strstr(in_words(&limit), expected));
    }
}

/* ---- reasons ---- */

static struct cdl_report report;

static const char *why(const char *rest, const struct cdl_request *request)
{
    static char text[1024], scratch[65536];
    char policy_text[512];
    snprintf(policy_text, sizeof policy_text, "limits: [{name: a, rate: 9/s, %s}]\n", rest);
    struct cdl_policy *policy = cdl_policy_load_text("p", cdl_slice_of(policy_text), NULL, &report);
    assert_non_null(policy);
    struct cdl_writer writer = cdl_writer_on(scratch, sizeof scratch), words = cdl_writer_on(text, sizeof text - 1);
    struct cdl_view view;
    struct cdl_account account;
    cdl_view_open(&view, policy, request, &writer);
    cdl_explain_limit(&view, 0, CDL_COST_UNSAID, &account);
    cdl_explain_why(&view, 0, &account, &words);
    text[words.length] = '\0';
    cdl_policy_free(policy);
    return text;
}

static void C104_reasons_in_words(void **state)
{
    (void)state;
    struct cdl_field headers[] = {{CDL_SLICE("X-Plan"), CDL_SLICE("gold-1")},
                                  {CDL_SLICE("x-two"), CDL_SLICE("a")},
                                  {CDL_SLICE("x-two"), CDL_SLICE("b")},
                                  {CDL_SLICE("x-odd"), CDL_SLICE("a\\\n\xff")}};
    struct cdl_request request = {
        .method = CDL_SLICE("POST"), .path = CDL_SLICE("/v1/x"), .headers = headers, .header_count = COUNT_OF(headers)};
    assert_true(cdl_address_parse(CDL_SLICE("10.1.2.3"), &request.client));
    assert_string_equal(why("mode: enforce", &request), "applies to every request");
    assert_string_equal(why("mode: off", &request), "does not apply: its mode is off");
    assert_string_equal(
        why("when: {method: [PUT, POST], path: /v1/*, header.x-plan: gold*, client_ip: 10.0.0.0/8}", &request),
        "applies: method is POST; path /v1/x matches /v1/*; header.x-plan gold-1 matches gold*; client_ip 10.1.2.3 is "
        "in 10.0.0.0/8");
    assert_string_equal(why("when: {method: GET}", &request), "does not apply: method is POST, not GET");
    assert_string_equal(why("when: {method: [GET, PUT, HEAD]}", &request),
                        "does not apply: method is POST, not GET, PUT or HEAD");
    assert_string_equal(why("when: {header.x-no: y}", &request),
                        "does not apply: the request has no header.x-no, which has to be y");
    assert_string_equal(why("when: {header.x-odd: y}", &request),
                        "does not apply: header.x-odd is a\\\\\\x0a\\xff, not y");
    assert_string_equal(why("per: '/users/{id}'", &request),
                        "does not apply: path is /v1/x, not of the form /users/{id}");
    assert_string_equal(why("per: tenant", &request), "refuses: the request has no tenant, and if_missing is deny");
    assert_string_equal(why("per: tenant, mode: shadow", &request),
                        "would refuse (shadow): the request has no tenant, and if_missing is deny");
    assert_string_equal(why("per: tenant, if_missing: skip", &request),
                        "does not apply: the request has no tenant, and if_missing is skip");
    assert_string_equal(why("per: header.x-two", &request),
                        "refuses: the request has two different values of header.x-two");
}

static void what_sharing_promises_in_words(void **state)
{
    (void)state;
    static const char *const words[] = {
        "strict: every decision in the store",
        "leased: busy keys spend tokens that were withdrawn within the last 100 milliseconds; up to B + r*(t + ttl) "
        "over "
        "all instances: 2100 in one second",
        "leased: busy keys spend tokens that were withdrawn within the last second; up to B + r*t over all instances: "
        "1600 in one minute; at most 990 at once, the rest is kept back for leases",
        "leased: busy keys spend tokens that were withdrawn within the last 100 milliseconds; a lease dies with its "
        "window, so all instances together admit no more than that",
        "strict: every decision in the store, for a sliding_log cannot be leased",
        "local: each instance counts by itself, 1/3 of it; the store is never asked",
        "local: each instance counts by itself, the whole of it; the store is never asked",
    };
    const char *text =
        "limits:\n"
        "- {name: a, rate: 1/s}\n"
        "- {name: b, rate: 1000/s, sharing: leased}\n"
        "- {name: c, rate: 600/minute, burst: 1000, sharing: leased, lease: {ttl: 1s, strict_bound: true}}\n"
        "- {name: d, rate: 5/s fixed_window, sharing: leased}\n"
        "- {name: e, rate: 5/s sliding_log, sharing: leased}\n"
        "- {name: f, rate: 5/s, sharing: local}\n"
        "- {name: g, rate: 5/s, sharing: local, local_share: all}\n"
        "instances: 3\n"
        "store: redis://h\n";
    struct cdl_policy *policy = cdl_policy_load_text("p", cdl_slice_of(text), NULL, &report);
    assert_non_null(policy);
    for (uint32_t i = 0; i < COUNT_OF(words); i++) {
        char line[CDL_EXPLAIN_SHARING_MAX + 1];
        struct cdl_writer writer = cdl_writer_on(line, CDL_EXPLAIN_SHARING_MAX);
        cdl_explain_sharing(policy, i, &writer);
        assert_false(writer.overflow);
        line[writer.length] = '\0';
        assert_string_equal(line, words[i]);
    }
    cdl_policy_free(policy);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(promises_in_words),          cmocka_unit_test(the_bound_in_words_is_what_a_store_admits),
        cmocka_unit_test(any_legal_bucket_has_words), cmocka_unit_test(what_sharing_promises_in_words),
        cmocka_unit_test(C104_reasons_in_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
