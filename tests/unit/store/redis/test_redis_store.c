/* The store as library users have it, in a real Redis: names of keys, several limits at once, batches, threads, and what happens when the
 * server is gone. */
#include "../../support.h"

#include <openssl/hmac.h>
#include <openssl/sha.h>
#include <pthread.h>
#include <unistd.h>

#include "../../redis_server.h"
#include "store/lease/lease_store.h"
#include "store/redis/redis_store.h"

static struct redis_server server;
static struct caudal_store *store;
static uint32_t bucket, window, sliding_log, unlimited;

static struct caudal_store *open_store(const char *parameters, const char *secret)
{
    char url[256];
    struct caudal_problem problem = {.message = ""};
    struct caudal_store *opened = NULL;
    const struct caudal_store_options options = {
        .size = sizeof options,
        .secret = secret,
        .secret_length = strlen(secret),
        /* These machines are slow at times, and nothing here is about being late. */
        .deadline_ns = 10 * SECOND};
    snprintf(url, sizeof url, "unix:%s%s", server.socket, parameters);
    if (caudal_store_open(url, &options, &opened, &problem) != CAUDAL_OK)
        fail_msg("%s: %s", url, problem.message);
    return opened;
}

static uint32_t add(const char *name, struct caudal_limit limit)
{
    uint32_t id;
    assert_int_equal(caudal_add_limit(store, name, &limit, &id, NULL), CAUDAL_OK);
    return id;
}

static int start(void **state)
{
    (void)state;
    redis_server_start(&server);
    store = open_store("", "a secret");
    bucket = add("bucket", bucket_of(10, 10, DAY));
    window = add("window", limit_of(CAUDAL_FIXED_WINDOW, 5, DAY));
    sliding_log = add("log", limit_of(CAUDAL_SLIDING_LOG, 3, DAY));
    unlimited = add("unlimited", limit_of(CAUDAL_UNLIMITED, 0, 0));
    return 0;
}

static int stop(void **state)
{
    (void)state;
    caudal_store_close(store);
    redis_server_stop(&server);
    return 0;
}

static struct caudal_decision spend(uint32_t limit, const char *key, uint64_t cost)
{
    struct caudal_decision decision;
    assert_int_equal(caudal_take(store, limit, key, strlen(key), cost, &decision), CAUDAL_OK);
    return decision;
}

static uint64_t remaining(uint32_t limit, const char *key)
{
    struct caudal_decision decision;
    assert_int_equal(caudal_peek(store, limit, key, strlen(key), 0, &decision), CAUDAL_OK);
    return decision.remaining;
}

/* The reply to a command of plain words, its first line. */
static void plain(const char *text, char *line, size_t size)
{
    const int fd = redis_server_connect(&server);
    char command[512];
    const int length = snprintf(command, sizeof command, "%s\r\n", text);
    assert_int_equal(write(fd, command, (size_t)length), length);
    const ssize_t got = read(fd, line, size - 1);
    assert_true(got > 0);
    line[got] = '\0';
    close(fd);
}

/* docs/formats/redis.md: PREFIX:1:{identity}:limit, the identity being the first 128 bits of HMAC-SHA-256 in base64url. */
static void test_the_name_of_a_key_is_as_documented(void **state)
{
    (void)state;
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    const char *keys[] = {"203.0.113.7", "a {brace} and \xff", ""};
    for (size_t i = 0; i < COUNT_OF(keys); i++) {
        unsigned char secret[SHA256_DIGEST_LENGTH], hash[SHA256_DIGEST_LENGTH + 1] = {0};
        SHA256((const unsigned char *)"a secret", 8, secret);
        HMAC(EVP_sha256(), secret, sizeof secret, (const unsigned char *)keys[i], strlen(keys[i]), hash, NULL);
        char tag[CDL_REDIS_TAG_LENGTH + 1] = "", command[256], answer[64];
        for (size_t k = 0; k < CDL_REDIS_TAG_LENGTH; k++) {
            const size_t bit = 6 * k;
            tag[k] = digits[(hash[bit / 8] << 8 | hash[bit / 8 + 1]) >> (10 - bit % 8) & 63];
        }
        spend(bucket, keys[i], 1);
        snprintf(command, sizeof command, "EXISTS caudal:1:{%s}:bucket", tag);
        plain(command, answer, sizeof answer);
        assert_string_equal(answer, ":1\r\n");
    }
}

static void test_another_secret_is_another_key(void **state)
{
    (void)state;
    struct caudal_store *other = open_store("", "another secret");
    struct caudal_limit limit = bucket_of(10, 10, DAY);
    struct caudal_decision decision;
    uint32_t id;
    assert_int_equal(caudal_add_limit(other, "bucket", &limit, &id, NULL), CAUDAL_OK);
    spend(bucket, "secret", 4);
    assert_int_equal(caudal_peek(other, id, "secret", 6, 0, &decision), CAUDAL_OK);
    assert_int_equal(decision.remaining, 10);
    caudal_store_close(other);
}

static void test_two_stores_share_what_is_spent(void **state)
{
    (void)state;
    struct caudal_store *other = open_store("?protocol=2", "a secret");
    struct caudal_limit limit = bucket_of(10, 10, DAY);
    struct caudal_decision decision;
    uint32_t id;
    assert_int_equal(caudal_add_limit(other, "bucket", &limit, &id, NULL), CAUDAL_OK);
    spend(bucket, "shared", 4);
    assert_int_equal(caudal_take(other, id, "shared", 6, 5, &decision), CAUDAL_OK);
    assert_int_equal(decision.remaining, 1);
    assert_int_equal(decision.source, CAUDAL_SOURCE_STORE);
    assert_int_equal(spend(bucket, "shared", 2).verdict, CAUDAL_DENY);
    caudal_store_close(other);
}

static void test_several_are_all_or_nothing(void **state)
{
    (void)state;
    const struct caudal_request requests[] = {
        {bucket, "all", 3, 2}, {window, "all", 3, 2}, {unlimited, "all", 3, 2}, {sliding_log, "all", 3, 2}};
    struct caudal_decision decisions[4], overall;
    assert_int_equal(caudal_peek_all(store, requests, 4, decisions, &overall), CAUDAL_OK);
    assert_int_equal(overall.verdict, CAUDAL_ALLOW);
    assert_int_equal(overall.remaining, 1);
    assert_int_equal(caudal_take_all(store, requests, 4, decisions, &overall), CAUDAL_OK);
    assert_int_equal(overall.verdict, CAUDAL_ALLOW);
    assert_int_equal(overall.binding, 3);
    assert_int_equal(decisions[2].remaining, UINT64_MAX);
    assert_int_equal(decisions[2].granted, 2);
    assert_int_equal(caudal_take_all(store, requests, 4, decisions, &overall), CAUDAL_OK);
    assert_int_equal(overall.verdict, CAUDAL_DENY);
    assert_int_equal(overall.binding, 3);
    assert_int_equal(decisions[0].verdict, CAUDAL_ALLOW);
    assert_int_equal(decisions[0].remaining, 8);
    assert_int_equal(decisions[0].granted, 0);
    assert_int_equal(decisions[1].remaining, 3);
    assert_int_equal(decisions[2].granted, 0);
    assert_int_equal(remaining(bucket, "all"), 8);
    assert_int_equal(remaining(window, "all"), 3);
    assert_int_equal(remaining(sliding_log, "all"), 1);
}

static void test_a_key_named_twice_is_charged_for_both(void **state)
{
    (void)state;
    struct caudal_request requests[] = {{bucket, "twice", 5, 3}, {window, "twice", 5, 1}, {bucket, "twice", 5, 4}};
    struct caudal_decision decisions[3], overall;
    assert_int_equal(caudal_take_all(store, requests, 3, decisions, &overall), CAUDAL_OK);
    assert_int_equal(overall.verdict, CAUDAL_ALLOW);
    assert_int_equal(decisions[0].granted, 3);
    assert_int_equal(decisions[2].granted, 4);
    assert_int_equal(decisions[2].remaining, 3);
    requests[0].cost = 2;
    requests[2].cost = 2;
    assert_int_equal(caudal_take_all(store, requests, 3, decisions, &overall), CAUDAL_OK);
    assert_int_equal(overall.verdict, CAUDAL_DENY);
    assert_int_equal(remaining(bucket, "twice"), 3);
}

/* Requests of one key that follow one another are written down with one hash; whose is it when the first of them is not asked about? */
static void test_each_request_is_charged_to_its_own_key(void **state)
{
    (void)state;
    const struct caudal_request together[] = {
        {bucket, "one", 3, 2}, {unlimited, "other", 5, 1}, {bucket, "other", 5, 3}};
    struct caudal_request alone[] = {{bucket, "one", 3, 2}, {12345, "other", 5, 1}, {bucket, "other", 5, 3}};
    struct caudal_decision decisions[3], overall;
    alone[1].key = alone[2].key = together[1].key;
    assert_ptr_equal(together[1].key, together[2].key);
    assert_int_equal(caudal_take_all(store, together, 3, decisions, &overall), CAUDAL_OK);
    assert_int_equal(remaining(bucket, "one"), 8);
    assert_int_equal(remaining(bucket, "other"), 7);
    assert_int_equal(caudal_take_batch(store, alone, 3, decisions), CAUDAL_ERR_UNKNOWN);
    assert_int_equal(remaining(bucket, "one"), 6);
    assert_int_equal(remaining(bucket, "other"), 4);
}

static void test_requests_of_a_batch_stand_for_themselves(void **state)
{
    (void)state;
    enum {
        COUNT = 150
    };
    struct caudal_request requests[COUNT];
    struct caudal_decision decisions[COUNT];
    for (size_t i = 0; i < COUNT; i++)
        requests[i] = (struct caudal_request){bucket, "batch", 5, 1};
    requests[3].limit = 12345;
    requests[70] = (struct caudal_request){unlimited, "batch", 5, 1};
    requests[71].key_length = CAUDAL_KEY_MAX + 1;
    assert_int_equal(caudal_take_batch(store, requests, COUNT, decisions), CAUDAL_ERR_UNKNOWN);
    size_t allowed = 0;
    for (size_t i = 0; i < COUNT; i++)
        allowed += decisions[i].verdict == CAUDAL_ALLOW;
    assert_int_equal(allowed, 11);
    assert_int_equal(decisions[3].status, CAUDAL_ERR_UNKNOWN);
    assert_int_equal(decisions[70].remaining, UINT64_MAX);
    assert_int_equal(decisions[71].status, CAUDAL_ERR_KEY);
}

static void test_the_other_operations(void **state)
{
    (void)state;
    struct caudal_decision decision;
    assert_int_equal(caudal_take_up_to(store, bucket, "ops", 3, 1, 7, &decision), CAUDAL_OK);
    assert_int_equal(decision.granted, 7);
    assert_int_equal(caudal_take_up_to(store, bucket, "ops", 3, 1, 7, &decision), CAUDAL_OK);
    assert_int_equal(decision.granted, 3);
    assert_int_equal(caudal_take_up_to(store, bucket, "ops", 3, 1, 7, &decision), CAUDAL_OK);
    assert_int_equal(decision.verdict, CAUDAL_DENY);
    assert_int_equal(caudal_refund(store, bucket, "ops", 3, 4, &decision), CAUDAL_OK);
    assert_int_equal(decision.remaining, 4);
    assert_int_equal(spend(bucket, "ops", 11).verdict, CAUDAL_NEVER);
    const uint32_t limits[] = {bucket, window, sliding_log};
    for (size_t i = 0; i < COUNT_OF(limits); i++) {
        spend(limits[i], "ops", 2);
        assert_int_equal(caudal_reset(store, limits[i], "ops", 3), CAUDAL_OK);
        assert_int_equal(spend(limits[i], "ops", 0).reset_after_ns, 0);
    }
}

/* The loop of the caller has nothing to wait for: it must not. */
static void test_what_nobody_is_asked_about_is_answered_at_once(void **state)
{
    (void)state;
    struct caudal_store *other = open_store("", "a secret");
    struct caudal_decision decision;
    const struct caudal_limit limit = limit_of(CAUDAL_UNLIMITED, 0, 0);
    uint32_t id;
    assert_int_equal(caudal_add_limit(other, "unlimited", &limit, &id, NULL), CAUDAL_OK);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(caudal_take(other, id, "k", 1, UINT64_MAX, &decision), CAUDAL_OK);
        assert_int_equal(decision.granted, UINT64_MAX);
        assert_int_equal(caudal_take(other, id + 1, "k", 1, 1, &decision), CAUDAL_ERR_UNKNOWN);
        assert_int_equal(caudal_reset(other, id, "k", 1), CAUDAL_OK);
    }
    caudal_store_close(other);
}

/* The scripts count in whole numbers of 53 bits. */
static void test_instants_that_cannot_be_counted_with_are_an_error(void **state)
{
    (void)state;
    static const int64_t no[] = {INT64_MIN, INT64_MIN + 1, -DAY, -1, CDL_REDIS_NOW_MAX, INT64_MAX};
    static const int64_t yes[] = {0, 1, EPOCH, CDL_REDIS_NOW_MAX - 1};
    const uint32_t limits[] = {bucket, window, sliding_log, unlimited};
    struct caudal_decision decision, overall;
    for (size_t k = 0; k < COUNT_OF(limits); k++) {
        const struct caudal_request request = {limits[k], "instants", 8, 1};
        for (size_t i = 0; i < COUNT_OF(no); i++) {
            assert_int_equal(caudal_take_at(store, limits[k], "instants", 8, 1, no[i], &decision), CAUDAL_ERR_ARGUMENT);
            assert_int_equal(decision.status, CAUDAL_ERR_ARGUMENT);
            assert_int_equal(caudal_take_all_at(store, &request, 1, no[i], &decision, &overall), CAUDAL_ERR_ARGUMENT);
        }
        for (size_t i = 0; i < COUNT_OF(yes); i++) {
            caudal_reset(store, limits[k], "instants", 8);
            assert_int_equal(caudal_take_at(store, limits[k], "instants", 8, 2, yes[i], &decision), CAUDAL_OK);
            assert_int_equal(decision.granted, 2);
            assert_int_equal(caudal_take_at(store, limits[k], "instants", 8, 9, yes[i], &decision), CAUDAL_OK);
            assert_true((decision.verdict == CAUDAL_ALLOW) == (limits[k] == unlimited));
        }
    }
}

static void test_limits_are_kept_by_name(void **state)
{
    (void)state;
    struct caudal_limit limit = CAUDAL_LIMIT_INIT, raised = bucket_of(20, 20, DAY);
    struct caudal_decision decision;
    struct caudal_problem problem = {.message = ""};
    uint32_t id;
    assert_int_equal(caudal_find_limit(store, "window", &id), CAUDAL_OK);
    assert_int_equal(id, window);
    assert_int_equal(caudal_get_limit(store, id, &limit), CAUDAL_OK);
    assert_int_equal(limit.count, 5);
    const uint32_t raised_id = add("raised", bucket_of(10, 10, DAY));
    assert_int_equal(caudal_add_limit(store, "raised", &raised, &id, NULL), CAUDAL_ERR_EXISTS);
    spend(raised_id, "k", 10);
    assert_int_equal(caudal_set_limit(store, raised_id, &raised, NULL), CAUDAL_OK);
    assert_int_equal(remaining(raised_id, "k"), 10);
    assert_int_equal(caudal_remove_limit(store, raised_id), CAUDAL_OK);
    assert_int_equal(caudal_take(store, raised_id, "k", 1, 1, &decision), CAUDAL_ERR_UNKNOWN);
    assert_int_equal(decision.status, CAUDAL_ERR_UNKNOWN);
    const struct caudal_limit odd = limit_of(CAUDAL_SLIDING_WINDOW, 5, 1500);
    assert_int_equal(caudal_add_limit(store, "odd", &odd, &id, &problem), CAUDAL_ERR_LIMIT);
    assert_non_null(strstr(problem.message, "'odd'"));
    assert_non_null(strstr(problem.message, "microseconds"));
}

/* ---- threads ---- */

enum {
    THREADS = 12,
    TAKES = 40
};

static void *take_many(void *context)
{
    size_t *allowed = context;
    for (int i = 0; i < TAKES; i++) {
        struct caudal_decision decision;
        if (caudal_take(store, bucket, "threads", 7, 1, &decision) != CAUDAL_OK)
            return NULL;
        *allowed += decision.verdict == CAUDAL_ALLOW;
    }
    return context;
}

/* More threads than may wait at once. */
static void test_threads_admit_exactly_the_limit(void **state)
{
    (void)state;
    pthread_t threads[THREADS];
    size_t allowed[THREADS] = {0}, sum = 0;
    for (size_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, take_many, &allowed[i]), 0);
    for (size_t i = 0; i < THREADS; i++) {
        void *result;
        pthread_join(threads[i], &result);
        assert_non_null(result);
        sum += allowed[i];
    }
    assert_int_equal(sum, 10);
}

/* ---- leases ---- */

struct lessee {
    struct caudal_store *store;
    uint32_t limit;
    uint64_t admitted, by_lease, failed;
};

static void *take_leased(void *context)
{
    struct lessee *lessee = context;
    for (int i = 0; i < 20000; i++) {
        struct caudal_decision decision;
        lessee->failed += caudal_take(lessee->store, lessee->limit, "leased", 6, 1, &decision) != CAUDAL_OK;
        lessee->admitted += decision.granted;
        lessee->by_lease += decision.verdict == CAUDAL_ALLOW && decision.source == CAUDAL_SOURCE_LEASE;
    }
    return NULL;
}

/* Two processes, as it were, of two threads each, with leases that live for a tenth of a second. */
static void test_leases_of_two_stores_keep_the_bound(void **state)
{
    (void)state;
    enum {
        LESSEES = 4
    };
    const struct caudal_limit limit = bucket_of(2000, 20000, SECOND);
    const struct caudal_lease lease = CAUDAL_LEASE_INIT;
    struct caudal_store *stores[2] = {store, open_store("", "a secret")};
    struct lessee lessees[LESSEES];
    pthread_t threads[LESSEES];
    uint32_t ids[2];
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(caudal_add_limit(stores[i], "leased", &limit, &ids[i], NULL), CAUDAL_OK);
        assert_int_equal(caudal_lease_limit(stores[i], ids[i], &lease, NULL), CAUDAL_OK);
    }
    const struct caudal_clock *clock = caudal_clock_system();
    const int64_t began_ns = clock->monotonic_ns(clock->context);
    for (size_t i = 0; i < LESSEES; i++) {
        lessees[i] = (struct lessee){.store = stores[i % 2], .limit = ids[i % 2]};
        assert_int_equal(pthread_create(&threads[i], NULL, take_leased, &lessees[i]), 0);
    }
    uint64_t admitted = 0, by_lease = 0;
    for (size_t i = 0; i < LESSEES; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(lessees[i].failed, 0);
        admitted += lessees[i].admitted;
        by_lease += lessees[i].by_lease;
    }
    const int64_t took_ns = clock->monotonic_ns(clock->context) - began_ns;
    assert_true(admitted <= 2000 + 20000 * (uint64_t)(took_ns / MILLISECOND + 101) / 1000);
    assert_true(by_lease > admitted / 4);
    struct cdl_lease_counts counts;
    cdl_store_lease_counts(stores[0], &counts);
    assert_true(counts.by_lease > 0 && counts.store_calls > 0);
    caudal_store_close(stores[1]);
}

/* ---- when nobody is there ---- */

static void test_no_server_is_an_error_and_no_refusal(void **state)
{
    (void)state;
    struct caudal_store *nowhere;
    struct caudal_limit limit = bucket_of(10, 10, DAY);
    struct caudal_decision decision;
    uint32_t id;
    assert_int_equal(caudal_store_open("unix:/nowhere/at/all?deadline=200ms", NULL, &nowhere, NULL), CAUDAL_OK);
    assert_int_equal(caudal_add_limit(nowhere, "bucket", &limit, &id, NULL), CAUDAL_OK);
    assert_int_equal(caudal_take(nowhere, id, "k", 1, 1, &decision), CAUDAL_ERR_STORE);
    assert_int_equal(decision.status, CAUDAL_ERR_STORE);
    assert_int_equal(decision.verdict, CAUDAL_NO_VERDICT);
    assert_true(cdl_redis_last_failure() != CDL_STORE_NONE);
    caudal_store_close(nowhere);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_name_of_a_key_is_as_documented),
        cmocka_unit_test(test_another_secret_is_another_key),
        cmocka_unit_test(test_two_stores_share_what_is_spent),
        cmocka_unit_test(test_several_are_all_or_nothing),
        cmocka_unit_test(test_a_key_named_twice_is_charged_for_both),
        cmocka_unit_test(test_each_request_is_charged_to_its_own_key),
        cmocka_unit_test(test_requests_of_a_batch_stand_for_themselves),
        cmocka_unit_test(test_the_other_operations),
        cmocka_unit_test(test_what_nobody_is_asked_about_is_answered_at_once),
        cmocka_unit_test(test_instants_that_cannot_be_counted_with_are_an_error),
        cmocka_unit_test(test_limits_are_kept_by_name),
        cmocka_unit_test(test_threads_admit_exactly_the_limit),
        cmocka_unit_test(test_leases_of_two_stores_keep_the_bound),
        cmocka_unit_test(test_no_server_is_an_error_and_no_refusal),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
