/* Parameters of a store's URL, the URLs of the memory store, and what is shown of a URL. */
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

/* ---- what is shown ---- */

static void assert_masked(const char *url, const char *want)
{
    char bytes[6000];
    struct cdl_writer writer = cdl_writer_on(bytes, sizeof bytes - 1);
    cdl_store_url_mask(url, &writer);
    assert_false(writer.overflow);
    bytes[writer.length] = '\0';
    assert_string_equal(bytes, want);
}

static void a_url_is_shown_without_its_password(void **state)
{
    (void)state;
    assert_masked("redis://user:pw@h:6380/3?db=1", "redis://user:***@h:6380/3?db=1");
    assert_masked("rediss://:pw@[::1]", "rediss://***@[::1]");
    assert_masked("rediss://:@h", "rediss://***@h");
    assert_masked("redis://pw@h", "redis://***@h");
    assert_masked("redis-sentinel://u:p%40w@a,b:1/name/2", "redis-sentinel://u:***@a,b:1/name/2");
    assert_masked("redis-cluster://a%2Fb:c:d#e@a,b", "redis-cluster://a%2Fb:***@a,b");
    assert_masked("unix://:pw@/run/x%20y?db=1", "unix://***@/run/x%20y?db=1");
}

static void what_holds_no_secret_is_shown_whole(void **state)
{
    (void)state;
    static const char *const urls[] = {
        "memory:",
        "memory:?keys=10&wide_keys=5&log_entries=7",
        "redis://",
        "redis://h",
        "redis://:1/",
        "redis://[::1]:6379/15",
        "unix:/run/redis.sock",
        "unix:///run/redis.sock?db=3",
        "redis-cluster://a,b,c?tls=yes&tls_name=x&tls_verify=no&protocol=2&prefix=p&deadline=15ms",
        "redis-cluster://a?connect_timeout=1s&connections=2&clients=3&in_flight=4&breaker=5&wait_replicas=6",
    };
    for (size_t i = 0; i < COUNT_OF(urls); i++)
        assert_masked(urls[i], urls[i]);
}

static void other_parameters_are_not_shown(void **state)
{
    (void)state;
    assert_masked("redis://h?password=pw&db=1", "redis://h?db=1");
    assert_masked("redis://h?password_file=/pw&password_env=PW&sentinel_user=pw", "redis://h");
    assert_masked("redis://h?pw", "redis://h");
    assert_masked("redis://h?db=1&pw&prefix=x", "redis://h?db=1&prefix=x");
}

static void nothing_of_a_malformed_url_is_shown_but_its_scheme(void **state)
{
    (void)state;
    static const char *const urls[] = {
        "redis://u:p@w@h",  "redis://u:p/w@h",  "redis://u:p?w@h", "redis://u:pw",    "redis://:pw",
        "redis://h:6379pw", "redis://h/pw",     "redis://u:%zz@h", "redis://u:pw@h,", "redis:pw",
        "redis:",           "redis://h?x=y@pw", "redis://h\n",
    };
    for (size_t i = 0; i < COUNT_OF(urls); i++)
        assert_masked(urls[i], "redis:***");
    assert_masked("unix:pw", "unix:***");
    assert_masked("unix://pw/x", "unix:***");
    assert_masked("memory:pw", "memory:***");
    assert_masked("memory://pw", "memory:***");
    assert_masked("", "***");
    assert_masked("pw", "***");
    assert_masked("redis", "***");
    assert_masked("pw://h", "***");
    assert_masked("http://u:pw@h", "***");
}

static void a_mask_that_does_not_fit_says_so(void **state)
{
    (void)state;
    char bytes[10];
    struct cdl_writer writer = cdl_writer_on(bytes, sizeof bytes);
    cdl_store_url_mask("redis://u:pw@h", &writer);
    assert_true(writer.overflow);
}

static void parameters_are_found_by_name(void **state)
{
    (void)state;
    assert_true(cdl_store_url_has("redis://h?db=1&deadline=5ms", "deadline"));
    assert_true(cdl_store_url_has("memory:?deadline", "deadline"));
    assert_false(cdl_store_url_has("redis://h?xdeadline=5ms", "deadline"));
    assert_false(cdl_store_url_has("redis://deadline", "deadline"));
    assert_false(cdl_store_url_has("redis://a@b@c?deadline=1s", "deadline"));
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
    assert_does_not_open("redys://127.0.0.1", 0);
    assert_does_not_open("memory://", 7);
    assert_does_not_open("memory:keys=1", 7);
    assert_does_not_open("memory:?keys=0", 13);
    assert_does_not_open("memory:?keys=4294967297", 13);
    assert_does_not_open("memory:?wide_keys=268435457", 18);
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
        cmocka_unit_test(a_url_is_shown_without_its_password),
        cmocka_unit_test(what_holds_no_secret_is_shown_whole),
        cmocka_unit_test(other_parameters_are_not_shown),
        cmocka_unit_test(nothing_of_a_malformed_url_is_shown_but_its_scheme),
        cmocka_unit_test(a_mask_that_does_not_fit_says_so),
        cmocka_unit_test(parameters_are_found_by_name),
        cmocka_unit_test(a_memory_store_opens_with_and_without_parameters),
        cmocka_unit_test(a_url_that_is_not_understood_is_refused_where_it_goes_wrong),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
