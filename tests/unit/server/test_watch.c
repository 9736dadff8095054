/* C65: each way in which a file may change is noticed once, and only when the file has come to rest. No time passes here:
 * where the clock of the file system would be too coarse to tell two changes apart, the time is set. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "../support.h"
#include "server/watch.h"

static char directory[] = "/tmp/caudal-watch-XXXXXX";
static struct cdl_watch watch;
static int64_t now_s;

static const char *path_of(const char *name)
{
    static char paths[4][256];
    static unsigned next;
    char *path = paths[next++ % COUNT_OF(paths)];
    snprintf(path, sizeof paths[0], "%s/%s", directory, name);
    return path;
}

/* Writes in place, at a time of its own. */
static void write_file(const char *name, const char *text)
{
    const int fd = open(path_of(name), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    now_s++;
    const struct timespec times[2] = {{now_s, 0}, {now_s, 0}};
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    assert_int_equal(futimens(fd, times), 0);
    close(fd);
}

static int setup(void **state)
{
    (void)state;
    strcpy(directory, "/tmp/caudal-watch-XXXXXX");
    now_s = 1764547200;
    assert_non_null(mkdtemp(directory));
    write_file("policy", "one");
    cdl_watch_start(&watch, strdup(path_of("policy")));
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    char command[300];
    free((char *)(uintptr_t)watch.path);
    snprintf(command, sizeof command, "rm -rf '%s'", directory);
    return system(command);
}

/* Looks until nothing more happens; how many changes were told. */
static unsigned changes(void)
{
    unsigned count = 0;
    for (int i = 0; i < 5; i++)
        count += cdl_watch_look(&watch);
    return count;
}

static void a_file_that_stays_is_no_change(void **state)
{
    (void)state;
    assert_int_equal(changes(), 0);
}

static void written_in_place(void **state)
{
    (void)state;
    write_file("policy", "two");
    assert_int_equal(changes(), 1);
    write_file("policy", "six"); /* the same size */
    assert_int_equal(changes(), 1);
}

static void renamed_over(void **state)
{
    (void)state;
    write_file("policy.new", "two");
    assert_int_equal(changes(), 0);
    assert_int_equal(rename(path_of("policy.new"), path_of("policy")), 0);
    assert_int_equal(changes(), 1);
}

/* rsync -t and cp -p bring the old time along. */
static void renamed_over_with_the_same_size_and_time(void **state)
{
    (void)state;
    now_s--;
    write_file("policy.new", "two");
    assert_int_equal(rename(path_of("policy.new"), path_of("policy")), 0);
    assert_int_equal(changes(), 1);
}

/* policy -> ..data/policy, ..data -> ..1: what Kubernetes does with a ConfigMap. */
static void a_symbolic_link_two_links_away_is_swapped(void **state)
{
    (void)state;
    assert_int_equal(mkdir(path_of("..1"), 0700), 0);
    assert_int_equal(mkdir(path_of("..2"), 0700), 0);
    write_file("..1/policy", "one");
    write_file("..2/policy", "two");
    assert_int_equal(symlink("..1", path_of("..data")), 0);
    assert_int_equal(unlink(path_of("policy")), 0);
    assert_int_equal(symlink("..data/policy", path_of("policy")), 0);
    assert_int_equal(changes(), 1);
    assert_int_equal(symlink("..2", path_of("..data_tmp")), 0);
    assert_int_equal(rename(path_of("..data_tmp"), path_of("..data")), 0);
    assert_int_equal(changes(), 1);
    assert_int_equal(changes(), 0);
}

static void removed_and_made_again(void **state)
{
    (void)state;
    assert_int_equal(unlink(path_of("policy")), 0);
    assert_int_equal(changes(), 1); /* gone */
    write_file("policy", "two");
    assert_int_equal(changes(), 1); /* back */
}

static void removed_and_made_again_between_two_looks(void **state)
{
    (void)state;
    assert_int_equal(unlink(path_of("policy")), 0);
    write_file("policy", "two");
    assert_int_equal(changes(), 1);
}

static void a_file_that_is_still_being_written_is_left_alone(void **state)
{
    (void)state;
    static const char *const steps[] = {"", "li", "limits", "limits:"};
    for (size_t i = 0; i < COUNT_OF(steps); i++) {
        write_file("policy", steps[i]);
        assert_false(cdl_watch_look(&watch));
    }
    assert_true(cdl_watch_look(&watch));
    assert_int_equal(changes(), 0);
}

static void two_changes_between_two_looks_are_one(void **state)
{
    (void)state;
    write_file("policy", "two");
    write_file("policy", "three");
    assert_int_equal(changes(), 1);
}

static void a_file_that_is_absent_at_the_start_may_come(void **state)
{
    (void)state;
    struct cdl_watch other;
    char *path = strdup(path_of("later"));
    cdl_watch_start(&other, path);
    assert_false(cdl_watch_look(&other));
    write_file("later", "one");
    assert_false(cdl_watch_look(&other));
    assert_true(cdl_watch_look(&other));
    assert_false(cdl_watch_look(&other));
    free(path);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_file_that_stays_is_no_change),
        CASE(written_in_place),
        CASE(renamed_over),
        CASE(renamed_over_with_the_same_size_and_time),
        CASE(a_symbolic_link_two_links_away_is_swapped),
        CASE(removed_and_made_again),
        CASE(removed_and_made_again_between_two_looks),
        CASE(a_file_that_is_still_being_written_is_left_alone),
        CASE(two_changes_between_two_looks_are_one),
        CASE(a_file_that_is_absent_at_the_start_may_come),
    };
    return cmocka_run_group_tests_name("watch", tests, NULL, NULL);
}
