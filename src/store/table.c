#include "store/table.h"

/* Bytes of lines for a key: at 16 bytes an entry, 76 % of the entries are in use when the table is as full as it was opened
 * for. With two lines of four to choose from, about one key in seventy then finds both full. */
#define BYTES_PER_KEY 21u
#define STRIPES_MAX 1024u
#define KEYS_PER_STRIPE 64u

bool cdl_table_open(struct cdl_table *table, uint64_t keys, const struct caudal_allocator *allocator)
{
    uint64_t lines = (keys * BYTES_PER_KEY + sizeof(struct cdl_table_line) - 1) / sizeof(struct cdl_table_line);
    table->line_count = lines < 2 ? 2 : lines;
    table->stripe_count = 1;
    while (table->stripe_count < STRIPES_MAX && (uint64_t)table->stripe_count * KEYS_PER_STRIPE < keys)
        table->stripe_count *= 2;
    table->lines = cdl_allocate(allocator, table->line_count, sizeof *table->lines, sizeof *table->lines);
    table->stripes = cdl_allocate(allocator, table->stripe_count, sizeof *table->stripes, sizeof *table->stripes);
    if (table->lines == NULL || table->stripes == NULL) {
        cdl_release(allocator, table->lines, table->line_count, sizeof *table->lines);
        cdl_release(allocator, table->stripes, table->stripe_count, sizeof *table->stripes);
        return false;
    }
    for (uint32_t i = 0; i < table->stripe_count; i++)
        pthread_mutex_init(&table->stripes[i].lock, NULL);
    return true;
}

void cdl_table_close(struct cdl_table *table, const struct caudal_allocator *allocator)
{
    for (uint32_t i = 0; i < table->stripe_count; i++)
        pthread_mutex_destroy(&table->stripes[i].lock);
    cdl_release(allocator, table->lines, table->line_count, sizeof *table->lines);
    cdl_release(allocator, table->stripes, table->stripe_count, sizeof *table->stripes);
}

/* The entry to overwrite: of the line that has more room, an empty entry before one that does not matter any more (which is no
 * worse to the decisions, but its key may come back and would find it); without room, the one with the least time left. */
#define EMPTY (-1)

struct choice {
    struct cdl_pair *at;
    struct cdl_pair was;
    int64_t time_left;
    int room; /* of its line: empty entries and those that do not matter */
};

static struct choice choose_in(struct cdl_table_line *line, const struct cdl_table_judge *judge)
{
    struct choice best = {.at = NULL};
    int room = 0;
    for (int i = 0; i < CDL_LINE_ENTRIES; i++) {
        struct cdl_pair *at = &line->entries[i];
        struct cdl_pair was = cdl_pair_load(at);
        int64_t left = was.first == 0 ? EMPTY : judge->time_left(judge->context, was.first, was.second);
        room += left <= 0;
        if (best.at == NULL || left < best.time_left)
            best = (struct choice){.at = at, .was = was, .time_left = left};
    }
    best.room = room;
    return best;
}

static struct choice choose(const struct cdl_table_place *place, const struct cdl_table_judge *judge)
{
    const struct choice first = choose_in(place->lines[0], judge), second = choose_in(place->lines[1], judge);
    if (first.room != second.room)
        return first.room > second.room ? first : second;
    return first.time_left <= second.time_left ? first : second;
}

void cdl_table_claim(const struct cdl_table_place *place, struct cdl_pair entry, const struct cdl_table_judge *judge)
{
    struct choice choice;
    do
        choice = choose(place, judge);
    while (!cdl_pair_swap(choice.at, choice.was, entry));
    place->stripe->inserted++;
    place->stripe->live_evictions += choice.time_left > 0;
}

void cdl_table_lock_all(struct cdl_table *table)
{
    for (uint32_t i = 0; i < table->stripe_count; i++)
        pthread_mutex_lock(&table->stripes[i].lock);
}

void cdl_table_unlock_all(struct cdl_table *table)
{
    for (uint32_t i = 0; i < table->stripe_count; i++)
        pthread_mutex_unlock(&table->stripes[i].lock);
}

void cdl_table_sweep(struct cdl_table *table, uint16_t number, cdl_table_revise revise, void *context)
{
    for (uint64_t i = 0; i < table->line_count; i++) {
        for (int j = 0; j < CDL_LINE_ENTRIES; j++) {
            struct cdl_pair *at = &table->lines[i].entries[j];
            while ((uint16_t)cdl_pair_peek_first(at) == number) {
                struct cdl_pair was = cdl_pair_load(at);
                if ((uint16_t)was.first != number)
                    break;
                struct cdl_pair is = revise(context, was);
                if ((is.first == was.first && is.second == was.second) || cdl_pair_swap(at, was, is))
                    break;
            }
        }
    }
}

void cdl_table_count(struct cdl_table *table, const struct cdl_table_judge *judge, uint64_t *live, uint64_t *inserted,
                     uint64_t *live_evictions)
{
    for (uint64_t i = 0; i < table->line_count; i++) {
        for (int j = 0; j < CDL_LINE_ENTRIES; j++) {
            struct cdl_pair was = cdl_pair_load(&table->lines[i].entries[j]);
            *live += was.first != 0 && judge->time_left(judge->context, was.first, was.second) > 0;
        }
    }
    for (uint32_t i = 0; i < table->stripe_count; i++) {
        pthread_mutex_lock(&table->stripes[i].lock);
        *inserted += table->stripes[i].inserted;
        *live_evictions += table->stripes[i].live_evictions;
        pthread_mutex_unlock(&table->stripes[i].lock);
    }
}
