#include "policy/explain_domain.h"

#include <inttypes.h>

#include "policy/calendar.h"

/* ---- promises ---- */

static const char *unit_word(enum cdl_unit unit)
{
    static const char *const words[CDL_UNITS] = {
        [CDL_UNIT_DAY] = "day", [CDL_UNIT_WEEK] = "week", [CDL_UNIT_MONTH] = "month", [CDL_UNIT_YEAR] = "year"};
    return words[unit];
}

static const struct cdl_limit_rule *rule_of(const struct cdl_policy *policy, uint32_t rate)
{
    return &policy->limits[policy->rates[rate].limit_index];
}

void cdl_explain_rate_text(const struct cdl_policy *policy, uint32_t rate, struct cdl_writer *words)
{
    const struct cdl_limit_rule *rule = rule_of(policy, rate);
    char text[CAUDAL_LIMIT_TEXT_MAX];
    if (rule->calendar != NULL) {
        cdl_writef(words, "%" PRIu64 " a %s in ", rule->calendar->count, unit_word(rule->calendar->unit));
        cdl_write_printable(words, rule->descriptor->zone);
        return;
    }
    caudal_limit_format(&policy->rates[rate].limit, text, sizeof text);
    cdl_write_text(words, text);
}

void cdl_explain_promise(const struct cdl_policy *policy, uint32_t rate, struct cdl_writer *words)
{
    const struct cdl_limit_rule *rule = rule_of(policy, rate);
    if (rule->calendar == NULL) {
        cdl_explain_rate(&policy->rates[rate].limit, words);
        return;
    }
    cdl_writef(words, "at most %" PRIu64 " in each %s, as a calendar in ", rule->calendar->count,
               unit_word(rule->calendar->unit));
    cdl_write_printable(words, rule->descriptor->zone);
    cdl_write_text(words, " has it");
}

/* ---- the way ---- */

void cdl_explain_way(const struct cdl_domain *domain, const struct cdl_descriptor *descriptor,
                     struct cdl_descriptor_way *way)
{
    way->count = 0;
    way->end = descriptor->entry_count <= CDL_DESCRIPTOR_ENTRIES_MAX ? &domain->root : NULL;
    for (size_t i = 0; i < descriptor->entry_count && way->end != NULL; i++) {
        struct cdl_descriptor_level *level = &way->levels[way->count++];
        level->above = way->end;
        level->node = cdl_descriptor_child(way->end, &descriptor->entries[i], &level->step);
        way->end = level->node;
    }
}

static bool knows_key(const struct cdl_descriptor_node *node, struct cdl_slice key)
{
    for (uint32_t i = 0; i < node->child_count; i++)
        if (cdl_slice_equal(node->children[i]->key, key))
            return true;
    return false;
}

/* The wildcards of a key, in their order, up to the one that matched. */
static void write_wildcards(const struct cdl_descriptor_level *level, struct cdl_slice key, struct cdl_writer *words)
{
    const char *separator = ", and not ";
    for (uint32_t i = 0; i < level->above->child_count; i++) {
        const struct cdl_descriptor_node *child = level->above->children[i];
        if (child == level->node && level->step == CDL_STEP_WILDCARD)
            return;
        if (!child->wildcard || !cdl_slice_equal(child->key, key))
            continue;
        cdl_write_text(words, separator);
        cdl_write_printable(words, child->value);
        separator = " or ";
    }
}

static void write_place(const struct cdl_descriptor_node *node, struct cdl_writer *words)
{
    cdl_write_text(words, " (");
    cdl_write_printable(words, node->file);
    cdl_writef(words, ":%u:%u)", node->place.line, node->place.column);
}

void cdl_explain_level(const struct cdl_descriptor_level *level, const struct cdl_descriptor_entry *entry,
                       struct cdl_writer *words)
{
    if (level->above->child_count == 0) {
        cdl_write_text(words, "the files go no deeper than this");
        return;
    }
    if (!knows_key(level->above, entry->key)) {
        cdl_write_text(words, "there is no such key");
        return;
    }
    if (level->step == CDL_STEP_EXACT) {
        cdl_write_text(words, "it is this value");
    } else {
        cdl_write_text(words, "it is no value that is named");
        write_wildcards(level, entry->key, words);
    }
    if (level->step == CDL_STEP_WILDCARD) {
        cdl_write_text(words, "; it is ");
        cdl_write_printable(words, level->node->value);
    } else if (level->step == CDL_STEP_KEY) {
        cdl_write_text(words, "; any other will do");
    } else if (level->step == CDL_STEP_NONE) {
        cdl_write_text(words, "; and there is none for any other");
    }
    if (level->node != NULL)
        write_place(level->node, words);
}

void cdl_explain_end(const struct cdl_policy *policy, const struct cdl_descriptor_way *way, struct cdl_writer *words)
{
    const struct cdl_descriptor_node *end = way->end;
    if (end == NULL)
        cdl_write_text(words, "not limited: nothing takes it that far");
    else if (end->parent == NULL)
        cdl_write_text(words, "not limited: it has no entries");
    else if (end->value_only)
        cdl_write_text(words, "not limited: it is named without a rate_limit, which frees it");
    else if (end->rule == NULL)
        cdl_write_text(words, "not limited: the files go deeper, and no rate_limit stands here");
    else if (policy->limits[end->limit].mode == CDL_MODE_OFF)
        cdl_write_text(words, "not limited: the limit is off");
    else if (end->rule->unlimited)
        cdl_write_text(words, "unlimited");
    else
        cdl_write_text(words, "limited");
}
