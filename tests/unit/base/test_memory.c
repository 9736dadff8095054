/* Memory is zeroed, aligned, and given back with its size, from the C library or, in large pieces, from the system. */
#include "base/memory.h"

#include <unistd.h>

#include "../support.h"

#define LARGE ((size_t)4 << 20) /* comes as pages of its own */

static void assert_zeroed(const unsigned char *memory, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        if (memory[i] != 0)
            fail_msg("byte %zu is %d", i, memory[i]);
}

static void small_pieces_are_zeroed_and_aligned(void **state)
{
    (void)state;
    const struct caudal_allocator *allocator = cdl_allocator_default();
    for (size_t alignment = 1; alignment <= 4096; alignment *= 2) {
        unsigned char *memory = cdl_allocate(allocator, 3, 41, alignment);
        assert_non_null(memory);
        assert_int_equal((uintptr_t)memory % alignment, 0);
        assert_zeroed(memory, 123);
        memset(memory, 0xff, 123);
        cdl_release(allocator, memory, 3, 41);
    }
}

static void memory_that_was_used_before_is_zeroed_again(void **state)
{
    (void)state;
    const struct caudal_allocator *allocator = cdl_allocator_default();
    for (int i = 0; i < 100; i++) {
        unsigned char *memory = cdl_allocate(allocator, 1, 256, 64);
        assert_zeroed(memory, 256);
        memset(memory, 0xff, 256);
        cdl_release(allocator, memory, 1, 256);
    }
}

static void large_pieces_are_zeroed_whole_and_start_on_a_huge_page(void **state)
{
    (void)state;
    const struct caudal_allocator *allocator = cdl_allocator_default();
    for (size_t more = 0; more < 3; more++) {
        const size_t bytes = LARGE + more * 4097;
        unsigned char *memory = cdl_allocate(allocator, bytes, 1, 64);
        assert_non_null(memory);
        assert_int_equal((uintptr_t)memory % ((size_t)2 << 20), 0);
        assert_zeroed(memory, bytes);
        memset(memory, 0xff, bytes);
        cdl_release(allocator, memory, bytes, 1);
    }
}

static uint64_t mapped_bytes(void)
{
    unsigned long long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%llu", &pages), 1);
    fclose(file);
    return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* The spare room at both ends, for the sake of alignment, included. */
static void large_pieces_go_back_to_the_system(void **state)
{
    (void)state;
    const struct caudal_allocator *allocator = cdl_allocator_default();
    const uint64_t before = mapped_bytes();
    for (size_t i = 0; i < 1000; i++) {
        const size_t bytes = LARGE + i * 1000;
        void *memory = cdl_allocate(allocator, bytes, 1, 64);
        assert_non_null(memory);
        cdl_release(allocator, memory, bytes, 1);
    }
    assert_true(mapped_bytes() < before + 2 * LARGE);
}

static void a_product_that_does_not_fit_is_no_memory(void **state)
{
    (void)state;
    const struct caudal_allocator *allocator = cdl_allocator_default();
    assert_null(cdl_allocate(allocator, SIZE_MAX, 2, 64));
    assert_null(cdl_allocate(allocator, (SIZE_MAX >> 6) + 2, 64, 64)); /* would wrap to 64 bytes */
    assert_null(cdl_allocate(allocator, (size_t)1 << 32, (size_t)1 << 32, 64));
}

static void more_than_the_address_space_is_no_memory(void **state)
{
    (void)state;
    const struct caudal_allocator *allocator = cdl_allocator_default();
    assert_null(cdl_allocate(allocator, SIZE_MAX, 1, 64));
    assert_null(cdl_allocate(allocator, SIZE_MAX - ((size_t)2 << 20) + 1, 1, 64));
    assert_null(cdl_allocate(allocator, (size_t)1 << 60, 1, 64));
}

static void nothing_is_no_memory(void **state)
{
    (void)state;
    assert_null(cdl_allocate(cdl_allocator_default(), 0, 8, 8));
    assert_null(cdl_allocate(cdl_allocator_default(), 8, 0, 8));
}

static void releasing_nothing_does_nothing(void **state)
{
    (void)state;
    struct counting_allocator counting;
    counting_allocator_init(&counting);
    cdl_release(&counting.allocator, NULL, 1, 1);
    cdl_release(cdl_allocator_default(), NULL, 1, LARGE);
    assert_int_equal(counting.live_blocks, 0);
}

static void a_callers_allocator_is_asked_for_the_product_and_given_it_back(void **state)
{
    (void)state;
    struct counting_allocator counting;
    counting_allocator_init(&counting);
    void *memory = cdl_allocate(&counting.allocator, 6, 7, 128);
    assert_int_equal((uintptr_t)memory % 128, 0);
    assert_int_equal(counting.live_blocks, 1);
    assert_int_equal(counting.live_bytes, 42);
    cdl_release(&counting.allocator, memory, 6, 7);
    assert_int_equal(counting.live_blocks, 0);
    assert_int_equal(counting.live_bytes, 0);
}

static void a_callers_allocator_may_have_none(void **state)
{
    (void)state;
    struct counting_allocator counting;
    counting_allocator_init(&counting);
    counting.fail_at = 0;
    assert_null(cdl_allocate(&counting.allocator, 6, 7, 8));
    assert_int_equal(counting.calls, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_pieces_are_zeroed_and_aligned),
        cmocka_unit_test(memory_that_was_used_before_is_zeroed_again),
        cmocka_unit_test(large_pieces_are_zeroed_whole_and_start_on_a_huge_page),
        cmocka_unit_test(large_pieces_go_back_to_the_system),
        cmocka_unit_test(a_product_that_does_not_fit_is_no_memory),
        cmocka_unit_test(more_than_the_address_space_is_no_memory),
        cmocka_unit_test(nothing_is_no_memory),
        cmocka_unit_test(releasing_nothing_does_nothing),
        cmocka_unit_test(a_callers_allocator_is_asked_for_the_product_and_given_it_back),
        cmocka_unit_test(a_callers_allocator_may_have_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
