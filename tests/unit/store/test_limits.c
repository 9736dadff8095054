/* The registry of limits: names, ids that die with their limit, numbers that come back, views, and packed windows. */
#include "store/limits.h"

#include "../support.h"

#define MOST CDL_LIMITS_MAX

static const struct caudal_allocator *allocator;

static int use_default_allocator(void **state)
{
    (void)state;
    allocator = cdl_allocator_default();
    return 0;
}

static struct cdl_limits *open_limits(void)
{
    struct cdl_limits *limits = cdl_limits_open(allocator);
    assert_non_null(limits);
    return limits;
}

static struct cdl_limit_slot *add(struct cdl_limits *limits, const char *name, uint32_t *id)
{
    int status = 1;
    struct cdl_limit_slot *slot = cdl_limits_add(limits, allocator, name, id, &status);
    assert_int_equal(status, CAUDAL_OK);
    assert_non_null(slot);
    return slot;
}

static const char *name_of(unsigned i)
{
    static char name[32];
    snprintf(name, sizeof name, "limit %u", i);
    return name;
}

/* ---- names and ids ---- */

static void a_name_leads_to_its_slot_until_it_is_removed(void **state)
{
    (void)state;
    struct cdl_limits *limits = open_limits();
    uint32_t a, b;
    struct cdl_limit_slot *slot_a = add(limits, "a", &a), *slot_b = add(limits, "b", &b);
    assert_ptr_equal(cdl_limits_slot(limits, (uint32_t)cdl_limits_by_name(limits, "a")), slot_a);
    assert_ptr_equal(cdl_limits_find(limits, b), slot_b);
    assert_int_equal(cdl_limits_by_name(limits, "c"), -1);
    assert_int_equal(cdl_limits_by_name(limits, ""), -1);
    cdl_limits_remove(limits, slot_a, a);
    assert_int_equal(cdl_limits_by_name(limits, "a"), -1);
    assert_int_equal(cdl_limits_by_name(limits, ""), -1);
    assert_int_not_equal(cdl_limits_by_name(limits, "b"), -1);
    cdl_limits_close(limits, allocator);
}

/* More names than buckets, so that chains have several links, some of which are taken out. */
static void names_that_share_a_bucket_do_not_disturb_each_other(void **state)
{
    (void)state;
    struct cdl_limits *limits = open_limits();
    enum {
        NAMES = 3 * CDL_NAME_BUCKETS
    };
    static uint32_t ids[NAMES];
    for (unsigned i = 0; i < NAMES; i++)
        add(limits, name_of(i), &ids[i]);
    for (unsigned i = 0; i < NAMES; i += 2)
        cdl_limits_remove(limits, cdl_limits_find(limits, ids[i]), ids[i]);
    for (unsigned i = 0; i < NAMES; i++)
        assert_int_equal(cdl_limits_by_name(limits, name_of(i)) >= 0, i % 2 == 1);
    assert_int_equal(limits->count, NAMES / 2);
    cdl_limits_close(limits, allocator);
}

static void an_id_is_never_0_and_never_given_twice_in_a_row(void **state)
{
    (void)state;
    struct cdl_limits *limits = open_limits();
    uint32_t last = 0;
    for (int i = 0; i < 3 * UINT16_MAX; i++) { /* the slot is used again each time, longer than its generation counts */
        uint32_t id = 0;
        struct cdl_limit_slot *slot = add(limits, "a", &id);
        assert_int_not_equal(id, 0);
        assert_int_not_equal(id, last);
        assert_int_equal(id & UINT16_MAX, 0);
        cdl_limits_remove(limits, slot, id);
        last = id;
    }
    cdl_limits_close(limits, allocator);
}

static void there_are_65000_limits_and_no_more(void **state)
{
    (void)state;
    struct cdl_limits *limits = open_limits();
    static uint32_t ids[MOST];
    for (unsigned i = 0; i < MOST; i++)
        add(limits, name_of(i), &ids[i]);
    uint32_t id = 12345;
    int status = 1;
    assert_null(cdl_limits_add(limits, allocator, "one more", &id, &status));
    assert_int_equal(status, CAUDAL_ERR_FULL);
    assert_int_equal(id, 12345);
    assert_int_equal(cdl_limits_by_name(limits, "one more"), -1);
    cdl_limits_remove(limits, cdl_limits_find(limits, ids[777]), ids[777]);
    add(limits, "one more", &id);
    assert_int_equal(id & UINT16_MAX, ids[777] & UINT16_MAX);
    assert_int_not_equal(id, ids[777]);
    cdl_limits_close(limits, allocator);
}

static void a_limit_that_finds_no_memory_leaves_no_trace(void **state)
{
    (void)state;
    struct counting_allocator counting;
    counting_allocator_init(&counting);
    struct cdl_limits *limits = cdl_limits_open(&counting.allocator);
    assert_non_null(limits);
    for (unsigned i = 0; i <= CDL_SLOTS_PER_BLOCK; i++) { /* the first and the last need a block of slots */
        uint32_t id = 12345;
        int status = 1;
        counting.fail_at = counting.calls;
        const bool needs_memory = i % CDL_SLOTS_PER_BLOCK == 0;
        struct cdl_limit_slot *slot = cdl_limits_add(limits, &counting.allocator, name_of(i), &id, &status);
        assert_int_equal(slot == NULL, needs_memory);
        assert_int_equal(status, needs_memory ? CAUDAL_ERR_MEMORY : CAUDAL_OK);
        counting.fail_at = -1;
        if (needs_memory) {
            assert_int_equal(id, 12345);
            assert_int_equal(limits->count, i);
            assert_int_equal(cdl_limits_by_name(limits, name_of(i)), -1);
            assert_non_null(cdl_limits_add(limits, &counting.allocator, name_of(i), &id, &status));
        }
        assert_int_equal(id & UINT16_MAX, i);
    }
    cdl_limits_close(limits, &counting.allocator);
    assert_int_equal(counting.live_blocks, 0);
}

static void a_registry_that_cannot_be_had_is_null(void **state)
{
    (void)state;
    struct counting_allocator counting;
    counting_allocator_init(&counting);
    counting.fail_at = 0;
    assert_null(cdl_limits_open(&counting.allocator));
    assert_int_equal(counting.live_blocks, 0);
}

/* ---- numbers ---- */

static void every_number_is_given_once_and_then_there_is_none(void **state)
{
    (void)state;
    struct cdl_limits *limits = open_limits();
    static bool seen[UINT16_MAX + 1];
    memset(seen, 0, sizeof seen);
    for (int i = 0; i < UINT16_MAX; i++) {
        const uint16_t number = cdl_limits_take_number(limits, 7);
        assert_int_not_equal(number, 0);
        assert_false(seen[number]);
        seen[number] = true;
        assert_int_equal(atomic_load(&limits->owner[number]), 8);
    }
    assert_int_equal(cdl_limits_take_number(limits, 7), 0);
    cdl_limits_close(limits, allocator);
}

/* The number that has been free for longest comes first, so that a late look at an old one does no harm. */
static void a_number_comes_back_as_the_last_of_all(void **state)
{
    (void)state;
    struct cdl_limits *limits = open_limits();
    const uint16_t first = cdl_limits_take_number(limits, 1);
    cdl_limits_free_number(limits, first);
    assert_int_equal(atomic_load(&limits->owner[first]), 0);
    for (int i = 1; i < UINT16_MAX; i++)
        assert_int_not_equal(cdl_limits_take_number(limits, 1), first);
    assert_int_equal(cdl_limits_take_number(limits, 2), first);
    assert_int_equal(cdl_limits_take_number(limits, 2), 0);
    cdl_limits_free_number(limits, 0); /* no number: nothing happens */
    assert_int_equal(cdl_limits_take_number(limits, 2), 0);
    cdl_limits_close(limits, allocator);
}

static void numbers_go_round_for_ever(void **state)
{
    (void)state;
    struct cdl_limits *limits = open_limits();
    for (int i = 0; i < 5 * UINT16_MAX; i++) {
        const uint16_t number = cdl_limits_take_number(limits, 1);
        assert_int_not_equal(number, 0);
        cdl_limits_free_number(limits, number);
    }
    cdl_limits_close(limits, allocator);
}

/* ---- views ---- */

static void a_view_is_read_as_it_was_published(void **state)
{
    (void)state;
    struct cdl_limits *limits = open_limits();
    uint32_t id;
    struct cdl_limit_slot *slot = add(limits, "a", &id);
    struct cdl_limit_view view, read;
    struct cdl_limit_previous previous, read_previous;
    memset(&view, 0x5a, sizeof view);
    memset(&previous, 0x3c, sizeof previous);
    cdl_limit_publish(slot, &view, &previous);
    const uint32_t version = cdl_limit_read(slot, &read, &read_previous);
    assert_memory_equal(&read, &view, sizeof view);
    assert_memory_equal(&read_previous, &previous, sizeof previous);
    assert_true(cdl_limit_unchanged(slot, version));

    view.id++;
    cdl_limit_publish(slot, &view, NULL);
    assert_false(cdl_limit_unchanged(slot, version));
    cdl_limit_read(slot, &read, &read_previous);
    assert_memory_equal(&read, &view, sizeof view);
    assert_memory_equal(&read_previous, &previous, sizeof previous); /* left as it was */
    cdl_limits_close(limits, allocator);
}

/* ---- windows in one word ---- */

static void assert_packs(struct cdl_window_fields fields, bool sliding, int64_t index, uint64_t previous,
                         uint64_t current)
{
    const struct cdl_window_state in = {index, sliding ? previous : 0, current};
    const struct cdl_window_state out = cdl_window_unpack(fields, cdl_window_pack(fields, &in));
    assert_int_equal(out.index, in.index);
    assert_int_equal(out.previous, in.previous);
    assert_int_equal(out.current, in.current);
}

static void any_window_there_can_be_is_packed_without_loss(void **state)
{
    (void)state;
    struct rng rng = {1};
    for (int i = 0; i < 100000; i++) {
        const bool sliding = rng_next(&rng) & 1;
        const int64_t period = (int64_t)rng_magnitude(&rng, CAUDAL_REFILL_MAX_NS);
        const struct cdl_window_fields fields = cdl_window_fields_make(period, sliding);
        const int64_t first = (int64_t)cdl_floor_div(INT64_MIN, period), last = INT64_MAX / period;
        const uint64_t most = (UINT64_C(1) << fields.count_bits) - 1;
        if (fields.count_bits == 0)
            continue;
        assert_true(cdl_window_fields_fit(fields, most));
        assert_false(cdl_window_fields_fit(fields, most + 1));
        assert_packs(fields, sliding, first, most, most);
        assert_packs(fields, sliding, last, most, most);
        if (period > 1)
            assert_packs(fields, sliding, last + 1, 0, most); /* one ahead of the last instant */
        assert_packs(fields, sliding, 0, most, 0);
        assert_packs(fields, sliding, -1, 0, most);
        const int64_t index = rng_signed(&rng, last);
        const uint64_t previous = rng_below(&rng, most + 1);
        assert_packs(fields, sliding, index, previous, rng_below(&rng, most + 1));
    }
}

static void ordinary_windows_fit_one_word(void **state)
{
    (void)state;
    static const struct {
        int64_t period_ns;
        bool sliding;
        uint64_t count;
    } windows[] = {{SECOND, false, 100000000}, {SECOND, true, 10000},       {MINUTE, false, 1000000000},
                   {MINUTE, true, 100000},     {DAY, false, 1000000000000}, {DAY, true, 1000000}};
    for (size_t i = 0; i < COUNT_OF(windows); i++)
        assert_true(
            cdl_window_fields_fit(cdl_window_fields_make(windows[i].period_ns, windows[i].sliding), windows[i].count));
}

static void windows_too_short_for_one_word_fit_no_count(void **state)
{
    (void)state;
    for (int sliding = 0; sliding < 2; sliding++) {
        const struct cdl_window_fields fields = cdl_window_fields_make(1, sliding == 1);
        assert_false(cdl_window_fields_fit(fields, 1));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_name_leads_to_its_slot_until_it_is_removed),
        cmocka_unit_test(names_that_share_a_bucket_do_not_disturb_each_other),
        cmocka_unit_test(an_id_is_never_0_and_never_given_twice_in_a_row),
        cmocka_unit_test(there_are_65000_limits_and_no_more),
        cmocka_unit_test(a_limit_that_finds_no_memory_leaves_no_trace),
        cmocka_unit_test(a_registry_that_cannot_be_had_is_null),
        cmocka_unit_test(every_number_is_given_once_and_then_there_is_none),
        cmocka_unit_test(a_number_comes_back_as_the_last_of_all),
        cmocka_unit_test(numbers_go_round_for_ever),
        cmocka_unit_test(a_view_is_read_as_it_was_published),
        cmocka_unit_test(any_window_there_can_be_is_packed_without_loss),
        cmocka_unit_test(ordinary_windows_fit_one_word),
        cmocka_unit_test(windows_too_short_for_one_word_fit_no_count),
    };
    return cmocka_run_group_tests(tests, use_default_allocator, NULL);
}
