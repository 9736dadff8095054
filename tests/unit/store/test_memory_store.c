/* The memory store as a whole: the shared vectors, and for every way of keeping a state that peeks, refusals, refunds and
 * resets do what they say and nothing else. */
#include "store/memory_store.h"

#include <stdlib.h>

#include "../support.h"
#include "../vectors.h"

/* ---- vectors ---- */

/* A store on a fake clock, and the key that a scenario is played on. */
struct fixture {
    struct caudal_fake_clock *clock;
    struct caudal_store *store;
    uint32_t limits[VECTOR_LIMITS_MAX];
    size_t limit_count;
    unsigned scenario;
};

static void open_store(struct fixture *fixture)
{
    *fixture = (struct fixture){.clock = caudal_fake_clock_new(0)};
    const struct caudal_store_options options = {
        .size = sizeof options,
        .clock = caudal_fake_clock_clock(fixture->clock),
    };
    assert_int_equal(caudal_store_open("memory:?keys=1000", &options, &fixture->store, NULL), CAUDAL_OK);
}

static void close_store(struct fixture *fixture)
{
    caudal_store_close(fixture->store);
    caudal_fake_clock_free(fixture->clock);
}

static void begin(void *context, const struct caudal_limit *limits, size_t count)
{
    struct fixture *fixture = context;
    fixture->scenario++;
    fixture->limit_count = count;
    for (size_t i = 0; i < count; i++) {
        char name[64];
        snprintf(name, sizeof name, "scenario %u, %zu", fixture->scenario, i);
        assert_int_equal(caudal_add_limit(fixture->store, name, &limits[i], &fixture->limits[i], NULL), CAUDAL_OK);
    }
}

/* A bucket's waits may be off by a nanosecond, the others' may not. */
static int64_t slack(struct fixture *fixture, size_t i)
{
    struct caudal_limit limit = CAUDAL_LIMIT_INIT;
    assert_int_equal(caudal_get_limit(fixture->store, fixture->limits[i], &limit), CAUDAL_OK);
    return limit.algorithm == CAUDAL_TOKEN_BUCKET ? 1 : 0;
}

static void play_one(struct fixture *fixture, const struct vector_step *step)
{
    struct caudal_store *store = fixture->store;
    const uint32_t limit = fixture->limits[0];
    struct caudal_decision decision = {0};
    switch (step->action) {
    case VECTOR_TAKE:
        assert_int_equal(caudal_take(store, limit, "key", 3, step->amount, &decision), CAUDAL_OK);
        break;
    case VECTOR_PEEK:
        assert_int_equal(caudal_peek(store, limit, "key", 3, step->amount, &decision), CAUDAL_OK);
        break;
    case VECTOR_REFUND:
        assert_int_equal(caudal_refund(store, limit, "key", 3, step->amount, NULL), CAUDAL_OK);
        break;
    case VECTOR_SET:
        assert_int_equal(caudal_set_limit(store, limit, &step->limit, NULL), CAUDAL_OK);
        break;
    }
    if (step->has_want)
        vectors_check(step, &step->want[0], &decision, slack(fixture, 0));
}

static void play_all(struct fixture *fixture, const struct vector_step *step)
{
    struct caudal_request requests[VECTOR_LIMITS_MAX];
    struct caudal_decision decisions[VECTOR_LIMITS_MAX], overall;
    for (size_t i = 0; i < fixture->limit_count; i++)
        requests[i] = (struct caudal_request){fixture->limits[i], "key", 3, step->amount};
    assert_int_equal(caudal_take_all(fixture->store, requests, fixture->limit_count, decisions, &overall), CAUDAL_OK);
    assert_int_equal(overall.verdict, step->overall);
    for (size_t i = 0; i < fixture->limit_count; i++)
        vectors_check(step, &step->want[i], &decisions[i], slack(fixture, i));
}

static void play(void *context, const struct vector_step *step)
{
    struct fixture *fixture = context;
    caudal_fake_clock_set(fixture->clock, step->now_ns);
    if (fixture->limit_count == 1)
        play_one(fixture, step);
    else
        play_all(fixture, step);
}

static void every_vector_file_is_met_through_the_store(void **state)
{
    static const char *const files[] = {
        "named.us.jsonl",
        "random.fixed_window.us.jsonl",
        "random.sliding_log.us.jsonl",
        "random.sliding_window.us.jsonl",
        "random.token_bucket.ns.jsonl",
        "random.token_bucket.us.jsonl",
        "several.us.jsonl",
    };
    (void)state;
    struct fixture fixture;
    open_store(&fixture);
    const struct vector_player player = {begin, play, &fixture};
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++)
        vectors_play(files[i], -1, &player);
    close_store(&fixture);
}

/* ---- one question, for every way of keeping a state ---- */

#define SMALL "memory:?keys=64&wide_keys=16&log_entries=1"

static struct world world;

static int open_small(void **state)
{
    (void)state;
    world_open(&world, SMALL);
    return 0;
}

static int close_small(void **state)
{
    (void)state;
    world_close(&world);
    return 0;
}

static void ten_units_are_admitted_and_no_more(void **state)
{
    (void)state;
    for (size_t k = 0; k < KINDS; k++) {
        const uint32_t limit = world_add_kind(&world, &kinds[k]);
        for (uint64_t i = 0; i < 10; i++) {
            const struct caudal_decision decision = take(&world, limit, "key", kinds[k].unit);
            assert_int_equal(decision.verdict, CAUDAL_ALLOW);
            assert_int_equal(decision.granted, kinds[k].unit);
            assert_int_equal(decision.remaining, (9 - i) * kinds[k].unit);
            assert_int_equal(decision.capacity, 10 * kinds[k].unit);
        }
        const struct caudal_decision denied = take(&world, limit, "key", 1);
        assert_int_equal(denied.verdict, CAUDAL_DENY);
        assert_true(denied.retry_after_ns > 0);
        world_advance(&world, denied.retry_after_ns - 1);
        assert_int_equal(peek(&world, limit, "key", 1).verdict, CAUDAL_DENY);
        world_advance(&world, 1);
        assert_int_equal(peek(&world, limit, "key", 1).verdict, CAUDAL_ALLOW);
        world_set_time(&world, EPOCH);
    }
}

static void a_peek_changes_no_byte(void **state)
{
    (void)state;
    for (size_t k = 0; k < KINDS; k++) {
        const uint32_t limit = world_add_kind(&world, &kinds[k]);
        take(&world, limit, "key", 7 * kinds[k].unit);
        struct snapshot before = snapshot_take(world.store);
        for (int64_t at = 0; at < 3 * kinds[k].horizon_ns; at += kinds[k].horizon_ns / 7) {
            world_set_time(&world, EPOCH + at);
            for (uint64_t cost = 0; cost <= 12; cost++) {
                assert_int_equal(peek(&world, limit, "key", cost * kinds[k].unit).granted, 0);
                peek(&world, limit, "never seen", cost * kinds[k].unit);
            }
        }
        snapshot_compare(&before, world.store);
        world_set_time(&world, EPOCH);
    }
}

/* A look at what will be or was in another century leaves the present alone, the limit's own clock included. */
static void a_peek_at_any_time_changes_no_byte(void **state)
{
    (void)state;
    for (size_t k = 0; k < KINDS; k++) {
        const uint32_t limit = world_add_kind(&world, &kinds[k]);
        const uint64_t unit = kinds[k].unit;
        take(&world, limit, "key", 7 * unit);
        struct snapshot before = snapshot_take(world.store);
        for (int64_t years = -280; years <= 280; years += 7) {
            struct caudal_decision decision, fresh;
            const int64_t at = years * YEAR;
            assert_int_equal(caudal_peek_at(world.store, limit, "key", 3, unit, at, &decision), CAUDAL_OK);
            assert_int_equal(caudal_peek_at(world.store, limit, "never seen", 10, unit, at, &fresh), CAUDAL_OK);
            assert_int_equal(fresh.remaining, 9 * unit);
            if (at > EPOCH)
                assert_same_decision(decision, fresh);
        }
        snapshot_compare(&before, world.store);
        assert_int_equal(left(&world, limit, "key"), 3 * unit);
        assert_int_equal(take(&world, limit, "key", 3 * unit).verdict, CAUDAL_ALLOW);
        assert_int_equal(take(&world, limit, "key", 1).verdict, CAUDAL_DENY);
    }
}

static void a_refusal_changes_no_byte(void **state)
{
    (void)state;
    for (size_t k = 0; k < KINDS; k++) {
        const uint32_t limit = world_add_kind(&world, &kinds[k]);
        const uint64_t unit = kinds[k].unit;
        take(&world, limit, "key", 9 * unit);
        struct snapshot before = snapshot_take(world.store);
        for (int64_t at = 0; at < 4; at++) {
            world_set_time(&world, EPOCH + at * 1000);
            assert_int_equal(take(&world, limit, "key", 2 * unit).verdict, CAUDAL_DENY);
            assert_int_equal(take_up_to(&world, limit, "key", 2 * unit, 20 * unit).verdict, CAUDAL_DENY);
            assert_int_equal(take(&world, limit, "key", 11 * unit).verdict, CAUDAL_NEVER);
            assert_int_equal(take(&world, limit, "key", UINT64_MAX).verdict, CAUDAL_NEVER);
            assert_int_equal(take(&world, limit, "never seen", 11 * unit).verdict, CAUDAL_NEVER);
            assert_int_equal(take(&world, limit, "key", 0).verdict, CAUDAL_ALLOW); /* costs nothing */
            assert_int_equal(take(&world, limit, "never seen", 0).verdict, CAUDAL_ALLOW);
        }
        snapshot_compare(&before, world.store);
        world_set_time(&world, EPOCH);
    }
}

static void take_up_to_gives_what_there_is_but_not_less_than_the_least(void **state)
{
    (void)state;
    for (size_t k = 0; k < KINDS; k++) {
        const uint32_t limit = world_add_kind(&world, &kinds[k]);
        const uint64_t unit = kinds[k].unit;
        assert_int_equal(take_up_to(&world, limit, "key", unit, 7 * unit).granted, 7 * unit);
        const struct caudal_decision few = take_up_to(&world, limit, "key", 4 * unit, 7 * unit);
        assert_int_equal(few.verdict, CAUDAL_DENY);
        assert_int_equal(few.granted, 0);
        assert_same_decision(few, take(&world, limit, "key", 4 * unit)); /* as that refusal */
        const struct caudal_decision rest = take_up_to(&world, limit, "key", 3 * unit, UINT64_MAX);
        assert_int_equal(rest.granted, 3 * unit);
        assert_int_equal(rest.remaining, 0);
        const struct caudal_decision none = take_up_to(&world, limit, "key", 0, 7 * unit);
        assert_int_equal(none.verdict, CAUDAL_ALLOW);
        assert_int_equal(none.granted, 0);
    }
}

static void a_refund_gives_back_up_to_what_was_spent(void **state)
{
    (void)state;
    for (size_t k = 0; k < KINDS; k++) {
        const uint32_t limit = world_add_kind(&world, &kinds[k]);
        const uint64_t unit = kinds[k].unit;
        take(&world, limit, "key", 10 * unit);
        const struct caudal_decision one = refund(&world, limit, "key", unit);
        assert_same_decision(one, peek(&world, limit, "key", 0));
        assert_int_equal(one.remaining, unit);
        assert_int_equal(take(&world, limit, "key", unit).verdict, CAUDAL_ALLOW);
        assert_int_equal(take(&world, limit, "key", unit).verdict, CAUDAL_DENY);
        const struct caudal_decision all = refund(&world, limit, "key", UINT64_MAX);
        assert_int_equal(all.remaining, 10 * unit);
        assert_int_equal(all.reset_after_ns, 0);
        assert_int_equal(take(&world, limit, "key", 11 * unit).verdict, CAUDAL_NEVER);
    }
    assert_int_equal(stats_of(&world).live_keys, 0);
}

static void a_refund_to_a_key_never_seen_changes_no_byte(void **state)
{
    (void)state;
    for (size_t k = 0; k < KINDS; k++) {
        const uint32_t limit = world_add_kind(&world, &kinds[k]);
        struct snapshot before = snapshot_take(world.store);
        assert_int_equal(refund(&world, limit, "never seen", 5 * kinds[k].unit).remaining, 10 * kinds[k].unit);
        snapshot_compare(&before, world.store);
    }
}

/* C105: with windows, two counters have to go. */
static void C105_a_reset_forgets_all_of_one_key_and_nothing_of_others(void **state)
{
    (void)state;
    for (size_t k = 0; k < KINDS; k++) {
        const uint64_t unit = kinds[k].unit;
        const uint32_t limit = world_add_kind(&world, &kinds[k]), other = world_add_kind(&world, &kinds[k]);
        const int64_t period = (int64_t)kinds[k].limit.period_ns;
        take(&world, limit, "key", 10 * unit);
        take(&world, limit, "other", 3 * unit);
        world_set_time(&world, EPOCH + period); /* a sliding window now has a previous one, and a current one: */
        const uint64_t again = take_up_to(&world, limit, "key", 0, 10 * unit).granted;
        if (kinds[k].limit.algorithm == CAUDAL_SLIDING_WINDOW)
            assert_int_equal(again, 0);
        world_advance(&world, period / 2);
        take_up_to(&world, limit, "key", 0, 10 * unit);
        take(&world, limit, "other", 3 * unit);
        take(&world, other, "key", 2 * unit);
        const struct caudal_decision others = peek(&world, limit, "other", 0);
        const uint64_t keys = stats_of(&world).live_keys;

        reset(&world, limit, "key");
        const struct caudal_decision fresh = peek(&world, limit, "key", 0);
        assert_int_equal(fresh.remaining, 10 * unit);
        assert_int_equal(fresh.reset_after_ns, 0);
        assert_int_equal(stats_of(&world).live_keys, keys - 1);
        assert_same_decision(peek(&world, limit, "other", 0), others);
        assert_int_equal(left(&world, other, "key"), 8 * unit);
        assert_int_equal(take(&world, limit, "key", 10 * unit).verdict, CAUDAL_ALLOW);
        world_set_time(&world, EPOCH);
    }
}

static void a_reset_of_a_key_never_seen_changes_no_byte(void **state)
{
    (void)state;
    for (size_t k = 0; k < KINDS; k++) {
        const uint32_t limit = world_add_kind(&world, &kinds[k]);
        take(&world, limit, "key", kinds[k].unit);
        struct snapshot before = snapshot_take(world.store);
        reset(&world, limit, "never seen");
        snapshot_compare(&before, world.store);
    }
}

static void unlimited_admits_everything_and_keeps_nothing(void **state)
{
    (void)state;
    const uint32_t limit = world_add(&world, limit_of(CAUDAL_UNLIMITED, 0, 0));
    struct snapshot before = snapshot_take(world.store);
    static const uint64_t costs[] = {0, 1, UINT64_MAX};
    for (size_t i = 0; i < COUNT_OF(costs); i++) {
        struct caudal_decision decision = take(&world, limit, "key", costs[i]);
        assert_int_equal(decision.verdict, CAUDAL_ALLOW);
        assert_int_equal(decision.granted, costs[i]);
        assert_true(decision.remaining == UINT64_MAX && decision.capacity == UINT64_MAX);
        assert_int_equal(decision.reset_after_ns, 0);
        decision = peek(&world, limit, "key", costs[i]);
        assert_int_equal(decision.verdict, CAUDAL_ALLOW);
        assert_int_equal(decision.granted, 0);
        assert_int_equal(take_up_to(&world, limit, "key", 0, costs[i]).granted, costs[i]);
        refund(&world, limit, "key", costs[i]);
    }
    reset(&world, limit, "key");
    snapshot_compare(&before, world.store);
    assert_int_equal(stats_of(&world).inserted, 0);
}

/* A request that is refused, and so is not charged, takes no room from anybody. The pool of log entries is full to the
 * last chunk here. */
static void a_refused_request_of_a_log_forgets_nobody(void **state)
{
    (void)state;
    const struct cdl_wide_stripe *stripe = cdl_memory_store(world.store)->wide.stripes;
    const uint32_t limit = world_add(&world, limit_of(CAUDAL_SLIDING_LOG, CAUDAL_LOG_COUNT_MAX, HOUR));
    for (int i = 0; stripe->pool.free_count > 0; i++) {
        world_advance(&world, 1);
        take(&world, limit, i < (int)CAUDAL_LOG_COUNT_MAX ? "a" : "b", 1);
    }
    const uint64_t others = left(&world, limit, "b");
    assert_int_equal(left(&world, limit, "a"), 0);
    assert_true(others < 100);
    struct snapshot before = snapshot_take(world.store);
    assert_int_equal(take(&world, limit, "a", 1).verdict, CAUDAL_DENY);
    assert_int_equal(take(&world, limit, "a", CAUDAL_LOG_COUNT_MAX + 1).verdict, CAUDAL_NEVER);
    assert_int_equal(take(&world, limit, "c", CAUDAL_LOG_COUNT_MAX + 1).verdict, CAUDAL_NEVER);
    assert_int_equal(take(&world, limit, "c", 0).verdict, CAUDAL_ALLOW);
    assert_int_equal(left(&world, limit, "b"), others);
    snapshot_compare(&before, world.store);
}

/* ---- keys ---- */

struct bytes {
    const void *bytes;
    size_t length;
};

static void C75_every_key_of_any_bytes_has_a_state_of_its_own(void **state)
{
    (void)state;
    static char long_a[CAUDAL_KEY_MAX], long_b[CAUDAL_KEY_MAX], long_c[CAUDAL_KEY_MAX];
    memset(long_a, 'x', sizeof long_a);
    memset(long_b, 'x', sizeof long_b);
    memset(long_c, 'x', sizeof long_c);
    long_b[sizeof long_b - 1] = 'y';
    long_c[0] = 'y';
    const struct bytes keys[] = {
        {"", 0},
        {"\0", 1},
        {"\0\0", 2},
        {"a", 1},
        {"a\0", 2},
        {"a\0b", 3},
        {"a\0c", 3},
        {" ", 1},
        {"  ", 2},
        {"a\r\n", 3},
        {"a\n", 2},
        {"A", 1},
        {"\xf0\x9f\x98\x80", 4},
        {"\xff\xfe", 2},
        {"\xff", 1},
        {long_a, sizeof long_a},
        {long_b, sizeof long_b},
        {long_c, sizeof long_c},
        {long_a, sizeof long_a - 1},
    };
    world_close(&world);
    world_open(&world, "memory:?keys=1000");
    for (size_t k = 0; k < KINDS; k++) {
        const uint32_t limit = world_add_kind(&world, &kinds[k]);
        struct caudal_decision decision;
        for (size_t i = 0; i < COUNT_OF(keys); i++)
            for (size_t j = 0; j <= i % 9; j++)
                assert_int_equal(
                    caudal_take(world.store, limit, keys[i].bytes, keys[i].length, kinds[k].unit, &decision),
                    CAUDAL_OK);
        for (size_t i = 0; i < COUNT_OF(keys); i++) {
            assert_int_equal(caudal_peek(world.store, limit, keys[i].bytes, keys[i].length, 0, &decision), CAUDAL_OK);
            assert_int_equal(decision.remaining, (9 - i % 9) * kinds[k].unit);
        }
        assert_int_equal(caudal_peek(world.store, limit, NULL, 0, 0, &decision), CAUDAL_OK); /* the empty key again */
        assert_int_equal(decision.remaining, 9 * kinds[k].unit);
    }
}

static void one_key_under_two_limits_is_two_states(void **state)
{
    (void)state;
    for (size_t k = 0; k < KINDS; k++) {
        const uint32_t a = world_add_kind(&world, &kinds[k]), b = world_add_kind(&world, &kinds[k]);
        take(&world, a, "key", 10 * kinds[k].unit);
        assert_int_equal(left(&world, b, "key"), 10 * kinds[k].unit);
    }
}

/* Each limit has a salt of its own: one popular key does not fill two lines with its hundred states. */
static void a_hundred_limits_on_one_key_do_not_crowd_each_other_out(void **state)
{
    (void)state;
    world_close(&world);
    world_open(&world, "memory:?keys=1000");
    uint32_t limits[100];
    for (size_t i = 0; i < COUNT_OF(limits); i++)
        limits[i] = world_add(&world, i % 2 == 0 ? bucket_of(10, 10, HOUR) : limit_of(CAUDAL_SLIDING_WINDOW, 10, HOUR));
    for (size_t i = 0; i < COUNT_OF(limits); i++)
        take(&world, limits[i], "key", 1 + i % 10);
    for (size_t i = 0; i < COUNT_OF(limits); i++)
        assert_int_equal(left(&world, limits[i], "key"), 9 - i % 10);
    assert_int_equal(stats_of(&world).live_evictions, 0);
    assert_int_equal(stats_of(&world).live_keys, 100);
}

/* ---- time ---- */

static void years_of_idling_make_a_key_as_new(void **state)
{
    (void)state;
    static const int64_t idle[] = {10 * YEAR, 50 * YEAR, 100 * YEAR, 290 * YEAR};
    for (size_t k = 0; k < KINDS; k++)
        for (size_t i = 0; i < COUNT_OF(idle); i++)
            for (int64_t start = -1; start <= 0; start++) { /* before 1970, and after */
                const uint32_t limit = world_add_kind(&world, &kinds[k]);
                world_set_time(&world, start * 150 * YEAR);
                take(&world, limit, "key", 10 * kinds[k].unit);
                world_advance(&world, idle[i]);
                const struct caudal_decision later = peek(&world, limit, "key", 0);
                assert_int_equal(later.remaining, 10 * kinds[k].unit);
                assert_int_equal(later.reset_after_ns, 0);
                assert_int_equal(take(&world, limit, "key", 10 * kinds[k].unit).verdict, CAUDAL_ALLOW);
                assert_int_equal(take(&world, limit, "key", 1).verdict, CAUDAL_DENY);
                assert_int_equal(caudal_remove_limit(world.store, limit), CAUDAL_OK);
            }
}

static void five_hundred_years_make_a_key_as_new(void **state)
{
    (void)state;
    for (size_t k = 0; k < KINDS; k++) {
        const uint32_t limit = world_add_kind(&world, &kinds[k]);
        world_set_time(&world, -280 * YEAR);
        take(&world, limit, "key", 10 * kinds[k].unit);
        world_set_time(&world, 220 * YEAR);
        assert_int_equal(take(&world, limit, "key", 10 * kinds[k].unit).verdict, CAUDAL_ALLOW);
        assert_int_equal(take(&world, limit, "key", 1).verdict, CAUDAL_DENY);
    }
}

/* Whatever a store keeps modulo a power of two would show here. */
static void no_idle_time_makes_an_old_state_current(void **state)
{
    (void)state;
    for (size_t k = 0; k < KINDS; k++)
        for (int bit = 0; bit < 63; bit++)
            for (int64_t off = -1; off <= 1; off++) {
                const int64_t period = (int64_t)kinds[k].limit.period_ns;
                const int64_t lengths[] = {INT64_C(1) << bit, bit < 62 ? (INT64_C(1) << bit) * 3 / 2 : 0,
                                           INT64_MAX / period >> bit > 0 ? period << bit : 0};
                for (size_t i = 0; i < COUNT_OF(lengths); i++) {
                    const int64_t idle = lengths[i] + off;
                    if (idle < kinds[k].horizon_ns || idle > 580 * (YEAR / 2))
                        continue;
                    const uint32_t limit = world_add_kind(&world, &kinds[k]);
                    const int64_t start = -290 * YEAR - 290 * YEAR % period;
                    world_set_time(&world, start);
                    take(&world, limit, "key", 10 * kinds[k].unit);
                    world_set_time(&world, start + idle);
                    assert_int_equal(left(&world, limit, "key"), 10 * kinds[k].unit);
                    assert_int_equal(take(&world, limit, "key", 10 * kinds[k].unit).verdict, CAUDAL_ALLOW);
                    assert_int_equal(take(&world, limit, "key", 1).verdict, CAUDAL_DENY);
                    assert_int_equal(caudal_remove_limit(world.store, limit), CAUDAL_OK);
                }
            }
}

/* A clock that counts how often it is read, and whose two readings differ. */
struct two_clocks {
    struct caudal_clock clock;
    int64_t monotonic_ns, realtime_ns;
    unsigned reads;
};

static int64_t read_monotonic(void *context)
{
    struct two_clocks *clocks = context;
    clocks->reads++;
    return clocks->monotonic_ns;
}

static int64_t read_realtime(void *context)
{
    struct two_clocks *clocks = context;
    clocks->reads++;
    return clocks->realtime_ns;
}

static struct caudal_store *open_on(struct two_clocks *clocks)
{
    *clocks = (struct two_clocks){
        .clock = {sizeof clocks->clock, clocks, read_monotonic, read_realtime},
        .monotonic_ns = 77,
        .realtime_ns = EPOCH,
    };
    const struct caudal_store_options options = {.size = sizeof options, .clock = &clocks->clock};
    struct caudal_store *store;
    assert_int_equal(caudal_store_open(SMALL, &options, &store, NULL), CAUDAL_OK);
    return store;
}

static void windows_go_by_the_real_time_and_the_others_by_the_monotonic(void **state)
{
    (void)state;
    struct two_clocks clocks;
    struct caudal_store *store = open_on(&clocks);
    for (size_t k = 0; k < KINDS; k++) {
        uint32_t limit;
        struct caudal_decision decision;
        const bool window = kinds[k].layout == CDL_LAYOUT_WINDOW || kinds[k].layout == CDL_LAYOUT_WIDE_WINDOW;
        assert_int_equal(caudal_add_limit(store, kinds[k].name, &kinds[k].limit, &limit, NULL), CAUDAL_OK);
        assert_int_equal(caudal_take(store, limit, "key", 3, 10 * kinds[k].unit, &decision), CAUDAL_OK);
        int64_t *const its = window ? &clocks.realtime_ns : &clocks.monotonic_ns;
        int64_t *const not_its = window ? &clocks.monotonic_ns : &clocks.realtime_ns;
        *not_its += DAY;
        assert_int_equal(caudal_peek(store, limit, "key", 3, 0, &decision), CAUDAL_OK);
        assert_int_equal(decision.remaining, 0);
        *its += DAY;
        assert_int_equal(caudal_peek(store, limit, "key", 3, 0, &decision), CAUDAL_OK);
        assert_int_equal(decision.remaining, 10 * kinds[k].unit);
    }
    caudal_store_close(store);
}

/* Reading the clock costs about as much as a decision: a call reads each of the two at most once, however much it decides,
 * and once more for each key that comes in. */
static void a_call_reads_each_clock_at_most_once(void **state)
{
    (void)state;
    struct two_clocks clocks;
    struct caudal_store *store = open_on(&clocks);
    struct caudal_request requests[60];
    struct caudal_decision decisions[60], overall;
    uint32_t limits[KINDS];
    for (size_t k = 0; k < KINDS; k++)
        assert_int_equal(caudal_add_limit(store, kinds[k].name, &kinds[k].limit, &limits[k], NULL), CAUDAL_OK);
    for (size_t i = 0; i < COUNT_OF(requests); i++)
        requests[i] = (struct caudal_request){limits[i % KINDS], "key", 3, 1};
    clocks.reads = 0;
    assert_int_equal(caudal_take_batch(store, requests, COUNT_OF(requests), decisions), CAUDAL_OK);
    assert_true(clocks.reads <= 2 + 2 * KINDS); /* as many keys came in */
    clocks.reads = 0;
    assert_int_equal(caudal_take_batch(store, requests, COUNT_OF(requests), decisions), CAUDAL_OK);
    assert_true(clocks.reads <= 2);
    clocks.reads = 0;
    assert_int_equal(caudal_take_all(store, requests, COUNT_OF(requests), decisions, &overall), CAUDAL_OK);
    assert_true(clocks.reads <= 2);
    clocks.reads = 0;
    for (size_t k = 0; k < KINDS; k++)
        assert_int_equal(caudal_take(store, limits[k], "key", 3, 1, &decisions[0]), CAUDAL_OK);
    assert_true(clocks.reads <= 2 * KINDS);
    clocks.reads = 0;
    assert_int_equal(caudal_take_at(store, limits[0], "key", 3, 1, 5, &decisions[0]), CAUDAL_OK);
    assert_int_equal(caudal_take_batch_at(store, requests, COUNT_OF(requests), 5, decisions), CAUDAL_OK);
    assert_int_equal(clocks.reads, 0);
    caudal_store_close(store);
}

static void a_callers_time_stands_for_both_clocks(void **state)
{
    (void)state;
    world_set_time(&world, 290 * YEAR); /* not looked at */
    for (size_t k = 0; k < KINDS; k++) {
        const uint32_t limit = world_add_kind(&world, &kinds[k]);
        const uint64_t unit = kinds[k].unit;
        struct caudal_decision decision;
        assert_int_equal(caudal_take_at(world.store, limit, "key", 3, 9 * unit, EPOCH, &decision), CAUDAL_OK);
        assert_int_equal(caudal_take_up_to_at(world.store, limit, "key", 3, 0, 9 * unit, EPOCH, &decision), CAUDAL_OK);
        assert_int_equal(decision.granted, unit);
        assert_int_equal(caudal_peek_at(world.store, limit, "key", 3, 1, EPOCH, &decision), CAUDAL_OK);
        assert_int_equal(decision.verdict, CAUDAL_DENY);
        assert_int_equal(caudal_refund_at(world.store, limit, "key", 3, 4 * unit, EPOCH, &decision), CAUDAL_OK);
        assert_int_equal(decision.remaining, 4 * unit);
        const int64_t later = EPOCH + kinds[k].horizon_ns;
        assert_int_equal(caudal_peek_at(world.store, limit, "key", 3, 0, later, &decision), CAUDAL_OK);
        assert_int_equal(decision.remaining, 10 * unit);
    }
}

/* ---- many at once, and all of them ---- */

/* Two stores, one asked singly and one in batches of every length: the same answers, with limits and keys in any order. */
static void a_batch_answers_as_single_takes_would(void **state)
{
    (void)state;
    struct world single;
    world_open(&single, SMALL);
    uint32_t ours[KINDS], theirs[KINDS];
    for (size_t k = 0; k < KINDS; k++) {
        ours[k] = world_add_kind(&world, &kinds[k]);
        theirs[k] = world_add_kind(&single, &kinds[k]);
    }
    struct rng rng = {1};
    static char keys[4][2] = {"a", "b", "c", "d"};
    int64_t now = EPOCH;
    for (int round = 0; round < 400; round++) {
        struct caudal_request requests[40];
        struct caudal_decision decisions[40], decision;
        const size_t count = rng_below(&rng, 41);
        size_t k = 0;
        for (size_t i = 0; i < count; i++) {
            k = rng_below(&rng, 3) == 0 ? rng_below(&rng, KINDS) : k; /* runs of one limit, too */
            requests[i] = (struct caudal_request){ours[k], keys[rng_below(&rng, 4)], 1,
                                                  rng_below(&rng, 4) * kinds[k].unit};
        }
        assert_int_equal(caudal_take_batch_at(world.store, requests, count, now, decisions), CAUDAL_OK);
        for (size_t i = 0; i < count; i++) {
            size_t of = 0;
            while (ours[of] != requests[i].limit)
                of++;
            assert_int_equal(
                caudal_take_at(single.store, theirs[of], requests[i].key, 1, requests[i].cost, now, &decision),
                CAUDAL_OK);
            assert_same_decision(decisions[i], decision);
        }
        now += (int64_t)rng_magnitude(&rng, (uint64_t)HOUR);
    }
    world_close(&single);
}

static void stats_follow_what_is_alive(void **state)
{
    (void)state;
    for (size_t k = 0; k < KINDS; k++) {
        const uint32_t limit = world_add_kind(&world, &kinds[k]);
        const uint64_t inserted = stats_of(&world).inserted;
        take(&world, limit, "a", kinds[k].unit);
        take(&world, limit, "a", kinds[k].unit);
        take(&world, limit, "b", kinds[k].unit);
        take(&world, limit, "c", 0);
        assert_int_equal(stats_of(&world).live_keys, 2);
        assert_int_equal(stats_of(&world).inserted, inserted + 2);
        assert_int_equal(stats_of(&world).limits, k + 1);
        const int64_t last = peek(&world, limit, "a", 0).reset_after_ns;
        world_advance(&world, last - 1);
        assert_true(stats_of(&world).live_keys >= 1);
        world_advance(&world, 1);
        assert_int_equal(stats_of(&world).live_keys, 0);
        world_set_time(&world, EPOCH);
        reset(&world, limit, "a");
        reset(&world, limit, "b");
    }
}

/* C97: what a key costs is the same for a limit of ten and one of a million. */
static void C97_bytes_per_key_do_not_depend_on_the_limit(void **state)
{
    (void)state;
    static const uint64_t counts[] = {10, 70000, 1000000, UINT64_C(1) << 40};
    static const enum caudal_algorithm algorithms[] = {CAUDAL_TOKEN_BUCKET, CAUDAL_FIXED_WINDOW, CAUDAL_SLIDING_WINDOW};
    uint64_t bytes = 0;
    for (size_t a = 0; a < COUNT_OF(algorithms); a++)
        for (size_t i = 0; i < COUNT_OF(counts); i++) {
            struct world one;
            world_open(&one, "memory:?keys=2000&wide_keys=2000");
            const uint32_t limit = world_add(&one, limit_of(algorithms[a], counts[i], i < 3 ? DAY : 365 * DAY));
            for (int key = 0; key < 1000; key++) {
                char name[16];
                snprintf(name, sizeof name, "%d", key);
                for (int j = 0; j < 10; j++)
                    assert_int_equal(take(&one, limit, name, counts[i] / 10).verdict, CAUDAL_ALLOW);
            }
            const struct caudal_store_stats stats = stats_of(&one);
            assert_int_equal(stats.live_keys, 1000);
            assert_int_equal(stats.inserted, 1000); /* one entry a key, however much it holds */
            assert_true(bytes == 0 || stats.bytes == bytes);
            bytes = stats.bytes;
            world_close(&one);
        }
    struct caudal_limit log = limit_of(CAUDAL_SLIDING_LOG, 70000, DAY); /* an exact log is not offered for so many */
    assert_int_equal(caudal_limit_check(&log, NULL), CAUDAL_ERR_LIMIT);
}

#define IN_SMALL(test) cmocka_unit_test_setup_teardown(test, open_small, close_small)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_vector_file_is_met_through_the_store),
        IN_SMALL(ten_units_are_admitted_and_no_more),
        IN_SMALL(a_peek_changes_no_byte),
        IN_SMALL(a_peek_at_any_time_changes_no_byte),
        IN_SMALL(a_refusal_changes_no_byte),
        IN_SMALL(take_up_to_gives_what_there_is_but_not_less_than_the_least),
        IN_SMALL(a_refund_gives_back_up_to_what_was_spent),
        IN_SMALL(a_refund_to_a_key_never_seen_changes_no_byte),
        IN_SMALL(C105_a_reset_forgets_all_of_one_key_and_nothing_of_others),
        IN_SMALL(a_reset_of_a_key_never_seen_changes_no_byte),
        IN_SMALL(unlimited_admits_everything_and_keeps_nothing),
        IN_SMALL(a_refused_request_of_a_log_forgets_nobody),
        IN_SMALL(C75_every_key_of_any_bytes_has_a_state_of_its_own),
        IN_SMALL(one_key_under_two_limits_is_two_states),
        IN_SMALL(a_hundred_limits_on_one_key_do_not_crowd_each_other_out),
        IN_SMALL(years_of_idling_make_a_key_as_new),
        IN_SMALL(five_hundred_years_make_a_key_as_new),
        IN_SMALL(no_idle_time_makes_an_old_state_current),
        IN_SMALL(windows_go_by_the_real_time_and_the_others_by_the_monotonic),
        IN_SMALL(a_call_reads_each_clock_at_most_once),
        IN_SMALL(a_callers_time_stands_for_both_clocks),
        IN_SMALL(a_batch_answers_as_single_takes_would),
        IN_SMALL(stats_follow_what_is_alive),
        IN_SMALL(C97_bytes_per_key_do_not_depend_on_the_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
