#include "store/limits.h"

#include <assert.h>
#include <stddef.h>
#include <string.h>

struct cdl_limits *cdl_limits_open(const struct caudal_allocator *allocator)
{
    struct cdl_limits *limits = cdl_allocate(allocator, 1, sizeof *limits, 64);
    if (limits == NULL)
        return NULL;
    pthread_mutex_init(&limits->lock, NULL);
    for (uint32_t number = 1; number <= UINT16_MAX; number++)
        limits->free_numbers[limits->free_tail++] = (uint16_t)number;
    return limits;
}

void cdl_limits_close(struct cdl_limits *limits, const struct caudal_allocator *allocator)
{
    for (size_t i = 0; i < sizeof limits->blocks / sizeof limits->blocks[0]; i++)
        cdl_release(allocator, limits->blocks[i], CDL_SLOTS_PER_BLOCK, sizeof(struct cdl_limit_slot));
    pthread_mutex_destroy(&limits->lock);
    cdl_release(allocator, limits, 1, sizeof *limits);
}

void cdl_limit_publish(struct cdl_limit_slot *slot, const struct cdl_limit_view *view,
                       const struct cdl_limit_previous *previous)
{
    const uint32_t version = atomic_load_explicit(&slot->version, memory_order_relaxed);
    /* Release on every word: whoever reads one of them acquires the odd version before it, and will notice. */
    atomic_store_explicit(&slot->version, version + 1, memory_order_relaxed);
    uint64_t words[CDL_WORDS(struct cdl_limit_view)] = {0};
    memcpy(words, view, sizeof *view);
    for (size_t i = 0; i < CDL_WORDS(struct cdl_limit_view); i++)
        atomic_store_explicit(&slot->view[i], words[i], memory_order_release);
    if (previous != NULL) {
        uint64_t more[CDL_WORDS(struct cdl_limit_previous)] = {0};
        memcpy(more, previous, sizeof *previous);
        for (size_t i = 0; i < CDL_WORDS(struct cdl_limit_previous); i++)
            atomic_store_explicit(&slot->previous[i], more[i], memory_order_release);
    }
    atomic_store_explicit(&slot->version, version + 2, memory_order_release);
}

static uint32_t *name_bucket(struct cdl_limits *limits, const char *name)
{
    uint32_t hash = 2166136261u; /* FNV-1a: names come from the operator, not from clients */
    for (; *name != '\0'; name++)
        hash = (hash ^ (unsigned char)*name) * 16777619u;
    return &limits->names[hash % CDL_NAME_BUCKETS];
}

int64_t cdl_limits_by_name(const struct cdl_limits *limits, const char *name)
{
    uint32_t next = *name_bucket((struct cdl_limits *)(uintptr_t)limits, name);
    while (next != 0) {
        const struct cdl_limit_slot *slot = cdl_limits_slot(limits, next - 1);
        assert(slot != NULL); /* the chain links slots that are in use */
        if (strcmp(slot->name, name) == 0)
            return next - 1;
        next = slot->next;
    }
    return -1;
}

static bool make_block(struct cdl_limits *limits, const struct caudal_allocator *allocator, uint32_t index)
{
    const uint32_t block = index / CDL_SLOTS_PER_BLOCK;
    if (limits->blocks[block] != NULL)
        return true;
    struct cdl_limit_slot *slots = cdl_allocate(allocator, CDL_SLOTS_PER_BLOCK, sizeof *slots, 64);
    if (slots == NULL)
        return false;
    atomic_store_explicit(&limits->blocks[block], slots, memory_order_release);
    return true;
}

struct cdl_limit_slot *cdl_limits_add(struct cdl_limits *limits, const struct caudal_allocator *allocator,
                                      const char *name, uint32_t *id, int *status)
{
    *status = CAUDAL_ERR_FULL;
    if (limits->count == CDL_LIMITS_MAX)
        return NULL;
    const bool reuse = limits->free_slot_count > 0;
    const uint32_t index = reuse ? limits->free_slots[limits->free_slot_count - 1] : limits->slots_used;
    *status = CAUDAL_ERR_MEMORY;
    if (!make_block(limits, allocator, index))
        return NULL;
    if (reuse)
        limits->free_slot_count--;
    else
        limits->slots_used++;
    limits->count++;

    struct cdl_limit_slot *slot = cdl_limits_slot(limits, index);
    slot->generation = slot->generation == UINT16_MAX ? 1 : slot->generation + 1;
    memcpy(slot->name, name, strlen(name) + 1);
    uint32_t *bucket = name_bucket(limits, name);
    slot->next = *bucket;
    *bucket = index + 1;
    *id = slot->generation << 16 | index;
    *status = CAUDAL_OK;
    return slot;
}

void cdl_limits_remove(struct cdl_limits *limits, struct cdl_limit_slot *slot, uint32_t id)
{
    const uint32_t index = id & UINT16_MAX;
    uint32_t *link = name_bucket(limits, slot->name);
    while (*link != index + 1)
        link = &cdl_limits_slot(limits, *link - 1)->next;
    *link = slot->next;
    slot->name[0] = '\0';
    limits->free_slots[limits->free_slot_count++] = (uint16_t)index;
    limits->count--;
}

uint16_t cdl_limits_take_number(struct cdl_limits *limits, uint32_t slot_index)
{
    if (limits->free_head == limits->free_tail)
        return 0;
    const uint16_t number = limits->free_numbers[limits->free_head++ & UINT16_MAX];
    atomic_store_explicit(&limits->owner[number], slot_index + 1, memory_order_release);
    return number;
}

void cdl_limits_free_number(struct cdl_limits *limits, uint16_t number)
{
    if (number == 0)
        return;
    atomic_store_explicit(&limits->owner[number], 0, memory_order_release);
    limits->free_numbers[limits->free_tail++ & UINT16_MAX] = number;
}

struct cdl_window_fields cdl_window_fields_make(int64_t period_ns, bool sliding)
{
    /* Indices of all instants from -2^63 to 2^63 - 1 ns, and one ahead, as signed numbers. */
    const uint64_t most = (UINT64_C(1) << 63) / (uint64_t)period_ns + 2;
    const uint32_t index_bits = 1 + 64 - (uint32_t)__builtin_clzll(most);
    if (index_bits >= 64)
        return (struct cdl_window_fields){.index_bits = 64, .count_bits = 0}; /* no room: such a window is wide */
    const uint32_t rest = 64 - index_bits;
    return (struct cdl_window_fields){index_bits, sliding ? rest / 2 : rest};
}
