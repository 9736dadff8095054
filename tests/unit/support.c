#include "support.h"

#include <stdlib.h>

#include "store/memory_store.h"

uint64_t scaled(uint64_t count)
{
    const char *text = getenv("CAUDAL_TEST_SCALE");
    const uint64_t percent = text != NULL ? strtoull(text, NULL, 10) : 100;
    assert_in_range(percent, 4, 100);
    return count * percent < 100 ? 1 : count * percent / 100;
}

/* ---- a store on a fake clock ---- */

void world_open(struct world *world, const char *url)
{
    *world = (struct world){.clock = caudal_fake_clock_new(EPOCH)};
    assert_non_null(world->clock);
    const struct caudal_store_options options = {
        .size = sizeof options,
        .clock = caudal_fake_clock_clock(world->clock),
    };
    struct caudal_problem problem = {.message = ""};
    if (caudal_store_open(url, &options, &world->store, &problem) != CAUDAL_OK)
        fail_msg("%s: %s", url, problem.message);
}

void world_close(struct world *world)
{
    caudal_store_close(world->store);
    caudal_fake_clock_free(world->clock);
}

int world_setup(void **state)
{
    static struct world world;
    world_open(&world, "memory:?keys=1000");
    *state = &world;
    return 0;
}

int world_teardown(void **state)
{
    world_close(*state);
    return 0;
}

uint32_t world_add(struct world *world, struct caudal_limit limit)
{
    char name[32];
    uint32_t id = 0;
    snprintf(name, sizeof name, "limit %u", world->limits++);
    struct caudal_problem problem = {.message = ""};
    if (caudal_add_limit(world->store, name, &limit, &id, &problem) != CAUDAL_OK)
        fail_msg("%s", problem.message);
    return id;
}

void world_set(struct world *world, uint32_t id, struct caudal_limit limit)
{
    struct caudal_problem problem = {.message = ""};
    if (caudal_set_limit(world->store, id, &limit, &problem) != CAUDAL_OK)
        fail_msg("%s", problem.message);
}

void world_set_time(struct world *world, int64_t now_ns)
{
    caudal_fake_clock_set(world->clock, now_ns);
}

void world_advance(struct world *world, int64_t delta_ns)
{
    caudal_fake_clock_advance(world->clock, delta_ns);
}

struct caudal_decision take(struct world *world, uint32_t limit, const char *key, uint64_t cost)
{
    struct caudal_decision decision;
    assert_int_equal(caudal_take(world->store, limit, key, strlen(key), cost, &decision), CAUDAL_OK);
    return decision;
}

struct caudal_decision peek(struct world *world, uint32_t limit, const char *key, uint64_t cost)
{
    struct caudal_decision decision;
    assert_int_equal(caudal_peek(world->store, limit, key, strlen(key), cost, &decision), CAUDAL_OK);
    return decision;
}

struct caudal_decision take_up_to(struct world *world, uint32_t limit, const char *key, uint64_t least, uint64_t most)
{
    struct caudal_decision decision;
    assert_int_equal(caudal_take_up_to(world->store, limit, key, strlen(key), least, most, &decision), CAUDAL_OK);
    return decision;
}

struct caudal_decision refund(struct world *world, uint32_t limit, const char *key, uint64_t tokens)
{
    struct caudal_decision decision;
    assert_int_equal(caudal_refund(world->store, limit, key, strlen(key), tokens, &decision), CAUDAL_OK);
    return decision;
}

void reset(struct world *world, uint32_t limit, const char *key)
{
    assert_int_equal(caudal_reset(world->store, limit, key, strlen(key)), CAUDAL_OK);
}

uint64_t left(struct world *world, uint32_t limit, const char *key)
{
    return peek(world, limit, key, 0).remaining;
}

uint64_t drain(struct world *world, uint32_t limit, const char *key)
{
    uint64_t admitted = 0;
    while (take(world, limit, key, 1).verdict == CAUDAL_ALLOW)
        admitted++;
    return admitted;
}

struct caudal_store_stats stats_of(struct world *world)
{
    struct caudal_store_stats stats = {.size = sizeof stats};
    assert_int_equal(caudal_store_stats(world->store, &stats), CAUDAL_OK);
    return stats;
}

void assert_same_limit(struct caudal_limit got, struct caudal_limit want)
{
    assert_int_equal(got.size, want.size);
    assert_int_equal(got.algorithm, want.algorithm);
    assert_int_equal(got.count, want.count);
    assert_int_equal(got.period_ns, want.period_ns);
    assert_int_equal(got.burst, want.burst);
}

void assert_same_decision(struct caudal_decision got, struct caudal_decision want)
{
    assert_int_equal(got.status, want.status);
    assert_int_equal(got.verdict, want.verdict);
    assert_int_equal(got.source, want.source);
    assert_int_equal(got.binding, want.binding);
    assert_int_equal(got.capacity, want.capacity);
    assert_int_equal(got.granted, want.granted);
    assert_int_equal(got.remaining, want.remaining);
    assert_int_equal(got.retry_after_ns, want.retry_after_ns);
    assert_int_equal(got.reset_after_ns, want.reset_after_ns);
    assert_int_equal(got.error_bound, want.error_bound);
}

void assert_no_verdict(struct caudal_decision decision, int status)
{
    assert_same_decision(decision, (struct caudal_decision){.status = status});
}

/* ---- the raw memory of a store ---- */

static void gather(struct snapshot *snapshot, const void *memory, size_t bytes)
{
    memcpy(snapshot->bytes + snapshot->length, memory, bytes);
    snapshot->length += bytes;
}

struct snapshot snapshot_take(struct caudal_store *store)
{
    const struct cdl_memory_store *memory = cdl_memory_store(store);
    const struct cdl_wide_table *wide = &memory->wide;
    const size_t stripes = wide->stripe_count;
    struct snapshot snapshot = {malloc(cdl_table_bytes(&memory->table) + cdl_wide_bytes(wide)), 0};
    assert_non_null(snapshot.bytes);
    gather(&snapshot, memory->table.lines, memory->table.line_count * sizeof *memory->table.lines);
    gather(&snapshot, wide->records, stripes * wide->records_per_stripe * sizeof *wide->records);
    gather(&snapshot, wide->buckets, stripes * wide->buckets_per_stripe * sizeof *wide->buckets);
    gather(&snapshot, wide->chunks, stripes * wide->chunks_per_stripe * sizeof *wide->chunks);
    for (size_t i = 0; i < stripes; i++)
        gather(&snapshot, &wide->stripes[i].pool, sizeof wide->stripes[i].pool);
    return snapshot;
}

void snapshot_compare(struct snapshot *snapshot, struct caudal_store *store)
{
    struct snapshot now = snapshot_take(store);
    assert_int_equal(now.length, snapshot->length);
    const bool same = memcmp(now.bytes, snapshot->bytes, now.length) == 0;
    free(now.bytes);
    free(snapshot->bytes);
    *snapshot = (struct snapshot){0};
    assert_true(same);
}

/* ---- every way of keeping a state ---- */

#define LIMIT(algorithm, count, period_ns)                                                                             \
    {                                                                                                                  \
        sizeof(struct caudal_limit), algorithm, count, period_ns, CAUDAL_BURST_DEFAULT                                 \
    }

const struct kind kinds[KINDS] = {
    {"bucket", LIMIT(CAUDAL_TOKEN_BUCKET, 10, HOUR), 1, CDL_LAYOUT_BUCKET, HOUR},
    {"fixed window", LIMIT(CAUDAL_FIXED_WINDOW, 10, HOUR), 1, CDL_LAYOUT_WINDOW, HOUR},
    {"sliding window", LIMIT(CAUDAL_SLIDING_WINDOW, 10, HOUR), 1, CDL_LAYOUT_WINDOW, 2 * HOUR},
    {"wide fixed window", LIMIT(CAUDAL_FIXED_WINDOW, 1000000000, SECOND), 100000000, CDL_LAYOUT_WIDE_WINDOW, SECOND},
    {"wide sliding window", LIMIT(CAUDAL_SLIDING_WINDOW, 10000000, SECOND), 1000000, CDL_LAYOUT_WIDE_WINDOW,
     2 * SECOND},
    {"log", LIMIT(CAUDAL_SLIDING_LOG, 10, HOUR), 1, CDL_LAYOUT_LOG, HOUR},
};

uint32_t layout_of(struct world *world, uint32_t limit)
{
    struct cdl_limit_view view;
    cdl_limit_read(cdl_limits_find(cdl_memory_store(world->store)->limits, limit), &view, NULL);
    assert_int_equal(view.id, limit);
    return view.layout;
}

uint32_t world_add_kind(struct world *world, const struct kind *kind)
{
    const uint32_t id = world_add(world, kind->limit);
    assert_int_equal(layout_of(world, id), kind->layout);
    return id;
}

/* ---- an allocator that counts ---- */

static void *counting_allocate(void *context, size_t bytes, size_t alignment)
{
    struct counting_allocator *counting = context;
    if (counting->calls++ == counting->fail_at)
        return NULL;
    /* The size stands before the block, a whole alignment away so that the block stays aligned. */
    if (alignment < 64)
        alignment = 64;
    char *memory = NULL;
    if (posix_memalign((void **)&memory, alignment, alignment + bytes) != 0)
        return NULL;
    memset(memory, 0, alignment + bytes);
    memory += alignment;
    memcpy(memory - sizeof bytes, &bytes, sizeof bytes);
    memcpy(memory - 2 * sizeof alignment, &alignment, sizeof alignment);
    counting->live_blocks++;
    counting->live_bytes += bytes;
    return memory;
}

static void counting_release(void *context, void *memory, size_t bytes)
{
    struct counting_allocator *counting = context;
    size_t allocated, alignment;
    assert_non_null(memory);
    memcpy(&allocated, (char *)memory - sizeof allocated, sizeof allocated);
    memcpy(&alignment, (char *)memory - 2 * sizeof alignment, sizeof alignment);
    assert_int_equal(bytes, allocated);
    counting->live_blocks--;
    counting->live_bytes -= bytes;
    free((char *)memory - alignment);
}

void counting_allocator_init(struct counting_allocator *counting)
{
    *counting = (struct counting_allocator){
        .allocator = {sizeof counting->allocator, counting, counting_allocate, counting_release},
        .fail_at = -1,
    };
}
