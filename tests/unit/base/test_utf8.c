/* Characters one by one, over bytes that may be anything. */
#include "base/utf8.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

static void assert_first(struct cdl_slice text, enum cdl_character_kind kind, uint32_t code, uint32_t length)
{
    const struct cdl_character c = cdl_utf8_first(text);
    assert_int_equal(c.kind, kind);
    assert_int_equal(c.code, code);
    assert_int_equal(c.length, length);
}

static void every_character_comes_back(void **state)
{
    (void)state;
    for (uint32_t code = 0; code <= 0x10ffff; code++) {
        char bytes[4];
        size_t length = 0;
        if (code >= 0xd800 && code <= 0xdfff)
            continue;
        if (code < 0x80) {
            bytes[length++] = (char)code;
        } else {
            const unsigned more = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
            static const unsigned lead[] = {0, 0xc0, 0xe0, 0xf0};
            bytes[length++] = (char)(lead[more] | code >> (6 * more));
            for (unsigned i = more; i > 0; i--)
                bytes[length++] = (char)(0x80 | (code >> (6 * (i - 1)) & 0x3f));
        }
        const struct cdl_character c = cdl_utf8_first((struct cdl_slice){bytes, length});
        assert_int_equal(c.code, code);
        assert_int_equal(c.length, length);
        assert_int_not_equal(c.kind, CDL_CHARACTER_BROKEN);
        for (size_t cut = 1; cut < length; cut++)
            assert_first((struct cdl_slice){bytes, cut}, CDL_CHARACTER_BROKEN, (uint8_t)bytes[0], 1);
    }
}

static void what_is_no_character_is_one_broken_byte(void **state)
{
    (void)state;
    static const char *const broken[] = {
        "\x80",             /* begins in the middle */
        "\xc0\xaf",         /* overlong */
        "\xc1\xbf",         /* overlong */
        "\xe0\x9f\xbf",     /* overlong */
        "\xf0\x8f\xbf\xbf", /* overlong */
        "\xed\xa0\x80",     /* a surrogate */
        "\xf4\x90\x80\x80", /* beyond the last */
        "\xf5\x80\x80\x80", /* beyond the last */
        "\xe2\x28\xa1",     /* broken off */
        "\xff",
    };
    for (size_t i = 0; i < sizeof broken / sizeof *broken; i++)
        assert_first(cdl_slice_of(broken[i]), CDL_CHARACTER_BROKEN, (uint8_t)broken[i][0], 1);
}

static void what_moves_the_reader_is_hidden(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint32_t code;
    } hidden[] = {
        {"\x01", 1},
        {"\n", '\n'},
        {"\x1b[2J", 0x1b},
        {"\x7f", 0x7f},
        {"\xc2\x80", 0x80},
        {"\xc2\x9f", 0x9f},
        {"\xd8\x9c", 0x61c},
        {"\xe2\x80\x8e", 0x200e},
        {"\xe2\x80\x8f", 0x200f},
        {"\xe2\x80\xa8", 0x2028},
        {"\xe2\x80\xae", 0x202e},
        {"\xe2\x81\xa6", 0x2066},
        {"\xe2\x81\xa9", 0x2069},
        {"\xef\xbb\xbf", 0xfeff},
    };
    for (size_t i = 0; i < sizeof hidden / sizeof *hidden; i++)
        assert_first(cdl_slice_of(hidden[i].text), CDL_CHARACTER_HIDDEN, hidden[i].code,
                     hidden[i].code < 0x80 ? 1 : (uint32_t)strlen(hidden[i].text));
    assert_first(CDL_SLICE("\0"), CDL_CHARACTER_HIDDEN, 0, 1);
    assert_first(CDL_SLICE(" "), CDL_CHARACTER_PLAIN, ' ', 1);
    assert_first(CDL_SLICE("\xe2\x80\xa6"), CDL_CHARACTER_PLAIN, 0x2026, 3);
}

static void a_cut_is_between_characters(void **state)
{
    (void)state;
    const struct cdl_slice text = CDL_SLICE("a\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80z");
    static const size_t ends[] = {0, 1, 1, 3, 3, 3, 6, 6, 6, 6, 10, 11, 11};
    for (size_t bytes = 0; bytes < sizeof ends / sizeof *ends; bytes++)
        assert_int_equal(cdl_utf8_head(text, bytes).length, ends[bytes]);
    assert_int_equal(cdl_utf8_head(CDL_SLICE("\xff\xff\xff\xff"), 2).length, 2);
    assert_int_equal(cdl_utf8_head(CDL_SLICE("\x80\x80\x80\x80\x80"), 4).length, 4);
}

static void marks_are_a_replacement_character_and_two_digits(void **state)
{
    (void)state;
    char bytes[10];
    struct cdl_writer out = cdl_writer_on(bytes, sizeof bytes);
    cdl_write_marked(&out, CDL_SLICE("\0\xfe"));
    assert_true(cdl_slice_equal(cdl_written(&out), CDL_SLICE("\xef\xbf\xbd"
                                                             "00\xef\xbf\xbd"
                                                             "fe")));
    assert_false(out.overflow);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_character_comes_back),
        cmocka_unit_test(what_is_no_character_is_one_broken_byte),
        cmocka_unit_test(what_moves_the_reader_is_hidden),
        cmocka_unit_test(a_cut_is_between_characters),
        cmocka_unit_test(marks_are_a_replacement_character_and_two_digits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
