/* Status codes in words, and the version. */
#include "caudal/status.h"

#include "../support.h"

static const int codes[] = {
    CAUDAL_OK,        CAUDAL_ERR_ARGUMENT,    CAUDAL_ERR_MEMORY, CAUDAL_ERR_SYNTAX,
    CAUDAL_ERR_LIMIT, CAUDAL_ERR_UNKNOWN,     CAUDAL_ERR_EXISTS, CAUDAL_ERR_KEY,
    CAUDAL_ERR_FULL,  CAUDAL_ERR_UNSUPPORTED, CAUDAL_ERR_STORE,
};

static void ok_is_0_and_every_error_is_negative(void **state)
{
    (void)state;
    assert_int_equal(CAUDAL_OK, 0);
    for (size_t i = 1; i < COUNT_OF(codes); i++)
        assert_true(codes[i] < 0);
}

static void every_code_has_words_of_its_own(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(codes); i++) {
        assert_true(strlen(caudal_status_text(codes[i])) > 0);
        assert_string_not_equal(caudal_status_text(codes[i]), "unknown status");
        for (size_t j = 0; j < i; j++)
            assert_string_not_equal(caudal_status_text(codes[i]), caudal_status_text(codes[j]));
    }
}

static void a_number_that_is_no_code_is_an_unknown_status(void **state)
{
    (void)state;
    assert_string_equal(caudal_status_text(1), "unknown status");
    assert_string_equal(caudal_status_text(CAUDAL_ERR_STORE - 1), "unknown status");
    assert_string_equal(caudal_status_text(-2147483647 - 1), "unknown status");
}

static void the_version_is_that_of_the_build(void **state)
{
    (void)state;
    unsigned major, minor, patch;
    char rest;
    assert_int_equal(sscanf(caudal_version(), "%u.%u.%u%c", &major, &minor, &patch, &rest), 3);
    assert_string_equal(caudal_version(), CAUDAL_VERSION);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ok_is_0_and_every_error_is_negative),
        cmocka_unit_test(every_code_has_words_of_its_own),
        cmocka_unit_test(a_number_that_is_no_code_is_an_unknown_status),
        cmocka_unit_test(the_version_is_that_of_the_build),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
