/* Hits of descriptors: under which labels they are counted, that reloads lose none, and that what clients send makes neither series
 * nor memory beyond what was configured. */
#include "metrics/hits.h"

#include <stdlib.h>

#include "../support.h"
#include "base/memory.h"
#include "exposition_reader.h"

#define TOTAL "ratelimit_service_rate_limit_total_hits"
#define OVER "ratelimit_service_rate_limit_over_limit"
#define WITHIN "ratelimit_service_rate_limit_within_limit"
#define NEAR "ratelimit_service_rate_limit_near_limit"
#define DROPPED "caudal_descriptor_labels_dropped_total"

static struct cdl_hits *open_hits(uint32_t workers, uint32_t groups, uint32_t values)
{
    const struct cdl_hits_options options = {
        .workers = workers, .groups = groups, .all_values = values, .seed = 0x5eed};
    struct cdl_hits *hits = cdl_hits_open(&options, cdl_allocator_default());
    assert_non_null(hits);
    return hits;
}

/* "domain|key|key_value": labels as a series has them. */
static struct cdl_hits_labels labels_of(const char *text)
{
    struct cdl_hits_labels labels;
    cdl_hits_labels_begin(&labels);
    for (;;) {
        const size_t length = strcspn(text, "|");
        cdl_hits_label(&labels, (struct cdl_slice){text, length}, CDL_SLICE(""));
        if (text[length] == '\0')
            return labels;
        text += length + 1;
    }
}

static struct cdl_hits_group *acquire(struct cdl_hits *hits, const char *labels, uint32_t values)
{
    const struct cdl_hits_labels own = labels_of(labels);
    return cdl_hits_acquire(hits, &own, (struct cdl_hits_wish){values, values == 0});
}

/* Counts hits, and all of them as over the limit, under values or (NULL) the group's own labels. */
static void hit(struct cdl_hits_group *group, uint32_t worker, const char *values, uint64_t count)
{
    struct cdl_hits_labels labels;
    if (values != NULL)
        labels = labels_of(values);
    cdl_cell *cells = cdl_hits_cells(group, worker, values == NULL ? NULL : &labels);
    cdl_hits_count(cells, CDL_HIT_TOTAL, count);
    cdl_hits_count(cells, CDL_HIT_OVER, count);
}

/* A page of all hits, read back. */
struct scrape {
    struct cdl_exposition page;
    struct read_page read;
};

static struct scrape scrape_as(struct cdl_hits *hits, enum cdl_exposition_format format)
{
    struct scrape result;
    struct cdl_slice text;
    cdl_exposition_begin(&result.page, format, 64 << 20);
    cdl_hits_expose(hits, &result.page);
    assert_int_equal(cdl_exposition_finish(&result.page, &text), CAUDAL_OK);
    assert_int_equal(result.page.refused, 0);
    if (!read_exposition(text, format == CDL_OPENMETRICS_TEXT, &result.read))
        fail_msg("line %zu: %s in\n%.*s", result.read.line, result.read.why, CDL_SLICE_ARG(text));
    return result;
}

static struct scrape scrape(struct cdl_hits *hits)
{
    return scrape_as(hits, CDL_PROMETHEUS_TEXT);
}

static void scrape_free(struct scrape *scrape)
{
    read_page_free(&scrape->read);
    cdl_exposition_end(&scrape->page);
}

static int64_t value_of(const struct read_sample *sample)
{
    char digits[32];
    if (sample == NULL)
        return -1;
    snprintf(digits, sizeof digits, "%.*s", CDL_SLICE_ARG(sample->value));
    return strtoll(digits, NULL, 10);
}

/* -1: there is no such series. */
static int64_t scraped(struct cdl_hits *hits, const char *name, const char *labels)
{
    struct scrape result = scrape(hits);
    const int64_t value = value_of(read_find(&result.read, name, labels));
    scrape_free(&result);
    return value;
}

/* Over all series of a name; and how many there are. */
static int64_t sum_of(struct cdl_hits *hits, const char *name, size_t *series)
{
    struct scrape result = scrape(hits);
    int64_t sum = 0;
    *series = 0;
    for (size_t i = 0; i < result.read.count; i++) {
        if (!cdl_slice_equal(result.read.samples[i].name, cdl_slice_of(name)))
            continue;
        sum += value_of(&result.read.samples[i]);
        ++*series;
    }
    scrape_free(&result);
    return sum;
}

static void each_kind_has_the_name_that_it_has_there(void **state)
{
    (void)state;
    static const char *const names[CDL_HIT_KINDS] = {
        TOTAL, WITHIN, NEAR, OVER, OVER "_with_local_cache", "ratelimit_service_rate_limit_shadow_mode",
    };
    struct cdl_hits *hits = open_hits(3, 4, 0);
    struct cdl_hits_group *group = acquire(hits, "rl|category_account|user", 0);
    const char *labels = "domain=rl,key1=category_account,key2=user";
    for (unsigned kind = 0; kind < CDL_HIT_KINDS; kind++)
        assert_int_equal(scraped(hits, names[kind], labels),
                         kind == CDL_HIT_TOTAL || kind == CDL_HIT_WITHIN || kind == CDL_HIT_OVER ? 0 : -1);
    for (unsigned kind = 0; kind < CDL_HIT_KINDS; kind++)
        for (uint32_t worker = 0; worker < 3; worker++)
            cdl_hits_count(cdl_hits_cells(group, worker, NULL), (enum cdl_hit)kind, kind + worker + 1);
    for (unsigned kind = 0; kind < CDL_HIT_KINDS; kind++)
        assert_int_equal(scraped(hits, names[kind], labels), 3 * kind + 6);
    struct scrape result = scrape_as(hits, CDL_OPENMETRICS_TEXT); /* by the same names */
    for (unsigned kind = 0; kind < CDL_HIT_KINDS; kind++)
        assert_int_equal(value_of(read_find(&result.read, names[kind], labels)), 3 * kind + 6);
    scrape_free(&result);
    cdl_hits_release(hits, group);
    cdl_hits_close(hits);
}

static void there_is_nothing_without_descriptors(void **state)
{
    (void)state;
    struct cdl_hits *hits = open_hits(1, 1, 0);
    assert_false(cdl_hits_in_use(hits));
    struct scrape result = scrape(hits);
    assert_int_equal(result.read.count, 0);
    scrape_free(&result);
    cdl_hits_close(hits);
}

static void values_have_series_of_their_own(void **state)
{
    (void)state;
    struct cdl_hits *hits = open_hits(2, 4, 10);
    struct cdl_hits_group *plain = acquire(hits, "d|key", 0), *detailed = acquire(hits, "d|route_api|user_other", 2);
    assert_false(cdl_hits_shows_values(plain));
    assert_true(cdl_hits_shows_values(detailed));
    hit(detailed, 0, "d|route_api|user_ann", 3);
    hit(detailed, 1, "d|route_api|user_ann", 4);
    hit(detailed, 1, "d|route_api|user_bob", 5);
    assert_int_equal(scraped(hits, TOTAL, "domain=d,key1=route_api,key2=user_other"), -1);
    assert_int_equal(scraped(hits, DROPPED, "what=value"), 0);
    hit(detailed, 0, "d|route_api|user_eve", 6);
    hit(detailed, 0, "d|route_api|user_bob", 1);
    assert_int_equal(scraped(hits, TOTAL, "domain=d,key1=route_api,key2=user_ann"), 7);
    assert_int_equal(scraped(hits, OVER, "domain=d,key1=route_api,key2=user_bob"), 6);
    assert_int_equal(scraped(hits, TOTAL, "domain=d,key1=route_api,key2=user_other"), 6);
    assert_int_equal(scraped(hits, DROPPED, "what=value"), 1);
    cdl_hits_close(hits);
}

static void C92_a_million_values_take_no_memory(void **state)
{
    (void)state;
    enum {
        VALUES = 100,
        WORKERS = 2
    };
    const uint64_t count = scaled(1000000);
    struct counting_allocator counting;
    counting_allocator_init(&counting);
    const struct cdl_hits_options options = {.workers = WORKERS, .groups = 4, .all_values = VALUES};
    struct cdl_hits *hits = cdl_hits_open(&options, &counting.allocator);
    struct cdl_hits_group *group = acquire(hits, "d|user_other", VALUES);
    const size_t bytes = counting.live_bytes;
    const long calls = counting.calls;
    assert_in_range(bytes, VALUES * (512 + 64 * WORKERS), VALUES * (512 + 64 * WORKERS) + 8192);
    for (uint64_t i = 0; i < count; i++) {
        char labels[32];
        snprintf(labels, sizeof labels, "d|user_%llu", (unsigned long long)i);
        hit(group, (uint32_t)(i % WORKERS), labels, 1);
    }
    size_t series;
    assert_int_equal(sum_of(hits, TOTAL, &series), count);
    assert_int_equal(series, VALUES + 1);
    assert_int_equal(scraped(hits, TOTAL, "domain=d,key1=user_other"), count - VALUES);
    assert_int_equal(scraped(hits, DROPPED, "what=value"), count - VALUES);
    assert_int_equal(counting.live_bytes, bytes);
    assert_int_equal(counting.calls, calls);
    cdl_hits_close(hits);
    assert_int_equal(counting.live_blocks, 0);
}

static void C92_all_rules_together_are_bounded(void **state)
{
    (void)state;
    struct cdl_hits *hits = open_hits(1, 100, 25);
    for (unsigned rule = 0; rule < 10; rule++) {
        char labels[64];
        snprintf(labels, sizeof labels, "d|rule%u_other", rule);
        struct cdl_hits_group *group = acquire(hits, labels, 10);
        assert_true(cdl_hits_shows_values(group));
        for (unsigned value = 0; value < 20; value++) {
            snprintf(labels, sizeof labels, "d|rule%u_%u", rule, value);
            hit(group, 0, labels, 1);
        }
    }
    size_t series;
    assert_int_equal(sum_of(hits, TOTAL, &series), 200);
    assert_int_equal(series, 25 + 10);
    assert_int_equal(scraped(hits, TOTAL, "domain=d,key1=rule2_other"), 15); /* it got five */
    assert_int_equal(scraped(hits, TOTAL, "domain=d,key1=rule3_other"), 20); /* and the next none */
    cdl_hits_close(hits);
}

static void C92_rules_beyond_the_groups_are_other(void **state)
{
    (void)state;
    struct cdl_hits *hits = open_hits(1, 2, 0);
    for (unsigned rule = 0; rule < 5; rule++) {
        char labels[64];
        snprintf(labels, sizeof labels, "d|rule%u", rule);
        hit(acquire(hits, labels, 0), 0, NULL, rule + 1);
    }
    assert_int_equal(scraped(hits, TOTAL, "domain=d,key1=rule1"), 2);
    assert_int_equal(scraped(hits, TOTAL, "domain=d,key1=rule2"), -1);
    assert_int_equal(scraped(hits, TOTAL, "domain=other"), 3 + 4 + 5);
    assert_int_equal(scraped(hits, DROPPED, "what=rule"), 3);
    cdl_hits_close(hits);
}

/* Every level is there, with any bytes in it: what the page says is what was sent. */
static void C93_any_bytes_come_back(void **state)
{
    (void)state;
    static const struct cdl_slice odd[] = {
        CDL_SLICE("1.2.3.4"),      CDL_SLICE("2001:db8::/32"),    CDL_SLICE("a|b/c\\d\"e\nf"),
        CDL_SLICE("\0\x7f\xff"),   CDL_SLICE("\xc3\xa9\xe4\xb8"), CDL_SLICE("{x=\"y\"} 1\n# EOF"),
        CDL_SLICE("\xef\xbf\xbd"),
    };
    struct cdl_hits *hits = open_hits(1, 4, 100);
    struct cdl_hits_group *group = acquire(hits, "d|a_other|b_other|c_other", 100);
    for (size_t i = 0; i < COUNT_OF(odd); i++) {
        struct cdl_hits_labels labels;
        cdl_hits_labels_begin(&labels);
        cdl_hits_label(&labels, CDL_SLICE("d"), CDL_SLICE(""));
        for (size_t level = 0; level < 3; level++)
            cdl_hits_label_sent(&labels, (struct cdl_slice){&"abc"[level], 1}, odd[(i + level) % COUNT_OF(odd)]);
        assert_false(labels.too_long);
        cdl_hits_count(cdl_hits_cells(group, 0, &labels), CDL_HIT_TOTAL, i + 1);
    }
    struct scrape result = scrape(hits);
    bool seen[COUNT_OF(odd)] = {false};
    for (size_t i = 0; i < result.read.count; i++) {
        const struct read_sample *sample = &result.read.samples[i];
        if (!cdl_slice_equal(sample->name, CDL_SLICE(TOTAL)))
            continue;
        const size_t which = (size_t)value_of(sample) - 1;
        assert_int_equal(sample->label_count, 4);
        for (size_t level = 0; level < 3; level++) {
            char bytes[512];
            const size_t length = read_unmark(sample->labels[1 + level].value, bytes);
            assert_true(bytes[0] == "abc"[level] && bytes[1] == '_');
            assert_true(
                cdl_slice_equal((struct cdl_slice){bytes + 2, length - 2}, odd[(which + level) % COUNT_OF(odd)]));
        }
        seen[which] = true;
    }
    for (size_t i = 0; i < COUNT_OF(odd); i++)
        assert_true(seen[i]);
    scrape_free(&result);
    cdl_hits_close(hits);
}

/* Whatever is sent, both pages parse, no series stands there twice, and no hit is lost. */
static void C93_random_bytes_parse(void **state)
{
    (void)state;
    struct rng rng = {93};
    for (unsigned round = 0; round < 200; round++) {
        struct cdl_hits *hits = open_hits(1, 2, 30);
        struct cdl_hits_group *group = acquire(hits, "d|k_other", 30);
        for (unsigned i = 0; i < 40; i++) {
            char bytes[CDL_HITS_VALUE_BYTES + 10];
            const size_t length = (size_t)rng_below(&rng, sizeof bytes), alphabet = rng_below(&rng, 2) ? 4 : 256;
            for (size_t j = 0; j < length; j++)
                bytes[j] = alphabet == 4 ? "\\\"\n,"[rng_below(&rng, 4)] : (char)rng_below(&rng, 256);
            struct cdl_hits_labels labels;
            cdl_hits_labels_begin(&labels);
            cdl_hits_label(&labels, CDL_SLICE("d"), CDL_SLICE(""));
            cdl_hits_label_sent(&labels, CDL_SLICE("k"), (struct cdl_slice){bytes, length});
            assert_true(labels.too_long == (length > CDL_HITS_VALUE_BYTES));
            cdl_hits_count(cdl_hits_cells(group, 0, &labels), CDL_HIT_TOTAL, 1);
        }
        struct scrape result = scrape_as(hits, CDL_OPENMETRICS_TEXT);
        scrape_free(&result);
        size_t series;
        assert_int_equal(sum_of(hits, TOTAL, &series), 40);
        assert_in_range(series, 2, 31);
        cdl_hits_close(hits);
    }
}

static void labels_that_are_too_long_are_other(void **state)
{
    (void)state;
    char longest[CDL_HITS_LABELS_BYTES];
    memset(longest, 'x', sizeof longest);
    struct cdl_hits *hits = open_hits(1, 4, 4);
    struct cdl_hits_labels labels;
    cdl_hits_labels_begin(&labels);
    cdl_hits_label(&labels, (struct cdl_slice){longest, sizeof longest - 2}, CDL_SLICE(""));
    assert_false(labels.too_long);
    hit(cdl_hits_acquire(hits, &labels, (struct cdl_hits_wish){0, true}), 0, NULL, 1);
    cdl_hits_label(&labels, CDL_SLICE(""), CDL_SLICE(""));
    assert_true(labels.too_long);
    assert_int_equal(scraped(hits, DROPPED, "what=rule"), 0);
    hit(cdl_hits_acquire(hits, &labels, (struct cdl_hits_wish){0, true}), 0, NULL, 2);
    assert_int_equal(scraped(hits, DROPPED, "what=rule"), 1);
    assert_int_equal(scraped(hits, TOTAL, "domain=other"), 2);

    cdl_hits_labels_begin(&labels);
    for (unsigned i = 0; i < CDL_HITS_LABELS_MAX; i++)
        cdl_hits_label(&labels, CDL_SLICE("k"), CDL_SLICE("v"));
    assert_false(labels.too_long);
    hit(cdl_hits_acquire(hits, &labels, (struct cdl_hits_wish){0, true}), 0, NULL, 1);
    struct scrape result = scrape(hits); /* 33 labels, and parses */
    scrape_free(&result);
    cdl_hits_label(&labels, CDL_SLICE("k"), CDL_SLICE("v"));
    assert_true(labels.too_long);
    cdl_hits_close(hits);
}

static void series_that_read_alike_are_one(void **state)
{
    (void)state;
    struct cdl_hits *hits = open_hits(1, 4, 4);
    struct cdl_hits_group *plain = acquire(hits, "d|a_b", 0), *detailed = acquire(hits, "d|a_other", 4);
    assert_ptr_equal(acquire(hits, "d|a_b", 0), plain);
    assert_ptr_not_equal(acquire(hits, "d|a_b", 4), plain);
    hit(plain, 0, NULL, 1);
    hit(detailed, 0, "d|a_b", 2);
    hit(detailed, 0, "d|a_other", 4); /* a value of this very name */
    assert_int_equal(scraped(hits, TOTAL, "domain=d,key1=a_b"), 3);
    assert_int_equal(scraped(hits, TOTAL, "domain=d,key1=a_other"), 4);
    /* What is joined into one label is not what is split over two. */
    assert_ptr_not_equal(acquire(hits, "d|a_b|c", 0), acquire(hits, "d|a|b_c", 0));
    cdl_hits_close(hits);
}

/* Reloads with changing rules, some with values: no series falls or vanishes while there is room. */
static void C95_counters_outlive_reloads(void **state)
{
    (void)state;
    static const char *const policies[4][3] = {
        {"d|a", "d|b", "d|v_other"}, {"d|a", "d|v_other", NULL}, {"d|a", "d|c", "d|b"}, {"d|v_other", "d|a", NULL}};
    struct cdl_hits *hits = open_hits(2, 4, 8);
    struct cdl_hits_group *held[3] = {NULL};
    uint64_t counted = 0;
    for (unsigned i = 0; i < 1000; i++) {
        const char *const *policy = policies[i / 250];
        if (i % 250 == 0) {
            struct cdl_hits_group *fresh[3] = {NULL};
            for (unsigned j = 0; j < 3 && policy[j] != NULL; j++)
                fresh[j] = acquire(hits, policy[j], strstr(policy[j], "other") != NULL ? 4 : 0);
            for (unsigned j = 0; j < 3 && held[j] != NULL; j++)
                cdl_hits_release(hits, held[j]);
            memcpy(held, fresh, sizeof held);
        }
        for (unsigned j = 0; j < 3 && held[j] != NULL; j++, counted++) {
            char value[16];
            snprintf(value, sizeof value, "d|v_%u", i % 6);
            hit(held[j], i % 2, cdl_hits_shows_values(held[j]) ? value : NULL, 1);
        }
        size_t series;
        assert_true(i % 50 != 0 || (uint64_t)sum_of(hits, TOTAL, &series) == counted);
    }
    assert_int_equal(scraped(hits, TOTAL, "domain=d,key1=a"), 1000);
    assert_int_equal(scraped(hits, TOTAL, "domain=d,key1=b"), 500);
    assert_int_equal(scraped(hits, TOTAL, "domain=d,key1=v_0"), 126);
    assert_int_equal(scraped(hits, TOTAL, "domain=d,key1=v_other"), 248); /* v_4 and v_5 came too late */
    assert_int_equal(scraped(hits, TOTAL, "domain=other"), -1);
    cdl_hits_close(hits);
}

static void a_group_that_is_gone_makes_room(void **state)
{
    (void)state;
    struct counting_allocator counting;
    counting_allocator_init(&counting);
    const struct cdl_hits_options options = {.workers = 2, .groups = 2, .all_values = 6};
    struct cdl_hits *hits = cdl_hits_open(&options, &counting.allocator);
    struct cdl_hits_group *stays = acquire(hits, "d|stays", 0), *group = acquire(hits, "d|v_other", 6);
    hit(stays, 0, NULL, 1);
    hit(group, 0, "d|v_1", 2);
    hit(group, 1, "d|v_2", 3);
    cdl_hits_release(hits, group);
    assert_int_equal(scraped(hits, TOTAL, "domain=d,key1=v_1"), 2); /* it goes on while there is room */
    assert_ptr_equal(acquire(hits, "d|v_other", 6), group);
    assert_int_equal(scraped(hits, TOTAL, "domain=d,key1=v_1"), 2);
    cdl_hits_release(hits, group);
    const size_t bytes = counting.live_bytes;
    for (unsigned i = 0; i < 100; i++) {
        char labels[32];
        snprintf(labels, sizeof labels, "d|w%u_other", i);
        group = acquire(hits, labels, 6);
        assert_int_equal(counting.live_bytes, bytes);
        snprintf(labels, sizeof labels, "d|w%u_1", i);
        hit(group, 0, labels, 1);
        cdl_hits_release(hits, group);
    }
    assert_int_equal(scraped(hits, TOTAL, "domain=d,key1=v_1"), -1);
    assert_int_equal(scraped(hits, TOTAL, "domain=other"), 5 + 99);
    assert_int_equal(scraped(hits, OVER, "domain=other"), 5 + 99);
    assert_int_equal(scraped(hits, TOTAL, "domain=d,key1=stays"), 1);
    assert_int_equal(scraped(hits, TOTAL, "domain=d,key1=w99_1"), 1);
    assert_int_equal(scraped(hits, DROPPED, "what=rule"), 0);
    cdl_hits_close(hits);
    assert_int_equal(counting.live_blocks, 0);
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    const struct cdl_hits_options options = {.workers = 2, .groups = 4, .all_values = 8};
    long fail_at = 0;
    for (bool done = false; !done; fail_at++) {
        struct counting_allocator counting;
        counting_allocator_init(&counting);
        counting.fail_at = fail_at;
        struct cdl_hits *hits = cdl_hits_open(&options, &counting.allocator);
        if (hits != NULL) {
            struct cdl_hits_group *group = acquire(hits, "d|v_other", 4); /* never NULL: at worst it is "other" */
            hit(group, 1, cdl_hits_shows_values(group) ? "d|v_1" : NULL, 3);
            done = counting.calls <= fail_at;
            assert_int_equal(scraped(hits, TOTAL, done ? "domain=d,key1=v_1" : "domain=other"), 3);
            cdl_hits_release(hits, group);
        }
        cdl_hits_close(hits);
        assert_int_equal(counting.live_blocks, 0);
    }
    assert_true(fail_at > 8);
    assert_null(cdl_hits_open(&(struct cdl_hits_options){.groups = 1}, cdl_allocator_default()));
    assert_null(cdl_hits_open(&(struct cdl_hits_options){.workers = 1}, cdl_allocator_default()));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_kind_has_the_name_that_it_has_there),
        cmocka_unit_test(there_is_nothing_without_descriptors),
        cmocka_unit_test(values_have_series_of_their_own),
        cmocka_unit_test(C92_a_million_values_take_no_memory),
        cmocka_unit_test(C92_all_rules_together_are_bounded),
        cmocka_unit_test(C92_rules_beyond_the_groups_are_other),
        cmocka_unit_test(C93_any_bytes_come_back),
        cmocka_unit_test(C93_random_bytes_parse),
        cmocka_unit_test(labels_that_are_too_long_are_other),
        cmocka_unit_test(series_that_read_alike_are_one),
        cmocka_unit_test(C95_counters_outlive_reloads),
        cmocka_unit_test(a_group_that_is_gone_makes_room),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests_name("hits", tests, NULL, NULL);
}
