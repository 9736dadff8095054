/* Memory that runs out: every allocation of a session is made to fail in turn. The call that needed it says so and changes
 * nothing, everything else goes on, and in the end every block has been given back. */
#include "store/store.h"

#include "../support.h"

#define LIMITS 200u /* slots come in blocks: these need several */

static struct counting_allocator counting;

/* Opens a store; on failure everything is as before. */
static struct caudal_store *open_store(bool *failed)
{
    const struct caudal_store_options options = {.size = sizeof options, .allocator = &counting.allocator};
    struct caudal_store *store = (struct caudal_store *)&counting; /* must become NULL */
    struct caudal_problem problem = {.message = ""};
    const int status = caudal_store_open("memory:?keys=100&wide_keys=10&log_entries=10", &options, &store, &problem);
    *failed = status != CAUDAL_OK;
    if (!*failed)
        return store;
    assert_int_equal(status, CAUDAL_ERR_MEMORY);
    assert_int_equal(problem.code, CAUDAL_ERR_MEMORY);
    assert_true(strlen(problem.message) > 0);
    assert_null(store);
    assert_int_equal(counting.live_blocks, 0);
    return NULL;
}

static bool add_limit(struct caudal_store *store, unsigned i, uint32_t *id)
{
    const struct caudal_limit limit = limit_of((enum caudal_algorithm)(i % 4), 10, HOUR);
    struct caudal_problem problem = {.message = ""};
    char name[32];
    snprintf(name, sizeof name, "limit %u", i);
    *id = 4711;
    const int status = caudal_add_limit(store, name, &limit, id, &problem);
    if (status == CAUDAL_OK)
        return true;
    uint32_t found;
    assert_int_equal(status, CAUDAL_ERR_MEMORY);
    assert_int_equal(problem.code, CAUDAL_ERR_MEMORY);
    assert_true(strlen(problem.message) > 0);
    assert_int_equal(*id, 4711);
    assert_int_equal(caudal_find_limit(store, name, &found), CAUDAL_ERR_UNKNOWN);
    return false;
}

static bool add_per_call_limit(struct caudal_store *store, unsigned i, uint32_t *id)
{
    struct caudal_problem problem = {.message = ""};
    char name[32];
    snprintf(name, sizeof name, "per call %u", i);
    const int status = cdl_add_per_call_limit(store, name, id, &problem);
    if (status == CAUDAL_OK)
        return true;
    assert_int_equal(status, CAUDAL_ERR_MEMORY);
    assert_true(strlen(problem.message) > 0);
    assert_int_equal(caudal_find_limit(store, name, id), CAUDAL_ERR_UNKNOWN);
    return false;
}

/* Every limit becomes every other kind. */
static bool set_limit(struct caudal_store *store, uint32_t id, unsigned i)
{
    const struct caudal_limit limit = limit_of((enum caudal_algorithm)(i % 4), i % 2 == 0 ? 10 : 5000, HOUR);
    struct caudal_problem problem = {.message = ""};
    struct caudal_limit before = CAUDAL_LIMIT_INIT, after = CAUDAL_LIMIT_INIT;
    assert_int_equal(caudal_get_limit(store, id, &before), CAUDAL_OK);
    const int status = caudal_set_limit(store, id, &limit, &problem);
    assert_int_equal(caudal_get_limit(store, id, &after), CAUDAL_OK);
    if (status == CAUDAL_OK)
        return true;
    assert_int_equal(status, CAUDAL_ERR_MEMORY);
    assert_true(strlen(problem.message) > 0);
    assert_same_limit(after, before);
    return false;
}

/* A whole session in which at most one allocation fails. Says whether one did. What failed is tried once more, with success. */
static bool session(void)
{
    bool failed;
    unsigned failures = 0;
    struct caudal_store *store = open_store(&failed);
    if (failed)
        return true;
    static uint32_t ids[LIMITS];
    for (unsigned i = 0; i < LIMITS; i++)
        if (!add_limit(store, i, &ids[i])) {
            failures++;
            assert_true(add_limit(store, i, &ids[i]));
        }
    for (unsigned i = 0; i < LIMITS; i++) {
        struct caudal_decision decision;
        assert_int_equal(caudal_take(store, ids[i], "key", 3, 1, &decision), CAUDAL_OK);
        assert_int_equal(decision.remaining, 9);
        if (!set_limit(store, ids[i], i + 1)) {
            failures++;
            assert_true(set_limit(store, ids[i], i + 1));
        }
    }
    for (unsigned i = 0; i < LIMITS; i++) {
        uint32_t id;
        if (!add_per_call_limit(store, i, &id)) {
            failures++;
            assert_true(add_per_call_limit(store, i, &id));
        }
    }
    for (unsigned i = 0; i < LIMITS; i += 2)
        assert_int_equal(caudal_remove_limit(store, ids[i]), CAUDAL_OK);
    caudal_store_close(store);
    assert_int_equal(counting.live_blocks, 0);
    assert_int_equal(counting.live_bytes, 0);
    assert_true(failures <= 1);
    return failures > 0;
}

static void any_allocation_may_fail(void **state)
{
    (void)state;
    long fail_at = 0;
    for (bool failed = true; failed; fail_at++) {
        counting_allocator_init(&counting);
        counting.fail_at = fail_at;
        failed = session();
    }
    assert_true(fail_at > 10);
}

static void a_session_gives_back_all_that_it_took(void **state)
{
    (void)state;
    counting_allocator_init(&counting);
    assert_false(session());
    assert_true(counting.calls > 10);
}

/* Removing and adding limits for ever takes no more memory than the most that there were at once. */
static void limits_that_come_and_go_take_no_more_memory(void **state)
{
    (void)state;
    counting_allocator_init(&counting);
    bool failed;
    struct caudal_store *store = open_store(&failed);
    uint32_t id;
    assert_true(add_limit(store, 0, &id));
    const long calls = counting.calls;
    for (unsigned i = 1; i < 1000; i++) {
        assert_int_equal(caudal_remove_limit(store, id), CAUDAL_OK);
        assert_true(add_limit(store, i, &id));
    }
    assert_int_equal(counting.calls, calls);
    caudal_store_close(store);
    assert_int_equal(counting.live_blocks, 0);
}

/* The memory that stats tell of is the memory that was asked for. */
static void the_bytes_of_the_stats_are_those_that_were_asked_for(void **state)
{
    (void)state;
    counting_allocator_init(&counting);
    bool failed;
    struct caudal_store *store = open_store(&failed);
    struct caudal_store_stats stats = {.size = sizeof stats};
    assert_int_equal(caudal_store_stats(store, &stats), CAUDAL_OK);
    assert_true(stats.bytes <= counting.live_bytes);
    assert_true(stats.bytes + 4096 > counting.live_bytes);
    caudal_store_close(store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_allocation_may_fail),
        cmocka_unit_test(a_session_gives_back_all_that_it_took),
        cmocka_unit_test(limits_that_come_and_go_take_no_more_memory),
        cmocka_unit_test(the_bytes_of_the_stats_are_those_that_were_asked_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
