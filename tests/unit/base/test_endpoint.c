/* Addresses to listen on: all forms, and what is wrong with those that are none. */
#include "base/endpoint.h"

#include "../support.h"

static void C102_forms(void **state)
{
    (void)state;
    static const struct {
        const char *text, *host;
        unsigned port;
        const char *path;
    } cases[] = {
        {"127.0.0.1:8080", "127.0.0.1", 8080, ""},   {"[::1]:443", "::1", 443, ""},
        {"[fe80::1%eth0]:1", "fe80::1%eth0", 1, ""}, {":0", "", 0, ""},
        {"localhost:65535", "localhost", 65535, ""}, {"unix:/run/x", "", 0, "/run/x"},
        {"unix:/run/a:b", "", 0, "/run/a:b"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct cdl_endpoint endpoint;
        const char *why = "";
        assert_true(cdl_endpoint_parse(cdl_slice_of(cases[i].text), &endpoint, &why));
        assert_int_equal(endpoint.is_unix, cases[i].path[0] != '\0');
        assert_true(cdl_slice_equal(endpoint.host, cdl_slice_of(cases[i].host)));
        assert_true(cdl_slice_equal(endpoint.path, cdl_slice_of(cases[i].path)));
        assert_int_equal(endpoint.port, cases[i].port);
    }
}

static void C102_what_is_none(void **state)
{
    (void)state;
    static const struct {
        const char *text, *why;
    } cases[] = {
        {"", "is empty"},
        {"8080", "has no port"},
        {"localhost", "has no port"},
        {"[::1]", "has no port"},
        {"::1", "is ambiguous"},
        {"::1:8080", "is ambiguous"},
        {"[]:80", "has nothing between its brackets"},
        {"a b:80", "has a character that no host name has"},
        {"http://a:80", "is ambiguous"},
        {"a:65536", "needs a port"},
        {"a:99999999999", "needs a port"},
        {"a:", "needs a port"},
        {"a:-1", "needs a port"},
        {"a:8x", "needs a port"},
        {"unix:", "needs an absolute path"},
        {"unix:x", "needs an absolute path"},
        {"unix:/" /* 107 bytes fit a Unix socket, with its NUL */
         "123456789012345678901234567890123456789012345678901234567890"
         "12345678901234567890123456789012345678901234567",
         "has a path longer"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct cdl_endpoint endpoint;
        const char *why = "";
        assert_false(cdl_endpoint_parse(cdl_slice_of(cases[i].text), &endpoint, &why));
        if (strncmp(why, cases[i].why, strlen(cases[i].why)) != 0)
            fail_msg("'%s' %s", cases[i].text, why);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(C102_forms),
        cmocka_unit_test(C102_what_is_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
