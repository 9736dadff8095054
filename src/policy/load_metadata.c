/* `metadata:` of a descriptor: any map, kept as the JSON text that it is handed on as. Plain words are what they look like in JSON: true,
 * false, null (also nothing at all) and numbers; everything else, and all that stands in quotes, is text. */
#include "policy/load_domain.h"

/* ---- plain words ---- */

static size_t take_digits(struct cdl_slice text, size_t at)
{
    while (at < text.length && text.bytes[at] >= '0' && text.bytes[at] <= '9')
        at++;
    return at;
}

/* A number as JSON has it: "-0.5e10", but neither "007" nor "1." nor "0x1f". */
static bool is_number(struct cdl_slice text)
{
    size_t at = text.length > 0 && text.bytes[0] == '-', start = at;
    at = take_digits(text, at);
    if (at == start || (text.bytes[start] == '0' && at - start > 1))
        return false;
    if (at < text.length && text.bytes[at] == '.') {
        start = at + 1;
        at = take_digits(text, start);
        if (at == start)
            return false;
    }
    if (at < text.length && (text.bytes[at] == 'e' || text.bytes[at] == 'E')) {
        at++;
        if (at < text.length && (text.bytes[at] == '+' || text.bytes[at] == '-'))
            at++;
        start = at;
        at = take_digits(text, start);
        if (at == start)
            return false;
    }
    return at == text.length;
}

/* ---- writing ---- */

static void write_string(struct cdl_writer *writer, struct cdl_slice text)
{
    cdl_write_text(writer, "\"");
    for (size_t i = 0; i < text.length; i++) {
        const unsigned char c = (unsigned char)text.bytes[i];
        if (c < 0x20)
            cdl_writef(writer, "\\u%04x", c);
        else if (c == '"' || c == '\\')
            cdl_writef(writer, "\\%c", c);
        else
            cdl_write(writer, (struct cdl_slice){text.bytes + i, 1});
    }
    cdl_write_text(writer, "\"");
}

static void write_scalar(struct cdl_writer *writer, const struct cdl_yaml_node *node)
{
    if (cdl_yaml_is_null(node))
        cdl_write_text(writer, "null");
    else if (node->plain && cdl_slice_equal_nocase(node->text, CDL_SLICE("true")))
        cdl_write_text(writer, "true");
    else if (node->plain && cdl_slice_equal_nocase(node->text, CDL_SLICE("false")))
        cdl_write_text(writer, "false");
    else if (node->plain && is_number(node->text))
        cdl_write(writer, node->text);
    else
        write_string(writer, node->text);
}

/* As deep as the reader lets YAML be. */
static void write_node(struct cdl_writer *writer, const struct cdl_yaml_node *node)
{
    if (node->kind != CDL_YAML_LIST && node->kind != CDL_YAML_MAP) {
        write_scalar(writer, node);
        return;
    }
    const bool map = node->kind == CDL_YAML_MAP;
    cdl_write_text(writer, map ? "{" : "[");
    for (const struct cdl_yaml_node *item = node->first; item != NULL; item = item->next) {
        if (item != node->first)
            cdl_write_text(writer, ",");
        if (map) {
            write_string(writer, item->text);
            cdl_write_text(writer, ":");
            item = item->next;
        }
        write_node(writer, item);
    }
    cdl_write_text(writer, map ? "}" : "]");
}

/* More than the text of a node can take. */
static size_t most_bytes(const struct cdl_yaml_node *node)
{
    size_t sum = 6 * node->text.length + 8;
    for (const struct cdl_yaml_node *item = node->first; item != NULL; item = item->next)
        sum += most_bytes(item);
    return sum;
}

struct cdl_slice cdl_read_metadata(struct cdl_loader *loader, const struct cdl_yaml_node *node)
{
    const struct cdl_slice none = {"", 0};
    char found[CDL_FOUND_MAX];
    if (node->kind != CDL_YAML_MAP) {
        if (node->kind != CDL_YAML_BAD)
            cdl_report_error(loader->report, node->place, "'metadata': expected a map, found %s",
                             cdl_found(node, found));
        return none;
    }
    const size_t size = most_bytes(node);
    char *bytes = cdl_arena_allocate(loader->arena, size, 1);
    if (bytes == NULL)
        return none;
    struct cdl_writer writer = cdl_writer_on(bytes, size - 1);
    write_node(&writer, node);
    return cdl_written(&writer);
}
