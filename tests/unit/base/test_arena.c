/* Pieces of an arena are zeroed, aligned and apart, large and small; short memory is remembered. */
#include "base/arena.h"

#include "../support.h"

static void pieces_are_zeroed_aligned_and_apart(void **state)
{
    (void)state;
    struct counting_allocator counting;
    counting_allocator_init(&counting);
    struct cdl_arena arena;
    cdl_arena_init(&arena, &counting.allocator);
    struct rng rng = {1};
    unsigned char *pieces[500];
    size_t sizes[500];
    for (size_t i = 0; i < 500; i++) {
        sizes[i] = i % 50 == 0 ? 100000 : (size_t)rng_below(&rng, 300);
        pieces[i] = cdl_arena_allocate(&arena, sizes[i], 1);
        assert_non_null(pieces[i]);
        assert_int_equal((uintptr_t)pieces[i] % 16, 0);
        for (size_t j = 0; j < sizes[i]; j++)
            assert_int_equal(pieces[i][j], 0);
        memset(pieces[i], (int)(i % 255) + 1, sizes[i]);
    }
    for (size_t i = 0; i < 500; i++)
        for (size_t j = 0; j < sizes[i]; j++)
            assert_int_equal(pieces[i][j], i % 255 + 1);
    assert_true(counting.live_blocks < 20);
    cdl_arena_free(&arena);
    assert_int_equal(counting.live_blocks, 0);
}

static void copies_end_in_nul(void **state)
{
    (void)state;
    struct cdl_arena arena;
    cdl_arena_init(&arena, NULL);
    struct cdl_slice copy = cdl_arena_copy(&arena, cdl_slice_head(CDL_SLICE("abc"), 2));
    assert_int_equal(copy.length, 2);
    assert_string_equal(copy.bytes, "ab");
    assert_string_equal(cdl_arena_copy(&arena, (struct cdl_slice){NULL, 0}).bytes, "");
    cdl_arena_free(&arena);
}

static void short_memory_is_remembered(void **state)
{
    (void)state;
    struct counting_allocator counting;
    counting_allocator_init(&counting);
    counting.fail_at = 0;
    struct cdl_arena arena;
    cdl_arena_init(&arena, &counting.allocator);
    assert_null(cdl_arena_allocate(&arena, 1, 1));
    assert_true(arena.failed);
    assert_non_null(cdl_arena_allocate(&arena, 1, 1));
    assert_true(arena.failed);
    cdl_arena_free(&arena);
    assert_null(cdl_arena_allocate(&arena, SIZE_MAX / 2, 3));
    assert_true(arena.failed);
    cdl_arena_free(&arena);
    assert_int_equal(counting.live_blocks, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_are_zeroed_aligned_and_apart),
        cmocka_unit_test(copies_end_in_nul),
        cmocka_unit_test(short_memory_is_remembered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
