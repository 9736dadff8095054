#include "crew.h"

#include <pthread.h>
#include <stdlib.h>

/* ---- rounds ---- */

/* What the threads of a run share. Of its own, and left alone when an assertion fails between rounds: the threads then wait
 * for the next one until the program ends. */
struct crew {
    struct crew_job job;
    pthread_barrier_t start, end;
    pthread_t threads[CREW_MAX];
    struct member {
        struct crew *crew;
        unsigned thread;
    } members[CREW_MAX];
};

static void *follow(void *context)
{
    const struct member *member = context;
    struct crew *crew = member->crew;
    for (uint64_t round = 0; round < crew->job.rounds; round++) {
        pthread_barrier_wait(&crew->start);
        crew->job.work(member->thread, round);
        pthread_barrier_wait(&crew->end);
    }
    return NULL;
}

void crew_run(const struct crew_job *job)
{
    assert_in_range(job->threads, 1, CREW_MAX);
    struct crew *crew = calloc(1, sizeof *crew);
    assert_non_null(crew);
    crew->job = *job;
    pthread_barrier_init(&crew->start, NULL, job->threads + 1);
    pthread_barrier_init(&crew->end, NULL, job->threads + 1);
    for (unsigned i = 0; i < job->threads; i++) {
        crew->members[i] = (struct member){crew, i};
        assert_int_equal(pthread_create(&crew->threads[i], NULL, follow, &crew->members[i]), 0);
    }
    for (uint64_t round = 0; round < job->rounds; round++) {
        if (job->before != NULL)
            job->before(round);
        pthread_barrier_wait(&crew->start);
        pthread_barrier_wait(&crew->end);
        if (job->after != NULL)
            job->after(round);
    }
    for (unsigned i = 0; i < job->threads; i++)
        pthread_join(crew->threads[i], NULL);
    pthread_barrier_destroy(&crew->start);
    pthread_barrier_destroy(&crew->end);
    free(crew);
}

/* ---- what is true of a store at rest ---- */

static int compare_tags(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static void assert_tags_are_unique(const struct cdl_table *table)
{
    const uint64_t entries = table->line_count * CDL_LINE_ENTRIES;
    uint64_t *tags = calloc(entries, sizeof *tags), count = 0;
    assert_non_null(tags);
    for (uint64_t i = 0; i < entries; i++) {
        tags[count] = table->lines[i / CDL_LINE_ENTRIES].entries[i % CDL_LINE_ENTRIES].first;
        count += tags[count] != 0;
    }
    qsort(tags, count, sizeof *tags, compare_tags);
    uint64_t twins = 0;
    for (uint64_t i = 1; i < count; i++)
        twins += tags[i] == tags[i - 1];
    free(tags);
    assert_int_equal(twins, 0);
}

static void assert_chains_are_sound(const struct cdl_wide_table *wide, const struct cdl_wide_stripe *stripe)
{
    uint32_t chained = 0, free_records = 0, in_use = 0;
    for (uint32_t i = 0; i < wide->buckets_per_stripe; i++)
        for (uint32_t j = stripe->buckets[i]; j != 0; j = stripe->records[j].next) {
            assert_int_not_equal(stripe->records[j].number, 0);
            assert_true(++chained < wide->records_per_stripe);
            for (uint32_t k = stripe->records[j].next; k != 0; k = stripe->records[k].next)
                assert_false(stripe->records[j].number == stripe->records[k].number &&
                             stripe->records[j].hash.low == stripe->records[k].hash.low &&
                             stripe->records[j].hash.high == stripe->records[k].hash.high);
        }
    for (uint32_t j = stripe->free; j != 0; j = stripe->records[j].next)
        assert_true(++free_records < wide->records_per_stripe);
    for (uint32_t j = 1; j < stripe->untouched; j++)
        in_use += stripe->records[j].number != 0;
    assert_int_equal(chained, in_use);
    assert_int_equal(free_records + in_use, stripe->untouched - 1);
}

/* Logs and the free list share the chunks out among them. */
static void assert_chunks_add_up(const struct cdl_wide_stripe *stripe)
{
    const struct cdl_log_pool *pool = &stripe->pool;
    uint32_t logged = 0, listed = 0;
    for (uint32_t j = 1; j < stripe->untouched; j++) {
        const struct cdl_wide_record *record = &stripe->records[j];
        if (record->number == 0 || record->kind != CDL_WIDE_LOG)
            continue;
        for (uint32_t chunk = record->log.oldest; chunk != 0; chunk = pool->chunks[chunk].newer)
            assert_true(++logged < pool->count);
    }
    for (uint32_t chunk = pool->free; chunk != 0; chunk = pool->chunks[chunk].newer)
        assert_true(++listed < pool->count);
    assert_int_equal(listed + pool->count - pool->untouched, pool->free_count);
    assert_int_equal(logged + pool->free_count, pool->count - 1);
}

void assert_store_is_sound(struct caudal_store *head)
{
    struct cdl_memory_store *store = cdl_memory_store(head);
    assert_tags_are_unique(&store->table);
    for (uint32_t i = 0; i < store->wide.stripe_count; i++) {
        assert_chains_are_sound(&store->wide, &store->wide.stripes[i]);
        assert_chunks_add_up(&store->wide.stripes[i]);
    }
}

uint64_t states_held(struct caudal_store *head)
{
    const struct cdl_memory_store *store = cdl_memory_store(head);
    uint64_t held = 0;
    for (uint64_t i = 0; i < store->table.line_count * CDL_LINE_ENTRIES; i++)
        held += store->table.lines[i / CDL_LINE_ENTRIES].entries[i % CDL_LINE_ENTRIES].first != 0;
    for (uint32_t i = 0; i < store->wide.stripe_count; i++)
        for (uint32_t j = 1; j < store->wide.stripes[i].untouched; j++)
            held += store->wide.stripes[i].records[j].number != 0;
    return held;
}
