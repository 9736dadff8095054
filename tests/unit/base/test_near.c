/* Near misses: distances are those of Damerau, and only what is near is proposed. */
#include "base/near.h"

#include "../support.h"

static unsigned distance(const char *a, const char *b)
{
    unsigned there = cdl_distance(cdl_slice_of(a), cdl_slice_of(b));
    assert_int_equal(there, cdl_distance(cdl_slice_of(b), cdl_slice_of(a)));
    return there;
}

static void distances(void **state)
{
    (void)state;
    assert_int_equal(distance("", ""), 0);
    assert_int_equal(distance("burst", "BURST"), 0);
    assert_int_equal(distance("burst", ""), 5);
    assert_int_equal(distance("burst", "brust"), 1);
    assert_int_equal(distance("burst", "bust"), 1);
    assert_int_equal(distance("burst", "bursts"), 1);
    assert_int_equal(distance("burst", "bursa"), 1);
    assert_int_equal(distance("kitten", "sitting"), 3);
    assert_int_equal(distance("client-ip", "client_ip"), 1);
    assert_int_equal(distance("a", "a word that is far too long to be compared with others"), CDL_FAR);
}

static void only_what_is_near_is_proposed(void **state)
{
    (void)state;
    static const char *const names[] = {"per", "rate", "burst", "overrides"};
    assert_string_equal(cdl_nearest(CDL_SLICE("brust"), names, 4), "burst");
    assert_string_equal(cdl_nearest(CDL_SLICE("rates"), names, 4), "rate");
    assert_string_equal(cdl_nearest(CDL_SLICE("overides"), names, 4), "overrides");
    assert_null(cdl_nearest(CDL_SLICE("colour"), names, 4));
    assert_null(cdl_nearest(CDL_SLICE(""), names, 4));
    assert_null(cdl_nearest(CDL_SLICE("rate"), names, 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(distances),
        cmocka_unit_test(only_what_is_near_is_proposed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
