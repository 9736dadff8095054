#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "identity/forwarded.h"

#define FIELDS_MAX 400

/* A rule and a peer, and the fields of one request. */
struct fixture {
    struct cdl_network trusted[2];
    struct cdl_client_rule rule;
    struct cdl_address peer;
    struct cdl_field fields[FIELDS_MAX];
    size_t field_count;
};

static struct cdl_address address_of(const char *text)
{
    struct cdl_address address = {0};
    if (text != NULL)
        assert_true(cdl_address_parse(cdl_slice_of(text), &address));
    return address;
}

static struct cdl_network network_of(const char *text)
{
    struct cdl_network network = {0};
    const char *why = NULL;
    assert_true(cdl_network_parse(cdl_slice_of(text), &network, &why));
    return network;
}

/* Proxies in 10.0.0.0/8 and fd00::/8 are trusted, and the peer is one. */
static struct fixture *setup(struct fixture *fixture, const char *header)
{
    *fixture = (struct fixture){
        .trusted = {network_of("10.0.0.0/8"), network_of("fd00::/8")},
        .rule = {.header = cdl_slice_of(header), .trusted_count = 2, .ipv6_prefix = 128},
        .peer = address_of("10.0.0.1"),
    };
    fixture->rule.trusted = fixture->trusted;
    return fixture;
}

static struct fixture *behind_hops(struct fixture *fixture, unsigned hops)
{
    setup(fixture, "x-forwarded-for");
    fixture->rule.trusted_count = 0;
    fixture->rule.hops = hops;
    return fixture;
}

static void add(struct fixture *fixture, const char *name, const char *value)
{
    assert_true(fixture->field_count < FIELDS_MAX);
    fixture->fields[fixture->field_count++] = (struct cdl_field){cdl_slice_of(name), cdl_slice_of(value)};
}

enum source {
    PEER,
    PEER_IGNORING,
    HEADER
};

/* `want` NULL: no address. */
static void assert_client(const struct fixture *fixture, const char *want, enum source source)
{
    const struct cdl_client client = cdl_client_find(&fixture->rule, &fixture->peer, fixture->fields,
                                                     fixture->field_count);
    char text[CDL_ADDRESS_TEXT_MAX];
    cdl_address_format(&client.address, text);
    assert_string_equal(text, want == NULL ? "" : want);
    assert_int_equal(client.believed_header, source == HEADER);
    assert_int_equal(client.ignored_header, source == PEER_IGNORING);
}

static void assert_found(struct fixture *fixture, const char *value, const char *want, enum source source)
{
    fixture->field_count = 0;
    add(fixture, "X-Forwarded-For", value);
    assert_client(fixture, want, source);
}

static void assert_found_7239(const char *value, const char *want, enum source source)
{
    struct fixture fixture;
    setup(&fixture, "forwarded");
    add(&fixture, "Forwarded", value);
    assert_client(&fixture, want, source);
}

/* ---- who is believed ---- */

static void without_a_header_the_peer_is_the_client(void **state)
{
    (void)state;
    struct fixture f;
    assert_client(setup(&f, "x-forwarded-for"), "10.0.0.1", PEER);
    assert_found(&f, "", "10.0.0.1", PEER);
    assert_found(&f, " , ,, ", "10.0.0.1", PEER);
    assert_client(behind_hops(&f, 1), "10.0.0.1", PEER);
    f.peer = address_of("2001:db8::1");
    assert_client(&f, "2001:db8::1", PEER);
}

static void an_untrusted_peer_is_the_client_whatever_it_sends(void **state)
{
    (void)state;
    struct fixture f;
    setup(&f, "x-forwarded-for")->peer = address_of("198.51.100.1");
    assert_found(&f, "203.0.113.7", "198.51.100.1", PEER_IGNORING);
    assert_found(&f, "10.0.0.2", "198.51.100.1", PEER_IGNORING);
    assert_found(&f, "unknown", "198.51.100.1", PEER_IGNORING);
    assert_found(&f, "", "198.51.100.1", PEER);
    setup(&f, "x-forwarded-for")->rule.trusted_count = 0;
    assert_found(&f, "203.0.113.7", "10.0.0.1", PEER_IGNORING);
}

static void a_rule_without_a_header_believes_none_and_sees_that_some_came(void **state)
{
    (void)state;
    struct fixture f;
    setup(&f, "");
    assert_found(&f, "203.0.113.7", "10.0.0.1", PEER_IGNORING);
    f.field_count = 0;
    add(&f, "forwarded", "for=203.0.113.7");
    assert_client(&f, "10.0.0.1", PEER_IGNORING);
    f.field_count = 0;
    add(&f, "x-real-ip", "203.0.113.7");
    add(&f, "", "203.0.113.7");
    assert_client(&f, "10.0.0.1", PEER);
}

static void another_header_than_the_rules_says_nothing(void **state)
{
    (void)state;
    struct fixture f;
    setup(&f, "x-real-ip");
    add(&f, "X-Forwarded-For", "6.6.6.6");
    add(&f, "X-Real-IP", "203.0.113.7");
    add(&f, "X-Real-IP-2", "6.6.6.6");
    add(&f, "X-Real-I", "6.6.6.6");
    assert_client(&f, "203.0.113.7", HEADER);
}

static void peers_are_trusted_by_network_by_hops_or_as_a_unix_socket(void **state)
{
    (void)state;
    struct fixture f;
    const struct cdl_address trusted = address_of("10.9.9.9"), mapped = address_of("::ffff:10.9.9.9"),
                             other = address_of("203.0.113.7"), none = address_of(NULL);
    setup(&f, "x-forwarded-for");
    assert_true(cdl_peer_is_trusted(&f.rule, &trusted));
    assert_true(cdl_peer_is_trusted(&f.rule, &mapped));
    assert_false(cdl_peer_is_trusted(&f.rule, &other));
    assert_true(cdl_peer_is_trusted(&f.rule, &none));
    f.rule.trusted_count = 0;
    assert_false(cdl_peer_is_trusted(&f.rule, &trusted));
    assert_true(cdl_peer_is_trusted(&f.rule, &none));
    behind_hops(&f, 1);
    assert_true(cdl_peer_is_trusted(&f.rule, &other));
}

static void behind_a_unix_socket_the_header_is_all_there_is(void **state)
{
    (void)state;
    struct fixture f;
    setup(&f, "x-forwarded-for")->peer = address_of(NULL);
    assert_client(&f, NULL, PEER);
    assert_found(&f, "6.6.6.6, 203.0.113.7", "203.0.113.7", HEADER);
    assert_found(&f, "6.6.6.6, 203.0.113.7, 10.0.0.2", "203.0.113.7", HEADER);
    assert_found(&f, "6.6.6.6, unix:", NULL, PEER_IGNORING);
}

/* ---- the walk past trusted proxies ---- */

static void the_first_untrusted_hop_from_the_right_is_the_client(void **state)
{
    (void)state;
    struct fixture f;
    setup(&f, "x-forwarded-for");
    assert_found(&f, "203.0.113.7", "203.0.113.7", HEADER);
    assert_found(&f, "203.0.113.7, 10.0.0.2", "203.0.113.7", HEADER);
    assert_found(&f, "203.0.113.7,10.0.0.2,fd00::1,10.200.0.3", "203.0.113.7", HEADER);
    assert_found(&f, "203.0.113.7\t,\t10.0.0.2 ", "203.0.113.7", HEADER);
}

static void what_the_client_wrote_is_never_reached(void **state)
{
    (void)state;
    struct fixture f;
    setup(&f, "x-forwarded-for");
    static const char *const lies[] = {
        "6.6.6.6, 203.0.113.7",
        "10.0.0.9, 203.0.113.7",
        "unknown, 203.0.113.7",
        ",203.0.113.7",
        "\", 203.0.113.7",
        "for=\"x, 203.0.113.7",
        "\\, 203.0.113.7",
        "[, 203.0.113.7",
        "6.6.6.6, 10.0.0.9, 203.0.113.7",
        "203.0.113.8, 203.0.113.7",
        ";, 203.0.113.7",
        "%, 203.0.113.7",
        "6.6.6.6, 203.0.113.7, 10.0.0.2",
        "10.0.0.1,,,, 203.0.113.7,",
    };
    for (size_t i = 0; i < sizeof lies / sizeof lies[0]; i++)
        assert_found(&f, lies[i], "203.0.113.7", HEADER);
}

static void when_every_hop_is_trusted_the_leftmost_is_the_client(void **state)
{
    (void)state;
    struct fixture f;
    setup(&f, "x-forwarded-for");
    assert_found(&f, "10.3.3.3", "10.3.3.3", HEADER);
    assert_found(&f, "10.3.3.3, 10.0.0.2", "10.3.3.3", HEADER);
}

static void several_fields_are_one_list_in_order(void **state)
{
    (void)state;
    struct fixture f;
    setup(&f, "x-forwarded-for");
    add(&f, "x-forwarded-for", "6.6.6.6");
    add(&f, "Host", "example.org");
    add(&f, "X-FORWARDED-FOR", "7.7.7.7, 203.0.113.7");
    add(&f, "X-Forwarded-For", "10.0.0.3, 10.0.0.2");
    add(&f, "X-Forwarded-For", "");
    add(&f, "Accept", "*/*");
    assert_client(&f, "203.0.113.7", HEADER);
}

static void every_spelling_of_a_client_is_one_client(void **state)
{
    (void)state;
    struct fixture f;
    setup(&f, "x-forwarded-for");
    assert_found(&f, "203.0.113.7:4711", "203.0.113.7", HEADER);
    assert_found(&f, "203.0.113.7:4712, 10.0.0.2:80", "203.0.113.7", HEADER);
    assert_found(&f, "::ffff:203.0.113.7", "203.0.113.7", HEADER);
    assert_found(&f, "[::ffff:203.0.113.7]:4711, ::ffff:10.0.0.2", "203.0.113.7", HEADER);
    assert_found(&f, "[2001:db8::1]:443", "2001:db8::1", HEADER);
    assert_found(&f, "2001:DB8:0:0::1", "2001:db8::1", HEADER);
    assert_found(&f, "fe80::1%eth0", "fe80::1", HEADER);
    assert_found(&f, "fe80::1%eth0.100", "fe80::1", HEADER);
    assert_found(&f, "\"203.0.113.7\"", "203.0.113.7", HEADER);
}

static void junk_ends_the_walk_at_the_last_address_believed(void **state)
{
    (void)state;
    struct fixture f;
    setup(&f, "x-forwarded-for");
    static const char *const junk[] = {"unknown",      "_hidden", "1.2.3",           "256.1.1.1",     "2001:db8::g",
                                       "203.0.113.7.", "null",    "for=203.0.113.7", "203.0.113.7 x", "\""};
    for (size_t i = 0; i < sizeof junk / sizeof junk[0]; i++) {
        char value[100];
        assert_found(&f, junk[i], "10.0.0.1", PEER_IGNORING);
        snprintf(value, sizeof value, "6.6.6.6, %s", junk[i]);
        assert_found(&f, value, "10.0.0.1", PEER_IGNORING);
        snprintf(value, sizeof value, "6.6.6.6, %s, 10.0.0.3, 10.0.0.2", junk[i]);
        assert_found(&f, value, "10.0.0.3", HEADER);
    }
}

static void empty_elements_are_no_hops(void **state)
{
    (void)state;
    struct fixture f;
    setup(&f, "x-forwarded-for");
    assert_found(&f, "203.0.113.7,", "203.0.113.7", HEADER);
    assert_found(&f, ",203.0.113.7, ,\t, 10.0.0.2 , ", "203.0.113.7", HEADER);
}

static void of_300_hops_the_last_are_looked_at(void **state)
{
    (void)state;
    struct fixture f;
    char value[300 * 16] = "6.6.6.6";
    for (int i = 1; i < 300; i++)
        snprintf(value + strlen(value), sizeof value - strlen(value), ",10.0.%d.%d", i / 250, i % 250);
    assert_found(setup(&f, "x-forwarded-for"), value, "10.0.0.236", HEADER);
    assert_found(behind_hops(&f, CDL_FORWARDED_HOPS_MAX), value, "10.0.0.236", HEADER);
    setup(&f, "x-forwarded-for");
    for (int i = 0; i < 300; i++)
        add(&f, "x-forwarded-for", i == 299 - CDL_FORWARDED_HOPS_MAX ? "203.0.113.7" : i % 2 ? "10.0.0.2" : "10.0.0.3");
    assert_client(&f, "10.0.0.3", HEADER);
    f.fields[300 - CDL_FORWARDED_HOPS_MAX].value = CDL_SLICE("203.0.113.7");
    assert_client(&f, "203.0.113.7", HEADER);
}

static void clients_are_grouped_by_the_prefix_and_proxies_are_not(void **state)
{
    (void)state;
    struct fixture f;
    setup(&f, "x-forwarded-for")->rule.ipv6_prefix = 64;
    assert_found(&f, "2001:db8:0:1:2:3:4:5", "2001:db8:0:1::", HEADER);
    assert_found(&f, "203.0.113.7", "203.0.113.7", HEADER);
    f.trusted[1] = network_of("2001:db8::1");
    assert_found(&f, "2001:db8::2, 2001:db8::1", "2001:db8::", HEADER);
    assert_found(&f, "203.0.113.7, 2001:db8::1", "203.0.113.7", HEADER);
    assert_found(&f, "203.0.113.7, 2001:db8::2", "2001:db8::", HEADER);
    f.peer = address_of("2001:db8:0:7::9");
    assert_found(&f, "", "2001:db8:0:7::", PEER);
}

/* ---- a number of hops ---- */

static void the_nth_element_from_the_right_is_the_client(void **state)
{
    (void)state;
    struct fixture f;
    assert_found(behind_hops(&f, 1), "6.6.6.6, 203.0.113.7", "203.0.113.7", HEADER);
    assert_found(&f, "10.0.0.9", "10.0.0.9", HEADER);
    assert_found(behind_hops(&f, 2), "6.6.6.6, 203.0.113.7, 198.51.100.1", "203.0.113.7", HEADER);
    assert_found(behind_hops(&f, 3), "203.0.113.7:1, 198.51.100.1, ,198.51.100.2,", "203.0.113.7", HEADER);
    behind_hops(&f, 2)->field_count = 0;
    add(&f, "x-forwarded-for", "6.6.6.6, 203.0.113.7");
    add(&f, "x-forwarded-for", "198.51.100.1");
    assert_client(&f, "203.0.113.7", HEADER);
}

static void what_counted_proxies_say_of_each_other_does_not_matter(void **state)
{
    (void)state;
    struct fixture f;
    assert_found(behind_hops(&f, 2), "6.6.6.6, 203.0.113.7, unix:", "203.0.113.7", HEADER);
}

static void fewer_elements_than_hops_are_the_peers(void **state)
{
    (void)state;
    struct fixture f;
    assert_found(behind_hops(&f, 2), "203.0.113.7", "10.0.0.1", PEER_IGNORING);
    assert_found(&f, "203.0.113.7,", "10.0.0.1", PEER_IGNORING);
    assert_found(&f, ",, 203.0.113.7", "10.0.0.1", PEER_IGNORING);
    assert_found(&f, "", "10.0.0.1", PEER);
    f.peer = address_of(NULL);
    assert_found(&f, "203.0.113.7", NULL, PEER_IGNORING);
}

static void an_nth_element_that_is_no_address_is_the_peers(void **state)
{
    (void)state;
    struct fixture f;
    assert_found(behind_hops(&f, 1), "203.0.113.7, unknown", "10.0.0.1", PEER_IGNORING);
    assert_found(behind_hops(&f, 2), "203.0.113.7, unknown, 198.51.100.1", "10.0.0.1", PEER_IGNORING);
}

static void more_hops_than_are_looked_at_are_the_peers(void **state)
{
    (void)state;
    struct fixture f;
    behind_hops(&f, CDL_FORWARDED_HOPS_MAX + 1);
    for (int i = 0; i < CDL_FORWARDED_HOPS_MAX + 1; i++)
        add(&f, "x-forwarded-for", "203.0.113.7");
    assert_client(&f, "10.0.0.1", PEER_IGNORING);
    f.rule.hops = CDL_FORWARDED_HOPS_MAX;
    assert_client(&f, "203.0.113.7", HEADER);
}

/* ---- RFC 7239 ---- */

static void forwarded_names_the_client_by_for(void **state)
{
    (void)state;
    assert_found_7239("for=203.0.113.7", "203.0.113.7", HEADER);
    assert_found_7239("For=\"[2001:db8:cafe::17]:4711\"", "2001:db8:cafe::17", HEADER);
    assert_found_7239("for=203.0.113.7;proto=http;by=10.0.0.1", "203.0.113.7", HEADER);
    assert_found_7239("by=\"10.0.0.1\" ; proto=http ; FOR=\"203.0.113.7:_x\"", "203.0.113.7", HEADER);
    assert_found_7239("for=6.6.6.6, for=203.0.113.7, for=10.0.0.2", "203.0.113.7", HEADER);
    assert_found_7239("for=203.0.113.7;, , for=\"10.0.0.2\",", "203.0.113.7", HEADER);
}

static void separators_between_quotes_are_text(void **state)
{
    (void)state;
    assert_found_7239("for=203.0.113.7;host=\"a,for=6.6.6.6\"", "203.0.113.7", HEADER);
    assert_found_7239("for=203.0.113.7;host=\"a;for=6.6.6.6\"", "203.0.113.7", HEADER);
    assert_found_7239("for=203.0.113.7;host=\"a\\\",for=6.6.6.6\"", "203.0.113.7", HEADER);
    assert_found_7239("for=203.0.113.7;host=\"a\\\\\"", "203.0.113.7", HEADER);
    assert_found_7239("for=6.6.6.6,for=203.0.113.7;host=\"\\\\\\\";\\\\\"", "203.0.113.7", HEADER);
}

static void an_open_quote_does_not_swallow_the_hop_behind_it(void **state)
{
    (void)state;
    assert_found_7239("for=\"6.6.6.6, for=203.0.113.7", "203.0.113.7", HEADER);
    assert_found_7239("for=\"6.6.6.6\\, for=203.0.113.7", "203.0.113.7", HEADER);
    assert_found_7239("host=\"x, for=\"[2001:db8::1]\"", "2001:db8::1", HEADER);
    assert_found_7239("\\\", for=\"203.0.113.7\";host=\"a\"", "203.0.113.7", HEADER);
}

static void an_element_that_names_nobody_ends_the_walk(void **state)
{
    (void)state;
    static const char *const junk[] = {
        "for=unknown",
        "for=_hidden",
        "proto=http",
        ";",
        "203.0.113.7",
        "for=",
        "for",
        "for=\"203.0.113.7",
        "for=1.2.3.4;for=1.2.3.4",
        "xfor=203.0.113.7",
        "for =203.0.113.7",
        "for=203.0.113.7;x=\"",
        "for==203.0.113.7",
        "for=\"203\\.0.113.7\"",
    };
    for (size_t i = 0; i < sizeof junk / sizeof junk[0]; i++) {
        char value[100];
        assert_found_7239(junk[i], "10.0.0.1", PEER_IGNORING);
        snprintf(value, sizeof value, "for=6.6.6.6, %s", junk[i]);
        assert_found_7239(value, "10.0.0.1", PEER_IGNORING);
    }
    assert_found_7239("for=6.6.6.6, for=unknown, for=10.0.0.2", "10.0.0.2", HEADER);
}

static void a_client_that_gets_into_a_proxys_element_is_not_believed(void **state)
{
    (void)state;
    assert_found_7239("for=203.0.113.7;host=x;for=6.6.6.6", "10.0.0.1", PEER_IGNORING);
}

static void forwarded_counts_hops_too(void **state)
{
    (void)state;
    struct fixture f;
    behind_hops(&f, 2)->rule.header = CDL_SLICE("forwarded");
    add(&f, "Forwarded", "for=6.6.6.6, for=203.0.113.7");
    add(&f, "forwarded", "by=10.0.0.2");
    assert_client(&f, "203.0.113.7", HEADER);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_a_header_the_peer_is_the_client),
        cmocka_unit_test(an_untrusted_peer_is_the_client_whatever_it_sends),
        cmocka_unit_test(a_rule_without_a_header_believes_none_and_sees_that_some_came),
        cmocka_unit_test(another_header_than_the_rules_says_nothing),
        cmocka_unit_test(peers_are_trusted_by_network_by_hops_or_as_a_unix_socket),
        cmocka_unit_test(behind_a_unix_socket_the_header_is_all_there_is),
        cmocka_unit_test(the_first_untrusted_hop_from_the_right_is_the_client),
        cmocka_unit_test(what_the_client_wrote_is_never_reached),
        cmocka_unit_test(when_every_hop_is_trusted_the_leftmost_is_the_client),
        cmocka_unit_test(several_fields_are_one_list_in_order),
        cmocka_unit_test(every_spelling_of_a_client_is_one_client),
        cmocka_unit_test(junk_ends_the_walk_at_the_last_address_believed),
        cmocka_unit_test(empty_elements_are_no_hops),
        cmocka_unit_test(of_300_hops_the_last_are_looked_at),
        cmocka_unit_test(clients_are_grouped_by_the_prefix_and_proxies_are_not),
        cmocka_unit_test(the_nth_element_from_the_right_is_the_client),
        cmocka_unit_test(what_counted_proxies_say_of_each_other_does_not_matter),
        cmocka_unit_test(fewer_elements_than_hops_are_the_peers),
        cmocka_unit_test(an_nth_element_that_is_no_address_is_the_peers),
        cmocka_unit_test(more_hops_than_are_looked_at_are_the_peers),
        cmocka_unit_test(forwarded_names_the_client_by_for),
        cmocka_unit_test(separators_between_quotes_are_text),
        cmocka_unit_test(an_open_quote_does_not_swallow_the_hop_behind_it),
        cmocka_unit_test(an_element_that_names_nobody_ends_the_walk),
        cmocka_unit_test(a_client_that_gets_into_a_proxys_element_is_not_believed),
        cmocka_unit_test(forwarded_counts_hops_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
