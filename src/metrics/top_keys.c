#include "metrics/top_keys.h"

#include <pthread.h>
#include <stdlib.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/memory.h"
#include "metrics/cell.h"

/* Where an entry hangs: in the ring of its bucket, and in the list of its hash. */
struct entry {
    struct cdl_top_key key; /* its count is the bucket's */
    struct bucket *bucket;
    struct entry *before, *after; /* a ring */
    struct entry *next_of_hash;
    uint64_t hash;
};

/* The entries of one count, oldest first. Never empty while it is in the list. */
struct bucket {
    uint64_t count;
    struct entry *first;
    struct bucket *lower, *higher; /* `higher` links the free ones, too */
};

struct cdl_top_keys {
    struct caudal_allocator allocator;
    uint32_t size;  /* entries, and buckets: each bucket in use has an entry */
    uint32_t lists; /* heads of hash lists, a power of two */
    uint64_t seed;
    cdl_cell missed; /* the owner's; read by all */

    pthread_mutex_t lock; /* everything below */
    uint32_t used;
    uint64_t added;
    uint64_t cleared_missed; /* of `missed`, what was there at the last clear */
    struct entry *entries;
    struct bucket *buckets;
    struct entry **heads;
    struct bucket *lowest;
    struct bucket *free;
};

/* ---- Opening and closing ---- */

static void make_empty(struct cdl_top_keys *sketch)
{
    sketch->used = 0;
    sketch->added = 0;
    sketch->cleared_missed = cdl_cell_read(&sketch->missed);
    sketch->lowest = NULL;
    for (uint32_t i = 0; i < sketch->lists; i++)
        sketch->heads[i] = NULL;
    sketch->free = NULL;
    for (uint32_t i = sketch->size; i > 0; i--) {
        sketch->buckets[i - 1].higher = sketch->free;
        sketch->free = &sketch->buckets[i - 1];
    }
}

struct cdl_top_keys *cdl_top_keys_open(uint32_t entries, uint64_t seed, const struct caudal_allocator *allocator)
{
    if (entries == 0 || entries > CDL_TOP_KEYS_MAX)
        return NULL;
    struct cdl_top_keys *sketch = cdl_allocate(allocator, 1, sizeof *sketch, CDL_CACHE_LINE);
    if (sketch == NULL)
        return NULL;
    *sketch = (struct cdl_top_keys){.allocator = *allocator, .size = entries, .lists = 2, .seed = seed};
    while (sketch->lists < 2 * entries)
        sketch->lists *= 2;
    pthread_mutex_init(&sketch->lock, NULL);
    sketch->entries = cdl_allocate(allocator, entries, sizeof *sketch->entries, CDL_CACHE_LINE);
    sketch->buckets = cdl_allocate(allocator, entries, sizeof *sketch->buckets, CDL_CACHE_LINE);
    sketch->heads = cdl_allocate(allocator, sketch->lists, sizeof(struct entry *), CDL_CACHE_LINE);
    if (sketch->entries == NULL || sketch->buckets == NULL || sketch->heads == NULL) {
        cdl_top_keys_close(sketch);
        return NULL;
    }
    make_empty(sketch);
    return sketch;
}

void cdl_top_keys_close(struct cdl_top_keys *sketch)
{
    if (sketch == NULL)
        return;
    const struct caudal_allocator allocator = sketch->allocator;
    cdl_release(&allocator, sketch->entries, sketch->size, sizeof *sketch->entries);
    cdl_release(&allocator, sketch->buckets, sketch->size, sizeof *sketch->buckets);
    cdl_release(&allocator, sketch->heads, sketch->lists, sizeof(struct entry *));
    pthread_mutex_destroy(&sketch->lock);
    cdl_release(&allocator, sketch, 1, sizeof *sketch);
}

void cdl_top_keys_clear(struct cdl_top_keys *sketch)
{
    pthread_mutex_lock(&sketch->lock);
    make_empty(sketch);
    pthread_mutex_unlock(&sketch->lock);
}

/* ---- Buckets: entries by count ---- */

static void hang(struct entry *entry, struct bucket *bucket)
{
    entry->bucket = bucket;
    if (bucket->first == NULL) {
        bucket->first = entry->before = entry->after = entry;
        return;
    }
    entry->after = bucket->first; /* before the first of a ring is behind the last */
    entry->before = bucket->first->before;
    entry->before->after = entry;
    entry->after->before = entry;
}

static bool is_alone(const struct entry *entry)
{
    return entry->after == entry;
}

/* A new bucket for a count, between two that may be NULL. There is one left: each other has an entry, and the entry that is
 * to hang here hangs nowhere or is not alone where it hangs. */
static struct bucket *insert_bucket(struct cdl_top_keys *sketch, uint64_t count, struct bucket *lower,
                                    struct bucket *higher)
{
    struct bucket *bucket = sketch->free;
    sketch->free = bucket->higher;
    *bucket = (struct bucket){.count = count, .lower = lower, .higher = higher};
    *(lower == NULL ? &sketch->lowest : &lower->higher) = bucket;
    if (higher != NULL)
        higher->lower = bucket;
    return bucket;
}

static void remove_bucket(struct cdl_top_keys *sketch, struct bucket *bucket)
{
    *(bucket->lower == NULL ? &sketch->lowest : &bucket->lower->higher) = bucket->higher;
    if (bucket->higher != NULL)
        bucket->higher->lower = bucket->lower;
    bucket->higher = sketch->free;
    sketch->free = bucket;
}

static void take_down(struct cdl_top_keys *sketch, struct entry *entry)
{
    struct bucket *bucket = entry->bucket;
    if (is_alone(entry)) {
        remove_bucket(sketch, bucket);
        return;
    }
    entry->before->after = entry->after;
    entry->after->before = entry->before;
    if (bucket->first == entry)
        bucket->first = entry->after;
}

static void count_up(struct cdl_top_keys *sketch, struct entry *entry)
{
    struct bucket *bucket = entry->bucket, *higher = bucket->higher;
    const uint64_t count = bucket->count + 1;
    if (higher == NULL || higher->count != count) {
        if (is_alone(entry)) {
            bucket->count = count; /* still below the next one */
            return;
        }
        higher = insert_bucket(sketch, count, bucket, higher);
    }
    take_down(sketch, entry);
    hang(entry, higher);
}

/* ---- Entries by key ---- */

static bool is_same(const struct cdl_top_key *a, const struct cdl_top_key *b)
{
    return a->limit == b->limit && a->rest_hash == b->rest_hash && a->key_length == b->key_length &&
           cdl_slice_equal(cdl_top_key_shown(a), cdl_top_key_shown(b));
}

static struct entry **head_of(struct cdl_top_keys *sketch, uint64_t hash)
{
    return &sketch->heads[hash & (sketch->lists - 1)];
}

static struct entry *find(struct cdl_top_keys *sketch, uint64_t hash, const struct cdl_top_key *key)
{
    struct entry *entry = *head_of(sketch, hash);
    while (entry != NULL && !(entry->hash == hash && is_same(&entry->key, key)))
        entry = entry->next_of_hash;
    return entry;
}

static void unlink_hash(struct cdl_top_keys *sketch, struct entry *entry)
{
    struct entry **link = head_of(sketch, entry->hash);
    while (*link != entry)
        link = &(*link)->next_of_hash;
    *link = entry->next_of_hash;
}

/* An entry for a new key, counted once: a free one, or the one with the smallest count that has had it for longest. */
static void take_over(struct cdl_top_keys *sketch, uint64_t hash, struct cdl_top_key *key)
{
    struct entry *entry;
    if (sketch->used < sketch->size) {
        entry = &sketch->entries[sketch->used++];
        struct bucket *lowest = sketch->lowest;
        hang(entry, lowest != NULL && lowest->count == 1 ? lowest : insert_bucket(sketch, 1, NULL, lowest));
    } else {
        entry = sketch->lowest->first;
        key->error = sketch->lowest->count;
        unlink_hash(sketch, entry);
        count_up(sketch, entry);
    }
    entry->key = *key;
    entry->hash = hash;
    entry->next_of_hash = *head_of(sketch, hash);
    *head_of(sketch, hash) = entry;
}

/* What is kept of a key, and its hash. */
static uint64_t digest(uint64_t seed, uint32_t limit, struct cdl_slice bytes, struct cdl_top_key *key)
{
    key->count = 0;
    key->error = 0;
    key->limit = limit;
    key->key_length = (uint32_t)bytes.length;
    key->rest_hash = 0;
    const struct cdl_slice shown = cdl_top_key_shown(key);
    if (shown.length > 0)
        memcpy(key->bytes, bytes.bytes, shown.length);
    if (bytes.length > shown.length)
        key->rest_hash = XXH3_64bits_withSeed(bytes.bytes + shown.length, bytes.length - shown.length, seed);
    return XXH3_64bits_withSeed(key->bytes, shown.length, seed + limit + key->rest_hash);
}

void cdl_top_keys_add(struct cdl_top_keys *sketch, uint32_t limit, struct cdl_slice key)
{
    struct cdl_top_key kept;
    const uint64_t hash = digest(sketch->seed, limit, key, &kept);
    if (pthread_mutex_trylock(&sketch->lock) != 0) {
        cdl_cell_add(&sketch->missed, 1);
        return;
    }
    struct entry *entry = find(sketch, hash, &kept);
    if (entry != NULL)
        count_up(sketch, entry);
    else
        take_over(sketch, hash, &kept);
    sketch->added++;
    pthread_mutex_unlock(&sketch->lock);
}

/* ---- Merging ---- */

/* An entry that was copied out of a sketch, with the smallest count of that sketch. */
struct copy {
    struct cdl_top_key key;
    uint64_t floor;
};

struct copies {
    struct copy *at;
    size_t count;
    uint64_t floors; /* of all sketches together */
};

/* What a key without an entry may have been counted: nothing while there are free entries. */
static uint64_t floor_of(const struct cdl_top_keys *sketch)
{
    return sketch->used < sketch->size ? 0 : sketch->lowest->count;
}

static void copy_out(struct cdl_top_keys *sketch, struct copies *copies, struct cdl_top_list *list)
{
    pthread_mutex_lock(&sketch->lock);
    const uint64_t floor = floor_of(sketch);
    for (uint32_t i = 0; i < sketch->used; i++) {
        struct copy *copy = &copies->at[copies->count++];
        copy->key = sketch->entries[i].key;
        copy->key.count = sketch->entries[i].bucket->count;
        copy->floor = floor;
    }
    copies->floors += floor;
    list->added += sketch->added;
    list->missed += cdl_cell_read(&sketch->missed) - sketch->cleared_missed;
    pthread_mutex_unlock(&sketch->lock);
}

static int compare_u64(uint64_t a, uint64_t b)
{
    return (a > b) - (a < b);
}

static int by_key(const void *left, const void *right)
{
    const struct cdl_top_key *a = left, *b = right; /* the first member of struct copy */
    int order = compare_u64(a->limit, b->limit);
    if (order == 0)
        order = compare_u64(a->key_length, b->key_length);
    if (order == 0)
        order = compare_u64(a->rest_hash, b->rest_hash);
    return order != 0 ? order : memcmp(a->bytes, b->bytes, cdl_top_key_shown(a).length);
}

/* Most refused first; of those the best known; then in the order of keys, so that a page looks the same twice. */
static int by_count(const void *left, const void *right)
{
    const struct cdl_top_key *a = left, *b = right;
    int order = compare_u64(b->count, a->count);
    if (order == 0)
        order = compare_u64(a->error, b->error);
    return order != 0 ? order : by_key(a, b);
}

/* Makes one of the copies of a key, which stand side by side, and puts the keys at the front of the same memory. Returns how
 * many there are. */
static size_t join(struct copies *copies)
{
    size_t joined = 0;
    for (size_t i = 0; i < copies->count;) {
        struct copy sum = copies->at[i++];
        for (; i < copies->count && is_same(&sum.key, &copies->at[i].key); i++) {
            sum.key.count += copies->at[i].key.count;
            sum.key.error += copies->at[i].key.error;
            sum.floor += copies->at[i].floor;
        }
        sum.key.count += copies->floors - sum.floor;
        sum.key.error += copies->floors - sum.floor;
        copies->at[joined++] = sum;
    }
    return joined;
}

static int fill_list(struct copies *copies, size_t wanted, struct cdl_top_list *list)
{
    qsort(copies->at, copies->count, sizeof *copies->at, by_key);
    const size_t joined = join(copies);
    qsort(copies->at, joined, sizeof *copies->at, by_count);
    list->count = joined < wanted ? joined : wanted;
    list->unlisted = list->count < joined ? copies->at[list->count].key.count : 0;
    if (list->unlisted < copies->floors)
        list->unlisted = copies->floors;
    if (list->count == 0)
        return CAUDAL_OK;
    list->keys = malloc(list->count * sizeof *list->keys);
    if (list->keys == NULL)
        return CAUDAL_ERR_MEMORY;
    for (size_t i = 0; i < list->count; i++)
        list->keys[i] = copies->at[i].key;
    return CAUDAL_OK;
}

int cdl_top_keys_merge(struct cdl_top_keys *const *sketches, size_t count, size_t wanted, struct cdl_top_list *list)
{
    *list = (struct cdl_top_list){0};
    size_t room = 1;
    for (size_t i = 0; i < count; i++)
        room += sketches[i]->size;
    struct copies copies = {.at = malloc(room * sizeof *copies.at)};
    int status = CAUDAL_ERR_MEMORY;
    if (copies.at != NULL) {
        for (size_t i = 0; i < count; i++)
            copy_out(sketches[i], &copies, list);
        status = fill_list(&copies, wanted, list);
    }
    free(copies.at);
    if (status != CAUDAL_OK)
        *list = (struct cdl_top_list){0};
    return status;
}

void cdl_top_list_free(struct cdl_top_list *list)
{
    free(list->keys);
    *list = (struct cdl_top_list){0};
}
