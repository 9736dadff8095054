/* Parameters of a store's URL, and the URLs of the memory store. */
#include "store/url.h"

#include "../support.h"

struct parameters {
    uint64_t keys, size;
};

static int read_parameters(const char *text, struct parameters *parameters, struct caudal_problem *problem)
{
    *parameters = (struct parameters){77, 88};
    const struct cdl_url_number numbers[] = {
        {"keys", 1, 1000, &parameters->keys},
        {"size", 0, UINT64_MAX, &parameters->size},
    };
    return cdl_url_numbers(text, 100, numbers, COUNT_OF(numbers), problem);
}

static void assert_reads(const char *text, uint64_t keys, uint64_t size)
{
    struct parameters parameters;
    struct caudal_problem problem = {.message = ""};
    if (read_parameters(text, &parameters, &problem) != CAUDAL_OK)
        fail_msg("'%s': %s", text, problem.message);
    assert_int_equal(parameters.keys, keys);
    assert_int_equal(parameters.size, size);
}

/* `position` counts from the start of the parameters. */
static void assert_refused(const char *text, size_t position, const char *words)
{
    struct parameters parameters;
    struct caudal_problem problem = {.message = ""};
    assert_int_equal(read_parameters(text, &parameters, &problem), CAUDAL_ERR_SYNTAX);
    assert_int_equal(problem.code, CAUDAL_ERR_SYNTAX);
    if (problem.position != 100 + position || strstr(problem.message, words) == NULL)
        fail_msg("'%s': at %zu: %s", text, problem.position - 100, problem.message);
    assert_int_equal(read_parameters(text, &parameters, NULL), CAUDAL_ERR_SYNTAX);
}

static void what_is_not_given_is_left_alone(void **state)
{
    (void)state;
    assert_reads("", 77, 88);
    assert_reads("keys=5", 5, 88);
    assert_reads("size=5", 77, 5);
}

static void parameters_come_in_any_order(void **state)
{
    (void)state;
    assert_reads("keys=1&size=2", 1, 2);
    assert_reads("size=2&keys=1", 1, 2);
}

static void numbers_reach_from_the_least_to_the_most(void **state)
{
    (void)state;
    assert_reads("keys=1000", 1000, 88);
    assert_reads("size=0", 77, 0);
    assert_reads("size=18446744073709551615", 77, UINT64_MAX);
    assert_reads("keys=0001", 1, 88);
    assert_refused("keys=0", 5, "from 1 to 1000");
    assert_refused("keys=1001", 5, "from 1 to 1000");
    assert_refused("size=18446744073709551616", 5, "whole number");
    assert_refused("size=99999999999999999999999999", 5, "whole number");
}

static void only_plain_whole_numbers_are_numbers(void **state)
{
    (void)state;
    static const char *const texts[] = {"keys=",   "keys=-1", "keys=+1",  "keys=1k",
                                        "keys= 1", "keys=1 ", "keys=0x1", "keys=1.0"};
    for (size_t i = 0; i < COUNT_OF(texts); i++)
        assert_refused(texts[i], 5, "whole number");
    assert_refused("keys", 4, "whole number");
    assert_refused("keys==1", 5, "whole number");
}

static void an_unknown_name_is_refused_where_it_stands(void **state)
{
    (void)state;
    assert_refused("key=1", 0, "unknown parameter 'key'");
    assert_refused("keyss=1", 0, "unknown parameter 'keyss'");
    assert_refused("KEYS=1", 0, "unknown parameter 'KEYS'");
    assert_refused("keys=1&colour=2", 7, "unknown parameter 'colour'");
    assert_refused("=1", 0, "unknown parameter ''");
    assert_refused("&keys=1", 0, "unknown parameter ''");
    assert_refused("keys=1&&size=1", 7, "unknown parameter ''");
}

static void a_long_name_is_cut_in_the_message(void **state)
{
    (void)state;
    char text[2000];
    memset(text, 'x', sizeof text);
    text[sizeof text - 1] = '\0';
    assert_refused(text, 0, "unknown parameter 'xxxx");
}

static void a_name_is_given_once(void **state)
{
    (void)state;
    assert_refused("keys=1&keys=1", 7, "'keys' is given twice");
    assert_refused("keys=1&size=2&keys=3", 14, "'keys' is given twice");
}

/* ---- the memory store's own ---- */

static void assert_opens(const char *url)
{
    struct caudal_store *store = NULL;
    struct caudal_problem problem = {.message = ""};
    if (caudal_store_open(url, NULL, &store, &problem) != CAUDAL_OK)
        fail_msg("%s: %s", url, problem.message);
    assert_non_null(store);
    caudal_store_close(store);
}

static void assert_does_not_open(const char *url, size_t position)
{
    struct caudal_store *store = (struct caudal_store *)&position;
    struct caudal_problem problem = {.message = ""};
    assert_int_equal(caudal_store_open(url, NULL, &store, &problem), CAUDAL_ERR_SYNTAX);
    assert_null(store);
    assert_int_equal(problem.code, CAUDAL_ERR_SYNTAX);
    assert_int_equal(problem.position, position);
    assert_true(strlen(problem.message) > 0);
}

static void a_memory_store_opens_with_and_without_parameters(void **state)
{
    (void)state;
    assert_opens("memory:");
    assert_opens("memory:?");
    assert_opens("memory:?keys=1");
    assert_opens("memory:?keys=1&wide_keys=1&log_entries=1");
    assert_opens("memory:?log_entries=100000&keys=5000&wide_keys=77");
}

static void a_url_that_is_not_understood_is_refused_where_it_goes_wrong(void **state)
{
    (void)state;
    assert_does_not_open("", 0);
    assert_does_not_open("memory", 0);
    assert_does_not_open("MEMORY:", 0);
    assert_does_not_open("redis://127.0.0.1", 0);
    assert_does_not_open("memory://", 7);
    assert_does_not_open("memory:keys=1", 7);
    assert_does_not_open("memory:?keys=0", 13);
    assert_does_not_open("memory:?keys=4294967297", 13);
    assert_does_not_open("memory:?wide_keys=16777217", 18);
    assert_does_not_open("memory:?log_entries=1073741825", 20);
    assert_does_not_open("memory:?keys=1&size=2", 15);
    assert_does_not_open("memory:?keys=1?keys=2", 13);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_not_given_is_left_alone),
        cmocka_unit_test(parameters_come_in_any_order),
        cmocka_unit_test(numbers_reach_from_the_least_to_the_most),
        cmocka_unit_test(only_plain_whole_numbers_are_numbers),
        cmocka_unit_test(an_unknown_name_is_refused_where_it_stands),
        cmocka_unit_test(a_long_name_is_cut_in_the_message),
        cmocka_unit_test(a_name_is_given_once),
        cmocka_unit_test(a_memory_store_opens_with_and_without_parameters),
        cmocka_unit_test(a_url_that_is_not_understood_is_refused_where_it_goes_wrong),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
