/* Joining parts to a key: different parts never give the same bytes, and a buffer is never written past its end. */
#include "caudal/key.h"

#include <stdlib.h>

#include "../support.h"

#define PART(text)                                                                                                     \
    {                                                                                                                  \
        text, sizeof text - 1                                                                                          \
    }

static void assert_joins(const struct caudal_key_part *parts, size_t count, const char *want, size_t want_length)
{
    char key[256];
    size_t length = 0;
    assert_int_equal(caudal_key_join(parts, count, key, sizeof key, &length), CAUDAL_OK);
    assert_int_equal(length, want_length);
    assert_memory_equal(key, want, want_length);
}

static void parts_are_written_as_netstrings(void **state)
{
    (void)state;
    const struct caudal_key_part parts[] = {PART("a"), PART("bc"), PART(""), PART("0123456789")};
    assert_joins(parts, 4, "1:a,2:bc,0:,10:0123456789,", 26);
    assert_joins(parts, 1, "1:a,", 4);
}

static void no_parts_are_an_empty_key(void **state)
{
    (void)state;
    size_t length = 99;
    assert_int_equal(caudal_key_join(NULL, 0, NULL, 0, &length), CAUDAL_OK);
    assert_int_equal(length, 0);
}

static void a_part_may_hold_any_bytes(void **state)
{
    (void)state;
    const struct caudal_key_part parts[] = {PART("a\0b"), PART("\xff\r\n"), PART("3:x,")};
    assert_joins(parts, 3, "3:a\0b,3:\xff\r\n,4:3:x,,", 19);
}

static void an_empty_part_may_have_no_address(void **state)
{
    (void)state;
    const struct caudal_key_part parts[] = {{NULL, 0}, PART("x")};
    assert_joins(parts, 2, "0:,1:x,", 7);
}

/* ---- injective ---- */

struct joined {
    char bytes[64];
    size_t length;
};

static int compare_joined(const void *a, const void *b)
{
    const struct joined *x = a, *y = b;
    if (x->length != y->length)
        return x->length < y->length ? -1 : 1;
    return memcmp(x->bytes, y->bytes, x->length);
}

/* Every way to write up to three parts of up to two bytes from the bytes that the encoding itself uses. */
static void different_parts_never_give_the_same_key(void **state)
{
    (void)state;
    static const char alphabet[] = {'a', ':', ',', '1', '0', '\0'};
    enum {
        LETTERS = sizeof alphabet,
        PARTS = 1 + LETTERS + LETTERS * LETTERS,
        KEYS = 1 + PARTS + PARTS * PARTS + PARTS * PARTS * PARTS
    };
    static char texts[PARTS][2];
    struct caudal_key_part parts[PARTS];
    size_t made = 0;
    parts[made++] = (struct caudal_key_part){texts[0], 0};
    for (size_t i = 0; i < LETTERS; i++, made++) {
        texts[made][0] = alphabet[i];
        parts[made] = (struct caudal_key_part){texts[made], 1};
    }
    for (size_t i = 0; i < LETTERS * LETTERS; i++, made++) {
        texts[made][0] = alphabet[i / LETTERS];
        texts[made][1] = alphabet[i % LETTERS];
        parts[made] = (struct caudal_key_part){texts[made], 2};
    }
    assert_int_equal(made, PARTS);

    struct joined *keys = calloc(KEYS, sizeof *keys);
    size_t count = 0;
    for (size_t length = 0, combinations = 1; length <= 3; length++, combinations *= PARTS)
        for (size_t i = 0; i < combinations; i++) {
            const struct caudal_key_part chosen[] = {parts[i % PARTS], parts[i / PARTS % PARTS],
                                                     parts[i / PARTS / PARTS]};
            struct joined *key = &keys[count++];
            assert_int_equal(caudal_key_join(chosen, length, key->bytes, sizeof key->bytes, &key->length), CAUDAL_OK);
        }
    assert_int_equal(count, KEYS);
    qsort(keys, count, sizeof *keys, compare_joined);
    for (size_t i = 1; i < count; i++)
        assert_int_not_equal(compare_joined(&keys[i - 1], &keys[i]), 0);
    free(keys);
}

/* ---- room ---- */

/* A buffer of every size, exact to the byte, so that a sanitizer sees a byte too many. */
static void a_buffer_is_never_written_past_its_end(void **state)
{
    (void)state;
    const struct caudal_key_part parts[] = {PART("abc"), PART(""), PART("0123456789ab")};
    const size_t whole = 6 + 3 + 16;
    for (size_t size = 0; size <= whole + 1; size++) {
        char *buffer = malloc(size + 1);
        buffer[size] = '#';
        size_t length = 0;
        const int status = caudal_key_join(parts, 3, size > 0 ? buffer : NULL, size, &length);
        assert_int_equal(status, size >= whole ? CAUDAL_OK : CAUDAL_ERR_KEY);
        assert_int_equal(length, whole);
        assert_int_equal(buffer[size], '#');
        free(buffer);
    }
}

static void the_length_is_told_when_there_is_no_room_at_all(void **state)
{
    (void)state;
    const struct caudal_key_part part = PART("abc");
    size_t length = 0;
    assert_int_equal(caudal_key_join(&part, 1, NULL, 0, &length), CAUDAL_ERR_KEY);
    assert_int_equal(length, 6);
}

static void the_longest_key_has_65536_bytes(void **state)
{
    (void)state;
    char *bytes = calloc(1, CAUDAL_KEY_MAX), *buffer = malloc(CAUDAL_KEY_MAX + 64);
    size_t length = 0;
    struct caudal_key_part part = {bytes, CAUDAL_KEY_MAX - 7}; /* "65529:" and "," make it up */
    assert_int_equal(caudal_key_join(&part, 1, buffer, CAUDAL_KEY_MAX + 64, &length), CAUDAL_OK);
    assert_int_equal(length, CAUDAL_KEY_MAX);
    part.length++;
    assert_int_equal(caudal_key_join(&part, 1, buffer, CAUDAL_KEY_MAX + 64, &length), CAUDAL_ERR_KEY);
    assert_int_equal(length, CAUDAL_KEY_MAX + 1);
    free(bytes);
    free(buffer);
}

/* A caller that passes a length of -1 gets an error, and nothing is read there. */
static void a_length_that_cannot_be_is_too_long(void **state)
{
    (void)state;
    char buffer[64];
    const size_t lengths[] = {SIZE_MAX, SIZE_MAX - 1, SIZE_MAX - 21, SIZE_MAX - 22, SIZE_MAX / 2};
    for (size_t i = 0; i < COUNT_OF(lengths); i++) {
        const struct caudal_key_part parts[] = {{"x", lengths[i]}, {"x", lengths[i]}, {"x", lengths[i]}};
        for (size_t count = 1; count <= 3; count++) {
            size_t length = 0;
            assert_int_equal(caudal_key_join(parts, count, buffer, sizeof buffer, &length), CAUDAL_ERR_KEY);
            assert_true(length > CAUDAL_KEY_MAX);
        }
    }
}

static void a_sum_that_does_not_fit_is_told_as_the_largest_length(void **state)
{
    (void)state;
    const struct caudal_key_part parts[] = {{"x", SIZE_MAX / 2}, {"x", SIZE_MAX / 2}};
    size_t length = 0;
    assert_int_equal(caudal_key_join(parts, 2, NULL, 0, &length), CAUDAL_ERR_KEY);
    assert_true(length == SIZE_MAX);
}

static void what_is_not_there_is_an_argument_error(void **state)
{
    (void)state;
    char buffer[64];
    size_t length = 0;
    const struct caudal_key_part part = PART("abc"), hole = {NULL, 1};
    assert_int_equal(caudal_key_join(&part, 1, buffer, sizeof buffer, NULL), CAUDAL_ERR_ARGUMENT);
    assert_int_equal(caudal_key_join(NULL, 1, buffer, sizeof buffer, &length), CAUDAL_ERR_ARGUMENT);
    assert_int_equal(caudal_key_join(&part, 1, NULL, sizeof buffer, &length), CAUDAL_ERR_ARGUMENT);
    assert_int_equal(caudal_key_join(&hole, 1, buffer, sizeof buffer, &length), CAUDAL_ERR_ARGUMENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_are_written_as_netstrings),
        cmocka_unit_test(no_parts_are_an_empty_key),
        cmocka_unit_test(a_part_may_hold_any_bytes),
        cmocka_unit_test(an_empty_part_may_have_no_address),
        cmocka_unit_test(different_parts_never_give_the_same_key),
        cmocka_unit_test(a_buffer_is_never_written_past_its_end),
        cmocka_unit_test(the_length_is_told_when_there_is_no_room_at_all),
        cmocka_unit_test(the_longest_key_has_65536_bytes),
        cmocka_unit_test(a_length_that_cannot_be_is_too_long),
        cmocka_unit_test(a_sum_that_does_not_fit_is_told_as_the_largest_length),
        cmocka_unit_test(what_is_not_there_is_an_argument_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
