/* Logs with a JSON object a line. Where a field is found is a mapping: "client=request.remote_ip,headers=request.headers.*".
 *
 * The paths of a mapping make a tree, and an object is walked along it: what the tree does not know is skipped without a look. So a
 * line costs what its length costs, and nothing is built. Values are put into the record in the order of the mapping, not of the
 * line, since the first that is found counts. A list is its elements with commas between them, as a header's are; null and an
 * object where a value is expected are absent.
 *
 * It is a reader of logs, not a judge of JSON: what servers get wrong and what does no harm (control characters, \xHH) is let pass. */
#include "base/problem.h"
#include "wire/access_log_parts.h"

#define ENTRIES_MAX 128u /* of a mapping */
#define STEPS_MAX 8u     /* of a path */
#define NESTING_MAX 64u
#define BUCKETS 16u

struct node {
    struct cdl_slice name; /* of the member, or of what its name begins with */
    bool is_prefix;
    const struct cdl_access_field *field; /* NULL: there are only more steps */
    size_t rank;                          /* in the mapping */
    bool has_children;
    struct node *children
        [BUCKETS]; /* those with a whole name, by its length: most of a line's names are found to be none of them */
    struct node *prefixes;
    struct node *next;
};

struct mapping {
    struct node root;
    size_t count;
    const struct cdl_access_field *fields[ENTRIES_MAX];
};

/* ---- making ---- */

static struct node *find_or_add(struct node *parent, struct cdl_slice name, bool is_prefix, struct cdl_arena *arena)
{
    struct node **link = is_prefix ? &parent->prefixes : &parent->children[name.length % BUCKETS];
    parent->has_children = true;
    for (; *link != NULL; link = &(*link)->next)
        if (cdl_slice_equal((*link)->name, name) && (*link)->is_prefix == is_prefix)
            return *link;
    struct node *node = cdl_arena_allocate(arena, 1, sizeof *node);
    if (node == NULL)
        return NULL;
    node->name = name;
    node->is_prefix = is_prefix;
    return *link = node;
}

/* The first step of a path, "\." being a dot, and moves behind it. */
static struct cdl_slice take_step(struct cdl_slice *path, struct cdl_arena *arena)
{
    char *name = cdl_arena_allocate(arena, path->length + 1, 1);
    size_t length = 0, i = 0;
    if (name == NULL)
        return (struct cdl_slice){NULL, 0};
    for (; i < path->length && path->bytes[i] != '.'; i++) {
        i += path->bytes[i] == '\\' && i + 1 < path->length;
        name[length++] = path->bytes[i];
    }
    *path = cdl_slice_from(*path, i < path->length ? i + 1 : i);
    return (struct cdl_slice){name, length};
}

static int add_path(struct mapping *mapping, const struct cdl_access_field *field, struct cdl_slice path,
                    struct cdl_arena *arena, struct caudal_problem *problem)
{
    const bool is_many = field->part == CDL_ACCESS_HEADERS || field->part == CDL_ACCESS_VARIABLES;
    const struct cdl_slice whole = path;
    struct node *node = &mapping->root;
    if (mapping->count == ENTRIES_MAX)
        return cdl_problem(problem, CAUDAL_ERR_SYNTAX, 0, "the fields are more than %u", ENTRIES_MAX);
    for (size_t steps = 0; path.length > 0 && !arena->failed; steps++) {
        struct cdl_slice step = take_step(&path, arena);
        const bool is_prefix = path.length == 0 && is_many && step.length > 0 && step.bytes[step.length - 1] == '*';
        if (is_prefix)
            step.length--;
        if (steps == STEPS_MAX || (is_many && path.length == 0 && !is_prefix))
            return cdl_problem(problem, CAUDAL_ERR_SYNTAX, 0,
                               steps == STEPS_MAX ? "\"%.*s\" has more steps than %u"
                                                  : "\"%.*s\" must end in '*': it stands for many headers",
                               whole.length < 60 ? (int)whole.length : 60, whole.bytes, STEPS_MAX);
        node = find_or_add(node, step, is_prefix, arena);
        if (node == NULL)
            break;
    }
    if (node == NULL || arena->failed)
        return cdl_problem(problem, CAUDAL_ERR_MEMORY, 0, "out of memory");
    if (node->field == NULL) {
        node->field = field;
        node->rank = mapping->count;
        mapping->fields[mapping->count++] = field;
    }
    return CAUDAL_OK;
}

/* Whether the user said where to find this, which then is not looked for elsewhere. */
static bool is_told(const struct mapping *mapping, size_t told, const struct cdl_access_field *field)
{
    for (size_t i = 0; i < told; i++) {
        if (mapping->fields[i]->part != field->part)
            continue;
        if (field->part != CDL_ACCESS_HEADER || cdl_slice_equal_nocase(mapping->fields[i]->header, field->header))
            return true;
    }
    return false;
}

static int add_list(struct mapping *mapping, struct cdl_slice list, size_t told, struct cdl_arena *arena,
                    struct caudal_problem *problem)
{
    const struct cdl_access_field *field;
    struct cdl_slice path;
    *problem = (struct caudal_problem){.code = CAUDAL_OK};
    while (cdl_access_list_next(&list, arena, &field, &path, problem)) {
        const int status = is_told(mapping, told, field) ? CAUDAL_OK : add_path(mapping, field, path, arena, problem);
        if (status != CAUDAL_OK)
            return status;
    }
    return problem->code;
}

static int add_usual(struct mapping *mapping, size_t told, struct cdl_arena *arena, struct caudal_problem *problem)
{
    const struct cdl_access_field *field;
    const char *name;
    for (size_t i = 0; (name = cdl_access_usual_name(i, &field)) != NULL; i++) {
        const int status = is_told(mapping, told, field) ? CAUDAL_OK
                                                         : add_path(mapping, field, cdl_slice_of(name), arena, problem);
        if (status != CAUDAL_OK)
            return status;
    }
    return CAUDAL_OK;
}

int cdl_access_json_make(struct cdl_slice text, struct cdl_slice fields, struct cdl_arena *arena,
                         struct cdl_access_format *format, struct caudal_problem *problem)
{
    struct mapping *mapping = cdl_arena_allocate(arena, 1, sizeof *mapping);
    struct caudal_problem unseen;
    if (problem == NULL)
        problem = &unseen;
    if (mapping == NULL)
        return cdl_problem(problem, CAUDAL_ERR_MEMORY, 0, "out of memory");
    format->kind = &cdl_access_json;
    format->parts = mapping;
    int status = add_list(mapping, fields, 0, arena, problem);
    if (status != CAUDAL_OK)
        return status;
    const size_t told = mapping->count;
    return text.length > 0 ? add_list(mapping, text, told, arena, problem) : add_usual(mapping, told, arena, problem);
}

/* ---- reading ---- */

/* A line, and the values that were found in it by their rank. */
struct walk {
    struct cdl_access_reading *reading;
    const struct mapping *mapping;
    struct cdl_slice values[ENTRIES_MAX];
};

static void skip_space(struct cdl_access_reading *reading)
{
    while (reading->at < reading->end && (cdl_access_is_blank(*reading->at) || *reading->at == '\r'))
        reading->at++;
}

static bool broken(struct cdl_access_reading *reading, const char *detail)
{
    return cdl_access_fail(reading, reading->at, "JSON", reading->at == reading->end ? "is cut off" : detail);
}

/* The next character that is no blank; '\0' at the end. */
static char next(struct cdl_access_reading *reading)
{
    skip_space(reading);
    return reading->at < reading->end ? *reading->at : '\0';
}

static bool take(struct cdl_access_reading *reading, char c)
{
    if (next(reading) != c)
        return false;
    reading->at++;
    return true;
}

/* A string as it is written, without its quotes. */
static bool take_string(struct cdl_access_reading *reading, struct cdl_slice *raw)
{
    const char *begin = reading->at + 1, *at = begin;
    while (at < reading->end && (at = memchr(at, '"', (size_t)(reading->end - at))) != NULL) {
        if (!cdl_access_is_escaped(begin, at)) {
            *raw = (struct cdl_slice){begin, (size_t)(at - begin)};
            reading->at = at + 1;
            return true;
        }
        at++;
    }
    return cdl_access_fail(reading, reading->at, "JSON", "has a string that is not closed");
}

/* A number, true, false or null. */
static bool take_literal(struct cdl_access_reading *reading, struct cdl_slice *raw)
{
    const char *begin = reading->at;
    while (reading->at < reading->end && *reading->at != ',' && *reading->at != '}' && *reading->at != ']' &&
           !cdl_access_is_blank(*reading->at) && *reading->at != '"' && *reading->at != '{' && *reading->at != '[' &&
           *reading->at != ':')
        reading->at++;
    *raw = (struct cdl_slice){begin, (size_t)(reading->at - begin)};
    if (raw->length == 0)
        return broken(reading, "has no value here");
    const char c = begin[0];
    if (!cdl_access_is_digit(c) && c != '-' && !cdl_slice_equal(*raw, CDL_SLICE("true")) &&
        !cdl_slice_equal(*raw, CDL_SLICE("false")) && !cdl_slice_equal(*raw, CDL_SLICE("null")))
        return cdl_access_fail(reading, begin, "JSON", "has a word that means nothing");
    return true;
}

/* Skips a list or an object with all that is in it. */
static bool skip_nested(struct cdl_access_reading *reading)
{
    uint64_t objects = 0; /* a bit a level: whether it is one */
    unsigned depth = 0;
    struct cdl_slice unused;
    while (reading->at < reading->end) {
        const char c = *reading->at;
        if (c == '"') {
            if (!take_string(reading, &unused))
                return false;
            continue;
        }
        if (c == '{' || c == '[') {
            if (++depth > NESTING_MAX)
                return broken(reading, "is nested deeper than 64");
            objects = objects << 1 | (c == '{');
        } else if (c == '}' || c == ']') {
            if ((objects & 1) != (c == '}'))
                return broken(reading, "has a bracket that closes another one");
            objects >>= 1;
            depth--;
        }
        reading->at++;
        if (depth == 0)
            return true;
    }
    return broken(reading, "");
}

static bool skip_value(struct cdl_access_reading *reading)
{
    struct cdl_slice unused;
    const char c = next(reading);
    if (c == '{' || c == '[')
        return skip_nested(reading);
    return c == '"' ? take_string(reading, &unused) : take_literal(reading, &unused);
}

/* A string or a literal as a value; null is empty. */
static bool read_scalar(struct cdl_access_reading *reading, struct cdl_slice *value)
{
    if (next(reading) == '"')
        return take_string(reading, value) && cdl_access_unescape(reading, *value, value);
    if (!take_literal(reading, value))
        return false;
    if (cdl_slice_equal(*value, CDL_SLICE("null")))
        value->length = 0;
    return true;
}

/* What is in a list, with commas between; what is nested in it is left out. */
static bool read_list(struct cdl_access_reading *reading, struct cdl_slice *value)
{
    struct cdl_slice element;
    size_t count = 0;
    *value = (struct cdl_slice){NULL, 0};
    reading->at++;
    if (take(reading, ']'))
        return true;
    for (;;) {
        const char c = next(reading);
        if (c == '{' || c == '[') {
            if (!skip_nested(reading))
                return false;
        } else {
            if (!read_scalar(reading, &element))
                return false;
            if (count++ == 0)
                *value = element;
            else if (!cdl_access_join(reading, value, element))
                return false;
        }
        if (take(reading, ']'))
            return true;
        if (!take(reading, ','))
            return broken(reading, "has no ',' between two elements");
    }
}

static bool read_leaf(struct cdl_access_reading *reading, struct cdl_slice *value)
{
    const char c = next(reading);
    *value = (struct cdl_slice){NULL, 0};
    if (c == '{')
        return skip_nested(reading);
    return c == '[' ? read_list(reading, value) : read_scalar(reading, value);
}

static bool begins_with(struct cdl_slice name, struct cdl_slice prefix)
{
    return name.length > prefix.length && (prefix.length == 0 || memcmp(name.bytes, prefix.bytes, prefix.length) == 0);
}

static const struct node *find_child(const struct node *node, struct cdl_slice name)
{
    const struct node *child = node->children[name.length % BUCKETS];
    while (child != NULL && !cdl_slice_equal(child->name, name))
        child = child->next;
    if (child != NULL)
        return child;
    child = node->prefixes;
    while (child != NULL && !begins_with(name, child->name))
        child = child->next;
    return child;
}

static bool read_member(struct walk *walk, const struct node *node, struct cdl_slice name)
{
    struct cdl_access_reading *reading = walk->reading;
    struct cdl_slice value;
    if (!read_leaf(reading, &value))
        return false;
    if (!node->is_prefix) {
        if (walk->values[node->rank].length == 0)
            walk->values[node->rank] = value;
        return true;
    }
    const struct cdl_slice header = cdl_slice_from(name, node->name.length);
    return node->field->part == CDL_ACCESS_VARIABLES ? cdl_access_put_variable(reading, header, value)
                                                     : cdl_access_put_header(reading, header, value);
}

static bool read_object(struct walk *walk, const struct node *node);

static bool read_value(struct walk *walk, const struct node *node, struct cdl_slice name)
{
    if (node != NULL && node->has_children && next(walk->reading) == '{')
        return read_object(walk, node);
    return node != NULL && node->field != NULL ? read_member(walk, node, name) : skip_value(walk->reading);
}

/* Calls itself as deep as the mapping's paths are. */
static bool read_object(struct walk *walk, const struct node *node)
{
    struct cdl_access_reading *reading = walk->reading;
    struct cdl_slice name = {NULL, 0};
    if (!take(reading, '{'))
        return broken(reading, "is no object");
    if (take(reading, '}'))
        return true;
    for (;;) {
        if (next(reading) != '"')
            return broken(reading, "has no name in quotes here");
        if (!take_string(reading, &name))
            return false;
        if (!take(reading, ':'))
            return broken(reading, "has no ':' behind a name");
        if (!read_value(walk, find_child(node, name), name))
            return false;
        if (take(reading, '}'))
            return true;
        if (!take(reading, ','))
            return broken(reading, "has no ',' between two members");
    }
}

static bool read_json(struct cdl_access_reading *reading)
{
    struct walk walk;
    walk.reading = reading;
    walk.mapping = reading->parser->format->parts;
    const size_t count = walk.mapping->count;
    memset(walk.values, 0, count * sizeof walk.values[0]);
    if (!read_object(&walk, &walk.mapping->root))
        return false;
    if (next(reading) != '\0')
        return broken(reading, "is followed by something");
    for (size_t i = 0; i < count; i++)
        if (!cdl_access_put(reading, walk.mapping->fields[i], walk.values[i]))
            return false;
    const struct cdl_access_record *record = reading->record;
    if (record->client.length == 0 && record->target.length == 0 && reading->path.length == 0 &&
        reading->request.length == 0 && record->method.length == 0 && record->host.length == 0)
        return cdl_access_fail(reading, reading->line, "client", "is not in it, nor is a request");
    return true;
}

const struct cdl_access_kind cdl_access_json = {.read = read_json};
