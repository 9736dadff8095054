/* One instance's share of a limit: exact where it can be, and never more. */
#include "limiter/local_share.h"

#include "../support.h"

static struct caudal_limit part(struct caudal_limit limit, uint32_t numerator, uint32_t denominator)
{
    const struct caudal_limit scaled = cdl_local_limit(&limit, (struct cdl_ratio){numerator, denominator});
    assert_int_equal(caudal_limit_check(&scaled, NULL), CAUDAL_OK);
    return scaled;
}

static void a_bucket_has_its_part_of_the_rate_and_of_the_burst(void **state)
{
    (void)state;
    assert_same_limit(part(bucket_of(30, 30, MINUTE), 1, 3), bucket_of(10, 10, MINUTE)); /* in the policy's words */
    assert_same_limit(part(bucket_of(10, 10, MINUTE), 1, 3), bucket_of(3, 10, 3 * MINUTE));
    assert_same_limit(part(bucket_of(10, 100, SECOND), 3, 4), bucket_of(7, 75, SECOND));
    assert_same_limit(part(limit_of(CAUDAL_TOKEN_BUCKET, 8, SECOND), 1, 4), bucket_of(2, 2, SECOND));
    assert_same_limit(part(bucket_of(5, 7, HOUR), 1, 1), bucket_of(5, 7, HOUR));
}

static void what_is_counted_whole_is_rounded_down_but_not_to_nothing(void **state)
{
    (void)state;
    assert_int_equal(part(bucket_of(1, 5, SECOND), 1, 1000).burst, 1);
    assert_int_equal(part(bucket_of(0, 5, SECOND), 1, 2).burst, 0); /* nothing was allowed */
    assert_same_limit(part(limit_of(CAUDAL_FIXED_WINDOW, 10, MINUTE), 1, 3), limit_of(CAUDAL_FIXED_WINDOW, 3, MINUTE));
    assert_same_limit(part(limit_of(CAUDAL_SLIDING_WINDOW, 2, MINUTE), 1, 3),
                      limit_of(CAUDAL_SLIDING_WINDOW, 1, MINUTE));
    assert_same_limit(part(limit_of(CAUDAL_SLIDING_LOG, 0, MINUTE), 1, 3), limit_of(CAUDAL_SLIDING_LOG, 0, MINUTE));
    assert_same_limit(part(limit_of(CAUDAL_UNLIMITED, 0, 0), 1, 3), limit_of(CAUDAL_UNLIMITED, 0, 0));
}

static void a_rate_of_nothing_stays_one(void **state)
{
    (void)state;
    assert_same_limit(part(bucket_of(9, 0, SECOND), 1, 3), bucket_of(3, 0, SECOND));
    /* Once in 50 years, for four: once in 200 is slower than any rate can be. */
    assert_same_limit(part(bucket_of(1, 1, 50 * YEAR), 1, 4), bucket_of(1, 0, 50 * YEAR));
}

/* count/period <= numerator/denominator of the limit's, and less only where that could not be. */
static void no_share_is_above_its_part(void **state)
{
    (void)state;
    struct rng rng = {7};
    unsigned exact = 0;
    for (unsigned i = 0; i < scaled(200000); i++) {
        const struct caudal_limit limit = random_bucket(&rng);
        const uint32_t denominator = (uint32_t)rng_magnitude(&rng, UINT32_MAX);
        const uint32_t numerator = (uint32_t)rng_magnitude(&rng, denominator);
        const struct caudal_limit local = part(limit, numerator, denominator);
        const unsigned __int128 wanted = (unsigned __int128)limit.count * numerator * local.period_ns;
        const unsigned __int128 whole = (unsigned __int128)limit.period_ns * denominator;
        /* Of numbers whose product does not fit 128 bits nothing is said here. */
        if (local.count > 0 &&
            (whole >> 64 != 0 || local.count >> 32 != 0 || (unsigned __int128)limit.count * numerator >> 64 != 0))
            continue;
        assert_true((unsigned __int128)local.count * whole <= wanted);
        exact += (unsigned __int128)local.count * whole == wanted;
        const uint64_t burst = caudal_limit_capacity(&limit);
        assert_true(local.burst <= (burst > 0 ? 1 + (unsigned __int128)burst * numerator / denominator : 0));
    }
    assert_true(exact > 0);
}

static void a_limit_that_names_no_share_has_one_part_in_the_instances(void **state)
{
    (void)state;
    const struct cdl_policy policy = {.instances = 5};
    struct cdl_limit_rule rule = {.local_share = {0, 0}};
    assert_int_equal(cdl_local_ratio(&policy, &rule).numerator, 1);
    assert_int_equal(cdl_local_ratio(&policy, &rule).denominator, 5);
    rule.local_share = (struct cdl_ratio){3, 4};
    assert_int_equal(cdl_local_ratio(&policy, &rule).numerator, 3);
    assert_int_equal(cdl_local_ratio(&policy, &rule).denominator, 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_bucket_has_its_part_of_the_rate_and_of_the_burst),
        cmocka_unit_test(what_is_counted_whole_is_rounded_down_but_not_to_nothing),
        cmocka_unit_test(a_rate_of_nothing_stays_one),
        cmocka_unit_test(no_share_is_above_its_part),
        cmocka_unit_test(a_limit_that_names_no_share_has_one_part_in_the_instances),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
