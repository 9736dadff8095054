/* caudal explain --descriptor: the way of each descriptor through its domain, what limits it there, and what it is counted under. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "cli/explain.h"

/* The question, and all that is answered to it. */
struct descriptors {
    struct cdl_explaining *about;
    const struct cdl_command *command;
    const struct cdl_domain *domain; /* NULL: no file names it */
    struct cdl_descriptor list[CDL_DESCRIPTORS_MAX];
    struct cdl_descriptor_entry entries[CDL_DESCRIPTORS_MAX][CDL_DESCRIPTOR_ENTRIES_MAX];
    struct cdl_descriptor_request request;
    struct cdl_descriptor_result results[CDL_DESCRIPTORS_MAX];
    struct cdl_plan plan;
    char scratch[CDL_MATCH_SCRATCH_BYTES];
};

/* ---- command line ---- */

/* Takes a key up to '=' or a value up to ',', and what a backslash stands before for what it is. The rest of the text begins at that
 * separator, or is empty. */
static struct cdl_slice take_part(const char **text, char separator, char **memory)
{
    char *start = *memory;
    const char *at = *text;
    while (*at != '\0' && *at != separator) {
        if (*at == '\\' && at[1] != '\0')
            at++;
        *(*memory)++ = *at++;
    }
    *text = at;
    return (struct cdl_slice){start, (size_t)(*memory - start)};
}

/* "key=value,key=value" into entries, whose bytes lie in `memory`, which is as long as the text. */
static int read_descriptor(struct descriptors *all, const char *text, size_t index, char *memory)
{
    struct cdl_descriptor *descriptor = &all->list[index];
    const char *at = text;
    *descriptor = (struct cdl_descriptor){.entries = all->entries[index]};
    do {
        struct cdl_descriptor_entry *entry = &all->entries[index][descriptor->entry_count];
        if (descriptor->entry_count++ == CDL_DESCRIPTOR_ENTRIES_MAX)
            return cdl_usage_error(all->command, "--descriptor: more than %u entries in '%s'",
                                   CDL_DESCRIPTOR_ENTRIES_MAX, text);
        entry->key = take_part(&at, '=', &memory);
        if (entry->key.length == 0 || *at != '=')
            return cdl_usage_error(all->command, "--descriptor: expected KEY=VALUE,KEY=VALUE, found '%s'", text);
        at++;
        entry->value = take_part(&at, ',', &memory);
    } while (*at++ == ',');
    return 0;
}

static int find_domain(struct descriptors *all, const char *name)
{
    const struct cdl_policy *policy = all->about->policy;
    if (policy->domain_count == 0)
        return cdl_usage_error(all->command, "%s has no domain, which --descriptor asks for", all->about->file);
    if (name == NULL && policy->domain_count > 1)
        return cdl_usage_error(all->command, "%s has %u domains; say which by --domain", all->about->file,
                               policy->domain_count);
    all->request.domain = name == NULL ? policy->domains[0].name : cdl_slice_of(name);
    all->domain = cdl_policy_domain(policy, all->request.domain);
    return 0;
}

/* ---- words ---- */

static const char *level_words(struct descriptors *all, const struct cdl_descriptor_level *level,
                               const struct cdl_descriptor_entry *entry)
{
    struct cdl_writer writer = cdl_words_begin(all->about);
    cdl_explain_level(level, entry, &writer);
    return cdl_words_end(&writer);
}

static const char *end_words(struct descriptors *all, const struct cdl_descriptor_way *way, size_t index)
{
    if (all->results[index].outcome == CDL_DESCRIPTOR_REPLACED)
        return "replaced: another limit of this request takes the place of this one";
    struct cdl_writer writer = cdl_words_begin(all->about);
    cdl_explain_end(all->about->policy, way, &writer);
    return cdl_words_end(&writer);
}

static const char *outcome_word(enum cdl_descriptor_outcome outcome)
{
    static const char *const words[] = {"free", "unlimited", "replaced", "limited"};
    return words[outcome];
}

/* The values that a limit is counted by here, in the order of its `per`. */
static size_t values_of(const struct cdl_descriptor_way *way, const struct cdl_descriptor *descriptor,
                        struct cdl_slice *values)
{
    size_t count = 0;
    for (size_t i = 0; i < way->count; i++)
        if (way->levels[i].node != NULL && cdl_descriptor_is_counted(way->levels[i].node))
            values[count++] = descriptor->entries[i].value;
    return count;
}

/* ---- text ---- */

static void print_key(struct descriptors *all, size_t index, const struct cdl_limit_rule *limit,
                      const struct cdl_descriptor_way *way)
{
    struct cdl_slice values[CDL_DESCRIPTOR_ENTRIES_MAX];
    const size_t count = values_of(way, &all->list[index], values);
    if (count == 0)
        printf("      counted in one bucket with all others\n");
    for (size_t i = 0; i < count; i++)
        printf("      %s %s = %s\n", i == 0 ? "counted under" : "          and", limit->per[i].text.bytes,
               cdl_words_printable(all->about, values[i]));
}

static void print_rule(struct descriptors *all, size_t index, const struct cdl_descriptor_way *way)
{
    const struct cdl_limit_rule *limit = &all->about->policy->limits[all->results[index].limit];
    const struct cdl_descriptor_rule *rule = limit->descriptor;
    cdl_print_rate(all->about, &all->about->policy->rates[limit->rate]);
    if (rule->label.length > 0)
        printf("      name: %s\n", cdl_words_printable(all->about, rule->label));
    for (uint32_t i = 0; i < rule->replaces_count; i++)
        printf("      replaces: %s\n", cdl_words_printable(all->about, rule->replaces[i]));
    if (all->results[index].outcome != CDL_DESCRIPTOR_LIMITED)
        return;
    const uint64_t cost = all->plan.charges[all->results[index].charge].cost;
    print_key(all, index, limit, way);
    printf("      costs %" PRIu64 " token%s\n", cost, cost == 1 ? "" : "s");
    if (rule->quota)
        printf("      quota_mode, so that it is told and never refuses\n");
    else if (limit->mode == CDL_MODE_SHADOW)
        printf("      mode: shadow, so it never refuses\n");
}

static void print_descriptor(struct descriptors *all, size_t index)
{
    const struct cdl_descriptor *descriptor = &all->list[index];
    struct cdl_descriptor_way way;
    printf("descriptor %zu\n", index + 1);
    if (all->domain == NULL) {
        printf("  not limited: no file has this domain\n");
        return;
    }
    cdl_explain_way(all->domain, descriptor, &way);
    for (size_t i = 0; i < way.count; i++) {
        const struct cdl_descriptor_entry *entry = &descriptor->entries[i];
        printf("  %s", cdl_words_printable(all->about, entry->key));
        printf(" = %s\n", cdl_words_printable(all->about, entry->value));
        printf("      %s\n", level_words(all, &way.levels[i], entry));
    }
    printf("  %s\n", end_words(all, &way, index));
    if (all->results[index].limit != CDL_NONE)
        print_rule(all, index, &way);
}

static void print_text(struct descriptors *all)
{
    printf("domain %s\n", cdl_words_printable(all->about, all->request.domain));
    for (size_t i = 0; i < all->request.descriptor_count; i++) {
        printf("\n");
        print_descriptor(all, i);
    }
    if (all->plan.outcome == CDL_OUTCOME_TOO_LONG)
        printf("\nrefused without counting: key too long\n");
}

/* ---- JSON ---- */

static void set_words(struct descriptors *all, json_t *object, const char *key, struct cdl_slice value)
{
    json_object_set_new(object, key, json_string(cdl_words_printable(all->about, value)));
}

static json_t *level_json(struct descriptors *all, const struct cdl_descriptor_level *level,
                          const struct cdl_descriptor_entry *entry)
{
    static const char *const steps[] = {"value", "wildcard", "key", "none"};
    json_t *object = json_object();
    set_words(all, object, "key", entry->key);
    set_words(all, object, "value", entry->value);
    json_object_set_new(object, "met", json_string(steps[level->step]));
    json_object_set_new(object, "why", json_string(level_words(all, level, entry)));
    if (level->node == NULL)
        return object;
    set_words(all, object, "file", level->node->file);
    json_object_set_new(object, "line", json_integer(level->node->place.line));
    if (level->step == CDL_STEP_WILDCARD)
        set_words(all, object, "wildcard", level->node->value);
    return object;
}

static json_t *key_json(struct descriptors *all, size_t index, const struct cdl_limit_rule *limit,
                        const struct cdl_descriptor_way *way)
{
    struct cdl_slice values[CDL_DESCRIPTOR_ENTRIES_MAX];
    const size_t count = values_of(way, &all->list[index], values);
    json_t *key = json_array();
    for (size_t i = 0; i < count; i++)
        json_array_append_new(key, json_pack("{s:s, s:s}", "identity", limit->per[i].text.bytes, "value",
                                             cdl_words_printable(all->about, values[i])));
    return key;
}

static json_t *rule_json(struct descriptors *all, size_t index, const struct cdl_descriptor_way *way)
{
    const struct cdl_limit_rule *limit = &all->about->policy->limits[all->results[index].limit];
    const struct cdl_descriptor_rule *rule = limit->descriptor;
    json_t *object = cdl_rate_json(all->about, &all->about->policy->rates[limit->rate]);
    json_t *replaces = json_array();
    for (uint32_t i = 0; i < rule->replaces_count; i++)
        json_array_append_new(replaces, json_string(cdl_words_printable(all->about, rule->replaces[i])));
    set_words(all, object, "label", rule->label);
    json_object_set_new(object, "replaces", replaces);
    json_object_set_new(object, "quota", json_boolean(rule->quota));
    if (all->results[index].outcome != CDL_DESCRIPTOR_LIMITED)
        return object;
    const struct cdl_charge *charge = &all->plan.charges[all->results[index].charge];
    json_object_set_new(object, "key", key_json(all, index, limit, way));
    set_words(all, object, "key_bytes", charge->key);
    json_object_set_new(object, "cost", json_integer((json_int_t)charge->cost));
    return object;
}

static json_t *descriptor_json(struct descriptors *all, size_t index)
{
    const struct cdl_descriptor *descriptor = &all->list[index];
    json_t *object = json_pack("{s:s}", "outcome", outcome_word(all->results[index].outcome));
    struct cdl_descriptor_way way;
    json_t *entries = json_array();
    json_object_set_new(object, "entries", entries);
    if (all->domain == NULL) {
        json_object_set_new(object, "why", json_string("not limited: no file has this domain"));
        return object;
    }
    cdl_explain_way(all->domain, descriptor, &way);
    for (size_t i = 0; i < way.count; i++)
        json_array_append_new(entries, level_json(all, &way.levels[i], &descriptor->entries[i]));
    json_object_set_new(object, "why", json_string(end_words(all, &way, index)));
    if (all->results[index].limit != CDL_NONE)
        json_object_set_new(object, "limit", rule_json(all, index, &way));
    return object;
}

static json_t *all_json(struct descriptors *all)
{
    json_t *root = json_object(), *list = json_array();
    set_words(all, root, "domain", all->request.domain);
    json_object_set_new(root, "outcome",
                        json_string(all->plan.outcome == CDL_OUTCOME_TOO_LONG ? "key too long" : "limited"));
    for (size_t i = 0; i < all->request.descriptor_count; i++)
        json_array_append_new(list, descriptor_json(all, i));
    json_object_set_new(root, "descriptors", list);
    return root;
}

/* ---- run ---- */

static int64_t now_ns(void)
{
    const struct caudal_clock *clock = caudal_clock_system();
    return clock->realtime_ns(clock->context);
}

static int explain(struct descriptors *all, const struct cdl_explained_descriptors *asked, char *memory)
{
    int status = find_domain(all, asked->domain);
    for (size_t i = 0; i < asked->count && status == 0; i++) {
        status = read_descriptor(all, asked->texts[i], i, memory);
        memory += strlen(asked->texts[i]);
    }
    if (status != 0)
        return status;
    all->request.descriptors = all->list;
    all->request.descriptor_count = asked->count;
    all->request.hits = asked->hits;
    cdl_descriptors_match(all->about->policy, &all->request, now_ns(), all->scratch, sizeof all->scratch, &all->plan,
                          all->results);
    if (asked->json)
        return cdl_print_json(all_json(all)) == 0 ? CDL_EXIT_YES : CDL_EXIT_NO;
    print_text(all);
    return CDL_EXIT_YES;
}

int cdl_explain_descriptors(struct cdl_explaining *about, const struct cdl_command *command,
                            const struct cdl_explained_descriptors *asked)
{
    static struct descriptors all; /* large */
    size_t bytes = 1;
    for (size_t i = 0; i < asked->count; i++)
        bytes += strlen(asked->texts[i]);
    char *memory = malloc(bytes);
    if (memory == NULL)
        return CDL_EXIT_NO;
    all = (struct descriptors){.about = about, .command = command};
    const int status = explain(&all, asked, memory);
    free(memory);
    return status;
}
