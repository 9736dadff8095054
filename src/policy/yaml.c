/* libyaml's events become nodes on a stack of open lists and maps. A map is checked when it closes: its keys are scalars,
 * each there once. */
#include "policy/yaml.h"

#include <yaml.h>

struct open_node {
    struct cdl_yaml_node *node;
    struct cdl_yaml_node **tail; /* where its next child goes */
};

struct builder {
    yaml_parser_t parser;
    struct cdl_slice text;
    struct cdl_arena *arena;
    struct cdl_report *report;
    struct open_node open[CDL_YAML_DEPTH_MAX];
    size_t depth;
    size_t nodes;
    struct cdl_yaml_node *root;
    bool stopped; /* nothing more can be made of the text; an error was reported */
};

static struct cdl_place place_of(yaml_mark_t mark)
{
    return (struct cdl_place){(uint32_t)mark.line + 1, (uint32_t)mark.column + 1};
}

static void stop(struct builder *builder, struct cdl_place place, const char *why)
{
    cdl_report_error(builder->report, place, "%s", why);
    builder->stopped = true;
}

static void append(struct builder *builder, struct cdl_yaml_node *node)
{
    if (builder->depth == 0) {
        builder->root = node;
        return;
    }
    struct open_node *parent = &builder->open[builder->depth - 1];
    *parent->tail = node;
    parent->tail = &node->next;
    parent->node->count++;
}

static struct cdl_yaml_node *add_node(struct builder *builder, enum cdl_yaml_kind kind, const yaml_event_t *event)
{
    struct cdl_place place = place_of(event->start_mark);
    if (++builder->nodes > CDL_YAML_NODES_MAX) {
        stop(builder, place, "the file has more than 2000000 values; split the policy");
        return NULL;
    }
    struct cdl_yaml_node *node = cdl_arena_allocate(builder->arena, 1, sizeof *node);
    if (node == NULL) {
        stop(builder, place, "memory is short");
        return NULL;
    }
    node->kind = kind;
    node->place = place;
    append(builder, node);
    return node;
}

static size_t characters(struct cdl_slice text)
{
    size_t count = 0;
    for (size_t i = 0; i < text.length; i++)
        count += ((unsigned char)text.bytes[i] & 0xc0) != 0x80;
    return count;
}

/* Anchors and tags would be lost on the reader of a policy, and with anchors come aliases. */
static bool refuse_marks(struct builder *builder, struct cdl_yaml_node *node, const yaml_char_t *anchor,
                         const yaml_char_t *tag)
{
    if (anchor != NULL)
        cdl_report_error(builder->report, node->place,
                         "the anchor '&%.40s' is not allowed in a policy; write values out", (const char *)anchor);
    if (tag != NULL)
        cdl_report_error(builder->report, node->place, "the tag '%.40s' is not allowed in a policy; leave it out",
                         (const char *)tag);
    return anchor != NULL || tag != NULL;
}

static void add_scalar(struct builder *builder, const yaml_event_t *event)
{
    struct cdl_yaml_node *node = add_node(builder, CDL_YAML_SCALAR, event);
    if (node == NULL)
        return;
    struct cdl_slice text = {(const char *)event->data.scalar.value, event->data.scalar.length};
    node->plain = event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
    node->one_line = event->start_mark.line == event->end_mark.line &&
                     event->end_mark.column - event->start_mark.column == characters(text) + (node->plain ? 0 : 2);
    node->text = cdl_arena_copy(builder->arena, text);
    refuse_marks(builder, node, event->data.scalar.anchor, event->data.scalar.tag);
    if (text.length > 0 && memchr(text.bytes, '\0', text.length) != NULL) {
        cdl_report_error(builder->report, node->place, "the text holds a NUL character");
        node->kind = CDL_YAML_BAD;
    }
}

static void open_node(struct builder *builder, enum cdl_yaml_kind kind, const yaml_event_t *event)
{
    struct cdl_yaml_node *node = add_node(builder, kind, event);
    if (node == NULL)
        return;
    bool map = kind == CDL_YAML_MAP;
    refuse_marks(builder, node, map ? event->data.mapping_start.anchor : event->data.sequence_start.anchor,
                 map ? event->data.mapping_start.tag : event->data.sequence_start.tag);
    if (builder->depth == CDL_YAML_DEPTH_MAX)
        stop(builder, node->place, "lists and maps are nested more than 32 deep");
    else
        builder->open[builder->depth++] = (struct open_node){node, &node->first};
}

static const struct cdl_yaml_node *find_earlier(const struct cdl_yaml_node *map, const struct cdl_yaml_node *key)
{
    for (const struct cdl_yaml_node *other = map->first; other != key; other = other->next->next)
        if (cdl_slice_equal(other->text, key->text))
            return other;
    return NULL;
}

static bool key_is_good(struct builder *builder, const struct cdl_yaml_node *map, const struct cdl_yaml_node *key)
{
    if (key->kind == CDL_YAML_BAD)
        return false;
    if (key->kind != CDL_YAML_SCALAR || key->text.length == 0) {
        cdl_report_error(builder->report, key->place, "expected a word as key, found %s",
                         key->kind == CDL_YAML_SCALAR ? "nothing"
                         : key->kind == CDL_YAML_MAP  ? "a map"
                                                      : "a list");
        return false;
    }
    const struct cdl_yaml_node *earlier = find_earlier(map, key);
    if (earlier != NULL)
        cdl_report_error(builder->report, key->place, "the key '%.40s' is given twice; first at line %u, column %u",
                         key->text.bytes, earlier->place.line, earlier->place.column);
    return earlier == NULL;
}

/* Drops the pairs whose key is no good. Quadratic in the keys of one map, which are few. */
static void check_keys(struct builder *builder, struct cdl_yaml_node *map)
{
    if (map->count / 2 > CDL_YAML_KEYS_MAX) {
        cdl_report_error(builder->report, map->place, "the map has more than %u keys", CDL_YAML_KEYS_MAX);
        map->kind = CDL_YAML_BAD;
        return;
    }
    uint32_t pairs = 0;
    for (struct cdl_yaml_node **link = &map->first; *link != NULL;) {
        struct cdl_yaml_node *key = *link;
        if (key_is_good(builder, map, key)) {
            pairs++;
            link = &key->next->next;
        } else {
            *link = key->next->next;
        }
    }
    map->count = pairs;
}

static void close_node(struct builder *builder)
{
    struct cdl_yaml_node *node = builder->open[--builder->depth].node;
    if (node->kind == CDL_YAML_MAP)
        check_keys(builder, node);
}

static void refuse_alias(struct builder *builder, const yaml_event_t *event)
{
    struct cdl_yaml_node *node = add_node(builder, CDL_YAML_BAD, event);
    if (node != NULL)
        cdl_report_error(builder->report, node->place,
                         "the alias '*%.40s' is not allowed in a policy; write the value out"
                         " (a word that begins with '*' stands in quotes)",
                         (const char *)event->data.alias.anchor);
}

static void take_event(struct builder *builder, const yaml_event_t *event)
{
    switch (event->type) {
    case YAML_SCALAR_EVENT:
        add_scalar(builder, event);
        break;
    case YAML_SEQUENCE_START_EVENT:
        open_node(builder, CDL_YAML_LIST, event);
        break;
    case YAML_MAPPING_START_EVENT:
        open_node(builder, CDL_YAML_MAP, event);
        break;
    case YAML_SEQUENCE_END_EVENT:
    case YAML_MAPPING_END_EVENT:
        close_node(builder);
        break;
    case YAML_ALIAS_EVENT:
        refuse_alias(builder, event);
        break;
    case YAML_DOCUMENT_START_EVENT:
        if (builder->root != NULL)
            stop(builder, place_of(event->start_mark), "a second document begins here; a policy is one");
        break;
    default:
        break;
    }
}

/* Bytes that are not text have an offset and no mark. */
static struct cdl_place place_at_offset(struct cdl_slice text, size_t offset)
{
    struct cdl_place place = {1, 1};
    for (size_t i = 0; i < offset && i < text.length; i++) {
        if (text.bytes[i] == '\n')
            place = (struct cdl_place){place.line + 1, 1};
        else
            place.column += ((unsigned char)text.bytes[i] & 0xc0) != 0x80;
    }
    return place;
}

static void report_syntax(struct builder *builder)
{
    const yaml_parser_t *parser = &builder->parser;
    const char *problem = parser->problem != NULL ? parser->problem : "not understood";
    if (parser->error == YAML_MEMORY_ERROR)
        stop(builder, (struct cdl_place){0, 0}, "memory is short");
    else if (parser->error == YAML_READER_ERROR) {
        cdl_report_error(builder->report, place_at_offset(builder->text, parser->problem_offset), "not a text: %s",
                         problem);
    } else if (parser->context != NULL)
        cdl_report_error(builder->report, place_of(parser->problem_mark), "not YAML: %s, %s (from line %zu)", problem,
                         parser->context, parser->context_mark.line + 1);
    else
        cdl_report_error(builder->report, place_of(parser->problem_mark), "not YAML: %s", problem);
    builder->stopped = true;
}

static void read_events(struct builder *builder)
{
    bool ended = false;
    while (!builder->stopped && !ended) {
        yaml_event_t event;
        if (!yaml_parser_parse(&builder->parser, &event)) {
            report_syntax(builder);
            return;
        }
        ended = event.type == YAML_STREAM_END_EVENT;
        take_event(builder, &event);
        yaml_event_delete(&event);
    }
}

struct cdl_yaml_node *cdl_yaml_read(struct cdl_slice text, struct cdl_arena *arena, struct cdl_report *report)
{
    struct cdl_place whole = {0, 0};
    if (text.length > CDL_YAML_BYTES_MAX) {
        cdl_report_error(report, whole, "the file is longer than %zu MiB; split the policy", CDL_YAML_BYTES_MAX >> 20);
        return NULL;
    }
    struct builder builder = {.text = text, .arena = arena, .report = report};
    if (!yaml_parser_initialize(&builder.parser)) {
        cdl_report_error(report, whole, "memory is short");
        return NULL;
    }
    yaml_parser_set_input_string(&builder.parser, (const unsigned char *)text.bytes, text.length);
    read_events(&builder);
    yaml_parser_delete(&builder.parser);
    if (arena->failed && !builder.stopped)
        stop(&builder, whole, "memory is short");
    return builder.stopped ? NULL : builder.root;
}

bool cdl_yaml_is_null(const struct cdl_yaml_node *node)
{
    return node->kind == CDL_YAML_SCALAR && node->plain &&
           (node->text.length == 0 || cdl_slice_equal(node->text, CDL_SLICE("~")) ||
            cdl_slice_equal_nocase(node->text, CDL_SLICE("null")));
}

struct cdl_place cdl_yaml_place_in(const struct cdl_yaml_node *node, size_t offset)
{
    if (!node->one_line || offset > node->text.length)
        return node->place;
    uint32_t before = (uint32_t)characters(cdl_slice_head(node->text, offset));
    return (struct cdl_place){node->place.line, node->place.column + before + (node->plain ? 0 : 1)};
}
