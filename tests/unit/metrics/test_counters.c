/* Counters: what is counted where, over reloads and beyond the number of slots, and that memory does not follow either. */
#include "metrics/counters.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/memory.h"
#include "exposition_reader.h"

/* An allocator that counts what is out, and fails the call of a given number. */
struct ledger {
    size_t bytes, calls, fail_at; /* 0: never */
};

static void *ledger_allocate(void *context, size_t bytes, size_t alignment)
{
    struct ledger *ledger = context;
    if (++ledger->calls == ledger->fail_at)
        return NULL;
    const struct caudal_allocator *real = cdl_allocator_default();
    void *memory = real->allocate(real->context, bytes, alignment);
    ledger->bytes += memory == NULL ? 0 : bytes;
    return memory;
}

static void ledger_release(void *context, void *memory, size_t bytes)
{
    struct ledger *ledger = context;
    ledger->bytes -= bytes;
    const struct caudal_allocator *real = cdl_allocator_default();
    real->release(real->context, memory, bytes);
}

static struct caudal_allocator allocator_of(struct ledger *ledger)
{
    return (struct caudal_allocator){.size = sizeof(struct caudal_allocator),
                                     .context = ledger,
                                     .allocate = ledger_allocate,
                                     .release = ledger_release};
}

static struct cdl_counters *open_counters(uint32_t workers, uint32_t limits)
{
    const struct cdl_counters_options options = {.workers = workers, .limits = limits, .events = 3};
    struct cdl_counters *counters = cdl_counters_open(&options, cdl_allocator_default());
    assert_non_null(counters);
    return counters;
}

static uint32_t acquire(struct cdl_counters *counters, const char *name)
{
    return cdl_counters_acquire(counters, cdl_slice_of(name));
}

static void deny(struct cdl_counters *counters, uint32_t worker, uint32_t slot, uint64_t times)
{
    for (uint64_t i = 0; i < times; i++)
        cdl_counters_decision(cdl_counters_worker(counters, worker), slot, CDL_COUNTED_DENY, CAUDAL_SOURCE_STORE);
}

/* A page of all counters, read back. */
struct scrape {
    struct cdl_exposition page;
    struct read_page read;
};

static struct scrape scrape(struct cdl_counters *counters)
{
    struct scrape result;
    struct cdl_slice text;
    cdl_exposition_begin(&result.page, CDL_OPENMETRICS_TEXT, 16 << 20);
    cdl_counters_expose(counters, &result.page);
    assert_int_equal(cdl_exposition_finish(&result.page, &text), CAUDAL_OK);
    assert_int_equal(result.page.refused, 0);
    if (!read_exposition(text, true, &result.read))
        fail_msg("line %zu: %s in\n%.*s", result.read.line, result.read.why, CDL_SLICE_ARG(text));
    return result;
}

static void scrape_free(struct scrape *scrape)
{
    read_page_free(&scrape->read);
    cdl_exposition_end(&scrape->page);
}

static uint64_t value_of(const struct read_sample *sample)
{
    char digits[32];
    snprintf(digits, sizeof digits, "%.*s", CDL_SLICE_ARG(sample->value));
    return strtoull(digits, NULL, 10);
}

static int64_t scraped(struct cdl_counters *counters, const char *name, const char *labels)
{
    struct scrape result = scrape(counters);
    const struct read_sample *sample = read_find(&result.read, name, labels);
    const int64_t value = sample == NULL ? -1 : (int64_t)value_of(sample);
    scrape_free(&result);
    return value;
}

static int64_t denied(struct cdl_counters *counters, const char *limit)
{
    char labels[256];
    snprintf(labels, sizeof labels, "limit=%s,verdict=deny,source=store", limit);
    return scraped(counters, "caudal_decisions_total", labels);
}

/* Over all limits. */
static uint64_t total(struct cdl_counters *counters)
{
    struct scrape result = scrape(counters);
    uint64_t sum = 0;
    for (size_t i = 0; i < result.read.count; i++)
        if (cdl_slice_equal(result.read.samples[i].name, CDL_SLICE("caudal_decisions_total")))
            sum += value_of(&result.read.samples[i]);
    scrape_free(&result);
    return sum;
}

static void a_scrape_sums_the_workers(void **state)
{
    (void)state;
    struct cdl_counters *counters = open_counters(3, 4);
    const uint32_t slot = acquire(counters, "per-client");
    for (uint32_t worker = 0; worker < 3; worker++)
        deny(counters, worker, slot, 10 + worker);
    assert_int_equal(cdl_counters_sum(counters, slot, CDL_COUNTED_DENY, CAUDAL_SOURCE_STORE), 33);
    assert_int_equal(denied(counters, "per-client"), 33);
    cdl_counters_release(counters, slot);
    cdl_counters_close(counters);
}

static void C104_the_label_says_which_limit_and_who(void **state)
{
    (void)state;
    struct cdl_counters *counters = open_counters(1, 4);
    struct cdl_counters_worker *worker = cdl_counters_worker(counters, 0);
    const uint32_t user = acquire(counters, "user"), all = acquire(counters, "all");
    cdl_counters_decision(worker, user, CDL_COUNTED_DENY, CAUDAL_SOURCE_DENY_CACHE);
    cdl_counters_decision(worker, all, CDL_COUNTED_ERROR, CAUDAL_SOURCE_FAILURE_POLICY);
    cdl_counters_decision(worker, all, CDL_COUNTED_NEVER, CAUDAL_SOURCE_LEASE);
    cdl_counters_decision(worker, all, CDL_COUNTED_SHADOW_DENY, CAUDAL_SOURCE_LOCAL_SHARE);
    assert_int_equal(scraped(counters, "caudal_decisions_total", "limit=user,verdict=deny,source=deny_cache"), 1);
    assert_int_equal(scraped(counters, "caudal_decisions_total", "limit=all,verdict=error,source=failure_policy"), 1);
    assert_int_equal(scraped(counters, "caudal_decisions_total", "limit=all,verdict=never,source=lease"), 1);
    assert_int_equal(scraped(counters, "caudal_decisions_total", "limit=all,verdict=shadow_deny,source=local_share"),
                     1);
    /* Plain answers are there before the first of them, the others are not. */
    assert_int_equal(scraped(counters, "caudal_decisions_total", "limit=user,verdict=allow,source=store"), 0);
    assert_int_equal(scraped(counters, "caudal_decisions_total", "limit=user,verdict=deny,source=store"), 0);
    assert_int_equal(scraped(counters, "caudal_decisions_total", "limit=user,verdict=never,source=lease"), -1);
    cdl_counters_close(counters);
}

/* 1000 requests with three reloads and mixed outcomes: monotone, and the outcomes add up. */
static void C95_counters_reconcile_over_reloads(void **state)
{
    (void)state;
    static const char *const policies[4][3] = {
        {"per-client", "writes", "everybody"},
        {"per-client", "everybody", NULL},
        {"per-client", "reads", "everybody"},
        {"writes", "per-client", NULL},
    };
    struct cdl_counters *counters = open_counters(2, 3);
    uint32_t held[3] = {0}, count = 0;
    uint64_t before = 0, decisions = 0;
    int64_t client_before = -1;
    for (unsigned i = 0; i < 1000; i++) {
        if (i % 250 == 0) {
            uint32_t fresh[3], fresh_count = 0;
            for (; fresh_count < 3 && policies[i / 250][fresh_count] != NULL; fresh_count++)
                fresh[fresh_count] = acquire(counters, policies[i / 250][fresh_count]);
            for (uint32_t j = 0; j < count; j++)
                cdl_counters_release(counters, held[j]);
            memcpy(held, fresh, sizeof held);
            count = fresh_count;
        }
        struct cdl_counters_worker *worker = cdl_counters_worker(counters, i % 2);
        for (uint32_t j = 0; j < count; j++, decisions++)
            cdl_counters_decision(worker, held[j], (enum cdl_counted)(i % CDL_COUNTED_EXEMPT), CAUDAL_SOURCE_STORE);
        cdl_counters_request(worker, (enum cdl_counted)(i % CDL_COUNTED_KINDS), CAUDAL_SOURCE_STORE);
        if (i % 50 == 49) {
            const uint64_t now = total(counters);
            const int64_t client = denied(counters, "per-client");
            assert_true(now >= before);
            assert_true(client >= client_before);
            before = now;
            client_before = client;
        }
    }
    assert_int_equal(total(counters), decisions);
    assert_int_equal(denied(counters, "per-client"), 200); /* in every policy: never reset */
    uint64_t requests = 0;
    for (uint32_t outcome = 0; outcome < CDL_COUNTED_KINDS; outcome++)
        requests += cdl_counters_sum(counters, CDL_COUNTERS_REQUESTS, outcome, CAUDAL_SOURCE_STORE);
    assert_int_equal(requests, 1000);
    cdl_counters_close(counters);
}

static void a_limit_that_comes_back_finds_its_counts(void **state)
{
    (void)state;
    struct cdl_counters *counters = open_counters(1, 2);
    const uint32_t slot = acquire(counters, "a");
    deny(counters, 0, slot, 5);
    cdl_counters_release(counters, slot);
    assert_int_equal(denied(counters, "a"), 5); /* gone, and its series goes on */
    assert_int_equal(acquire(counters, "a"), slot);
    assert_int_equal(denied(counters, "a"), 5);
    cdl_counters_close(counters);
}

static void the_slot_of_a_limit_that_is_gone_is_used_again(void **state)
{
    (void)state;
    struct cdl_counters *counters = open_counters(2, 2);
    const uint32_t a = acquire(counters, "a"), b = acquire(counters, "b");
    deny(counters, 0, a, 5);
    deny(counters, 1, a, 2);
    deny(counters, 1, b, 1);
    cdl_counters_release(counters, a);
    const uint32_t c = acquire(counters, "c");
    assert_int_equal(c, a);
    assert_int_equal(denied(counters, "a"), -1);
    assert_int_equal(denied(counters, "c"), 0);
    assert_int_equal(denied(counters, "other"), 7);
    assert_int_equal(total(counters), 8);
    deny(counters, 0, c, 1);
    assert_int_equal(denied(counters, "c"), 1);
    cdl_counters_close(counters);
}

static void a_slot_that_is_held_twice_is_kept_by_the_second(void **state)
{
    (void)state;
    struct cdl_counters *counters = open_counters(1, 1);
    const uint32_t slot = acquire(counters, "a");   /* the old policy */
    assert_int_equal(acquire(counters, "a"), slot); /* the new one */
    cdl_counters_release(counters, slot);
    assert_int_equal(acquire(counters, "b"), CDL_COUNTERS_OTHER);
    cdl_counters_release(counters, CDL_COUNTERS_OTHER);
    cdl_counters_release(counters, slot);
    assert_int_equal(acquire(counters, "b"), slot);
    cdl_counters_close(counters);
}

static void C92_series_are_capped_and_the_rest_is_other(void **state)
{
    (void)state;
    enum {
        LIMITS = 10,
        NAMES = 10000
    };
    struct ledger ledger = {0};
    const struct caudal_allocator allocator = allocator_of(&ledger);
    const struct cdl_counters_options options = {.workers = 4, .limits = LIMITS};
    struct cdl_counters *counters = cdl_counters_open(&options, &allocator);
    assert_non_null(counters);
    const size_t bytes = ledger.bytes, calls = ledger.calls;
    assert_in_range(bytes, 4 * LIMITS * 256, 4 * LIMITS * 256 + 16384);
    for (unsigned i = 0; i < NAMES; i++) {
        char name[32];
        snprintf(name, sizeof name, "limit-%u", i);
        deny(counters, i % 4, acquire(counters, name), 1);
    }
    struct scrape result = scrape(counters);
    assert_int_equal(result.read.count, 2 + 2 * LIMITS + 1 + 1); /* requests, limits, other, dropped */
    scrape_free(&result);
    assert_int_equal(denied(counters, "other"), NAMES - LIMITS);
    assert_int_equal(scraped(counters, "caudal_limit_labels_dropped_total", ""), NAMES - LIMITS);
    assert_int_equal(total(counters), NAMES);
    assert_int_equal(ledger.bytes, bytes);
    assert_int_equal(ledger.calls, calls);
    cdl_counters_close(counters);
    assert_int_equal(ledger.bytes, 0);
}

static void reloads_without_end_take_no_memory(void **state)
{
    (void)state;
    struct ledger ledger = {0};
    const struct caudal_allocator allocator = allocator_of(&ledger);
    const struct cdl_counters_options options = {.workers = 2, .limits = 7};
    struct cdl_counters *counters = cdl_counters_open(&options, &allocator);
    assert_non_null(counters);
    const size_t calls = ledger.calls;
    uint32_t old[3] = {CDL_COUNTERS_OTHER, CDL_COUNTERS_OTHER, CDL_COUNTERS_OTHER};
    for (unsigned i = 0; i < 3000; i++) {
        for (unsigned j = 0; j < 3; j++) {
            char name[32];
            snprintf(name, sizeof name, "limit-%u", i + j); /* two stay, one is new */
            const uint32_t slot = acquire(counters, name);
            assert_int_not_equal(slot, CDL_COUNTERS_OTHER); /* there is room for both policies */
            deny(counters, j % 2, slot, 1);
            cdl_counters_release(counters, old[j]);
            old[j] = slot;
        }
        assert_true(i % 500 != 0 || total(counters) == 3 * (i + 1));
    }
    assert_int_equal(total(counters), 9000);
    assert_int_equal(ledger.calls, calls);
    assert_int_equal(scraped(counters, "caudal_limit_labels_dropped_total", ""), 0);
    cdl_counters_close(counters);
    assert_int_equal(ledger.bytes, 0);
}

static void odd_names_of_limits(void **state)
{
    (void)state;
    struct cdl_counters *counters = open_counters(1, 4);
    char longest[CDL_LIMIT_LABEL_MAX + 1];
    memset(longest, 'x', sizeof longest);
    assert_int_equal(acquire(counters, "other"), CDL_COUNTERS_OTHER);
    assert_int_equal(acquire(counters, ""), CDL_COUNTERS_OTHER);
    assert_int_equal(cdl_counters_acquire(counters, (struct cdl_slice){longest, CDL_LIMIT_LABEL_MAX + 1}),
                     CDL_COUNTERS_OTHER);
    assert_int_not_equal(cdl_counters_acquire(counters, (struct cdl_slice){longest, CDL_LIMIT_LABEL_MAX}),
                         CDL_COUNTERS_OTHER);
    assert_int_not_equal(cdl_counters_acquire(counters, CDL_SLICE("a\0b")),
                         cdl_counters_acquire(counters, CDL_SLICE("a\0c")));
    struct scrape result = scrape(counters); /* parses */
    scrape_free(&result);
    cdl_counters_close(counters);
}

static void events_are_summed(void **state)
{
    (void)state;
    struct cdl_counters *counters = open_counters(2, 1);
    cdl_counters_event(cdl_counters_worker(counters, 0), 2, 5);
    cdl_counters_event(cdl_counters_worker(counters, 1), 2, 6);
    cdl_counters_event(cdl_counters_worker(counters, 1), 1, 1);
    assert_int_equal(cdl_counters_event_sum(counters, 0), 0);
    assert_int_equal(cdl_counters_event_sum(counters, 1), 1);
    assert_int_equal(cdl_counters_event_sum(counters, 2), 11);
    cdl_counters_close(counters);
}

static void workers_share_no_cache_line(void **state)
{
    (void)state;
    struct cdl_counters *counters = open_counters(2, 1);
    const struct cdl_counters_worker *a = cdl_counters_worker(counters, 0), *b = cdl_counters_worker(counters, 1);
    assert_int_equal((uintptr_t)a->slots % CDL_CACHE_LINE, 0);
    assert_int_equal((uintptr_t)b->slots % CDL_CACHE_LINE, 0);
    assert_int_equal((uintptr_t)a->events % CDL_CACHE_LINE, 0);
    assert_int_equal((uintptr_t)b->events % CDL_CACHE_LINE, 0);
    cdl_counters_close(counters);
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    const struct cdl_counters_options options = {.workers = 2, .limits = 4, .events = 1};
    for (size_t fail_at = 1;; fail_at++) {
        struct ledger ledger = {.fail_at = fail_at};
        const struct caudal_allocator allocator = allocator_of(&ledger);
        struct cdl_counters *counters = cdl_counters_open(&options, &allocator);
        cdl_counters_close(counters);
        assert_int_equal(ledger.bytes, 0);
        if (counters != NULL) {
            assert_true(fail_at > 7);
            break;
        }
    }
    assert_null(cdl_counters_open(&(struct cdl_counters_options){.limits = 1}, cdl_allocator_default()));
    assert_null(cdl_counters_open(&(struct cdl_counters_options){.workers = 1}, cdl_allocator_default()));
    assert_null(cdl_counters_open(&(struct cdl_counters_options){.workers = 1, .limits = CDL_COUNTERS_LIMITS_MAX + 1},
                                  cdl_allocator_default()));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_scrape_sums_the_workers),
        cmocka_unit_test(C104_the_label_says_which_limit_and_who),
        cmocka_unit_test(C95_counters_reconcile_over_reloads),
        cmocka_unit_test(a_limit_that_comes_back_finds_its_counts),
        cmocka_unit_test(the_slot_of_a_limit_that_is_gone_is_used_again),
        cmocka_unit_test(a_slot_that_is_held_twice_is_kept_by_the_second),
        cmocka_unit_test(C92_series_are_capped_and_the_rest_is_other),
        cmocka_unit_test(reloads_without_end_take_no_memory),
        cmocka_unit_test(odd_names_of_limits),
        cmocka_unit_test(events_are_summed),
        cmocka_unit_test(workers_share_no_cache_line),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
