/* Workers that count while others scrape and reload: nothing is lost, nothing falls. Mostly for ThreadSanitizer. */
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/log.h"
#include "base/memory.h"
#include "metrics/counters.h"
#include "metrics/histogram.h"
#include "metrics/hits.h"
#include "metrics/top_keys.h"

#define WORKERS 3u
#define ROUNDS 20000u

/* What a worker has, and when the readers may stop. */
struct worker {
    pthread_t thread;
    uint32_t index;
    struct cdl_counters *counters;
    struct cdl_histogram *histogram;
    struct cdl_hits_group *group;
    struct cdl_top_keys *sketch;
    struct cdl_log *log;
    uint32_t slot;
};

static _Atomic uint32_t running;

static void start(struct worker *workers, void *(*work)(void *))
{
    atomic_store(&running, WORKERS);
    for (uint32_t i = 0; i < WORKERS; i++)
        assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
}

static void join(struct worker *workers)
{
    for (uint32_t i = 0; i < WORKERS; i++)
        pthread_join(workers[i].thread, NULL);
}

static void *count(void *context)
{
    struct worker *worker = context;
    struct cdl_counters_worker *mine = cdl_counters_worker(worker->counters, worker->index);
    for (uint32_t i = 0; i < ROUNDS; i++) {
        cdl_counters_decision(mine, worker->slot, CDL_COUNTED_ALLOW, CAUDAL_SOURCE_STORE);
        cdl_counters_event(mine, 0, 1);
    }
    atomic_fetch_sub(&running, 1);
    return NULL;
}

static void counters_are_scraped_and_reloaded_meanwhile(void **state)
{
    (void)state;
    const struct cdl_counters_options options = {.workers = WORKERS, .limits = 3, .events = 1};
    struct cdl_counters *counters = cdl_counters_open(&options, cdl_allocator_default());
    assert_non_null(counters);
    struct worker workers[WORKERS];
    const uint32_t slot = cdl_counters_acquire(counters, CDL_SLICE("stays"));
    for (uint32_t i = 0; i < WORKERS; i++)
        workers[i] = (struct worker){.index = i, .counters = counters, .slot = slot};
    start(workers, count);
    uint64_t before = 0;
    for (uint32_t i = 0; atomic_load(&running) > 0; i++) {
        char name[16];
        snprintf(name, sizeof name, "%u", i % 5);
        cdl_counters_release(counters, cdl_counters_acquire(counters, cdl_slice_of(name)));
        const uint64_t now = cdl_counters_sum(counters, slot, CDL_COUNTED_ALLOW, CAUDAL_SOURCE_STORE);
        assert_true(now >= before);
        before = now;
        struct cdl_exposition page;
        struct cdl_slice text;
        cdl_exposition_begin(&page, CDL_PROMETHEUS_TEXT, 1 << 20);
        cdl_counters_expose(counters, &page);
        assert_int_equal(cdl_exposition_finish(&page, &text), CAUDAL_OK);
        cdl_exposition_end(&page);
    }
    join(workers);
    assert_int_equal(cdl_counters_sum(counters, slot, CDL_COUNTED_ALLOW, CAUDAL_SOURCE_STORE), WORKERS * ROUNDS);
    assert_int_equal(cdl_counters_event_sum(counters, 0), WORKERS * ROUNDS);
    cdl_counters_close(counters);
}

/* All workers meet the same values, in orders of their own. */
static void *hit(void *context)
{
    struct worker *worker = context;
    for (uint32_t i = 0; i < ROUNDS; i++) {
        char value[16];
        struct cdl_hits_labels labels;
        snprintf(value, sizeof value, "%u", i * (2 * worker->index + 1) % 64);
        cdl_hits_labels_begin(&labels);
        cdl_hits_label(&labels, CDL_SLICE("d"), CDL_SLICE(""));
        cdl_hits_label_sent(&labels, CDL_SLICE("k"), cdl_slice_of(value));
        cdl_hits_count(cdl_hits_cells(worker->group, worker->index, &labels), CDL_HIT_TOTAL, 1);
    }
    atomic_fetch_sub(&running, 1);
    return NULL;
}

/* The hits of all series on a page; and how many series there are. */
static uint64_t total_hits(struct cdl_hits *hits, uint32_t *series)
{
    static const char name[] = "\nratelimit_service_rate_limit_total_hits{";
    struct cdl_exposition page;
    struct cdl_slice text;
    cdl_exposition_begin(&page, CDL_OPENMETRICS_TEXT, 1 << 20);
    cdl_hits_expose(hits, &page);
    assert_int_equal(cdl_exposition_finish(&page, &text), CAUDAL_OK);
    assert_int_equal(page.refused, 0);
    uint64_t total = 0;
    *series = 0;
    for (const char *at = text.bytes;
         (at = memmem(at, text.length - (size_t)(at - text.bytes), name, sizeof name - 1)) != NULL; at++, ++*series)
        total += strtoull(strchr(at, ' ') + 1, NULL, 10);
    cdl_exposition_end(&page);
    return total;
}

static void values_are_named_and_scraped_meanwhile(void **state)
{
    (void)state;
    const struct cdl_hits_options options = {.workers = WORKERS, .groups = 2, .all_values = 48};
    struct cdl_hits *hits = cdl_hits_open(&options, cdl_allocator_default());
    assert_non_null(hits);
    struct cdl_hits_labels labels;
    cdl_hits_labels_begin(&labels);
    cdl_hits_label(&labels, CDL_SLICE("d"), CDL_SLICE(""));
    cdl_hits_label(&labels, CDL_SLICE("k"), CDL_SLICE(CDL_HITS_OTHER));
    struct worker workers[WORKERS];
    for (uint32_t i = 0; i < WORKERS; i++)
        workers[i] = (struct worker){.index = i,
                                     .group = cdl_hits_acquire(hits, &labels, (struct cdl_hits_wish){32, false})};
    start(workers, hit);
    uint64_t before = 0;
    uint32_t series = 0;
    for (uint32_t i = 0; atomic_load(&running) > 0; i++) {
        char name[16];
        struct cdl_hits_labels other;
        snprintf(name, sizeof name, "%u", i % 5);
        cdl_hits_labels_begin(&other);
        cdl_hits_label(&other, cdl_slice_of(name), CDL_SLICE(""));
        cdl_hits_release(hits, cdl_hits_acquire(hits, &other, (struct cdl_hits_wish){16, false})); /* a reload */
        const uint64_t now = total_hits(hits, &series);
        assert_true(now >= before);
        before = now;
    }
    join(workers);
    assert_int_equal(total_hits(hits, &series), WORKERS * ROUNDS);
    assert_int_equal(series, 32 + 1);
    cdl_hits_close(hits);
}

static void *record(void *context)
{
    struct worker *worker = context;
    for (uint32_t i = 0; i < ROUNDS; i++)
        cdl_histogram_record(worker->histogram, i);
    atomic_fetch_sub(&running, 1);
    return NULL;
}

static void snapshots_are_taken_meanwhile(void **state)
{
    (void)state;
    static struct cdl_histogram histograms[WORKERS];
    static struct cdl_histogram_snapshot snapshot;
    struct worker workers[WORKERS];
    for (uint32_t i = 0; i < WORKERS; i++)
        workers[i] = (struct worker){.histogram = &histograms[i]};
    start(workers, record);
    for (bool last = false; !last;) {
        last = atomic_load(&running) == 0;
        snapshot = (struct cdl_histogram_snapshot){0};
        for (uint32_t i = 0; i < WORKERS; i++)
            cdl_histogram_add(&snapshot, &histograms[i]);
        assert_true(cdl_histogram_quantile_ns(&snapshot, 990000) < 2 * ROUNDS);
    }
    join(workers);
    assert_int_equal(cdl_histogram_count(&snapshot), WORKERS * ROUNDS);
}

static void *refuse(void *context)
{
    struct worker *worker = context;
    for (uint32_t i = 0; i < ROUNDS; i++) {
        char key[16];
        snprintf(key, sizeof key, "%u", i % 2 == 0 ? 0 : i % 100);
        cdl_top_keys_add(worker->sketch, 1, cdl_slice_of(key));
    }
    atomic_fetch_sub(&running, 1);
    return NULL;
}

static void keys_are_listed_meanwhile_and_misses_are_counted(void **state)
{
    (void)state;
    struct worker workers[WORKERS];
    struct cdl_top_keys *sketches[WORKERS];
    for (uint32_t i = 0; i < WORKERS; i++) {
        sketches[i] = cdl_top_keys_open(64, 1, cdl_allocator_default());
        assert_non_null(sketches[i]);
        workers[i] = (struct worker){.sketch = sketches[i]};
    }
    start(workers, refuse);
    struct cdl_top_list list = {0};
    for (bool last = false; !last;) {
        last = atomic_load(&running) == 0;
        cdl_top_list_free(&list);
        assert_int_equal(cdl_top_keys_merge(sketches, WORKERS, 10, &list), CAUDAL_OK);
    }
    join(workers);
    assert_int_equal(list.added + list.missed, WORKERS * ROUNDS);
    assert_true(cdl_slice_equal(cdl_top_key_shown(&list.keys[0]), CDL_SLICE("0")));
    assert_true(list.keys[0].count - list.keys[0].error <= WORKERS * ROUNDS / 2);
    assert_true(list.keys[0].count + list.missed >= WORKERS * ROUNDS / 2);
    cdl_top_list_free(&list);
    for (uint32_t i = 0; i < WORKERS; i++)
        cdl_top_keys_close(sketches[i]);
}

static void *say(void *context)
{
    struct worker *worker = context;
    for (uint32_t i = 0; i < 300; i++) {
        cdl_log_each(worker->log, CDL_LOG_INFO, "each", cdl_log_u64("worker", worker->index), cdl_log_u64("n", i),
                     cdl_log_keyed("key", CDL_SLICE("someone")));
        cdl_log(worker->log, CDL_LOG_WARN, "repeats");
        cdl_log_set_level(worker->log, CDL_LOG_INFO);
    }
    atomic_fetch_sub(&running, 1);
    return NULL;
}

static size_t count_lines(FILE *file, size_t *odd)
{
    char line[CDL_LOG_LINE_MAX + 1];
    size_t lines = 0;
    rewind(file);
    while (fgets(line, sizeof line, file) != NULL) {
        lines++;
        *odd += strncmp(line, "{\"time\":\"", 9) != 0 || strcmp(line + strlen(line) - 2, "}\n") != 0;
    }
    return lines;
}

static void lines_of_several_threads_do_not_mix(void **state)
{
    (void)state;
    FILE *file = tmpfile();
    assert_non_null(file);
    const struct cdl_log_options options = {
        .fd = fileno(file), .level = CDL_LOG_INFO, .format = CDL_LOG_AS_JSON, .repeat_window_ns = INT64_MAX};
    struct cdl_log *log = cdl_log_open(&options);
    assert_non_null(log);
    struct worker workers[WORKERS];
    for (uint32_t i = 0; i < WORKERS; i++)
        workers[i] = (struct worker){.index = i, .log = log};
    start(workers, say);
    while (atomic_load(&running) > 0) {
        cdl_log_tick(log);
        cdl_log_set_secret(log, CDL_SLICE("x"));
    }
    join(workers);
    assert_int_equal(cdl_log_suppressed(log), 300 * WORKERS - 1);
    assert_int_equal(cdl_log_lost(log), 0);
    cdl_log_close(log);
    size_t odd = 0;
    assert_int_equal(count_lines(file, &odd), 300 * WORKERS + 2); /* and one "repeats", and one about its repeats */
    assert_int_equal(odd, 0);
    fclose(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counters_are_scraped_and_reloaded_meanwhile),
        cmocka_unit_test(values_are_named_and_scraped_meanwhile),
        cmocka_unit_test(snapshots_are_taken_meanwhile),
        cmocka_unit_test(keys_are_listed_meanwhile_and_misses_are_counted),
        cmocka_unit_test(lines_of_several_threads_do_not_mix),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
