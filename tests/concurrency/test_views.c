/* The sequence lock of a limit's view, and pairs: a reader sees one version, whole, and pairs change as one. */
#include "crew.h"

#include "base/atomic128.h"

static struct cdl_limits *limits;
static struct cdl_limit_slot *slot;
static _Atomic unsigned mistakes;

static int open_limits(void **state)
{
    (void)state;
    uint32_t id;
    int status;
    limits = cdl_limits_open(cdl_allocator_default());
    slot = cdl_limits_add(limits, cdl_allocator_default(), "a", &id, &status);
    atomic_store(&mistakes, 0);
    return slot == NULL ? -1 : 0;
}

static int close_limits(void **state)
{
    (void)state;
    cdl_limits_close(limits, cdl_allocator_default());
    return 0;
}

static void fill(void *memory, size_t bytes, uint64_t value)
{
    for (size_t i = 0; i < bytes; i += sizeof value)
        memcpy((char *)memory + i, &value, sizeof value);
}

/* The word that all of the memory consists of, or 0 and a mistake. */
static uint64_t only_word(const void *memory, size_t bytes)
{
    uint64_t first, word;
    memcpy(&first, memory, sizeof first);
    for (size_t i = 0; i < bytes; i += sizeof word) {
        memcpy(&word, (const char *)memory + i, sizeof word);
        if (word != first) {
            atomic_fetch_add(&mistakes, 1);
            return 0;
        }
    }
    return first;
}

static void publish(uint64_t value)
{
    struct cdl_limit_view view;
    struct cdl_limit_previous previous;
    fill(&view, sizeof view, value);
    fill(&previous, sizeof previous, value);
    cdl_limit_publish(slot, &view, &previous);
}

/* Thread 0 publishes views of one word throughout, each a greater one; the others read until they have seen the last. */
#define VIEWS 20000u

static void publish_or_read(unsigned thread, uint64_t round)
{
    const uint64_t final = round << 32 | VIEWS;
    if (thread == 0) {
        for (uint64_t value = (round << 32) + 1; value <= final; value++)
            publish(value);
        return;
    }
    uint64_t last = 0;
    uint32_t last_version = 0;
    do {
        struct cdl_limit_view view;
        struct cdl_limit_previous previous;
        const uint32_t version = cdl_limit_read(slot, &view, &previous);
        const uint64_t value = only_word(&view, sizeof view);
        const bool whole = only_word(&previous, sizeof previous) == value;
        const bool in_order = last_version == 0 || (version == last_version ? value == last : value > last);
        if (!whole || !in_order)
            atomic_fetch_add(&mistakes, 1);
        last = value;
        last_version = version;
    } while (last != final && atomic_load(&mistakes) == 0);
}

static void start_readers(uint64_t round)
{
    publish(round << 32);
}

static void assert_no_mistakes(uint64_t round)
{
    (void)round;
    assert_int_equal(atomic_load(&mistakes), 0);
}

static void a_reader_never_sees_a_torn_view(void **state)
{
    (void)state;
    for (unsigned readers = 1; readers <= 4; readers *= 2) {
        publish(0);
        const struct crew_job job = {1 + readers, scaled(50), start_readers, publish_or_read, assert_no_mistakes};
        crew_run(&job);
    }
}

/* Threads count a pair up by swaps, both halves at once: no step is lost and the halves never part. */
static struct cdl_pair pair;

#define STEPS 5000u

static void count_up(unsigned thread, uint64_t round)
{
    (void)thread;
    (void)round;
    for (unsigned step = 0; step < STEPS;) {
        const struct cdl_pair was = cdl_pair_load(&pair);
        if (was.second != ~was.first)
            atomic_fetch_add(&mistakes, 1);
        step += cdl_pair_swap(&pair, was, (struct cdl_pair){was.first + 1, ~(was.first + 1)});
    }
}

static void start_at_zero(uint64_t round)
{
    (void)round;
    atomic_store(&mistakes, 0);
    pair = (struct cdl_pair){0, UINT64_MAX};
}

static unsigned counters;

static void assert_counted(uint64_t round)
{
    assert_no_mistakes(round);
    assert_int_equal(pair.first, (uint64_t)counters * STEPS);
}

static void a_pair_changes_as_one(void **state)
{
    (void)state;
    for (counters = 2; counters <= CREW_MAX; counters *= 2) {
        const struct crew_job job = {counters, scaled(20), start_at_zero, count_up, assert_counted};
        crew_run(&job);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_reader_never_sees_a_torn_view, open_limits, close_limits),
        cmocka_unit_test(a_pair_changes_as_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
