/* The page as text: that it is whole, carries its report, and lets nothing in that a client's name brings along. How it looks, and that its
 * numbers are those of the report, a browser tells (tests/e2e/test_replay_page.py). */
#include "replay/report_page.h"

#include <errno.h>
#include <stdlib.h>

#include <jansson.h>

#include "../support.h"
#include "filled_report.h"

static char *page;
static size_t length;

static void write_page(enum filling filling, bool two)
{
    struct cdl_replay_report report, second;
    struct cdl_comparison comparison;
    fill_report(&report, filling);
    fill_report(&second, filling);
    fill_comparison(&comparison, filling);
    const struct cdl_replay_reports set = {&report, two ? &second : NULL, two ? &comparison : NULL};
    FILE *memory = open_memstream(&page, &length);
    assert_non_null(memory);
    assert_int_equal(cdl_replay_write_html(memory, &set), 0);
    assert_int_equal(fclose(memory), 0);
    cdl_replay_report_free(&report);
    cdl_replay_report_free(&second);
    free_comparison(&comparison);
}

static size_t count_of(const char *text)
{
    size_t count = 0;
    for (const char *at = page; (at = strstr(at, text)) != NULL; at++)
        count++;
    return count;
}

static void every_report_makes_a_page(void **state)
{
    (void)state;
    for (int i = 0; i < 2 * FILLINGS; i++) {
        write_page((enum filling)(i / 2), i % 2 == 1);
        assert_int_equal(strlen(page), length);
        assert_memory_equal(page, "<!DOCTYPE html>\n", 16);
        assert_string_equal(page + length - 8, "</html>\n");
        assert_int_equal(count_of("<table>"), count_of("</table>"));
        assert_int_equal(count_of("<svg "), count_of("</svg>"));
        assert_int_equal(count_of("<section"), 0);
        assert_int_equal(count_of("nan"), 0);
        assert_int_equal(count_of("inf\""), 0);
        free(page);
    }
}

static void the_page_refers_to_nothing(void **state)
{
    (void)state;
    write_page(FILLED_HOSTILE, true);
    static const char *const ways[] = {"src=\"", "href=",   "url(",     "@import", "<link",
                                       "<img",   "<iframe", "style=\"", " on"};
    for (size_t i = 0; i < COUNT_OF(ways) - 1; i++)
        assert_int_equal(count_of(ways[i]), 0);
    /* The name space of SVG is a name, not a place. */
    assert_int_equal(count_of("://"), count_of("xmlns=\"http://www.w3.org/2000/svg\""));
    assert_int_equal(count_of("content=\"default-src 'none'; style-src 'sha256-"), 1);
    assert_int_equal(count_of("unsafe"), 0);
    free(page);
}

/* Were one of them not escaped, it would be a second <script>, or end the one there is. */
static void a_hostile_name_stays_a_name(void **state)
{
    (void)state;
    write_page(FILLED_HOSTILE, true);
    assert_int_equal(count_of("<script"), 1);
    assert_int_equal(count_of("</script"), 1);
    assert_true(count_of("&#60;/script&#62;&#60;script&#62;") > 10);
    /* Where people read, nothing turns the direction of writing. */
    *strstr(page, "<script") = '\0';
    assert_int_equal(count_of("\xe2\x80\xae"), 0);
    assert_true(count_of("\xef\xbf\xbd"
                         "0a") > 0);
    free(page);
}

static void the_report_is_in_the_page(void **state)
{
    (void)state;
    write_page(FILLED_HOSTILE, true);
    static const char begin[] = "<script type=\"application/json\" id=\"report\">";
    char *from = strstr(page, begin);
    assert_non_null(from);
    from += strlen(begin);
    *strstr(from, "</script>") = '\0';
    json_error_t error;
    json_t *root = json_loads(from, 0, &error);
    if (root == NULL)
        fail_msg("line %d, column %d: %s", error.line, error.column, error.text);
    assert_int_equal(json_integer_value(json_object_get(root, "requests")), 48211);
    const json_t *key = json_array_get(json_object_get(root, "refused_keys"), 0);
    const char *name = json_string_value(json_object_get(key, "key"));
    assert_memory_equal(name, HOSTILE_BEGINNING, strlen(HOSTILE_BEGINNING));
    json_decref(root);
    free(page);
}

static void a_full_disk_is_told(void **state)
{
    (void)state;
    struct cdl_replay_report report;
    fill_report(&report, FILLED_DAY);
    FILE *full = fopen("/dev/full", "w");
    assert_non_null(full);
    assert_int_equal(cdl_replay_write_html(full, &(struct cdl_replay_reports){&report, NULL, NULL}), -1);
    assert_int_equal(errno, ENOSPC);
    fclose(full);
    cdl_replay_report_free(&report);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_report_makes_a_page),   cmocka_unit_test(the_page_refers_to_nothing),
        cmocka_unit_test(a_hostile_name_stays_a_name), cmocka_unit_test(the_report_is_in_the_page),
        cmocka_unit_test(a_full_disk_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
