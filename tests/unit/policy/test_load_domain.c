/* Files of Envoy's rate limit service: what loads, what is refused and in which words, and which files are read. */
#include <sys/stat.h>
#include <unistd.h>

#include "domains.h"

/* ----------------------------------------------------------------------------------------------------------- texts */

static void a_file_becomes_limits(void **state)
{
    (void)state;
    struct cdl_policy *policy = load_good("domain: shop\n"
                                          "descriptors:\n"
                                          "  - key: tenant\n"
                                          "    rate_limit:\n"
                                          "      name: per-tenant\n"
                                          "      unit: HOUR\n"
                                          "      requests_per_unit: 7\n"
                                          "    detailed_metric: true\n"
                                          "    descriptors:\n"
                                          "      - key: route\n"
                                          "        value: /v1/*\n"
                                          "        share_threshold: yes\n"
                                          "        value_to_metric: true\n"
                                          "        rate_limit:\n"
                                          "          replaces: [{name: per-tenant}, {name: other}]\n"
                                          "          unit: Week\n"
                                          "          requests_per_unit: 4294967295\n"
                                          "        quota_mode: on\n"
                                          "        metadata: {team: {name: a, size: 5, 'x\"': '5'}, ok: true, no: ~}\n"
                                          "  - {key: plain, shadow_mode: true, rate_limit: {unlimited: true}}\n");
    assert_string_equal(findings(), "p:15:11: warning: 'replaces': no limit of this domain has the name 'other'\n");
    assert_int_equal(policy->domain_count, 1);
    assert_int_equal(cdl_policy_named_limits(policy), 3);
    const struct cdl_limit_rule *tenant = limit_named(policy, "shop/tenant");
    assert_int_equal(tenant->kind, CDL_RULE_DESCRIPTOR);
    assert_int_equal(tenant->mode, CDL_MODE_ENFORCE);
    assert_int_equal(tenant->on_store_failure, CDL_FAILURE_DENY);
    assert_int_equal(tenant->per_count, 1);
    assert_string_equal(tenant->per[0].text.bytes, "tenant");
    assert_string_equal(tenant->descriptor->domain.bytes, "shop");
    assert_string_equal(tenant->descriptor->path.bytes, "tenant");
    assert_string_equal(tenant->descriptor->label.bytes, "per-tenant");
    assert_int_equal(tenant->descriptor->unit, CDL_UNIT_HOUR);
    assert_int_equal(tenant->descriptor->requests_per_unit, 7);
    assert_true(tenant->descriptor->detailed_metric && !tenant->descriptor->quota && !tenant->descriptor->shadow);
    assert_int_equal(tenant->place.line, 5);
    const struct cdl_limit_rule *route = limit_named(policy, "shop/tenant/route=%2Fv1%2F*");
    assert_int_equal(route->per_count, 1); /* the route is shared */
    assert_int_equal(route->mode, CDL_MODE_SHADOW);
    assert_true(route->descriptor->quota && !route->descriptor->shadow);
    assert_int_equal(route->descriptor->metric_depths, 2);
    assert_int_equal(route->descriptor->replaces_count, 2);
    assert_string_equal(route->descriptor->replaces[1].bytes, "other");
    assert_string_equal(route->descriptor->metadata.bytes,
                        "{\"team\":{\"name\":\"a\",\"size\":5,\"x\\\"\":\"5\"},\"ok\":true,\"no\":null}");
    const struct caudal_limit *rate = rate_of(policy, "shop/tenant/route=%2Fv1%2F*");
    assert_int_equal(rate->algorithm, CAUDAL_FIXED_WINDOW);
    assert_int_equal(rate->count, UINT32_MAX);
    assert_int_equal(rate->period_ns, UINT64_C(604800000000000));
    const struct cdl_limit_rule *plain = limit_named(policy, "shop/plain");
    assert_true(plain->descriptor->unlimited && plain->descriptor->shadow);
    assert_int_equal(rate_of(policy, "shop/plain")->algorithm, CAUDAL_UNLIMITED);
    cdl_policy_free(policy);
}

static void C18_units_are_slots_of_fixed_length(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        uint64_t seconds;
    } units[] = {{"second", 1},    {"minute", 60},     {"hour", 3600},    {"day", 86400},
                 {"week", 604800}, {"month", 2592000}, {"year", 31536000}};
    for (size_t i = 0; i < COUNT_OF(units); i++) {
        char text[128];
        snprintf(text, sizeof text, "domain: d\ndescriptors: [{key: k, rate_limit: {unit: %s, requests_per_unit: 5}}]",
                 units[i].name);
        struct cdl_policy *policy = load_good(text);
        assert_int_equal(rate_of(policy, "d/k")->period_ns, units[i].seconds * 1000000000);
        const enum cdl_unit unit = limit_named(policy, "d/k")->descriptor->unit;
        assert_int_equal(cdl_unit_period_ns(unit), units[i].seconds * 1000000000);
        assert_int_equal(strcasecmp(cdl_unit_name(unit), units[i].name), 0);
        cdl_policy_free(policy);
    }
    assert_null(cdl_unit_name(CDL_UNIT_UNKNOWN));
    assert_null(cdl_unit_name(99));
    assert_int_equal(cdl_unit_period_ns(99), 0);
}

/* What the reference refuses is refused, and its place is named. */
static void refuses_what_the_reference_refuses(void **state)
{
    (void)state;
    static const struct bad cases[] = {
        {"descriptors:\n", "p:1:1: the file has no 'domain'\n"},
        {"domain:\ndescriptors:\n", "p:1:8: the file has no 'domain'\n"},
        {"domain: d\ndescriptors:\n  - value: v\n", "p:3:5: the descriptor has no 'key'\n"},
        {"domain: d\ndescriptors:\n  - key: ''\n", "p:3:5: the descriptor has no 'key'\n"},
        {"domain: d\ndescriptors: [a, [b]]\n",
         "p:2:15: 'descriptors': expected a map with keys such as 'key', found 'a'\n"
         "p:2:18: 'descriptors': expected a map with keys such as 'key', found a list\n"},
        {"domain: d\ndescriptors: x\n", "p:2:14: 'descriptors': expected a list of {key: ...}, found 'x'\n"},
        {"0.5: d\ndescriptors:\n", "p:1:1: the file has no 'domain'\n"
                                   "p:1:1: unknown key '0.5' in the domain; expected domain, descriptors\n"},
        {"domain: d\ndescriptors: [{key: k, ratelimit: {}}]\n",
         "p:2:24: unknown key 'ratelimit' in descriptors; did you mean 'rate_limit'?\n"},
        {"domain: d\ndescriptors: [{key: k, rate_limit: {unit: day, requestsperunit: 5, requests_per_unit: 5}}]\n",
         "p:2:48: unknown key 'requestsperunit' in rate_limit; did you mean 'requests_per_unit'?\n"},
        {"domain: d\ndescriptors: [{key: k, rate_limit: {unit: fortnight, requests_per_unit: 5}}]\n",
         "p:2:43: 'unit': expected second, minute, hour, day, week, month or year, found 'fortnight'\n"},
        {"domain: d\ndescriptors: [{key: k, rate_limit: {unit: unknown, requests_per_unit: 5}}]\n",
         "p:2:43: 'unit': expected second, minute, hour, day, week, month or year, found 'unknown'\n"},
        {"domain: d\ndescriptors: [{key: k, rate_limit: {requests_per_unit: 5}}]\n",
         "p:2:36: the limit has no 'unit'\n"},
        {"domain: d\ndescriptors: [{key: k, rate_limit: {unlimited: true, unit: day}}]\n",
         "p:2:60: 'unit' has no meaning with 'unlimited: true'\n"},
        {"domain: d\ndescriptors: [{key: k, rate_limit: {unit: day, requests_per_unit: 4294967296}}]\n",
         "p:2:67: 'requests_per_unit': expected a whole number from 0 to 4294967295, found '4294967296'\n"},
        {"domain: d\ndescriptors: [{key: k, rate_limit: {unit: day, requests_per_unit: -1}}]\n",
         "p:2:67: 'requests_per_unit': expected a whole number from 0 to 4294967295, found '-1'\n"},
        {"domain: d\ndescriptors: [{key: k, rate_limit: {unit: day, requests_per_unit: 1, name: n, replaces: [{name: "
         "n}]}}]\n",
         "p:2:97: 'replaces': 'n' is the name of this limit itself\n"},
        {"domain: d\ndescriptors: [{key: k, rate_limit: {unit: day, requests_per_unit: 1, replaces: [{name: }]}}]\n",
         "p:2:81: 'replaces': the entry has no name\n"},
        {"domain: d\ndescriptors: [{key: k, rate_limit: {unit: day, requests_per_unit: 1, replaces: x}}]\n",
         "p:2:80: 'replaces': expected a list of {name: ...}, found 'x'\n"},
        {"domain: d\ndescriptors: [{key: k, value: v, share_threshold: true, " RATE "}]\n",
         "p:2:15: 'share_threshold' has a meaning only with a value that has a '*', not with 'v'\n"},
        {"domain: d\ndescriptors: [{key: k, shadow_mode: maybe, " RATE "}]\n",
         "p:2:37: 'shadow_mode': expected true or false, found 'maybe'\n"},
        {"domain: d\ndescriptors: [{key: k, metadata: [1], " RATE "}]\n",
         "p:2:34: 'metadata': expected a map, found a list\n"},
        {"domain: d\ndescriptors: [{key: {a: b}}]\n", "p:2:21: 'key': expected a text, found a map\n"},
        {"domain: d\n---\ndomain: e\n", "p:2:1: a second document begins here; a policy is one\n"},
        {"domain: d\ndomain: e\n", "p:2:1: the key 'domain' is given twice; first at line 1, column 1\n"},
    };
    CHECK_BAD(cases);
}

/* All of it at once. */
static void everything_is_said_at_once(void **state)
{
    (void)state;
    static const struct bad cases[] = {
        {"domain: d\n"
         "descriptors:\n"
         "  - key: a\n"
         "    rate_limit: {unit: x, requests_per_unit: y}\n"
         "  - value: v\n"
         "  - key: b\n"
         "    colour: blue\n"
         "  - key: a\n",
         "p:4:24: 'unit': expected second, minute, hour, day, week, month or year, found 'x'\n"
         "p:4:46: 'requests_per_unit': expected a whole number from 0 to 4294967295, found 'y'\n"
         "p:5:5: the descriptor has no 'key'\n"
         "p:7:5: unknown key 'colour' in descriptors; expected key, value, rate_limit, descriptors, shadow_mode, "
         "quota_mode, detailed_metric, value_to_metric, share_threshold, metadata, on_store_failure, sharing, mode, "
         "count_refused\n"
         "p:8:5: the descriptor 'a' is given twice; first at p:3:5\n"},
    };
    CHECK_BAD(cases);
}

/* Where the reference reads past something, so is it read past here; and that is said. */
static void warns_where_the_reference_reads_past(void **state)
{
    (void)state;
    cdl_policy_free(load_good("domain: d\n"
                              "descriptors:\n"
                              "  - key: k\n"
                              "    unit: day\n"
                              "    rate_limit: {unit: day, shadow_mode: true}\n"
                              "  - {key: u, rate_limit: {unlimited: true, requests_per_unit: 5}}\n"
                              "  - {key: s, rate_limit: {unit: second, requests_per_unit: 4294967295}}\n"));
    assert_string_equal(findings(),
                        "p:4:5: warning: 'unit' has no meaning in descriptors and is ignored\n"
                        "p:5:17: warning: the limit has no 'requests_per_unit': that is 0, which refuses everything\n"
                        "p:5:29: warning: 'shadow_mode' has no meaning in rate_limit and is ignored\n"
                        "p:6:63: warning: 'requests_per_unit' has no meaning with 'unlimited: true' and is ignored\n"
                        "p:7:60: warning: more than 1000000000 in a second is taken for 1000000000 in a second\n");
}

/* What is written once and named elsewhere is as if it were written out. */
static void anchors_stand_for_what_they_name(void **state)
{
    (void)state;
    struct cdl_policy *policy = load_good("domain: d\n"
                                          "descriptors:\n"
                                          "  - key: a\n"
                                          "    rate_limit: &slow {unit: minute, requests_per_unit: 1}\n"
                                          "  - &b\n"
                                          "    key: b\n"
                                          "    rate_limit: *slow\n"
                                          "    descriptors: &below [{key: x, rate_limit: *slow}]\n"
                                          "  - {<<: *b, key: c}\n"
                                          "  - <<: [{key: e, value: &v text}, *b]\n"
                                          "    rate_limit: {<<: *slow, requests_per_unit: 7}\n"
                                          "  - {key: f, value: *v, descriptors: *below}\n");
    assert_string_equal(findings(), "");
    static const char *const names[] = {"d/a", "d/b", "d/b/x", "d/c", "d/c/x", "d/e=text/x", "d/f=text/x"};
    for (size_t i = 0; i < COUNT_OF(names); i++)
        assert_int_equal(rate_of(policy, names[i])->count, 1);
    assert_int_equal(rate_of(policy, "d/e=text")->count, 7);
    assert_int_equal(cdl_policy_named_limits(policy), COUNT_OF(names) + 1);
    cdl_policy_free(policy);
}

static void anchors_cannot_blow_up(void **state)
{
    (void)state;
    static const struct bad cases[] = {
        {"domain: d\ndescriptors: &a [*a]\n", "p:2:18: the alias '*a' names nothing that stands before it (a word that "
                                              "begins with '*' stands in quotes)\n"},
        {"domain: d\ndescriptors: [{key: k, value: *}]\n",
         "p:2:32: not YAML: did not find expected alphabetic or numeric character, while scanning an alias (from line "
         "2)\n"},
        {"domain: d\ndescriptors: [{<<: 5, key: k}]\n", "p:2:20: '<<' merges maps, and this is none\n"},
        {"domain: d\n"
         "descriptors:\n"
         "- key: k\n"
         "  metadata:\n"
         "    a: &a [x, x, x, x, x, x, x, x, x, x]\n"
         "    b: &b [*a, *a, *a, *a, *a, *a, *a, *a, *a, *a]\n"
         "    c: &c [*b, *b, *b, *b, *b, *b, *b, *b, *b, *b]\n"
         "    d: &d [*c, *c, *c, *c, *c, *c, *c, *c, *c, *c]\n"
         "    e: &e [*d, *d, *d, *d, *d, *d, *d, *d, *d, *d]\n"
         "    f: &f [*e, *e, *e, *e, *e, *e, *e, *e, *e, *e]\n"
         "    g: &g [*f, *f, *f, *f, *f, *f, *f, *f, *f, *f]\n",
         "p:11:12: the file has more than 2000000 values; split the policy\n"},
    };
    CHECK_BAD(cases);
    char deep[8192] = "domain: d\ndescriptors:\n- key: k\n  metadata:\n    k0: &a0 [x]\n";
    for (int i = 1; i < 60; i++)
        snprintf(deep + strlen(deep), sizeof deep - strlen(deep), "    k%d: &a%d [[*a%d]]\n", i, i, i - 1);
    assert_null(load(deep));
    assert_non_null(strstr(findings(), "lists and maps are nested more than 96 deep"));
    char *many = malloc(65536);
    assert_non_null(many);
    size_t length = (size_t)snprintf(many, 65536, "domain: d\ndescriptors:\n- key: k\n  metadata: {a: [");
    for (int i = 0; i < 1001; i++)
        length += (size_t)snprintf(many + length, 65536 - length, "&a%d x, ", i);
    snprintf(many + length, 65536 - length, "]}\n");
    assert_null(load(many));
    assert_string_equal(findings(), "p:4:8908: the file has more than 1000 anchors\n");
    free(many);
}

static void warns_of_what_can_have_no_effect(void **state)
{
    (void)state;
    cdl_policy_free(load_good(
        "domain: d\n"
        "descriptors:\n"
        "  - {key: a, " RATE "}\n"
        "  - {key: a, value: x*, " RATE "}\n"
        "  - {key: a, value: xy*, " RATE "}\n"
        "  - {key: a, value: '*y', " RATE "}\n"
        "  - {key: a, value: xyz, " RATE "}\n" /* an exact value is met all the same */
        "  - {key: b, value: '*', descriptors: [{key: c, value: 'l*m', " RATE "}, {key: c, value: 'l*nm', " RATE "}]}\n"
        "  - {key: b, " RATE "}\n"
        "  - {key: e, rate_limit: {name: n, unit: day, requests_per_unit: 1, replaces: [{name: m}]}}\n"
        "  - {key: f, rate_limit: {unit: day, requests_per_unit: 1, replaces: [{name: n}]}}\n"));
    assert_string_equal(findings(), "p:5:5: warning: it is never met: 'x*' at p:4:5 takes all that it could\n"
                                    "p:8:115: warning: it is never met: 'l*m' at p:8:40 takes all that it could\n"
                                    "p:9:5: warning: it is never met: '*' at p:8:5 takes all that it could\n"
                                    "p:10:26: warning: 'replaces': no limit of this domain has the name 'm'\n");
}

static void C53_a_descriptor_that_is_given_twice_is_refused(void **state)
{
    (void)state;
    static const struct bad cases[] = {
        {"domain: d\n"
         "descriptors:\n"
         "  - {key: k, value: v, descriptors: [{key: a, " RATE "}]}\n"
         "  - {key: k, value: v, descriptors: [{key: b, " RATE "}]}\n",
         "p:4:5: the descriptor 'k=v' is given twice; first at p:3:5\n"},
        {"domain: d\n"
         "descriptors:\n"
         "  - key: k\n"
         "    descriptors:\n"
         "      - {key: a, value: 'x/*'}\n"
         "      - {key: a, value: 'x/*'}\n"
         "      - {key: a}\n"
         "      - {key: a, value: ''}\n",
         "p:6:9: the descriptor 'k/a=x%2F*' is given twice; first at p:5:9\n"
         "p:8:9: the descriptor 'k/a' is given twice; first at p:7:9\n"},
    };
    CHECK_BAD(cases);
}

static void keys_of_our_own(void **state)
{
    (void)state;
    struct cdl_policy *policy = load_good(
        "domain: d\n"
        "descriptors:\n"
        "  - {key: a, rate_limit: {rate: 60 per 30s}}\n"
        "  - {key: b, rate_limit: {period: 90s, requests_per_unit: 1, algorithm: sliding_log}}\n"
        "  - {key: c, rate_limit: {rate: 100/s, algorithm: token_bucket, burst: 500}}\n"
        "  - {key: e, rate_limit: {unit: month, requests_per_unit: 5, calendar: {zone: Europe/Berlin}}}\n"
        "  - {key: f, mode: shadow, sharing: leased, on_store_failure: local, count_refused: true, " RATE "}\n"
        "  - {key: g, mode: off, " RATE "}\n"
        "  - {key: h, rate_limit: {period: 60s, requests_per_unit: 1}}\n");
    assert_string_equal(findings(), "");
    const struct caudal_limit *a = rate_of(policy, "d/a"), *b = rate_of(policy, "d/b"), *c = rate_of(policy, "d/c");
    assert_true(a->algorithm == CAUDAL_FIXED_WINDOW && a->count == 60 && a->period_ns == UINT64_C(30000000000));
    assert_int_equal(limit_named(policy, "d/a")->descriptor->unit, CDL_UNIT_UNKNOWN);
    assert_int_equal(limit_named(policy, "d/a")->descriptor->requests_per_unit, 60);
    assert_true(b->algorithm == CAUDAL_SLIDING_LOG && b->count == 1 && b->period_ns == UINT64_C(90000000000));
    assert_true(c->algorithm == CAUDAL_TOKEN_BUCKET && c->count == 100 && c->burst == 500);
    assert_int_equal(limit_named(policy, "d/c")->descriptor->unit, CDL_UNIT_SECOND);
    assert_non_null(limit_named(policy, "d/e")->calendar);
    assert_true(policy->rates[limit_named(policy, "d/e")->rate].per_call);
    const struct cdl_limit_rule *f = limit_named(policy, "d/f");
    assert_true(f->mode == CDL_MODE_SHADOW && f->sharing == CDL_SHARING_LEASED && f->count_refused);
    assert_int_equal(f->on_store_failure, CDL_FAILURE_LOCAL);
    assert_int_equal(f->lease.ttl_ns, 100000000);
    assert_true(f->descriptor->shadow);
    assert_int_equal(limit_named(policy, "d/g")->mode, CDL_MODE_OFF);
    assert_string_equal(met(policy, "d", "g=x"), "free");
    assert_int_equal(limit_named(policy, "d/h")->descriptor->unit, CDL_UNIT_MINUTE);
    cdl_policy_free(policy);
}

#define LIMIT(text) "domain: d\ndescriptors: [{key: k, rate_limit: {" text "}}]\n"

static void refuses_our_own_keys_where_they_mean_nothing(void **state)
{
    (void)state;
    static const struct bad cases[] = {
        {LIMIT("rate: 5/s, unit: day"),
         "p:2:43: 'rate' says it all; leave out 'unit', 'period' and 'requests_per_unit'\n"},
        {LIMIT("rate: 5/x"), "p:2:45: 'rate': expected a period, such as 30s or minute, found 'x'\n"},
        {LIMIT("rate: 5/s burst 9"),
         "p:2:53: 'rate': a burst of 9 on a fixed_window: only a token_bucket has one; leave it out\n"},
        {LIMIT("rate: 5/s sliding_log"),
         "p:2:43: 'rate': expected a rate such as 60 per 30s; 'algorithm' and 'burst' are "
         "keys of their own\n"},
        {LIMIT("unit: day, period: 5s, requests_per_unit: 1"),
         "p:2:56: 'period' and 'unit' are two answers to one question\n"},
        {LIMIT("period: 5, requests_per_unit: 1"),
         "p:2:45: 'period': expected a duration with its unit, as in 500ms, 2s or 1m, found '5'\n"},
        {LIMIT("unit: day, requests_per_unit: 1, algorithm: leaky"),
         "p:2:81: 'algorithm': expected token_bucket, fixed_window, sliding_window or sliding_log, found 'leaky'\n"},
        {LIMIT("unit: day, requests_per_unit: 1, burst: 5"),
         "p:2:77: 'burst' has a meaning only with 'algorithm: token_bucket'\n"},
        {LIMIT("unit: day, requests_per_unit: 20000, algorithm: sliding_log"),
         "p:2:67: 'rate_limit': a count of 20000 is above the 10000 of a sliding_log; give a smaller one, or another "
         "algorithm\n"},
        {LIMIT("unit: hour, requests_per_unit: 1, calendar: {zone: UTC}"),
         "p:2:81: 'calendar' has a meaning only with a unit of day, week, month or year\n"},
        {LIMIT("unit: day, requests_per_unit: 1, calendar: {zone: Mars/Olympus}"),
         "p:2:87: 'zone': 'Mars/Olympus' is not among the system's time zones (/usr/share/zoneinfo/; package "
         "tzdata)\n"},
        {LIMIT("unit: day, requests_per_unit: 1, calendar: UTC"),
         "p:2:80: 'calendar': expected a map with keys such as 'zone', found 'UTC'\n"},
        {LIMIT("unit: day, requests_per_unit: 1, algorithm: sliding_window, calendar: {zone: UTC}"),
         "p:2:107: 'calendar' has a meaning only with 'algorithm: fixed_window'\n"},
        {"domain: d\ndescriptors: [{key: k, mode: shadow, count_refused: true}]\n",
         "p:2:30: 'mode' has a meaning only with 'rate_limit'\n"
         "p:2:53: 'count_refused' has a meaning only with 'rate_limit'\n"},
        {"domain: d\ndescriptors: [{key: k, mode: enforce, shadow_mode: true, " RATE "}]\n",
         "p:2:30: 'mode' and 'shadow_mode' are two answers to one question\n"},
        {"domain: d\ndescriptors: [{key: k, sharing: leased, rate_limit: {unit: day, requests_per_unit: 1, calendar: "
         "{zone: "
         "UTC}}}]\n",
         "p:2:33: a limit with a 'calendar' cannot be leased\n"},
    };
    CHECK_BAD(cases);
}

static char *nested(unsigned depth, const char *value)
{
    char *text = calloc(1, 65536);
    assert_non_null(text);
    size_t length = (size_t)snprintf(text, 65536, "domain: d\ndescriptors: ");
    for (unsigned i = 0; i < depth; i++)
        length += (size_t)snprintf(text + length, 65536 - length, "[{key: k%u, %s%s", i, value,
                                   i + 1 < depth ? "descriptors: " : RATE);
    for (unsigned i = 0; i < depth; i++)
        length += (size_t)snprintf(text + length, 65536 - length, "}]");
    return text;
}

static void descriptors_nest(void **state)
{
    (void)state;
    char *deep = nested(32, "value: v, "), *deeper = nested(33, "value: v, "), *open = nested(16, ""),
         *wide = nested(17, "");
    char entries[1024] = "";
    cdl_policy_free(load_good(deep));
    assert_null(load(deeper));
    assert_non_null(strstr(findings(), "descriptors are nested more than 32 deep"));
    struct cdl_policy *policy = load_good(open);
    for (unsigned i = 0; i < 16; i++)
        snprintf(entries + strlen(entries), sizeof entries - strlen(entries), "%sk%u=v%u", i > 0 ? "," : "", i, i);
    assert_string_equal(met(policy, "d", entries),
                        "d/k0/k1/k2/k3/k4/k5/k6/k7/k8/k9/k10/k11/k12/k13/k14/k15 "
                        "2:v0,2:v1,2:v2,2:v3,2:v4,2:v5,2:v6,2:v7,2:v8,2:v9,3:v10,3:v11,3:v12,3:v13,3:v14,3:v15,");
    cdl_policy_free(policy);
    assert_null(load(wide));
    assert_non_null(strstr(findings(), "17 levels above this limit have no fixed value; at most 16 may"));
    free(deep);
    free(deeper);
    free(open);
    free(wide);
}

/* ------------------------------------------------------------------------------------------------- files and folders */

static char folder[64];

static void put(const char *name, const char *text)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void put_link(const char *target, const char *name)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    assert_int_equal(symlink(target, path), 0);
}

static void put_folder(const char *name)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    assert_int_equal(mkdir(path, 0700), 0);
}

static int setup(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/caudal-domain-XXXXXX");
    return mkdtemp(folder) == NULL;
}

static int teardown(void **state)
{
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "rm -r %s", folder);
    return system(command);
}

static struct cdl_policy *load_path(const char *name)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return cdl_policy_load_file(path, NULL, &report);
}

/* The findings without the name of the folder. */
static const char *local_findings(void)
{
    static char text[sizeof report];
    const char *from = findings();
    char *to = text, with_slash[80];
    const size_t length = (size_t)snprintf(with_slash, sizeof with_slash, "%s/", folder);
    while (*from != '\0')
        if (strncmp(from, with_slash, length) == 0)
            from += length;
        else
            *to++ = *from++;
    *to = '\0';
    return text;
}

/* A text of bytes that could be taken for something else. */
static size_t random_text(struct rng *rng, char *text)
{
    static const char bytes[] = {'a', 'b', '_', '/',  '=',    ',',    ':', '1', '2',
                                 '{', '}', '*', '\0', '\xc3', '\xa9', '#', '%'};
    const size_t length = rng_next(rng) % 5;
    for (size_t i = 0; i < length; i++)
        text[i] = bytes[rng_next(rng) % sizeof bytes];
    return length;
}

struct seen {
    char identity[256], record[512];
    size_t identity_length, record_length;
};

/* What a request means, in a spelling of its own: the domain, each entry with its length, and the unit. */
static size_t spell(const struct cdl_descriptor_request *request, char *text)
{
    const struct cdl_descriptor *descriptor = &request->descriptors[0];
    size_t length = 0;
    text[length++] = request->domain.bytes[0];
    text[length++] = (char)(descriptor->has_limit ? descriptor->unit : 0);
    for (size_t i = 0; i < descriptor->entry_count; i++) {
        const struct cdl_slice parts[2] = {descriptor->entries[i].key, descriptor->entries[i].value};
        for (size_t j = 0; j < 2; j++) {
            text[length++] = (char)parts[j].length;
            if (parts[j].length > 0)
                memcpy(text + length, parts[j].bytes, parts[j].length);
            length += parts[j].length;
        }
    }
    return length;
}

/* Requests that differ in their domain, their entries or their unit are never counted in one record; those that do not, are. */
static void C59_different_requests_never_share_a_record(void **state)
{
    (void)state;
    enum {
        COUNT = 3000
    };
    static const char tree[] = "descriptors:\n"
                               "- {key: a, " RATE ", descriptors: [{key: b, " RATE "}, {key: a_b, value: 'a*', " RATE
                               "}]}\n"
                               "- {key: a, value: b, " RATE "}\n"
                               "- {key: a_b, " RATE ", descriptors: [{key: _, " RATE ", descriptors: [{key: a/b, " RATE
                               "}]}]}\n"
                               "- {key: b, value: '*1', " RATE ", descriptors: [{key: a, value: '1*', " RATE "}]}\n"
                               "- {key: a/b, " RATE "}\n";
    char file[sizeof tree + 16];
    snprintf(file, sizeof file, "domain: d\n%s", tree);
    put("d.yaml", file);
    file[8] = 'e';
    put("e.yaml", file);
    struct cdl_policy *policy = load_path("");
    if (policy == NULL)
        fail_msg("%s", findings());
    struct seen *seen = calloc(COUNT, sizeof *seen);
    assert_non_null(seen);
    struct rng rng = {59};
    size_t count = 0, same = 0;
    while (count < COUNT) {
        static const char *const keys[] = {"a", "a_b", "b", "_", "a/b"};
        char values[3][8];
        begin(rng_next(&rng) % 2 ? "d" : "e");
        struct cdl_descriptor *descriptor = &asked.descriptors[asked.request.descriptor_count++];
        *descriptor = (struct cdl_descriptor){.entries = asked.entries[0], .entry_count = 1 + rng_next(&rng) % 3};
        for (size_t i = 0; i < descriptor->entry_count; i++)
            asked.entries[0][i] = (struct cdl_descriptor_entry){cdl_slice_of(keys[rng_next(&rng) % COUNT_OF(keys)]),
                                                                {values[i], random_text(&rng, values[i])}};
        descriptor->has_limit = rng_next(&rng) % 3 == 0;
        descriptor->unit = CDL_UNIT_SECOND + (enum cdl_unit)(rng_next(&rng) % 3);
        match(policy);
        if (results[0].outcome != CDL_DESCRIPTOR_LIMITED)
            continue;
        struct seen *new = &seen[count++];
        const struct cdl_charge *charge = &plan.charges[0];
        const struct cdl_slice name = policy->rates[charge->rate].name;
        new->identity_length = spell(&asked.request, new->identity);
        memcpy(new->record, name.bytes, name.length + 1);
        memcpy(new->record + name.length + 1, charge->key.bytes, charge->key.length);
        new->record_length = name.length + 1 + charge->key.length;
        for (size_t i = 0; i + 1 < count; i++) {
            const bool one_identity = seen[i].identity_length ==
                                      new->identity_length &&memcmp(seen[i].identity, new->identity,
                                                                    new->identity_length) == 0;
            const bool one_record = seen[i].record_length ==
                                    new->record_length &&memcmp(seen[i].record, new->record, new->record_length) == 0;
            assert_int_equal(one_identity, one_record);
            same += one_record;
        }
    }
    assert_true(same > 0); /* or nothing was compared that is equal */
    free(seen);
    cdl_policy_free(policy);
}

#define DOMAIN(name) "domain: " name "\ndescriptors: [{key: k, " RATE "}]\n"

static void C54_a_mounted_config_map_is_loaded_once(void **state)
{
    (void)state;
    put_folder("..2026_01_01");
    put("..2026_01_01/rl.yaml", DOMAIN("a"));
    put("..2026_01_01/more.yml", DOMAIN("b"));
    put_link("..2026_01_01", "..data");
    put_link("..data/rl.yaml", "rl.yaml");
    put_link("..data/more.yml", "more.yml");
    put_link("rl.yaml", "twice.yaml");
    put("rl.yaml~", "not: [yaml");
    put(".rl.yaml.swp", "not: [yaml");
    put("#rl.yaml#", "not: [yaml");
    put("README", "not: [yaml");
    struct cdl_policy *policy = load_path("");
    assert_string_equal(local_findings(), "");
    assert_non_null(policy);
    assert_int_equal(policy->domain_count, 2);
    assert_int_equal(cdl_policy_named_limits(policy), 2);
    assert_int_equal(policy->source_count, 3); /* the folder, and each file once */
    assert_non_null(strstr(policy->sources[1].bytes, "/more.yml"));
    assert_non_null(strstr(policy->sources[2].bytes, "/rl.yaml"));
    const uint64_t hash = policy->hash;
    cdl_policy_free(policy);
    put("..2026_01_01/more.yml", DOMAIN("c"));
    policy = load_path("");
    assert_non_null(policy);
    assert_true(policy->hash != hash);
    cdl_policy_free(policy);
}

static void a_folder_inside_is_not_looked_through(void **state)
{
    (void)state;
    put_folder("sub.yaml");
    put("a.yaml", DOMAIN("a"));
    struct cdl_policy *policy = load_path("");
    assert_non_null(policy);
    assert_string_equal(local_findings(),
                        "p: warning: the folder 'sub.yaml' is inside another, and not looked through\n");
    cdl_policy_free(policy);
}

static void C53_domains_in_two_files(void **state)
{
    (void)state;
    put("a.yaml", DOMAIN("a"));
    put("b.yaml", "domain: a\ndescriptors:\n- {key: k, " RATE "}\n- {key: l, " RATE "}\n");
    assert_null(load_path(""));
    assert_string_equal(local_findings(),
                        "b.yaml:1:9: the domain 'a' is in a.yaml already, at line 1; files that are parts of one "
                        "domain need 'merge_domains: true'\n");
    put("policy", "envoy: {files: [a.yaml, b.yaml], merge_domains: true}\n");
    assert_null(load_path("policy"));
    assert_string_equal(local_findings(), "b.yaml:3:3: the descriptor 'k' is given twice; first at a.yaml:2:15\n");
    put("b.yaml", "domain: a\ndescriptors:\n- {key: l, " RATE "}\n");
    struct cdl_policy *policy = load_path("policy");
    assert_string_equal(local_findings(), "");
    assert_non_null(policy);
    assert_int_equal(policy->domain_count, 1);
    assert_int_equal(policy->source_count, 3);
    assert_string_equal(met(policy, "a", "k=v"), "a/k 1:v,");
    assert_string_equal(met(policy, "a", "l=v"), "a/l 1:v,");
    cdl_policy_free(policy);
}

static void C66_a_broken_file_leaves_nothing(void **state)
{
    (void)state;
    put("a.yaml", DOMAIN("a"));
    put("b.yaml", "domain: [\n");
    put("c.yaml", "");
    put("d.yaml", "domain: d\ndescriptors: [{key: k, rate_limit: {unit: x, requests_per_unit: 1}}]\n");
    put("e.yaml", "limits: [{name: a, rate: 1/s}]\n");
    put("f.yaml", "just a text\n");
    put_link("nowhere", "g.yaml");
    assert_null(load_path(""));
    assert_string_equal(
        local_findings(),
        "p: 'g.yaml' cannot be read: No such file or directory\n"
        "b.yaml:2:1: not YAML: did not find expected node content, while parsing a flow node (from line 2)\n"
        "c.yaml:1:1: the file is empty; it has no 'domain'\n"
        "d.yaml:2:43: 'unit': expected second, minute, hour, day, week, month or year, found 'x'\n"
        "e.yaml:1:1: the file has no 'domain'\n"
        "e.yaml:1:1: unknown key 'limits' in the domain; expected domain, descriptors\n"
        "f.yaml:1:1: 'the domain': expected a map with keys such as 'domain', found 'just a text'\n"
        "f.yaml:1:1: the file has no 'domain'\n");
    assert_null(load_path("c.yaml"));
    assert_null(load_path("nowhere"));
}

static void a_policy_names_its_files(void **state)
{
    (void)state;
    put_folder("rl");
    put("rl/a.yaml", DOMAIN("a"));
    put("b.yaml", DOMAIN("b"));
    put("policy", "limits: [{name: mine, rate: 5/s}]\nenvoy: [rl, b.yaml, rl/a.yaml]\n");
    struct cdl_policy *policy = load_path("policy");
    assert_string_equal(local_findings(), "p:1:17: warning: 'mine' also counts health checks: no path is exempt; add "
                                          "exempt: [{path: /healthz}]\n");
    assert_non_null(policy);
    assert_int_equal(policy->request_limit_count, 1);
    assert_int_equal(cdl_policy_named_limits(policy), 3);
    assert_int_equal(policy->source_count, 4);
    assert_int_equal(cdl_policy_find(policy, CDL_SLICE("mine")), 0);
    assert_string_equal(met(policy, "b", "k=v"), "b/k 1:v,");
    cdl_policy_free(policy);
    put("policy", "envoy: b.yaml\n");
    policy = load_path("policy");
    assert_non_null(policy);
    assert_int_equal(cdl_policy_named_limits(policy), 1);
    cdl_policy_free(policy);
    put("policy", "envoy: [none.yaml, rl, 5, /dev/null]\nlimit: []\n");
    assert_null(load_path("policy"));
    assert_string_equal(local_findings(), "p:1:9: 'none.yaml' cannot be read: No such file or directory\n"
                                          "p:1:24: '5' cannot be read: No such file or directory\n"
                                          "p:1:27: '/dev/null' is neither a file nor a folder\n"
                                          "p:2:1: unknown key 'limit' in the policy; did you mean 'limits'?\n");
    put("policy", "envoy: {merge_domains: true}\n");
    assert_null(load_path("policy"));
    assert_string_equal(local_findings(), "p:1:8: 'envoy' has no 'files'\n");
}

static void the_example_loads(void **state)
{
    (void)state;
    struct cdl_policy *policy = cdl_policy_load_file(EXAMPLES_DIR "/ratelimit", NULL, &report);
    assert_string_equal(findings(), "");
    assert_non_null(policy);
    assert_int_equal(policy->domain_count, 2);
    assert_string_equal(met(policy, "shop", "remote_address=192.0.2.7"), "free");
    assert_string_equal(met(policy, "shop", "tenant=acme,route=/v1/reports/7"),
                        "shop/tenant/route=%2Fv1%2Freports%2F* 4:acme,");
    assert_string_equal(met(policy, "mail", "message_type=marketing,to_number=1"),
                        "mail/message_type=marketing/to_number 1:1,");
    cdl_policy_free(policy);
}

static void short_memory_is_an_error_and_leaks_nothing(void **state)
{
    (void)state;
    put("a.yaml",
        "domain: a\ndescriptors:\n"
        "- key: k\n  value: v*\n  metadata: {a: [1, b]}\n  rate_limit: {unit: day, requests_per_unit: 1, name: n, "
        "replaces: [{name: m}], calendar: {zone: Europe/Berlin}}\n"
        "  descriptors: [{key: l, " RATE "}]\n");
    put("b.yaml", DOMAIN("b"));
    bool loaded = false;
    long failures = 0;
    while (!loaded) {
        struct counting_allocator counting;
        counting_allocator_init(&counting);
        counting.fail_at = failures;
        struct cdl_policy *policy = cdl_policy_load_file(folder, &counting.allocator, &report);
        loaded = policy != NULL;
        if (!loaded) {
            failures++;
            assert_non_null(strstr(findings(), "memory is short"));
        }
        cdl_policy_free(policy);
        assert_int_equal(counting.live_blocks, 0);
    }
    assert_true(failures >= 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_becomes_limits),
        cmocka_unit_test(C18_units_are_slots_of_fixed_length),
        cmocka_unit_test(refuses_what_the_reference_refuses),
        cmocka_unit_test(everything_is_said_at_once),
        cmocka_unit_test(warns_where_the_reference_reads_past),
        cmocka_unit_test(anchors_stand_for_what_they_name),
        cmocka_unit_test(anchors_cannot_blow_up),
        cmocka_unit_test(warns_of_what_can_have_no_effect),
        cmocka_unit_test(C53_a_descriptor_that_is_given_twice_is_refused),
        cmocka_unit_test(keys_of_our_own),
        cmocka_unit_test(refuses_our_own_keys_where_they_mean_nothing),
        cmocka_unit_test(descriptors_nest),
        cmocka_unit_test_setup_teardown(C59_different_requests_never_share_a_record, setup, teardown),
        cmocka_unit_test_setup_teardown(C54_a_mounted_config_map_is_loaded_once, setup, teardown),
        cmocka_unit_test_setup_teardown(a_folder_inside_is_not_looked_through, setup, teardown),
        cmocka_unit_test_setup_teardown(C53_domains_in_two_files, setup, teardown),
        cmocka_unit_test_setup_teardown(C66_a_broken_file_leaves_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(a_policy_names_its_files, setup, teardown),
        cmocka_unit_test(the_example_loads),
        cmocka_unit_test_setup_teardown(short_memory_is_an_error_and_leaks_nothing, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
