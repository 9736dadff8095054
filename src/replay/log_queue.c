#include "replay/log_queue.h"

#include "base/memory.h"

#define CHUNK_BYTES ((size_t)1 << 18)
#define ALIGNMENT ((size_t)8)

struct cdl_log_chunk {
    struct cdl_log_chunk *next; /* that is free, too */
    size_t size, used;          /* with this head */
    size_t live;                /* entries in it that were not dropped */
};

/* Behind the head stand the lengths of all slices, the headers' last, then their bytes. */
struct cdl_log_entry {
    struct cdl_log_chunk *chunk;
    int64_t instant_ns, duration_ns, bytes;
    uint64_t line;
    uint32_t source;
    uint32_t resolution_ns;
    uint16_t status;
    uint16_t header_count;
    uint32_t lengths[];
};

#define PARTS 5u /* slices of a record beside its headers */
_Static_assert(CDL_ACCESS_HEADERS_MAX <= UINT16_MAX, "the number of headers is kept in 16 bits");

/* ---- entries ---- */

static void list_parts(const struct cdl_access_record *record, struct cdl_slice parts[PARTS])
{
    parts[0] = record->client;
    parts[1] = record->method;
    parts[2] = record->target;
    parts[3] = record->host;
    parts[4] = record->user;
}

static size_t entry_bytes(const struct cdl_access_record *record)
{
    struct cdl_slice parts[PARTS];
    size_t bytes = sizeof(struct cdl_log_entry) + (PARTS + 2 * record->header_count) * sizeof(uint32_t);
    list_parts(record, parts);
    for (size_t i = 0; i < PARTS; i++)
        bytes += parts[i].length;
    for (size_t i = 0; i < record->header_count; i++)
        bytes += record->headers[i].name.length + record->headers[i].value.length;
    return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

static char *append(char *at, uint32_t *length, struct cdl_slice slice)
{
    *length = (uint32_t)slice.length;
    if (slice.length > 0)
        memcpy(at, slice.bytes, slice.length);
    return at + slice.length;
}

static void fill_in(struct cdl_log_entry *entry, const struct cdl_access_record *record, struct cdl_log_place place)
{
    struct cdl_slice parts[PARTS];
    uint32_t *length = entry->lengths;
    char *at = (char *)(entry->lengths + PARTS + 2 * record->header_count);
    entry->instant_ns = record->instant_ns;
    entry->duration_ns = record->duration_ns;
    entry->bytes = record->bytes;
    entry->line = place.line;
    entry->source = place.source;
    entry->resolution_ns = (uint32_t)record->resolution_ns;
    entry->status = (uint16_t)record->status;
    entry->header_count = (uint16_t)record->header_count;
    list_parts(record, parts);
    for (size_t i = 0; i < PARTS; i++)
        at = append(at, length++, parts[i]);
    for (size_t i = 0; i < record->header_count; i++) {
        at = append(at, length++, record->headers[i].name);
        at = append(at, length++, record->headers[i].value);
    }
}

static struct cdl_slice take(const char **at, uint32_t length)
{
    const struct cdl_slice slice = {*at, length};
    *at += length;
    return slice;
}

struct cdl_log_place cdl_log_entry_read(const struct cdl_log_entry *entry, struct cdl_access_record *record)
{
    const uint32_t *length = entry->lengths;
    const char *at = (const char *)(entry->lengths + PARTS + 2 * (size_t)entry->header_count);
    record->instant_ns = entry->instant_ns;
    record->resolution_ns = entry->resolution_ns;
    record->duration_ns = entry->duration_ns;
    record->bytes = entry->bytes;
    record->status = entry->status;
    record->client = take(&at, *length++);
    record->method = take(&at, *length++);
    record->target = take(&at, *length++);
    record->host = take(&at, *length++);
    record->user = take(&at, *length++);
    record->header_count = entry->header_count;
    for (size_t i = 0; i < record->header_count; i++) {
        record->headers[i].name = take(&at, *length++);
        record->headers[i].value = take(&at, *length++);
    }
    return (struct cdl_log_place){entry->line, entry->source};
}

/* ---- chunks ---- */

static void release_chunk(struct cdl_log_queue *queue, struct cdl_log_chunk *chunk)
{
    cdl_release(queue->allocator, chunk, 1, chunk->size);
}

/* A chunk with nothing in it: to be used again, unless it was made for one large entry. */
static void retire(struct cdl_log_queue *queue, struct cdl_log_chunk *chunk)
{
    queue->bytes -= chunk->size;
    if (chunk->size != CHUNK_BYTES) {
        release_chunk(queue, chunk);
        return;
    }
    chunk->next = queue->free;
    queue->free = chunk;
}

/* A chunk that has room for so much becomes the current one. The last one is retired with its last entry. */
static bool next_chunk(struct cdl_log_queue *queue, size_t bytes)
{
    const size_t needed = sizeof(struct cdl_log_chunk) + bytes, size = needed > CHUNK_BYTES ? needed : CHUNK_BYTES;
    struct cdl_log_chunk *chunk = size == CHUNK_BYTES ? queue->free : NULL;
    if (chunk != NULL)
        queue->free = chunk->next;
    else if ((chunk = cdl_allocate(queue->allocator, 1, size, 64)) == NULL)
        return false;
    *chunk = (struct cdl_log_chunk){.size = size, .used = sizeof *chunk};
    queue->bytes += size;
    struct cdl_log_chunk *last = queue->current;
    queue->current = chunk;
    if (last != NULL && last->live == 0)
        retire(queue, last);
    return true;
}

static struct cdl_log_entry *cut_off(struct cdl_log_queue *queue, size_t bytes)
{
    struct cdl_log_chunk *chunk = queue->current;
    if (chunk == NULL || chunk->size - chunk->used < bytes) {
        if (!next_chunk(queue, bytes))
            return NULL;
        chunk = queue->current;
    }
    struct cdl_log_entry *entry = (void *)((char *)chunk + chunk->used);
    chunk->used += bytes;
    chunk->live++;
    entry->chunk = chunk;
    return entry;
}

void cdl_log_queue_drop(struct cdl_log_queue *queue, struct cdl_log_entry *entry)
{
    struct cdl_log_chunk *chunk = entry->chunk;
    if (--chunk->live > 0)
        return;
    if (chunk != queue->current)
        retire(queue, chunk);
    else
        chunk->used = sizeof *chunk;
}

/* ---- both lists ---- */

static bool is_before(const struct cdl_log_rank *a, const struct cdl_log_rank *b)
{
    return a->instant_ns != b->instant_ns ? a->instant_ns < b->instant_ns : a->number < b->number;
}

/* Makes room for one more. What stood in a ring stands in order afterwards. */
static bool make_room(struct cdl_log_queue *queue, struct cdl_log_list *list)
{
    if (list->count < list->room)
        return true;
    const size_t room = list->room == 0 ? 256 : 2 * list->room;
    struct cdl_log_rank *ranks = cdl_allocate(queue->allocator, room, sizeof *ranks, 64);
    if (ranks == NULL)
        return false;
    for (size_t i = 0; i < list->count; i++)
        ranks[i] = list->ranks[(list->first + i) & (list->room - 1)];
    if (list->ranks != NULL)
        cdl_release(queue->allocator, list->ranks, list->room, sizeof *ranks);
    queue->bytes += (room - list->room) * sizeof *ranks;
    *list = (struct cdl_log_list){ranks, room, 0, list->count};
    return true;
}

static struct cdl_log_rank *last_of(const struct cdl_log_list *ring)
{
    return &ring->ranks[(ring->first + ring->count - 1) & (ring->room - 1)];
}

static void append_to_ring(struct cdl_log_list *ring, struct cdl_log_rank rank)
{
    ring->count++;
    *last_of(ring) = rank;
}

static struct cdl_log_rank take_from_ring(struct cdl_log_list *ring)
{
    const struct cdl_log_rank rank = ring->ranks[ring->first];
    ring->first = (ring->first + 1) & (ring->room - 1);
    ring->count--;
    return rank;
}

static void add_to_heap(struct cdl_log_list *heap, struct cdl_log_rank rank)
{
    size_t at = heap->count++;
    for (; at > 0 && is_before(&rank, &heap->ranks[(at - 1) / 2]); at = (at - 1) / 2)
        heap->ranks[at] = heap->ranks[(at - 1) / 2];
    heap->ranks[at] = rank;
}

static struct cdl_log_rank take_from_heap(struct cdl_log_list *heap)
{
    const struct cdl_log_rank top = heap->ranks[0], rank = heap->ranks[--heap->count];
    size_t at = 0;
    for (size_t child; (child = 2 * at + 1) < heap->count; at = child) {
        if (child + 1 < heap->count && is_before(&heap->ranks[child + 1], &heap->ranks[child]))
            child++;
        if (!is_before(&heap->ranks[child], &rank))
            break;
        heap->ranks[at] = heap->ranks[child];
    }
    heap->ranks[at] = rank;
    return top;
}

static bool heap_is_next(const struct cdl_log_queue *queue)
{
    if (queue->late.count == 0 || queue->ordered.count == 0)
        return queue->ordered.count == 0;
    return is_before(&queue->late.ranks[0], &queue->ordered.ranks[queue->ordered.first]);
}

/* ---- the queue ---- */

void cdl_log_queue_init(struct cdl_log_queue *queue, const struct caudal_allocator *allocator)
{
    *queue = (struct cdl_log_queue){.allocator = allocator};
}

bool cdl_log_queue_push(struct cdl_log_queue *queue, const struct cdl_access_record *record, struct cdl_log_place place)
{
    struct cdl_log_list *ring = &queue->ordered;
    const bool is_ordered = ring->count == 0 || record->instant_ns >= last_of(ring)->instant_ns;
    if (!make_room(queue, is_ordered ? ring : &queue->late))
        return false;
    struct cdl_log_entry *entry = cut_off(queue, entry_bytes(record));
    if (entry == NULL)
        return false;
    fill_in(entry, record, place);
    const struct cdl_log_rank rank = {record->instant_ns, queue->number++, entry};
    if (is_ordered)
        append_to_ring(ring, rank);
    else
        add_to_heap(&queue->late, rank);
    return true;
}

int64_t cdl_log_queue_first_ns(const struct cdl_log_queue *queue)
{
    return heap_is_next(queue) ? queue->late.ranks[0].instant_ns
                               : queue->ordered.ranks[queue->ordered.first].instant_ns;
}

struct cdl_log_entry *cdl_log_queue_pop(struct cdl_log_queue *queue)
{
    return heap_is_next(queue) ? take_from_heap(&queue->late).entry : take_from_ring(&queue->ordered).entry;
}

void cdl_log_queue_free(struct cdl_log_queue *queue)
{
    while (cdl_log_queue_count(queue) > 0)
        cdl_log_queue_drop(queue, cdl_log_queue_pop(queue));
    if (queue->current != NULL)
        release_chunk(queue, queue->current);
    for (struct cdl_log_chunk *chunk = queue->free, *next; chunk != NULL; chunk = next) {
        next = chunk->next;
        release_chunk(queue, chunk);
    }
    if (queue->ordered.ranks != NULL)
        cdl_release(queue->allocator, queue->ordered.ranks, queue->ordered.room, sizeof(struct cdl_log_rank));
    if (queue->late.ranks != NULL)
        cdl_release(queue->allocator, queue->late.ranks, queue->late.room, sizeof(struct cdl_log_rank));
    *queue = (struct cdl_log_queue){.allocator = queue->allocator};
}
