/* The names of identities: "client_ip", "header.x-api-key", "path.2", "/users/{id}", "tenant". */
#include <inttypes.h>

#include "base/near.h"
#include "policy/rule.h"

#define EXPECTED                                                                                                       \
    "client_ip, header.NAME, cookie.NAME, query.NAME, path, path.N, /a/{template}, method, host or an attribute"

struct known {
    const char *word;
    enum cdl_identity_kind kind;
};

static const struct known words[] = {
    {"client_ip", CDL_IDENTITY_CLIENT_IP},
    {"method", CDL_IDENTITY_METHOD},
    {"host", CDL_IDENTITY_HOST},
    {"path", CDL_IDENTITY_PATH},
};

/* What a name may follow. */
static const struct known prefixes[] = {
    {"header", CDL_IDENTITY_HEADER}, {"cookie", CDL_IDENTITY_COOKIE},       {"query", CDL_IDENTITY_QUERY},
    {"path", CDL_IDENTITY_SEGMENT},  {"attribute", CDL_IDENTITY_ATTRIBUTE},
};

#define COUNT(array) (sizeof array / sizeof array[0])

bool cdl_identity_is_client_chosen(const struct cdl_identity *identity)
{
    switch (identity->kind) {
    case CDL_IDENTITY_CLIENT_IP:
    case CDL_IDENTITY_ATTRIBUTE: /* by the caller, who asks about its clients */
        return false;
    default:
        return true;
    }
}

bool cdl_identity_equal(const struct cdl_identity *a, const struct cdl_identity *b)
{
    return a->kind == b->kind && cdl_slice_equal(a->name, b->name) && a->segment == b->segment &&
           (a->kind != CDL_IDENTITY_TEMPLATE || cdl_slice_equal(a->text, b->text));
}

static bool is_word_character(char c)
{
    char lower = cdl_ascii_lower(c);
    return (lower >= 'a' && lower <= 'z') || (c >= '0' && c <= '9') || c == '_';
}

/* Characters of a header's name (RFC 9110, 5.6.2) and of a cookie's. */
static bool is_token(struct cdl_slice text)
{
    for (size_t i = 0; i < text.length; i++)
        if (!is_word_character(text.bytes[i]) && strchr("!#$%&'*+-.^`|~", text.bytes[i]) == NULL)
            return false;
    return text.length > 0;
}

static bool is_attribute(struct cdl_slice text)
{
    for (size_t i = 0; i < text.length; i++)
        if (!is_word_character(text.bytes[i]) && (i == 0 || (text.bytes[i] != '-' && text.bytes[i] != '.')))
            return false;
    return text.length > 0;
}

static bool bad(struct cdl_loader *loader, const struct cdl_yaml_node *node, const char *why)
{
    cdl_report_error(loader->report, node->place, "'%.60s' %s", node->text.bytes, why);
    return false;
}

static struct cdl_slice lower_copy(struct cdl_loader *loader, struct cdl_slice text)
{
    struct cdl_slice copy = cdl_arena_copy(loader->arena, text);
    char *bytes = (char *)copy.bytes; /* our own, and not yet shown to anybody */
    for (size_t i = 0; i < copy.length; i++)
        bytes[i] = cdl_ascii_lower(bytes[i]);
    return copy;
}

void cdl_read_header(struct cdl_loader *loader, const struct cdl_yaml_node *node, const struct cdl_setting *setting,
                     void *target)
{
    struct cdl_slice text;
    if (!cdl_read_scalar(loader, node, setting->key, "the name of a header", &text))
        return;
    if (is_token(text))
        *(struct cdl_slice *)target = lower_copy(loader, text);
    else
        bad(loader, node, "is not the name of a header");
}

static bool read_segment(struct cdl_loader *loader, const struct cdl_yaml_node *node, struct cdl_identity *identity)
{
    for (size_t i = 0; i < identity->name.length; i++) {
        char c = identity->name.bytes[i];
        if (c < '0' || c > '9' || i == 2)
            return bad(loader, node, "is not a segment of a path; write path.1 to path.32");
        identity->segment = identity->segment * 10 + (unsigned)(c - '0');
    }
    if (identity->segment < 1 || identity->segment > CDL_PATH_SEGMENTS_MAX)
        return bad(loader, node, "is not a segment of a path; write path.1 to path.32");
    return true;
}

static bool read_prefixed(struct cdl_loader *loader, const struct cdl_yaml_node *node, const struct known *prefix,
                          struct cdl_identity *identity)
{
    size_t head = strlen(prefix->word) + 1;
    identity->kind = prefix->kind;
    if (identity->kind == CDL_IDENTITY_HEADER)
        identity->text = lower_copy(loader, node->text);
    if (identity->text.length <= head)
        return bad(loader, node, "lacks a name after its '.'");
    identity->name = cdl_slice_from(identity->text, head);
    switch (identity->kind) {
    case CDL_IDENTITY_SEGMENT:
        return read_segment(loader, node, identity);
    case CDL_IDENTITY_HEADER:
    case CDL_IDENTITY_COOKIE:
        return is_token(identity->name) || bad(loader, node, "has a character that no such name has");
    case CDL_IDENTITY_ATTRIBUTE:
        return is_attribute(identity->name) ||
               bad(loader, node, "is not an attribute's name: letters, digits, '_', '-' and '.'");
    default:
        return true;
    }
}

static bool read_template(struct cdl_loader *loader, const struct cdl_yaml_node *node, struct cdl_identity *identity)
{
    const char *why;
    identity->kind = CDL_IDENTITY_TEMPLATE;
    if (!cdl_path_pattern_parse(node->text, loader->arena, &identity->template, &why))
        return bad(loader, node, why);
    identity->text = identity->template.text;
    if (identity->template.names == 0)
        return bad(loader, node, "names no segment; write one in braces, as in /users/{id}");
    return true;
}

/* A slip of the pen in an identity's name would be an attribute that nobody ever sends. */
static bool read_attribute(struct cdl_loader *loader, const struct cdl_yaml_node *node, struct cdl_identity *identity)
{
    if (!is_attribute(node->text)) {
        char found[CDL_FOUND_MAX];
        cdl_report_error(loader->report, node->place, "expected " EXPECTED ", found %s", cdl_found(node, found));
        return false;
    }
    const char *dot = memchr(node->text.bytes, '.', node->text.length);
    struct cdl_slice head = dot == NULL ? node->text : cdl_slice_head(node->text, (size_t)(dot - node->text.bytes));
    const struct known *list = dot == NULL ? words : prefixes;
    size_t count = dot == NULL ? COUNT(words) : COUNT(prefixes);
    for (size_t i = 0; i < count; i++) {
        unsigned allowed = strlen(list[i].word) > 6 ? 2 : 1;
        if (cdl_distance(head, cdl_slice_of(list[i].word)) > allowed)
            continue;
        cdl_report_error(loader->report, node->place,
                         "'%.40s' is not an identity; did you mean '%s%.40s'? (attribute.%.40s if the caller sends it)",
                         node->text.bytes, list[i].word, dot == NULL ? "" : dot, node->text.bytes);
        return false;
    }
    identity->kind = CDL_IDENTITY_ATTRIBUTE;
    identity->name = identity->text;
    return true;
}

static const struct known *find_prefix(struct cdl_slice text)
{
    const char *dot = memchr(text.bytes, '.', text.length);
    for (size_t i = 0; dot != NULL && i < COUNT(prefixes); i++)
        if (cdl_slice_equal(cdl_slice_head(text, (size_t)(dot - text.bytes)), cdl_slice_of(prefixes[i].word)))
            return &prefixes[i];
    return NULL;
}

bool cdl_read_identity(struct cdl_loader *loader, const struct cdl_yaml_node *node, struct cdl_identity *identity)
{
    char found[CDL_FOUND_MAX];
    if (node->kind == CDL_YAML_BAD)
        return false;
    if (node->kind != CDL_YAML_SCALAR || cdl_yaml_is_null(node) || node->text.length == 0) {
        cdl_report_error(loader->report, node->place, "expected " EXPECTED ", found %s", cdl_found(node, found));
        return false;
    }
    *identity = (struct cdl_identity){.text = cdl_arena_copy(loader->arena, node->text), .place = node->place};
    for (size_t i = 0; i < COUNT(words); i++)
        if (cdl_slice_equal(node->text, cdl_slice_of(words[i].word))) {
            identity->kind = words[i].kind;
            return true;
        }
    if (node->text.bytes[0] == '/')
        return read_template(loader, node, identity);
    const struct known *prefix = find_prefix(node->text);
    return prefix != NULL ? read_prefixed(loader, node, prefix, identity) : read_attribute(loader, node, identity);
}
