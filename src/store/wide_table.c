#include "store/wide_table.h"

#define STRIPES_MAX 64u
/* A stripe's pool holds the longest log there can be with room to spare, so that one key alone never runs out. */
#define CHUNKS_MIN (UINT64_C(2) * (CAUDAL_LOG_COUNT_MAX / CDL_LOG_CHUNK_ENTRIES))
/* Records that are counted before those who wait for the stripe have their turn. */
#define COUNTED_AT_ONCE 1024u
/* Records that are looked at for one that makes room: bounds the time of an insertion into a full stripe. */
#define LOOKED_AT 16u

/* Keys fall on stripes by chance; a quarter and a few more keep a stripe from filling up before the table. */
static uint32_t share(uint64_t total, uint32_t stripes)
{
    uint64_t each = total / stripes;
    return (uint32_t)(each + each / 4 + 8);
}

bool cdl_wide_open(struct cdl_wide_table *table, uint64_t keys, uint64_t log_entries,
                   const struct caudal_allocator *allocator)
{
    const uint64_t chunks = log_entries / CDL_LOG_CHUNK_ENTRIES + 1;
    *table = (struct cdl_wide_table){.stripe_count = 1, .buckets_per_stripe = 8};
    while (table->stripe_count < STRIPES_MAX && UINT64_C(2) * table->stripe_count * CHUNKS_MIN <= chunks)
        table->stripe_count *= 2;
    const uint32_t stripes = table->stripe_count;
    table->records_per_stripe = stripes == 1 ? (uint32_t)keys + 1 : share(keys, stripes);
    table->chunks_per_stripe = share(chunks, stripes);
    if (table->chunks_per_stripe < CHUNKS_MIN)
        table->chunks_per_stripe = (uint32_t)CHUNKS_MIN;
    while (table->buckets_per_stripe < table->records_per_stripe)
        table->buckets_per_stripe *= 2;

    table->stripes = cdl_allocate(allocator, stripes, sizeof *table->stripes, 64);
    table->records = cdl_allocate(allocator, (size_t)stripes * table->records_per_stripe, sizeof *table->records, 64);
    table->buckets = cdl_allocate(allocator, (size_t)stripes * table->buckets_per_stripe, sizeof *table->buckets, 64);
    table->chunks = cdl_allocate(allocator, (size_t)stripes * table->chunks_per_stripe, sizeof *table->chunks, 64);
    if (table->stripes == NULL || table->records == NULL || table->buckets == NULL || table->chunks == NULL) {
        cdl_wide_close(table, allocator);
        return false;
    }
    for (uint32_t i = 0; i < stripes; i++) {
        struct cdl_wide_stripe *stripe = &table->stripes[i];
        pthread_mutex_init(&stripe->lock, NULL);
        stripe->records = &table->records[(size_t)i * table->records_per_stripe];
        stripe->buckets = &table->buckets[(size_t)i * table->buckets_per_stripe];
        stripe->untouched = 1;
        stripe->hand = 1;
        cdl_log_pool_init(&stripe->pool, &table->chunks[(size_t)i * table->chunks_per_stripe],
                          table->chunks_per_stripe);
    }
    return true;
}

void cdl_wide_close(struct cdl_wide_table *table, const struct caudal_allocator *allocator)
{
    const size_t stripes = table->stripe_count;
    cdl_release(allocator, table->stripes, stripes, sizeof *table->stripes);
    cdl_release(allocator, table->records, stripes * table->records_per_stripe, sizeof *table->records);
    cdl_release(allocator, table->buckets, stripes * table->buckets_per_stripe, sizeof *table->buckets);
    cdl_release(allocator, table->chunks, stripes * table->chunks_per_stripe, sizeof *table->chunks);
}

/* Who only guesses reads it meanwhile. */
static void set_link(uint32_t *link, uint32_t index)
{
    __atomic_store_n(link, index, __ATOMIC_RELAXED);
}

static bool same(const struct cdl_wide_record *record, struct cdl_key_hash hash, uint16_t number)
{
    return record->hash.low == hash.low && record->hash.high == hash.high && record->number == number;
}

struct cdl_wide_record *cdl_wide_find(const struct cdl_wide_table *table, struct cdl_wide_stripe *stripe,
                                      struct cdl_key_hash hash, uint16_t number)
{
    for (uint32_t i = *cdl_wide_bucket(table, stripe, hash, number); i != 0; i = stripe->records[i].next)
        if (same(&stripe->records[i], hash, number))
            return &stripe->records[i];
    return NULL;
}

void cdl_wide_remove(const struct cdl_wide_table *table, struct cdl_wide_stripe *stripe, struct cdl_wide_record *record)
{
    const uint32_t index = (uint32_t)(record - stripe->records);
    uint32_t *link = cdl_wide_bucket(table, stripe, record->hash, record->number);
    while (*link != index)
        link = &stripe->records[*link].next;
    set_link(link, record->next);
    if (record->kind == CDL_WIDE_LOG)
        cdl_log_clear(&record->log, &stripe->pool);
    *record = (struct cdl_wide_record){.next = stripe->free};
    stripe->free = index;
}

static bool wanted(const struct cdl_wide_record *record, const struct cdl_wide_record *kept, bool logs_only)
{
    return record->number != 0 && record != kept &&
           (!logs_only || (record->kind == CDL_WIDE_LOG && record->log.newest != 0));
}

/* Forgets the record with the least time left among the next few; goes on until it has found one that may be forgotten.
 * Returns false when there is none in the stripe. */
static bool evict(const struct cdl_wide_table *table, struct cdl_wide_stripe *stripe,
                  const struct cdl_wide_record *kept, bool logs_only, const struct cdl_wide_judge *judge)
{
    struct cdl_wide_record *best = NULL;
    int64_t least = 0;
    uint32_t met = 0;
    for (uint32_t seen = 1; seen < table->records_per_stripe && met < LOOKED_AT; seen++) {
        struct cdl_wide_record *record = &stripe->records[stripe->hand];
        stripe->hand = stripe->hand + 1 == table->records_per_stripe ? 1 : stripe->hand + 1;
        if (!wanted(record, kept, logs_only))
            continue;
        met++;
        int64_t left = judge->time_left(judge->context, record, &stripe->pool);
        if (best == NULL || left < least) {
            best = record;
            least = left;
        }
        if (left == 0)
            break;
    }
    if (best == NULL)
        return false;
    stripe->live_evictions += least > 0;
    cdl_wide_remove(table, stripe, best);
    return true;
}

struct cdl_wide_record *cdl_wide_insert(const struct cdl_wide_table *table, struct cdl_wide_stripe *stripe,
                                        struct cdl_key_hash hash, uint16_t number, enum cdl_wide_kind kind,
                                        const struct cdl_wide_judge *judge)
{
    if (stripe->free == 0 && stripe->untouched == table->records_per_stripe)
        evict(table, stripe, NULL, false, judge);
    uint32_t index = stripe->free;
    if (index != 0)
        stripe->free = stripe->records[index].next;
    else
        index = stripe->untouched++;
    struct cdl_wide_record *record = &stripe->records[index];
    uint32_t *bucket = cdl_wide_bucket(table, stripe, hash, number);
    *record = (struct cdl_wide_record){.hash = hash, .number = number, .kind = (uint8_t)kind, .next = *bucket};
    set_link(bucket, index);
    stripe->inserted++;
    return record;
}

void cdl_wide_reserve_chunk(const struct cdl_wide_table *table, struct cdl_wide_stripe *stripe,
                            const struct cdl_wide_record *kept, const struct cdl_wide_judge *judge)
{
    while (stripe->pool.free_count == 0 && evict(table, stripe, kept, true, judge))
        ;
}

void cdl_wide_lock_all(struct cdl_wide_table *table)
{
    for (uint32_t i = 0; i < table->stripe_count; i++)
        pthread_mutex_lock(&table->stripes[i].lock);
}

void cdl_wide_unlock_all(struct cdl_wide_table *table)
{
    for (uint32_t i = 0; i < table->stripe_count; i++)
        pthread_mutex_unlock(&table->stripes[i].lock);
}

void cdl_wide_drop(struct cdl_wide_table *table, uint16_t number)
{
    for (uint32_t i = 0; i < table->stripe_count; i++) {
        struct cdl_wide_stripe *stripe = &table->stripes[i];
        pthread_mutex_lock(&stripe->lock);
        for (uint32_t j = 1; j < stripe->untouched; j++)
            if (stripe->records[j].number == number)
                cdl_wide_remove(table, stripe, &stripe->records[j]);
        pthread_mutex_unlock(&stripe->lock);
    }
}

void cdl_wide_count(struct cdl_wide_table *table, const struct cdl_wide_judge *judge, uint64_t *live,
                    uint64_t *inserted, uint64_t *live_evictions)
{
    for (uint32_t i = 0; i < table->stripe_count; i++) {
        struct cdl_wide_stripe *stripe = &table->stripes[i];
        pthread_mutex_lock(&stripe->lock);
        for (uint32_t j = 1; j < stripe->untouched; j++) {
            const struct cdl_wide_record *record = &stripe->records[j];
            if (j % COUNTED_AT_ONCE == 0) {
                pthread_mutex_unlock(&stripe->lock);
                pthread_mutex_lock(&stripe->lock);
            }
            *live += record->number != 0 && judge->time_left(judge->context, record, &stripe->pool) > 0;
        }
        *inserted += stripe->inserted;
        *live_evictions += stripe->live_evictions;
        pthread_mutex_unlock(&stripe->lock);
    }
}

uint64_t cdl_wide_bytes(const struct cdl_wide_table *table)
{
    return table->stripe_count *
           (sizeof *table->stripes + (uint64_t)table->records_per_stripe * sizeof *table->records +
            (uint64_t)table->buckets_per_stripe * sizeof *table->buckets +
            (uint64_t)table->chunks_per_stripe * sizeof *table->chunks);
}
