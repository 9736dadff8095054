#include "metrics/hits.h"

#include <pthread.h>
#include <stdlib.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/memory.h"

#define DROPPED CDL_HIT_KINDS /* the cell of requests whose values have no series */
#define CELLS 8u
#define NONE UINT32_MAX

_Static_assert(CELLS * sizeof(cdl_cell) == CDL_CACHE_LINE && DROPPED < CELLS,
               "a worker's part of a series is one line");

struct line {
    cdl_cell of[CELLS];
} __attribute__((aligned(CDL_CACHE_LINE)));

/* A series for values. Written once, before its number is published. */
struct named {
    uint64_t hash;
    struct cdl_hits_labels labels;
};

struct cdl_hits_group {
    struct cdl_hits *hits;
    struct cdl_hits_labels labels;
    bool shows_values, from_the_start;
    uint32_t values;       /* series for values that it may have */
    _Atomic uint32_t used; /* those that it has: those below are published */
    struct named *named;
    uint32_t table_size;     /* a power of two, twice the values at least; 0: no values */
    _Atomic uint32_t *table; /* number of the series + 1, by its hash; 0: free */
    struct line *lines;      /* the group's own, then those for values; each has one for every worker */

    uint32_t holders; /* guarded by the lock, as all below */
    uint64_t hash;
    struct cdl_hits_group *next_of_hash;
};

struct cdl_hits {
    struct caudal_allocator allocator;
    struct cdl_hits_options options;
    struct cdl_hits_group *other; /* of the domain "other"; not among the groups */

    pthread_mutex_t naming; /* values that get their series */
    pthread_mutex_t lock;   /* acquiring, releasing and exposing; never counting */
    struct cdl_hits_group **groups;
    struct cdl_hits_group **heads; /* by hash, as many as groups */
    uint32_t group_count;
    uint32_t unheld;        /* groups that nobody holds */
    uint32_t unheld_values; /* and their values */
    uint32_t hand;          /* where the search for one goes on */
    uint32_t values_left;   /* of options.all_values */
    uint64_t moved[CELLS];  /* counts of groups that are gone */
    uint64_t rules_dropped; /* groups that could not be had */
};

/* ---- Labels ---- */

void cdl_hits_label(struct cdl_hits_labels *labels, struct cdl_slice key, struct cdl_slice value)
{
    const size_t length = key.length + (value.length > 0 ? 1 + value.length : 0);
    if (length > CDL_HITS_LABELS_BYTES || labels->length + 2 + length > CDL_HITS_LABELS_BYTES ||
        labels->count == CDL_HITS_LABELS_MAX)
        labels->too_long = true;
    if (labels->too_long)
        return;
    char *at = labels->bytes + labels->length;
    *at++ = (char)(length >> 8);
    *at++ = (char)(length & 0xff);
    if (key.length > 0)
        memcpy(at, key.bytes, key.length);
    if (value.length > 0) {
        at[key.length] = '_';
        memcpy(at + key.length + 1, value.bytes, value.length);
    }
    labels->length = (uint16_t)(labels->length + 2 + length);
    labels->count++;
}

void cdl_hits_label_sent(struct cdl_hits_labels *labels, struct cdl_slice key, struct cdl_slice value)
{
    labels->too_long |= value.length > CDL_HITS_VALUE_BYTES;
    cdl_hits_label(labels, key, value);
}

static struct cdl_slice text_of(const struct cdl_hits_labels *labels)
{
    return (struct cdl_slice){labels->bytes, labels->length};
}

static bool same_labels(const struct cdl_hits_labels *a, const struct cdl_hits_labels *b)
{
    return cdl_slice_equal(text_of(a), text_of(b));
}

static uint64_t hash_of(const struct cdl_hits *hits, const struct cdl_hits_labels *labels)
{
    return XXH3_64bits_withSeed(labels->bytes, labels->length, hits->options.seed);
}

/* ---- A group's memory ---- */

static size_t line_count(const struct cdl_hits_group *group)
{
    return ((size_t)group->values + 1) * group->hits->options.workers;
}

static void close_group(struct cdl_hits_group *group)
{
    if (group == NULL)
        return;
    const struct caudal_allocator *allocator = &group->hits->allocator;
    cdl_release(allocator, group->lines, line_count(group), sizeof *group->lines);
    cdl_release(allocator, group->named, group->values, sizeof *group->named);
    cdl_release(allocator, (void *)group->table, group->table_size, sizeof *group->table);
    cdl_release(allocator, group, 1, sizeof *group);
}

static struct cdl_hits_group *open_group(struct cdl_hits *hits, const struct cdl_hits_labels *labels, uint32_t values)
{
    struct cdl_hits_group *group = cdl_allocate(&hits->allocator, 1, sizeof *group, CDL_CACHE_LINE);
    if (group == NULL)
        return NULL;
    group->hits = hits;
    group->labels = *labels;
    group->hash = hash_of(hits, labels);
    group->values = values;
    while (values > 0 && group->table_size < 2 * values)
        group->table_size = group->table_size == 0 ? 2 : group->table_size * 2;
    group->lines = cdl_allocate(&hits->allocator, line_count(group), sizeof *group->lines, CDL_CACHE_LINE);
    if (values > 0) {
        group->named = cdl_allocate(&hits->allocator, values, sizeof *group->named, CDL_CACHE_LINE);
        group->table = cdl_allocate(&hits->allocator, group->table_size, sizeof *group->table, CDL_CACHE_LINE);
    }
    if (group->lines == NULL || (values > 0 && (group->named == NULL || group->table == NULL))) {
        close_group(group);
        return NULL;
    }
    return group;
}

struct cdl_hits *cdl_hits_open(const struct cdl_hits_options *options, const struct caudal_allocator *allocator)
{
    if (options->workers == 0 || options->groups == 0 || options->groups > CDL_HITS_GROUPS_MAX)
        return NULL;
    struct cdl_hits *hits = cdl_allocate(allocator, 1, sizeof *hits, CDL_CACHE_LINE);
    if (hits == NULL)
        return NULL;
    hits->allocator = *allocator;
    hits->options = *options;
    hits->values_left = options->all_values;
    pthread_mutex_init(&hits->naming, NULL);
    pthread_mutex_init(&hits->lock, NULL);
    struct cdl_hits_labels labels;
    cdl_hits_labels_begin(&labels);
    cdl_hits_label(&labels, CDL_SLICE(CDL_HITS_OTHER), CDL_SLICE(""));
    hits->other = open_group(hits, &labels, 0);
    hits->groups = cdl_allocate(allocator, options->groups, sizeof(struct cdl_hits_group *), CDL_CACHE_LINE);
    hits->heads = cdl_allocate(allocator, options->groups, sizeof(struct cdl_hits_group *), CDL_CACHE_LINE);
    if (hits->other == NULL || hits->groups == NULL || hits->heads == NULL) {
        cdl_hits_close(hits);
        return NULL;
    }
    return hits;
}

void cdl_hits_close(struct cdl_hits *hits)
{
    if (hits == NULL)
        return;
    const struct caudal_allocator allocator = hits->allocator;
    for (uint32_t i = 0; hits->groups != NULL && i < hits->group_count; i++)
        close_group(hits->groups[i]);
    close_group(hits->other);
    cdl_release(&allocator, (void *)hits->groups, hits->options.groups, sizeof(struct cdl_hits_group *));
    cdl_release(&allocator, (void *)hits->heads, hits->options.groups, sizeof(struct cdl_hits_group *));
    pthread_mutex_destroy(&hits->naming);
    pthread_mutex_destroy(&hits->lock);
    cdl_release(&allocator, hits, 1, sizeof *hits);
}

/* ---- Counting ---- */

/* The number of the series of these labels, or NONE. What is found in the table was complete before it stood there. */
static uint32_t find_value(const struct cdl_hits_group *group, uint64_t hash, const struct cdl_hits_labels *labels,
                           size_t *at)
{
    const size_t mask = group->table_size - 1;
    for (*at = hash & mask;; *at = (*at + 1) & mask) {
        const uint32_t number = atomic_load_explicit(&group->table[*at], memory_order_acquire);
        if (number == 0)
            return NONE;
        const struct named *named = &group->named[number - 1];
        if (named->hash == hash && same_labels(&named->labels, labels))
            return number - 1;
    }
}

/* Gives these labels a series, unless another worker was faster or all are given; then NONE. */
static uint32_t name_value(struct cdl_hits_group *group, uint64_t hash, const struct cdl_hits_labels *labels)
{
    size_t at;
    pthread_mutex_lock(&group->hits->naming);
    const uint32_t used = atomic_load_explicit(&group->used, memory_order_relaxed);
    uint32_t number = find_value(group, hash, labels, &at);
    if (number == NONE && used < group->values) {
        number = used;
        group->named[number] = (struct named){hash, *labels};
        /* Release: who sees the number sees the name. */
        atomic_store_explicit(&group->table[at], number + 1, memory_order_release);
        atomic_store_explicit(&group->used, used + 1, memory_order_release);
    }
    pthread_mutex_unlock(&group->hits->naming);
    return number;
}

static uint32_t number_of(struct cdl_hits_group *group, const struct cdl_hits_labels *labels)
{
    size_t at;
    if (group->values == 0 || labels->too_long)
        return NONE;
    const uint64_t hash = hash_of(group->hits, labels);
    const uint32_t number = find_value(group, hash, labels, &at);
    const bool full = atomic_load_explicit(&group->used, memory_order_relaxed) == group->values;
    return number != NONE || full ? number : name_value(group, hash, labels);
}

bool cdl_hits_shows_values(const struct cdl_hits_group *group)
{
    return group->shows_values;
}

cdl_cell *cdl_hits_cells(struct cdl_hits_group *group, uint32_t worker, const struct cdl_hits_labels *labels)
{
    const uint32_t number = labels == NULL ? NONE : number_of(group, labels);
    cdl_cell *own = group->lines[worker].of;
    if (number != NONE)
        return group->lines[((size_t)number + 1) * group->hits->options.workers + worker].of;
    if (labels != NULL)
        cdl_cell_add(&own[DROPPED], 1);
    return own;
}

/* The sum over all workers of a group's own series (`number` NONE) or one for values. */
static void sum_lines(const struct cdl_hits_group *group, uint32_t number, uint64_t sum[CELLS])
{
    const uint32_t workers = group->hits->options.workers;
    const struct line *lines = group->lines + (number == NONE ? 0 : ((size_t)number + 1) * workers);
    for (uint32_t worker = 0; worker < workers; worker++)
        for (uint32_t i = 0; i < CELLS; i++)
            sum[i] += cdl_cell_read(&lines[worker].of[i]);
}

/* ---- Groups; all of these want the lock held ---- */

static struct cdl_hits_group **head_of(struct cdl_hits *hits, uint64_t hash)
{
    return &hits->heads[hash % hits->options.groups];
}

/* A rule that asks for values is another group than one of the same labels that does not. */
static struct cdl_hits_group *find_group(struct cdl_hits *hits, const struct cdl_hits_labels *labels, bool shows_values)
{
    struct cdl_hits_group *group = *head_of(hits, hash_of(hits, labels));
    while (group != NULL && (group->shows_values != shows_values || !same_labels(&group->labels, labels)))
        group = group->next_of_hash;
    return group;
}

/* Moves the counts of a group that nobody holds to "other", and frees it; its place among the groups is the last one's. */
static void retire(struct cdl_hits *hits, uint32_t at)
{
    struct cdl_hits_group *group = hits->groups[at];
    sum_lines(group, NONE, hits->moved);
    for (uint32_t i = 0; i < atomic_load_explicit(&group->used, memory_order_acquire); i++)
        sum_lines(group, i, hits->moved);
    struct cdl_hits_group **link = head_of(hits, group->hash);
    while (*link != group)
        link = &(*link)->next_of_hash;
    *link = group->next_of_hash;
    hits->groups[at] = hits->groups[--hits->group_count];
    hits->unheld--;
    hits->unheld_values -= group->values;
    hits->values_left += group->values;
    close_group(group);
}

/* Retires a group that nobody holds; of those with values where these are what is short. False: there is none. */
static bool retire_one(struct cdl_hits *hits, bool with_values)
{
    if (with_values ? hits->unheld_values == 0 : hits->unheld == 0)
        return false;
    const struct cdl_hits_group *group;
    do {
        hits->hand = hits->hand + 1 < hits->group_count ? hits->hand + 1 : 0;
        group = hits->groups[hits->hand];
    } while (group->holders > 0 || (with_values && group->values == 0));
    retire(hits, hits->hand);
    return true;
}

static void hold(struct cdl_hits *hits, struct cdl_hits_group *group)
{
    if (group->holders++ > 0 || group == hits->other)
        return;
    hits->unheld--;
    hits->unheld_values -= group->values;
}

static void let_go(struct cdl_hits *hits, struct cdl_hits_group *group)
{
    if (--group->holders > 0 || group == hits->other)
        return;
    hits->unheld++;
    hits->unheld_values += group->values;
}

static struct cdl_hits_group *add_group(struct cdl_hits *hits, const struct cdl_hits_labels *labels,
                                        struct cdl_hits_wish wish)
{
    if (labels->too_long || (hits->group_count == hits->options.groups && !retire_one(hits, false)))
        return NULL;
    while (hits->values_left < wish.values && retire_one(hits, true))
        continue;
    const uint32_t given = wish.values < hits->values_left ? wish.values : hits->values_left;
    struct cdl_hits_group *group = open_group(hits, labels, given);
    if (group == NULL)
        return NULL;
    group->shows_values = wish.values > 0;
    group->from_the_start = wish.from_the_start;
    hits->values_left -= given;
    hits->unheld++; /* until the caller holds it */
    hits->unheld_values += given;
    hits->groups[hits->group_count++] = group;
    struct cdl_hits_group **head = head_of(hits, group->hash);
    group->next_of_hash = *head;
    *head = group;
    return group;
}

struct cdl_hits_group *cdl_hits_acquire(struct cdl_hits *hits, const struct cdl_hits_labels *labels,
                                        struct cdl_hits_wish wish)
{
    pthread_mutex_lock(&hits->lock);
    if (wish.values > CDL_HITS_VALUES_MAX)
        wish.values = CDL_HITS_VALUES_MAX;
    struct cdl_hits_group *group = labels->too_long ? NULL : find_group(hits, labels, wish.values > 0);
    if (group == NULL)
        group = add_group(hits, labels, wish);
    if (group == NULL) {
        hits->rules_dropped++;
        group = hits->other;
    }
    hold(hits, group);
    pthread_mutex_unlock(&hits->lock);
    return group;
}

void cdl_hits_release(struct cdl_hits *hits, struct cdl_hits_group *group)
{
    pthread_mutex_lock(&hits->lock);
    let_go(hits, group);
    pthread_mutex_unlock(&hits->lock);
}

bool cdl_hits_in_use(struct cdl_hits *hits)
{
    pthread_mutex_lock(&hits->lock);
    const bool in_use = hits->group_count > 0 || hits->rules_dropped > 0;
    pthread_mutex_unlock(&hits->lock);
    return in_use;
}

/* ---- Looking ---- */

struct row {
    const struct cdl_hits_labels *labels;
    uint64_t of[CELLS];
};

struct rows {
    struct row *at;
    size_t count;
    uint64_t values_dropped;
};

static void add_row(struct rows *rows, const struct cdl_hits_group *group, uint32_t number)
{
    struct row *row = &rows->at[rows->count++];
    *row = (struct row){.labels = number == NONE ? &group->labels : &group->named[number].labels};
    sum_lines(group, number, row->of);
    rows->values_dropped += row->of[DROPPED];
}

/* The series of a group. */
static void add_group_rows(struct rows *rows, const struct cdl_hits_group *group)
{
    add_row(rows, group, NONE);
    if (!group->from_the_start && rows->at[rows->count - 1].of[CDL_HIT_TOTAL] == 0)
        rows->count--;
    const uint32_t used = atomic_load_explicit(&group->used, memory_order_acquire);
    for (uint32_t i = 0; i < used; i++)
        add_row(rows, group, i);
}

static void add_other_row(struct rows *rows, struct cdl_hits *hits)
{
    add_row(rows, hits->other, NONE);
    struct row *row = &rows->at[rows->count - 1];
    rows->values_dropped += hits->moved[DROPPED];
    for (uint32_t i = 0; i < CELLS; i++)
        row->of[i] += hits->moved[i];
    if (row->of[CDL_HIT_TOTAL] == 0)
        rows->count--;
}

static int compare_rows(const void *a, const void *b)
{
    const struct cdl_slice x = text_of(((const struct row *)a)->labels), y = text_of(((const struct row *)b)->labels);
    if (x.length != y.length)
        return x.length < y.length ? -1 : 1;
    return memcmp(x.bytes, y.bytes, x.length);
}

/* Makes one row of those that read alike. */
static void merge_rows(struct rows *rows)
{
    size_t kept = 0;
    qsort(rows->at, rows->count, sizeof *rows->at, compare_rows);
    for (size_t i = 0; i < rows->count; i++) {
        if (kept == 0 || compare_rows(&rows->at[kept - 1], &rows->at[i]) != 0) {
            rows->at[kept++] = rows->at[i];
            continue;
        }
        for (uint32_t j = 0; j < CELLS; j++)
            rows->at[kept - 1].of[j] += rows->at[i].of[j];
    }
    rows->count = kept;
}

/* False when memory is short. */
static bool collect_rows(struct cdl_hits *hits, struct rows *rows)
{
    size_t most = 1 + hits->group_count;
    for (uint32_t i = 0; i < hits->group_count; i++)
        most += hits->groups[i]->values;
    *rows = (struct rows){.at = malloc(most * sizeof *rows->at)};
    if (rows->at == NULL)
        return false;
    for (uint32_t i = 0; i < hits->group_count; i++)
        add_group_rows(rows, hits->groups[i]);
    add_other_row(rows, hits);
    merge_rows(rows);
    return true;
}

static const char *const label_names[CDL_HITS_LABELS_MAX] = {
    "domain", "key1",  "key2",  "key3",  "key4",  "key5",  "key6",  "key7",  "key8",  "key9",  "key10",
    "key11",  "key12", "key13", "key14", "key15", "key16", "key17", "key18", "key19", "key20", "key21",
    "key22",  "key23", "key24", "key25", "key26", "key27", "key28", "key29", "key30", "key31", "key32",
};

static void write_row(struct cdl_exposition *page, const struct row *row, enum cdl_hit kind)
{
    struct cdl_label labels[CDL_HITS_LABELS_MAX];
    const unsigned char *at = (const unsigned char *)row->labels->bytes;
    for (uint32_t i = 0; i < row->labels->count; i++) {
        const size_t length = (size_t)at[0] << 8 | at[1];
        labels[i] = (struct cdl_label){label_names[i], {(const char *)at + 2, length}};
        at += 2 + length;
    }
    cdl_exposition_u64(page, labels, row->labels->count, row->of[kind]);
}

static const struct {
    const char *name, *help;
    bool from_the_start;
} families[CDL_HIT_KINDS] = {
    [CDL_HIT_TOTAL] = {"ratelimit_service_rate_limit_total_hits", "Hits that a rule was asked about.", true},
    [CDL_HIT_WITHIN] = {"ratelimit_service_rate_limit_within_limit", "Hits that were spent.", true},
    [CDL_HIT_NEAR] = {"ratelimit_service_rate_limit_near_limit", "Hits that were spent beyond 80 % of the limit.",
                      false},
    [CDL_HIT_OVER] = {"ratelimit_service_rate_limit_over_limit",
                      "Hits that the limit refused, or would have where it does not refuse.", true},
    [CDL_HIT_OVER_CACHED] = {"ratelimit_service_rate_limit_over_limit_with_local_cache",
                             "Hits over the limit by a refusal that was remembered.", false},
    [CDL_HIT_SHADOW] = {"ratelimit_service_rate_limit_shadow_mode", "Hits over the limit that shadow_mode let pass.",
                        false},
};

static void write_dropped(struct cdl_exposition *page, uint64_t rules, uint64_t values)
{
    const struct cdl_label rule = {"what", CDL_SLICE("rule")}, value = {"what", CDL_SLICE("value")};
    cdl_exposition_family(
        page, CDL_METRIC_COUNTER, "caudal_descriptor_labels_dropped",
        "Times that a rule, or the values of a request, had to be counted as \"other\", being too many "
        "or too long.");
    cdl_exposition_u64(page, &rule, 1, rules);
    cdl_exposition_u64(page, &value, 1, values);
}

void cdl_hits_expose(struct cdl_hits *hits, struct cdl_exposition *page)
{
    struct rows rows;
    if (!cdl_hits_in_use(hits))
        return;
    pthread_mutex_lock(&hits->lock);
    if (collect_rows(hits, &rows)) {
        for (unsigned kind = 0; kind < CDL_HIT_KINDS; kind++) {
            cdl_exposition_family(page, CDL_METRIC_FOREIGN_COUNTER, families[kind].name, families[kind].help);
            for (size_t i = 0; i < rows.count; i++)
                if (families[kind].from_the_start || rows.at[i].of[kind] > 0)
                    write_row(page, &rows.at[i], (enum cdl_hit)kind);
        }
        write_dropped(page, hits->rules_dropped, rows.values_dropped);
        free(rows.at);
    } else {
        page->overflow = true; /* half of the counters would be a lie */
    }
    pthread_mutex_unlock(&hits->lock);
}
