/* Which limit a descriptor meets, what it costs there, and under which key it is counted. */
#include "caudal/key.h"
#include "domains.h"

/* ---------------------------------------------------------------------------------------------------------- matching */

static void an_unknown_domain_limits_nothing(void **state)
{
    (void)state;
    struct cdl_policy *policy = load_good("domain: d\ndescriptors: [{key: k, " RATE "}]\n");
    assert_string_equal(met(policy, "other", "k=v"), "free");
    assert_string_equal(met(policy, "d", "k=v"), "d/k 1:v,");
    assert_null(cdl_policy_domain(policy, CDL_SLICE("D")));
    assert_string_equal(cdl_domain_name(cdl_policy_domain(policy, CDL_SLICE("d"))).bytes, "d");
    cdl_policy_free(policy);
}

static void values_come_before_keys_at_every_depth(void **state)
{
    (void)state;
    static const struct expected cases[] = {
        {"key1=value1,sub=x", "d/key1=value1/sub 1:x,"},
        {"key1=value1,sub=y", "d/key1=value1/sub=y "},
        {"key1=other,sub=y", "free"},
        {"key1=value1", "free"}, /* no limit stands there */
        {"key2=x", "d/key2 1:x,"},
        {"key2=value2", "d/key2=value2 "},
        {"key2=value3", "free"}, /* named without a rate */
        {"key3=a", "d/key3 1:a,"},
        {"key3=a,sub=b", "d/key3/sub 1:a,1:b,"},
        {"key3=a,sub=b,more=c", "free"}, /* deeper than the files go */
        {"key2=x,sub=b", "free"},
        {"sub=b", "free"},
        {"", "free"},
        {"key1=", "free"},
        {"key2=", "d/key2 0:,"},
    };
    CHECK_MET("domain: d\n"
              "descriptors:\n"
              "  - key: key1\n"
              "    value: value1\n"
              "    descriptors:\n"
              "      - {key: sub, " RATE "}\n"
              "      - {key: sub, value: y, " RATE "}\n"
              "  - {key: key2, " RATE "}\n"
              "  - {key: key2, value: value2, " RATE "}\n"
              "  - {key: key2, value: value3}\n"
              "  - {key: key3, " RATE ", descriptors: [{key: sub, " RATE "}]}\n",
              cases);
}

static void C56_exact_then_wildcards_in_order_then_the_key(void **state)
{
    (void)state;
    static const char siblings[] = "domain: d\n"
                                   "descriptors:\n"
                                   "  - {key: k, " RATE "}\n"
                                   "  - {key: k, value: foo*, " RATE "}\n"
                                   "  - {key: k, value: fo*b, " RATE "}\n"
                                   "  - {key: k, value: foo, " RATE "}\n"
                                   "  - {key: k, value: ba*ab, share_threshold: true, " RATE "}\n"
                                   "  - key: top\n"
                                   "    descriptors:\n"
                                   "      - {key: k, value: fo*b, share_threshold: true, " RATE "}\n"
                                   "      - {key: k, value: foo*, " RATE "}\n"
                                   "      - {key: k, value: foo, " RATE "}\n"
                                   "      - {key: k, " RATE "}\n";
    static const struct expected cases[] = {
        {"k=foo", "d/k=foo "},
        {"k=foobar", "d/k=foo* 6:foobar,"},
        {"k=foob", "d/k=foo* 4:foob,"}, /* both match; the first one takes it */
        {"k=fob", "d/k=fo*b 3:fob,"},
        {"k=x", "d/k 1:x,"},
        {"k=foo*", "d/k=foo* 4:foo*,"},
        {"k=fo*b", "d/k=fo*b 4:fo*b,"},
        {"k=", "d/k 0:,"},
        {"k=bab", "d/k 3:bab,"}, /* its parts may not overlap */
        {"k=baab", "d/k=ba*ab "},
        {"k=ba-ab", "d/k=ba*ab "},
        {"top=t,k=foo", "d/top/k=foo 1:t,"},
        {"top=t,k=foob", "d/top/k=fo*b 1:t,"},
        {"top=t,k=foobar", "d/top/k=foo* 1:t,6:foobar,"},
        {"top=t,k=x", "d/top/k 1:t,1:x,"},
        {"top=t,k=", "d/top/k 1:t,0:,"},
    };
    CHECK_MET(siblings, cases);
}

static void wildcards_may_stand_anywhere(void **state)
{
    (void)state;
    static const struct expected cases[] = {
        {"w=abc", "d/w=a*c 3:abc,"},
        {"w=ac", "d/w=a*c 2:ac,"},
        {"w=/x/y/z", "d/w=%2Fx%2F*%2Fz 6:/x/y/z,"},
        {"w=one2three", "d/w=*2* 9:one2three,"},
        {"s=t-prod", "d/s=*prod 6:t-prod,"},
        {"w=b", "free"},
        {"star*=x", "d/star* 1:x,"},
        {"starry=x", "free"}, /* in a key it is a letter as any */
    };
    CHECK_MET("domain: d\n"
              "descriptors:\n"
              "  - {key: w, value: a*c, " RATE "}\n"
              "  - {key: w, value: /x/*/z, " RATE "}\n"
              "  - {key: w, value: '*2*', " RATE "}\n"
              "  - {key: s, value: '*prod', " RATE "}\n"
              "  - {key: 'star*', " RATE "}\n",
              cases);
}

static void values_above_a_shared_one_count_all_the_same(void **state)
{
    (void)state;
    static const struct expected cases[] = {
        {"path=path/1,file=file/a,type=t", "d/path=path%2F*/file=file%2F*/type 6:file/a,1:t,"},
        {"path=path/2,file=file/a,type=t", "d/path=path%2F*/file=file%2F*/type 6:file/a,1:t,"},
        {"user=user/1,resource=res/2,action=x", "d/user=user%2F*/resource=res%2F*/action 1:x,"},
        {"same=1,same=2", "d/same/same 1:1,1:2,"},
    };
    const char text[] = "domain: d\n"
                        "descriptors:\n"
                        "  - {key: path, value: path/*, share_threshold: true, descriptors: [\n"
                        "      {key: file, value: file/*, share_threshold: false, descriptors: [{key: type, " RATE
                        "}]}]}\n"
                        "  - {key: user, value: user/*, share_threshold: true, descriptors: [\n"
                        "      {key: resource, value: res/*, share_threshold: true, descriptors: [{key: action, " RATE
                        "}]}]}\n"
                        "  - {key: same, descriptors: [{key: same, " RATE "}]}\n";
    CHECK_MET(text, cases);
    struct cdl_policy *policy = load_good(text);
    assert_string_equal(limit_named(policy, "d/same/same")->per[1].text.bytes, "same#2");
    cdl_policy_free(policy);
}

/* Limits of several descriptors apply together; those that another replaces are left out, whichever comes first. */
static void a_limit_replaces_others_by_their_names(void **state)
{
    (void)state;
    struct cdl_policy *policy = load_good(
        "domain: d\n"
        "descriptors:\n"
        "  - {key: a, rate_limit: {name: a, unit: minute, requests_per_unit: 1}}\n"
        "  - {key: b, rate_limit: {name: b, unit: minute, requests_per_unit: 2, replaces: [{name: x}, {name: a}]}}\n"
        "  - {key: c, rate_limit: {unit: minute, requests_per_unit: 3, replaces: [{name: b}]}}\n"
        "  - {key: u, rate_limit: {unlimited: true, replaces: [{name: a}]}}\n"
        "  - {key: n, rate_limit: {unit: minute, requests_per_unit: 9}}\n");
    begin("d");
    ask_for("a=1");
    ask_for("b=2");
    ask_for("n=3");
    match(policy);
    assert_string_equal(outcome(policy, 0), "replaced");
    assert_string_equal(outcome(policy, 1), "d/b 1:2,");
    assert_string_equal(outcome(policy, 2), "d/n 1:3,");
    assert_int_equal(plan.count, 2);
    begin("d");
    ask_for("c=1"); /* b is replaced, and what it replaces is, too */
    ask_for("b=2");
    ask_for("a=3");
    match(policy);
    assert_int_equal(plan.count, 1);
    assert_string_equal(outcome(policy, 0), "d/c 1:1,");
    assert_string_equal(outcome(policy, 1), "replaced");
    assert_string_equal(outcome(policy, 2), "replaced");
    begin("d");
    ask_for("a=1");
    ask_for("u=2");
    match(policy);
    assert_int_equal(plan.count, 0);
    assert_string_equal(outcome(policy, 0), "replaced");
    assert_string_equal(outcome(policy, 1), "unlimited");
    assert_int_equal(results[1].limit, cdl_policy_find(policy, CDL_SLICE("d/u")));
    cdl_policy_free(policy);
}

static void hits_of_descriptors_and_of_the_request(void **state)
{
    (void)state;
    struct cdl_policy *policy = load_good("domain: d\ndescriptors: [{key: k, " RATE "}]\n");
    begin("d");
    ask_for("k=1");
    ask_for("k=2")->has_hits = true;
    struct cdl_descriptor *many = ask_for("k=3");
    many->has_hits = true;
    many->hits = UINT64_C(1) << 63;
    match(policy);
    assert_int_equal(plan.charges[0].cost, 1); /* nobody says anything */
    assert_int_equal(plan.charges[1].cost, 0); /* look only */
    assert_true(plan.charges[2].cost == UINT64_C(1) << 63);
    asked.request.hits = UINT32_MAX;
    match(policy);
    assert_int_equal(plan.charges[0].cost, UINT32_MAX);
    assert_int_equal(plan.charges[1].cost, 0);
    cdl_policy_free(policy);
}

/* ------------------------------------------------------------------------------------------- limits in the request */

static struct cdl_descriptor *ask_with_limit(const char *text, uint32_t requests, enum cdl_unit unit)
{
    struct cdl_descriptor *descriptor = ask_for(text);
    descriptor->has_limit = true;
    descriptor->requests_per_unit = requests;
    descriptor->unit = unit;
    return descriptor;
}

static void C60_a_limit_in_the_request_takes_the_place_of_the_files(void **state)
{
    (void)state;
    struct cdl_policy *policy = load_good("domain: d\ndescriptors: [{key: k, shadow_mode: true, " RATE "}]\n");
    begin("d");
    ask_with_limit("k=v", 5, CDL_UNIT_WEEK);
    ask_with_limit("no=rule,at=all", 0, CDL_UNIT_SECOND);
    match(policy);
    assert_string_equal(outcome(policy, 0), "d/#override 4:WEEK,1:k,1:v,");
    assert_string_equal(outcome(policy, 1), "d/#override 6:SECOND,2:no,4:rule,2:at,3:all,");
    const struct caudal_limit *week = &plan.charges[0].per_call, *none = &plan.charges[1].per_call;
    assert_true(week->algorithm == CAUDAL_FIXED_WINDOW && week->count == 5);
    assert_int_equal(week->period_ns, UINT64_C(604800000000000));
    assert_int_equal(none->count, 0);
    assert_int_equal(caudal_limit_check(week, NULL), CAUDAL_OK);
    assert_int_equal(policy->limits[plan.charges[0].limit].mode, CDL_MODE_ENFORCE);
    assert_true(policy->rates[plan.charges[0].rate].per_call);
    assert_int_equal(policy->limits[plan.charges[0].limit].kind, CDL_RULE_PER_CALL);
    /* More requests in the same unit: the same count goes on. */
    begin("d");
    ask_with_limit("k=v", UINT32_MAX, CDL_UNIT_WEEK);
    match(policy);
    assert_string_equal(outcome(policy, 0), "d/#override 4:WEEK,1:k,1:v,");
    /* What no store can count is counted as what it can. */
    begin("d");
    ask_with_limit("k=v", UINT32_MAX, CDL_UNIT_SECOND);
    match(policy);
    assert_int_equal(caudal_limit_check(&plan.charges[0].per_call, NULL), CAUDAL_OK);
    /* Of a domain that there is. */
    begin("nowhere");
    ask_with_limit("k=v", 5, CDL_UNIT_WEEK);
    match(policy);
    assert_string_equal(outcome(policy, 0), "free");
    cdl_policy_free(policy);
}

/* ------------------------------------------------------------------------------------------------------------- keys */

static void C59_the_same_text_from_other_parts_is_another_key(void **state)
{
    (void)state;
    struct cdl_policy *policy = load_good("domain: basic\n"
                                          "descriptors:\n"
                                          "  - {key: key1, " RATE "}\n"
                                          "  - {key: key1_local, " RATE "}\n"
                                          "  - {key: a, value: b, descriptors: [{key: c, " RATE "}], " RATE "}\n"
                                          "  - {key: a_b, " RATE "}\n"
                                          "  - {key: a, " RATE "}\n"
                                          "  - {key: a/b, " RATE "}\n"
                                          "  - {key: 'a=b/c', " RATE "}\n"
                                          "  - {key: \"q\\\"\\\\ %\\x01\\u00e9#\", " RATE "}\n");
    assert_string_equal(met(policy, "basic", "key1=local"), "basic/key1 5:local,");
    assert_string_equal(met(policy, "basic", "key1_local="), "basic/key1_local 0:,");
    assert_string_equal(met(policy, "basic", "a=b_c"), "basic/a 3:b_c,");
    assert_string_equal(met(policy, "basic", "a_b=c"), "basic/a_b 1:c,");
    assert_string_equal(met(policy, "basic", "a=b,c=x"), "basic/a=b/c 1:x,");
    assert_string_equal(met(policy, "basic", "a=b"), "basic/a=b ");
    limit_named(policy, "basic/a%2Fb");
    limit_named(policy, "basic/a%3Db%2Fc");
    limit_named(policy, "basic/q%22%5C%20%25%01%C3%A9%23");
    /* At one instant, by the second and by the minute. */
    begin("basic");
    ask_with_limit("a=b", 5, CDL_UNIT_SECOND);
    ask_with_limit("a=b", 5, CDL_UNIT_MINUTE);
    match(policy);
    assert_false(cdl_slice_equal(plan.charges[0].key, plan.charges[1].key));
    cdl_policy_free(policy);
}

static void keys_are_those_of_their_values_in_order(void **state)
{
    (void)state;
    struct cdl_policy *policy = load_good("domain: d\n"
                                          "descriptors: [{key: a, descriptors: [{key: b, value: x, descriptors: [\n"
                                          "  {key: c, value: 'y*', descriptors: [{key: e, " RATE "}]}]}]}]\n");
    assert_string_equal(met(policy, "d", "a=1,b=x,c=y2,e="), "d/a/b=x/c=y*/e 1:1,2:y2,0:,");
    const struct cdl_limit_rule *limit = limit_named(policy, "d/a/b=x/c=y*/e");
    assert_int_equal(limit->per_count, 3);
    assert_string_equal(limit->per[0].name.bytes, "a");
    assert_string_equal(limit->per[1].name.bytes, "c");
    assert_string_equal(limit->per[2].name.bytes, "e");
    const struct cdl_slice values[] = {CDL_SLICE("1"), CDL_SLICE("y2"), CDL_SLICE("")};
    char key[64];
    size_t length;
    assert_int_equal(cdl_policy_key(values, 3, key, sizeof key, &length), CAUDAL_OK);
    assert_true(cdl_slice_equal(plan.charges[0].key, (struct cdl_slice){key, length}));
    cdl_policy_free(policy);
}

static void a_key_that_is_too_long_refuses(void **state)
{
    (void)state;
    struct cdl_policy *policy = load_good("domain: d\ndescriptors: [{key: k, " RATE
                                          "}, {key: s, shadow_mode: true, " RATE "}]\n");
    char *value = malloc(CAUDAL_KEY_MAX);
    assert_non_null(value);
    memset(value, 'x', CAUDAL_KEY_MAX);
    begin("d");
    ask_for("k=1");
    ask_for("k=2");
    asked.entries[1][0].value = (struct cdl_slice){value, CAUDAL_KEY_MAX};
    match(policy);
    assert_int_equal(plan.outcome, CDL_OUTCOME_TOO_LONG);
    assert_int_equal(plan.count, 0);
    assert_int_equal(plan.limit, cdl_policy_find(policy, CDL_SLICE("d/k")));
    assert_int_equal(results[0].charge, CDL_NONE);
    asked.entries[1][0].key = CDL_SLICE("s");
    match(policy);
    assert_int_equal(plan.outcome, CDL_OUTCOME_LIMITED); /* one that never refuses does not do so now */
    assert_int_equal(plan.count, 1);
    assert_int_equal(plan.shadow_refusals, 1);
    begin("d");
    ask_with_limit("k=v", 1, CDL_UNIT_DAY);
    asked.entries[0][0].value = (struct cdl_slice){value, CAUDAL_KEY_MAX};
    match(policy);
    assert_int_equal(plan.outcome, CDL_OUTCOME_TOO_LONG);
    free(value);
    cdl_policy_free(policy);
}

static void long_names_are_cut_and_stay_different(void **state)
{
    (void)state;
    char text[4096], value[301];
    memset(value, 'v', 300);
    value[300] = '\0';
    snprintf(text, sizeof text,
             "domain: d\ndescriptors: [{key: k, value: '%s1', " RATE "}, {key: k, value: '%s2', " RATE "}]\n", value,
             value);
    struct cdl_policy *policy = load_good(text);
    assert_int_equal(policy->limits[0].name.length, 255);
    assert_int_equal(policy->limits[1].name.length, 255);
    assert_false(cdl_slice_equal(policy->limits[0].name, policy->limits[1].name));
    assert_memory_equal(policy->limits[0].name.bytes, policy->limits[1].name.bytes, 222);
    struct cdl_policy *again = load_good(text);
    assert_string_equal(policy->limits[0].name.bytes, again->limits[0].name.bytes);
    cdl_policy_free(again);
    cdl_policy_free(policy);
}

/* A calendar's window is a part of the key, and ends when the calendar says so. */
static void C17_a_calendar_counts_its_own_windows(void **state)
{
    (void)state;
    struct cdl_policy *policy = load_good(
        "domain: d\n"
        "descriptors: [{key: k, rate_limit: {unit: month, requests_per_unit: 100, calendar: {zone: UTC}}}]\n");
    matched_at_ns = INT64_C(1767225600) * 1000000000; /* 2026-01-01 */
    assert_string_equal(met(policy, "d", "k=v"), "d/k 1:v,10:1767225600,");
    matched_at_ns += INT64_C(31) * 86400 * 1000000000 - 1;
    assert_string_equal(met(policy, "d", "k=v"), "d/k 1:v,10:1767225600,");
    assert_int_equal(plan.charges[0].ends_at_ns, INT64_C(1769904000) * 1000000000);
    assert_int_equal(plan.charges[0].per_call.count, 100);
    matched_at_ns++;
    assert_string_equal(met(policy, "d", "k=v"), "d/k 1:v,10:1769904000,");
    matched_at_ns = 0;
    cdl_policy_free(policy);
}

/* A decision is as cheap among a thousand siblings as alone: the ones that differ are not looked at. */
static void siblings_are_found_by_hash(void **state)
{
    (void)state;
    enum {
        COUNT = 5000
    };
    const size_t size = COUNT * 96;
    char *text = malloc(size);
    assert_non_null(text);
    size_t length = (size_t)snprintf(text, size, "domain: d\ndescriptors:\n");
    for (unsigned i = 0; i < COUNT; i++)
        length += (size_t)snprintf(text + length, size - length, "- {key: k, value: v%u, " RATE "}\n", i);
    struct cdl_policy *policy = load_good(text);
    for (unsigned i = 0; i < COUNT; i += 7) {
        char entry[32], expected[32];
        snprintf(entry, sizeof entry, "k=v%u", i);
        snprintf(expected, sizeof expected, "d/k=v%u ", i);
        assert_string_equal(met(policy, "d", entry), expected);
    }
    assert_string_equal(met(policy, "d", "k=v5000"), "free");
    free(text);
    cdl_policy_free(policy);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_unknown_domain_limits_nothing),
        cmocka_unit_test(values_come_before_keys_at_every_depth),
        cmocka_unit_test(C56_exact_then_wildcards_in_order_then_the_key),
        cmocka_unit_test(wildcards_may_stand_anywhere),
        cmocka_unit_test(values_above_a_shared_one_count_all_the_same),
        cmocka_unit_test(a_limit_replaces_others_by_their_names),
        cmocka_unit_test(hits_of_descriptors_and_of_the_request),
        cmocka_unit_test(C60_a_limit_in_the_request_takes_the_place_of_the_files),
        cmocka_unit_test(C59_the_same_text_from_other_parts_is_another_key),
        cmocka_unit_test(keys_are_those_of_their_values_in_order),
        cmocka_unit_test(a_key_that_is_too_long_refuses),
        cmocka_unit_test(long_names_are_cut_and_stay_different),
        cmocka_unit_test(C17_a_calendar_counts_its_own_windows),
        cmocka_unit_test(siblings_are_found_by_hash),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
