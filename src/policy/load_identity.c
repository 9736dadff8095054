/* `identity:` who the client is, and the secret that keys identities before they leave the process; `exempt:`. */
#include "policy/load.h"
#include "policy/rule.h"

struct client_draft {
    struct cdl_slice header;
    const struct cdl_yaml_node *trusted, *hops_node;
    uint32_t hops, ipv6_prefix;
};

struct identity_draft {
    const struct cdl_yaml_node *client;
    struct cdl_slice secret_file;
};

static void read_hops(struct cdl_loader *loader, const struct cdl_yaml_node *node, const struct cdl_setting *setting,
                      void *target)
{
    struct client_draft *draft = target;
    draft->hops_node = node;
    cdl_read_u32(loader, node, setting, &draft->hops);
}

static const struct cdl_setting client_settings[] = {
    {"header", cdl_read_header, offsetof(struct client_draft, header), NULL},
    {"trusted_proxies", cdl_read_node, offsetof(struct client_draft, trusted), NULL},
    {"hops", read_hops, 0, &(const struct cdl_bounds){1, CDL_FORWARDED_HOPS_MAX}},
    {"ipv6_prefix", cdl_read_u32, offsetof(struct client_draft, ipv6_prefix), &(const struct cdl_bounds){1, 128}},
};
const struct cdl_shape cdl_client_shape = CDL_SHAPE("identity.client_ip", client_settings);

static const struct cdl_setting identity_settings[] = {
    {"client_ip", cdl_read_node, offsetof(struct identity_draft, client), NULL},
    {"secret_file", cdl_read_text, offsetof(struct identity_draft, secret_file), "the path of a file"},
};
const struct cdl_shape cdl_identity_shape = CDL_SHAPE("identity", identity_settings);

static void read_network(struct cdl_loader *loader, const struct cdl_yaml_node *node, struct cdl_network *network)
{
    struct cdl_slice text;
    const char *why;
    if (!cdl_read_scalar(loader, node, "trusted_proxies", "a network such as 10.0.0.0/8", &text))
        return;
    if (!cdl_network_parse(text, network, &why))
        cdl_report_error(loader->report, node->place, "'%.60s' %s", text.bytes, why);
    else if (network->bits == 0)
        cdl_report_warning(loader->report, node->place,
                           "'%.60s' trusts everybody: each client can name any address as its own", text.bytes);
}

static void read_trusted(struct cdl_loader *loader, const struct cdl_yaml_node *node)
{
    struct cdl_items items;
    struct cdl_client_rule *rule = &loader->policy->client;
    if (!cdl_read_items(loader, node, "trusted_proxies", &items))
        return;
    struct cdl_network *networks = cdl_arena_allocate(loader->arena, items.count, sizeof *networks);
    if (networks == NULL)
        return;
    const struct cdl_yaml_node *item = items.first;
    for (uint32_t i = 0; i < items.count; i++, item = item->next)
        read_network(loader, item, &networks[i]);
    rule->trusted = networks;
    rule->trusted_count = items.count;
}

static void load_client(struct cdl_loader *loader, const struct cdl_yaml_node *node)
{
    struct cdl_client_rule *rule = &loader->policy->client;
    struct client_draft draft = {.header = {"", 0}, .ipv6_prefix = rule->ipv6_prefix};
    cdl_read_map(loader, node, &cdl_client_shape, &draft);
    rule->ipv6_prefix = draft.ipv6_prefix;
    rule->hops = draft.hops;
    if (draft.trusted != NULL)
        read_trusted(loader, draft.trusted);
    if (draft.trusted != NULL && draft.hops_node != NULL)
        cdl_report_error(loader->report, draft.hops_node->place,
                         "'hops' and 'trusted_proxies' (line %u) are two answers to one question; keep one",
                         draft.trusted->place.line);
    bool proxied = draft.trusted != NULL || draft.hops_node != NULL;
    rule->header = draft.header.length > 0 || !proxied ? draft.header : CDL_SLICE("x-forwarded-for");
    if (rule->header.length > 0 && !proxied && node->kind == CDL_YAML_MAP)
        cdl_report_warning(loader->report, node->place,
                           "the header '%.60s' is never believed: no trusted_proxies and no hops are given",
                           rule->header.bytes);
}

void cdl_load_identity(struct cdl_loader *loader, const struct cdl_yaml_node *node)
{
    struct identity_draft draft = {.secret_file = {"", 0}};
    loader->policy->client.ipv6_prefix = 64;
    if (node == NULL)
        return;
    cdl_read_map(loader, node, &cdl_identity_shape, &draft);
    loader->policy->secret_file = draft.secret_file;
    if (draft.client != NULL)
        load_client(loader, draft.client);
}

void cdl_load_exemptions(struct cdl_loader *loader, const struct cdl_yaml_node *node)
{
    if (node == NULL || node->kind == CDL_YAML_BAD)
        return;
    char found[CDL_FOUND_MAX];
    if (node->kind != CDL_YAML_LIST || node->count == 0) {
        cdl_report_error(loader->report, node->place, "'exempt': expected a list of conditions, found %s",
                         node->kind == CDL_YAML_LIST ? "an empty list" : cdl_found(node, found));
        return;
    }
    struct cdl_rule *rules = cdl_arena_allocate(loader->arena, node->count, sizeof *rules);
    if (rules == NULL)
        return;
    const struct cdl_yaml_node *item = node->first;
    for (uint32_t i = 0; i < node->count; i++, item = item->next)
        cdl_read_rule(loader, item, "exempt", &rules[i]);
    loader->policy->exemptions = rules;
    loader->policy->exemption_count = node->count;
}
