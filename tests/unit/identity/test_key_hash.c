/* The hash of a key depends on all its bytes, on its length and on the secret. */
#include "identity/key_hash.h"

#include <stdlib.h>

#include "../support.h"

static uint8_t secret[CDL_KEY_SECRET_BYTES];

static void draw(uint8_t *bytes, uint64_t seed)
{
    struct rng rng = {seed};
    for (size_t i = 0; i < CDL_KEY_SECRET_BYTES; i++)
        bytes[i] = (uint8_t)rng_next(&rng);
}

static int draw_secret(void **state)
{
    (void)state;
    draw(secret, 42);
    return 0;
}

static bool same(struct cdl_key_hash a, struct cdl_key_hash b)
{
    return a.low == b.low && a.high == b.high;
}

static void the_same_key_has_the_same_hash(void **state)
{
    (void)state;
    const char here[] = "203.0.113.7", there[] = "203.0.113.7";
    assert_true(same(cdl_key_hash(secret, here, 11), cdl_key_hash(secret, there, 11)));
}

static void every_byte_counts_at_any_length(void **state)
{
    (void)state;
    static const size_t lengths[] = {1, 2, 3, 4, 8, 9, 16, 17, 64, 128, 129, 240, 241, 1000, CAUDAL_KEY_MAX};
    char *key = calloc(1, CAUDAL_KEY_MAX);
    for (size_t i = 0; i < COUNT_OF(lengths); i++) {
        const struct cdl_key_hash plain = cdl_key_hash(secret, key, lengths[i]);
        const size_t places[] = {0, lengths[i] / 2, lengths[i] - 1};
        for (size_t j = 0; j < COUNT_OF(places); j++) {
            key[places[j]] = 1;
            const struct cdl_key_hash other = cdl_key_hash(secret, key, lengths[i]);
            assert_true(plain.low != other.low && plain.high != other.high);
            key[places[j]] = 0;
        }
    }
    free(key);
}

static void zeros_of_another_length_are_another_key(void **state)
{
    (void)state;
    static const char zeros[300];
    for (size_t length = 0; length < sizeof zeros; length++)
        for (size_t other = 0; other < length; other++)
            assert_false(same(cdl_key_hash(secret, zeros, length), cdl_key_hash(secret, zeros, other)));
}

static void an_empty_key_may_have_no_address(void **state)
{
    (void)state;
    assert_true(same(cdl_key_hash(secret, NULL, 0), cdl_key_hash(secret, "", 0)));
}

static void another_secret_gives_other_hashes(void **state)
{
    (void)state;
    uint8_t other[CDL_KEY_SECRET_BYTES];
    static const size_t lengths[] = {0, 1, 11, 100, 300};
    const char key[300] = "203.0.113.7";
    draw(other, 43);
    for (size_t i = 0; i < COUNT_OF(lengths); i++)
        assert_false(same(cdl_key_hash(secret, key, lengths[i]), cdl_key_hash(other, key, lengths[i])));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_key_has_the_same_hash),          cmocka_unit_test(every_byte_counts_at_any_length),
        cmocka_unit_test(zeros_of_another_length_are_another_key), cmocka_unit_test(an_empty_key_may_have_no_address),
        cmocka_unit_test(another_secret_gives_other_hashes),
    };
    return cmocka_run_group_tests(tests, draw_secret, NULL);
}
