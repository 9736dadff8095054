/* What clients are told: every revision to the byte, how seconds are rounded (C79, C82 to C84), odd names, and that what is
 * written is a structured field. */
#include "wire/ratelimit_fields.h"

#include "../support.h"
#include "structured_fields.h"

static char room[16384];

static struct cdl_fields_policy policy(const char *name, uint64_t count, int64_t period_ns)
{
    const struct caudal_limit limit = limit_of(CAUDAL_TOKEN_BUCKET, count, period_ns);
    return cdl_fields_policy_of(cdl_slice_of(name), &limit);
}

static struct caudal_decision allowed(uint64_t remaining, int64_t reset_after_ns)
{
    return (struct caudal_decision){
        .verdict = CAUDAL_ALLOW, .granted = 1, .remaining = remaining, .reset_after_ns = reset_after_ns};
}

static struct caudal_decision denied(uint64_t remaining, int64_t retry_after_ns, int64_t reset_after_ns)
{
    return (struct caudal_decision){.verdict = CAUDAL_DENY,
                                    .remaining = remaining,
                                    .retry_after_ns = retry_after_ns,
                                    .reset_after_ns = reset_after_ns};
}

static struct caudal_decision never(uint64_t remaining, int64_t reset_after_ns)
{
    return (struct caudal_decision){
        .verdict = CAUDAL_NEVER, .remaining = remaining, .retry_after_ns = -1, .reset_after_ns = reset_after_ns};
}

static struct cdl_slice fields(enum cdl_fields_revision revision, const struct cdl_fields_answer *answer)
{
    struct cdl_writer writer = cdl_writer_on(room, sizeof room);
    cdl_fields_write(&writer, revision, answer);
    assert_false(writer.overflow);
    return cdl_written(&writer);
}

static void assert_fields(enum cdl_fields_revision revision, const struct cdl_fields_answer *answer, const char *want)
{
    const struct cdl_slice got = fields(revision, answer);
    if (!cdl_slice_equal(got, cdl_slice_of(want)))
        fail_msg("got\n%.*s\nwant\n%s", CDL_SLICE_ARG(got), want);
}

/* ---- the revisions ---- */

static void every_revision_of_one_answer(void **state)
{
    (void)state;
    const struct cdl_fields_policy policies[] = {policy("per-client", 100, MINUTE), policy("everybody", 5000, SECOND)};
    const struct caudal_decision decision = allowed(50, 30 * SECOND);
    const struct cdl_fields_answer answer = {policies, 2, 0, &decision, 1, EPOCH};
    assert_fields(CDL_FIELDS_IETF_11, &answer,
                  "RateLimit-Policy: \"per-client\";q=100;w=60, \"everybody\";q=5000;w=1\r\n"
                  "RateLimit: \"per-client\";r=50;t=30\r\n");
    assert_fields(CDL_FIELDS_IETF_12, &answer,
                  "RateLimit-Policy: \"per-client\";q=100;w=60, \"everybody\";q=5000;w=1\r\n"
                  "RateLimit: \"per-client\";a=50;w=30;c=1\r\n");
    assert_fields(CDL_FIELDS_IETF_06, &answer,
                  "RateLimit-Limit: 100\r\nRateLimit-Remaining: 50\r\nRateLimit-Reset: 30\r\n");
    assert_fields(CDL_FIELDS_X_RATELIMIT_EPOCH, &answer,
                  "X-RateLimit-Limit: 100\r\nX-RateLimit-Remaining: 50\r\nX-RateLimit-Reset: 1764547230\r\n");
    assert_fields(CDL_FIELDS_X_RATELIMIT_DELTA, &answer,
                  "X-RateLimit-Limit: 100\r\nX-RateLimit-Remaining: 50\r\nX-RateLimit-Reset: 30\r\n");
    assert_fields(CDL_FIELDS_NONE, &answer, "");
}

static void revisions_have_names(void **state)
{
    (void)state;
    static const char *const names[] = {"ietf-11",           "ietf-12",           "ietf-06",
                                        "x-ratelimit-epoch", "x-ratelimit-delta", "none"};
    enum cdl_fields_revision revision;
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        assert_true(cdl_fields_revision_find(cdl_slice_of(names[i]), &revision));
        assert_int_equal(revision, i);
    }
    assert_true(cdl_fields_revision_find(CDL_SLICE("x-ratelimit"), &revision));
    assert_int_equal(revision, CDL_FIELDS_X_RATELIMIT_EPOCH);
    assert_false(cdl_fields_revision_find(CDL_SLICE("ietf"), &revision));
    assert_false(cdl_fields_revision_find(CDL_SLICE(""), &revision));
}

/* ---- what the numbers mean ---- */

static void a_bucket_tells_its_rate_and_its_capacity(void **state)
{
    (void)state;
    const struct caudal_limit limit = bucket_of(20, 100, MINUTE);
    const struct cdl_fields_policy got = cdl_fields_policy_of(CDL_SLICE("b"), &limit);
    assert_int_equal(got.quota, 100);
    assert_int_equal(got.window_s, 60);
    assert_int_equal(got.capacity, 20);
    const struct caudal_decision decision = allowed(19, 600 * MILLISECOND);
    const struct cdl_fields_answer answer = {&got, 1, 0, &decision, 1, EPOCH};
    assert_fields(CDL_FIELDS_IETF_11, &answer, "RateLimit-Policy: \"b\";q=100;w=60\r\nRateLimit: \"b\";r=19;t=1\r\n");
    assert_fields(CDL_FIELDS_IETF_06, &answer,
                  "RateLimit-Limit: 20\r\nRateLimit-Remaining: 19\r\nRateLimit-Reset: 1\r\n");
}

static void a_window_that_is_not_whole_seconds_is_not_told(void **state)
{
    (void)state;
    static const struct {
        int64_t period_ns;
        uint64_t window_s;
    } cases[] = {{SECOND, 1}, {SECOND - 1, 0}, {1500 * MILLISECOND, 0}, {100 * MILLISECOND, 0},
                 {1, 0},      {DAY, 86400},    {YEAR, 31536000}};
    for (size_t i = 0; i < COUNT_OF(cases); i++)
        assert_int_equal(policy("x", 1, cases[i].period_ns).window_s, cases[i].window_s);
}

static void a_bucket_that_never_refills_tells_what_it_holds(void **state)
{
    (void)state;
    const struct caudal_limit limit = bucket_of(10, 0, SECOND);
    const struct cdl_fields_policy got = cdl_fields_policy_of(CDL_SLICE("trial"), &limit);
    struct caudal_decision decision = allowed(9, -1);
    const struct cdl_fields_answer answer = {&got, 1, 0, &decision, 1, EPOCH};
    assert_fields(CDL_FIELDS_IETF_11, &answer, "RateLimit-Policy: \"trial\";q=10\r\nRateLimit: \"trial\";r=9\r\n");
    assert_fields(CDL_FIELDS_X_RATELIMIT_EPOCH, &answer, "X-RateLimit-Limit: 10\r\nX-RateLimit-Remaining: 9\r\n");
    decision = never(0, -1);
    assert_fields(CDL_FIELDS_IETF_12, &answer, "RateLimit-Policy: \"trial\";q=10\r\nRateLimit: \"trial\";a=0;c=1\r\n");
}

static void of_an_unlimited_limit_nothing_is_told(void **state)
{
    (void)state;
    const struct caudal_limit unlimited = limit_of(CAUDAL_UNLIMITED, 0, 0);
    const struct cdl_fields_policy policies[] = {cdl_fields_policy_of(CDL_SLICE("vip"), &unlimited),
                                                 policy("all", 10, SECOND)};
    const struct caudal_decision decision = allowed(UINT64_MAX, 0);
    struct cdl_fields_answer answer = {policies, 1, 0, &decision, 1, EPOCH};
    for (enum cdl_fields_revision revision = CDL_FIELDS_IETF_11; revision <= CDL_FIELDS_NONE; revision++)
        assert_fields(revision, &answer, "");
    const struct caudal_decision of_all = allowed(9, 100 * MILLISECOND);
    answer = (struct cdl_fields_answer){policies, 2, 1, &of_all, 1, EPOCH};
    assert_fields(CDL_FIELDS_IETF_11, &answer, "RateLimit-Policy: \"all\";q=10;w=1\r\nRateLimit: \"all\";r=9;t=1\r\n");
}

static void without_a_verdict_nothing_is_told(void **state)
{
    (void)state;
    const struct cdl_fields_policy policies[] = {policy("x", 10, SECOND)};
    const struct caudal_decision failed = {.status = CAUDAL_ERR_UNKNOWN};
    assert_fields(CDL_FIELDS_IETF_11, &(struct cdl_fields_answer){policies, 1, 0, &failed, 1, EPOCH}, "");
    const struct caudal_decision decision = allowed(1, 1);
    assert_fields(CDL_FIELDS_IETF_11, &(struct cdl_fields_answer){policies, 0, 0, &decision, 1, EPOCH}, "");
}

/* A bucket of 100 a minute, empty: one passes after 0.6 s, all is back after a minute. The drafts want Retry-After not to be
 * earlier than t. */
static void after_a_refusal_t_is_the_wait(void **state)
{
    (void)state;
    const struct cdl_fields_policy policies[] = {policy("x", 100, MINUTE)};
    const struct caudal_decision decision = denied(0, 600 * MILLISECOND, MINUTE);
    const struct cdl_fields_answer answer = {policies, 1, 0, &decision, 1, EPOCH};
    assert_fields(CDL_FIELDS_IETF_11, &answer, "RateLimit-Policy: \"x\";q=100;w=60\r\nRateLimit: \"x\";r=0;t=1\r\n");
    assert_fields(CDL_FIELDS_IETF_06, &answer,
                  "RateLimit-Limit: 100\r\nRateLimit-Remaining: 0\r\nRateLimit-Reset: 1\r\n");
    assert_int_equal(cdl_retry_after_seconds(&decision, 0, 0), 1);
}

static void a_cost_that_never_fits_tells_what_is_there(void **state)
{
    (void)state;
    const struct cdl_fields_policy policies[] = {policy("x", 100, MINUTE)};
    const struct caudal_decision decision = never(70, 18 * SECOND);
    const struct cdl_fields_answer answer = {policies, 1, 0, &decision, 101, EPOCH};
    assert_fields(CDL_FIELDS_IETF_12, &answer,
                  "RateLimit-Policy: \"x\";q=100;w=60\r\nRateLimit: \"x\";a=70;w=18;c=101\r\n");
    assert_int_equal(cdl_retry_after_seconds(&decision, 5, UINT64_MAX), 0);
}

/* ---- C79: rounded up, and not once too often ---- */

static void seconds_are_rounded_up_once(void **state)
{
    (void)state;
    static const struct {
        int64_t ns;
        uint64_t s;
    } cases[] = {{INT64_MIN, 0},
                 {-1, 0},
                 {0, 0},
                 {1, 1},
                 {SECOND - 1, 1},
                 {SECOND, 1},
                 {SECOND + 1, 2},
                 {2 * SECOND, 2},
                 {60 * SECOND, 60},
                 {INT64_MAX, UINT64_C(9223372037)}};
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        assert_int_equal(cdl_seconds_up(cases[i].ns), cases[i].s);
        if (cases[i].ns > 0) {
            const struct caudal_decision decision = denied(0, cases[i].ns, cases[i].ns);
            assert_int_equal(cdl_retry_after_seconds(&decision, 0, UINT64_MAX), cases[i].s);
        }
    }
}

static void retry_after_is_for_refusals_that_end(void **state)
{
    (void)state;
    const struct caudal_decision decisions[] = {allowed(1, SECOND), never(1, SECOND), {.status = CAUDAL_ERR_KEY}};
    for (size_t i = 0; i < COUNT_OF(decisions); i++)
        assert_int_equal(cdl_retry_after_seconds(&decisions[i], 10, UINT64_MAX), 0);
    struct cdl_writer writer = cdl_writer_on(room, sizeof room);
    cdl_retry_after_write(&writer, 0);
    assert_int_equal(writer.length, 0);
    cdl_retry_after_write(&writer, 3);
    assert_true(cdl_slice_equal(cdl_written(&writer), CDL_SLICE("Retry-After: 3\r\n")));
}

/* ---- C82, C83: one window, asked at many moments ---- */

static void the_reset_of_a_window_falls_to_its_end(void **state)
{
    struct world *world = *state;
    const struct caudal_limit limit = limit_of(CAUDAL_FIXED_WINDOW, 2, MINUTE);
    const struct cdl_fields_policy of_limit = cdl_fields_policy_of(CDL_SLICE("w"), &limit);
    const uint32_t id = world_add(world, limit);
    world_advance(world, 10 * SECOND);
    int64_t now = EPOCH + 10 * SECOND, last = 51;
    for (unsigned i = 0; now < EPOCH + MINUTE; i++) {
        const struct caudal_decision decision = take(world, id, "k", 1);
        assert_int_equal(decision.verdict, i < 2 ? CAUDAL_ALLOW : CAUDAL_DENY);
        const struct cdl_fields_answer answer = {&of_limit, 1, 0, &decision, 1, now};
        struct sf_list list;
        assert_true(sf_parse(sf_field(fields(CDL_FIELDS_IETF_11, &answer), "RateLimit"), &list));
        const int64_t reset = sf_parameter(&list.members[0], "t");
        if (i < 3)
            assert_int_equal(reset, 50);
        assert_true(reset <= last && reset >= 1);
        last = reset;
        world_advance(world, 177 * MILLISECOND * (i >= 2));
        now += 177 * MILLISECOND * (i >= 2);
    }
    assert_int_equal(last, 1);
}

static void the_epoch_form_does_not_wobble(void **state)
{
    (void)state;
    const struct cdl_fields_policy of_limit = policy("w", 2, MINUTE);
    struct rng rng = {1};
    for (unsigned i = 0; i < 1000; i++) {
        const int64_t store_now = EPOCH + (int64_t)rng_below(&rng, (uint64_t)MINUTE);
        /* Who reads the clock, reads it a little earlier or later than the store counted. */
        const int64_t our_now = store_now + (int64_t)rng_below(&rng, 90 * (uint64_t)MILLISECOND) - 5 * MILLISECOND;
        const int64_t wait = EPOCH + MINUTE - store_now;
        const struct caudal_decision decision = i % 2 == 0 ? allowed(0, wait) : denied(0, wait, wait);
        const struct cdl_fields_answer answer = {&of_limit, 1, 0, &decision, 1, our_now};
        const struct cdl_slice reset = sf_field(fields(CDL_FIELDS_X_RATELIMIT_EPOCH, &answer), "X-RateLimit-Reset");
        assert_true(cdl_slice_equal(reset, CDL_SLICE("1764547260")));
    }
}

static void an_epoch_of_odd_clocks_is_a_number(void **state)
{
    (void)state;
    const struct cdl_fields_policy of_limit = policy("w", 2, MINUTE);
    static const struct {
        int64_t now_ns, wait_ns;
        const char *want;
    } cases[] = {
        {INT64_MAX, INT64_MAX, "9223372037"}, {INT64_MIN, 0, "0"}, {0, 0, "0"}, {0, SECOND, "1"},
        {-5 * SECOND, SECOND, "0"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        const struct caudal_decision decision = allowed(0, cases[i].wait_ns);
        const struct cdl_fields_answer answer = {&of_limit, 1, 0, &decision, 1, cases[i].now_ns};
        const struct cdl_slice reset = sf_field(fields(CDL_FIELDS_X_RATELIMIT_EPOCH, &answer), "X-RateLimit-Reset");
        assert_true(cdl_slice_equal(reset, cdl_slice_of(cases[i].want)));
    }
}

/* ---- C84: jitter ---- */

static void jitter_only_adds_and_fills_its_span(void **state)
{
    (void)state;
    const struct caudal_decision decision = denied(0, 7 * SECOND + 1, MINUTE);
    struct rng rng = {2};
    unsigned seen[6] = {0};
    for (unsigned i = 0; i < 6000; i++) {
        const uint64_t hash = rng_next(&rng);
        const uint64_t seconds = cdl_retry_after_seconds(&decision, 5, hash);
        assert_in_range(seconds, 8, 13);
        assert_int_equal(seconds, cdl_retry_after_seconds(&decision, 5, hash)); /* stable */
        seen[seconds - 8]++;
        assert_int_equal(cdl_retry_after_seconds(&decision, 0, hash), 8); /* off: exact */
    }
    for (size_t i = 0; i < COUNT_OF(seen); i++)
        assert_in_range(seen[i], 800, 1200);
    assert_int_equal(cdl_retry_after_seconds(&decision, UINT32_MAX, UINT64_MAX), 8 + (uint64_t)UINT32_MAX);
}

/* One client that asks all the time is told one instant. */
static void a_client_is_told_one_instant(void **state)
{
    (void)state;
    const uint64_t hash = UINT64_C(0xB7E151628AED2A6A);
    for (int64_t passed = 0; passed < MINUTE; passed += SECOND) {
        const struct caudal_decision decision = denied(0, MINUTE - passed, MINUTE - passed);
        assert_int_equal(cdl_retry_after_seconds(&decision, 10, hash) + (uint64_t)(passed / SECOND),
                         cdl_retry_after_seconds(
                             &(struct caudal_decision){.verdict = CAUDAL_DENY, .retry_after_ns = MINUTE}, 10, hash));
    }
}

/* ---- names and numbers as structured fields ---- */

static void odd_names_are_strings_all_the_same(void **state)
{
    (void)state;
    static const struct {
        struct cdl_slice name;
        const char *written, *read;
    } cases[] = {
        {{"a b", 3}, "\"a b\"", "a b"},
        {{"", 0}, "\"\"", ""},
        {{"say \"no\"", 8}, "\"say \\\"no\\\"\"", "say \"no\""},
        {{"c:\\x", 4}, "\"c:\\\\x\"", "c:\\x"},
        {{"caf\xc3\xa9", 5}, "\"caf%C3%A9\"", "caf%C3%A9"},
        {{"caf%C3%A9", 9}, "\"caf%25C3%25A9\"", "caf%25C3%25A9"},
        {{"a\r\nX: y", 7}, "\"a%0D%0AX: y\"", "a%0D%0AX: y"},
        {{"\0\x7f\xff\"", 4}, "\"%00%7F%FF\\\"\"", "%00%7F%FF\""},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct cdl_fields_policy of_limit = policy("", 1, SECOND);
        of_limit.name = cases[i].name;
        const struct caudal_decision decision = allowed(1, 0);
        char want[200];
        snprintf(want, sizeof want, "RateLimit-Policy: %s;q=1;w=1\r\nRateLimit: %s;r=1;t=0\r\n", cases[i].written,
                 cases[i].written);
        const struct cdl_fields_answer answer = {&of_limit, 1, 0, &decision, 1, EPOCH};
        assert_fields(CDL_FIELDS_IETF_11, &answer, want);
        struct sf_list list;
        assert_true(sf_parse(sf_field(fields(CDL_FIELDS_IETF_11, &answer), "RateLimit"), &list));
        assert_true(cdl_slice_equal(sf_name(&list.members[0]), cdl_slice_of(cases[i].read)));
    }
}

static void numbers_stay_within_what_the_rfc_allows(void **state)
{
    (void)state;
    const struct cdl_fields_policy of_limit = {CDL_SLICE("x"), UINT64_MAX, UINT64_MAX, UINT64_MAX - 1};
    const struct caudal_decision decision = allowed(UINT64_MAX, INT64_MAX);
    const struct cdl_fields_answer answer = {&of_limit, 1, 0, &decision, UINT64_MAX, EPOCH};
    assert_fields(CDL_FIELDS_IETF_12, &answer,
                  "RateLimit-Policy: \"x\";q=999999999999999;w=999999999999999\r\n"
                  "RateLimit: \"x\";a=999999999999999;w=9223372037;c=999999999999999\r\n");
}

static void a_name_is_told_once(void **state)
{
    (void)state;
    const struct cdl_fields_policy policies[] = {policy("a", 1, SECOND), policy("b", 2, SECOND), policy("A", 3, SECOND),
                                                 policy("b", 4, SECOND)};
    const struct caudal_decision decision = allowed(1, 0);
    assert_fields(CDL_FIELDS_IETF_11, &(struct cdl_fields_answer){policies, 4, 1, &decision, 1, EPOCH},
                  "RateLimit-Policy: \"a\";q=1;w=1, \"b\";q=2;w=1\r\nRateLimit: \"b\";r=1;t=0\r\n");
}

static void what_does_not_fit_is_seen(void **state)
{
    (void)state;
    const struct cdl_fields_policy of_limit = policy("per-client", 100, MINUTE);
    const struct caudal_decision decision = allowed(50, 30 * SECOND);
    const struct cdl_fields_answer answer = {&of_limit, 1, 0, &decision, 1, EPOCH};
    const size_t whole = fields(CDL_FIELDS_IETF_11, &answer).length;
    for (size_t size = 0; size <= whole; size++) {
        struct cdl_writer writer = cdl_writer_on(room, size);
        cdl_fields_write(&writer, CDL_FIELDS_IETF_11, &answer);
        assert_int_equal(writer.overflow, size < whole);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_revision_of_one_answer),
        cmocka_unit_test(revisions_have_names),
        cmocka_unit_test(a_bucket_tells_its_rate_and_its_capacity),
        cmocka_unit_test(a_window_that_is_not_whole_seconds_is_not_told),
        cmocka_unit_test(a_bucket_that_never_refills_tells_what_it_holds),
        cmocka_unit_test(of_an_unlimited_limit_nothing_is_told),
        cmocka_unit_test(without_a_verdict_nothing_is_told),
        cmocka_unit_test(after_a_refusal_t_is_the_wait),
        cmocka_unit_test(a_cost_that_never_fits_tells_what_is_there),
        cmocka_unit_test(seconds_are_rounded_up_once),
        cmocka_unit_test(retry_after_is_for_refusals_that_end),
        cmocka_unit_test_setup_teardown(the_reset_of_a_window_falls_to_its_end, world_setup, world_teardown),
        cmocka_unit_test(the_epoch_form_does_not_wobble),
        cmocka_unit_test(an_epoch_of_odd_clocks_is_a_number),
        cmocka_unit_test(jitter_only_adds_and_fills_its_span),
        cmocka_unit_test(a_client_is_told_one_instant),
        cmocka_unit_test(odd_names_are_strings_all_the_same),
        cmocka_unit_test(numbers_stay_within_what_the_rfc_allows),
        cmocka_unit_test(a_name_is_told_once),
        cmocka_unit_test(what_does_not_fit_is_seen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
