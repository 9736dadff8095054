/* The sliding log as a pure function: vectors, the edges of chunks, the pool's accounts, and undoing.
 *
 * Every test ends by clearing its log and counting the pool: no chunk may be lost or given back twice. */
#include "algorithm/sliding_log.h"

#include <stdlib.h>

#include "../support.h"
#include "../vectors.h"

#define CHUNKS 4096u

/* One key's log, and a pool that is all its own. */
struct key {
    struct cdl_log_rule rule;
    struct cdl_log log;
    struct cdl_log_pool pool;
};

static struct cdl_log_chunk *chunks;

static int make_chunks(void **state)
{
    (void)state;
    chunks = aligned_alloc(64, CHUNKS * sizeof *chunks);
    return chunks == NULL ? -1 : 0;
}

static int free_chunks(void **state)
{
    (void)state;
    free(chunks);
    return 0;
}

static struct key key_of(uint64_t count, int64_t period_ns)
{
    struct key key = {.rule = {count, period_ns}};
    memset(chunks, 0xa5, CHUNKS * sizeof *chunks); /* a chunk's old content means nothing */
    cdl_log_pool_init(&key.pool, chunks, CHUNKS);
    return key;
}

static uint32_t chunks_used(const struct key *key)
{
    return CHUNKS - 1 - key->pool.free_count;
}

/* The chunks of the list of free ones, each once, and those never touched make up what the pool says is free. */
static void assert_pool_adds_up(const struct key *key)
{
    uint32_t listed = 0;
    for (uint32_t chunk = key->pool.free; chunk != 0; chunk = key->pool.chunks[chunk].newer) {
        assert_in_range(chunk, 1, key->pool.untouched - 1);
        assert_true(++listed < CHUNKS);
    }
    assert_int_equal(listed + (key->pool.count - key->pool.untouched), key->pool.free_count);
}

/* The log's own accounts: chunks linked both ways, instants in order, no empty entry, the total as the sum. */
static void assert_log_adds_up(const struct key *key)
{
    const struct cdl_log *log = &key->log;
    uint32_t older = 0, used = 0;
    uint64_t total = 0;
    int64_t last = INT64_MIN;
    for (uint32_t chunk = log->oldest; chunk != 0; older = chunk, chunk = chunks[chunk].newer, used++) {
        if (older != 0)
            assert_int_equal(chunks[chunk].older, older);
        const uint32_t begin = chunk == log->oldest ? log->begin : 0;
        const uint32_t end = chunk == log->newest ? log->end : CDL_LOG_CHUNK_ENTRIES;
        assert_true(begin < end);
        for (uint32_t i = begin; i < end; i++) {
            assert_true(chunks[chunk].when[i] >= last);
            assert_true(chunks[chunk].cost[i] > 0);
            last = chunks[chunk].when[i];
            total += chunks[chunk].cost[i];
        }
    }
    assert_int_equal(older, log->newest);
    assert_int_equal(total, log->total);
    assert_int_equal(used, chunks_used(key));
    assert_pool_adds_up(key);
}

static void clear(struct key *key)
{
    assert_log_adds_up(key);
    cdl_log_clear(&key->log, &key->pool);
    assert_int_equal(key->pool.free_count, CHUNKS - 1);
    assert_pool_adds_up(key);
    const struct cdl_log empty = {0};
    assert_memory_equal(&key->log, &empty, sizeof empty);
}

static struct caudal_decision ask(struct key *key, int64_t now, struct cdl_question question)
{
    struct caudal_decision decision = {0};
    cdl_log_decide(&key->rule, now, &key->log, &key->pool, &question, &decision);
    return decision;
}

static struct caudal_decision take_from(struct key *key, int64_t now, uint64_t cost)
{
    return ask(key, now, cdl_question_take(cost));
}

static uint64_t room(struct key *key, int64_t now)
{
    return ask(key, now, cdl_question_peek(0)).remaining;
}

static struct caudal_decision give_back(struct key *key, int64_t now, uint64_t tokens)
{
    return ask(key, now, (struct cdl_question){CDL_REFUND, 0, tokens, 0, 0, NULL});
}

static void undo(struct key *key, int64_t now, uint64_t tokens)
{
    ask(key, now, (struct cdl_question){CDL_UNDO, 0, tokens, now, now, NULL});
}

/* ---- vectors ---- */

static void begin(void *context, const struct caudal_limit *limits, size_t count)
{
    struct key *key = context;
    assert_int_equal(count, 1);
    if (key->pool.count != 0)
        clear(key);
    *key = key_of(limits[0].count, (int64_t)limits[0].period_ns);
}

static void play(void *context, const struct vector_step *step)
{
    struct key *key = context;
    struct caudal_decision decision = {0};
    switch (step->action) {
    case VECTOR_TAKE:
        decision = take_from(key, step->now_ns, step->amount);
        break;
    case VECTOR_PEEK:
        decision = ask(key, step->now_ns, cdl_question_peek(step->amount));
        break;
    case VECTOR_REFUND:
        give_back(key, step->now_ns, step->amount);
        break;
    case VECTOR_SET:
        key->rule = (struct cdl_log_rule){step->limit.count, (int64_t)step->limit.period_ns};
        break;
    }
    assert_log_adds_up(key);
    if (step->has_want)
        vectors_check(step, &step->want[0], &decision, 0);
}

static void play_file(const char *file)
{
    struct key key = {0};
    const struct vector_player player = {begin, play, &key};
    vectors_play(file, CAUDAL_SLIDING_LOG, &player);
    clear(&key);
}

static void vectors_by_hand_are_met(void **state)
{
    (void)state;
    play_file("named.us.jsonl");
}

static void random_vectors_are_met(void **state)
{
    (void)state;
    play_file("random.sliding_log.us.jsonl");
}

/* ---- time ---- */

static void an_entry_aged_one_period_is_out_and_not_before(void **state)
{
    (void)state;
    struct key key = key_of(1, SECOND);
    assert_int_equal(take_from(&key, 0, 1).verdict, CAUDAL_ALLOW);
    const struct caudal_decision denied = take_from(&key, SECOND - 1, 1);
    assert_int_equal(denied.verdict, CAUDAL_DENY);
    assert_int_equal(denied.retry_after_ns, 1);
    assert_int_equal(take_from(&key, SECOND, 1).verdict, CAUDAL_ALLOW);
    assert_int_equal(take_from(&key, SECOND + 1, 1).retry_after_ns, SECOND - 1);
    clear(&key);
}

static void a_wait_ends_when_enough_entries_are_out(void **state)
{
    (void)state;
    struct key key = key_of(10, SECOND);
    for (int64_t i = 0; i < 5; i++)
        take_from(&key, i * 100 * MILLISECOND, 2);
    for (uint64_t cost = 1; cost <= 10; cost++) {
        const int64_t now = 500 * MILLISECOND;
        const struct caudal_decision denied = take_from(&key, now, cost);
        assert_int_equal(denied.verdict, CAUDAL_DENY);
        assert_int_equal(denied.retry_after_ns, SECOND + (int64_t)((cost + 1) / 2 - 1) * 100 * MILLISECOND - now);
        assert_int_equal(ask(&key, now + denied.retry_after_ns, cdl_question_peek(cost)).verdict, CAUDAL_ALLOW);
        assert_int_equal(ask(&key, now + denied.retry_after_ns - 1, cdl_question_peek(cost)).verdict, CAUDAL_DENY);
    }
    clear(&key);
}

static void a_clock_set_back_counts_entries_from_ahead_as_made_now(void **state)
{
    (void)state;
    struct key key = key_of(10, SECOND);
    take_from(&key, 100 * SECOND, 4);
    take_from(&key, 100 * SECOND + 1, 4);
    const struct caudal_decision denied = take_from(&key, 50 * SECOND, 3);
    assert_int_equal(denied.remaining, 2);
    assert_int_equal(denied.retry_after_ns, SECOND);
    take_from(&key, 50 * SECOND, 1); /* an admission writes what time it is: the others are from now, too */
    assert_log_adds_up(&key);
    assert_int_equal(room(&key, 51 * SECOND - 1), 1);
    assert_int_equal(room(&key, 51 * SECOND), 10);
    clear(&key);
}

static void a_refusal_does_not_touch_entries_from_ahead(void **state)
{
    (void)state;
    struct key key = key_of(4, SECOND);
    take_from(&key, 100 * SECOND, 4);
    assert_int_equal(take_from(&key, 50 * SECOND, 1).verdict, CAUDAL_DENY);
    assert_int_equal(room(&key, 100 * SECOND + SECOND - 1), 0);
    assert_int_equal(room(&key, 101 * SECOND), 4);
    clear(&key);
}

static void a_log_works_at_the_ends_of_time(void **state)
{
    (void)state;
    static const int64_t ends[] = {INT64_MIN, INT64_MIN + 1, -1, 0, INT64_MAX - 1, INT64_MAX};
    static const int64_t periods[] = {1, SECOND, (int64_t)CAUDAL_REFILL_MAX_NS};
    for (size_t p = 0; p < COUNT_OF(periods); p++)
        for (size_t i = 0; i < COUNT_OF(ends); i++)
            for (size_t j = 0; j < COUNT_OF(ends); j++) {
                struct key key = key_of(1, periods[p]);
                assert_int_equal(take_from(&key, ends[i], 1).reset_after_ns, periods[p]);
                const struct caudal_decision later = ask(&key, ends[j], cdl_question_peek(1));
                const bool passed = (cdl_i128)ends[j] - ends[i] >= periods[p];
                assert_int_equal(later.verdict, passed ? CAUDAL_ALLOW : CAUDAL_DENY);
                assert_in_range(later.retry_after_ns, 0, periods[p]);
                take_from(&key, ends[j], 1);
                clear(&key);
            }
}

/* ---- chunks ---- */

/* Logs of every length around the edges of chunks, filled and emptied entry by entry. */
static void a_log_takes_a_chunk_for_every_five_entries(void **state)
{
    (void)state;
    for (int64_t entries = 1; entries <= 17; entries++) {
        struct key key = key_of(100, SECOND);
        for (int64_t i = 0; i < entries; i++) {
            take_from(&key, i, 1);
            assert_int_equal(chunks_used(&key), (uint32_t)i / CDL_LOG_CHUNK_ENTRIES + 1);
            assert_log_adds_up(&key);
        }
        for (int64_t i = entries; i > 0; i--) {
            give_back(&key, entries, 1);
            assert_int_equal(chunks_used(&key), ((uint32_t)i - 1 + CDL_LOG_CHUNK_ENTRIES - 1) / CDL_LOG_CHUNK_ENTRIES);
            assert_log_adds_up(&key);
        }
        clear(&key);
    }
}

static void charges_at_one_instant_share_an_entry(void **state)
{
    (void)state;
    struct key key = key_of(CAUDAL_LOG_COUNT_MAX, SECOND);
    for (unsigned i = 0; i < CAUDAL_LOG_COUNT_MAX; i++)
        assert_int_equal(take_from(&key, 7, 1).remaining, CAUDAL_LOG_COUNT_MAX - 1 - i);
    assert_int_equal(chunks_used(&key), 1);
    assert_int_equal(take_from(&key, 7, 1).verdict, CAUDAL_DENY);
    clear(&key);
}

/* For any number of dead entries at the old end and live ones behind them. */
static void an_admission_drops_the_dead_and_no_other(void **state)
{
    (void)state;
    for (int64_t dead = 0; dead <= 11; dead++)
        for (int64_t live = 0; live <= 11; live++) {
            struct key key = key_of(1000, SECOND);
            for (int64_t i = 0; i < dead; i++)
                take_from(&key, i, 1);
            for (int64_t i = 0; i < live; i++)
                take_from(&key, SECOND / 2 + i, 2);
            assert_int_equal(take_from(&key, SECOND + SECOND / 4, 3).remaining, 1000 - 3 - 2 * live);
            assert_log_adds_up(&key);
            assert_int_equal(key.log.total, 3 + 2 * live);
            clear(&key);
        }
}

static void a_log_of_ten_thousand_entries_slides_within_its_chunks(void **state)
{
    (void)state;
    const int64_t count = CAUDAL_LOG_COUNT_MAX;
    struct key key = key_of(CAUDAL_LOG_COUNT_MAX, count);
    for (int64_t now = 0; now < 3 * count + 3; now++) {
        assert_int_equal(take_from(&key, now, 1).verdict, CAUDAL_ALLOW);
        assert_true(chunks_used(&key) <= CAUDAL_LOG_COUNT_MAX / CDL_LOG_CHUNK_ENTRIES + 1);
        if (now % 997 == 0) {
            assert_int_equal(room(&key, now), now < count ? count - 1 - now : 0);
            assert_log_adds_up(&key);
        }
    }
    clear(&key);
}

static void logs_share_a_pool_without_mixing(void **state)
{
    (void)state;
    struct key shared = key_of(200, SECOND);
    struct cdl_log logs[3] = {{0}};
    uint64_t spent[3] = {0};
    struct rng rng = {1};
    for (int64_t now = 0; now < 3000; now++) {
        const size_t which = rng_below(&rng, 3);
        const uint64_t tokens = rng_magnitude(&rng, 20);
        const bool taking = rng_below(&rng, 3) > 0;
        const struct cdl_question question = {.operation = taking ? CDL_TAKE : CDL_REFUND, .maximum = tokens};
        struct caudal_decision decision;
        cdl_log_decide(&shared.rule, now, &logs[which], &shared.pool, &question, &decision);
        spent[which] += decision.granted;
        if (!taking)
            spent[which] -= cdl_min_u64(tokens, spent[which]);
        for (size_t i = 0; i < COUNT_OF(logs); i++)
            assert_int_equal(logs[i].total, spent[i]);
    }
    for (size_t i = 0; i < COUNT_OF(logs); i++)
        cdl_log_clear(&logs[i], &shared.pool);
    clear(&shared);
}

/* ---- questions ---- */

static void a_cost_above_the_count_is_never(void **state)
{
    (void)state;
    struct key key = key_of(3, SECOND);
    assert_int_equal(take_from(&key, 0, 4).verdict, CAUDAL_NEVER);
    assert_int_equal(take_from(&key, 0, UINT64_MAX).retry_after_ns, -1);
    assert_int_equal(take_from(&key, 0, 3).verdict, CAUDAL_ALLOW);
    clear(&key);
}

static void a_count_of_zero_admits_nothing(void **state)
{
    (void)state;
    struct key key = key_of(0, SECOND);
    assert_int_equal(take_from(&key, 0, 1).verdict, CAUDAL_NEVER);
    assert_int_equal(take_from(&key, 0, 0).verdict, CAUDAL_ALLOW);
    assert_int_equal(chunks_used(&key), 0);
    clear(&key);
}

static void neither_a_peek_nor_a_refusal_changes_a_byte(void **state)
{
    (void)state;
    struct key key = key_of(10, SECOND);
    for (int64_t i = 0; i < 10; i++)
        take_from(&key, i * 100 * MILLISECOND, 1);
    const struct key before = key;
    struct cdl_log_chunk *copy = malloc(CHUNKS * sizeof *copy);
    memcpy(copy, chunks, CHUNKS * sizeof *copy);
    for (int64_t now = -SECOND; now < 2 * SECOND; now += 50 * MILLISECOND)
        for (uint64_t cost = 0; cost <= 12; cost++) {
            ask(&key, now, cdl_question_peek(cost));
            if (ask(&key, now, cdl_question_peek(cost)).verdict != CAUDAL_ALLOW)
                take_from(&key, now, cost);
        }
    assert_memory_equal(&key, &before, sizeof key);
    assert_memory_equal(copy, chunks, CHUNKS * sizeof *copy);
    free(copy);
    clear(&key);
}

static void take_up_to_gives_what_there_is_but_not_less_than_the_least(void **state)
{
    (void)state;
    struct key key = key_of(10, SECOND);
    assert_int_equal(ask(&key, 0, (struct cdl_question){CDL_TAKE, 1, 7, 0, 0, NULL}).granted, 7);
    assert_int_equal(ask(&key, 1, (struct cdl_question){CDL_TAKE, 4, 7, 0, 0, NULL}).verdict, CAUDAL_DENY);
    assert_int_equal(ask(&key, 1, (struct cdl_question){CDL_TAKE, 3, UINT64_MAX, 0, 0, NULL}).granted, 3);
    assert_int_equal(ask(&key, 2, (struct cdl_question){CDL_TAKE, 0, 5, 0, 0, NULL}).granted, 0);
    clear(&key);
}

static void a_refund_gives_back_the_newest_first(void **state)
{
    (void)state;
    struct key key = key_of(10, SECOND);
    take_from(&key, 0, 5);
    take_from(&key, SECOND / 2, 5);
    assert_int_equal(give_back(&key, SECOND / 2, 6).remaining, 6); /* all of the second, one of the first */
    assert_int_equal(ask(&key, SECOND / 2, cdl_question_peek(0)).reset_after_ns, SECOND / 2);
    assert_int_equal(give_back(&key, SECOND / 2, UINT64_MAX).remaining, 10);
    assert_int_equal(chunks_used(&key), 0);
    clear(&key);
}

static void a_lowered_count_refuses_and_a_raised_one_admits_the_rest(void **state)
{
    (void)state;
    struct key key = key_of(10, SECOND);
    for (int64_t i = 0; i < 10; i++)
        take_from(&key, i, 1);
    key.rule.count = 4;
    const struct caudal_decision denied = take_from(&key, 10, 0);
    assert_int_equal(denied.verdict, CAUDAL_DENY);
    assert_int_equal(denied.remaining, 0);
    assert_int_equal(denied.retry_after_ns, SECOND + 5 - 10); /* six have to go */
    key.rule.count = 15;
    assert_int_equal(room(&key, 10), 5);
    clear(&key);
}

/* ---- undoing ---- */

static void an_undo_restores_the_log(void **state)
{
    (void)state;
    struct rng rng = {2};
    struct key key = key_of(100, SECOND);
    for (int64_t now = 0; now < 20 * SECOND; now += (int64_t)rng_magnitude(&rng, SECOND / 4)) {
        const struct caudal_decision before = ask(&key, now, cdl_question_peek(0));
        const uint64_t cost = rng_below(&rng, before.remaining + 1);
        take_from(&key, now, cost);
        undo(&key, now, cost);
        assert_log_adds_up(&key);
        assert_same_decision(ask(&key, now, cdl_question_peek(0)), before);
        take_from(&key, now, rng_below(&rng, 10));
    }
    clear(&key);
}

/* Other callers have written since: what they wrote stays as it is, whatever chunk it is in. */
static void an_undo_takes_its_own_charge_out_from_among_others(void **state)
{
    (void)state;
    for (int64_t older = 0; older <= 7; older++)
        for (int64_t newer = 0; newer <= 12; newer++) {
            struct key key = key_of(100, SECOND);
            for (int64_t i = 0; i < older; i++)
                take_from(&key, i, 1);
            take_from(&key, 100, 3);
            for (int64_t i = 0; i < newer; i++)
                take_from(&key, 200 + i, 1);
            undo(&key, 100, 3);
            assert_log_adds_up(&key);
            assert_int_equal(key.log.total, older + newer);
            /* Each of them leaves at its own instant. */
            for (int64_t i = 0; i < older; i++) {
                assert_int_equal(room(&key, SECOND + i - 1), 100 - (uint64_t)(older + newer - i));
                assert_int_equal(room(&key, SECOND + i), 100 - (uint64_t)(older + newer - i - 1));
            }
            for (int64_t i = 0; i < newer; i++) {
                assert_int_equal(room(&key, SECOND + 200 + i - 1), 100 - (uint64_t)(newer - i));
                assert_int_equal(room(&key, SECOND + 200 + i), 100 - (uint64_t)(newer - i - 1));
            }
            clear(&key);
        }
}

static void an_undo_leaves_what_else_was_charged_at_its_instant(void **state)
{
    (void)state;
    struct key key = key_of(100, SECOND);
    take_from(&key, 100, 3);
    take_from(&key, 100, 4);
    take_from(&key, 200, 5);
    undo(&key, 100, 3);
    assert_int_equal(room(&key, 200), 91);
    assert_int_equal(room(&key, SECOND + 100), 95);
    assert_int_equal(room(&key, SECOND + 200), 100);
    clear(&key);
}

static void an_undo_of_a_charge_that_has_expired_does_nothing(void **state)
{
    (void)state;
    struct key key = key_of(100, SECOND);
    take_from(&key, 0, 3);
    take_from(&key, 2 * SECOND, 5);
    undo(&key, 0, 3);
    assert_int_equal(room(&key, 2 * SECOND), 95);
    clear(&key);
}

static void the_time_to_empty_is_the_reset_of_a_peek(void **state)
{
    (void)state;
    struct key key = key_of(10, SECOND);
    assert_int_equal(cdl_log_time_to_empty(&key.rule, 0, &key.log, &key.pool), 0);
    take_from(&key, 0, 1);
    take_from(&key, 300, 1);
    for (int64_t now = 300; now < SECOND + 600; now += 100)
        assert_int_equal(cdl_log_time_to_empty(&key.rule, now, &key.log, &key.pool),
                         ask(&key, now, cdl_question_peek(0)).reset_after_ns);
    clear(&key);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(vectors_by_hand_are_met),
        cmocka_unit_test(random_vectors_are_met),
        cmocka_unit_test(an_entry_aged_one_period_is_out_and_not_before),
        cmocka_unit_test(a_wait_ends_when_enough_entries_are_out),
        cmocka_unit_test(a_clock_set_back_counts_entries_from_ahead_as_made_now),
        cmocka_unit_test(a_refusal_does_not_touch_entries_from_ahead),
        cmocka_unit_test(a_log_works_at_the_ends_of_time),
        cmocka_unit_test(a_log_takes_a_chunk_for_every_five_entries),
        cmocka_unit_test(charges_at_one_instant_share_an_entry),
        cmocka_unit_test(an_admission_drops_the_dead_and_no_other),
        cmocka_unit_test(a_log_of_ten_thousand_entries_slides_within_its_chunks),
        cmocka_unit_test(logs_share_a_pool_without_mixing),
        cmocka_unit_test(a_cost_above_the_count_is_never),
        cmocka_unit_test(a_count_of_zero_admits_nothing),
        cmocka_unit_test(neither_a_peek_nor_a_refusal_changes_a_byte),
        cmocka_unit_test(take_up_to_gives_what_there_is_but_not_less_than_the_least),
        cmocka_unit_test(a_refund_gives_back_the_newest_first),
        cmocka_unit_test(a_lowered_count_refuses_and_a_raised_one_admits_the_rest),
        cmocka_unit_test(an_undo_restores_the_log),
        cmocka_unit_test(an_undo_takes_its_own_charge_out_from_among_others),
        cmocka_unit_test(an_undo_leaves_what_else_was_charged_at_its_instant),
        cmocka_unit_test(an_undo_of_a_charge_that_has_expired_does_nothing),
        cmocka_unit_test(the_time_to_empty_is_the_reset_of_a_peek),
    };
    return cmocka_run_group_tests(tests, make_chunks, free_chunks);
}
