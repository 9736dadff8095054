/* Matching: which limits apply to a request, under which key, at what cost; and that the index finds what a scan would. */
#include <stdlib.h>

#include "../support.h"
#include "policy/explain.h"
#include "policy/index.h"
#include "policy/match.h"
#include "policy/match_parts.h"

static struct cdl_report report;
static char scratch[CDL_MATCH_SCRATCH_BYTES];

static struct cdl_policy *load(const char *text)
{
    struct cdl_policy *policy = cdl_policy_load_text("p", cdl_slice_of(text), NULL, &report);
    if (policy == NULL)
        fail_msg("%s\nin:\n%s", report.findings[0].text, text);
    return policy;
}

/* A request to change as a test needs it. */
struct asked {
    struct cdl_request request;
    struct cdl_field headers[8], attributes[8];
};

static struct cdl_address address(const char *text)
{
    struct cdl_address parsed = {.family = 0};
    assert_true(cdl_address_parse(cdl_slice_of(text), &parsed));
    return parsed;
}

static void ask(struct asked *asked, const char *method, const char *path)
{
    *asked = (struct asked){.request = {.method = cdl_slice_of(method),
                                        .path = cdl_slice_of(path),
                                        .host = CDL_SLICE("example.org"),
                                        .client = address("203.0.113.7")}};
    asked->request.headers = asked->headers;
    asked->request.attributes = asked->attributes;
}

static void add_header(struct asked *asked, const char *name, const char *value)
{
    asked->headers[asked->request.header_count++] = (struct cdl_field){cdl_slice_of(name), cdl_slice_of(value)};
}

static void add_attribute(struct asked *asked, const char *name, const char *value)
{
    asked->attributes[asked->request.attribute_count++] = (struct cdl_field){cdl_slice_of(name), cdl_slice_of(value)};
}

static const struct cdl_plan *match(const struct cdl_policy *policy, const struct asked *asked)
{
    static struct cdl_plan plan;
    cdl_policy_match(policy, &asked->request, CDL_COST_UNSAID, scratch, sizeof scratch, &plan);
    return &plan;
}

/* A plan in words: "a 11:203.0.113.7, 1; b{x=1} 1:1, 2". */
static const char *words(const struct cdl_policy *policy, const struct cdl_plan *plan)
{
    static const char *const outcomes[] = {"", "exempt", "missing", "ambiguous", "too long", "too many"};
    static char text[4096];
    size_t length = (size_t)snprintf(text, sizeof text, "%s", outcomes[plan->outcome]);
    if (plan->limit != CDL_NONE)
        length += (size_t)snprintf(text + length, sizeof text - length, " %s", policy->limits[plan->limit].name.bytes);
    for (size_t i = 0; i < plan->count; i++)
        length += (size_t)snprintf(text + length, sizeof text - length, "%s%s %.*s %llu", i == 0 ? "" : "; ",
                                   policy->rates[plan->charges[i].rate].name.bytes, CDL_SLICE_ARG(plan->charges[i].key),
                                   (unsigned long long)plan->charges[i].cost);
    return text;
}

static void assert_plan(const struct cdl_policy *policy, const struct asked *asked, const char *expected)
{
    assert_string_equal(words(policy, match(policy, asked)), expected);
}

static void the_policy_of_the_readme(void **state)
{
    (void)state;
    struct cdl_policy *policy = load("identity: {client_ip: {trusted_proxies: [10.0.0.0/8]}}\n"
                                     "exempt: [{path: /healthz}, {method: OPTIONS}]\n"
                                     "limits:\n"
                                     "- {name: per-client, per: [client_ip], rate: 100/minute, burst: 100}\n"
                                     "- name: writes-per-key\n"
                                     "  when: {method: [POST, PUT, DELETE], path: /v1/*}\n"
                                     "  per: [header.x-api-key]\n"
                                     "  if_missing: deny\n"
                                     "  rate: 1000/hour\n"
                                     "  cost: {header: x-cost, default: 1, max: 50}\n"
                                     "  overrides: [{match: {header.x-api-key: partner-*}, rate: 20000/hour}]\n"
                                     "- {name: everybody, rate: 5000/second}\n");
    struct asked asked;
    ask(&asked, "GET", "/v1/x");
    assert_plan(policy, &asked, "per-client 11:203.0.113.7, 1; everybody  1");
    ask(&asked, "POST", "/v1/x");
    assert_plan(policy, &asked, "missing writes-per-key");
    add_header(&asked, "X-API-Key", "k");
    assert_plan(policy, &asked, "per-client 11:203.0.113.7, 1; writes-per-key 1:k, 1; everybody  1");
    add_header(&asked, "x-cost", "7");
    assert_plan(policy, &asked, "per-client 11:203.0.113.7, 1; writes-per-key 1:k, 7; everybody  1");
    asked.headers[0].value = CDL_SLICE("partner-9");
    asked.headers[1].value = CDL_SLICE("700");
    assert_plan(
        policy, &asked,
        "per-client 11:203.0.113.7, 1; writes-per-key{header.x-api-key=partner-*} 9:partner-9, 50; everybody  1");
    ask(&asked, "GET", "/healthz");
    assert_plan(policy, &asked, "exempt");
    ask(&asked, "OPTIONS", "/v1/x");
    assert_plan(policy, &asked, "exempt");
    cdl_policy_free(policy);
}

/* One limit with one condition or identity, one request, and what comes of it. */
static void check_rest(const char *rest, const struct asked *asked, const char *expected)
{
    char text[1024];
    snprintf(text, sizeof text, "limits: [{name: a, rate: 9/s, %s}]\n", rest);
    struct cdl_policy *policy = load(text);
    const char *got = words(policy, match(policy, asked));
    if (strcmp(got, expected) != 0)
        fail_msg("%s\nexpected: %s\ngot: %s", text, expected, got);
    cdl_policy_free(policy);
}

static void paths_match_segment_by_segment(void **state)
{
    (void)state;
    static const struct {
        const char *pattern, *yes[6], *no[6];
    } cases[] = {
        {"/", {"/"}, {"/a", ""}},
        {"/*", {"/", "/a", "/a/b"}, {""}},
        {"/v1/*", {"/v1", "/v1/a", "/v1/a/b"}, {"/", "/v10", "/v1x/a", "/v2/a"}},
        {"/v1/{x}", {"/v1/a", "/v1/*"}, {"/v1", "/v1/a/b"}},
        {"/v1/*/x", {"/v1/a/x"}, {"/v1/x", "/v1/a/b/x", "/v1/a/x/y", "/v1"}},
        {"/v1/*/*", {"/v1/a", "/v1/a/b", "/v1/a/b/c"}, {"/v1"}},
        {"/f-*", {"/f-", "/f-1"}, {"/f", "/f-1/2", "/g"}},
        {"/a*b*c/d", {"/abc/d", "/aXbXc/d", "/abcbc/d"}, {"/ac/d", "/abc", "/abcd/d"}},
        {"/ba*ab", {"/baab", "/baXab"}, {"/bab", "/ba", "/ab"}},
        {"/%7euser/%2f", {"/~user/%2F"}, {"/~user//"}},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        char rest[64];
        struct asked asked;
        snprintf(rest, sizeof rest, "when: {path: '%s'}", cases[i].pattern);
        for (size_t j = 0; j < 6 && cases[i].yes[j] != NULL; j++) {
            ask(&asked, "GET", cases[i].yes[j]);
            check_rest(rest, &asked, "a  1");
        }
        for (size_t j = 0; j < 6 && cases[i].no[j] != NULL; j++) {
            ask(&asked, "GET", cases[i].no[j]);
            check_rest(rest, &asked, "");
        }
    }
}

static void conditions_hold_together(void **state)
{
    (void)state;
    struct asked asked;
    ask(&asked, "GET", "/a");
    add_header(&asked, "X-Plan", "gold-1");
    add_header(&asked, "Cookie", "s=7; t=8");
    asked.request.query = CDL_SLICE("a=1&b=x%20y");
    check_rest("when: {host: '*.org', method: [PUT, GET]}", &asked, "a  1");
    check_rest("when: {host: '*.example.org'}", &asked, "");
    check_rest("when: {host: EXAMPLE.ORG}", &asked, "a  1");
    check_rest("when: {header.x-plan: gold-*, cookie.t: 8, query.b: x y}", &asked, "a  1");
    check_rest("when: {header.x-plan: gold}", &asked, "");
    check_rest("when: {header.x-plan: [silver, gold-1]}", &asked, "a  1");
    check_rest("when: {header.x-none: '*'}", &asked, "");
    check_rest("when: {client_ip: 203.0.113.0/24}", &asked, "a  1");
    check_rest("when: {client_ip: [10.0.0.0/8, 203.0.113.7]}", &asked, "a  1");
    check_rest("when: {client_ip: 203.0.114.0/24}", &asked, "");
    check_rest("when: {path.1: a}", &asked, "a  1");
    check_rest("when: {path.2: a}", &asked, "");
    check_rest("when: {tenant: t}", &asked, "");
    add_attribute(&asked, "tenant", "t");
    check_rest("when: {tenant: t, attribute.tenant2: x}", &asked, "");
    check_rest("when: {tenant: t}", &asked, "a  1");
    add_header(&asked, "x-plan", "silver");
    check_rest("when: {header.x-plan: silver}", &asked, "a  1");
    check_rest("when: {header.x-plan: gold-1}", &asked, "a  1");
}

static void identities_are_found(void **state)
{
    (void)state;
    struct asked asked;
    ask(&asked, "GET", "/users/42/posts");
    add_header(&asked, "X-Key", " k ");
    add_header(&asked, "cookie", "other=1");
    add_header(&asked, "cookie", "sid=s");
    asked.request.query = CDL_SLICE("q=a%2Bb+c");
    check_rest("per: [client_ip]", &asked, "a 11:203.0.113.7, 1");
    check_rest("per: [method, host, path, path.2]", &asked, "a 3:GET,11:example.org,15:/users/42/posts,2:42, 1");
    check_rest("per: [header.x-key, cookie.sid, query.q]", &asked, "a 1:k,1:s,5:a+b c, 1");
    check_rest("per: ['/users/{id}/*']", &asked, "a 11:/users/42/*, 1");
    check_rest("per: ['/{kind}/42/{what}']", &asked, "a 15:/users/42/posts, 1");
    check_rest("per: ['/users/{id}']", &asked, "");
    check_rest("per: ['/posts/{id}'], if_missing: deny", &asked, "");
    check_rest("per: [tenant]", &asked, "missing a");
    check_rest("per: [tenant], if_missing: skip", &asked, "");
    check_rest("per: [tenant, client_ip], if_missing: nobody", &asked, "a 6:nobody,11:203.0.113.7, 1");
    check_rest("per: [path.4], mode: shadow", &asked, "");
    asked.request.client = (struct cdl_address){.family = 0};
    check_rest("per: [client_ip]", &asked, "missing a");
}

/* An empty identity must not be one bucket for everybody who has none. */
static void C89_empty_identities_follow_if_missing(void **state)
{
    (void)state;
    struct asked asked;
    ask(&asked, "GET", "");
    add_header(&asked, "x-key", "  ");
    add_header(&asked, "cookie", "sid=");
    add_attribute(&asked, "tenant", "");
    asked.request.query = CDL_SLICE("q=");
    static const char *const identities[] = {"header.x-key", "cookie.sid", "query.q", "tenant", "path", "path.1"};
    for (size_t i = 0; i < sizeof identities / sizeof identities[0]; i++) {
        char rest[64];
        snprintf(rest, sizeof rest, "per: %s", identities[i]);
        check_rest(rest, &asked, "missing a");
    }
}

static void attributes_override(void **state)
{
    (void)state;
    struct asked asked;
    ask(&asked, "GET", "/a");
    add_header(&asked, "x-key", "k");
    add_attribute(&asked, "header.X-Key", "other");
    add_attribute(&asked, "path", "/b//c/../d?x=1");
    add_attribute(&asked, "method", "POST");
    add_attribute(&asked, "host", "API.example.com");
    add_attribute(&asked, "client_ip", "2001:db8:0:0:1:2:3:4");
    check_rest("per: [header.x-key]", &asked, "a 5:other, 1");
    check_rest("per: [path, path.2, method, host]", &asked, "a 4:/b/d,1:d,4:POST,15:api.example.com, 1");
    check_rest("per: [client_ip]", &asked, "a 10:2001:db8::, 1");
    check_rest("when: {path: /b/*, method: POST, host: api.*}", &asked, "a  1");
    check_rest("when: {client_ip: '2001:db8::/32'}", &asked, "a  1");
    check_rest("when: {path: /a}", &asked, "");
    asked.attributes[4].value = CDL_SLICE("nonsense");
    check_rest("per: [client_ip]", &asked, "missing a");
    asked.attributes[4].value = CDL_SLICE("::ffff:10.0.0.1");
    check_rest("per: [client_ip]", &asked, "a 8:10.0.0.1, 1");
}

static void a_header_with_two_values_is_refused(void **state)
{
    (void)state;
    struct asked asked;
    ask(&asked, "GET", "/a");
    add_header(&asked, "x-key", "k");
    add_header(&asked, "X-Key", "k");
    check_rest("per: [header.x-key]", &asked, "a 1:k, 1");
    add_header(&asked, "X-KEY", "l");
    check_rest("per: [header.x-key]", &asked, "ambiguous a");
    check_rest("per: [header.x-key], if_missing: skip", &asked, "ambiguous a");
    check_rest("per: [header.x-key], mode: shadow", &asked, "");
    check_rest("per: [header.x-key], mode: off", &asked, "");
}

static void costs(void **state)
{
    (void)state;
    static const struct {
        const char *cost, *header;
        uint64_t said, expected;
    } cases[] = {
        {"mode: enforce", NULL, CDL_COST_UNSAID, 1},
        {"mode: enforce", NULL, 7, 7},
        {"mode: enforce", NULL, 0, 0},
        {"cost: 3", NULL, 7, 3},
        {"cost: 0", "5", 7, 0},
        {"cost: {header: x-c, max: 50}", NULL, CDL_COST_UNSAID, 1},
        {"cost: {header: x-c, max: 50}", NULL, 99, 50},
        {"cost: {header: x-c, max: 50, default: 4}", NULL, CDL_COST_UNSAID, 4},
        {"cost: {header: x-c, max: 50, default: 4}", "", CDL_COST_UNSAID, 4},
        {"cost: {header: x-c, max: 50}", "6", 7, 6},
        {"cost: {header: x-c, max: 50}", "0", CDL_COST_UNSAID, 1},
        {"cost: {header: x-c, min: 0, max: 50}", "0", CDL_COST_UNSAID, 0},
        {"cost: {header: x-c, max: 50}", "-1", CDL_COST_UNSAID, 50},
        {"cost: {header: x-c, max: 50}", "1.5", CDL_COST_UNSAID, 50},
        {"cost: {header: x-c, max: 50}", "99999999999999999999", CDL_COST_UNSAID, 50},
        {"cost: {max: 5}", NULL, 7, 5},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        char text[256];
        struct asked asked;
        struct cdl_plan plan;
        snprintf(text, sizeof text, "limits: [{name: a, rate: 99/s, %s}]\n", cases[i].cost);
        struct cdl_policy *policy = load(text);
        ask(&asked, "GET", "/a");
        if (cases[i].header != NULL)
            add_header(&asked, "X-C", cases[i].header);
        cdl_policy_match(policy, &asked.request, cases[i].said, scratch, sizeof scratch, &plan);
        assert_int_equal(plan.count, 1);
        if (plan.charges[0].cost != cases[i].expected)
            fail_msg("case %zu: %llu", i, (unsigned long long)plan.charges[0].cost);
        cdl_policy_free(policy);
    }
}

/* Exact before patterns, patterns in their order, parts of a pattern do not overlap. */
static void C56_precedence_of_overrides(void **state)
{
    (void)state;
    struct cdl_policy *policy = load(
        "limits:\n- name: a\n  rate: 1/s\n  per: [k, l]\n  if_missing: none\n  overrides:\n"
        "  - {match: {k: foo*}, rate: 2/s}\n"
        "  - {match: {k: fo*b}, rate: 3/s}\n"
        "  - {match: {k: foo, l: x}, rate: 4/s}\n"
        "  - {match: {k: ba*ab}, rate: 5/s}\n"
        "  - {match: {l: y}, rate: 6/s}\n");
    static const struct {
        const char *k, *l;
        uint64_t count;
    } cases[] = {
        {"foo", "x", 4},  {"foo", "z", 2}, {"foobar", "x", 2}, {"fob", "x", 3},  {"fooob", "x", 2}, {"bab", "x", 1},
        {"baab", "x", 5}, {"bab", "y", 6}, {"baab", "y", 5},   {"foo*", "x", 2}, {"", "x", 1},      {"", "y", 6},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct asked asked;
        ask(&asked, "GET", "/");
        add_attribute(&asked, "k", cases[i].k);
        add_attribute(&asked, "l", cases[i].l);
        const struct cdl_plan *plan = match(policy, &asked);
        assert_int_equal(plan->count, 1);
        if (policy->rates[plan->charges[0].rate].limit.count != cases[i].count)
            fail_msg("k=%s l=%s", cases[i].k, cases[i].l);
    }
    cdl_policy_free(policy);
}

static void overrides_by_address_and_path(void **state)
{
    (void)state;
    struct cdl_policy *policy = load("limits:\n- name: a\n  rate: 1/s\n  per: [client_ip, path]\n  overrides:\n"
                                     "  - {match: {client_ip: 203.0.113.0/24, path: /v1/*}, rate: 2/s}\n"
                                     "  - {match: {client_ip: 203.0.113.7, path: /v2}, rate: 3/s}\n");
    struct asked asked;
    ask(&asked, "GET", "/v1/a");
    assert_int_equal(match(policy, &asked)->charges[0].override, 0);
    ask(&asked, "GET", "/v2");
    assert_int_equal(match(policy, &asked)->charges[0].override, 1);
    ask(&asked, "GET", "/v3");
    assert_int_equal(match(policy, &asked)->charges[0].override, CDL_NONE);
    cdl_policy_free(policy);
}

static void C59_keys_do_not_collide(void **state)
{
    (void)state;
    struct cdl_policy *policy = load("limits: [{name: a, rate: 1/s, per: [k, l], if_missing: x}]\n");
    static const char *const values[] = {"a",   "b",         "a,1:b", "1:a,1:b,", ":",  ",",
                                         "{a}", "a\xc3\xa9", "1:",    "a b",      "\n", "%"};
    enum {
        COUNT = sizeof values / sizeof values[0]
    };
    char keys[COUNT * COUNT][64];
    size_t lengths[COUNT * COUNT];
    for (size_t i = 0; i < COUNT * COUNT; i++) {
        struct asked asked;
        ask(&asked, "GET", "/");
        add_attribute(&asked, "k", values[i / COUNT]);
        add_attribute(&asked, "l", values[i % COUNT]);
        struct cdl_slice key = match(policy, &asked)->charges[0].key;
        memcpy(keys[i], key.bytes, key.length);
        lengths[i] = key.length;
        for (size_t j = 0; j < i; j++)
            assert_false(lengths[j] == key.length && memcmp(keys[j], key.bytes, key.length) == 0);
    }
    cdl_policy_free(policy);
}

static void C75_odd_and_long_keys(void **state)
{
    (void)state;
    struct cdl_policy *policy = load(
        "limits: [{name: a, rate: 1/s, per: k, if_missing: skip}, {name: b, rate: 2/s, per: k, if_missing: skip}]\n");
    struct asked asked;
    ask(&asked, "GET", "/");
    add_attribute(&asked, "k", "");
    asked.attributes[0].value = (struct cdl_slice){"a\0b", 3};
    struct cdl_slice key = match(policy, &asked)->charges[0].key;
    assert_int_equal(key.length, 6);
    assert_memory_equal(key.bytes, "3:a\0b,", 6);

    static char value[CAUDAL_KEY_MAX + 1];
    memset(value, 'x', sizeof value);
    asked.attributes[0].value = (struct cdl_slice){value, CAUDAL_KEY_MAX - 7};
    const struct cdl_plan *plan = match(policy, &asked);
    assert_int_equal(plan->count, 2);
    assert_int_equal(plan->charges[0].key.length, CAUDAL_KEY_MAX);
    assert_ptr_equal(plan->charges[0].key.bytes, plan->charges[1].key.bytes); /* one copy serves both */
    asked.attributes[0].value.length++;
    assert_plan(policy, &asked, "too long a");

    /* Nor does too little scratch make a request unlimited. */
    struct cdl_plan small;
    asked.attributes[0].value = (struct cdl_slice){value, 100};
    for (size_t size = 0; size < 200; size++) {
        cdl_policy_match(policy, &asked.request, 1, scratch, size, &small);
        assert_int_equal(small.outcome, small.count == 2 ? CDL_OUTCOME_LIMITED : CDL_OUTCOME_TOO_LONG);
    }
    assert_int_equal(small.count, 2);
    cdl_policy_free(policy);
}

/* Conditions that need scratch for their values, too, are not just false when there is none. */
static void too_little_scratch_is_refused_in_conditions_too(void **state)
{
    (void)state;
    struct cdl_policy *policy = load("limits: [{name: a, rate: 1/s, when: {query.q: 'a b'}}]\n");
    struct asked asked;
    struct cdl_plan plan;
    ask(&asked, "GET", "/");
    asked.request.query = CDL_SLICE("q=a+b");
    cdl_policy_match(policy, &asked.request, 1, scratch, 12, &plan);
    assert_int_equal(plan.outcome, CDL_OUTCOME_TOO_LONG);
    cdl_policy_free(policy);
}

static void more_limits_than_a_plan_holds(void **state)
{
    (void)state;
    char text[8192] = "limits:\n";
    for (int i = 0; i < 65; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "- {name: l%d, rate: 1/s, when: {path: %s}}\n", i,
                 i == 64 ? "/a/b" : "/a/*");
    struct cdl_policy *policy = load(text);
    struct asked asked;
    ask(&asked, "GET", "/a/c");
    assert_int_equal(match(policy, &asked)->count, 64);
    ask(&asked, "GET", "/a/b");
    assert_plan(policy, &asked, "too many");
    cdl_policy_free(policy);
}

static void the_first_limit_that_refuses_is_named(void **state)
{
    (void)state;
    struct cdl_policy *policy = load("limits:\n- {name: s, rate: 1/s, per: k, mode: shadow}\n"
                                     "- {name: b, rate: 1/s, per: k, when: {path: /a}}\n"
                                     "- {name: a, rate: 1/s, per: k, when: {path: /a/*}}\n");
    struct asked asked;
    ask(&asked, "GET", "/a");
    assert_plan(policy, &asked, "missing b");
    assert_int_equal(match(policy, &asked)->shadow_refusals, 1);
    cdl_policy_free(policy);
}

/* ---------------------------------------------------------------------------------------------------------- the index */

static bool count_candidate(void *context, uint32_t rule)
{
    (void)rule;
    ++*(size_t *)context;
    return true;
}

static size_t candidates(const struct cdl_policy *policy, const struct asked *asked)
{
    struct cdl_writer writer = cdl_writer_on(scratch, sizeof scratch);
    struct cdl_view view;
    size_t count = 0;
    cdl_view_open(&view, policy, &asked->request, &writer);
    cdl_index_candidates(policy->limit_index, &view, count_candidate, &count);
    return count;
}

/* Limits that do not match are not looked at, however many they are and whatever it is that sets them apart. */
static void limits_that_do_not_match_cost_nothing(void **state)
{
    (void)state;
    static const char *const forms[] = {
        "when: {path: /p%u}",
        "when: {path: /v1/all/p%u/*}",
        "when: {method: GET, path: /p%u, header.x-plan: gold}",
        "when: {host: h%u.example.org}",
        "when: {tenant: t%u, path: /p/*}",
        "when: {method: GET, header.x-plan: p%u}",
        "when: {client_ip: 10.0.%u.0/32}",
        "per: ['/p%u/{id}']",
    };
    const unsigned count = 2000;
    char *text = malloc(count * 96);
    assert_non_null(text);
    for (size_t form = 0; form < sizeof forms / sizeof forms[0]; form++) {
        size_t length = (size_t)sprintf(text, "limits:\n- {name: all, rate: 1/s}\n");
        for (unsigned i = 0; i < (form == 6 ? 256 : count); i++) {
            length += (size_t)sprintf(text + length, "- {name: l%u, rate: 1/s, ", i);
            length += (size_t)snprintf(text + length, 64, forms[form], i); // NOLINT
            length += (size_t)sprintf(text + length, "}\n");
        }
        struct cdl_policy *policy = load(text);
        struct asked asked;
        ask(&asked, "GET", "/p77/x");
        add_header(&asked, "x-plan", "gold");
        add_attribute(&asked, "tenant", "t5");
        assert_true(candidates(policy, &asked) <= 2);
        cdl_policy_free(policy);
    }
    free(text);
}

static struct rng rng = {1};

static unsigned pick(unsigned count)
{
    return (unsigned)rng_below(&rng, count);
}

static const char *one_of(const char *const *list)
{
    unsigned count = 0;
    while (list[count] != NULL)
        count++;
    return list[pick(count)];
}

#define ONE_OF(...) one_of((const char *const[]){__VA_ARGS__, NULL})

static const char *random_path_pattern(void)
{
    return ONE_OF("/", "/*", "/a", "/a/*", "/a/b", "/a/*/c", "'/{x}/b'", "/a/b/*", "/b*", "/b*/c", "/b/c/d/e",
                  "'/a/{x}'");
}

static void write_random_rule(char *text, size_t size)
{
    size_t length = 0;
    text[0] = '\0';
#define WRITE(...) length += (size_t)snprintf(text + length, size - length, __VA_ARGS__)
    WRITE("{");
    if (pick(2) == 0)
        WRITE("path: [%s, %s], ", random_path_pattern(), random_path_pattern());
    if (pick(3) == 0)
        WRITE("path.2: %s, ", ONE_OF("b", "c", "'*'"));
    if (pick(3) == 0)
        WRITE("method: [%s, %s], ", ONE_OF("GET", "POST"), ONE_OF("PUT", "GET"));
    if (pick(4) == 0)
        WRITE("host: %s, ", ONE_OF("a.org", "b.org", "'*.org'", "[a.org, c.com]"));
    if (pick(3) == 0)
        WRITE("header.x: %s, ", ONE_OF("'1'", "'2'", "['1', '3']", "'*'", "1*"));
    if (pick(4) == 0)
        WRITE("tenant: %s, ", ONE_OF("'1'", "'2'", "t*"));
    if (pick(4) == 0)
        WRITE("client_ip: %s, ", ONE_OF("203.0.113.7", "203.0.113.0/24", "10.0.0.1"));
    if (length == 1)
        WRITE("query.q: %s", ONE_OF("'1'", "'2'", "'*'"));
    WRITE("}");
#undef WRITE
}

static struct cdl_policy *random_policy(void)
{
    static char text[65536];
    char rule[512];
    size_t length = 0;
#define WRITE(...) length += (size_t)snprintf(text + length, sizeof text - length, __VA_ARGS__)
    unsigned exemptions = pick(3);
    if (exemptions > 0)
        WRITE("exempt:\n");
    for (unsigned i = 0; i < exemptions; i++) {
        write_random_rule(rule, sizeof rule);
        WRITE("- %s\n", rule);
    }
    WRITE("limits:\n- {name: all, rate: 1/s}\n");
    for (unsigned i = 0, count = pick(60); i < count; i++) {
        write_random_rule(rule, sizeof rule);
        WRITE("- {name: l%u, rate: 1/s, when: %s, per: [%s, %s], if_missing: %s, mode: %s}\n", i, rule,
              ONE_OF("client_ip", "tenant"), ONE_OF("header.x", "path.1", "'/a/{id}'"),
              ONE_OF("deny", "skip", "fixed", "skip"), ONE_OF("enforce", "enforce", "shadow", "off"));
    }
#undef WRITE
    return load(text);
}

static void random_request(struct asked *asked)
{
    ask(asked, ONE_OF("GET", "PUT", "HEAD", ""),
        ONE_OF("/", "/a", "/a/b", "/a/b/c", "/a/x/c", "/b", "/bb/c", "/b/c/d/e", "/c/b", ""));
    asked->request.host = cdl_slice_of(ONE_OF("a.org", "b.org", "c.com", "x.a.org"));
    asked->request.query = cdl_slice_of(ONE_OF("q=1", "q=%32", "", "p=1"));
    for (unsigned i = pick(3); i > 0; i--)
        add_header(asked, ONE_OF("x", "X", "y"), ONE_OF("1", "2", "3", "12", ""));
    if (pick(2) == 0)
        add_attribute(asked, ONE_OF("tenant", "header.x", "path", "path.2"), ONE_OF("1", "2", "t5", "/a/b", ""));
    if (pick(4) == 0)
        asked->request.client = (struct cdl_address){.family = 0};
}

/* The same plan by asking every rule in turn: outcome, limit and charged limits, in words. */
static void scan(const struct cdl_policy *policy, const struct asked *asked, struct cdl_plan *plan)
{
    static char own[4096];
    struct cdl_writer writer = cdl_writer_on(own, sizeof own);
    struct cdl_view view;
    cdl_view_open(&view, policy, &asked->request, &writer);
    *plan = (struct cdl_plan){.exemption = CDL_NONE, .limit = CDL_NONE, .identity = CDL_NONE};
    for (uint32_t i = policy->exemption_count; i-- > 0;)
        if (cdl_rule_holds(&view, &policy->exemptions[i])) {
            plan->outcome = CDL_OUTCOME_EXEMPT;
            plan->exemption = i;
        }
    for (uint32_t i = 0; plan->exemption == CDL_NONE && i < policy->request_limit_count; i++) {
        const struct cdl_limit_rule *limit = &policy->limits[i];
        struct cdl_slice values[CDL_PER_MAX];
        uint32_t at_fault = 0;
        if (limit->mode == CDL_MODE_OFF || !cdl_limit_applies(&view, limit))
            continue;
        enum cdl_identified identified = cdl_limit_values(&view, limit, values, &at_fault);
        if (identified == CDL_IDENTIFIED) {
            plan->charges[plan->count++].limit = i;
        } else if (identified != CDL_IDENTITY_SKIPS && limit->mode == CDL_MODE_SHADOW) {
            plan->shadow_refusals++;
        } else if (identified != CDL_IDENTITY_SKIPS && plan->limit == CDL_NONE) {
            plan->outcome = identified == CDL_IDENTITY_MISSING ? CDL_OUTCOME_MISSING : CDL_OUTCOME_AMBIGUOUS;
            plan->limit = i;
            plan->identity = at_fault;
        }
    }
    assert_false(writer.overflow);
    if (plan->outcome != CDL_OUTCOME_LIMITED)
        plan->count = 0;
}

/* explain tells of each limit what matching does with it. */
static void assert_explained(const struct cdl_policy *policy, const struct asked *asked, const struct cdl_plan *plan)
{
    static char own[4096], words_buffer[4096];
    struct cdl_writer writer = cdl_writer_on(own, sizeof own);
    struct cdl_view view;
    size_t applied = 0;
    cdl_view_open(&view, policy, &asked->request, &writer);
    for (uint32_t i = 0; i < policy->request_limit_count; i++) {
        struct cdl_account account;
        struct cdl_writer said = cdl_writer_on(words_buffer, sizeof words_buffer);
        size_t before = writer.length;
        cdl_explain_limit(&view, i, CDL_COST_UNSAID, &account);
        cdl_explain_why(&view, i, &account, &said);
        assert_true(said.length > 0 && !said.overflow);
        if (account.kind == CDL_ACCOUNT_APPLIES && plan->outcome == CDL_OUTCOME_LIMITED) {
            const struct cdl_charge *charge = &plan->charges[applied];
            assert_int_equal(charge->limit, i);
            assert_int_equal(charge->rate, account.rate);
            assert_int_equal(charge->cost, account.cost);
            assert_true(cdl_slice_equal(charge->key, account.key));
            applied++;
        } else if (account.kind == CDL_ACCOUNT_REFUSES && policy->limits[i].mode == CDL_MODE_ENFORCE) {
            assert_int_not_equal(plan->outcome, CDL_OUTCOME_LIMITED);
        }
        writer.length = before;
    }
    assert_int_equal(applied, plan->count);
}

static void the_index_finds_what_a_scan_finds(void **state)
{
    (void)state;
    size_t outcomes[6] = {0};
    for (int i = 0; i < 300; i++) {
        struct cdl_policy *policy = random_policy();
        for (int j = 0; j < 60; j++) {
            struct asked asked;
            struct cdl_plan expected;
            random_request(&asked);
            scan(policy, &asked, &expected);
            const struct cdl_plan *got = match(policy, &asked);
            outcomes[got->outcome]++;
            assert_int_equal(got->outcome, expected.outcome);
            assert_int_equal(got->exemption, expected.exemption);
            assert_int_equal(got->limit, expected.limit);
            assert_int_equal(got->identity, expected.identity);
            assert_int_equal(got->shadow_refusals, expected.shadow_refusals);
            assert_int_equal(got->count, expected.count);
            for (size_t k = 0; k < got->count; k++)
                assert_int_equal(got->charges[k].limit, expected.charges[k].limit);
            assert_explained(policy, &asked, got);
        }
        cdl_policy_free(policy);
    }
    for (int i = 0; i <= CDL_OUTCOME_AMBIGUOUS; i++)
        assert_true(outcomes[i] > 100); /* the cases are not all of one kind */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_policy_of_the_readme),
        cmocka_unit_test(paths_match_segment_by_segment),
        cmocka_unit_test(conditions_hold_together),
        cmocka_unit_test(identities_are_found),
        cmocka_unit_test(C89_empty_identities_follow_if_missing),
        cmocka_unit_test(attributes_override),
        cmocka_unit_test(a_header_with_two_values_is_refused),
        cmocka_unit_test(costs),
        cmocka_unit_test(C56_precedence_of_overrides),
        cmocka_unit_test(overrides_by_address_and_path),
        cmocka_unit_test(C59_keys_do_not_collide),
        cmocka_unit_test(C75_odd_and_long_keys),
        cmocka_unit_test(too_little_scratch_is_refused_in_conditions_too),
        cmocka_unit_test(more_limits_than_a_plan_holds),
        cmocka_unit_test(the_first_limit_that_refuses_is_named),
        cmocka_unit_test(limits_that_do_not_match_cost_nothing),
        cmocka_unit_test(the_index_finds_what_a_scan_finds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
