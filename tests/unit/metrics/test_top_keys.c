/* The sketch of the most refused keys, against exact counts: every guarantee that top_keys.h gives, on easy and on hostile input. */
#include "metrics/top_keys.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/memory.h"

#define SEED UINT64_C(0x5eed)
#define KEYS 4000u

static struct cdl_top_keys *open_sketch(uint32_t entries)
{
    struct cdl_top_keys *sketch = cdl_top_keys_open(entries, SEED, cdl_allocator_default());
    assert_non_null(sketch);
    return sketch;
}

static void add_text(struct cdl_top_keys *sketch, uint32_t limit, const char *key)
{
    cdl_top_keys_add(sketch, limit, cdl_slice_of(key));
}

static void add_number(struct cdl_top_keys *sketch, uint32_t number)
{
    char key[16];
    snprintf(key, sizeof key, "%u", number);
    add_text(sketch, 1, key);
}

static struct cdl_top_list list_of(struct cdl_top_keys *const *sketches, size_t count, size_t wanted)
{
    struct cdl_top_list list;
    assert_int_equal(cdl_top_keys_merge(sketches, count, wanted, &list), CAUDAL_OK);
    assert_int_equal(list.missed, 0);
    return list;
}

static const struct cdl_top_key *find_key(const struct cdl_top_list *list, uint32_t limit, struct cdl_slice shown)
{
    for (size_t i = 0; i < list->count; i++)
        if (list->keys[i].limit == limit && cdl_slice_equal(cdl_top_key_shown(&list->keys[i]), shown))
            return &list->keys[i];
    return NULL;
}

static void assert_key(const struct cdl_top_list *list, size_t place, uint32_t limit, const char *key, uint64_t count,
                       uint64_t error)
{
    assert_true(place < list->count);
    const struct cdl_top_key *got = &list->keys[place];
    assert_int_equal(got->limit, limit);
    assert_true(cdl_slice_equal(cdl_top_key_shown(got), cdl_slice_of(key)));
    assert_int_equal(got->count, count);
    assert_int_equal(got->error, error);
}

static void few_keys_are_counted_exactly(void **state)
{
    (void)state;
    struct cdl_top_keys *sketch = open_sketch(4);
    for (int i = 0; i < 7; i++)
        add_text(sketch, 1, "a");
    for (int i = 0; i < 9; i++)
        add_text(sketch, 2, "a"); /* another limit is another entry */
    add_text(sketch, 1, "b");
    add_text(sketch, 1, "");
    struct cdl_top_list list = list_of(&sketch, 1, 10);
    assert_int_equal(list.count, 4);
    assert_int_equal(list.added, 18);
    assert_key(&list, 0, 2, "a", 9, 0);
    assert_key(&list, 1, 1, "a", 7, 0);
    assert_key(&list, 2, 1, "", 1, 0);
    assert_key(&list, 3, 1, "b", 1, 0);
    cdl_top_list_free(&list);
    cdl_top_keys_close(sketch);
}

static void a_new_key_takes_over_the_smallest(void **state)
{
    (void)state;
    struct cdl_top_keys *sketch = open_sketch(2);
    for (int i = 0; i < 5; i++)
        add_text(sketch, 1, "a");
    for (int i = 0; i < 3; i++)
        add_text(sketch, 1, "b");
    add_text(sketch, 1, "c");
    struct cdl_top_list list = list_of(&sketch, 1, 10);
    assert_int_equal(list.count, 2);
    assert_key(&list, 0, 1, "a", 5, 0);
    assert_key(&list, 1, 1, "c", 4, 3);
    assert_int_equal(list.unlisted, 4);
    cdl_top_list_free(&list);

    add_text(sketch, 1, "b"); /* b's old count is gone; it may be as much as c's */
    list = list_of(&sketch, 1, 10);
    assert_key(&list, 0, 1, "a", 5, 0);
    assert_key(&list, 1, 1, "b", 5, 4);
    cdl_top_list_free(&list);
    cdl_top_keys_close(sketch);
}

/* Streams of key numbers below KEYS. */
static uint32_t skewed(uint32_t step, uint64_t random)
{
    (void)step;
    return (uint32_t)(random >> 40) >> (random % 25) & (KEYS / 2 - 1);
}

static uint32_t even(uint32_t step, uint64_t random)
{
    (void)step;
    return (uint32_t)(random >> 33) % KEYS;
}

static uint32_t round_robin(uint32_t step, uint64_t random)
{
    (void)random;
    return step % KEYS;
}

/* One key worth finding in a flood of keys that come once each. */
static uint32_t needle(uint32_t step, uint64_t random)
{
    (void)random;
    return step % 20 == 0 ? 7 : step % (KEYS - 8) + 8;
}

typedef uint32_t (*stream)(uint32_t step, uint64_t random);
static const stream streams[] = {skewed, even, round_robin, needle};

/* Every guarantee, for a list that was made from a stream with these exact counts. */
static void check_guarantees(const struct cdl_top_list *list, const uint64_t *exact, uint64_t entries)
{
    uint64_t added = 0;
    for (uint32_t number = 0; number < KEYS; number++) {
        char text[16];
        snprintf(text, sizeof text, "%u", number);
        const struct cdl_top_key *key = find_key(list, 1, cdl_slice_of(text));
        added += exact[number];
        if (key == NULL) {
            assert_true(exact[number] <= list->unlisted);
            continue;
        }
        assert_true(key->count >= exact[number]);
        assert_true(key->count - key->error <= exact[number]);
    }
    assert_int_equal(list->added, added);
    assert_true(list->count < entries || list->unlisted <= added / entries);
    for (size_t i = 1; i < list->count; i++)
        assert_true(list->keys[i - 1].count >= list->keys[i].count);
}

static void guarantees_hold_on_any_stream(void **state)
{
    (void)state;
    static const uint32_t sizes[] = {1, 2, 3, 16, 128};
    for (size_t s = 0; s < sizeof streams / sizeof *streams; s++) {
        for (size_t z = 0; z < sizeof sizes / sizeof *sizes; z++) {
            static uint64_t exact[KEYS];
            memset(exact, 0, sizeof exact);
            struct cdl_top_keys *sketch = open_sketch(sizes[z]);
            uint64_t random = 1;
            for (uint32_t step = 0; step < 30000; step++) {
                random = random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
                const uint32_t number = streams[s](step, random);
                exact[number]++;
                add_number(sketch, number);
            }
            struct cdl_top_list list = list_of(&sketch, 1, KEYS);
            assert_int_equal(list.count, sizes[z]);
            check_guarantees(&list, exact, sizes[z]);
            cdl_top_list_free(&list);
            cdl_top_keys_close(sketch);
        }
    }
}

static void the_needle_is_found(void **state)
{
    (void)state;
    struct cdl_top_keys *sketch = open_sketch(64);
    for (uint32_t step = 0; step < 100000; step++)
        add_number(sketch, step % 20 == 0 ? 7 : 1000 + step);
    struct cdl_top_list list = list_of(&sketch, 1, 1);
    assert_int_equal(list.count, 1);
    assert_true(cdl_slice_equal(cdl_top_key_shown(&list.keys[0]), CDL_SLICE("7")));
    assert_true(list.keys[0].count >= 5000);
    assert_true(list.keys[0].count - list.keys[0].error <= 5000);
    cdl_top_list_free(&list);
    cdl_top_keys_close(sketch);
}

static void merged_sketches_keep_the_guarantees(void **state)
{
    (void)state;
    enum {
        WORKERS = 3,
        ENTRIES = 64
    };
    for (size_t s = 0; s < sizeof streams / sizeof *streams; s++) {
        static uint64_t exact[KEYS];
        memset(exact, 0, sizeof exact);
        struct cdl_top_keys *sketches[WORKERS];
        for (size_t w = 0; w < WORKERS; w++)
            sketches[w] = open_sketch(ENTRIES);
        uint64_t random = 9;
        for (uint32_t step = 0; step < 60000; step++) {
            random = random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
            const uint32_t number = streams[s](step, random);
            exact[number]++;
            add_number(sketches[random >> 32 & 1 ? 0 : 1], number); /* the third one stays empty */
        }
        for (size_t wanted = 1; wanted <= 256; wanted *= 4) {
            struct cdl_top_list list = list_of(sketches, WORKERS, wanted);
            assert_true(list.count <= wanted);
            check_guarantees(&list, exact, list.count < 2 * ENTRIES ? UINT64_MAX : ENTRIES);
            cdl_top_list_free(&list);
        }
        for (size_t w = 0; w < WORKERS; w++)
            cdl_top_keys_close(sketches[w]);
    }
}

static void merging_adds_what_both_know(void **state)
{
    (void)state;
    struct cdl_top_keys *sketches[2] = {open_sketch(2), open_sketch(2)};
    for (int i = 0; i < 10; i++)
        add_text(sketches[0], 1, "a");
    for (int i = 0; i < 4; i++)
        add_text(sketches[0], 1, "b");
    for (int i = 0; i < 5; i++)
        add_text(sketches[1], 1, "a");
    struct cdl_top_list list = list_of(sketches, 2, 10);
    assert_key(&list, 0, 1, "a", 15, 0);
    assert_key(&list, 1, 1, "b", 4, 0); /* the second one has room: b was never there */
    assert_int_equal(list.unlisted, 4); /* of the first one, which is full */
    cdl_top_list_free(&list);
    add_text(sketches[1], 1, "c");
    list = list_of(sketches, 2, 2);
    assert_key(&list, 0, 1, "a", 15, 0);
    assert_key(&list, 1, 1, "b", 5, 1); /* may have been where c is now */
    assert_int_equal(list.unlisted, 5);
    cdl_top_list_free(&list);
    for (size_t i = 0; i < 2; i++)
        cdl_top_keys_close(sketches[i]);
}

static void merging_keeps_limits_apart(void **state)
{
    (void)state;
    struct cdl_top_keys *sketches[2] = {open_sketch(8), open_sketch(8)};
    add_text(sketches[0], 1, "a");
    add_text(sketches[1], 2, "a");
    add_text(sketches[1], 2, "a");
    struct cdl_top_list list = list_of(sketches, 2, 10);
    assert_int_equal(list.count, 2);
    assert_key(&list, 0, 2, "a", 2, 0);
    assert_key(&list, 1, 1, "a", 1, 0);
    cdl_top_list_free(&list);
    for (size_t i = 0; i < 2; i++)
        cdl_top_keys_close(sketches[i]);
}

static void C75_long_and_odd_keys_are_told_apart(void **state)
{
    (void)state;
    enum {
        LONG = 65536
    };
    char *key = malloc(LONG);
    assert_non_null(key);
    memset(key, 'x', LONG);
    struct cdl_top_keys *sketches[2] = {open_sketch(16), open_sketch(16)};
    for (size_t s = 0; s < 2; s++) {
        cdl_top_keys_add(sketches[s], 1, (struct cdl_slice){key, LONG});
        key[LONG - 1] = 'y';
        cdl_top_keys_add(sketches[s], 1, (struct cdl_slice){key, LONG});
        key[LONG - 1] = 'x';
        cdl_top_keys_add(sketches[s], 1, (struct cdl_slice){key, LONG - 1});
        cdl_top_keys_add(sketches[s], 1, (struct cdl_slice){key, CDL_TOP_KEY_BYTES});
        cdl_top_keys_add(sketches[s], 1, (struct cdl_slice){key, CDL_TOP_KEY_BYTES + 1});
        cdl_top_keys_add(sketches[s], 1, CDL_SLICE("a"));
        cdl_top_keys_add(sketches[s], 1, CDL_SLICE("a\0b"));
        cdl_top_keys_add(sketches[s], 1, CDL_SLICE("\xff\r\n"));
        cdl_top_keys_add(sketches[s], 1, (struct cdl_slice){NULL, 0});
    }
    struct cdl_top_list list = list_of(sketches, 2, 100);
    assert_int_equal(list.count, 9); /* the same nine from both */
    for (size_t i = 0; i < list.count; i++) {
        assert_int_equal(list.keys[i].count, 2);
        assert_true(cdl_top_key_shown(&list.keys[i]).length <= CDL_TOP_KEY_BYTES);
    }
    cdl_top_list_free(&list);
    for (size_t i = 0; i < 2; i++)
        cdl_top_keys_close(sketches[i]);
    free(key);
}

static void clear_forgets_everything(void **state)
{
    (void)state;
    struct cdl_top_keys *sketch = open_sketch(3);
    for (uint32_t round = 0; round < 3; round++) {
        for (uint32_t i = 0; i < 100; i++)
            add_number(sketch, i % 7);
        cdl_top_keys_clear(sketch);
        struct cdl_top_list list = list_of(&sketch, 1, 10);
        assert_int_equal(list.count, 0);
        assert_int_equal(list.added, 0);
        assert_int_equal(list.unlisted, 0);
        cdl_top_list_free(&list);
    }
    add_text(sketch, 1, "a");
    struct cdl_top_list list = list_of(&sketch, 1, 10);
    assert_int_equal(list.count, 1);
    assert_key(&list, 0, 1, "a", 1, 0);
    cdl_top_list_free(&list);
    cdl_top_keys_close(sketch);
}

static void *failing_allocate(void *context, size_t bytes, size_t alignment)
{
    int *left = context;
    const struct caudal_allocator *real = cdl_allocator_default();
    return (*left)-- > 0 ? real->allocate(real->context, bytes, alignment) : NULL;
}

static void failing_release(void *context, void *memory, size_t bytes)
{
    (void)context;
    const struct caudal_allocator *real = cdl_allocator_default();
    real->release(real->context, memory, bytes);
}

static void openings_that_fail(void **state)
{
    (void)state;
    assert_null(cdl_top_keys_open(0, SEED, cdl_allocator_default()));
    assert_null(cdl_top_keys_open(CDL_TOP_KEYS_MAX + 1, SEED, cdl_allocator_default()));
    for (int allowed = 0; allowed < 4; allowed++) {
        int left = allowed;
        const struct caudal_allocator allocator = {sizeof allocator, &left, failing_allocate, failing_release};
        assert_null(cdl_top_keys_open(8, SEED, &allocator)); /* and the leak checker has nothing to say */
    }
    cdl_top_keys_close(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(few_keys_are_counted_exactly),
        cmocka_unit_test(a_new_key_takes_over_the_smallest),
        cmocka_unit_test(guarantees_hold_on_any_stream),
        cmocka_unit_test(the_needle_is_found),
        cmocka_unit_test(merged_sketches_keep_the_guarantees),
        cmocka_unit_test(merging_adds_what_both_know),
        cmocka_unit_test(merging_keeps_limits_apart),
        cmocka_unit_test(C75_long_and_odd_keys_are_told_apart),
        cmocka_unit_test(clear_forgets_everything),
        cmocka_unit_test(openings_that_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
