#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "identity/address.h"

typedef bool reader(struct cdl_slice text, struct cdl_address *address);

static void assert_address(const char *text, const struct cdl_address *address, const char *want)
{
    char got[CDL_ADDRESS_TEXT_MAX];
    const size_t length = cdl_address_format(address, got);
    if (strcmp(got, want) != 0)
        fail_msg("\"%s\" is %s, expected %s", text, got, want);
    assert_int_equal(length, strlen(want));
    assert_int_equal(address->family, strchr(want, ':') == NULL ? 4 : 6);
}

static void assert_reads(reader *read, const char *text, const char *want)
{
    struct cdl_address address;
    memset(&address, 0xee, sizeof address);
    if (!read(cdl_slice_of(text), &address))
        fail_msg("\"%s\" was not read", text);
    assert_address(text, &address, want);
}

/* Refused, and the address that was there before is still there. */
static void assert_unreadable_slice(reader *read, struct cdl_slice text)
{
    struct cdl_address address, before;
    memset(&before, 0xee, sizeof before);
    address = before;
    if (read(text, &address))
        fail_msg("\"%.*s\" was read", (int)text.length, text.length > 0 ? text.bytes : "");
    assert_true(cdl_address_equal(&address, &before));
}

static void assert_unreadable(reader *read, const char *text)
{
    assert_unreadable_slice(read, cdl_slice_of(text));
}

static struct cdl_address address_of(const char *text)
{
    struct cdl_address address = {0};
    assert_true(cdl_address_parse(cdl_slice_of(text), &address));
    return address;
}

/* ---- bare addresses ---- */

static void dotted_ipv4_has_four_decimal_numbers(void **state)
{
    (void)state;
    assert_reads(cdl_address_parse, "203.0.113.7", "203.0.113.7");
    assert_reads(cdl_address_parse, "0.0.0.0", "0.0.0.0");
    assert_reads(cdl_address_parse, "255.255.255.255", "255.255.255.255");
    static const char *const wrong[] = {
        "1.2.3",    "1.2.3.4.5", "256.1.1.1", "1.2.3.1000", "01.2.3.4",  "1.2.3.04",    "0x1.2.3.4", "1.2.3.4.",
        ".1.2.3.4", "1..2.3",    "16909060",  "1.2.3.-4",   "1.2.3.4 ",  " 1.2.3.4",    "1.2.3.4a",  "1,2,3,4",
        "+1.2.3.4", "127.1",     "",          ".",          "1.2.3.4/8", "1.2.3.4%eth", "a.b.c.d",   "１.2.3.4",
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        assert_unreadable(cdl_address_parse, wrong[i]);
}

static void ipv6_is_read_in_every_form_of_rfc_4291(void **state)
{
    (void)state;
    assert_reads(cdl_address_parse, "2001:db8:0:0:8:800:200c:417a", "2001:db8::8:800:200c:417a");
    assert_reads(cdl_address_parse, "2001:DB8::8:800:200C:417A", "2001:db8::8:800:200c:417a");
    assert_reads(cdl_address_parse, "2001:0db8:0000::0001", "2001:db8::1");
    assert_reads(cdl_address_parse, "::", "::");
    assert_reads(cdl_address_parse, "::1", "::1");
    assert_reads(cdl_address_parse, "1::", "1::");
    assert_reads(cdl_address_parse, "1:2:3:4:5:6:7::", "1:2:3:4:5:6:7:0");
    assert_reads(cdl_address_parse, "64:ff9b::192.0.2.33", "64:ff9b::c000:221");
    static const char *const wrong[] = {
        "2001:db8::g",
        "1:2:3:4:5:6:7",
        "1:2:3:4:5:6:7:8:9",
        "1:2:3:4:5:6:7:8::",
        "1::2::3",
        ":::",
        ":1::",
        "1:2",
        "12345::",
        "00001::",
        "::1.2.3",
        "::1.2.3.256",
        "1.2.3.4::",
        "fe80::1%eth0",
        "[::1]",
        "::1]",
        "::1/128",
        ":",
        ":1",
        "::1.2.3.4:5",
        "::01.2.3.4",
        "2001:db8::1 ",
        "2001:db8:::1",
        "1:2:3:4:5:6:7:",
        "-1::",
        "2001:db8::1:443:2001:db8:1:2:3:4",
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        assert_unreadable(cdl_address_parse, wrong[i]);
}

static void nul_and_bytes_behind_it_are_no_part_of_an_address(void **state)
{
    (void)state;
    assert_unreadable_slice(cdl_address_parse, (struct cdl_slice){"1.2.3.4\0", 8});
    assert_unreadable_slice(cdl_address_parse, (struct cdl_slice){"1.2.3.4\0.5", 10});
    assert_unreadable_slice(cdl_address_parse, (struct cdl_slice){"::1\0", 4});
    assert_unreadable_slice(cdl_address_parse, (struct cdl_slice){NULL, 0});
    assert_unreadable_slice(cdl_address_parse_hop, (struct cdl_slice){NULL, 0});
    assert_unreadable_slice(cdl_address_parse_hop, (struct cdl_slice){"1.2.3.4\0:80", 11});
    assert_unreadable_slice(cdl_address_parse_hop, (struct cdl_slice){"fe80::1%e\0", 10});
}

static void only_the_slice_is_read(void **state)
{
    (void)state;
    struct cdl_address address;
    assert_true(cdl_address_parse((struct cdl_slice){"1.2.3.45", 7}, &address));
    assert_address("1.2.3.4", &address, "1.2.3.4");
}

static void mapped_ipv4_is_ipv4(void **state)
{
    (void)state;
    assert_reads(cdl_address_parse, "::ffff:203.0.113.7", "203.0.113.7");
    assert_reads(cdl_address_parse, "::FFFF:cb00:7107", "203.0.113.7");
    assert_reads(cdl_address_parse, "0:0:0:0:0:ffff:203.0.113.7", "203.0.113.7");
    assert_reads(cdl_address_parse_hop, "[::ffff:203.0.113.7]:443", "203.0.113.7");
    const struct cdl_address plain = address_of("203.0.113.7"), mapped = address_of("::ffff:203.0.113.7");
    assert_true(cdl_address_equal(&plain, &mapped));
}

static void other_ipv6_with_ipv4_in_it_stays_ipv6(void **state)
{
    (void)state;
    assert_reads(cdl_address_parse, "::203.0.113.7", "::cb00:7107");
    assert_reads(cdl_address_parse, "::ffff:0:203.0.113.7", "::ffff:0:cb00:7107");
    assert_reads(cdl_address_parse, "::fffe:203.0.113.7", "::fffe:cb00:7107");
}

static void bytes_of_a_socket_are_an_address(void **state)
{
    (void)state;
    static const uint8_t mapped[16] = {[10] = 0xff, [11] = 0xff, [12] = 203, [13] = 0, [14] = 113, [15] = 7};
    static const uint8_t loopback[16] = {[15] = 1};
    const struct cdl_address from_ipv4 = cdl_address_from_bytes(mapped + 12, 4);
    const struct cdl_address from_mapped = cdl_address_from_bytes(mapped, 16);
    const struct cdl_address from_ipv6 = cdl_address_from_bytes(loopback, 16);
    const struct cdl_address none = cdl_address_from_bytes(mapped, 5);
    assert_address("4 bytes", &from_ipv4, "203.0.113.7");
    assert_true(cdl_address_equal(&from_ipv4, &from_mapped));
    assert_address("16 bytes", &from_ipv6, "::1");
    assert_int_equal(none.family, 0);
}

/* ---- hops ---- */

static void a_port_is_dropped(void **state)
{
    (void)state;
    assert_reads(cdl_address_parse_hop, "203.0.113.7:4711", "203.0.113.7");
    assert_reads(cdl_address_parse_hop, "203.0.113.7:_port.1-x", "203.0.113.7");
    assert_reads(cdl_address_parse_hop, "[2001:db8::1]:443", "2001:db8::1");
    assert_reads(cdl_address_parse_hop, "[2001:db8::1]:_gg", "2001:db8::1");
    assert_reads(cdl_address_parse_hop, "[2001:db8::1]", "2001:db8::1");
    /* Without brackets nobody can tell a port from a group. */
    assert_reads(cdl_address_parse_hop, "2001:db8::1:443", "2001:db8::1:443");
    static const char *const wrong[] = {
        "203.0.113.7:",
        "203.0.113.7:123456",
        "203.0.113.7:-1",
        "203.0.113.7:80:80",
        "203.0.113.7:http",
        "[2001:db8::1]:",
        "[2001:db8::1]443",
        "[2001:db8::1]:44a",
        "[2001:db8::1",
        "2001:db8::1]",
        "[203.0.113.7]",
        "[203.0.113.7]:80",
        "[]",
        "[",
        "[]:80",
        "[[2001:db8::1]]",
        "[2001:db8::1]]",
        ":80",
        "203.0.113.7:_",
        "[2001:db8::1]:_",
        "203.0.113.7: 80",
        "[ 2001:db8::1]",
        "203.0.113.7:+80",
        "203.0.113.7:_a b",
        "1.2.3:80",
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        assert_unreadable(cdl_address_parse_hop, wrong[i]);
}

static void a_zone_is_dropped(void **state)
{
    (void)state;
    assert_reads(cdl_address_parse_hop, "fe80::1%eth0", "fe80::1");
    assert_reads(cdl_address_parse_hop, "fe80::1%eth0.100", "fe80::1");
    assert_reads(cdl_address_parse_hop, "fe80::1%25en-1", "fe80::1");
    assert_reads(cdl_address_parse_hop, "fe80::1%3", "fe80::1");
    assert_reads(cdl_address_parse_hop, "[fe80::1%eth0]:443", "fe80::1");
    static const char *const wrong[] = {
        "fe80::1%",   "fe80::1%eth0:443", "fe80::1%eth 0",  "%eth0",         "203.0.113.7%eth0", "[203.0.113.7%eth0]",
        "[fe80::1%]", "[fe80::1]%eth0",   "fe80::1%eth0/1", "fe80::1%eth0]", "fe80%eth0::1",     "1.2.3.4:5%eth0",
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        assert_unreadable(cdl_address_parse_hop, wrong[i]);
}

static void blanks_and_quotes_are_taken_off(void **state)
{
    (void)state;
    assert_reads(cdl_address_parse_hop, " \t203.0.113.7 ", "203.0.113.7");
    assert_reads(cdl_address_parse_hop, "\"203.0.113.7:4711\"", "203.0.113.7");
    assert_reads(cdl_address_parse_hop, " \"[2001:db8::1]:443\" ", "2001:db8::1");
    static const char *const wrong[] = {"\"203.0.113.7", "203.0.113.7\"",    "\"\"203.0.113.7\"\"", "\"",
                                        "\"\"",          "\" 203.0.113.7\"", "'203.0.113.7'",       "\"203\\.0.113.7\"",
                                        "203.0.113.7\r"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        assert_unreadable(cdl_address_parse_hop, wrong[i]);
}

static void junk_is_no_address(void **state)
{
    (void)state;
    static const char *const wrong[] = {"unknown",   "_hidden",     "",      " ",        "1.2.3", "256.1.1.1",
                                        "localhost", "2001:db8::g", "unix:", "unix:/s",  "-",     "null",
                                        "::1,",      "1.2.3.4,",    "::1 x", "1.2.3.4 x"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        assert_unreadable(cdl_address_parse_hop, wrong[i]);
}

static void a_hop_of_any_length_is_refused_at_once(void **state)
{
    (void)state;
    static char longest[1 << 16];
    memset(longest, '1', sizeof longest);
    assert_unreadable_slice(cdl_address_parse_hop, (struct cdl_slice){longest, sizeof longest});
    memset(longest, ':', sizeof longest);
    assert_unreadable_slice(cdl_address_parse_hop, (struct cdl_slice){longest, sizeof longest});
}

/* ---- canonical text ---- */

static void text_follows_rfc_5952(void **state)
{
    (void)state;
    assert_reads(cdl_address_parse, "2001:0db8::0001", "2001:db8::1");              /* 4.1: no leading zeros */
    assert_reads(cdl_address_parse, "2001:db8::0:1", "2001:db8::1");                /* 4.2.1: as short as it gets */
    assert_reads(cdl_address_parse, "2001:db8::1:1:1:1:1", "2001:db8:0:1:1:1:1:1"); /* 4.2.2: not for one group */
    assert_reads(cdl_address_parse, "2001:0:0:1:0:0:0:1", "2001:0:0:1::1");         /* 4.2.3: the longest */
    assert_reads(cdl_address_parse, "2001:db8:0:0:1:0:0:1", "2001:db8::1:0:0:1");   /* 4.2.3: the first of equals */
    assert_reads(cdl_address_parse, "2001:DB8::ABCD", "2001:db8::abcd");            /* 4.3: lower case */
    assert_reads(cdl_address_parse, "::1:2", "::1:2");                              /* not ::0.1.0.2 */
    assert_reads(cdl_address_parse, "0:1:1:1:1:1:0:0", "0:1:1:1:1:1::");
    assert_reads(cdl_address_parse, "10:100:1000:f:f0:f00:f000:ffff", "10:100:1000:f:f0:f00:f000:ffff");
}

static void the_longest_text_fits(void **state)
{
    (void)state;
    assert_reads(cdl_address_parse, "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
                 "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff");
    assert_reads(cdl_address_parse, "ffff:ffff:ffff:ffff:ffff:ffff:255.255.255.255",
                 "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff");
}

static void no_address_is_no_text(void **state)
{
    (void)state;
    char text[CDL_ADDRESS_TEXT_MAX] = "x";
    assert_int_equal(cdl_address_format(&(struct cdl_address){0}, text), 0);
    assert_string_equal(text, "");
}

/* ---- groups ---- */

static void assert_groups(const char *text, unsigned prefix, const char *want)
{
    const struct cdl_address address = address_of(text), group = cdl_address_group(&address, prefix);
    assert_address(text, &group, want);
}

static void ipv6_is_grouped_by_its_prefix(void **state)
{
    (void)state;
    assert_groups("2001:db8:1:2:3:4:5:6", 64, "2001:db8:1:2::");
    assert_groups("2001:db8:1:2:3:4:5:6", 128, "2001:db8:1:2:3:4:5:6");
    assert_groups("2001:db8:1:2:3:4:5:7", 127, "2001:db8:1:2:3:4:5:6");
    assert_groups("2001:db8:1:22ff:3::", 56, "2001:db8:1:2200::");
    assert_groups("2001:db8:1:ffff::", 49, "2001:db8:1:8000::");
    assert_groups("ffff::", 1, "8000::");
}

static void ipv4_is_not_grouped(void **state)
{
    (void)state;
    assert_groups("203.0.113.7", 1, "203.0.113.7");
    assert_groups("::ffff:203.0.113.7", 64, "203.0.113.7");
    const struct cdl_address none = {0}, group = cdl_address_group(&none, 64);
    assert_true(cdl_address_equal(&group, &none));
}

static void a_prefix_of_no_bits_does_not_make_all_clients_one(void **state)
{
    (void)state;
    assert_groups("2001:db8::1", 0, "2001:db8::1");
    assert_groups("2001:db8::1", 4000, "2001:db8::1");
}

/* ---- networks ---- */

static struct cdl_network network_of(const char *text)
{
    struct cdl_network network = {0};
    const char *why = NULL;
    if (!cdl_network_parse(cdl_slice_of(text), &network, &why))
        fail_msg("\"%s\" %s", text, why);
    return network;
}

static void assert_contains(const char *text, const char *address_text, bool want)
{
    const struct cdl_network network = network_of(text);
    const struct cdl_address address = address_of(address_text);
    if (cdl_network_contains(&network, &address) != want)
        fail_msg("%s %s in %s", address_text, want ? "is not" : "is", text);
}

static void assert_no_network(const char *text, const char *want)
{
    struct cdl_network network, before;
    memset(&before, 0xee, sizeof before);
    network = before;
    const char *why = NULL;
    if (cdl_network_parse(cdl_slice_of(text), &network, &why))
        fail_msg("\"%s\" was read", text);
    assert_string_equal(why, want);
    assert_memory_equal(&network, &before, sizeof network);
}

static void a_network_contains_what_shares_its_prefix(void **state)
{
    (void)state;
    assert_contains("10.0.0.0/8", "10.0.0.0", true);
    assert_contains("10.0.0.0/8", "10.255.255.255", true);
    assert_contains("10.0.0.0/8", "11.0.0.0", false);
    assert_contains("10.0.0.0/8", "9.255.255.255", false);
    assert_contains("172.16.0.0/12", "172.31.255.255", true);
    assert_contains("172.16.0.0/12", "172.32.0.0", false);
    assert_contains("203.0.113.6/31", "203.0.113.7", true);
    assert_contains("203.0.113.6/31", "203.0.113.8", false);
    assert_contains("2001:db8::/32", "2001:db8:ffff:ffff:ffff:ffff:ffff:ffff", true);
    assert_contains("2001:db8::/32", "2001:db9::", false);
    assert_contains("2001:db8::/33", "2001:db8:8000::", false);
}

static void a_bare_address_is_a_network_of_one(void **state)
{
    (void)state;
    assert_int_equal(network_of("203.0.113.7").bits, 32);
    assert_int_equal(network_of("2001:db8::1").bits, 128);
    assert_int_equal(network_of("::ffff:203.0.113.7").bits, 32);
    assert_contains("203.0.113.7", "203.0.113.7", true);
    assert_contains("203.0.113.7", "203.0.113.6", false);
    assert_contains("2001:db8::1", "2001:db8::1", true);
    assert_contains("2001:db8::1", "2001:db8::", false);
}

static void a_network_of_no_bits_is_all_of_its_family(void **state)
{
    (void)state;
    assert_contains("0.0.0.0/0", "203.0.113.7", true);
    assert_contains("0.0.0.0/0", "::1", false);
    assert_contains("::/0", "2001:db8::1", true);
    assert_contains("::/0", "203.0.113.7", false);
    const struct cdl_network all = network_of("0.0.0.0/0");
    assert_false(cdl_network_contains(&all, &(struct cdl_address){0}));
    assert_false(cdl_network_contains(&(struct cdl_network){0}, &(struct cdl_address){0}));
}

static void a_mapped_network_is_ipv4(void **state)
{
    (void)state;
    assert_contains("::ffff:10.0.0.0/104", "10.1.2.3", true);
    assert_contains("::ffff:10.0.0.0/104", "11.1.2.3", false);
    assert_contains("::ffff:0:0/96", "203.0.113.7", true);
    assert_contains("10.0.0.0/8", "::ffff:10.1.2.3", true);
    assert_no_network("::ffff:10.0.0.0/8", "has bits set after its prefix");
    assert_no_network("::ffff:0:0/95", "has bits set after its prefix");
    assert_no_network("::ffff:10.0.0.0/129", "has a prefix longer than its address");
}

static void what_is_wrong_with_a_network_is_said(void **state)
{
    (void)state;
    static const char *const no_address = "is not an IPv4 or IPv6 address or network";
    static const char *const no_number = "has a prefix that is not a number of bits";
    assert_no_network("", no_address);
    assert_no_network("10.0.0/8", no_address);
    assert_no_network("/8", no_address);
    assert_no_network("example.org", no_address);
    assert_no_network("10.0.0.0 /8", no_address);
    assert_no_network("10.0.0.0/", no_number);
    assert_no_network("10.0.0.0/ 8", no_number);
    assert_no_network("10.0.0.0/08", no_number);
    assert_no_network("10.0.0.0/-8", no_number);
    assert_no_network("10.0.0.0/8/8", no_number);
    assert_no_network("10.0.0.0/255.0.0.0", no_number);
    assert_no_network("10.0.0.0/4294967304", no_number);
    assert_no_network("10.0.0.0/33", "has a prefix longer than its address");
    assert_no_network("2001:db8::/129", "has a prefix longer than its address");
    assert_no_network("10.0.0.1/8", "has bits set after its prefix");
    assert_no_network("10.0.0.1/0", "has bits set after its prefix");
    assert_no_network("2001:db8::1/64", "has bits set after its prefix");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dotted_ipv4_has_four_decimal_numbers),
        cmocka_unit_test(ipv6_is_read_in_every_form_of_rfc_4291),
        cmocka_unit_test(nul_and_bytes_behind_it_are_no_part_of_an_address),
        cmocka_unit_test(only_the_slice_is_read),
        cmocka_unit_test(mapped_ipv4_is_ipv4),
        cmocka_unit_test(other_ipv6_with_ipv4_in_it_stays_ipv6),
        cmocka_unit_test(bytes_of_a_socket_are_an_address),
        cmocka_unit_test(a_port_is_dropped),
        cmocka_unit_test(a_zone_is_dropped),
        cmocka_unit_test(blanks_and_quotes_are_taken_off),
        cmocka_unit_test(junk_is_no_address),
        cmocka_unit_test(a_hop_of_any_length_is_refused_at_once),
        cmocka_unit_test(text_follows_rfc_5952),
        cmocka_unit_test(the_longest_text_fits),
        cmocka_unit_test(no_address_is_no_text),
        cmocka_unit_test(ipv6_is_grouped_by_its_prefix),
        cmocka_unit_test(ipv4_is_not_grouped),
        cmocka_unit_test(a_prefix_of_no_bits_does_not_make_all_clients_one),
        cmocka_unit_test(a_network_contains_what_shares_its_prefix),
        cmocka_unit_test(a_bare_address_is_a_network_of_one),
        cmocka_unit_test(a_network_of_no_bits_is_all_of_its_family),
        cmocka_unit_test(a_mapped_network_is_ipv4),
        cmocka_unit_test(what_is_wrong_with_a_network_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
