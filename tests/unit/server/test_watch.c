/* C65: each way in which a policy's files may change is noticed once, and only when all of them have come to rest. No time passes here:
 * where the clock of the file system would be too coarse to tell two changes apart, the time is set. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../support.h"
#include "server/watch.h"

static char directory[] = "/tmp/caudal-watch-XXXXXX";
static struct cdl_watch watch;
static int64_t now_s;

#define LATER (INT64_C(4000000000) * SECOND) /* than anything that happens here */

static char *path_of(const char *name)
{
    static char paths[8][256];
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
    cdl_watch_start(&watch, strdup(path_of("policy")), LATER);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    char command[300];
    free(watch.sources[0].path);
    cdl_watch_end(&watch);
    snprintf(command, sizeof command, "rm -rf '%s'", directory);
    return system(command);
}

/* Looks until nothing more happens; how many changes were told. */
static unsigned changes(void)
{
    unsigned count = 0;
    for (int i = 0; i < 5; i++)
        count += cdl_watch_look(&watch, LATER);
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
        assert_false(cdl_watch_look(&watch, LATER));
    }
    assert_true(cdl_watch_look(&watch, LATER));
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
    cdl_watch_start(&other, path, LATER);
    assert_false(cdl_watch_look(&other, LATER));
    write_file("later", "one");
    assert_false(cdl_watch_look(&other, LATER));
    assert_true(cdl_watch_look(&other, LATER));
    assert_false(cdl_watch_look(&other, LATER));
    free(path);
}

/* ---- several files and folders ---- */

/* Goes on with what a policy was read from: names in the directory. */
static void follow(const char *const *names, uint32_t count)
{
    struct cdl_slice sources[8];
    const struct cdl_policy policy = {.sources = sources, .source_count = count};
    assert_true(count <= COUNT_OF(sources));
    for (uint32_t i = 0; i < count; i++)
        sources[i] = cdl_slice_of(path_of(names[i]));
    assert_true(cdl_watch_follow(&watch, &policy));
}

static void follow_folder(void)
{
    assert_int_equal(mkdir(path_of("rl"), 0700), 0);
    write_file("rl/a.yaml", "a");
    write_file("rl/b.yaml", "b");
    follow((const char *const[]){"policy", "rl", "rl/a.yaml", "rl/b.yaml"}, 4);
    assert_int_equal(changes(), 0);
}

static void every_file_of_a_policy_is_watched(void **state)
{
    (void)state;
    write_file("more", "one");
    follow((const char *const[]){"policy", "more"}, 2);
    assert_int_equal(changes(), 0);
    write_file("more", "two");
    assert_int_equal(changes(), 1);
    write_file("policy", "two");
    assert_int_equal(changes(), 1);
    write_file("policy", "three");
    write_file("more", "three");
    assert_int_equal(changes(), 1); /* together */
}

static void what_a_policy_no_longer_names_is_not_watched(void **state)
{
    (void)state;
    write_file("more", "one");
    follow((const char *const[]){"policy", "more"}, 2);
    follow((const char *const[]){"policy"}, 1);
    write_file("more", "two");
    assert_int_equal(changes(), 0);
    follow((const char *const[]){"more"}, 1);
    write_file("policy", "two");
    assert_int_equal(changes(), 1); /* it is the policy, whatever it names */
}

static void files_of_a_folder_are_written_added_renamed_and_removed(void **state)
{
    (void)state;
    follow_folder();
    write_file("rl/a.yaml", "two");
    assert_int_equal(changes(), 1);
    write_file("rl/c.yaml", "c"); /* nothing knows of it yet but the folder */
    assert_int_equal(changes(), 1);
    write_file("rl/c.yaml", "d"); /* nor when it could not be read and has been set right */
    assert_int_equal(changes(), 1);
    assert_int_equal(rename(path_of("rl/c.yaml"), path_of("rl/d.yaml")), 0);
    assert_int_equal(changes(), 1);
    assert_int_equal(unlink(path_of("rl/a.yaml")), 0);
    assert_int_equal(changes(), 1);
    write_file("rl/a.yaml", "two");
    assert_int_equal(changes(), 1);
}

static void C54_hidden_entries_are_no_change(void **state)
{
    (void)state;
    follow_folder();
    write_file("rl/.a.yaml.swp", "x");
    write_file("rl/a.yaml~", "x");
    assert_int_equal(mkdir(path_of("rl/..2026"), 0700), 0);
    assert_int_equal(changes(), 0);
}

/* rl/a.yaml -> ..data/a.yaml, ..data -> ..1: a ConfigMap that is mounted as a folder; and the folder itself behind a link. */
static void C54_a_folder_of_links_is_swapped(void **state)
{
    (void)state;
    assert_int_equal(mkdir(path_of("rl"), 0700), 0);
    assert_int_equal(mkdir(path_of("rl/..1"), 0700), 0);
    assert_int_equal(mkdir(path_of("rl/..2"), 0700), 0);
    write_file("rl/..1/a.yaml", "one");
    write_file("rl/..2/a.yaml", "two");
    assert_int_equal(symlink("..1", path_of("rl/..data")), 0);
    assert_int_equal(symlink("..data/a.yaml", path_of("rl/a.yaml")), 0);
    assert_int_equal(symlink("rl", path_of("current")), 0);
    follow((const char *const[]){"policy", "current"}, 2);
    assert_int_equal(changes(), 0);
    assert_int_equal(symlink("..2", path_of("rl/..data_tmp")), 0);
    assert_int_equal(rename(path_of("rl/..data_tmp"), path_of("rl/..data")), 0);
    assert_int_equal(changes(), 1);
    assert_int_equal(mkdir(path_of("rl.new"), 0700), 0);
    assert_int_equal(symlink("rl.new", path_of("current_tmp")), 0);
    assert_int_equal(rename(path_of("current_tmp"), path_of("current")), 0);
    assert_int_equal(changes(), 1);
    assert_int_equal(rmdir(path_of("rl.new")), 0);
    assert_int_equal(changes(), 1);
}

static void a_folder_of_which_one_file_is_being_written_is_left_alone(void **state)
{
    (void)state;
    follow_folder();
    write_file("rl/a.yaml", "two");
    for (int i = 0; i < 5; i++) {
        write_file("rl/b.yaml", &"longer and longer"[i]);
        assert_false(cdl_watch_look(&watch, LATER));
    }
    assert_true(cdl_watch_look(&watch, LATER));
    assert_int_equal(changes(), 0);
}

/* What was watched while the policy was read goes on from before that. */
static void what_changes_while_it_is_read_is_seen(void **state)
{
    (void)state;
    follow_folder();
    write_file("rl/a.yaml", "two");
    write_file("policy", "two");
    follow((const char *const[]){"policy", "rl", "rl/a.yaml"}, 3);
    assert_int_equal(changes(), 1);
    /* What is new may have changed after it was read, if it is younger than the last look. */
    write_file("more", "one");
    watch.looked_ns = 0;
    follow((const char *const[]){"policy", "more"}, 2);
    assert_int_equal(changes(), 1);
    follow((const char *const[]){"policy", "more"}, 2);
    assert_int_equal(changes(), 0);
}

static void as_many_sources_as_there_may_be(void **state)
{
    (void)state;
    static struct cdl_slice sources[CDL_POLICY_SOURCES_MAX];
    const struct cdl_policy policy = {.sources = sources, .source_count = COUNT_OF(sources)};
    for (uint32_t i = 0; i < COUNT_OF(sources); i++) {
        char name[16];
        snprintf(name, sizeof name, "%u", i);
        write_file(name, "one");
        sources[i] = cdl_slice_of(strdup(path_of(name)));
    }
    assert_true(cdl_watch_follow(&watch, &policy));
    assert_int_equal(changes(), 0);
    write_file("0", "two");
    assert_int_equal(changes(), 1);
    write_file("255", "two");
    assert_int_equal(changes(), 1);
    for (uint32_t i = 0; i < COUNT_OF(sources); i++)
        free((char *)(uintptr_t)sources[i].bytes);
}

static void a_folder_of_more_entries_than_are_looked_at(void **state)
{
    (void)state;
    assert_int_equal(mkdir(path_of("rl"), 0700), 0);
    for (unsigned i = 0; i <= CDL_WATCH_ENTRIES_MAX; i++) {
        char name[16];
        snprintf(name, sizeof name, "rl/%u", i);
        write_file(name, "");
    }
    follow((const char *const[]){"policy", "rl"}, 2);
    assert_int_equal(changes(), 0);
    write_file("rl/new", "");
    assert_int_equal(changes(), 1);
    assert_int_equal(unlink(path_of("rl/7")), 0);
    assert_int_equal(changes(), 1);
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
        CASE(every_file_of_a_policy_is_watched),
        CASE(what_a_policy_no_longer_names_is_not_watched),
        CASE(files_of_a_folder_are_written_added_renamed_and_removed),
        CASE(C54_hidden_entries_are_no_change),
        CASE(C54_a_folder_of_links_is_swapped),
        CASE(a_folder_of_which_one_file_is_being_written_is_left_alone),
        CASE(what_changes_while_it_is_read_is_seen),
        CASE(as_many_sources_as_there_may_be),
        CASE(a_folder_of_more_entries_than_are_looked_at),
    };
    return cmocka_run_group_tests_name("watch", tests, NULL, NULL);
}
