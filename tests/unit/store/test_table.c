/* The table of narrow entries by itself: where a key may live, what makes room for it, and that nothing else is touched. */
#include "store/table.h"

#include <stdlib.h>

#include "../support.h"

/* An entry's state is the time it has left: the judge just reads it. */
static int64_t time_left(void *context, uint64_t tag, uint64_t state)
{
    (void)context;
    assert_int_not_equal(tag, 0); /* an empty entry is nobody's to judge */
    return (int64_t)state;
}

static const struct cdl_table_judge judge = {time_left, NULL};

static struct cdl_table open_table(uint64_t keys)
{
    struct cdl_table table;
    assert_true(cdl_table_open(&table, keys, cdl_allocator_default()));
    return table;
}

static void close_table(struct cdl_table *table)
{
    cdl_table_close(table, cdl_allocator_default());
}

static struct cdl_key_hash random_hash(struct rng *rng)
{
    const uint64_t low = rng_next(rng);
    return (struct cdl_key_hash){low, rng_next(rng)};
}

/* ---- opening ---- */

static void a_table_holds_21_bytes_for_each_key(void **state)
{
    (void)state;
    static const uint64_t keys[] = {1, 2, 7, 100, 1000, 1000000};
    for (size_t i = 0; i < COUNT_OF(keys); i++) {
        struct cdl_table table = open_table(keys[i]);
        const uint64_t bytes = table.line_count * sizeof(struct cdl_table_line);
        assert_true(bytes >= 21 * keys[i]);
        assert_true(bytes < 21 * keys[i] + 2 * sizeof(struct cdl_table_line));
        assert_true(table.line_count * CDL_LINE_ENTRIES >= keys[i]);
        close_table(&table);
    }
}

static void lines_are_cache_lines(void **state)
{
    (void)state;
    struct cdl_table table = open_table(1000);
    assert_int_equal(sizeof *table.lines, 64);
    assert_int_equal((uintptr_t)table.lines % 64, 0);
    assert_int_equal((uintptr_t)table.stripes % 64, 0);
    close_table(&table);
}

static void a_table_that_cannot_be_had_holds_nothing(void **state)
{
    (void)state;
    struct counting_allocator counting;
    for (long fail_at = 0;; fail_at++) {
        counting_allocator_init(&counting);
        counting.fail_at = fail_at;
        struct cdl_table table;
        const bool opened = cdl_table_open(&table, 1000, &counting.allocator);
        if (opened)
            cdl_table_close(&table, &counting.allocator);
        assert_int_equal(counting.live_blocks, 0);
        if (opened)
            break;
        assert_true(fail_at < 10);
    }
    assert_true(counting.calls >= 2);
}

/* ---- placing ---- */

static void a_place_is_two_different_lines_of_the_table(void **state)
{
    (void)state;
    static const uint64_t sizes[] = {1, 7, 100, 1000, 12345};
    struct rng rng = {1};
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        struct cdl_table table = open_table(sizes[i]);
        for (int j = 0; j < 20000; j++) {
            const struct cdl_table_place place = cdl_table_place(&table, random_hash(&rng), rng_next(&rng));
            assert_ptr_not_equal(place.lines[0], place.lines[1]);
            for (int k = 0; k < 2; k++)
                assert_in_range(place.lines[k] - table.lines, 0, table.line_count - 1);
            assert_in_range(place.stripe - table.stripes, 0, table.stripe_count - 1);
            assert_int_equal(place.fingerprint & UINT16_MAX, 0);
        }
        close_table(&table);
    }
}

static void a_place_depends_on_hash_and_salt_alone(void **state)
{
    (void)state;
    struct cdl_table table = open_table(1000);
    struct rng rng = {2};
    const struct cdl_key_hash hash = random_hash(&rng);
    const struct cdl_table_place a = cdl_table_place(&table, hash, 5), b = cdl_table_place(&table, hash, 5);
    assert_memory_equal(&a, &b, sizeof a);
    close_table(&table);
}

static void places_are_spread_evenly(void **state)
{
    (void)state;
    struct cdl_table table = open_table(1000);
    struct rng rng = {3};
    const uint64_t lines = table.line_count, keys = lines * 1000;
    uint32_t *hits = calloc(lines, sizeof *hits);
    for (uint64_t i = 0; i < keys; i++) {
        const struct cdl_table_place place = cdl_table_place(&table, random_hash(&rng), 12345);
        hits[place.lines[0] - table.lines]++;
        hits[place.lines[1] - table.lines]++;
    }
    for (uint64_t i = 0; i < lines; i++)
        assert_in_range(hits[i], 1750, 2250); /* 2000, whose deviation is 45 */
    free(hits);
    close_table(&table);
}

/* One key under many limits: their salts send it to lines all over the table. */
static void salts_spread_one_key(void **state)
{
    (void)state;
    struct cdl_table table = open_table(1000);
    struct rng rng = {4};
    const struct cdl_key_hash hash = random_hash(&rng);
    uint32_t *hits = calloc(table.line_count, sizeof *hits);
    uint32_t most = 0;
    for (int i = 0; i < 100; i++) {
        const struct cdl_table_place place = cdl_table_place(&table, hash, rng_next(&rng));
        const uint32_t count = ++hits[place.lines[0] - table.lines];
        most = count > most ? count : most;
    }
    assert_true(most <= 4);
    free(hits);
    close_table(&table);
}

/* ---- finding and claiming ---- */

/* Eight empty entries to claim from: the two lines of one place. */
struct nest {
    struct cdl_table_line lines[2];
    struct cdl_table_stripe stripe;
    struct cdl_table_place place;
};

static struct nest *nest_at(void *memory)
{
    struct nest *nest = memory;
    memset(nest, 0, sizeof *nest);
    nest->place = (struct cdl_table_place){.lines = {&nest->lines[0], &nest->lines[1]}, .stripe = &nest->stripe};
    return nest;
}

static _Alignas(64) char nest_memory[sizeof(struct nest)];

static struct cdl_pair *entry_of(struct nest *nest, int i)
{
    return &nest->lines[i / CDL_LINE_ENTRIES].entries[i % CDL_LINE_ENTRIES];
}

static void claim(struct nest *nest, uint64_t tag, uint64_t left_ns)
{
    cdl_table_claim(&nest->place, (struct cdl_pair){tag, left_ns}, &judge);
}

static void fill(struct nest *nest, const uint64_t left_ns[8])
{
    for (int i = 0; i < 8; i++)
        *entry_of(nest, i) = (struct cdl_pair){100 + (uint64_t)i, left_ns[i]};
}

static int index_of(struct nest *nest, uint64_t tag)
{
    int found = -1;
    for (int i = 0; i < 8; i++)
        if (entry_of(nest, i)->first == tag) {
            assert_int_equal(found, -1); /* once */
            found = i;
        }
    return found;
}

static void a_tag_is_found_in_each_of_the_eight_entries(void **state)
{
    (void)state;
    struct nest *nest = nest_at(nest_memory);
    for (int i = 0; i < 8; i++) {
        memset(nest->lines, 0, sizeof nest->lines);
        *entry_of(nest, i) = (struct cdl_pair){UINT64_C(0xABCD0001), 5};
        assert_ptr_equal(cdl_table_find(&nest->place, UINT64_C(0xABCD0001)), entry_of(nest, i));
        assert_null(cdl_table_find(&nest->place, UINT64_C(0xABCD0002)));         /* another limit */
        assert_null(cdl_table_find(&nest->place, UINT64_C(0x1ABCD0001)));        /* another key */
        assert_null(cdl_table_find(&nest->place, UINT64_C(0x80000000ABCD0001))); /* in its highest bit */
    }
}

static void eight_keys_find_room_and_are_counted(void **state)
{
    (void)state;
    struct nest *nest = nest_at(nest_memory);
    for (uint64_t tag = 1; tag <= 8; tag++)
        claim(nest, tag, 1000);
    for (uint64_t tag = 1; tag <= 8; tag++)
        assert_int_not_equal(index_of(nest, tag), -1);
    assert_int_equal(nest->stripe.inserted, 8);
    assert_int_equal(nest->stripe.live_evictions, 0);
}

static void keys_go_to_the_line_with_more_room(void **state)
{
    (void)state;
    struct nest *nest = nest_at(nest_memory);
    for (uint64_t tag = 1; tag <= 8; tag++) {
        claim(nest, tag, 1000);
        int used[2] = {0};
        for (int i = 0; i < 8; i++)
            used[i / CDL_LINE_ENTRIES] += entry_of(nest, i)->first != 0;
        assert_true(abs(used[0] - used[1]) <= 1);
    }
}

/* An entry that has expired is as much room as an empty one. A table that has run for a while has no empty ones: if keys
 * went to the first line that has any room then, lines would fill up long before the table does. */
static void expired_entries_count_as_room_when_a_line_is_chosen(void **state)
{
    (void)state;
    struct nest *nest = nest_at(nest_memory);
    for (int line = 0; line < 2; line++)
        for (int expired = 0; expired < CDL_LINE_ENTRIES; expired++) {
            uint64_t left_ns[8] = {0};
            for (int i = expired; i < CDL_LINE_ENTRIES; i++)
                left_ns[line * CDL_LINE_ENTRIES + i] = 1000; /* the other line has four to give */
            fill(nest, left_ns);
            claim(nest, 7, 1000);
            assert_int_equal(index_of(nest, 7) / CDL_LINE_ENTRIES, 1 - line);
        }
}

static void an_expired_entry_makes_room_and_no_living_one_does(void **state)
{
    (void)state;
    struct nest *nest = nest_at(nest_memory);
    for (int expired = 0; expired < 8; expired++) {
        uint64_t left_ns[8] = {1, 1, 1, 1, 1, 1, 1, 1};
        left_ns[expired] = 0;
        fill(nest, left_ns);
        nest->stripe.live_evictions = 0;
        claim(nest, 7, 1000);
        assert_int_equal(index_of(nest, 7), expired);
        assert_int_equal(nest->stripe.live_evictions, 0);
        for (int i = 0; i < 8; i++)
            if (i != expired)
                assert_int_equal(entry_of(nest, i)->first, 100 + i);
    }
}

static void when_all_are_alive_the_one_nearest_to_full_is_forgotten(void **state)
{
    (void)state;
    struct nest *nest = nest_at(nest_memory);
    for (int nearest = 0; nearest < 8; nearest++) {
        uint64_t left_ns[8] = {900, 800, 1000, 700, INT64_MAX, 501, 502, 503};
        left_ns[nearest] = 500;
        fill(nest, left_ns);
        nest->stripe.live_evictions = 0;
        claim(nest, 7, 1); /* however soon it will be full itself */
        assert_int_equal(index_of(nest, 7), nearest);
        assert_int_equal(nest->stripe.live_evictions, 1);
    }
}

/* Keys that come and go at random: each is there once, and a forgotten one is one that was nearest. */
static void a_key_never_owns_two_entries(void **state)
{
    (void)state;
    struct nest *nest = nest_at(nest_memory);
    struct rng rng = {5};
    for (int i = 0; i < 100000; i++) {
        const uint64_t tag = 1 + rng_below(&rng, 20);
        struct cdl_pair *entry = cdl_table_find(&nest->place, tag);
        if (entry == NULL)
            claim(nest, tag, rng_below(&rng, 5));
        else
            entry->second = rng_below(&rng, 5);
        assert_int_not_equal(index_of(nest, tag), -1); /* fails when there are two */
    }
}

/* ---- sweeping and counting ---- */

static struct cdl_pair double_state(void *context, struct cdl_pair entry)
{
    ++*(int *)context;
    return (struct cdl_pair){entry.first, entry.second * 2};
}

static struct cdl_pair renumber(void *context, struct cdl_pair entry)
{
    (void)context;
    return (struct cdl_pair){(entry.first & ~(uint64_t)UINT16_MAX) | 9, entry.second};
}

static struct cdl_pair drop(void *context, struct cdl_pair entry)
{
    (void)context;
    (void)entry;
    return (struct cdl_pair){0, 0};
}

static uint64_t count_number(const struct cdl_table *table, uint16_t number)
{
    uint64_t count = 0;
    for (uint64_t i = 0; i < table->line_count * CDL_LINE_ENTRIES; i++)
        count += table->lines[i / CDL_LINE_ENTRIES].entries[i % CDL_LINE_ENTRIES].first % (UINT16_MAX + 1) == number;
    return count;
}

static void a_sweep_meets_every_entry_of_its_number_once_and_no_other(void **state)
{
    (void)state;
    struct cdl_table table = open_table(1000);
    const uint64_t entries = table.line_count * CDL_LINE_ENTRIES;
    for (uint64_t i = 0; i < entries; i++)
        table.lines[i / CDL_LINE_ENTRIES].entries[i % CDL_LINE_ENTRIES] = (struct cdl_pair){i << 16 | (1 + i % 3), 21};
    const uint64_t twos = count_number(&table, 2);
    int calls = 0;
    cdl_table_sweep(&table, 2, double_state, &calls);
    assert_int_equal(calls, twos);
    for (uint64_t i = 0; i < entries; i++)
        assert_int_equal(table.lines[i / CDL_LINE_ENTRIES].entries[i % CDL_LINE_ENTRIES].second,
                         1 + i % 3 == 2 ? 42 : 21);
    cdl_table_sweep(&table, 2, renumber, NULL);
    assert_int_equal(count_number(&table, 2), 0);
    assert_int_equal(count_number(&table, 9), twos);
    cdl_table_sweep(&table, 9, drop, NULL);
    assert_int_equal(count_number(&table, 0), twos);
    assert_int_equal(count_number(&table, 1) + count_number(&table, 3), entries - twos);
    close_table(&table);
}

static void counting_adds_up_what_matters_and_what_happened(void **state)
{
    (void)state;
    struct cdl_table table = open_table(10000);
    struct rng rng = {6};
    for (int i = 0; i < 500; i++) {
        const struct cdl_table_place place = cdl_table_place(&table, random_hash(&rng), 0);
        cdl_table_claim(&place, (struct cdl_pair){place.fingerprint | 1, i < 200 ? 0 : 5}, &judge);
    }
    uint64_t live = 0, inserted = 0, evictions = 0;
    cdl_table_count(&table, &judge, &live, &inserted, &evictions);
    assert_int_equal(live, 300);
    assert_int_equal(inserted, 500);
    assert_int_equal(evictions, 0);
    close_table(&table);
}

/* A table takes as many living keys as it was opened for and forgets few of them: about one in seventy. */
static void a_full_table_forgets_few(void **state)
{
    (void)state;
    struct cdl_table table = open_table(100000);
    struct rng rng = {7};
    for (int i = 0; i < 100000; i++) {
        const struct cdl_table_place place = cdl_table_place(&table, random_hash(&rng), 0);
        cdl_table_claim(&place, (struct cdl_pair){place.fingerprint | 1, 1 + rng_below(&rng, 1000)}, &judge);
    }
    uint64_t live = 0, inserted = 0, evictions = 0;
    cdl_table_count(&table, &judge, &live, &inserted, &evictions);
    assert_int_equal(live + evictions, 100000);
    assert_true(evictions < 2000);
    close_table(&table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_table_holds_21_bytes_for_each_key),
        cmocka_unit_test(lines_are_cache_lines),
        cmocka_unit_test(a_table_that_cannot_be_had_holds_nothing),
        cmocka_unit_test(a_place_is_two_different_lines_of_the_table),
        cmocka_unit_test(a_place_depends_on_hash_and_salt_alone),
        cmocka_unit_test(places_are_spread_evenly),
        cmocka_unit_test(salts_spread_one_key),
        cmocka_unit_test(a_tag_is_found_in_each_of_the_eight_entries),
        cmocka_unit_test(eight_keys_find_room_and_are_counted),
        cmocka_unit_test(keys_go_to_the_line_with_more_room),
        cmocka_unit_test(expired_entries_count_as_room_when_a_line_is_chosen),
        cmocka_unit_test(an_expired_entry_makes_room_and_no_living_one_does),
        cmocka_unit_test(when_all_are_alive_the_one_nearest_to_full_is_forgotten),
        cmocka_unit_test(a_key_never_owns_two_entries),
        cmocka_unit_test(a_sweep_meets_every_entry_of_its_number_once_and_no_other),
        cmocka_unit_test(counting_adds_up_what_matters_and_what_happened),
        cmocka_unit_test(a_full_table_forgets_few),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
