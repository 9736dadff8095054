/* C69: which request is asked about, and whom that is believed of. */
#include "../support.h"
#include "identity/path.h"
#include "server/original.h"

static char memory[64 * 1024];
static struct cdl_network trusted[2];
static struct cdl_client_rule rule;
static struct cdl_original original;

/* ---- one question ---- */

struct question {
    struct cdl_asking asking;
    struct cdl_field fields[8];
};

static struct cdl_address address(const char *text)
{
    struct cdl_address parsed = {.family = 0};
    assert_true(cdl_address_parse(cdl_slice_of(text), &parsed));
    return parsed;
}

/* GET /check?deny=403 at auth.example of a peer; NULL: of a Unix socket. */
static struct question *question_of(const char *peer)
{
    static struct question question;
    question = (struct question){.asking = {.method = CDL_SLICE("GET"), .target = CDL_SLICE("/check?deny=403")}};
    question.asking.fields = question.fields;
    if (peer != NULL)
        question.asking.peer = address(peer);
    question.fields[question.asking.field_count++] = (struct cdl_field){CDL_SLICE("Host"),
                                                                        CDL_SLICE("Auth.Example:8080")};
    return &question;
}

static void add(struct question *question, const char *name, const char *value)
{
    question->fields[question->asking.field_count++] = (struct cdl_field){cdl_slice_of(name), cdl_slice_of(value)};
}

static enum cdl_original_result find(const struct question *question)
{
    struct cdl_writer scratch = cdl_writer_on(memory, sizeof memory);
    return cdl_original_find(&rule, &question->asking, &scratch, &original);
}

static void assert_slice(struct cdl_slice got, const char *want)
{
    if (!cdl_slice_equal(got, cdl_slice_of(want)))
        fail_msg("'%.*s' is not '%s'", CDL_SLICE_ARG(got), want);
}

static void assert_request(const char *method, const char *host, const char *path, const char *query)
{
    assert_slice(original.request.method, method);
    assert_slice(original.request.host, host);
    assert_slice(original.request.path, path);
    assert_slice(original.request.query, query);
}

static void assert_client(const char *client)
{
    const struct cdl_address want = address(client);
    assert_int_equal(original.request.client.family, want.family);
    assert_memory_equal(original.request.client.bytes, want.bytes, sizeof want.bytes);
}

static int setup(void **state)
{
    (void)state;
    const char *why;
    assert_true(cdl_network_parse(CDL_SLICE("10.0.0.0/8"), &trusted[0], &why));
    rule = (struct cdl_client_rule){
        .header = CDL_SLICE("x-forwarded-for"), .trusted = trusted, .trusted_count = 1, .ipv6_prefix = 64};
    return 0;
}

/* ---- who is believed ---- */

static void C69_a_peer_that_is_not_trusted_asks_for_itself(void **state)
{
    (void)state;
    struct question *question = question_of("203.0.113.7");
    add(question, "X-Forwarded-Uri", "/free");
    add(question, "X-Forwarded-Method", "OPTIONS");
    add(question, "X-Forwarded-Host", "other.example");
    add(question, "X-Forwarded-For", "198.51.100.9");
    assert_int_equal(find(question), CDL_ORIGINAL_OK);
    assert_request("GET", "auth.example", "/check", "deny=403");
    assert_client("203.0.113.7");
    assert_true(original.ignored_header);
    assert_int_equal(original.request.header_count, 5);
}

static void C69_a_trusted_proxy_says_what_was_asked(void **state)
{
    (void)state;
    struct question *question = question_of("10.1.2.3");
    add(question, "X-Forwarded-Uri", "/a//b/../c?x=1");
    add(question, "X-Forwarded-Method", "POST");
    add(question, "X-Forwarded-Host", "Shop.Example:443");
    add(question, "X-Forwarded-For", "198.51.100.9");
    assert_int_equal(find(question), CDL_ORIGINAL_OK);
    assert_request("POST", "shop.example", "/a/c", "x=1");
    assert_client("198.51.100.9");
    assert_false(original.ignored_header);
}

static void nginx_has_names_of_its_own(void **state)
{
    (void)state;
    struct question *question = question_of(NULL); /* a Unix socket's peer is trusted */
    add(question, "X-Original-URI", "/a?x=1");
    add(question, "X-Original-Method", "DELETE");
    add(question, "X-Original-Host", "[2001:DB8::1]:8443");
    assert_int_equal(find(question), CDL_ORIGINAL_OK);
    assert_request("DELETE", "[2001:db8::1]", "/a", "x=1");
    question = question_of("10.1.2.3");
    add(question, "X-Original-URL", "https://shop.example/a?x=1");
    assert_int_equal(find(question), CDL_ORIGINAL_OK);
    assert_request("GET", "auth.example", "/a", "x=1");
}

static void C69_what_a_proxy_does_not_say_is_its_own(void **state)
{
    (void)state;
    struct question *question = question_of("10.1.2.3");
    assert_int_equal(find(question), CDL_ORIGINAL_OK);
    assert_request("GET", "auth.example", "/check", "deny=403");
    assert_client("10.1.2.3");
    add(question, "X-Forwarded-Uri", "");
    add(question, "X-Forwarded-Method", "PUT");
    assert_int_equal(find(question), CDL_ORIGINAL_OK);
    assert_request("PUT", "auth.example", "/check", "deny=403");
}

/* ---- what is said twice ---- */

static void C69_a_field_that_is_sent_twice_is_refused(void **state)
{
    (void)state;
    static const char *const names[] = {"x-forwarded-uri",   "x-original-uri",   "x-original-url", "x-forwarded-method",
                                        "x-original-method", "x-forwarded-host", "x-original-host"};
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        struct question *question = question_of("10.1.2.3");
        add(question, names[i], "/a");
        add(question, names[i], "/a");
        assert_int_equal(find(question), CDL_ORIGINAL_TWICE);
        assert_string_equal(original.about, names[i]);
        question->asking.peer = address("203.0.113.7"); /* of whom none of it is believed anyway */
        assert_int_equal(find(question), CDL_ORIGINAL_OK);
    }
}

/* A proxy that sets one name passes the other on as its client wrote it. */
static void a_field_of_another_name_must_not_contradict(void **state)
{
    (void)state;
    static const char *const fields[][4] = {
        {"X-Original-URI", "/expensive", "X-Forwarded-Uri", "/free"},
        {"X-Forwarded-Uri", "/expensive", "X-Original-URL", "http://x/free"},
        {"X-Original-Method", "POST", "X-Forwarded-Method", "OPTIONS"},
        {"X-Forwarded-Host", "a.example", "X-Original-Host", "b.example"},
    };
    for (size_t i = 0; i < COUNT_OF(fields); i++) {
        struct question *question = question_of("10.1.2.3");
        add(question, fields[i][0], fields[i][1]);
        add(question, fields[i][2], fields[i][3]);
        assert_int_equal(find(question), CDL_ORIGINAL_TWICE);
    }
}

static void fields_of_two_names_that_agree_are_one(void **state)
{
    (void)state;
    struct question *question = question_of("10.1.2.3");
    add(question, "X-Original-URI", "/a?u=http://b/c");
    add(question, "X-Original-URL", "https://shop.example:8443/a?u=http://b/c");
    add(question, "X-Forwarded-Host", "shop.example");
    add(question, "X-Original-Host", "shop.example");
    assert_int_equal(find(question), CDL_ORIGINAL_OK);
    assert_request("GET", "shop.example", "/a", "u=http://b/c");
}

/* ---- odd targets ---- */

static void C69_a_target_of_8_kB_is_a_target(void **state)
{
    (void)state;
    static char target[8193] = "/", text[8193];
    memset(target + 1, '%', sizeof target - 2); /* each becomes three bytes */
    struct question *question = question_of("10.1.2.3");
    add(question, "X-Forwarded-Uri", target);
    assert_int_equal(find(question), CDL_ORIGINAL_OK);
    assert_int_equal(original.request.path.length, 1 + 3 * 8191);
    memset(text, 'a', sizeof text - 1);
    memcpy(text, "/b?", 3);
    question = question_of("10.1.2.3");
    add(question, "X-Forwarded-Uri", text);
    assert_int_equal(find(question), CDL_ORIGINAL_OK);
    assert_slice(original.request.path, "/b");
    assert_int_equal(original.request.query.length, 8192 - 3);
}

static void a_target_that_has_no_path_or_does_not_fit_is_refused(void **state)
{
    (void)state;
    struct question *question = question_of("203.0.113.7");
    char small[8];
    struct cdl_writer scratch = cdl_writer_on(small, sizeof small);
    question->asking.target = CDL_SLICE("*");
    assert_int_equal(find(question), CDL_ORIGINAL_BAD_PATH);
    question->asking.target = CDL_SLICE("/longer-than-that");
    assert_int_equal(cdl_original_find(&rule, &question->asking, &scratch, &original), CDL_ORIGINAL_BAD_PATH);
    scratch = cdl_writer_on(small, sizeof small);
    question->asking.target = CDL_SLICE("/a"); /* which leaves no room for the host */
    assert_int_equal(cdl_original_find(&rule, &question->asking, &scratch, &original), CDL_ORIGINAL_BAD_PATH);
}

static void the_origin_of_a_target_is_cut_off(void **state)
{
    (void)state;
    static const char *const targets[][2] = {
        {"/a", "/a"},
        {"", ""},
        {"*", "*"},
        {"http://h/a?b", "/a?b"},
        {"http://h", ""},
        {"https://h?b", "?b"},
        {"h:443", "h:443"},
        {"/a?u=http://b/c", "/a?u=http://b/c"},
        {"?u=http://b/c", "?u=http://b/c"},
        {"http:/", "http:/"},
        {"://", ""},
    };
    for (size_t i = 0; i < COUNT_OF(targets); i++)
        assert_slice(cdl_target_without_origin(cdl_slice_of(targets[i][0])), targets[i][1]);
}

static void a_host_has_one_spelling(void **state)
{
    (void)state;
    static const char *const hosts[][2] = {
        {"Example.ORG", "example.org"},
        {"example.org:80", "example.org"},
        {"[2001:DB8::1]:80", "[2001:db8::1]"},
        {"[::1]", "[::1]"},
        {"[", "["},
        {":80", ""},
        {"", ""},
    };
    for (size_t i = 0; i < COUNT_OF(hosts); i++) {
        struct cdl_writer scratch = cdl_writer_on(memory, sizeof memory);
        assert_slice(cdl_host_spell(cdl_slice_of(hosts[i][0]), &scratch), hosts[i][1]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(C69_a_peer_that_is_not_trusted_asks_for_itself),
        cmocka_unit_test(C69_a_trusted_proxy_says_what_was_asked),
        cmocka_unit_test(nginx_has_names_of_its_own),
        cmocka_unit_test(C69_what_a_proxy_does_not_say_is_its_own),
        cmocka_unit_test(C69_a_field_that_is_sent_twice_is_refused),
        cmocka_unit_test(a_field_of_another_name_must_not_contradict),
        cmocka_unit_test(fields_of_two_names_that_agree_are_one),
        cmocka_unit_test(C69_a_target_of_8_kB_is_a_target),
        cmocka_unit_test(a_target_that_has_no_path_or_does_not_fit_is_refused),
        cmocka_unit_test(the_origin_of_a_target_is_cut_off),
        cmocka_unit_test(a_host_has_one_spelling),
    };
    return cmocka_run_group_tests(tests, setup, NULL);
}
