/* URLs of a Redis: every form and parameter, and what is refused where. */
#include "store/redis/config.h"

#include <stdlib.h>
#include <unistd.h>

#include "../../support.h"

static struct counting_allocator counting;

static int setup(void **state)
{
    (void)state;
    counting_allocator_init(&counting);
    return 0;
}

/* Whatever a test read, it is freed, with its own sizes. */
static int teardown(void **state)
{
    (void)state;
    assert_int_equal(counting.live_blocks, 0);
    return 0;
}

static struct cdl_redis_config read_url(const char *url)
{
    struct cdl_redis_config config;
    struct caudal_problem problem = {.message = ""};
    if (cdl_redis_config_read(url, &counting.allocator, &config, &problem) != CAUDAL_OK)
        fail_msg("%s: at %zu: %s", url, problem.position, problem.message);
    return config;
}

static void assert_refused(const char *url, size_t position, const char *words)
{
    struct cdl_redis_config config;
    struct caudal_problem problem = {.message = ""};
    assert_int_equal(cdl_redis_config_read(url, &counting.allocator, &config, &problem), CAUDAL_ERR_SYNTAX);
    assert_int_equal(problem.code, CAUDAL_ERR_SYNTAX);
    if (problem.position != position || strstr(problem.message, words) == NULL)
        fail_msg("%s: at %zu: %s", url, problem.position, problem.message);
    assert_int_equal(counting.live_blocks, 0);
    assert_int_equal(cdl_redis_config_read(url, &counting.allocator, &config, NULL), CAUDAL_ERR_SYNTAX);
}

static void assert_text(const char *got, const char *want)
{
    if (want == NULL)
        assert_null(got);
    else
        assert_string_equal(got, want);
}

static void assert_seed(const char *url, const char *host, unsigned port)
{
    struct cdl_redis_config config = read_url(url);
    assert_int_equal(config.seed_count, 1);
    assert_string_equal(config.seeds[0].host, host);
    assert_int_equal(config.seeds[0].port, port);
    cdl_redis_config_free(&config);
}

static void assert_credentials(const char *url, const char *user, const char *password)
{
    struct cdl_redis_config config = read_url(url);
    assert_text(config.user, user);
    assert_text(config.password, password);
    cdl_redis_config_free(&config);
}

/* ---- forms ---- */

static void what_is_not_said_has_a_default(void **state)
{
    (void)state;
    struct cdl_redis_config config = read_url("redis://");
    assert_int_equal(config.kind, CDL_REDIS_SINGLE);
    assert_int_equal(config.seed_count, 1);
    assert_string_equal(config.seeds[0].host, "127.0.0.1");
    assert_int_equal(config.seeds[0].port, 6379);
    assert_null(config.user);
    assert_null(config.password);
    assert_null(config.primary);
    assert_null(config.tls_name);
    assert_int_equal(config.database, 0);
    assert_false(config.tls);
    assert_true(config.tls_verify);
    assert_int_equal(config.protocol, 0);
    assert_string_equal(config.prefix, "caudal");
    assert_int_equal(config.deadline_ns, 15 * MILLISECOND);
    assert_int_equal(config.connect_timeout_ns, SECOND);
    assert_int_equal(config.connections, 1);
    assert_int_equal(config.clients, 8);
    assert_int_equal(config.in_flight, 4096);
    assert_int_equal(config.breaker, 5);
    assert_int_equal(config.wait_replicas, 0);
    cdl_redis_config_free(&config);
    assert_null(config.prefix);
}

static void C102_addresses_have_many_forms(void **state)
{
    (void)state;
    assert_seed("redis://127.0.0.1:6380", "127.0.0.1", 6380);
    assert_seed("redis://cache-1.example_x.org", "cache-1.example_x.org", 6379);
    assert_seed("redis://:7000", "127.0.0.1", 7000);
    assert_seed("redis://[::1]:6379", "::1", 6379);
    assert_seed("redis://[2001:db8::1]", "2001:db8::1", 6379);
    assert_seed("redis://u:p@[::1]:1/2", "::1", 1);
}

static void C102_unix_sockets(void **state)
{
    (void)state;
    assert_seed("unix:/run/redis.sock", "/run/redis.sock", 0);
    assert_seed("unix:///run/redis.sock", "/run/redis.sock", 0);
    assert_seed("unix:/run/redis%40main/a%20b?db=3", "/run/redis@main/a b", 0);
    assert_credentials("unix://:secret@/run/x", NULL, "secret");
    assert_refused("unix:", 5, "absolute path");
    assert_refused("unix:/", 5, "absolute path");
    assert_refused("unix:run/x", 5, "absolute path");
    assert_refused("unix://run/x", 7, "no host");
    char url[200] = "unix:/";
    memset(url + 6, 'x', 107);
    assert_refused(url, 5, "107 bytes");
    url[5 + 107] = '\0';
    assert_seed(url, url + 5, 0);
}

static void C102_tls_by_scheme_or_by_parameter(void **state)
{
    (void)state;
    struct cdl_redis_config config = read_url(
        "rediss://h?tls_ca=/a%20b&tls_cert=c&tls_key=k&tls_name=other&tls_verify=no");
    assert_true(config.tls);
    assert_false(config.tls_verify);
    assert_string_equal(config.tls_ca, "/a b");
    assert_string_equal(config.tls_certificate, "c");
    assert_string_equal(config.tls_key, "k");
    assert_string_equal(config.tls_name, "other");
    cdl_redis_config_free(&config);
    config = read_url("redis-cluster://h?tls_ca=x&tls=yes");
    assert_true(config.tls);
    cdl_redis_config_free(&config);
    assert_refused("redis://h?tls=yes", 10, "rediss://");
    assert_refused("redis://h?tls_ca=x", 10, "with TLS only");
    assert_refused("redis-sentinel://h/n?tls=no&tls_ca=x", 28, "with TLS only");
    assert_refused("rediss://h?tls_cert=x", 11, "'tls_cert' needs tls_key");
    assert_refused("rediss://h?tls_key=x", 11, "'tls_key' needs tls_cert");
    assert_refused("rediss://h?tls_verify=true", 22, "yes or no");
}

static void a_database_is_a_path_or_a_parameter(void **state)
{
    (void)state;
    static const struct {
        const char *url;
        uint32_t database;
    } cases[] = {
        {"redis://h", 0},
        {"redis://h/", 0},
        {"redis://h/?", 0},
        {"redis://h/15", 15},
        {"redis://h?db=15", 15},
        {"redis://h/?db=4", 4},
        {"unix:/x?db=1", 1},
        {"redis-sentinel://h/name/3", 3},
        {"redis-cluster://h/0", 0},
        {"redis-cluster://h?db=0", 0},
        {"redis://h/2147483647", 2147483647},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct cdl_redis_config config = read_url(cases[i].url);
        assert_int_equal(config.database, cases[i].database);
        cdl_redis_config_free(&config);
    }
    assert_refused("redis://h/x", 9, "number of a database");
    assert_refused("redis://h/1/", 9, "number of a database");
    assert_refused("redis://h/2147483648", 9, "number of a database");
    assert_refused("redis://h?db=-1", 13, "from 0 to 2147483647");
    assert_refused("redis://h/1?db=1", 15, "'db' is given twice");
    assert_refused("redis-cluster://h/1", 17, "no database but 0");
    assert_refused("redis-cluster://h?db=1", 18, "0 in a cluster");
}

static void sentinels_name_a_primary(void **state)
{
    (void)state;
    setenv("CAUDAL_TEST_SECRET", "of the sentinels", 1);
    struct cdl_redis_config config = read_url("redis-sentinel://u:p@a,b:5,[::2]:6/my%2Fname/2?sentinel_user=s"
                                              "&sentinel_password_env=CAUDAL_TEST_SECRET");
    assert_int_equal(config.kind, CDL_REDIS_SENTINEL);
    assert_int_equal(config.seed_count, 3);
    assert_string_equal(config.seeds[0].host, "a");
    assert_int_equal(config.seeds[0].port, 26379);
    assert_string_equal(config.seeds[1].host, "b");
    assert_int_equal(config.seeds[1].port, 5);
    assert_string_equal(config.seeds[2].host, "::2");
    assert_int_equal(config.seeds[2].port, 6);
    assert_string_equal(config.primary, "my/name");
    assert_int_equal(config.database, 2);
    assert_string_equal(config.user, "u");
    assert_string_equal(config.password, "p");
    assert_string_equal(config.sentinel_user, "s");
    assert_string_equal(config.sentinel_password, "of the sentinels");
    cdl_redis_config_free(&config);
    assert_refused("redis-sentinel://h", 18, "name that they know");
    assert_refused("redis-sentinel://h/", 18, "name that they know");
    assert_refused("redis-sentinel://h//1", 18, "name that they know");
    assert_refused("redis-sentinel://h/a%0ab", 18, "control characters");
    assert_refused("redis-sentinel://h/n?sentinel_user=s", 21, "without a password");
    assert_refused("redis://h?sentinel_password_env=CAUDAL_TEST_SECRET", 10, "redis-sentinel:// only");
}

static void a_cluster_is_found_by_any_of_its_nodes(void **state)
{
    (void)state;
    struct cdl_redis_config config = read_url("redis-cluster://a,b:1/");
    assert_int_equal(config.kind, CDL_REDIS_CLUSTER);
    assert_int_equal(config.seed_count, 2);
    assert_int_equal(config.seeds[0].port, 6379);
    assert_int_equal(config.seeds[1].port, 1);
    cdl_redis_config_free(&config);
    assert_seed("redis-cluster://", "127.0.0.1", 6379);
    assert_refused("redis-cluster://a,,b", 18, "no empty places");
    assert_refused("redis-cluster://a,", 16, "no empty places");
    assert_refused("redis-cluster://,a", 16, "no empty places");
    char url[100] = "redis-cluster://a";
    for (int i = 1; i < 16; i++)
        strcat(url, ",a");
    config = read_url(url);
    assert_int_equal(config.seed_count, 16);
    cdl_redis_config_free(&config);
    strcat(url, ",a");
    assert_refused(url, strlen(url) - 1, "more than 16 hosts");
}

static void hosts_that_are_none(void **state)
{
    (void)state;
    assert_refused("redis://a,b", 10, "one host");
    assert_refused("redis://a b", 8, "name or address");
    assert_refused("redis://a%41", 8, "name or address");
    assert_refused("redis://::1", 8, "port");
    assert_refused("redis://a:", 8, "port");
    assert_refused("redis://a:0", 8, "port");
    assert_refused("redis://a:65536", 8, "port");
    assert_refused("redis://a:1x", 8, "port");
    assert_refused("redis://[::1", 8, "not an IPv6 address");
    assert_refused("redis://[]", 8, "not an IPv6 address");
    assert_refused("redis://[127.0.0.1]", 8, "not an IPv6 address");
    assert_refused("redis://[::1]6379", 8, "after the brackets");
    assert_refused("redis:h", 6, "expected '//'");
    assert_refused("redis:", 6, "expected '//'");
    assert_refused("http://h", 0, "expected redis://");
    assert_refused("redis", 0, "begins with a scheme");
    assert_refused("", 0, "begins with a scheme");
    char url[400] = "redis://";
    memset(url + 8, 'a', 256);
    assert_refused(url, 8, "name or address");
    url[8 + 255] = '\0';
    assert_seed(url, url + 8, 6379);
}

/* ---- credentials ---- */

static void C102_credentials_with_odd_bytes(void **state)
{
    (void)state;
    assert_credentials("redis://u:p@h", "u", "p");
    assert_credentials("redis://:p@h", NULL, "p");
    assert_credentials("redis://a%40b:%25%3a%2F%3f%C3%A9@h", "a@b", "%:/?\xc3\xa9");
    assert_credentials("redis://u:a:b:c#d@h", "u", "a:b:c#d");
    assert_credentials("redis://h", NULL, NULL);
    assert_credentials("redis://@h", NULL, NULL);
    assert_credentials("redis://:@h", NULL, NULL);
    assert_credentials("redis://u:@h", "u", "");
}

static void what_would_be_misread_is_refused(void **state)
{
    (void)state;
    assert_refused("redis://u@h", 8, "a user without a password");
    assert_refused("redis://u:a@b@h", 13, "'@' stands once");
    assert_refused("redis://u:a/b@h", 13, "'@' stands once");
    assert_refused("redis://u:a?b@h", 13, "'@' stands once");
    assert_refused("redis://h?user=a@b", 16, "'@' stands once");
    assert_refused("redis://u:100%@h", 13, "hexadecimal");
    assert_refused("redis://u:%4", 10, "hexadecimal");
    assert_refused("redis://u:%00@h", 10, "%00");
    assert_refused("redis://h\n", 9, "control character");
    assert_refused("redis://h?user=u", 10, "'user' stands without a password");
    char url[5000] = "redis://";
    memset(url + 8, 'x', sizeof url - 9);
    assert_refused(url, 4096, "longer than 4096 bytes");
}

static void write_file(const char *path, const char *bytes, size_t length)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, length, file), length);
    fclose(file);
}

/* A file with these bytes holds `password`; or, when that is NULL, is refused with such words. */
static void assert_file(const char *bytes, size_t length, const char *password, const char *words)
{
    char path[] = "/tmp/caudal-config-XXXXXX", url[100];
    close(mkstemp(path));
    write_file(path, bytes, length);
    snprintf(url, sizeof url, "redis://u@h?password_file=%s", path);
    if (password != NULL)
        assert_credentials(url, "u", password);
    else
        assert_refused(url, 26, words);
    unlink(path);
    assert_refused(url, 26, "No such file");
}

static void a_password_from_a_file(void **state)
{
    (void)state;
    char large[4098];
    memset(large, 'x', sizeof large);
    assert_file("secret", 6, "secret", NULL);
    assert_file("secret\n", 7, "secret", NULL);
    assert_file(" se cret \r\n", 11, " se cret ", NULL);
    assert_file("", 0, NULL, "is empty");
    assert_file("\n", 1, NULL, "is empty");
    assert_file("two\nlines\n", 10, NULL, "not one line");
    assert_file("se\0cret", 7, NULL, "not one line");
    assert_file(large, 4097, NULL, "too large");
    large[4096] = '\n';
    char longest[4097] = {0};
    memcpy(longest, large, 4096);
    assert_file(large, 4097, longest, NULL);
}

static void a_password_from_the_environment(void **state)
{
    (void)state;
    setenv("CAUDAL_TEST_SECRET", "s p", 1);
    setenv("CAUDAL_TEST_EMPTY", "", 1);
    unsetenv("CAUDAL_TEST_MISSING");
    assert_credentials("redis://h?password_env=CAUDAL_TEST_SECRET", NULL, "s p");
    assert_credentials("redis://u@h?password_env=CAUDAL_TEST%5fSECRET", "u", "s p");
    assert_credentials("redis://h?password_env=CAUDAL_TEST_SECRET&user=a%26b", "a&b", "s p");
    assert_refused("redis://h?password_env=CAUDAL_TEST_MISSING", 23, "does not have");
    assert_refused("redis://h?password_env=CAUDAL_TEST_EMPTY", 23, "is empty");
    assert_refused("redis://:p@h?password_env=CAUDAL_TEST_SECRET", 26, "a second password");
    assert_refused("redis://u:p@h?user=v", 19, "stands before the host");
    assert_refused("redis://h?user=", 15, "is empty");
}

/* ---- other parameters ---- */

static void parameters_are_read(void **state)
{
    (void)state;
    struct cdl_redis_config config = read_url(
        "redis://h?protocol=2&prefix=my%20app:&deadline=1500us&connect_timeout=2s&connections=16&clients=256"
        "&in_flight=65536&breaker=1000&wait_replicas=16");
    assert_int_equal(config.protocol, 2);
    assert_string_equal(config.prefix, "my app:");
    assert_int_equal(config.deadline_ns, 1500 * MICROSECOND);
    assert_int_equal(config.connect_timeout_ns, 2 * SECOND);
    assert_int_equal(config.connections, 16);
    assert_int_equal(config.clients, 256);
    assert_int_equal(config.in_flight, 65536);
    assert_int_equal(config.breaker, 1000);
    assert_int_equal(config.wait_replicas, 16);
    cdl_redis_config_free(&config);
}

static void parameters_have_bounds(void **state)
{
    (void)state;
    assert_refused("redis://h?protocol=1", 19, "from 2 to 3");
    assert_refused("redis://h?connections=0", 22, "from 1 to 16");
    assert_refused("redis://h?connections=17", 22, "from 1 to 16");
    assert_refused("redis://h?clients=257", 18, "from 1 to 256");
    assert_refused("redis://h?in_flight=65537", 20, "from 1 to 65536");
    assert_refused("redis://h?breaker=0", 18, "from 1 to 1000");
    assert_refused("redis://h?wait_replicas=17", 24, "from 0 to 16");
    assert_refused("redis://h?wait_replicas", 23, "from 0 to 16");
    static const char *const durations[] = {"",
                                            "15",
                                            "ms",
                                            "15 ms",
                                            "1.5s",
                                            "-1s",
                                            "999us",
                                            "61s",
                                            "2m",
                                            "1MS",
                                            "99999999999999999999s",
                                            "18446744073709551s"};
    for (size_t i = 0; i < COUNT_OF(durations); i++) {
        char url[100];
        snprintf(url, sizeof url, "redis://h?deadline=%s", durations[i]);
        assert_refused(url, 19, "'deadline' wants a whole number and its unit");
    }
}

static void a_prefix_cannot_move_the_hash_tag(void **state)
{
    (void)state;
    assert_refused("redis://h?prefix=", 17, "1 to 64 bytes");
    assert_refused("redis://h?prefix=a{b", 17, "without braces");
    assert_refused("redis://h?prefix=a%7Db", 17, "without braces");
    assert_refused("redis://h?prefix=a%0Ab", 17, "control characters");
    char url[100] = "redis://h?prefix=";
    memset(url + 17, 'x', 65);
    assert_refused(url, 17, "1 to 64 bytes");
    url[17 + 64] = '\0';
    struct cdl_redis_config config = read_url(url);
    assert_int_equal(strlen(config.prefix), 64);
    cdl_redis_config_free(&config);
}

static void what_is_unknown_or_repeated_is_refused(void **state)
{
    (void)state;
    assert_refused("redis://h?colour=red", 10, "unknown parameter 'colour'");
    assert_refused("redis://h?DB=1", 10, "unknown parameter 'DB'");
    assert_refused("redis://h?password=hunter2", 10, "unknown parameter 'password'");
    assert_refused("redis://h?db=1&db=1", 15, "'db' is given twice");
    assert_refused("redis://h?db=1&&clients=1", 15, "unknown parameter ''");
}

static void no_message_shows_a_secret(void **state)
{
    (void)state;
    static const char *const urls[] = {
        "redis://user:hunter2",
        "redis://:hunter2",
        "redis://u:hunter2@h:port",
        "redis://u:hunter2@h,h",
        "redis://u:hunter2@h/x",
        "redis://u:x@hunter2@h",
        "redis://u:x/hunter2@h",
        "redis://h/hunter2",
        "redis:hunter2",
        "hunter2://x",
        "redis://h?db=hunter2",
        "redis://h?password=hunter2",
        "redis://h?password_env=hunter2",
        "redis://h?password_file=hunter2",
        "redis://hunter2@h",
        "redis://u:hunter2@h?deadline=5",
        "redis://h?prefix={hunter2",
        "redis-sentinel://:hunter2@h",
        "unix:hunter2",
        "unix://hunter2/x",
        "redis://[hunter2]",
    };
    for (size_t i = 0; i < COUNT_OF(urls); i++) {
        struct cdl_redis_config config;
        struct caudal_problem problem = {.message = ""};
        assert_int_equal(cdl_redis_config_read(urls[i], &counting.allocator, &config, &problem), CAUDAL_ERR_SYNTAX);
        if (strlen(problem.message) == 0 || strstr(problem.message, "hunter2") != NULL)
            fail_msg("%s: %s", urls[i], problem.message);
    }
}

static void any_allocation_may_fail(void **state)
{
    (void)state;
    const char *url = "redis-sentinel://u:p@h/n?tls=yes&tls_ca=a&tls_cert=c&tls_key=k&tls_name=x&prefix=y";
    for (long at = 0;; at++) {
        counting.fail_at = counting.calls + at;
        struct cdl_redis_config config;
        struct caudal_problem problem = {.message = ""};
        const int status = cdl_redis_config_read(url, &counting.allocator, &config, &problem);
        counting.fail_at = -1;
        if (status == CAUDAL_OK) {
            assert_int_equal(at, 8);
            cdl_redis_config_free(&config);
            return;
        }
        assert_int_equal(status, CAUDAL_ERR_MEMORY);
        assert_true(strlen(problem.message) > 0);
        assert_int_equal(counting.live_blocks, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_is_not_said_has_a_default, setup, teardown),
        cmocka_unit_test_setup_teardown(C102_addresses_have_many_forms, setup, teardown),
        cmocka_unit_test_setup_teardown(C102_unix_sockets, setup, teardown),
        cmocka_unit_test_setup_teardown(C102_tls_by_scheme_or_by_parameter, setup, teardown),
        cmocka_unit_test_setup_teardown(a_database_is_a_path_or_a_parameter, setup, teardown),
        cmocka_unit_test_setup_teardown(sentinels_name_a_primary, setup, teardown),
        cmocka_unit_test_setup_teardown(a_cluster_is_found_by_any_of_its_nodes, setup, teardown),
        cmocka_unit_test_setup_teardown(hosts_that_are_none, setup, teardown),
        cmocka_unit_test_setup_teardown(C102_credentials_with_odd_bytes, setup, teardown),
        cmocka_unit_test_setup_teardown(what_would_be_misread_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(a_password_from_a_file, setup, teardown),
        cmocka_unit_test_setup_teardown(a_password_from_the_environment, setup, teardown),
        cmocka_unit_test_setup_teardown(parameters_are_read, setup, teardown),
        cmocka_unit_test_setup_teardown(parameters_have_bounds, setup, teardown),
        cmocka_unit_test_setup_teardown(a_prefix_cannot_move_the_hash_tag, setup, teardown),
        cmocka_unit_test_setup_teardown(what_is_unknown_or_repeated_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(no_message_shows_a_secret, setup, teardown),
        cmocka_unit_test_setup_teardown(any_allocation_may_fail, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
