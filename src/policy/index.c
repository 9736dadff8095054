#include "policy/index.h"

/* What a rule asks of one thing, if it can be filed by it: one of some values, or of some first segments of a path. */
struct demand {
    const struct cdl_identity *what;
    const struct cdl_pattern *any_of;
    const struct cdl_path_pattern *template; /* instead of any_of */
    size_t count;
};

#define DEMANDS_MAX (CDL_CONDITIONS_MAX + CDL_PER_MAX)

/* The rules that an index is about. */
struct subject {
    const struct cdl_policy *policy;
    bool limits; /* else exemptions */
    uint32_t count;
};

struct build {
    struct subject subject;
    struct cdl_index *index;
    struct cdl_arena *scratch;
    struct cdl_lookup counter_of; /* from a value's hash to the number of its counter */
    uint32_t *counters;           /* how many rules demand that value */
    uint32_t counter_count;
};

static const struct cdl_identity path_identity = {.kind = CDL_IDENTITY_PATH, .text = {"path", 4}, .name = {"", 0}};

/* ---- demands ---- */

static const struct cdl_rule *rule_at(const struct subject *subject, uint32_t i)
{
    return subject->limits ? &subject->policy->limits[i].when : &subject->policy->exemptions[i];
}

static bool is_fileable(const struct cdl_condition *condition)
{
    bool path = condition->what.kind == CDL_IDENTITY_PATH;
    for (size_t i = 0; i < condition->count; i++) {
        const struct cdl_pattern *pattern = &condition->any_of[i];
        if (path ? pattern->path.literal_depth == 0 : pattern->kind != CDL_PATTERN_EXACT)
            return false;
    }
    return true;
}

static size_t demands_of(const struct subject *subject, uint32_t i, struct demand demands[DEMANDS_MAX])
{
    const struct cdl_rule *rule = rule_at(subject, i);
    size_t count = 0;
    for (size_t j = 0; j < rule->count; j++) {
        const struct cdl_condition *condition = &rule->conditions[j];
        if (is_fileable(condition))
            demands[count++] = (struct demand){&condition->what, condition->any_of, NULL, condition->count};
    }
    if (!subject->limits)
        return count;
    const struct cdl_limit_rule *limit = &subject->policy->limits[i];
    for (uint32_t j = 0; j < limit->per_count; j++) {
        const struct cdl_path_pattern *template = &limit->per[j].template;
        if (limit->per[j].kind == CDL_IDENTITY_TEMPLATE && template->literal_depth > 0)
            demands[count++] = (struct demand){&path_identity, NULL, template, 1};
    }
    return count;
}

/* The first `depth` segments. */
static struct cdl_slice prefix_of(const struct cdl_path_pattern *pattern, uint32_t depth)
{
    size_t length = 0;
    for (uint32_t i = 0; i < depth; i++)
        length += 1 + pattern->segments[i].text.length;
    return cdl_slice_head(pattern->text, length);
}

static uint32_t depth_of(const struct cdl_path_pattern *pattern)
{
    return pattern->literal_depth < CDL_INDEX_DEPTH_MAX ? pattern->literal_depth : CDL_INDEX_DEPTH_MAX;
}

/* ---- files ---- */

static uint64_t value_hash(uint32_t file, struct cdl_slice value)
{
    return cdl_lookup_hash(value, file + 1);
}

/* CDL_NONE when there are too many different things already. */
static uint32_t file_for(struct cdl_index *index, const struct cdl_identity *what)
{
    for (uint32_t i = 0; i < index->file_count; i++)
        if (cdl_identity_equal(&index->files[i].what, what))
            return i;
    if (index->file_count == CDL_INDEX_FILES_MAX)
        return CDL_NONE;
    index->files[index->file_count].what = *what;
    return index->file_count++;
}

static uint64_t demand_hash(const struct demand *demand, uint32_t file, size_t i)
{
    if (demand->what->kind != CDL_IDENTITY_PATH)
        return value_hash(file, demand->any_of[i].text);
    const struct cdl_path_pattern *pattern = demand->template != NULL ? demand->template : &demand->any_of[i].path;
    return value_hash(file, prefix_of(pattern, depth_of(pattern)));
}

static uint32_t *counter(struct build *build, uint64_t hash)
{
    const struct cdl_lookup_link *link = cdl_lookup_find(&build->counter_of, hash);
    if (link != NULL)
        return &build->counters[link->value];
    cdl_lookup_add(&build->counter_of, hash, build->counter_count);
    return &build->counters[build->counter_count++];
}

static void count_demands(struct build *build)
{
    struct demand demands[DEMANDS_MAX];
    for (uint32_t i = 0; i < build->subject.count; i++) {
        size_t count = demands_of(&build->subject, i, demands);
        for (size_t j = 0; j < count; j++) {
            uint32_t file = file_for(build->index, demands[j].what);
            for (size_t k = 0; file != CDL_NONE && k < demands[j].count; k++)
                ++*counter(build, demand_hash(&demands[j], file, k));
        }
    }
}

/* How many rules a request meets, at worst, that has one of the values of this demand. */
static uint32_t crowd(struct build *build, const struct demand *demand, uint32_t file)
{
    uint32_t most = 0;
    for (size_t i = 0; i < demand->count; i++) {
        uint32_t others = *counter(build, demand_hash(demand, file, i));
        most = others > most ? others : most;
    }
    return most;
}

static void file_rule(struct build *build, const struct demand *demand, uint32_t file, uint32_t rule)
{
    struct cdl_index *index = build->index;
    for (size_t i = 0; i < demand->count; i++) {
        cdl_lookup_add(&index->rules, demand_hash(demand, file, i), rule);
        if (demand->what->kind == CDL_IDENTITY_PATH)
            index->files[file].depths |= 1u << depth_of(demand->template != NULL ? demand->template
                                                                                 : &demand->any_of[i].path);
    }
}

/* Files a rule where fewest others are; false when it makes no demand that can be filed. */
static bool place_rule(struct build *build, uint32_t rule)
{
    struct demand demands[DEMANDS_MAX];
    const struct demand *best = NULL;
    uint32_t best_file = 0, least = UINT32_MAX;
    size_t count = demands_of(&build->subject, rule, demands);
    for (size_t i = 0; i < count; i++) {
        uint32_t file = file_for(build->index, demands[i].what);
        uint32_t others = file == CDL_NONE ? UINT32_MAX : crowd(build, &demands[i], file);
        if (others < least) {
            least = others;
            best = &demands[i];
            best_file = file;
        }
    }
    if (best != NULL)
        file_rule(build, best, best_file, rule);
    return best != NULL;
}

/* ---- building ---- */

static uint32_t count_values(const struct subject *subject)
{
    struct demand demands[DEMANDS_MAX];
    uint32_t values = 0;
    for (uint32_t i = 0; i < subject->count; i++) {
        size_t count = demands_of(subject, i, demands);
        for (size_t j = 0; j < count; j++)
            values += (uint32_t)demands[j].count;
    }
    return values;
}

static bool prepare(struct build *build, struct cdl_arena *arena, uint32_t **unfiled)
{
    uint32_t values = count_values(&build->subject);
    build->counters = cdl_arena_allocate(build->scratch, values, sizeof *build->counters);
    *unfiled = cdl_arena_allocate(arena, build->subject.count, sizeof **unfiled);
    return build->counters != NULL && *unfiled != NULL && cdl_lookup_init(&build->counter_of, build->scratch, values) &&
           cdl_lookup_init(&build->index->rules, arena, values);
}

static struct cdl_index *build_index(struct subject subject, struct cdl_arena *arena)
{
    struct cdl_arena scratch;
    cdl_arena_init(&scratch, arena->allocator);
    struct build build = {.subject = subject, .scratch = &scratch};
    build.index = cdl_arena_allocate(arena, 1, sizeof *build.index);
    uint32_t *unfiled;
    if (build.index != NULL && prepare(&build, arena, &unfiled)) {
        count_demands(&build);
        for (uint32_t i = 0; i < subject.count; i++) {
            const struct cdl_limit_rule *limit = subject.limits ? &subject.policy->limits[i] : NULL;
            const bool left_out = limit != NULL && (limit->mode == CDL_MODE_OFF || limit->kind != CDL_RULE_REQUEST);
            if (!left_out && !place_rule(&build, i))
                unfiled[build.index->unfiled_count++] = i;
        }
        build.index->unfiled = unfiled;
    }
    arena->failed = arena->failed || scratch.failed;
    cdl_arena_free(&scratch);
    return arena->failed ? NULL : build.index;
}

struct cdl_index *cdl_index_exemptions(const struct cdl_policy *policy, struct cdl_arena *arena)
{
    return build_index((struct subject){policy, false, policy->exemption_count}, arena);
}

struct cdl_index *cdl_index_limits(const struct cdl_policy *policy, struct cdl_arena *arena)
{
    return build_index((struct subject){policy, true, policy->limit_count}, arena);
}

/* ---- asking ---- */

static bool take_filed(const struct cdl_index *index, uint64_t hash, bool (*take)(void *context, uint32_t rule),
                       void *context)
{
    const struct cdl_lookup_link *link = cdl_lookup_find(&index->rules, hash);
    for (; link != NULL; link = cdl_lookup_next(&index->rules, link))
        if (!take(context, link->value))
            return false;
    return true;
}

static bool take_prefixes(const struct cdl_index *index, uint32_t file, struct cdl_slice path,
                          bool (*take)(void *context, uint32_t rule), void *context)
{
    size_t length = 0;
    for (uint32_t depth = 1; index->files[file].depths >> depth != 0 && length < path.length; depth++) {
        const char *slash = memchr(path.bytes + length + 1, '/', path.length - length - 1);
        length = slash == NULL ? path.length : (size_t)(slash - path.bytes);
        if ((index->files[file].depths >> depth & 1) != 0 &&
            !take_filed(index, value_hash(file, cdl_slice_head(path, length)), take, context))
            return false;
    }
    return true;
}

static bool take_values(const struct cdl_index *index, uint32_t file, struct cdl_view *view,
                        bool (*take)(void *context, uint32_t rule), void *context)
{
    size_t cursor = 0, before = view->scratch->length;
    struct cdl_slice value;
    bool more = true;
    while (more && cdl_view_next(view, &index->files[file].what, &cursor, &value))
        more = take_filed(index, value_hash(file, value), take, context);
    view->scratch->length = before; /* the value is not needed any more */
    return more;
}

void cdl_index_candidates(const struct cdl_index *index, struct cdl_view *view,
                          bool (*take)(void *context, uint32_t rule), void *context)
{
    for (uint32_t i = 0; i < index->unfiled_count; i++)
        if (!take(context, index->unfiled[i]))
            return;
    for (uint32_t i = 0; i < index->file_count; i++) {
        bool path = index->files[i].what.kind == CDL_IDENTITY_PATH;
        if (!(path ? take_prefixes(index, i, view->path, take, context) : take_values(index, i, view, take, context)))
            return;
    }
}
