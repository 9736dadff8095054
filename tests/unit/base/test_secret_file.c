/* Secrets from files and pipes. */
#include "base/secret_file.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "../support.h"

/* What is read of a file with these bytes into room for 8. */
static ssize_t read_back(const char *content, char got[8])
{
    char path[] = "/tmp/caudal-secret-XXXXXX";
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, content, strlen(content)), strlen(content));
    close(fd);
    const ssize_t length = cdl_secret_file_read(path, got, 8);
    unlink(path);
    return length;
}

static void line_ends_after_a_secret_are_not_of_it(void **state)
{
    (void)state;
    static const char *const contents[] = {"secret", "secret\n", "secret\r", "sec\n"};
    static const ssize_t lengths[] = {6, 6, 6, 3};
    for (size_t i = 0; i < COUNT_OF(contents); i++) {
        char got[8];
        assert_int_equal(read_back(contents[i], got), lengths[i]);
        assert_memory_equal(got, contents[i], (size_t)lengths[i]);
    }
    char got[8];
    assert_int_equal(read_back("s\r\n\r\n", got), 1);
    assert_int_equal(read_back(" s \n", got), 3);
    assert_int_equal(read_back("", got), 0);
    assert_int_equal(read_back("\n\n", got), 0);
}

static void what_may_not_have_fitted_fills_the_room(void **state)
{
    (void)state;
    char got[8];
    assert_int_equal(read_back("1234567", got), 7);
    assert_int_equal(read_back("12345678", got), 8);
    assert_int_equal(read_back("1234567\n", got), 8);
    assert_int_equal(read_back("123456789", got), 8);
}

static void a_pipe_is_read_to_its_end(void **state)
{
    (void)state;
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    char path[40], got[8];
    snprintf(path, sizeof path, "/proc/self/fd/%d", ends[0]);
    assert_int_equal(write(ends[1], "pipe\n", 5), 5);
    close(ends[1]);
    assert_int_equal(cdl_secret_file_read(path, got, sizeof got), 4);
    close(ends[0]);
}

static void what_cannot_be_read_says_why(void **state)
{
    (void)state;
    char got[8];
    assert_int_equal(cdl_secret_file_read("/nowhere/at/all", got, sizeof got), -1);
    assert_int_equal(errno, ENOENT);
    assert_int_equal(cdl_secret_file_read("/", got, sizeof got), -1);
    assert_int_equal(errno, EISDIR);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(line_ends_after_a_secret_are_not_of_it),
        cmocka_unit_test(what_may_not_have_fitted_fills_the_room),
        cmocka_unit_test(a_pipe_is_read_to_its_end),
        cmocka_unit_test(what_cannot_be_read_says_why),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
