/* Descriptors of Envoy's rate limit service over a memory store on a fake clock: what is admitted, what is spent, what a reload keeps, and that
 * a key that is asked for by name is the one that a descriptor is counted under. */
#include "../policy/domains.h"
#include "limiter/limiter.h"
#include "store/store.h"

static char memory[CDL_MATCH_SCRATCH_BYTES];
static struct cdl_asker asker = {.scratch = memory};
static const struct cdl_answer *const answer = &asker.answer; /* to the last request */

struct bed {
    struct world world;
    struct cdl_limiter *limiter;
};

static int setup(void **state)
{
    static struct bed bed;
    world_open(&bed.world, "memory:?keys=10000");
    bed.limiter = cdl_limiter_open(bed.world.store);
    assert_non_null(bed.limiter);
    *state = &bed;
    return 0;
}

static int teardown(void **state)
{
    struct bed *bed = *state;
    cdl_limiter_close(bed->limiter);
    world_close(&bed->world);
    return 0;
}

static void apply(struct bed *bed, const char *text)
{
    struct caudal_problem problem;
    if (cdl_limiter_apply(bed->limiter, load_good(text), NULL, &problem) != CAUDAL_OK)
        fail_msg("%s", problem.message);
}

/* Asks what begin() and ask_for() have gathered. */
static enum cdl_answer_kind ask(struct bed *bed)
{
    struct cdl_live_policy *live = cdl_limiter_acquire(bed->limiter);
    const struct caudal_clock *clock = bed->world.store->clock;
    cdl_descriptors_match(live->policy, &asked.request, clock->realtime_ns(clock->context), memory, sizeof memory,
                          &asker.answer.plan, results);
    assert_int_equal(answer->plan.outcome, CDL_OUTCOME_LIMITED);
    assert_null(cdl_limiter_ask_plan(&asker, live, CDL_ASK_TAKE));
    cdl_limiter_release(live);
    return answer->kind;
}

static enum cdl_answer_kind ask_one(struct bed *bed, const char *descriptor)
{
    begin("d");
    ask_for(descriptor);
    return ask(bed);
}

static unsigned admitted(struct bed *bed, const char *descriptor, unsigned most)
{
    unsigned count = 0;
    for (unsigned i = 0; i < most; i++)
        count += ask_one(bed, descriptor) == CDL_ANSWER_ALLOWED;
    return count;
}

/* What a key of a limit has left; with `forget`, after it was reset. */
static uint64_t left_of(struct bed *bed, const char *limit, const struct cdl_slice *values, size_t count, bool forget)
{
    struct caudal_decision decision;
    struct cdl_live_policy *live = cdl_limiter_acquire(bed->limiter);
    const struct cdl_named_key key = {cdl_policy_find(live->policy, cdl_slice_of(limit)), values, count};
    assert_int_not_equal(key.limit, CDL_NONE);
    assert_int_equal(cdl_limiter_inspect(live, &key, forget, memory, &decision), CAUDAL_OK);
    cdl_limiter_release(live);
    return decision.remaining;
}

#define LIMIT(key, text) "  - {key: " key ", rate_limit: {" text "}}\n"
#define HEAD "domain: d\ndescriptors:\n"

static void calls_count_down_and_then_are_refused(void **state)
{
    struct bed *bed = *state;
    apply(bed, HEAD LIMIT("k", "unit: minute, requests_per_unit: 20"));
    for (uint64_t i = 0; i < 25; i++) {
        assert_int_equal(ask_one(bed, "k=v"), i < 20 ? CDL_ANSWER_ALLOWED : CDL_ANSWER_REFUSED);
        assert_int_equal(answer->overall.remaining, i < 20 ? 19 - i : 0);
    }
    assert_int_equal(ask_one(bed, "k=w"), CDL_ANSWER_ALLOWED); /* every value has its own */
    world_advance(&bed->world, INT64_C(60000000000));
    assert_int_equal(admitted(bed, "k=v", 25), 20);
}

static void C09_zero_refuses_the_first_call(void **state)
{
    struct bed *bed = *state;
    apply(bed, HEAD LIMIT("k", "unit: second, requests_per_unit: 0") LIMIT("u", "unlimited: true"));
    assert_int_equal(ask_one(bed, "k=v"), CDL_ANSWER_REFUSED);
    assert_int_equal(answer->overall.verdict, CAUDAL_NEVER);
    assert_int_equal(answer->overall.capacity, 0);
    assert_int_equal(answer->overall.remaining, 0);
    assert_int_equal(answer->overall.retry_after_ns, -1);
    assert_int_equal(ask_one(bed, "u=v"), CDL_ANSWER_ALLOWED);
    assert_int_equal(results[0].outcome, CDL_DESCRIPTOR_UNLIMITED);
}

static void descriptors_are_decided_together(void **state)
{
    struct bed *bed = *state;
    apply(bed, HEAD LIMIT("m", "unit: minute, requests_per_unit: 20") LIMIT("h", "unit: hour, requests_per_unit: 10"));
    unsigned passed = 0;
    for (unsigned i = 0; i < 25; i++) {
        begin("d");
        ask_for("m=1");
        ask_for("h=1");
        passed += ask(bed) == CDL_ANSWER_ALLOWED;
    }
    assert_int_equal(passed, 10);
    assert_int_equal(left_of(bed, "d/m", &CDL_SLICE("1"), 1, false), 10); /* refusals spent nothing */
    assert_int_equal(left_of(bed, "d/h", &CDL_SLICE("1"), 1, false), 0);
}

static void hits_are_spent_whole_or_not_at_all(void **state)
{
    struct bed *bed = *state;
    apply(bed, HEAD LIMIT("k", "unit: day, requests_per_unit: 10"));
    static const struct {
        uint64_t hits;
        enum cdl_answer_kind kind;
        uint64_t left;
    } steps[] = {{0, CDL_ANSWER_ALLOWED, 10},
                 {4, CDL_ANSWER_ALLOWED, 6},
                 {7, CDL_ANSWER_REFUSED, 6},
                 {UINT32_MAX, CDL_ANSWER_REFUSED, 6},
                 {UINT64_C(1) << 63, CDL_ANSWER_REFUSED, 6},
                 {UINT64_MAX, CDL_ANSWER_REFUSED, 6},
                 {6, CDL_ANSWER_ALLOWED, 0},
                 {0, CDL_ANSWER_ALLOWED, 0}};
    for (size_t i = 0; i < COUNT_OF(steps); i++) {
        begin("d");
        struct cdl_descriptor *descriptor = ask_for("k=v");
        descriptor->has_hits = true;
        descriptor->hits = steps[i].hits;
        assert_int_equal(ask(bed), steps[i].kind);
        assert_int_equal(left_of(bed, "d/k", &CDL_SLICE("v"), 1, false), steps[i].left);
    }
}

static void shadow_and_quota_are_counted_and_never_refuse(void **state)
{
    struct bed *bed = *state;
    apply(bed, HEAD "  - {key: s, shadow_mode: true, rate_limit: {unit: day, requests_per_unit: 2}}\n"
                    "  - {key: q, quota_mode: true, rate_limit: {unit: day, requests_per_unit: 1}}\n");
    for (unsigned i = 0; i < 4; i++) {
        begin("d");
        ask_for("s=1");
        ask_for("q=1");
        assert_int_equal(ask(bed), CDL_ANSWER_ALLOWED);
        assert_int_equal(answer->decisions[0].verdict == CAUDAL_ALLOW, i < 2);
        assert_int_equal(answer->decisions[1].verdict == CAUDAL_ALLOW, i < 1);
        assert_int_equal(answer->shadow_refusals, (i >= 2) + (i >= 1));
    }
}

static void what_is_replaced_spends_nothing(void **state)
{
    struct bed *bed = *state;
    apply(bed, HEAD LIMIT("a", "name: n, unit: day, requests_per_unit: 5")
                   LIMIT("b", "unit: day, requests_per_unit: 9, replaces: [{name: n}]"));
    begin("d");
    ask_for("a=1");
    ask_for("b=1");
    assert_int_equal(ask(bed), CDL_ANSWER_ALLOWED);
    assert_int_equal(left_of(bed, "d/a", &CDL_SLICE("1"), 1, false), 5);
    assert_int_equal(left_of(bed, "d/b", &CDL_SLICE("1"), 1, false), 8);
}

static void C60_a_limit_in_the_request_is_enforced_and_its_change_keeps_the_count(void **state)
{
    struct bed *bed = *state;
    apply(bed, HEAD "  - {key: k, shadow_mode: true, rate_limit: {unit: day, requests_per_unit: 1}}\n");
    unsigned passed = 0;
    for (unsigned i = 0; i < 10; i++) {
        begin("d");
        struct cdl_descriptor *descriptor = ask_for("k=v");
        descriptor->has_limit = true;
        descriptor->unit = CDL_UNIT_HOUR;
        descriptor->requests_per_unit = i < 6 ? 3 : 5;
        passed += ask(bed) == CDL_ANSWER_ALLOWED;
        assert_int_equal(passed, i < 3 ? i + 1 : i < 6 ? 3 : i < 8 ? i - 2 : 5);
    }
    assert_int_equal(left_of(bed, "d/k", &CDL_SLICE("v"), 1, false), 1); /* the file's was not asked */
}

static void a_key_by_its_name_is_the_key_of_its_descriptor(void **state)
{
    struct bed *bed = *state;
    apply(bed, HEAD "  - key: path\n"
                    "    descriptors:\n"
                    "      - key: client_ip\n"
                    "        value: '10.*'\n"
                    "        descriptors:\n"
                    "          - {key: path, rate_limit: {unit: day, requests_per_unit: 5}}\n"
                    "  - {key: month, rate_limit: {unit: month, requests_per_unit: 5, calendar: {zone: UTC}}}\n");
    /* Keys that are called as what requests of ours have are not taken for that: none of these is an address or a path. */
    assert_int_equal(ask_one(bed, "path=//a/../b/,client_ip=10.x,path=%41"), CDL_ANSWER_ALLOWED);
    const struct cdl_slice values[] = {CDL_SLICE("//a/../b/"), CDL_SLICE("10.x"), CDL_SLICE("%41")};
    assert_int_equal(left_of(bed, "d/path/client_ip=10.*/path", values, 3, false), 4);
    assert_int_equal(left_of(bed, "d/path/client_ip=10.*/path", values, 3, true), 5);
    assert_int_equal(ask_one(bed, "path=//a/../b/,client_ip=10.x,path=%41"), CDL_ANSWER_ALLOWED);
    assert_int_equal(answer->overall.remaining, 4);
    assert_int_equal(admitted(bed, "month=x", 9), 5);
    assert_int_equal(left_of(bed, "d/month", &CDL_SLICE("x"), 1, false), 0);
    assert_int_equal(left_of(bed, "d/month", &CDL_SLICE("x"), 1, true), 5);
    assert_int_equal(admitted(bed, "month=x", 9), 5);
}

static void C62_a_reload_keeps_what_was_counted(void **state)
{
    struct bed *bed = *state;
    apply(bed, HEAD LIMIT("a", "unit: day, requests_per_unit: 5") LIMIT("b", "unit: day, requests_per_unit: 5"));
    assert_int_equal(admitted(bed, "a=1", 9), 5);
    for (unsigned i = 0; i < 10; i++) {
        apply(bed,
              "# another comment, another order, another limit\n" HEAD LIMIT("c", "unit: day, requests_per_unit: 1")
                  LIMIT("b", "unit: day, requests_per_unit: 5") LIMIT("a", "unit: day, requests_per_unit: 5"));
        assert_int_equal(ask_one(bed, "a=1"), CDL_ANSWER_REFUSED);
    }
}

static void C63_a_raised_limit_helps_at_once(void **state)
{
    struct bed *bed = *state;
    apply(bed, HEAD LIMIT("k", "unit: hour, requests_per_unit: 10"));
    assert_int_equal(admitted(bed, "k=v", 50), 10);
    apply(bed, HEAD LIMIT("k", "unit: hour, requests_per_unit: 20"));
    assert_int_equal(admitted(bed, "k=v", 50), 10); /* what was refused does not count */
    apply(bed, HEAD LIMIT("k", "unit: hour, requests_per_unit: 5"));
    assert_int_equal(ask_one(bed, "k=v"), CDL_ANSWER_REFUSED);
    assert_int_equal(answer->overall.remaining, 0);
    assert_int_equal(answer->overall.capacity, 5);
    apply(bed, HEAD LIMIT("k", "unit: second, requests_per_unit: 0"));
    assert_int_equal(ask_one(bed, "k=v"), CDL_ANSWER_REFUSED);
}

/* Windows are slots counted from the epoch; a limit with a calendar ends with its month. */
static void C18_windows_end_when_they_say(void **state)
{
    struct bed *bed = *state;
    const int64_t second = 1000000000, now_s = 1769860800; /* 2026-01-31T12:00Z */
    world_set_time(&bed->world, now_s * second);
    apply(bed, HEAD LIMIT("m", "unit: month, requests_per_unit: 1") LIMIT("y", "unit: year, requests_per_unit: 1")
                   LIMIT("c", "unit: month, requests_per_unit: 1, calendar: {zone: UTC}"));
    assert_int_equal(ask_one(bed, "m=1"), CDL_ANSWER_ALLOWED);
    assert_int_equal(answer->overall.reset_after_ns, (2592000 - now_s % 2592000) * second);
    assert_int_equal(ask_one(bed, "y=1"), CDL_ANSWER_ALLOWED);
    assert_int_equal(answer->overall.reset_after_ns, (31536000 - now_s % 31536000) * second);
    assert_int_equal(ask_one(bed, "c=1"), CDL_ANSWER_ALLOWED);
    assert_int_equal(answer->overall.reset_after_ns, 43200 * second);
    world_advance(&bed->world, 43200 * second - 1);
    assert_int_equal(ask_one(bed, "c=1"), CDL_ANSWER_REFUSED);
    assert_int_equal(answer->overall.retry_after_ns, 1);
    world_advance(&bed->world, 1);
    assert_int_equal(ask_one(bed, "c=1"), CDL_ANSWER_ALLOWED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(calls_count_down_and_then_are_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(C09_zero_refuses_the_first_call, setup, teardown),
        cmocka_unit_test_setup_teardown(descriptors_are_decided_together, setup, teardown),
        cmocka_unit_test_setup_teardown(hits_are_spent_whole_or_not_at_all, setup, teardown),
        cmocka_unit_test_setup_teardown(shadow_and_quota_are_counted_and_never_refuse, setup, teardown),
        cmocka_unit_test_setup_teardown(what_is_replaced_spends_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(C60_a_limit_in_the_request_is_enforced_and_its_change_keeps_the_count, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_key_by_its_name_is_the_key_of_its_descriptor, setup, teardown),
        cmocka_unit_test_setup_teardown(C62_a_reload_keeps_what_was_counted, setup, teardown),
        cmocka_unit_test_setup_teardown(C63_a_raised_limit_helps_at_once, setup, teardown),
        cmocka_unit_test_setup_teardown(C18_windows_end_when_they_say, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
