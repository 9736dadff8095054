/* The loader: what a policy says is what comes out, and all that is wrong is said at once, in these words, at these places. */
#include <stdlib.h>

#include "../support.h"
#include "policy/policy.h"
#include "policy/yaml.h"

static struct cdl_report report; /* large, so not on the stack */

static struct cdl_policy *load(const char *text)
{
    return cdl_policy_load_text("p", cdl_slice_of(text), NULL, &report);
}

/* All findings, a line each. */
static const char *findings(void)
{
    static char text[sizeof report];
    size_t length = 0;
    text[0] = '\0';
    for (size_t i = 0; i < report.count; i++) {
        char line[512];
        cdl_finding_format(&report.findings[i], "p", line, sizeof line);
        length += (size_t)snprintf(text + length, sizeof text - length, "%s\n", line);
    }
    return text;
}

static struct cdl_policy *load_good(const char *text)
{
    struct cdl_policy *policy = load(text);
    if (policy == NULL)
        fail_msg("%s\nin:\n%s", findings(), text);
    return policy;
}

#define LIMITS "limits:\n- {name: a, rate: 1/s}\n"
#define PROBES "exempt: [{path: /healthz}]\n"

struct bad {
    const char *text, *findings;
};

static void check_bad(const struct bad *cases, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct cdl_policy *policy = load(cases[i].text);
        if (policy != NULL || strcmp(findings(), cases[i].findings) != 0)
            fail_msg("for:\n%s\nexpected:\n%sgot:\n%s", cases[i].text, cases[i].findings, findings());
    }
}
#define CHECK_BAD(cases) check_bad(cases, COUNT_OF(cases))

static void refuses_what_is_no_policy(void **state)
{
    (void)state;
    static const struct bad cases[] = {
        {"", "p:1:1: the file is empty; a policy has at least one limit\n"},
        {"# only a comment\n", "p:1:1: the file is empty; a policy has at least one limit\n"},
        {"---\n", "p:1:1: the file is empty; a policy has at least one limit\n"},
        {"~\n", "p:1:1: the file is empty; a policy has at least one limit\n"},
        {"limits\n", "p:1:1: 'the policy': expected a map with keys such as 'identity', found 'limits'\n"},
        {"- a\n", "p:1:1: 'the policy': expected a map with keys such as 'identity', found a list\n"},
        {"{}\n", "p:1:1: 'the policy': expected a map with keys such as 'identity', found an empty map\n"},
        {"fields: none\n", "p:1:1: the policy has no 'limits'\n"},
        {"limits:\n", "p:1:8: 'limits': expected a list of limits, found nothing\n"},
        {"limits: []\n", "p:1:9: 'limits': expected a list of limits, found an empty list\n"},
        {"limits: {name: a}\n", "p:1:9: 'limits': expected a list of limits, found a map\n"},
        {"limits: [a]\n", "p:1:10: 'limits': expected a map with keys such as 'name', found 'a'\n"},
        {"limits: [{}]\n", "p:1:10: 'limits': expected a map with keys such as 'name', found an empty map\n"},
        {LIMITS "---\n" LIMITS, "p:3:1: a second document begins here; a policy is one\n"},
    };
    CHECK_BAD(cases);
}

static void refuses_what_is_no_yaml(void **state)
{
    (void)state;
    static const struct bad cases[] = {
        {"limits: [\n",
         "p:2:1: not YAML: did not find expected node content, while parsing a flow node (from line 2)\n"},
        {"limits:\n\t- a\n",
         "p:2:1: not YAML: found character that cannot start any token, while scanning for the next "
         "token (from line 2)\n"},
        {"a: b\nlimits: \xff\xfe\n", "p:2:9: not a text: invalid leading UTF-8 octet\n"},
        {"limits: [{name: a, rate: 1/s, per: [/users/{id}]}]\n",
         "p:1:44: not YAML: did not find expected ',' or ']', while parsing a flow sequence (from line 1)\n"},
        {"fields: \"a\\0b\"\n" LIMITS, "p:1:9: the text holds a NUL character\n"},
    };
    CHECK_BAD(cases);
}

#define BRACKETS "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[" /* thirty */

static void refuses_ways_to_blow_up(void **state)
{
    (void)state;
    static const struct bad cases[] = {
        {"log: &l {level: info}\n" LIMITS, "p:1:6: the anchor '&l' is not allowed in a policy; write values out\n"},
        {"limits:\n- &a {name: a, rate: 1/s}\n- *a\n",
         "p:2:3: the anchor '&a' is not allowed in a policy; write values out\n"
         "p:3:3: the alias '*a' is not allowed in a policy; write the value out (a word that begins with '*' stands in "
         "quotes)\n"},
        {"fields: !!str none\n" LIMITS,
         "p:1:9: the tag 'tag:yaml.org,2002:str' is not allowed in a policy; leave it out\n"},
        {"<<: {level: info}\n" LIMITS,
         "p:1:1: unknown key '<<' in the policy; expected identity, exempt, limits, fields, "
         "instances, listen, store, log, metrics, resp, envoy\n"},
        {"limits: " BRACKETS BRACKETS BRACKETS BRACKETS, "p:1:104: lists and maps are nested more than 96 deep\n"},
    };
    CHECK_BAD(cases);
}

static void unknown_and_repeated_keys(void **state)
{
    (void)state;
    static const struct bad cases[] = {
        {"limit:\n- {name: a, rate: 1/s}\n", "p:1:1: unknown key 'limit' in the policy; did you mean 'limits'?\n"},
        {LIMITS "colour: blue\n",
         "p:3:1: unknown key 'colour' in the policy; expected identity, exempt, limits, fields, "
         "instances, listen, store, log, metrics, resp, envoy\n"},
        {"limits:\n- {name: a, rate: 1/s, brust: 3}\n",
         "p:2:24: unknown key 'brust' in limits; did you mean 'burst'?\n"},
        {"limits:\n- {name: a, rate: 1/s, Rate: 2/s}\n",
         "p:2:24: unknown key 'Rate' in limits; did you mean 'rate'?\n"},
        {"listen: {http: ':1', htpt: ':2'}\n" LIMITS, "p:1:22: unknown key 'htpt' in listen; did you mean 'http'?\n"},
        {"limits:\n- name: a\n  rate: 1/s\n  name: b\n",
         "p:4:3: the key 'name' is given twice; first at line 2, column 3\n"},
        {"limits:\n- {name: a, rate: 1/s, when: {path: /a, path: /b}}\n",
         "p:2:41: the key 'path' is given twice; first at line 2, column 31\n"},
        {"limits:\n- {name: a, rate: 1/s}\n- {name: b, rate: 1/s}\n- {name: a, rate: 2/s}\n",
         "p:4:10: the limit name 'a' is used twice; first at line 2, column 10\n"},
        {LIMITS "? [x]\n: y\n", "p:3:3: expected a word as key, found a list\n"},
    };
    CHECK_BAD(cases);
}

static void C89_empty_maps_are_no_conditions(void **state)
{
    (void)state;
    static const struct bad cases[] = {
        {"identity:\n" LIMITS, "p:1:10: 'identity': expected a map with keys such as 'client_ip', found nothing\n"},
        {"identity:\n  client_ip:\n" LIMITS,
         "p:2:13: 'identity.client_ip': expected a map with keys such as 'header', found nothing\n"},
        {"identity:\n  client_ip: {header: }\n" LIMITS,
         "p:2:23: 'header': expected the name of a header, found nothing\n"},
        {"identity:\n  client_ip: {trusted_proxies: []}\n" LIMITS,
         "p:2:32: 'trusted_proxies': the list is empty; leave the key out or fill it\n"},
        {"identity:\n  client_ip: {trusted_proxies: [10.0.0.0/8], hops: 1}\n" LIMITS,
         "p:2:52: 'hops' and 'trusted_proxies' (line 2) are two answers to one question; keep one\n"},
        {"identity:\n  Client_IP: {hops: 1}\n" LIMITS,
         "p:2:3: unknown key 'Client_IP' in identity; did you mean 'client_ip'?\n"},
        {"exempt: [{}]\n" LIMITS, "p:1:10: 'exempt': expected conditions such as {path: /v1/*}, found an empty map\n"},
        {"exempt:\n-\n" LIMITS, "p:2:2: 'exempt': expected conditions such as {path: /v1/*}, found nothing\n"},
        {"exempt: [{path: }]\n" LIMITS, "p:1:17: 'path': expected a word or a list of words, found nothing\n"},
        {"limits:\n- name: a\n  rate: 1/s\n  when:\n  per: client_ip\n",
         "p:4:8: 'when': expected conditions such as {path: /v1/*}, found nothing\n"},
        {"limits:\n- name: a\n  rate: 1/s\n  per:\n",
         "p:4:7: 'per': expected a word or a list of words, found nothing\n"},
        {"limits:\n- name: a\n  rate: 1/s\n  per: ['']\n", "p:4:9: expected client_ip, header.NAME, cookie.NAME, "
                                                           "query.NAME, path, path.N, /a/{template}, method, host or "
                                                           "an attribute, found ''\n"},
        {"limits:\n- name: a\n  rate: 1/s\n  per: client_ip\n  if_missing: ''\n",
         "p:5:15: 'if_missing': expected deny, skip or a fixed value, found an empty text\n"},
    };
    CHECK_BAD(cases);
}

static void rates(void **state)
{
    (void)state;
    static const struct bad cases[] = {
        {"limits: [{name: a}]\n", "p:1:10: the limit has no 'rate'\n"},
        {"limits: [{rate: 1/s}]\n", "p:1:10: the limit has no 'name'\n"},
        {"limits: [{name: a, rate: 100}]\n",
         "p:1:29: 'rate': expected '/' or 'per' and a period, as in 100/minute, found the end of the text\n"},
        {"limits: [{name: a, rate: 100/fortnight}]\n",
         "p:1:30: 'rate': expected a period, such as 30s or minute, found 'fortnight'\n"},
        {"limits: [{name: a, rate: '100/fortnight'}]\n",
         "p:1:31: 'rate': expected a period, such as 30s or minute, found 'fortnight'\n"},
        {"limits: [{name: a, rate: 1/s burst 2, burst: 3}]\n",
         "p:1:46: 'burst': the rate '1/s burst 2' has a burst already; give one\n"},
        {"limits: [{name: a, rate: 1/s fixed_window, burst: 3}]\n",
         "p:1:51: 'burst': a burst of 3 on a fixed_window: only a token_bucket has one; leave it out\n"},
        {"limits: [{name: a, rate: unlimited, burst: 3}]\n", "p:1:44: 'burst': the rate 'unlimited' takes none\n"},
        {"limits: [{name: a, rate: 1/s, burst: 10 fixed_window}]\n",
         "p:1:38: 'burst': expected a whole number, found '10 fixed_window'\n"},
        {"limits: [{name: a, rate: 1/s, burst: -1}]\n", "p:1:38: 'burst': expected a whole number, found '-1'\n"},
        {"limits: [{name: a, rate: [1/s]}]\n", "p:1:26: 'rate': expected a rate such as 100/minute, found a list\n"},
        {"limits: [{name: 'a b', rate: 1/s}]\n",
         "p:1:17: 'name': 'a b' is not 1 to 100 letters, digits, '_', '-', '.' or ':', the first a letter, digit or "
         "'_'\n"},
    };
    CHECK_BAD(cases);
}

static void identities(void **state)
{
    (void)state;
#define PER(word) "limits: [{name: a, rate: 1/s, per: [" word "]}]\n"
    static const struct bad cases[] = {
        {PER("client-ip"),
         "p:1:37: 'client-ip' is not an identity; did you mean 'client_ip'? (attribute.client-ip if the "
         "caller sends it)\n"},
        {PER("headers.x-a"),
         "p:1:37: 'headers.x-a' is not an identity; did you mean 'header.x-a'? (attribute.headers.x-a "
         "if the caller sends it)\n"},
        {PER("header."), "p:1:37: 'header.' lacks a name after its '.'\n"},
        {PER("header.a b"), "p:1:37: 'header.a b' has a character that no such name has\n"},
        {PER("path.0"), "p:1:37: 'path.0' is not a segment of a path; write path.1 to path.32\n"},
        {PER("path.x"), "p:1:37: 'path.x' is not a segment of a path; write path.1 to path.32\n"},
        {PER("path.99999999999"), "p:1:37: 'path.99999999999' is not a segment of a path; write path.1 to path.32\n"},
        {PER("/users/id"), "p:1:37: '/users/id' names no segment; write one in braces, as in /users/{id}\n"},
        {PER("'/users/{id}.json'"), "p:1:37: '/users/{id}.json' has a brace; a {name} fills a whole segment\n"},
        {PER("tenant!"),
         "p:1:37: expected client_ip, header.NAME, cookie.NAME, query.NAME, path, path.N, /a/{template}, "
         "method, host or an attribute, found 'tenant!'\n"},
        {PER("tenant, attribute.tenant"), "p:1:45: 'per': 'attribute.tenant' is given twice\n"},
        {PER("header.X-A, header.x-a"), "p:1:49: 'per': 'header.x-a' is given twice\n"},
        {PER("a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q"), "p:1:36: 'per': 17 identities are more than 16\n"},
        {"limits: [{name: a, rate: 1/s, if_missing: skip}]\n", "p:1:43: 'if_missing' has a meaning only with 'per'\n"},
        {"limits: [{name: a, rate: 1/s, per: x, if_missing: Skip}]\n",
         "p:1:51: 'if_missing': expected deny, skip or a fixed value, found 'Skip'; as a value it stands in quotes\n"},
        {"limits: [{name: a, rate: 1/s, per: x, if_missing: allow}]\n",
         "p:1:51: 'if_missing': expected deny, skip or a fixed value, found 'allow'; as a value it stands in quotes\n"},
    };
    CHECK_BAD(cases);
}

static void conditions(void **state)
{
    (void)state;
#define WHEN(map) "limits: [{name: a, rate: 1/s, when: {" map "}}]\n"
    static const struct bad cases[] = {
        {WHEN("method: [GET, post]"), "p:1:52: 'post' is not a method: methods are in capitals, as in GET\n"},
        {WHEN("path: v1"), "p:1:44: 'v1' does not begin with '/'\n"},
        {WHEN("path: /v1/"), "p:1:44: '/v1/' ends in '/'; normalised paths do not\n"},
        {WHEN("path: /a//b"), "p:1:44: '/a//b' has an empty segment; write one '/' between segments and none at the "
                              "end\n"},
        {WHEN("path: /a/../b"), "p:1:44: '/a/../b' has a '.' or '..' segment, which no path has after normalisation\n"},
        {WHEN("path: /a/%2e%2E/b"),
         "p:1:44: '/a/%2e%2E/b' has a '.' or '..' segment, which no path has after normalisation\n"},
        {WHEN("path: /a/**"),
         "p:1:44: '/a/**' has '**'; a '*' at the end matches any rest, elsewhere it matches one segment\n"},
        {WHEN("path: /a?b=c"),
         "p:1:44: '/a?b=c' has a query or a fragment; a path pattern is only the path (use query.NAME "
         "for parameters)\n"},
        {WHEN("pth: /a"), "p:1:38: 'pth' is not an identity; did you mean 'path'? (attribute.pth if the caller sends "
                          "it)\n"},
        {WHEN("'/a/{b}': c"), "p:1:38: '/a/{b}' is a template; as a condition write path: and the pattern\n"},
        {WHEN("host: 'http://a'"), "p:1:44: 'http://a' is not a host: write it without scheme, port and path\n"},
        {WHEN("client_ip: 10.1.2.3/8"), "p:1:49: '10.1.2.3/8' has bits set after its prefix\n"},
        {WHEN("client_ip: '2001:db8::1'"), "p:1:49: '2001:db8::1' is finer than identity.client_ip.ipv6_prefix, 64\n"},
        {WHEN("header.x: a, header.X: b"), "p:1:51: 'header.x' is given twice; first at line 1\n"},
        {WHEN("header.x: {a: b}"), "p:1:48: 'header.x': expected a word or a list of words, found a map\n"},
        {WHEN("header.x: [[a]]"), "p:1:49: 'header.x': expected a value or a pattern, found a list\n"},
    };
    CHECK_BAD(cases);
}

static void costs_and_overrides(void **state)
{
    (void)state;
#define LIMIT(rest) "limits: [{name: a, rate: 9/s, per: x, " rest "}]\n"
    static const struct bad cases[] = {
        {LIMIT("cost: many"), "p:1:45: 'cost': expected a whole number from 0 to 1099511627776, found 'many'\n"},
        {LIMIT("cost: {header: x-c}"), "p:1:45: 'cost': 'header' needs 'max', or a client could name any cost\n"},
        {LIMIT("cost: {min: 5, max: 2, default: 5}"), "p:1:45: 'cost': 'min' 5 is above 'max' 2\n"},
        {LIMIT("cost: {max: 2, default: 5}"), "p:1:45: 'cost': 'default' 5 is above 'max' 2\n"},
        {LIMIT("cost: {maximum: 2}"), "p:1:46: unknown key 'maximum' in cost; expected header, default, min, max\n"},
        {LIMIT("overrides: [{match: {y: 1}, rate: 1/s}]"), "p:1:60: 'match': 'y' is not in 'per' of this limit\n"},
        {LIMIT("overrides: [{match: {x: 1}}]"), "p:1:51: the override has no 'rate'\n"},
        {LIMIT("overrides: [{rate: 1/s}]"), "p:1:51: the override has no 'match'\n"},
        {LIMIT("overrides: [{match: {}, rate: 1/s}]"),
         "p:1:59: 'match': expected values by identity, as in {header.x-api-key: partner-*}, found an empty map\n"},
        {LIMIT("overrides: [{match: {x: 1}, rate: 1/s}, {match: {x: 1}, rate: 2/s}]"),
         "p:1:87: 'match': these values have an override already, at line 1, column 51\n"},
        {"limits: [{name: a, rate: 1/s, overrides: [{match: {x: 1}, rate: 1/s}]}]\n",
         "p:1:42: 'overrides' go by the value of 'per', and this limit has none\n"},
        {LIMIT("on_store_failure: open"), "p:1:57: 'on_store_failure': expected allow, deny or local, found 'open'\n"},
        {LIMIT("local_share: 1/2"), "p:1:52: 'local_share' has a meaning only with 'on_store_failure: local' or "
                                    "'sharing: local'\n"},
        {LIMIT("on_store_failure: local, local_share: 0"),
         "p:1:77: 'local_share': expected a part above 0 and at most 1, as in 1/4, 25% or 0.25, found '0'\n"},
        {LIMIT("mode: dry-run"), "p:1:45: 'mode': expected enforce, shadow or off, found 'dry-run'\n"},
        {LIMIT("jitter: 5"), "p:1:47: 'jitter': expected a duration with its unit, as in 500ms, 2s or 1m, found '5'\n"},
        {LIMIT("jitter: 2h"), "p:1:47: 'jitter': '2h' is not from 0 to 1h\n"},
    };
    CHECK_BAD(cases);
}

static void sharing(void **state)
{
    (void)state;
    static const struct bad cases[] = {
        {LIMIT("sharing: lease"), "p:1:48: 'sharing': expected strict, leased or local, found 'lease'\n"},
        {LIMIT("lease: {ttl: 1s}"), "p:1:46: 'lease' has a meaning only with 'sharing: leased'\n"},
        {LIMIT("sharing: local, lease: {ttl: 1s}"), "p:1:62: 'lease' has a meaning only with 'sharing: leased'\n"},
        {LIMIT("sharing: leased, lease: 1s"), "p:1:63: 'lease': expected a map with keys such as 'ttl', found '1s'\n"},
        {LIMIT("sharing: leased, lease: {time: 1s}"),
         "p:1:64: unknown key 'time' in lease; expected ttl, max_share, strict_bound\n"},
        {LIMIT("sharing: leased, lease: {ttl: 999us}"), "p:1:69: 'ttl': '999us' is not from 1ms to 10s\n"},
        {LIMIT("sharing: leased, lease: {ttl: 10001ms}"), "p:1:69: 'ttl': '10001ms' is not from 1ms to 10s\n"},
        {LIMIT("sharing: leased, lease: {max_share: 0}"),
         "p:1:75: 'max_share': expected a part above 0 and at most 1, as in 1/4, 25% or 0.25, found '0'\n"},
        {LIMIT("sharing: leased, lease: {max_share: 1/1001}"), "p:1:63: 'max_share': 1/1001 is less than 1/1000\n"},
        {LIMIT("sharing: leased, lease: {strict_bound: yes}"),
         "p:1:78: 'strict_bound': expected false or true, found 'yes'\n"},
        {LIMIT("sharing: leased, lease: {strict_bound: true, ttl: 1s}"),
         "p:1:26: 'strict_bound' leaves nothing to spend: of a burst of 9, 9 come in within the lease's ttl and stay "
         "out "
         "of the store; raise 'burst' or lower 'ttl'\n"},
        {LIMIT("sharing: leased, lease: {strict_bound: true}, overrides: [{match: {x: 1}, rate: 9/s, burst: 1}]"),
         "p:1:97: 'strict_bound' leaves nothing to spend: of a burst of 1, 1 come in within the lease's ttl and stay "
         "out "
         "of the store; raise 'burst' or lower 'ttl'\n"},
    };
    CHECK_BAD(cases);
}

static void leases_come_out_as_they_are_written(void **state)
{
    (void)state;
    struct cdl_policy *policy = load_good("limits:\n"
                                          "- {name: a, rate: 9/s, burst: 3, sharing: leased, lease: {ttl: 250ms, "
                                          "max_share: 0.1255, strict_bound: false}}\n"
                                          "- {name: b, rate: 95/s, sharing: leased, lease: {strict_bound: true}}\n"
                                          "- {name: c, rate: 95/s fixed_window, sharing: leased, lease: {ttl: 10s, "
                                          "strict_bound: true}}\n"
                                          "- {name: d, rate: 9/s sliding_log, sharing: leased}\n"
                                          "- {name: e, rate: 9/s, sharing: local, local_share: 1/4}\n"
                                          "- {name: f, rate: 9/s}\n"
                                          "store: redis://h\n");
    const struct cdl_limit_rule *limits = policy->limits;
    const struct cdl_rate *rates = policy->rates;
    assert_int_equal(limits[0].lease.ttl_ns, 250000000);
    assert_int_equal(limits[0].lease.share_per_mille, 125);
    assert_false(limits[0].lease.strict_bound);
    assert_int_equal(cdl_rate_capacity(&limits[0], &rates[0].limit), 3);
    assert_int_equal(limits[1].lease.ttl_ns, 100000000);
    assert_int_equal(limits[1].lease.share_per_mille, 500);
    assert_int_equal(cdl_lease_reserve(&limits[1].lease, &rates[1].limit), 10); /* 9.5, rounded up */
    assert_int_equal(cdl_rate_capacity(&limits[1], &rates[1].limit), 85);
    assert_int_equal(cdl_rate_capacity(&limits[2], &rates[2].limit), 95);
    for (uint32_t i = 0; i < policy->limit_count; i++)
        assert_int_equal(cdl_rate_is_leased(&limits[i], &rates[i].limit), i < 3);
    assert_int_equal(limits[4].sharing, CDL_SHARING_LOCAL);
    assert_int_equal(limits[5].sharing, CDL_SHARING_STRICT);
    cdl_policy_free(policy);
}

static void server_settings(void **state)
{
    (void)state;
    static const struct bad cases[] = {
        {"listen: {drain: 5}\n" LIMITS,
         "p:1:17: 'drain': expected a duration with its unit, as in 500ms, 2s or 1m, found '5'\n"},
        {"listen: {drain: 5 parsecs}\n" LIMITS,
         "p:1:17: 'drain': expected a duration with its unit, as in 500ms, 2s or 1m, found '5 parsecs'\n"},
        {"listen: {http: '8080'}\n" LIMITS,
         "p:1:16: 'http': '8080' has no port; write host:port, [v6]:port, :port or unix:/path\n"},
        {"listen: {http: '::1:8080'}\n" LIMITS,
         "p:1:16: 'http': '::1:8080' is ambiguous; an IPv6 address stands in brackets, as in [::1]:8080\n"},
        {"listen: {http: '[::1]:70000'}\n" LIMITS,
         "p:1:16: 'http': '[::1]:70000' needs a port from 0 to 65535 after its last ':'\n"},
        {"listen: {http: 'unix:relative'}\n" LIMITS,
         "p:1:16: 'http': 'unix:relative' needs an absolute path after 'unix:'\n"},
        {"listen: {tls: {cert: a}}\n" LIMITS, "p:1:15: 'tls': 'cert' and 'key' come together; 'key' is missing\n"},
        {"listen: {caps: {header: 64}}\n" LIMITS,
         "p:1:25: 'header': expected a size with its unit, as in 512B, 16KiB or 1MiB, found '64'\n"},
        {"listen: {caps: {header: 64MiB}}\n" LIMITS, "p:1:25: 'header': '64MiB' is not from 1KiB to 1MiB\n"},
        {"listen: {workers: 0}\n" LIMITS, "p:1:19: 'workers': expected a whole number from 1 to 256, found '0'\n"},
        {"store: redsi://user:secret@h\n" LIMITS, "p:1:8: 'store': 'redsi' is not the scheme of a store; expected "
                                                  "memory:, redis://, rediss://, redis-sentinel://, "
                                                  "redis-cluster:// or unix:\n"},
        {"log: {denied: 101%}\n" LIMITS,
         "p:1:15: 'denied': expected a part from none to all, as in 1/100, 1% or 0.01, found '101%'\n"},
        {"metrics: {override_values: 10001}\n" LIMITS,
         "p:1:28: 'override_values': expected a whole number from 0 to 10000, found '10001'\n"},
        {"log: {level: warning}\n" LIMITS, "p:1:14: 'level': expected debug, info, warn or error, found 'warning'\n"},
        {"fields: ietf-13\n" LIMITS, "p:1:9: 'fields': expected ietf-11, ietf-12, ietf-06, x-ratelimit-epoch, "
                                     "x-ratelimit-delta or none, found 'ietf-13'\n"},
        {"instances: -3\n" LIMITS, "p:1:12: 'instances': expected a whole number from 1 to 100000, found '-3'\n"},
    };
    CHECK_BAD(cases);
}

static void says_all_at_once_and_counts_beyond(void **state)
{
    (void)state;
    char text[4096] = "limits:\n";
    for (int i = 0; i < 60; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "- {name: a%d, rate: x}\n", i);
    assert_null(load(text));
    assert_int_equal(report.errors, 60);
    assert_int_equal(report.count, CDL_FINDINGS_MAX);
    for (uint32_t i = 0; i < report.count; i++)
        assert_int_equal(report.findings[i].place.line, 2 + i);
}

static void C91_warnings(void **state)
{
    (void)state;
    static const struct bad cases[] = {
        {PROBES "limits:\n- {name: a, rate: 1/s, per: header.authorization}\n",
         "p:3:29: warning: 'a' counts only by what a client chooses: a new value each time is never limited; add a "
         "limit "
         "per client_ip, or one without 'per'\n"},
        {PROBES "limits:\n- {name: a, rate: 1/s, per: header.authorization}\n- {name: b, rate: 9/s, per: client_ip}\n",
         ""},
        {PROBES "limits:\n- {name: a, rate: 1/s, per: header.authorization}\n"
                "- {name: b, rate: 9/s, per: client_ip, when: {path: /x}}\n",
         "p:3:29: warning: 'a' counts only by what a client chooses: a new value each time is never limited; add a "
         "limit "
         "per client_ip, or one without 'per'\n"},
        {PROBES "limits:\n- {name: a, rate: 1/s, per: header.authorization, when: {path: /x}}\n"
                "- {name: b, rate: 9/s, per: client_ip, when: {path: /x}}\n",
         ""},
        {"limits:\n- {name: a, rate: 1/s}\n",
         "p:2:10: warning: 'a' also counts health checks: no path is exempt; add exempt: "
         "[{path: /healthz}]\n"},
        {"limits:\n- {name: a, rate: 1/s, when: {path: /x}}\n", ""},
        {PROBES "limits:\n- {name: a, rate: 5/s fixed_window}\n",
         "p:3:19: warning: fixed_window admits up to 10 across an edge of two windows; token_bucket and sliding_log do "
         "not\n"},
        {PROBES "limits:\n- {name: a, rate: 5/s, cost: 6}\n",
         "p:3:19: warning: a request costs 6 and at most 5 can be taken at once: every one is refused\n"},
        {PROBES "store: redis://h\nlimits:\n- {name: a, rate: 5/s sliding_log, sharing: leased}\n",
         "p:4:19: warning: a sliding_log cannot be leased and stays strict: every decision in the store\n"},
        {PROBES "limits:\n- {name: a, rate: 5/s, sharing: leased}\n- {name: b, rate: 5/s, sharing: local}\n",
         "p:3:10: warning: 'sharing: leased' changes nothing with the store memory: it is asked at memory speed\n"},
        {PROBES
         "store: redis://h\nlimits:\n- {name: a, rate: 50/s, sharing: leased, lease: {strict_bound: true}, cost: 46}\n",
         "p:4:19: warning: a request costs 46 and at most 45 can be taken at once: every one is refused\n"},
        {"exempt: [{path: /healthz}, {header.x-skip: s3cret, path: /x}, {header.x: y, client_ip: 10.0.0.0/8}]\n" LIMITS,
         "p:1:28: warning: any client that sends this is exempt; add client_ip, or make it an override\n"},
        {PROBES "identity: {client_ip: {trusted_proxies: ['::/0']}}\n" LIMITS,
         "p:2:42: warning: '::/0' trusts everybody: each client can name any address as its own\n"},
        {PROBES "identity: {client_ip: {header: x-real-ip}}\n" LIMITS,
         "p:2:23: warning: the header 'x-real-ip' is never believed: no trusted_proxies and no hops are given\n"},
        {PROBES "limits:\n- {name: a, rate: 1/s}\n- {name: b, rate: 1/s, per: header.X-Forwarded-For}\n",
         "p:4:29: warning: clients can write 'header.x-forwarded-for' themselves; use client_ip with "
         "identity.client_ip "
         "set\n"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        cdl_policy_free(load_good(cases[i].text));
        assert_string_equal(findings(), cases[i].findings);
        assert_int_equal(report.errors, 0);
    }
}

static void values_come_out_as_they_are_written(void **state)
{
    (void)state;
    struct cdl_policy *policy = load_good("limits:\n"
                                          "- name: a\n"
                                          "  per: [header.X-Key, client_ip]\n"
                                          "  if_missing: nobody\n"
                                          "  rate: 10/minute\n"
                                          "  burst: 1_000\n"
                                          "  cost: {header: X-Cost, default: 2, max: 50}\n"
                                          "  overrides:\n"
                                          "  - {match: {header.x-key: p-*}, rate: 20/minute}\n"
                                          "  - {match: {client_ip: 10.0.0.1, header.x-key: k}, rate: 5/h}\n"
                                          "  on_store_failure: local\n"
                                          "  local_share: 25%\n"
                                          "  mode: shadow\n"
                                          "  jitter: 1500ms\n"
                                          "listen: {http: ['[::1]:0', 'unix:/run/x'], admin: none, drain: 1m}\n"
                                          "store: redis://h\n"
                                          "log: {denied: 0.015}\n"
                                          "metrics: {descriptor_values: 0, override_values: 10000}\n"
                                          "fields: x-ratelimit-delta\n");
    const struct cdl_limit_rule *limit = &policy->limits[0];
    assert_string_equal(limit->per[0].text.bytes, "header.x-key");
    assert_string_equal(limit->missing_value.bytes, "nobody");
    assert_int_equal(policy->rates[limit->rate].limit.burst, 1000);
    assert_string_equal(limit->cost.header.bytes, "x-cost");
    assert_int_equal(limit->cost.standard, 2);
    assert_int_equal(limit->cost.min, 1);
    assert_int_equal(limit->override_count, 2);
    assert_false(limit->overrides[0].exact);
    assert_true(limit->overrides[1].exact);
    assert_string_equal(policy->rates[1].name.bytes, "a{header.x-key=p-*}");
    assert_string_equal(policy->rates[2].name.bytes, "a{header.x-key=k,client_ip=10.0.0.1}");
    assert_int_equal(limit->on_store_failure, CDL_FAILURE_LOCAL);
    assert_int_equal(limit->local_share.numerator * 4, limit->local_share.denominator);
    assert_int_equal(limit->mode, CDL_MODE_SHADOW);
    assert_int_equal(limit->jitter_ns, 1500000000);
    assert_int_equal(policy->listen.http.count, 2);
    assert_true(policy->listen.http.items[1].is_unix);
    assert_int_equal(policy->listen.admin.count, 0);
    assert_int_equal(policy->listen.drain_ns, INT64_C(60000000000));
    assert_int_equal(policy->listen.idle_timeout_ns, INT64_C(60000000000));
    assert_string_equal(policy->store.url.bytes, "redis://h");
    assert_int_equal(policy->log.denied.numerator * 200, policy->log.denied.denominator * 3);
    assert_int_equal(policy->metrics.descriptor_values, 0);
    assert_int_equal(policy->metrics.override_values, 10000);
    assert_int_equal(policy->fields, CDL_FIELDS_X_RATELIMIT_DELTA);
    assert_int_equal(cdl_policy_find(policy, CDL_SLICE("a")), 0);
    assert_int_equal(cdl_policy_find(policy, CDL_SLICE("b")), CDL_NONE);
    cdl_policy_free(policy);
}

static void the_hash_tells_texts_apart(void **state)
{
    (void)state;
    struct cdl_policy *a = load_good(LIMITS), *b = load_good(LIMITS), *c = load_good(LIMITS "# c\n");
    assert_int_equal(a->hash, b->hash);
    assert_int_not_equal(a->hash, c->hash);
    cdl_policy_free(a);
    cdl_policy_free(b);
    cdl_policy_free(c);
}

/* Names of overrides in the store must differ where the overrides do, whatever their values hold. */
static void C59_names_of_overrides_do_not_collide(void **state)
{
    (void)state;
    struct cdl_policy *policy = load_good(
        "limits:\n- {name: a, rate: 1/s, per: [x, y], overrides: [{match: {x: 'b,y=c'}, rate: 1/s}, "
        "{match: {x: b, y: c}, rate: 1/s}, {match: {x: 'b}', y: c}, rate: 1/s}]}\n");
    assert_string_equal(policy->rates[1].name.bytes, "a{x=b%2Cy%3Dc}");
    assert_string_equal(policy->rates[2].name.bytes, "a{x=b,y=c}");
    assert_string_equal(policy->rates[3].name.bytes, "a{x=b%7D,y=c}");
    cdl_policy_free(policy);
}

static void C66_files_that_cannot_be_read(void **state)
{
    (void)state;
    assert_null(cdl_policy_load_file("/nonexistent/policy.yaml", NULL, &report));
    assert_int_equal(report.errors, 1);
    assert_string_equal(findings(), "p: cannot be read: No such file or directory\n");
    assert_null(cdl_policy_load_file("/proc/self/fd", NULL, &report));
    assert_string_equal(findings(), "p: the folder '/proc/self/fd' has no *.yaml and no *.yml\n");
    assert_null(cdl_policy_load_file("/dev/zero", NULL, &report));
    assert_string_equal(findings(), "p: the file is longer than 16 MiB; split the policy\n");
}

static char *many_limits(unsigned count)
{
    size_t size = count * 64 + 64, length = 0;
    char *text = malloc(size);
    assert_non_null(text);
    length += (size_t)snprintf(text, size, "limits:\n");
    for (unsigned i = 0; i < count; i++)
        length += (size_t)snprintf(text + length, size - length, "- {name: l%u, rate: 1/s, when: {path: /p%u}}\n", i,
                                   i);
    return text;
}

static void sizes_are_bounded(void **state)
{
    (void)state;
    char *most = many_limits(CDL_POLICY_LIMITS_MAX), *more = many_limits(CDL_POLICY_LIMITS_MAX + 1);
    cdl_policy_free(load_good(most));
    assert_null(load(more));
    assert_string_equal(findings(),
                        "p:2:1: 20001 limits with 0 overrides are too many: at most 20000 limits, and 64000 of "
                        "both\n");
    free(most);
    free(more);
    char text[8192] = "limits:\n";
    for (int i = 0; i < 65; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "- {name: a%d, rate: 1/s}\n", i);
    assert_null(load(text));
    assert_string_equal(findings(), "p:66:10: more than 64 limits apply to every request; give some a 'when'\n");
}

/* --------------------------------------------------------------------------------------------------------------- resp */

static void redis_clients_have_commands_and_users(void **state)
{
    (void)state;
    struct cdl_policy *policy = load_good(LIMITS "listen: {resp: none}\n"
                                                 "resp:\n"
                                                 "  commands: [gcra, throttle]\n"
                                                 "  on_store_failure: deny\n"
                                                 "  users:\n"
                                                 "  - {name: default, password_file: /a}\n"
                                                 "  - {name: looker, password_file: /b, may: [peek, explain]}\n");
    assert_int_equal(policy->listen.resp.count, 0);
    assert_int_equal(policy->listen.grpc.count, 1);
    assert_false(policy->resp.cl_throttle);
    assert_true(policy->resp.throttle && policy->resp.gcra);
    assert_int_equal(policy->resp.user_count, 2);
    assert_string_equal(policy->resp.users[0].name.bytes, "default");
    assert_int_equal(policy->resp.users[0].rights, CDL_RESP_ALL);
    assert_string_equal(policy->resp.users[1].password_file.bytes, "/b");
    assert_int_equal(policy->resp.users[1].rights, CDL_RESP_PEEK | CDL_RESP_EXPLAIN);
    const struct cdl_limit_rule *per_call = &policy->limits[policy->resp.limit];
    assert_int_equal(per_call->kind, CDL_RULE_PER_CALL);
    assert_int_equal(per_call->on_store_failure, CDL_FAILURE_DENY);
    assert_true(policy->rates[per_call->rate].per_call);
    assert_int_equal(policy->rates[per_call->rate].limit_index, policy->resp.limit);
    assert_int_equal(cdl_policy_find(policy, per_call->name), CDL_NONE);
    assert_int_equal(cdl_policy_named_limits(policy), policy->request_limit_count);
    cdl_policy_free(policy);
    policy = load_good(LIMITS "resp: {commands: none}\n");
    assert_false(policy->resp.cl_throttle || policy->resp.throttle || policy->resp.gcra);
    cdl_policy_free(policy);
    policy = load_good(LIMITS);
    assert_true(policy->resp.cl_throttle && !policy->resp.throttle && !policy->resp.gcra);
    cdl_policy_free(policy);
}

static void limits_may_all_come_with_commands(void **state)
{
    (void)state;
    struct cdl_policy *policy = load_good("resp: {commands: cl.throttle}\n");
    assert_int_equal(policy->request_limit_count, 0);
    assert_int_equal(cdl_policy_named_limits(policy), 0);
    assert_true(policy->rates[policy->limits[policy->resp.limit].rate].per_call);
    cdl_policy_free(policy);
}

static void what_is_wrong_with_redis_clients_is_said(void **state)
{
    (void)state;
    assert_null(load(LIMITS "resp:\n"
                            "  commands: [incr]\n"
                            "  users:\n"
                            "  - {name: a}\n"
                            "  - {password_file: /b, may: [fly]}\n"
                            "  - {name: a, password_file: /c}\n"));
    const char *said = findings();
    assert_non_null(strstr(said, "'commands': expected cl.throttle, throttle or gcra"));
    assert_non_null(strstr(said, "the user has no 'password_file'"));
    assert_non_null(strstr(said, "the user has no 'name'"));
    assert_non_null(strstr(said, "'may': expected throttle, take, peek, refund, reset or explain"));
    assert_non_null(strstr(said, "the user 'a' is there twice"));
    assert_null(load(LIMITS "resp: {users: []}\n"));
    assert_non_null(strstr(findings(), "'users': expected a list"));
}

/* --------------------------------------------------------------------------------------- the manual, and short memory */

/* Appends a file to a text of at most 64 KiB. */
static void append_file(char *text, const char *path)
{
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    assert_true(fread(text + strlen(text), 1, 65535 - strlen(text), file) > 0);
    fclose(file);
}

static char *manual(void)
{
    char *text = calloc(1, 65536);
    assert_non_null(text);
    append_file(text, EXAMPLES_DIR "/policy.yaml");
    return text;
}

static void look_for_key(void *context, const char *map, const char *key)
{
    const char *text = context;
    size_t length = strlen(key);
    for (const char *at = text; (at = strstr(at, key)) != NULL; at++)
        if (at[length] == ':' && (at == text || strchr(" {#", at[-1]) != NULL || at[-1] == '\n'))
            return;
    fail_msg("neither examples/policy.yaml nor examples/ratelimit shows '%s' of %s", key, map);
}

static void the_manual_loads_and_names_every_key(void **state)
{
    (void)state;
    char *text = manual();
    cdl_policy_free(load_good(text));
    assert_string_equal(findings(), "");
    append_file(text, EXAMPLES_DIR "/ratelimit/shop.yaml");
    cdl_policy_each_key(look_for_key, text);
    free(text);
}

/* What it says are defaults are the defaults. */
static void the_manual_states_the_defaults(void **state)
{
    (void)state;
    char *text = manual();
    struct cdl_policy *said = load_good(text), *real = load_good(LIMITS);
    assert_int_equal(said->client.ipv6_prefix, real->client.ipv6_prefix);
    assert_int_equal(said->fields, real->fields);
    assert_int_equal(said->instances, real->instances);
    assert_string_equal(said->listen.http.texts[0].bytes, real->listen.http.texts[0].bytes);
    assert_memory_equal(&said->listen.http.items[0].port, &real->listen.http.items[0].port, 2);
    assert_string_equal(said->listen.admin.texts[0].bytes, real->listen.admin.texts[0].bytes);
    assert_string_equal(said->listen.resp.texts[0].bytes, real->listen.resp.texts[0].bytes);
    assert_memory_equal(&said->listen.resp.items[0].port, &real->listen.resp.items[0].port, 2);
    assert_string_equal(said->listen.grpc.texts[0].bytes, real->listen.grpc.texts[0].bytes);
    assert_memory_equal(&said->listen.grpc.items[0].port, &real->listen.grpc.items[0].port, 2);
    assert_int_equal(said->limits[said->resp.limit].on_store_failure, real->limits[real->resp.limit].on_store_failure);
    assert_int_equal(said->listen.workers, real->listen.workers);
    assert_int_equal(said->listen.drain_ns, real->listen.drain_ns);
    assert_int_equal(said->listen.header_timeout_ns, real->listen.header_timeout_ns);
    assert_int_equal(said->listen.body_timeout_ns, real->listen.body_timeout_ns);
    assert_int_equal(said->listen.idle_timeout_ns, real->listen.idle_timeout_ns);
    assert_int_equal(said->listen.write_timeout_ns, real->listen.write_timeout_ns);
    assert_int_equal(said->listen.connections_max, real->listen.connections_max);
    assert_int_equal(said->listen.header_bytes_max, real->listen.header_bytes_max);
    assert_int_equal(said->listen.body_bytes_max, real->listen.body_bytes_max);
    assert_int_equal(said->store.deadline_ns, 15 * MILLISECOND);
    assert_int_equal(real->store.deadline_ns, 0); /* the URL's, or the store's: the same 15 ms */
    assert_int_equal(said->log.format, real->log.format);
    assert_int_equal(said->log.level, real->log.level);
    assert_int_equal(said->log.identities, real->log.identities);
    assert_int_equal(said->metrics.descriptor_values, real->metrics.descriptor_values);
    assert_int_equal(said->metrics.override_values, real->metrics.override_values);
    cdl_policy_free(said);
    cdl_policy_free(real);
    free(text);
}

static void short_memory_is_an_error_and_leaks_nothing(void **state)
{
    (void)state;
    char *text = manual();
    bool loaded = false;
    long failures = 0;
    while (!loaded) {
        struct counting_allocator counting;
        counting_allocator_init(&counting);
        counting.fail_at = failures;
        struct cdl_policy *policy = cdl_policy_load_text("p", cdl_slice_of(text), &counting.allocator, &report);
        loaded = policy != NULL;
        if (!loaded) {
            failures++;
            assert_string_equal(findings(), "p: memory is short\n");
        }
        cdl_policy_free(policy);
        assert_int_equal(counting.live_blocks, 0);
    }
    assert_true(failures >= 3);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refuses_what_is_no_policy),
        cmocka_unit_test(refuses_what_is_no_yaml),
        cmocka_unit_test(refuses_ways_to_blow_up),
        cmocka_unit_test(unknown_and_repeated_keys),
        cmocka_unit_test(C89_empty_maps_are_no_conditions),
        cmocka_unit_test(rates),
        cmocka_unit_test(identities),
        cmocka_unit_test(conditions),
        cmocka_unit_test(costs_and_overrides),
        cmocka_unit_test(sharing),
        cmocka_unit_test(leases_come_out_as_they_are_written),
        cmocka_unit_test(server_settings),
        cmocka_unit_test(says_all_at_once_and_counts_beyond),
        cmocka_unit_test(C91_warnings),
        cmocka_unit_test(values_come_out_as_they_are_written),
        cmocka_unit_test(the_hash_tells_texts_apart),
        cmocka_unit_test(C59_names_of_overrides_do_not_collide),
        cmocka_unit_test(C66_files_that_cannot_be_read),
        cmocka_unit_test(sizes_are_bounded),
        cmocka_unit_test(redis_clients_have_commands_and_users),
        cmocka_unit_test(limits_may_all_come_with_commands),
        cmocka_unit_test(what_is_wrong_with_redis_clients_is_said),
        cmocka_unit_test(the_manual_loads_and_names_every_key),
        cmocka_unit_test(the_manual_states_the_defaults),
        cmocka_unit_test(short_memory_is_an_error_and_leaks_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
