#include "algorithm/sliding_log.h"

void cdl_log_pool_init(struct cdl_log_pool *pool, struct cdl_log_chunk *chunks, uint32_t count)
{
    *pool = (struct cdl_log_pool){.chunks = chunks, .untouched = 1, .count = count, .free_count = count - 1};
}

static uint32_t take_chunk(struct cdl_log_pool *pool)
{
    pool->free_count--;
    if (pool->free == 0)
        return pool->untouched++;
    uint32_t chunk = pool->free;
    pool->free = pool->chunks[chunk].newer;
    return chunk;
}

static void free_chunk(struct cdl_log_pool *pool, uint32_t chunk)
{
    pool->chunks[chunk].newer = pool->free;
    pool->free = chunk;
    pool->free_count++;
}

void cdl_log_clear(struct cdl_log *log, struct cdl_log_pool *pool)
{
    for (uint32_t chunk = log->oldest; chunk != 0;) {
        uint32_t newer = pool->chunks[chunk].newer;
        free_chunk(pool, chunk);
        chunk = newer;
    }
    *log = (struct cdl_log){0};
}

/* A place in a log; chunk 0 is past its end. */
struct place {
    uint32_t chunk;
    uint32_t entry;
};

static struct place first(const struct cdl_log *log)
{
    return (struct place){log->oldest, log->begin};
}

static bool at_end(const struct cdl_log *log, struct place at)
{
    return at.chunk == 0 || (at.chunk == log->newest && at.entry == log->end);
}

static struct place following(const struct cdl_log_pool *pool, const struct cdl_log *log, struct place at)
{
    if (++at.entry == CDL_LOG_CHUNK_ENTRIES && at.chunk != log->newest)
        at = (struct place){pool->chunks[at.chunk].newer, 0};
    return at;
}

/* What counts at `now`: where it begins, and its sum. */
static struct place live(const struct cdl_log_rule *rule, int64_t now, const struct cdl_log *log,
                         const struct cdl_log_pool *pool, uint64_t *used)
{
    struct place at = first(log);
    *used = log->total;
    while (!at_end(log, at) && pool->chunks[at.chunk].when[at.entry] <= (cdl_i128)now - rule->period_ns) {
        *used -= pool->chunks[at.chunk].cost[at.entry];
        at = following(pool, log, at);
    }
    return at;
}

/* An entry from ahead of `now`, which a clock that was set back left, counts as if made now. */
static int64_t time_left(const struct cdl_log_rule *rule, int64_t now, int64_t when)
{
    return cdl_clamp_i64((cdl_i128)(when < now ? when : now) + rule->period_ns - now);
}

static int64_t newest_time_left(const struct cdl_log_rule *rule, int64_t now, const struct cdl_log *log,
                                const struct cdl_log_pool *pool, struct place from)
{
    return at_end(log, from) ? 0 : time_left(rule, now, pool->chunks[log->newest].when[log->end - 1]);
}

/* How long until `over` of what is live has expired. */
static int64_t wait_for(const struct cdl_log_rule *rule, int64_t now, const struct cdl_log *log,
                        const struct cdl_log_pool *pool, struct place from, uint64_t over)
{
    for (struct place at = from; !at_end(log, at); at = following(pool, log, at)) {
        const struct cdl_log_chunk *chunk = &pool->chunks[at.chunk];
        if (chunk->cost[at.entry] >= over)
            return time_left(rule, now, chunk->when[at.entry]);
        over -= chunk->cost[at.entry];
    }
    return 0; /* not reached: `over` is at most what is live */
}

/* Drops what is older than `from`, and takes what is newer than now as made now. */
static void tidy(struct cdl_log *log, struct cdl_log_pool *pool, int64_t now, struct place from, uint64_t used)
{
    if (at_end(log, from)) {
        cdl_log_clear(log, pool);
        return;
    }
    while (log->oldest != from.chunk) {
        uint32_t chunk = log->oldest;
        log->oldest = pool->chunks[chunk].newer;
        free_chunk(pool, chunk);
    }
    pool->chunks[log->oldest].older = 0;
    log->begin = from.entry;
    log->total = (uint32_t)used;
    for (uint32_t chunk = log->newest, end = log->end; chunk != 0; chunk = pool->chunks[chunk].older) {
        uint32_t begin = chunk == log->oldest ? log->begin : 0;
        for (; end > begin; end--) {
            if (pool->chunks[chunk].when[end - 1] <= now)
                return;
            pool->chunks[chunk].when[end - 1] = now;
        }
        end = CDL_LOG_CHUNK_ENTRIES;
    }
}

static void append(struct cdl_log *log, struct cdl_log_pool *pool, int64_t now, uint64_t cost)
{
    log->total += (uint32_t)cost;
    if (log->newest != 0 && pool->chunks[log->newest].when[log->end - 1] == now) {
        pool->chunks[log->newest].cost[log->end - 1] += (uint16_t)cost;
        return;
    }
    if (log->newest == 0 || log->end == CDL_LOG_CHUNK_ENTRIES) {
        uint32_t chunk = take_chunk(pool);
        pool->chunks[chunk].newer = 0;
        pool->chunks[chunk].older = log->newest;
        if (log->newest != 0)
            pool->chunks[log->newest].newer = chunk;
        else
            log->oldest = chunk;
        log->newest = chunk;
        log->end = 0;
    }
    pool->chunks[log->newest].when[log->end] = now;
    pool->chunks[log->newest].cost[log->end] = (uint16_t)cost;
    log->end++;
}

static void drop_newest(struct cdl_log *log, struct cdl_log_pool *pool)
{
    if (log->newest == log->oldest && log->end == log->begin + 1) {
        cdl_log_clear(log, pool);
    } else if (--log->end == 0) {
        uint32_t chunk = log->newest;
        log->newest = pool->chunks[chunk].older;
        pool->chunks[log->newest].newer = 0;
        log->end = CDL_LOG_CHUNK_ENTRIES;
        free_chunk(pool, chunk);
    }
}

/* Gives back up to `tokens`, newest entries first. */
static void give_back(struct cdl_log *log, struct cdl_log_pool *pool, uint64_t tokens)
{
    while (tokens > 0 && log->newest != 0) {
        uint16_t *cost = &pool->chunks[log->newest].cost[log->end - 1];
        uint16_t part = (uint16_t)cdl_min_u64(*cost, tokens);
        tokens -= part;
        log->total -= part;
        *cost = (uint16_t)(*cost - part);
        if (*cost == 0)
            drop_newest(log, pool);
    }
}

/* Takes one entry out of the middle: what is newer moves up by one. */
static void remove_at(struct cdl_log *log, struct cdl_log_pool *pool, struct place at)
{
    for (struct place next = following(pool, log, at); !at_end(log, next); next = following(pool, log, next)) {
        pool->chunks[at.chunk].when[at.entry] = pool->chunks[next.chunk].when[next.entry];
        pool->chunks[at.chunk].cost[at.entry] = pool->chunks[next.chunk].cost[next.entry];
        at = next;
    }
    drop_newest(log, pool);
}

/* The newest entry that is not newer than `when`; chunk 0: there is none. */
static struct place last_until(const struct cdl_log *log, const struct cdl_log_pool *pool, int64_t when)
{
    struct place last = {0, 0};
    for (struct place at = first(log); !at_end(log, at) && pool->chunks[at.chunk].when[at.entry] <= when;
         at = following(pool, log, at))
        last = at;
    return last;
}

/* Takes back a charge made at `charged_at`, from the entry of that instant, or of an earlier one that a caller whose clock was
 * behind has dated it back to. What others have written since keeps its own instants. */
static void undo(struct cdl_log *log, struct cdl_log_pool *pool, int64_t charged_at, uint64_t tokens)
{
    struct place at = last_until(log, pool, charged_at);
    while (tokens > 0 && at.chunk != 0) {
        const int64_t when = pool->chunks[at.chunk].when[at.entry];
        uint16_t *cost = &pool->chunks[at.chunk].cost[at.entry];
        const uint16_t part = (uint16_t)cdl_min_u64(*cost, tokens);
        tokens -= part;
        log->total -= part;
        *cost = (uint16_t)(*cost - part);
        if (*cost == 0)
            remove_at(log, pool, at);
        at = last_until(log, pool, when);
        if (at.chunk != 0 && pool->chunks[at.chunk].when[at.entry] != when)
            break;
    }
}

static bool change(const struct cdl_log_rule *rule, int64_t now, struct cdl_log *log, struct cdl_log_pool *pool,
                   const struct cdl_question *question, struct caudal_decision *decision)
{
    /* The `now` of an undo is an old one: what others have written since keeps its instant. */
    if (question->operation != CDL_UNDO) {
        uint64_t used;
        struct place from = live(rule, now, log, pool, &used);
        tidy(log, pool, now, from, used);
    }
    switch (question->operation) {
    case CDL_TAKE:
        append(log, pool, now, decision->granted);
        break;
    case CDL_REFUND:
        give_back(log, pool, question->maximum);
        break;
    case CDL_UNDO:
        undo(log, pool, question->charged_monotonic_ns, question->maximum);
        break;
    case CDL_PEEK:
    case CDL_SETTLE:
    case CDL_RESET:
        break;
    }
    return true;
}

bool cdl_log_decide(const struct cdl_log_rule *rule, int64_t now, struct cdl_log *log, struct cdl_log_pool *pool,
                    const struct cdl_question *question, struct caudal_decision *decision)
{
    const bool giving_back = question->operation == CDL_REFUND || question->operation == CDL_UNDO;
    bool changed = giving_back && log->newest != 0 && change(rule, now, log, pool, question, decision);
    uint64_t used;
    struct place from = live(rule, now, log, pool, &used);
    const uint64_t available = used > rule->count ? 0 : rule->count - used;
    const uint64_t wanted = giving_back ? 0 : question->minimum;

    decision->capacity = rule->count;
    decision->granted = 0;
    decision->remaining = available;
    decision->retry_after_ns = 0;
    decision->reset_after_ns = newest_time_left(rule, now, log, pool, from);
    if (giving_back || (wanted <= available && used <= rule->count)) {
        uint64_t granted = giving_back ? 0 : cdl_grant(question, available);
        decision->verdict = CAUDAL_ALLOW;
        decision->remaining = available - granted;
        if (granted > 0)
            decision->reset_after_ns = rule->period_ns;
        if (question->operation == CDL_TAKE && granted > 0) {
            decision->granted = granted;
            changed = change(rule, now, log, pool, question, decision);
        }
    } else if (wanted > rule->count) {
        decision->verdict = CAUDAL_NEVER;
        decision->retry_after_ns = -1;
    } else {
        decision->verdict = CAUDAL_DENY;
        decision->retry_after_ns = wait_for(rule, now, log, pool, from, used + wanted - rule->count);
    }
    return changed;
}

int64_t cdl_log_time_to_empty(const struct cdl_log_rule *rule, int64_t now, const struct cdl_log *log,
                              const struct cdl_log_pool *pool)
{
    uint64_t used;
    return newest_time_left(rule, now, log, pool, live(rule, now, log, pool, &used));
}
