/* Two policies on the same requests, and the clients whom it matters to which. */
#include <string.h>

#include "base/memory.h"
#include "replay/replay_parts.h"

struct cdl_compare {
    const struct caudal_allocator *allocator;
    struct cdl_book clients;
    uint64_t both_admit, both_refuse, first_only, second_only;
};

struct sides {
    uint64_t requests, by_first, by_second;
    uint64_t changed; /* requests on which both differ */
};

struct cdl_compare *cdl_compare_open(uint64_t clients_max, const struct caudal_allocator *allocator)
{
    if (allocator == NULL)
        allocator = cdl_allocator_default();
    struct cdl_compare *compare = cdl_allocate(allocator, 1, sizeof *compare, 64);
    if (compare == NULL)
        return NULL;
    compare->allocator = allocator;
    if (cdl_book_init(&compare->clients, clients_max, allocator))
        return compare;
    cdl_compare_close(compare);
    return NULL;
}

void cdl_compare_close(struct cdl_compare *compare)
{
    if (compare == NULL)
        return;
    cdl_book_free(&compare->clients);
    cdl_release(compare->allocator, compare, 1, sizeof *compare);
}

static void count_both(struct cdl_compare *compare, bool first, bool second)
{
    if (first && second)
        compare->both_refuse++;
    else if (first)
        compare->first_only++;
    else if (second)
        compare->second_only++;
    else
        compare->both_admit++;
}

bool cdl_compare_note(struct cdl_compare *compare, const struct cdl_replay_decision *first,
                      const struct cdl_replay_decision *second)
{
    const bool by_first = first->verdict == CDL_REPLAY_REFUSED, by_second = second->verdict == CDL_REPLAY_REFUSED;
    const struct cdl_slice client = {(const char *)&first->client, sizeof first->client};
    struct cdl_book_entry *entry;
    count_both(compare, by_first, by_second);
    const enum cdl_book_result result = cdl_book_find(&compare->clients, 0, client, sizeof(struct sides), &entry);
    if (result == CDL_BOOK_NO_MEMORY)
        return false;
    if (result == CDL_BOOK_FULL)
        return true;
    struct sides *sides = cdl_book_state(entry);
    sides->requests++;
    sides->by_first += by_first;
    sides->by_second += by_second;
    sides->changed += by_first != by_second;
    return true;
}

static bool is_before(void *a, void *b)
{
    const struct sides *x = cdl_book_state(a), *y = cdl_book_state(b);
    if (x->changed != y->changed)
        return x->changed > y->changed;
    return memcmp(cdl_book_key(a).bytes, cdl_book_key(b).bytes, sizeof(struct cdl_address)) < 0;
}

static void tell_client(struct cdl_comparison *comparison, struct cdl_book_entry *entry)
{
    const struct sides *sides = cdl_book_state(entry);
    comparison->clients[comparison->client_count++] = (struct cdl_comparison_client){
        cdl_replay_client_text(&comparison->arena, entry), sides->requests, sides->by_first, sides->by_second};
}

int cdl_compare_report(const struct cdl_compare *compare, struct cdl_comparison *comparison)
{
    void *list[CDL_REPLAY_KEYS];
    size_t count = 0, cursor = 0;
    *comparison = (struct cdl_comparison){.both_admit = compare->both_admit,
                                          .both_refuse = compare->both_refuse,
                                          .first_only_refuses = compare->first_only,
                                          .second_only_refuses = compare->second_only};
    cdl_arena_init(&comparison->arena, compare->allocator);
    for (struct cdl_book_entry *entry; (entry = cdl_book_next(&compare->clients, &cursor)) != NULL;) {
        const struct sides *sides = cdl_book_state(entry);
        comparison->clients_refused_by_both += sides->by_first > 0 && sides->by_second > 0;
        comparison->clients_refused_by_first += sides->by_first > 0 && sides->by_second == 0;
        comparison->clients_refused_by_second += sides->by_first == 0 && sides->by_second > 0;
        if (sides->changed > 0)
            count = cdl_keep_most(list, CDL_REPLAY_KEYS, count, entry, is_before);
    }
    comparison->clients = cdl_arena_allocate(&comparison->arena, count, sizeof *comparison->clients);
    for (size_t i = 0; i < count && comparison->clients != NULL; i++)
        tell_client(comparison, list[i]);
    if (!comparison->arena.failed)
        return CAUDAL_OK;
    cdl_comparison_free(comparison);
    return CAUDAL_ERR_MEMORY;
}

void cdl_comparison_free(struct cdl_comparison *comparison)
{
    cdl_arena_free(&comparison->arena);
}
