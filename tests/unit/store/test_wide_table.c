/* The table of wide records by itself: chains, making room, and chunks for logs. */
#include "store/wide_table.h"

#include "../support.h"

#define LOG_NUMBER 1000u /* limits of this number keep logs, the others windows */

/* A window's `current` is the time it has left; a log has as much left as it has spent. */
static int64_t time_left(void *context, const struct cdl_wide_record *record, const struct cdl_log_pool *pool)
{
    (void)context;
    (void)pool;
    return record->number == LOG_NUMBER ? (int64_t)record->log.total : (int64_t)record->window.current;
}

static const struct cdl_wide_judge judge = {time_left, NULL};
static const struct cdl_log_rule log_rule = {CAUDAL_LOG_COUNT_MAX, DAY};

static struct cdl_wide_table open_table(uint64_t keys, uint64_t log_entries)
{
    struct cdl_wide_table table;
    assert_true(cdl_wide_open(&table, keys, log_entries, cdl_allocator_default()));
    return table;
}

static void close_table(struct cdl_wide_table *table)
{
    cdl_wide_close(table, cdl_allocator_default());
}

static struct cdl_key_hash hash_of(uint64_t key)
{
    struct rng rng = {key};
    const uint64_t low = rng_next(&rng);
    return (struct cdl_key_hash){low, rng_next(&rng)};
}

static struct cdl_wide_record *find(struct cdl_wide_table *table, uint64_t key, uint16_t number)
{
    return cdl_wide_find(table, cdl_wide_stripe(table, hash_of(key)), hash_of(key), number);
}

static struct cdl_wide_record *insert(struct cdl_wide_table *table, uint64_t key, uint16_t number, uint64_t left_ns)
{
    struct cdl_wide_record *record = cdl_wide_insert(table, cdl_wide_stripe(table, hash_of(key)), hash_of(key), number,
                                                     number == LOG_NUMBER ? CDL_WIDE_LOG : CDL_WIDE_WINDOW, &judge);
    assert_int_equal(record->window.current, 0); /* zeroed */
    record->window.current = left_ns;
    return record;
}

/* Spends one at each of `entries` instants. */
static void spend(struct cdl_wide_stripe *stripe, struct cdl_wide_record *record, int64_t entries)
{
    const struct cdl_question one = cdl_question_take(1);
    for (int64_t i = 0; i < entries; i++) {
        struct caudal_decision decision;
        assert_true(stripe->pool.free_count > 0 || i % CDL_LOG_CHUNK_ENTRIES > 0);
        cdl_log_decide(&log_rule, i, &record->log, &stripe->pool, &one, &decision);
        assert_int_equal(decision.verdict, CAUDAL_ALLOW);
    }
}

static struct caudal_store_stats count(struct cdl_wide_table *table)
{
    struct caudal_store_stats stats = {0};
    cdl_wide_count(table, &judge, &stats.live_keys, &stats.inserted, &stats.live_evictions);
    return stats;
}

/* ---- opening ---- */

static void a_table_that_cannot_be_had_holds_nothing(void **state)
{
    (void)state;
    struct counting_allocator counting;
    for (long fail_at = 0;; fail_at++) {
        counting_allocator_init(&counting);
        counting.fail_at = fail_at;
        struct cdl_wide_table table;
        const bool opened = cdl_wide_open(&table, 100, 100, &counting.allocator);
        if (opened)
            cdl_wide_close(&table, &counting.allocator);
        assert_int_equal(counting.live_blocks, 0);
        if (opened)
            break;
        assert_true(fail_at < 10);
    }
    assert_true(counting.calls >= 4);
}

static void there_is_room_for_as_many_keys_as_were_asked_for(void **state)
{
    (void)state;
    static const uint64_t keys[] = {1, 2, 100, 1024, 62500};
    static const uint64_t log_entries[] = {1, 65536, 1000000};
    for (size_t i = 0; i < COUNT_OF(keys); i++)
        for (size_t j = 0; j < COUNT_OF(log_entries); j++) {
            struct cdl_wide_table table = open_table(keys[i], log_entries[j]);
            assert_true((uint64_t)table.stripe_count * (table.records_per_stripe - 1) >= keys[i]);
            assert_true((uint64_t)table.stripe_count * (table.chunks_per_stripe - 1) * CDL_LOG_CHUNK_ENTRIES >=
                        log_entries[j]);
            close_table(&table);
        }
}

/* ---- chains ---- */

static void a_record_is_found_by_key_and_number(void **state)
{
    (void)state;
    struct cdl_wide_table table = open_table(100, 1);
    struct cdl_wide_record *record = insert(&table, 1, 5, 77);
    assert_ptr_equal(find(&table, 1, 5), record);
    assert_null(find(&table, 1, 6));
    assert_null(find(&table, 2, 5));
    close_table(&table);
}

/* Chains of any length, with records taken out of their middle. */
static void every_record_of_a_full_table_is_found_again(void **state)
{
    (void)state;
    struct cdl_wide_table table = open_table(1000, 1);
    assert_int_equal(table.stripe_count, 1);
    for (uint64_t key = 0; key < 1000; key++)
        insert(&table, key, (uint16_t)(1 + key % 7), key + 1);
    for (uint64_t key = 0; key < 1000; key += 3)
        cdl_wide_remove(&table, table.stripes, find(&table, key, (uint16_t)(1 + key % 7)));
    for (uint64_t key = 0; key < 1000; key++) {
        const struct cdl_wide_record *record = find(&table, key, (uint16_t)(1 + key % 7));
        if (key % 3 == 0)
            assert_null(record);
        else
            assert_int_equal(record->window.current, key + 1);
    }
    assert_int_equal(count(&table).live_keys, 666);
    for (uint64_t key = 0; key < 1000; key += 3)
        insert(&table, key, 9, 1);
    assert_int_equal(count(&table).live_keys, 1000);
    assert_int_equal(count(&table).live_evictions, 0);
    close_table(&table);
}

/* All 128 bits of the hash and the number tell records apart, also within one chain. */
static void records_that_differ_in_one_bit_are_two(void **state)
{
    (void)state;
    struct cdl_wide_table table = open_table(1000, 1);
    const struct cdl_key_hash hash = hash_of(1);
    cdl_wide_insert(&table, table.stripes, hash, 1, CDL_WIDE_WINDOW, &judge);
    for (int bit = 0; bit < 128; bit++) {
        struct cdl_key_hash other = hash;
        if (bit < 64)
            other.low ^= UINT64_C(1) << bit;
        else
            other.high ^= UINT64_C(1) << (bit - 64);
        assert_null(cdl_wide_find(&table, table.stripes, other, 1));
        cdl_wide_insert(&table, table.stripes, other, 1, CDL_WIDE_WINDOW, &judge);
        assert_non_null(cdl_wide_find(&table, table.stripes, other, 1));
    }
    for (uint16_t bit = 1; bit < 16; bit++)
        assert_null(cdl_wide_find(&table, table.stripes, hash, (uint16_t)(1 | 1 << bit)));
    close_table(&table);
}

/* ---- making room ---- */

static void a_record_that_does_not_matter_makes_room(void **state)
{
    (void)state;
    struct cdl_wide_table table = open_table(10, 1);
    for (uint64_t key = 0; key < 10; key++)
        insert(&table, key, 1, key == 7 ? 0 : 100);
    insert(&table, 50, 1, 100);
    assert_null(find(&table, 7, 1));
    for (uint64_t key = 0; key < 10; key++)
        if (key != 7)
            assert_non_null(find(&table, key, 1));
    assert_int_equal(count(&table).live_evictions, 0);
    assert_int_equal(count(&table).inserted, 11);
    close_table(&table);
}

static void when_all_matter_the_one_with_least_time_left_is_forgotten(void **state)
{
    (void)state;
    struct cdl_wide_table table = open_table(10, 1);
    for (uint64_t key = 0; key < 10; key++)
        insert(&table, key, 1, 100 + (key + 5) % 10);
    insert(&table, 50, 1, 1);
    assert_null(find(&table, 5, 1));
    assert_int_equal(count(&table).live_evictions, 1);
    assert_int_equal(count(&table).live_keys, 10);
    close_table(&table);
}

static void room_can_be_made_for_ever(void **state)
{
    (void)state;
    struct cdl_wide_table table = open_table(10, 1);
    struct rng rng = {1};
    for (uint64_t key = 0; key < 10000; key++)
        if (find(&table, key % 50, 1) == NULL)
            insert(&table, key % 50, 1, rng_below(&rng, 3));
    uint64_t found = 0;
    for (uint64_t key = 0; key < 50; key++)
        found += find(&table, key, 1) != NULL;
    assert_int_equal(found, 10);
    close_table(&table);
}

static void a_table_for_one_key_holds_the_last(void **state)
{
    (void)state;
    struct cdl_wide_table table = open_table(1, 1);
    for (uint64_t key = 0; key < 100; key++) {
        insert(&table, key, 1, 5);
        assert_non_null(find(&table, key, 1));
        if (key > 0)
            assert_null(find(&table, key - 1, 1));
    }
    assert_int_equal(count(&table).live_evictions, 99);
    close_table(&table);
}

/* ---- chunks ---- */

static void a_removed_log_gives_its_chunks_back(void **state)
{
    (void)state;
    struct cdl_wide_table table = open_table(10, 1);
    struct cdl_wide_stripe *stripe = table.stripes;
    const uint32_t all = stripe->pool.free_count;
    spend(stripe, insert(&table, 1, LOG_NUMBER, 0), 123);
    assert_int_equal(stripe->pool.free_count, all - 25);
    cdl_wide_remove(&table, stripe, find(&table, 1, LOG_NUMBER));
    assert_int_equal(stripe->pool.free_count, all);
    close_table(&table);
}

static void a_log_that_is_forgotten_gives_its_chunks_back(void **state)
{
    (void)state;
    struct cdl_wide_table table = open_table(3, 1);
    struct cdl_wide_stripe *stripe = table.stripes;
    const uint32_t all = stripe->pool.free_count;
    for (uint64_t key = 0; key < 100; key++) {
        spend(stripe, insert(&table, key, LOG_NUMBER, 0), 17);
        assert_int_equal(stripe->pool.free_count, all - 4 * (key < 3 ? (uint32_t)key + 1 : 3));
    }
    close_table(&table);
}

/* The longest log there can be fits however small the table was asked to be, and keeps fitting as it slides. */
static void a_log_of_ten_thousand_entries_fits_the_smallest_table(void **state)
{
    (void)state;
    struct cdl_wide_table table = open_table(1, 1);
    struct cdl_wide_stripe *stripe = table.stripes;
    struct cdl_wide_record *record = insert(&table, 1, LOG_NUMBER, 0);
    const struct cdl_log_rule rule = {CAUDAL_LOG_COUNT_MAX, CAUDAL_LOG_COUNT_MAX};
    for (int64_t now = 0; now < 3 * (int64_t)CAUDAL_LOG_COUNT_MAX; now++) {
        const struct cdl_question one = cdl_question_take(1);
        struct caudal_decision decision;
        cdl_wide_reserve_chunk(&table, stripe, record, &judge);
        assert_true(stripe->pool.free_count > 0);
        cdl_log_decide(&rule, now, &record->log, &stripe->pool, &one, &decision);
        assert_int_equal(decision.verdict, CAUDAL_ALLOW);
    }
    close_table(&table);
}

static void a_chunk_is_reserved_by_forgetting_the_log_with_least_time_left(void **state)
{
    (void)state;
    struct cdl_wide_table table = open_table(10, 1);
    struct cdl_wide_stripe *stripe = table.stripes;
    spend(stripe, insert(&table, 1, LOG_NUMBER, 0), 3000);
    insert(&table, 2, 1, 1);          /* a window has no chunks to give */
    insert(&table, 3, LOG_NUMBER, 0); /* nor has an empty log */
    struct cdl_wide_record *asking = insert(&table, 4, LOG_NUMBER, 0);
    spend(stripe, asking, 5);
    spend(stripe, insert(&table, 5, LOG_NUMBER, 0), 9000);
    spend(stripe, insert(&table, 6, LOG_NUMBER, 0), (int64_t)stripe->pool.free_count * CDL_LOG_CHUNK_ENTRIES);
    assert_int_equal(stripe->pool.free_count, 0);

    cdl_wide_reserve_chunk(&table, stripe, asking, &judge);
    assert_true(stripe->pool.free_count > 0);
    assert_null(find(&table, 1, LOG_NUMBER));
    for (uint64_t key = 2; key <= 6; key++)
        assert_non_null(find(&table, key, key == 2 ? 1 : LOG_NUMBER));
    assert_int_equal(count(&table).live_evictions, 1);
    close_table(&table);
}

static void a_chunk_that_is_there_is_reserved_for_nothing(void **state)
{
    (void)state;
    struct cdl_wide_table table = open_table(10, 1);
    spend(table.stripes, insert(&table, 1, LOG_NUMBER, 0), 9000);
    cdl_wide_reserve_chunk(&table, table.stripes, NULL, &judge);
    assert_non_null(find(&table, 1, LOG_NUMBER));
    close_table(&table);
}

/* ---- whole numbers ---- */

static void dropping_a_number_drops_its_records_and_no_others(void **state)
{
    (void)state;
    struct cdl_wide_table table = open_table(2000, 1000000);
    assert_true(table.stripe_count > 1);
    for (uint64_t key = 0; key < 1000; key++)
        insert(&table, key, (uint16_t)(1 + key % 2), 1);
    cdl_wide_drop(&table, 1);
    for (uint64_t key = 0; key < 1000; key++)
        assert_int_equal(find(&table, key, (uint16_t)(1 + key % 2)) != NULL, key % 2 == 1);
    assert_int_equal(count(&table).live_keys, 500);
    close_table(&table);
}

static void dropping_logs_gives_all_their_chunks_back(void **state)
{
    (void)state;
    struct cdl_wide_table table = open_table(2000, 1000000);
    for (uint64_t key = 0; key < 200; key++)
        spend(cdl_wide_stripe(&table, hash_of(key)), insert(&table, key, LOG_NUMBER, 0), 11);
    cdl_wide_drop(&table, LOG_NUMBER);
    for (uint32_t i = 0; i < table.stripe_count; i++)
        assert_int_equal(table.stripes[i].pool.free_count, table.chunks_per_stripe - 1);
    assert_int_equal(count(&table).live_keys, 0);
    close_table(&table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_table_that_cannot_be_had_holds_nothing),
        cmocka_unit_test(there_is_room_for_as_many_keys_as_were_asked_for),
        cmocka_unit_test(a_record_is_found_by_key_and_number),
        cmocka_unit_test(every_record_of_a_full_table_is_found_again),
        cmocka_unit_test(records_that_differ_in_one_bit_are_two),
        cmocka_unit_test(a_record_that_does_not_matter_makes_room),
        cmocka_unit_test(when_all_matter_the_one_with_least_time_left_is_forgotten),
        cmocka_unit_test(room_can_be_made_for_ever),
        cmocka_unit_test(a_table_for_one_key_holds_the_last),
        cmocka_unit_test(a_removed_log_gives_its_chunks_back),
        cmocka_unit_test(a_log_that_is_forgotten_gives_its_chunks_back),
        cmocka_unit_test(a_log_of_ten_thousand_entries_fits_the_smallest_table),
        cmocka_unit_test(a_chunk_is_reserved_by_forgetting_the_log_with_least_time_left),
        cmocka_unit_test(a_chunk_that_is_there_is_reserved_for_nothing),
        cmocka_unit_test(dropping_a_number_drops_its_records_and_no_others),
        cmocka_unit_test(dropping_logs_gives_all_their_chunks_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
