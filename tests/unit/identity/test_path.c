#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "identity/path.h"

#define PATH_SIZE 256

/* Also: normalising once more changes nothing, and a writer keeps what it held before. */
static void assert_path_slice(struct cdl_slice target, const char *want)
{
    char first[PATH_SIZE], second[PATH_SIZE];
    struct cdl_writer path = cdl_writer_on(first, sizeof first), again = cdl_writer_on(second, sizeof second);
    cdl_write_text(&again, "key /");
    if (!cdl_path_normalise(target, &path))
        fail_msg("\"%.*s\" was refused", CDL_SLICE_ARG(target));
    if (!cdl_slice_equal(cdl_written(&path), cdl_slice_of(want)))
        fail_msg("\"%.*s\" became %.*s, expected %s", CDL_SLICE_ARG(target), CDL_SLICE_ARG(cdl_written(&path)), want);
    assert_true(cdl_path_normalise(cdl_written(&path), &again));
    assert_true(cdl_slice_equal(cdl_slice_head(cdl_written(&again), 5), CDL_SLICE("key /")));
    assert_true(cdl_slice_equal(cdl_slice_from(cdl_written(&again), 5), cdl_written(&path)));
}

static void assert_path(const char *target, const char *want)
{
    assert_path_slice(cdl_slice_of(target), want);
}

static void assert_no_path(const char *target)
{
    char bytes[PATH_SIZE];
    struct cdl_writer path = cdl_writer_on(bytes, sizeof bytes);
    cdl_write_text(&path, "before");
    if (cdl_path_normalise(cdl_slice_of(target), &path))
        fail_msg("\"%s\" became %.*s", target, CDL_SLICE_ARG(cdl_written(&path)));
    assert_true(cdl_slice_equal(cdl_written(&path), CDL_SLICE("before")));
    assert_false(path.overflow);
}

/* ---- paths ---- */

static void a_normal_path_stays_as_it_is(void **state)
{
    (void)state;
    assert_path("/", "/");
    assert_path("/v1/users/42", "/v1/users/42");
    assert_path("/-._~!$&'()*+,;=:@/azAZ09", "/-._~!$&'()*+,;=:@/azAZ09");
    assert_path("/Case/IS/kept", "/Case/IS/kept");
    assert_path("/%20/%2F/%25/%3F/%23/%00/%FF", "/%20/%2F/%25/%3F/%23/%00/%FF");
}

static void query_and_fragment_are_cut_off(void **state)
{
    (void)state;
    assert_path("/a?b=/c", "/a");
    assert_path("/a#b", "/a");
    assert_path("/a#b?c", "/a");
    assert_path("/a?b#c", "/a");
    assert_path("/?", "/");
    assert_path("/a/?", "/a");
    assert_path("/?/../b", "/");
}

static void an_absolute_form_is_its_path(void **state)
{
    (void)state;
    assert_path("http://example.org/a/b", "/a/b");
    assert_path("HTTPS://user:pw@[2001:db8::1]:443/a?b", "/a");
    assert_path("http://example.org", "/");
    assert_path("http://example.org/", "/");
    assert_path("http://example.org?a=/b", "/");
    assert_path("http://example.org#a/b", "/");
    assert_path("http://example.org//a/..", "/");
    assert_path("coap+tcp-1.0://h/a", "/a");
}

static void two_slashes_in_front_are_not_an_authority(void **state)
{
    (void)state;
    assert_path("//example.org/a", "/example.org/a");
    assert_path("/http://example.org/a", "/http:/example.org/a");
}

static void a_target_without_a_path_has_none(void **state)
{
    (void)state;
    static const char *const targets[] = {
        "",         "*",         "example.org:443", "?a",    "#a",         "a/b",         "http:/a", "http:a", "://a/b",
        "1x://a/b", "http:///a", "http://",         "-://a", "http://?/a", "ht tp://a/b", "%2Fa",    " /a",    "http:",
    };
    for (size_t i = 0; i < sizeof targets / sizeof targets[0]; i++)
        assert_no_path(targets[i]);
    char bytes[1];
    struct cdl_writer path = cdl_writer_on(bytes, sizeof bytes);
    assert_false(cdl_path_normalise((struct cdl_slice){NULL, 0}, &path));
}

static void runs_of_slashes_are_one_and_the_last_is_dropped(void **state)
{
    (void)state;
    assert_path("/a/", "/a");
    assert_path("/a//", "/a");
    assert_path("//a///b////", "/a/b");
    assert_path("////", "/");
}

static void dot_segments_are_resolved(void **state)
{
    (void)state;
    assert_path("/a/b/c/./../../g", "/a/g");
    assert_path("/./a/.", "/a");
    assert_path("/a/..", "/");
    assert_path("/a/b/..", "/a");
    assert_path("/a/b/../", "/a");
    assert_path("/a//../b", "/b");
    assert_path("/...", "/...");
    assert_path("/.a/..b/c./d../.../..../..;/.;a", "/.a/..b/c./d../.../..../..;/.;a");
}

static void nothing_lies_above_the_root(void **state)
{
    (void)state;
    assert_path("/..", "/");
    assert_path("/../../a", "/a");
    assert_path("/a/../../../b", "/b");
    assert_path("http://example.org/../../a", "/a");
}

static void escaped_dots_are_dots(void **state)
{
    (void)state;
    assert_path("/a/%2e%2e/b", "/b");
    assert_path("/a/.%2E/b", "/b");
    assert_path("/a/%2e./b", "/b");
    assert_path("/a/%2e/b", "/a/b");
    assert_path("/%2e%2e%2e", "/...");
    assert_path("/a/%252e%252e/b", "/a/%252e%252e/b");
}

static void escapes_of_plain_bytes_are_decoded(void **state)
{
    (void)state;
    assert_path("/%41%7a%30%2D%5f%7E", "/Az0-_~");
    assert_path("/v1/items%3Abatch", "/v1/items:batch");
    assert_path("/john%40example%2Eorg", "/john@example.org");
    assert_path("/%21%24%26%27%28%29%2A%2B%2C%3B%3D", "/!$&'()*+,;=");
}

static void other_escapes_get_upper_case(void **state)
{
    (void)state;
    assert_path("/a%2fb", "/a%2Fb");
    assert_path("/a%2Fb/..", "/");
    assert_path("/%c3%a4%3f%5c", "/%C3%A4%3F%5C");
}

static void bytes_that_may_not_stand_in_a_path_are_escaped(void **state)
{
    (void)state;
    assert_path("/a b", "/a%20b");
    assert_path("/\xc3\xa4", "/%C3%A4");
    assert_path("/\"<>[\\]^`{|}\x7f\x01\xff", "/%22%3C%3E%5B%5C%5D%5E%60%7B%7C%7D%7F%01%FF");
    assert_path_slice((struct cdl_slice){"/a\0b", 4}, "/a%00b");
}

static void a_percent_that_begins_no_escape_is_itself(void **state)
{
    (void)state;
    assert_path("/%", "/%25");
    assert_path("/%4", "/%254");
    assert_path("/%zz", "/%25zz");
    assert_path("/%4g", "/%254g");
    assert_path("/%%41", "/%25A");
    assert_path("/%4%31", "/%2541");
    assert_path("/%2541", "/%2541");
    assert_path("/%2/e", "/%252/e");
    assert_path("/%2?e", "/%252");
    assert_path_slice((struct cdl_slice){"/%41", 3}, "/%254");
}

static void a_path_that_does_not_fit_leaves_the_writer_as_it_was(void **state)
{
    (void)state;
    static const struct cdl_slice targets[] = {
        {"/abcd", 5}, {"/ab/cd", 6}, {"/a ", 3}, {"/%2f", 4}, {"/aaaaaa/..", 10}, {"/aaaaaa/../..", 13},
    };
    for (size_t i = 0; i < sizeof targets / sizeof targets[0]; i++) {
        char bytes[5];
        struct cdl_writer path = cdl_writer_on(bytes, sizeof bytes);
        cdl_write_text(&path, "/x");
        assert_false(cdl_path_normalise(targets[i], &path));
        assert_true(path.overflow);
        assert_true(cdl_slice_equal(cdl_written(&path), CDL_SLICE("/x")));
        assert_false(cdl_path_normalise(CDL_SLICE("/"), &path));
        assert_int_equal(path.length, 2);
    }
}

static void a_path_fits_to_the_byte(void **state)
{
    (void)state;
    char bytes[4];
    struct cdl_writer path = cdl_writer_on(bytes, sizeof bytes);
    assert_true(cdl_path_normalise(CDL_SLICE("/abc/.//./"), &path));
    assert_true(cdl_slice_equal(cdl_written(&path), CDL_SLICE("/abc")));
    path = cdl_writer_on(bytes, 0);
    assert_false(cdl_path_normalise(CDL_SLICE("/"), &path));
    path = cdl_writer_on(bytes, 1);
    assert_true(cdl_path_normalise(CDL_SLICE("/./"), &path));
}

static void assert_segment(const char *path, unsigned n, const char *want)
{
    const struct cdl_slice segment = cdl_path_segment(cdl_slice_of(path), n);
    if (!cdl_slice_equal(segment, cdl_slice_of(want)))
        fail_msg("segment %u of %s is \"%.*s\"", n, path, CDL_SLICE_ARG(segment));
}

static void segments_are_counted_from_one(void **state)
{
    (void)state;
    assert_segment("/v1/users/42", 1, "v1");
    assert_segment("/v1/users/42", 2, "users");
    assert_segment("/v1/users/42", 3, "42");
    assert_segment("/v1/users/42", 4, "");
    assert_segment("/v1/users/42", 4000000000, "");
    assert_segment("/v1/users/42", 0, "");
    assert_segment("/", 1, "");
    assert_segment("/a", 1, "a");
    assert_segment("", 1, "");
}

/* ---- queries ---- */

static void assert_query(const char *query, const char *name, const char *want)
{
    struct cdl_slice value = CDL_SLICE("untouched");
    if (cdl_query_find(cdl_slice_of(query), cdl_slice_of(name), &value) != (want != NULL))
        fail_msg("%s in \"%s\"", name, query);
    const struct cdl_slice expected = cdl_slice_of(want == NULL ? "untouched" : want);
    if (!cdl_slice_equal(value, expected))
        fail_msg("%s in \"%s\" is \"%.*s\"", name, query, CDL_SLICE_ARG(value));
}

static void a_query_is_what_stands_behind_the_question_mark(void **state)
{
    (void)state;
    static const struct {
        const char *target, *query;
    } cases[] = {
        {"/a?b=c", "b=c"},       {"/a", ""},  {"/a?", ""}, {"/a?b?c", "b?c"}, {"/a?b#c", "b"}, {"/a#b?c", ""}, {"", ""},
        {"http://h?a=1", "a=1"}, {"?a", "a"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_true(cdl_slice_equal(cdl_target_query(cdl_slice_of(cases[i].target)), cdl_slice_of(cases[i].query)));
}

static void a_parameter_is_found_by_its_whole_name(void **state)
{
    (void)state;
    assert_query("key=1", "key", "1");
    assert_query("a=0&key=1&b=2", "key", "1");
    assert_query("xkey=1&keyx=2&ke=3&Key=4", "key", NULL);
    assert_query("a=key=1", "key", NULL);
    assert_query("key=a=b", "key", "a=b");
    assert_query("", "key", NULL);
    assert_query("&&=&", "key", NULL);
    assert_query("a;key=1", "key", NULL);
}

static void the_first_parameter_of_a_name_counts(void **state)
{
    (void)state;
    assert_query("key=1&key=2", "key", "1");
    assert_query("key&key=2", "key", "");
    assert_query("key=&key=2", "key", "");
}

static void an_escaped_name_is_the_same_name(void **state)
{
    (void)state;
    assert_query("%6bey=1", "key", "1");
    assert_query("%6B%65%79=%31", "key", "%31");
    assert_query("my+key=1", "my key", "1");
    assert_query("my%20key=1", "my key", "1");
    assert_query("my%2Bkey=1", "my key", NULL);
    assert_query("my%2Bkey=1", "my+key", "1");
    assert_query("key%3D1=2", "key", NULL);
    assert_query("key%3D1=2", "key=1", "2");
    assert_query("100%=1", "100%", "1");
}

static void assert_decodes(const char *value, struct cdl_slice want)
{
    char bytes[PATH_SIZE];
    struct cdl_writer decoded = cdl_writer_on(bytes, sizeof bytes);
    cdl_write_text(&decoded, "<");
    assert_true(cdl_query_decode(cdl_slice_of(value), &decoded));
    if (!cdl_slice_equal(cdl_slice_from(cdl_written(&decoded), 1), want))
        fail_msg("\"%s\" became %.*s", value, CDL_SLICE_ARG(cdl_written(&decoded)));
}

static void every_spelling_of_a_value_is_one_value(void **state)
{
    (void)state;
    assert_decodes("abc", CDL_SLICE("abc"));
    assert_decodes("%61b%63", CDL_SLICE("abc"));
    assert_decodes("a+b%20c%2B%2bd", CDL_SLICE("a b c++d"));
    assert_decodes("", CDL_SLICE(""));
    assert_decodes("a%00b%0A%ff", CDL_SLICE("a\0b\n\xff"));
    assert_decodes("%", CDL_SLICE("%"));
    assert_decodes("%4%zz%2541", CDL_SLICE("%4%zz%41"));
}

static void a_value_that_does_not_fit_leaves_the_writer_as_it_was(void **state)
{
    (void)state;
    char bytes[3];
    struct cdl_writer decoded = cdl_writer_on(bytes, sizeof bytes);
    cdl_write_text(&decoded, "<");
    assert_false(cdl_query_decode(CDL_SLICE("abc"), &decoded));
    assert_true(decoded.overflow);
    assert_true(cdl_slice_equal(cdl_written(&decoded), CDL_SLICE("<")));
    decoded.overflow = false;
    assert_true(cdl_query_decode(CDL_SLICE("%61%62"), &decoded));
    assert_true(cdl_slice_equal(cdl_written(&decoded), CDL_SLICE("<ab")));
}

/* ---- cookies ---- */

static void assert_cookie(const char *header, const char *name, const char *want)
{
    struct cdl_slice value = CDL_SLICE("untouched");
    if (cdl_cookie_find(cdl_slice_of(header), cdl_slice_of(name), &value) != (want != NULL))
        fail_msg("%s in \"%s\"", name, header);
    const struct cdl_slice expected = cdl_slice_of(want == NULL ? "untouched" : want);
    if (!cdl_slice_equal(value, expected))
        fail_msg("%s in \"%s\" is \"%.*s\"", name, header, CDL_SLICE_ARG(value));
}

static void a_cookie_is_found_by_its_whole_name(void **state)
{
    (void)state;
    assert_cookie("sid=31d4", "sid", "31d4");
    assert_cookie("a=1; sid=31d4; lang=en-US", "sid", "31d4");
    assert_cookie("xsid=1; sidx=2; SID=3; si=4", "sid", NULL);
    assert_cookie("a=sid=1", "sid", NULL);
    assert_cookie("sid=a=b==", "sid", "a=b==");
    assert_cookie("", "sid", NULL);
}

static void the_first_cookie_of_a_name_counts(void **state)
{
    (void)state;
    assert_cookie("sid=1; sid=2", "sid", "1");
    assert_cookie("sid=; sid=2", "sid", "");
}

static void a_cookie_without_a_value_is_passed_over(void **state)
{
    (void)state;
    assert_cookie("sid; sid=2", "sid", "2");
    assert_cookie(";; ;sid=2;", "sid", "2");
    assert_cookie("sid", "sid", NULL);
}

static void quotes_and_blanks_around_a_cookie_are_taken_off(void **state)
{
    (void)state;
    assert_cookie("a=1;sid=\"31d4\"", "sid", "31d4");
    assert_cookie("a=1;\t sid = 31d4 ;b=2", "sid", "31d4");
    assert_cookie("sid=\"", "sid", "\"");
    assert_cookie("sid=\"\"", "sid", "");
    assert_cookie("sid=\"a", "sid", "\"a");
    assert_cookie("sid=%41", "sid", "%41");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_normal_path_stays_as_it_is),
        cmocka_unit_test(query_and_fragment_are_cut_off),
        cmocka_unit_test(an_absolute_form_is_its_path),
        cmocka_unit_test(two_slashes_in_front_are_not_an_authority),
        cmocka_unit_test(a_target_without_a_path_has_none),
        cmocka_unit_test(runs_of_slashes_are_one_and_the_last_is_dropped),
        cmocka_unit_test(dot_segments_are_resolved),
        cmocka_unit_test(nothing_lies_above_the_root),
        cmocka_unit_test(escaped_dots_are_dots),
        cmocka_unit_test(escapes_of_plain_bytes_are_decoded),
        cmocka_unit_test(other_escapes_get_upper_case),
        cmocka_unit_test(bytes_that_may_not_stand_in_a_path_are_escaped),
        cmocka_unit_test(a_percent_that_begins_no_escape_is_itself),
        cmocka_unit_test(a_path_that_does_not_fit_leaves_the_writer_as_it_was),
        cmocka_unit_test(a_path_fits_to_the_byte),
        cmocka_unit_test(segments_are_counted_from_one),
        cmocka_unit_test(a_query_is_what_stands_behind_the_question_mark),
        cmocka_unit_test(a_parameter_is_found_by_its_whole_name),
        cmocka_unit_test(the_first_parameter_of_a_name_counts),
        cmocka_unit_test(an_escaped_name_is_the_same_name),
        cmocka_unit_test(every_spelling_of_a_value_is_one_value),
        cmocka_unit_test(a_value_that_does_not_fit_leaves_the_writer_as_it_was),
        cmocka_unit_test(a_cookie_is_found_by_its_whole_name),
        cmocka_unit_test(the_first_cookie_of_a_name_counts),
        cmocka_unit_test(a_cookie_without_a_value_is_passed_over),
        cmocka_unit_test(quotes_and_blanks_around_a_cookie_are_taken_off),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
