/* Exact arithmetic: division by a known divisor against the machine's own, rounding down, clamping. */
#include "base/arith.h"

#include "../support.h"

/* What cdl_divide promises, for one pair. */
static void assert_divides(uint64_t x, uint64_t d)
{
    const struct cdl_divisor divisor = cdl_divisor_make(d);
    if (cdl_divide(x, &divisor) != x / d)
        fail_msg("%llu / %llu is %llu, want %llu", (unsigned long long)x, (unsigned long long)d,
                 (unsigned long long)cdl_divide(x, &divisor), (unsigned long long)(x / d));
}

/* The dividends at which an estimate goes wrong first: multiples and their neighbours, and the largest of all. */
static void assert_divides_at_edges(uint64_t d)
{
    const uint64_t most = INT64_MAX, last = most / d;
    const uint64_t quotients[] = {0, 1, 2, 3, last / 2, last - (last > 0), last};
    for (size_t i = 0; i < COUNT_OF(quotients); i++) {
        const uint64_t x = quotients[i] * d;
        assert_divides(x, d);
        if (x > 0)
            assert_divides(x - 1, d);
        if (x < most)
            assert_divides(x + 1, d);
        if (d - 1 <= most - x)
            assert_divides(x + d - 1, d);
    }
    assert_divides(most, d);
    assert_divides(most - 1, d);
}

static void division_is_exact_for_powers_of_two_and_their_neighbours(void **state)
{
    (void)state;
    for (unsigned bit = 0; bit <= 62; bit++) {
        const uint64_t power = UINT64_C(1) << bit;
        if (power > 1)
            assert_divides_at_edges(power - 1);
        assert_divides_at_edges(power);
        if (bit < 62)
            assert_divides_at_edges(power + 1);
    }
}

static void division_is_exact_for_small_divisors_and_powers_of_ten(void **state)
{
    (void)state;
    for (uint64_t d = 1; d <= 1000; d++)
        assert_divides_at_edges(d);
    for (uint64_t d = 1; d <= UINT64_C(1000000000000000000); d *= 10)
        assert_divides_at_edges(d);
}

static void division_is_exact_for_a_million_random_pairs(void **state)
{
    (void)state;
    struct rng rng = {1};
    for (int i = 0; i < 20000; i++) {
        const uint64_t d = rng_magnitude(&rng, UINT64_C(1) << 62);
        const struct cdl_divisor divisor = cdl_divisor_make(d);
        for (int j = 0; j < 50; j++) {
            const uint64_t x = (rng_next(&rng) >> 1) >> rng_below(&rng, 63);
            if (cdl_divide(x, &divisor) != x / d)
                assert_divides(x, d); /* says which */
        }
        assert_divides_at_edges(d);
    }
}

static int64_t floor_div(int64_t a, int64_t b)
{
    return (int64_t)cdl_floor_div(a, b);
}

static void floor_div_rounds_towards_minus_infinity(void **state)
{
    (void)state;
    assert_int_equal(floor_div(0, 10), 0);
    assert_int_equal(floor_div(9, 10), 0);
    assert_int_equal(floor_div(10, 10), 1);
    assert_int_equal(floor_div(-1, 10), -1);
    assert_int_equal(floor_div(-9, 10), -1);
    assert_int_equal(floor_div(-10, 10), -1);
    assert_int_equal(floor_div(-11, 10), -2);
    assert_int_equal(floor_div(INT64_MIN, 1), INT64_MIN);
    assert_int_equal(floor_div(INT64_MIN, INT64_MAX), -2);
    assert_int_equal(floor_div(INT64_MAX, INT64_MAX), 1);
}

static void floor_div_leaves_a_rest_from_0_to_below_the_divisor(void **state)
{
    (void)state;
    struct rng rng = {2};
    for (int i = 0; i < 100000; i++) {
        const int64_t b = (int64_t)rng_magnitude(&rng, INT64_MAX);
        const int64_t a = rng_signed(&rng, INT64_MAX);
        const cdl_i128 rest = (cdl_i128)a - cdl_floor_div(a, b) * b;
        assert_true(rest >= 0 && rest < b);
    }
}

static void floor_div_takes_128_bits(void **state)
{
    (void)state;
    const cdl_i128 big = (cdl_i128)1 << 100;
    assert_true(cdl_floor_div(big, (cdl_i128)1 << 60) == (cdl_i128)1 << 40);
    assert_true(cdl_floor_div(-big - 1, (cdl_i128)1 << 60) == -((cdl_i128)1 << 40) - 1);
}

static void an_instant_is_clamped_to_64_bits(void **state)
{
    (void)state;
    assert_int_equal(cdl_clamp_i64(0), 0);
    assert_int_equal(cdl_clamp_i64(INT64_MAX), INT64_MAX);
    assert_int_equal(cdl_clamp_i64(INT64_MIN), INT64_MIN);
    assert_int_equal(cdl_clamp_i64((cdl_i128)INT64_MAX + 1), INT64_MAX);
    assert_int_equal(cdl_clamp_i64((cdl_i128)INT64_MIN - 1), INT64_MIN);
    assert_int_equal(cdl_clamp_i64((cdl_i128)1 << 100), INT64_MAX);
    assert_int_equal(cdl_clamp_i64(-((cdl_i128)1 << 100)), INT64_MIN);
}

static void minimum_and_maximum_compare_as_their_types_say(void **state)
{
    (void)state;
    assert_true(cdl_min_u64(1, UINT64_MAX) == 1);
    assert_true(cdl_min_u64(UINT64_MAX, UINT64_MAX - 1) == UINT64_MAX - 1);
    assert_true(cdl_max_i64(-1, 0) == 0);
    assert_true(cdl_max_i64(INT64_MIN, -5) == -5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(division_is_exact_for_powers_of_two_and_their_neighbours),
        cmocka_unit_test(division_is_exact_for_small_divisors_and_powers_of_ten),
        cmocka_unit_test(division_is_exact_for_a_million_random_pairs),
        cmocka_unit_test(floor_div_rounds_towards_minus_infinity),
        cmocka_unit_test(floor_div_leaves_a_rest_from_0_to_below_the_divisor),
        cmocka_unit_test(floor_div_takes_128_bits),
        cmocka_unit_test(an_instant_is_clamped_to_64_bits),
        cmocka_unit_test(minimum_and_maximum_compare_as_their_types_say),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
