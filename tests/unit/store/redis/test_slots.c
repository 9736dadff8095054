/* Slots of keys, and replies to CLUSTER SLOTS in every shape that servers have given it. */
#include "../../support.h"
#include "store/redis/client_parts.h"

static uint16_t slot_of(const char *key)
{
    return cdl_redis_slot(cdl_slice_of(key));
}

/* The numbers are those of the specification, of its reference implementation, and of redis-cli's CLUSTER KEYSLOT. */
static void known_slots(void **state)
{
    (void)state;
    assert_int_equal(slot_of("123456789"), 0x31C3 % 16384);
    assert_int_equal(slot_of(""), 0);
    assert_int_equal(slot_of("foo"), 12182);
    assert_int_equal(slot_of("bar"), 5061);
    assert_int_equal(slot_of("hello"), 866);
    assert_int_equal(cdl_redis_slot((struct cdl_slice){NULL, 0}), 0);
}

/* The whole of CRC16/XMODEM, a bit at a time. */
static uint16_t plain_crc16(const unsigned char *bytes, size_t length)
{
    unsigned crc = 0;
    for (size_t i = 0; i < length; i++) {
        crc ^= (unsigned)bytes[i] << 8;
        for (int bit = 0; bit < 8; bit++)
            crc = (crc << 1 ^ (crc & 0x8000 ? 0x1021 : 0)) & 0xffff;
    }
    return (uint16_t)crc;
}

static void slots_of_any_bytes(void **state)
{
    struct rng rng = {1};
    (void)state;
    for (unsigned i = 0; i < 10000; i++) {
        unsigned char bytes[64];
        const size_t length = rng_below(&rng, sizeof bytes);
        for (size_t j = 0; j < length; j++)
            do
                bytes[j] = (unsigned char)rng_next(&rng);
            while (bytes[j] == '{');
        assert_int_equal(cdl_redis_slot((struct cdl_slice){(const char *)bytes, length}),
                         plain_crc16(bytes, length) % 16384);
    }
}

static void tags(void **state)
{
    static const struct {
        const char *key, *tag;
    } pairs[] = {
        {"{user1000}.following", "user1000"},
        {"{user1000}.followers", "user1000"},
        {"foo{{bar}}zap", "{bar"},
        {"foo{bar}{zap}", "bar"},
        {"{a}", "a"},
        {"x}{a}", "a"},
    };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(pairs); i++) {
        const struct cdl_slice tag = cdl_slice_of(pairs[i].tag);
        assert_int_equal(slot_of(pairs[i].key), plain_crc16((const unsigned char *)tag.bytes, tag.length) % 16384);
    }
    /* No tag: the whole key. */
    static const char *const whole[] = {"foo{}{bar}", "foo{bar", "foo}bar", "{", "}", "{}", "a{"};
    for (size_t i = 0; i < COUNT_OF(whole); i++)
        assert_int_equal(slot_of(whole[i]), plain_crc16((const unsigned char *)whole[i], strlen(whole[i])) % 16384);
}

/* ---- CLUSTER SLOTS ---- */

static const struct cdl_redis_place asked = {"10.0.0.9", 7000};

static int read_range(const char *text, struct cdl_redis_range *range)
{
    struct cdl_slice rest = cdl_slice_of(text);
    return cdl_redis_range_next(&rest, &asked, range);
}

static void assert_range(const char *text, uint32_t first, uint32_t last, const char *host, uint16_t port)
{
    struct cdl_redis_range range;
    assert_int_equal(read_range(text, &range), 1);
    assert_int_equal(range.first, first);
    assert_int_equal(range.last, last);
    assert_string_equal(range.place.host, host);
    assert_int_equal(range.place.port, port);
}

static void ranges_in_every_shape(void **state)
{
    (void)state;
    /* 3.0: no id. */
    assert_range("*3\r\n:0\r\n:5460\r\n*2\r\n$9\r\n127.0.0.1\r\n:7000\r\n", 0, 5460, "127.0.0.1", 7000);
    /* 4.0: an id, and a replica. */
    assert_range("*4\r\n:0\r\n:5460\r\n*3\r\n$9\r\n127.0.0.1\r\n:7000\r\n$2\r\nid\r\n"
                 "*3\r\n$9\r\n127.0.0.1\r\n:7003\r\n$2\r\nid\r\n",
                 0, 5460, "127.0.0.1", 7000);
    /* 7.0: more about each, an array in RESP2, a map in RESP3. */
    assert_range("*3\r\n:5461\r\n:5461\r\n*4\r\n$9\r\n127.0.0.1\r\n:7001\r\n$2\r\nid\r\n"
                 "*2\r\n$8\r\nhostname\r\n$4\r\na.b.\r\n",
                 5461, 5461, "127.0.0.1", 7001);
    assert_range("*3\r\n:0\r\n:16383\r\n*4\r\n$4\r\nhost\r\n:7001\r\n$2\r\nid\r\n%1\r\n$2\r\nip\r\n$3\r\n1.2\r\n", 0,
                 16383, "host", 7001);
    /* An empty name, or none: the server that was asked, with the port that it gives. */
    assert_range("*3\r\n:0\r\n:1\r\n*3\r\n$0\r\n\r\n:7001\r\n$2\r\nid\r\n", 0, 1, "10.0.0.9", 7001);
    assert_range("*3\r\n:0\r\n:1\r\n*3\r\n$-1\r\n:7001\r\n$2\r\nid\r\n", 0, 1, "10.0.0.9", 7001);
    assert_range("*3\r\n:0\r\n:1\r\n*3\r\n_\r\n:7001\r\n$2\r\nid\r\n", 0, 1, "10.0.0.9", 7001);
    /* A name that is not known, whose address is. */
    assert_range("*3\r\n:0\r\n:1\r\n*4\r\n$1\r\n?\r\n:7001\r\n$2\r\nid\r\n*4\r\n$1\r\nx\r\n$1\r\ny\r\n$2\r\nip\r\n$"
                 "7\r\n1.2.3.4\r\n",
                 0, 1, "1.2.3.4", 7001);
    assert_range("*3\r\n:0\r\n:1\r\n*4\r\n$1\r\n?\r\n:7001\r\n$2\r\nid\r\n%1\r\n$2\r\nip\r\n$7\r\n1.2.3.4\r\n", 0, 1,
                 "1.2.3.4", 7001);
    assert_range("*3\r\n:0\r\n:1\r\n*3\r\n$3\r\n::1\r\n:7001\r\n$2\r\nid\r\n", 0, 1, "::1", 7001);
}

static void ranges_without_a_place(void **state)
{
    static const char *const texts[] = {
        "*2\r\n:0\r\n:1\r\n",
        "*3\r\n:0\r\n:1\r\n*3\r\n$1\r\n?\r\n:7001\r\n$2\r\nid\r\n",
        "*3\r\n:0\r\n:1\r\n*4\r\n$1\r\n?\r\n:7001\r\n$2\r\nid\r\n*0\r\n",
        "*3\r\n:0\r\n:1\r\n*4\r\n$1\r\n?\r\n:7001\r\n$2\r\nid\r\n*2\r\n$2\r\nip\r\n$0\r\n\r\n",
    };
    struct cdl_redis_range range;
    (void)state;
    for (size_t i = 0; i < COUNT_OF(texts); i++)
        assert_int_equal(read_range(texts[i], &range), 0);
}

static void what_is_no_range(void **state)
{
    static const char *const texts[] = {
        "",
        "+OK\r\n",
        "*0\r\n",
        "*1\r\n:0\r\n",
        "*3\r\n:-1\r\n:1\r\n*2\r\n$1\r\na\r\n:1\r\n",
        "*3\r\n:0\r\n:16384\r\n*2\r\n$1\r\na\r\n:1\r\n",
        "*3\r\n:2\r\n:1\r\n*2\r\n$1\r\na\r\n:1\r\n",
        "*3\r\n:0\r\n$1\r\n1\r\n*2\r\n$1\r\na\r\n:1\r\n",
        "*3\r\n:0\r\n:1\r\n$1\r\na\r\n",
        "*3\r\n:0\r\n:1\r\n*0\r\n",
        "*3\r\n:0\r\n:1\r\n*1\r\n$1\r\na\r\n",
        "*3\r\n:0\r\n:1\r\n*2\r\n:1\r\n:1\r\n",
        "*3\r\n:0\r\n:1\r\n*2\r\n$1\r\na\r\n:65536\r\n",
        "*3\r\n:0\r\n:1\r\n*2\r\n$1\r\na\r\n$1\r\n1\r\n",
    };
    struct cdl_redis_range range;
    (void)state;
    for (size_t i = 0; i < COUNT_OF(texts); i++)
        assert_int_equal(read_range(texts[i], &range), -1);
}

/* ---- MOVED and ASK ---- */

static void places_of_redirections(void **state)
{
    static const struct {
        const char *text, *host;
        uint32_t slot;
        uint16_t port;
    } good[] = {
        {"MOVED 3999 127.0.0.1:6381", "127.0.0.1", 3999, 6381},
        {"ASK 16383 node-3.example:1", "node-3.example", 16383, 1},
        {"MOVED 0 ::1:65535", "::1", 0, 65535},
        {"MOVED 3999 :6381", "10.0.0.9", 3999, 6381},
        {"MOVED 3999 10.0.0.1:6381 and more", "10.0.0.1", 3999, 6381},
    };
    static const char *const bad[] = {
        "MOVED",           "MOVED ",
        "MOVED 3999",      "MOVED 16384 a:1",
        "MOVED -1 a:1",    "MOVED x a:1",
        "MOVED 1 a",       "MOVED 1 a:",
        "MOVED 1 a:0",     "MOVED 1 a:65536",
        "MOVED 1 a:b",     "MOVED 1 ?:1",
        "MOVED 1  a:6381", "MOVED 99999999999999999999 a:1",
    };
    struct cdl_redis_place place;
    uint32_t slot;
    (void)state;
    for (size_t i = 0; i < COUNT_OF(good); i++) {
        assert_true(cdl_redis_error_place(cdl_slice_of(good[i].text), &asked, &slot, &place));
        assert_string_equal(place.host, good[i].host);
        assert_int_equal(slot, good[i].slot);
        assert_int_equal(place.port, good[i].port);
    }
    for (size_t i = 0; i < COUNT_OF(bad); i++)
        assert_false(cdl_redis_error_place(cdl_slice_of(bad[i]), &asked, &slot, &place));
}

static void places_have_bounds(void **state)
{
    struct cdl_redis_place place;
    char longest[257];
    (void)state;
    memset(longest, 'a', sizeof longest);
    assert_true(cdl_redis_place_set(&place, (struct cdl_slice){longest, 255}, 65535));
    assert_int_equal(strlen(place.host), 255);
    assert_false(cdl_redis_place_set(&place, (struct cdl_slice){longest, 256}, 1));
    assert_false(cdl_redis_place_set(&place, CDL_SLICE("a\0b"), 1));
    assert_false(cdl_redis_place_set(&place, CDL_SLICE(""), 1));
    assert_false(cdl_redis_place_set(&place, CDL_SLICE("a"), 65536));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_slots),
        cmocka_unit_test(slots_of_any_bytes),
        cmocka_unit_test(tags),
        cmocka_unit_test(ranges_in_every_shape),
        cmocka_unit_test(ranges_without_a_place),
        cmocka_unit_test(what_is_no_range),
        cmocka_unit_test(places_of_redirections),
        cmocka_unit_test(places_have_bounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
