/* What can come of asking a store: names, words, and the codes of error replies. */
#include "store/failure.h"

#include "../support.h"

static void assert_event(const char *error, enum cdl_store_event want)
{
    const enum cdl_store_event got = cdl_store_event_of_error(cdl_slice_of(error));
    if (got != want)
        fail_msg("'%s': got %s, want %s", error, cdl_store_event_name(got), cdl_store_event_name(want));
}

static void every_event_has_a_name_of_its_own_and_words(void **state)
{
    (void)state;
    for (enum cdl_store_event event = CDL_STORE_NONE; event < CDL_STORE_EVENTS; event++) {
        const char *name = cdl_store_event_name(event);
        assert_true(strlen(name) > 0 && strspn(name, "abcdefghijklmnopqrstuvwxyz_") == strlen(name));
        assert_true(strlen(cdl_store_event_text(event)) > 8);
        for (enum cdl_store_event other = CDL_STORE_NONE; other < event; other++) {
            assert_string_not_equal(name, cdl_store_event_name(other));
            assert_string_not_equal(cdl_store_event_text(event), cdl_store_event_text(other));
        }
    }
    assert_string_equal(cdl_store_event_name(CDL_STORE_TIMEOUT), "timeout");
    assert_string_equal(cdl_store_event_text(CDL_STORE_TIMEOUT), "no answer before the deadline");
}

static void an_unknown_number_is_no_event(void **state)
{
    (void)state;
    assert_string_equal(cdl_store_event_name(CDL_STORE_EVENTS), "none");
    assert_string_equal(cdl_store_event_name((enum cdl_store_event) - 1), "none");
    assert_string_equal(cdl_store_event_text((enum cdl_store_event)1000), cdl_store_event_text(CDL_STORE_NONE));
}

static void an_error_begins_with_its_code(void **state)
{
    (void)state;
    assert_event("NOSCRIPT No matching script. Please use EVAL.", CDL_STORE_NOSCRIPT);
    assert_event("MOVED 866 127.0.0.1:7001", CDL_STORE_MOVED);
    assert_event("ASK 866 127.0.0.1:7001", CDL_STORE_ASK);
    assert_event("TRYAGAIN Multiple keys request during rehashing of slot", CDL_STORE_TRYAGAIN);
    assert_event("CLUSTERDOWN The cluster is down", CDL_STORE_CLUSTERDOWN);
    assert_event("LOADING Redis is loading the dataset in memory", CDL_STORE_LOADING);
    assert_event("READONLY You can't write against a read only replica.", CDL_STORE_READONLY);
    assert_event("MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
                 CDL_STORE_MASTERDOWN);
    assert_event("BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.",
                 CDL_STORE_BUSY);
    assert_event("OOM command not allowed when used memory > 'maxmemory'.", CDL_STORE_OOM);
    assert_event("NOAUTH Authentication required.", CDL_STORE_NOAUTH);
    assert_event("WRONGPASS invalid username-password pair or user is disabled.", CDL_STORE_WRONGPASS);
    assert_event("NOPERM this user has no permissions to run the 'evalsha' command", CDL_STORE_NOPERM);
    assert_event("NOREPLICAS Not enough good replicas to write.", CDL_STORE_NOREPLICAS);
    assert_event("CROSSSLOT Keys in request don't hash to the same slot", CDL_STORE_CROSSSLOT);
    assert_event("READONLY", CDL_STORE_READONLY);
    assert_event("ERR invalid password", CDL_STORE_WRONGPASS);
}

static void any_other_is_an_error(void **state)
{
    (void)state;
    assert_event("", CDL_STORE_ERROR);
    assert_event(" OOM", CDL_STORE_ERROR);
    assert_event("-OOM x", CDL_STORE_ERROR);
    assert_event("ERR DB index is out of range", CDL_STORE_ERROR);
    assert_event("MISCONF Redis is configured to save RDB snapshots", CDL_STORE_ERROR);
    assert_event("BUSYKEY Target key name already exists.", CDL_STORE_ERROR);
    assert_event("BUS", CDL_STORE_ERROR);
    assert_event("oom in a script of somebody's", CDL_STORE_ERROR);
    assert_event("TIMEOUT", CDL_STORE_ERROR);
    assert_event("ERROR", CDL_STORE_ERROR);
    assert_int_equal(cdl_store_event_of_error((struct cdl_slice){NULL, 0}), CDL_STORE_ERROR);
}

#define F_SHA "f_f8a06dd8e6b4b8d6b9a1e2b7d0d8a5c1f2e3d4c5"

static void an_error_within_a_script_counts_by_its_own_code(void **state)
{
    (void)state;
    assert_event("ERR Error running script (call to " F_SHA "): @user_script:1: -READONLY You can't write against a "
                 "read only replica.",
                 CDL_STORE_READONLY);
    assert_event("ERR Error running script (call to " F_SHA "): @user_script:17: @user_script: 17: -OOM command not "
                 "allowed when used memory > 'maxmemory'.",
                 CDL_STORE_OOM);
    assert_event("ERR Error running script (call to " F_SHA "): @user_script:1: @user_script: 1: -NOREPLICAS Not "
                 "enough good replicas to write.",
                 CDL_STORE_NOREPLICAS);
    assert_event("OOM command not allowed when used memory > 'maxmemory'. script: " F_SHA ", on @user_script:1.",
                 CDL_STORE_OOM);
    assert_event("READONLY Can not run script with write flag on readonly replica.", CDL_STORE_READONLY);
    assert_event("ERR The user executing the script can't run this command or subcommand script: " F_SHA,
                 CDL_STORE_NOPERM);
    assert_event("ERR ACL failure in script: User bob has no permissions to run the 'time' command", CDL_STORE_NOPERM);
    assert_event("ERR Error running script (call to " F_SHA "): @user_script:1: user_script:1: attempt to compare nil "
                 "with number",
                 CDL_STORE_ERROR);
    assert_event("ERR Error running script (call to " F_SHA "): @user_script:1: -WRONGTYPE Operation against a key",
                 CDL_STORE_ERROR);
    assert_event("ERR Error running script: -OOM", CDL_STORE_ERROR);
    assert_event("ERR Error compiling script: @user_script:1: -OOM", CDL_STORE_ERROR);
    assert_event("ERR value: -OOM @user_script:1: -OOM", CDL_STORE_ERROR);
}

static void events_are_counted_by_themselves(void **state)
{
    (void)state;
    struct cdl_store_events counted = {0};
    cdl_store_event_count(&counted, CDL_STORE_LOST);
    cdl_store_event_count(&counted, CDL_STORE_LOST);
    cdl_store_event_count(&counted, CDL_STORE_OOM);
    for (enum cdl_store_event event = CDL_STORE_NONE; event < CDL_STORE_EVENTS; event++)
        assert_int_equal(atomic_load(&counted.counts[event]), event == CDL_STORE_LOST  ? 2
                                                              : event == CDL_STORE_OOM ? 1
                                                                                       : 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_event_has_a_name_of_its_own_and_words),
        cmocka_unit_test(an_unknown_number_is_no_event),
        cmocka_unit_test(an_error_begins_with_its_code),
        cmocka_unit_test(any_other_is_an_error),
        cmocka_unit_test(an_error_within_a_script_counts_by_its_own_code),
        cmocka_unit_test(events_are_counted_by_themselves),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
