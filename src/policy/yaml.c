/* libyaml's events become nodes on a stack of open lists and maps. A map is checked when it closes: its keys are scalars,
 * each there once.
 *
 * An alias becomes a copy of the node that its anchor names, which shares the children: nothing changes a node that is closed. An anchor
 * has a name from when its node is closed, so that nothing is ever inside itself. */
#include "policy/yaml.h"

#include <yaml.h>

struct anchor {
    struct cdl_slice name;
    struct cdl_yaml_node *node;
    struct anchor *older;
    bool open; /* its node is not closed yet */
};

struct open_node {
    struct cdl_yaml_node *node;
    struct cdl_yaml_node **tail; /* where its next child goes */
    struct anchor *anchor;       /* NULL: it has none */
};

struct builder {
    yaml_parser_t parser;
    enum cdl_yaml_dialect dialect;
    struct anchor *anchors; /* the newest first */
    size_t anchor_count;
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

/* A node that is complete counts for those that it stands in. */
static void weigh(struct builder *builder, const struct cdl_yaml_node *node)
{
    if (builder->depth == 0)
        return;
    struct cdl_yaml_node *parent = builder->open[builder->depth - 1].node;
    parent->weight += node->weight;
    if (parent->height <= node->height)
        parent->height = node->height + 1;
}

/* So many nodes more; false, with an error, when that is too many. */
static bool count_nodes(struct builder *builder, struct cdl_place place, size_t more)
{
    builder->nodes += more;
    if (builder->nodes > CDL_YAML_NODES_MAX)
        stop(builder, place, "the file has more than 2000000 values; split the policy");
    return !builder->stopped;
}

static struct cdl_yaml_node *add_node(struct builder *builder, enum cdl_yaml_kind kind, const yaml_event_t *event)
{
    struct cdl_place place = place_of(event->start_mark);
    if (!count_nodes(builder, place, 1))
        return NULL;
    struct cdl_yaml_node *node = cdl_arena_allocate(builder->arena, 1, sizeof *node);
    if (node == NULL) {
        stop(builder, place, "memory is short");
        return NULL;
    }
    node->kind = kind;
    node->place = place;
    node->weight = 1;
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
static void refuse_marks(struct builder *builder, const struct cdl_yaml_node *node, const yaml_char_t *anchor,
                         const yaml_char_t *tag)
{
    if (anchor != NULL && builder->dialect == CDL_YAML_WRITTEN_OUT)
        cdl_report_error(builder->report, node->place,
                         "the anchor '&%.40s' is not allowed in a policy; write values out", (const char *)anchor);
    if (tag != NULL)
        cdl_report_error(builder->report, node->place, "the tag '%.40s' is not allowed in a policy; leave it out",
                         (const char *)tag);
}

/* Gives a node the name that it has; NULL: it has none. */
static struct anchor *add_anchor(struct builder *builder, struct cdl_yaml_node *node, const yaml_char_t *name,
                                 bool open)
{
    if (name == NULL || builder->dialect == CDL_YAML_WRITTEN_OUT)
        return NULL;
    if (++builder->anchor_count > CDL_YAML_ANCHORS_MAX) {
        stop(builder, node->place, "the file has more than 1000 anchors");
        return NULL;
    }
    struct anchor *anchor = cdl_arena_allocate(builder->arena, 1, sizeof *anchor);
    if (anchor == NULL)
        return NULL;
    *anchor = (struct anchor){
        .name = cdl_arena_copy(builder->arena, cdl_slice_of((const char *)name)),
        .node = node,
        .older = builder->anchors,
        .open = open,
    };
    builder->anchors = anchor;
    return anchor;
}

/* The newest one of a name hides older ones. */
static const struct anchor *find_anchor(const struct builder *builder, struct cdl_slice name)
{
    const struct anchor *anchor = builder->anchors;
    while (anchor != NULL && !cdl_slice_equal(anchor->name, name))
        anchor = anchor->older;
    return anchor;
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
    add_anchor(builder, node, event->data.scalar.anchor, false);
    weigh(builder, node);
}

static void open_node(struct builder *builder, enum cdl_yaml_kind kind, const yaml_event_t *event)
{
    struct cdl_yaml_node *node = add_node(builder, kind, event);
    if (node == NULL)
        return;
    const bool map = kind == CDL_YAML_MAP;
    const yaml_char_t *anchor = map ? event->data.mapping_start.anchor : event->data.sequence_start.anchor;
    node->height = 1;
    refuse_marks(builder, node, anchor, map ? event->data.mapping_start.tag : event->data.sequence_start.tag);
    if (builder->depth == CDL_YAML_DEPTH_MAX)
        stop(builder, node->place, "lists and maps are nested more than 96 deep");
    else
        builder->open[builder->depth++] = (struct open_node){node, &node->first,
                                                             add_anchor(builder, node, anchor, true)};
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

/* ---- merge keys ---- */

/* A pair of a map that is merged into another, unless that has its key. */
static void merge_pair(struct builder *builder, struct cdl_yaml_node *map, const struct cdl_yaml_node *key)
{
    struct cdl_yaml_node **tail = &map->first;
    for (; *tail != NULL; tail = &(*tail)->next->next)
        if (cdl_slice_equal((*tail)->text, key->text))
            return;
    struct cdl_yaml_node *pair = cdl_arena_allocate(builder->arena, 2, sizeof *pair);
    if (pair == NULL || !count_nodes(builder, key->place, (size_t)key->weight + key->next->weight))
        return;
    pair[0] = *key;
    pair[1] = *key->next;
    pair[0].next = &pair[1];
    pair[1].next = NULL;
    *tail = pair;
    map->count++;
    map->weight += key->weight + key->next->weight;
    if (map->height <= key->next->height)
        map->height = key->next->height + 1;
}

static void merge_map(struct builder *builder, struct cdl_yaml_node *map, const struct cdl_yaml_node *from)
{
    if (from->kind != CDL_YAML_MAP) {
        if (from->kind != CDL_YAML_BAD)
            cdl_report_error(builder->report, from->place, "'<<' merges maps, and this is none");
        return;
    }
    for (const struct cdl_yaml_node *key = from->first; key != NULL && !builder->stopped; key = key->next->next)
        merge_pair(builder, map, key);
}

/* "<<: *anchor", or a list of these, the first of which come before the others. What the map says itself comes before all. */
static void merge_keys(struct builder *builder, struct cdl_yaml_node *map)
{
    struct cdl_yaml_node **link = &map->first;
    while (*link != NULL && !((*link)->plain && cdl_slice_equal((*link)->text, CDL_SLICE("<<"))))
        link = &(*link)->next->next;
    if (*link == NULL)
        return;
    const struct cdl_yaml_node *from = (*link)->next;
    *link = from->next;
    map->count--;
    if (from->kind != CDL_YAML_LIST)
        merge_map(builder, map, from);
    for (const struct cdl_yaml_node *item = from->kind == CDL_YAML_LIST ? from->first : NULL; item != NULL;
         item = item->next)
        merge_map(builder, map, item);
    if (map->count > CDL_YAML_KEYS_MAX) {
        cdl_report_error(builder->report, map->place, "the map has more than %u keys", CDL_YAML_KEYS_MAX);
        map->kind = CDL_YAML_BAD;
    }
}

static void close_node(struct builder *builder)
{
    const struct open_node *closed = &builder->open[--builder->depth];
    struct cdl_yaml_node *node = closed->node;
    if (node->kind == CDL_YAML_MAP)
        check_keys(builder, node);
    if (node->kind == CDL_YAML_MAP && builder->dialect == CDL_YAML_WITH_ALIASES)
        merge_keys(builder, node);
    if (builder->depth + node->height > CDL_YAML_DEPTH_MAX)
        stop(builder, node->place, "lists and maps are nested more than 96 deep");
    if (closed->anchor != NULL)
        closed->anchor->open = false;
    weigh(builder, node);
}

/* ---- aliases ---- */

static void refuse_alias(struct builder *builder, const struct cdl_yaml_node *node, const char *name)
{
    cdl_report_error(builder->report, node->place,
                     "the alias '*%.40s' is not allowed in a policy; write the value out"
                     " (a word that begins with '*' stands in quotes)",
                     name);
}

static void add_alias(struct builder *builder, const yaml_event_t *event)
{
    struct cdl_yaml_node *node = add_node(builder, CDL_YAML_BAD, event);
    const char *name = (const char *)event->data.alias.anchor;
    if (node == NULL)
        return;
    const struct anchor *anchor = find_anchor(builder, cdl_slice_of(name));
    if (builder->dialect == CDL_YAML_WRITTEN_OUT) {
        refuse_alias(builder, node, name);
    } else if (anchor == NULL || anchor->open) {
        cdl_report_error(
            builder->report, node->place,
            "the alias '*%.40s' names nothing that stands before it (a word that begins with '*' stands in "
            "quotes)",
            name);
    } else if (count_nodes(builder, node->place, anchor->node->weight)) {
        const struct cdl_place place = node->place;
        *node = *anchor->node;
        node->place = place;
        node->one_line = false;
        node->next = NULL;
        if (builder->depth + node->height > CDL_YAML_DEPTH_MAX)
            stop(builder, place, "lists and maps are nested more than 96 deep");
    }
    weigh(builder, node);
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
        add_alias(builder, event);
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

struct cdl_yaml_node *cdl_yaml_read(struct cdl_slice text, enum cdl_yaml_dialect dialect, struct cdl_arena *arena,
                                    struct cdl_report *report)
{
    struct cdl_place whole = {0, 0};
    if (text.length > CDL_YAML_BYTES_MAX) {
        cdl_report_error(report, whole, "the file is longer than %zu MiB; split the policy", CDL_YAML_BYTES_MAX >> 20);
        return NULL;
    }
    struct builder builder = {.dialect = dialect, .text = text, .arena = arena, .report = report};
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
