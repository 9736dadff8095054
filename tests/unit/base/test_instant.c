/* Instants as programs write them. */
#include "base/instant.h"

#include "../support.h"

static void check(int64_t instant_ns, const char *expected)
{
    char bytes[64];
    struct cdl_writer writer = cdl_writer_on(bytes, sizeof bytes - 1);
    cdl_instant_write(&writer, instant_ns);
    bytes[writer.length] = '\0';
    assert_false(writer.overflow);
    assert_string_equal(bytes, expected);
}

static void decimals_in_threes(void **state)
{
    (void)state;
    check(0, "1970-01-01T00:00:00Z");
    check(INT64_C(1431857103250000000), "2015-05-17T10:05:03.250Z");
    check(INT64_C(1431857103000001000), "2015-05-17T10:05:03.000001Z");
    check(INT64_C(1431857103000000001), "2015-05-17T10:05:03.000000001Z");
}

static void days_that_are_easily_wrong(void **state)
{
    (void)state;
    check(INT64_C(951782399) * 1000000000, "2000-02-28T23:59:59Z");
    check(INT64_C(951782400) * 1000000000, "2000-02-29T00:00:00Z");
    check(-1, "1969-12-31T23:59:59.999999999Z");
}

static void the_bounds_of_time(void **state)
{
    (void)state;
    check(INT64_MAX, "2262-04-11T23:47:16.854775807Z");
    check(INT64_MIN, "1677-09-21T00:12:43.145224192Z");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(decimals_in_threes),
        cmocka_unit_test(days_that_are_easily_wrong),
        cmocka_unit_test(the_bounds_of_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
