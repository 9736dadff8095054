#include "policy/rule.h"

#include <inttypes.h>

#include "identity/path.h"

static bool bad(struct cdl_loader *loader, const struct cdl_yaml_node *node, const char *why)
{
    cdl_report_error(loader->report, node->place, "'%.60s' %s", node->text.bytes, why);
    return false;
}

/* -------------------------------------------------------------------------------------------------------- patterns */

static bool read_method(struct cdl_loader *loader, const struct cdl_yaml_node *node)
{
    for (size_t i = 0; i < node->text.length; i++) {
        char c = node->text.bytes[i];
        if (c >= 'a' && c <= 'z')
            return bad(loader, node, "is not a method: methods are in capitals, as in GET");
        if (c <= ' ' || c >= 0x7f || c == '*')
            return bad(loader, node, "is not a method; leave the key out for all of them");
    }
    return true;
}

static bool read_host(struct cdl_loader *loader, const struct cdl_yaml_node *node, struct cdl_pattern *pattern)
{
    char *bytes = (char *)pattern->text.bytes; /* our own copy */
    for (size_t i = 0; i < pattern->text.length; i++) {
        if (strchr("/:@ ", bytes[i]) != NULL)
            return bad(loader, node, "is not a host: write it without scheme, port and path");
        bytes[i] = cdl_ascii_lower(bytes[i]);
    }
    return true;
}

/* A network of clients. Clients are grouped before they are compared, so a finer network would match by accident only; one that
 * is just a group is compared as a text, which can be looked up. */
static bool read_network(struct cdl_loader *loader, const struct cdl_yaml_node *node, struct cdl_pattern *pattern)
{
    const char *why;
    if (!cdl_network_parse(node->text, &pattern->network, &why))
        return bad(loader, node, why);
    unsigned prefix = loader->policy->client.ipv6_prefix;
    unsigned finest = pattern->network.base.family == 6 ? prefix : 32;
    if (pattern->network.bits > finest) {
        cdl_report_error(loader->report, node->place, "'%.60s' is finer than identity.client_ip.ipv6_prefix, %u",
                         node->text.bytes, prefix);
        return false;
    }
    pattern->kind = pattern->network.bits == finest ? CDL_PATTERN_EXACT : CDL_PATTERN_NETWORK;
    if (pattern->kind == CDL_PATTERN_EXACT) {
        char text[CDL_ADDRESS_TEXT_MAX];
        size_t length = cdl_address_format(&pattern->network.base, text);
        pattern->text = cdl_arena_copy(loader->arena, (struct cdl_slice){text, length});
    }
    return true;
}

static bool read_path(struct cdl_loader *loader, const struct cdl_yaml_node *node, struct cdl_pattern *pattern)
{
    const char *why;
    if (!cdl_path_pattern_parse(node->text, loader->arena, &pattern->path, &why))
        return bad(loader, node, why);
    bool exact = !pattern->path.any_rest && pattern->path.literal_depth == pattern->path.count;
    pattern->kind = exact ? CDL_PATTERN_EXACT : CDL_PATTERN_PATH;
    pattern->text = pattern->path.text;
    return true;
}

bool cdl_read_pattern(struct cdl_loader *loader, const struct cdl_yaml_node *node, const struct cdl_identity *identity,
                      struct cdl_pattern *pattern)
{
    struct cdl_slice text;
    if (!cdl_read_scalar(loader, node, identity->text.bytes, "a value or a pattern", &text))
        return false;
    if (text.length > CDL_PATTERN_BYTES_MAX)
        return bad(loader, node, "is longer than 1024 bytes");
    pattern->text = cdl_arena_copy(loader->arena, text);
    pattern->kind = cdl_has_star(text) ? CDL_PATTERN_GLOB : CDL_PATTERN_EXACT;
    switch (identity->kind) {
    case CDL_IDENTITY_CLIENT_IP:
        return read_network(loader, node, pattern);
    case CDL_IDENTITY_METHOD:
        return read_method(loader, node);
    case CDL_IDENTITY_HOST:
        return read_host(loader, node, pattern);
    case CDL_IDENTITY_PATH:
        return read_path(loader, node, pattern);
    default:
        return true;
    }
}

/* ----------------------------------------------------------------------------------------------------------- rules */

static void read_condition(struct cdl_loader *loader, const struct cdl_yaml_node *key, struct cdl_condition *condition)
{
    struct cdl_items items;
    if (!cdl_read_identity(loader, key, &condition->what))
        return;
    if (condition->what.kind == CDL_IDENTITY_TEMPLATE) {
        bad(loader, key, "is a template; as a condition write path: and the pattern");
        return;
    }
    if (!cdl_read_items(loader, key->next, key->text.bytes, &items))
        return;
    struct cdl_pattern *patterns = cdl_arena_allocate(loader->arena, items.count, sizeof *patterns);
    if (patterns == NULL)
        return;
    const struct cdl_yaml_node *item = items.first;
    for (uint32_t i = 0; i < items.count; i++, item = item->next)
        cdl_read_pattern(loader, item, &condition->what, &patterns[i]);
    condition->any_of = patterns;
    condition->count = items.count;
}

/* Keys differ as texts, and yet "Header.X" and "header.x" would be one. */
static void check_twice(struct cdl_loader *loader, const struct cdl_condition *conditions, size_t count)
{
    for (size_t i = 1; i < count; i++)
        for (size_t j = 0; j < i; j++)
            if (conditions[i].count > 0 && conditions[j].count > 0 &&
                cdl_identity_equal(&conditions[i].what, &conditions[j].what))
                cdl_report_error(loader->report, conditions[i].what.place, "'%.60s' is given twice; first at line %u",
                                 conditions[i].what.text.bytes, conditions[j].what.place.line);
}

void cdl_read_rule(struct cdl_loader *loader, const struct cdl_yaml_node *node, const char *name, struct cdl_rule *rule)
{
    char found[CDL_FOUND_MAX];
    rule->place = node->place;
    if (node->kind == CDL_YAML_BAD)
        return;
    if (node->kind != CDL_YAML_MAP || node->count == 0) {
        cdl_report_error(loader->report, node->place, "'%s': expected conditions such as {path: /v1/*}, found %s", name,
                         node->kind == CDL_YAML_MAP ? "an empty map" : cdl_found(node, found));
        return;
    }
    if (node->count > CDL_CONDITIONS_MAX) {
        cdl_report_error(loader->report, node->place, "'%s': %u conditions are more than %u", name, node->count,
                         CDL_CONDITIONS_MAX);
        return;
    }
    struct cdl_condition *conditions = cdl_arena_allocate(loader->arena, node->count, sizeof *conditions);
    if (conditions == NULL)
        return;
    size_t count = 0;
    for (const struct cdl_yaml_node *key = node->first; key != NULL; key = key->next->next)
        read_condition(loader, key, &conditions[count++]);
    check_twice(loader, conditions, count);
    rule->conditions = conditions;
    rule->count = count;
}
