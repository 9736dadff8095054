#include "policy/read.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/near.h"

#define KEYS_OF_A_SHAPE_MAX 32u

const char *cdl_found(const struct cdl_yaml_node *node, char found[CDL_FOUND_MAX])
{
    static const char *const kinds[] = {
        [CDL_YAML_BAD] = "something else", [CDL_YAML_LIST] = "a list", [CDL_YAML_MAP] = "a map"};
    if (node->kind != CDL_YAML_SCALAR)
        return kinds[node->kind];
    if (cdl_yaml_is_null(node))
        return "nothing";
    snprintf(found, CDL_FOUND_MAX, "'%.40s%s'", node->text.bytes, node->text.length > 40 ? "..." : "");
    return found;
}

static void expected(struct cdl_loader *loader, const struct cdl_yaml_node *node, const char *key, const char *what)
{
    char found[CDL_FOUND_MAX];
    if (node->kind != CDL_YAML_BAD)
        cdl_report_error(loader->report, node->place, "'%.40s': expected %s, found %s", key, what,
                         cdl_found(node, found));
}

/* ------------------------------------------------------------------------------------------------------------ maps */

static const struct cdl_setting *find_setting(const struct cdl_shape *shape, struct cdl_slice key)
{
    for (size_t i = 0; i < shape->count; i++)
        if (cdl_slice_equal(cdl_slice_of(shape->settings[i].key), key))
            return &shape->settings[i];
    return NULL;
}

static void unknown_key(struct cdl_loader *loader, const struct cdl_yaml_node *key, const struct cdl_shape *shape)
{
    const char *names[KEYS_OF_A_SHAPE_MAX];
    char list[320];
    struct cdl_writer writer = cdl_writer_on(list, sizeof list);
    for (size_t i = 0; i < shape->count; i++) {
        names[i] = shape->settings[i].key;
        cdl_write_text(&writer, i == 0 ? "" : ", ");
        cdl_write_text(&writer, names[i]);
    }
    const char *near = cdl_nearest(key->text, names, shape->count);
    if (near != NULL)
        cdl_report_error(loader->report, key->place, "unknown key '%.40s' in %s; did you mean '%s'?", key->text.bytes,
                         shape->name, near);
    else
        cdl_report_error(loader->report, key->place, "unknown key '%.40s' in %s; expected %.*s", key->text.bytes,
                         shape->name, CDL_SLICE_ARG(cdl_written(&writer)));
}

static bool is_ignored(struct cdl_loader *loader, const struct cdl_yaml_node *key, const struct cdl_shape *shape)
{
    for (size_t i = 0; shape->ignored != NULL && i < shape->ignored->count; i++)
        if (cdl_slice_equal(key->text, cdl_slice_of(shape->ignored->words[i]))) {
            cdl_report_warning(loader->report, key->place, "'%s' has no meaning in %s and is ignored", key->text.bytes,
                               shape->name);
            return true;
        }
    return false;
}

void cdl_read_map(struct cdl_loader *loader, const struct cdl_yaml_node *node, const struct cdl_shape *shape,
                  void *into)
{
    if (node->kind != CDL_YAML_MAP || node->first == NULL) {
        char what[64];
        snprintf(what, sizeof what, "a map with keys such as '%s'", shape->settings[0].key);
        if (node->kind == CDL_YAML_MAP && node->count == 0)
            cdl_report_error(loader->report, node->place, "'%s': expected %s, found an empty map", shape->name, what);
        else
            expected(loader, node, shape->name, what);
        return;
    }
    for (const struct cdl_yaml_node *key = node->first; key != NULL; key = key->next->next) {
        const struct cdl_setting *setting = find_setting(shape, key->text);
        if (setting == NULL && !is_ignored(loader, key, shape))
            unknown_key(loader, key, shape);
        else if (setting != NULL)
            setting->read(loader, key->next, setting, (char *)into + setting->offset);
    }
}

void cdl_read_inner(struct cdl_loader *loader, const struct cdl_yaml_node *node, const struct cdl_setting *setting,
                    void *target)
{
    cdl_read_map(loader, node, setting->detail, target);
}

void cdl_read_node(struct cdl_loader *loader, const struct cdl_yaml_node *node, const struct cdl_setting *setting,
                   void *target)
{
    (void)loader;
    (void)setting;
    *(const struct cdl_yaml_node **)target = node;
}

/* ------------------------------------------------------------------------------------------------- lists and words */

bool cdl_read_items(struct cdl_loader *loader, const struct cdl_yaml_node *node, const char *key,
                    struct cdl_items *items)
{
    if (node->kind == CDL_YAML_LIST && node->count > 0)
        *items = (struct cdl_items){node->first, node->count};
    else if (node->kind == CDL_YAML_SCALAR && !cdl_yaml_is_null(node))
        *items = (struct cdl_items){node, 1};
    else if (node->kind == CDL_YAML_LIST) {
        cdl_report_error(loader->report, node->place, "'%.40s': the list is empty; leave the key out or fill it", key);
        return false;
    } else {
        expected(loader, node, key, "a word or a list of words");
        return false;
    }
    return true;
}

bool cdl_read_scalar(struct cdl_loader *loader, const struct cdl_yaml_node *node, const char *key, const char *what,
                     struct cdl_slice *text)
{
    if (node->kind != CDL_YAML_SCALAR || cdl_yaml_is_null(node) || node->text.length == 0) {
        if (node->kind == CDL_YAML_SCALAR && !node->plain)
            cdl_report_error(loader->report, node->place, "'%.40s': expected %s, found an empty text", key, what);
        else
            expected(loader, node, key, what);
        return false;
    }
    *text = node->text;
    return true;
}

void cdl_read_text(struct cdl_loader *loader, const struct cdl_yaml_node *node, const struct cdl_setting *setting,
                   void *target)
{
    struct cdl_slice text;
    if (cdl_read_scalar(loader, node, setting->key, setting->detail, &text))
        *(struct cdl_slice *)target = cdl_arena_copy(loader->arena, text);
}

void cdl_read_word(struct cdl_loader *loader, const struct cdl_yaml_node *node, const struct cdl_setting *setting,
                   void *target)
{
    const struct cdl_words *words = setting->detail;
    for (size_t i = 0; node->kind == CDL_YAML_SCALAR && i < words->count; i++)
        if (cdl_slice_equal(node->text, cdl_slice_of(words->words[i]))) {
            *(unsigned *)target = (unsigned)i; /* an enum without negative values */
            return;
        }
    char list[160];
    struct cdl_writer writer = cdl_writer_on(list, sizeof list - 1);
    for (size_t i = 0; i < words->count; i++) {
        cdl_write_text(&writer, i == 0 ? "" : i + 1 == words->count ? " or " : ", ");
        cdl_write_text(&writer, words->words[i]);
    }
    list[writer.length] = '\0';
    expected(loader, node, setting->key, list);
}

void cdl_read_bool(struct cdl_loader *loader, const struct cdl_yaml_node *node, const struct cdl_setting *setting,
                   void *target)
{
    const struct cdl_setting as_word = {.key = setting->key, .detail = CDL_WORDS("false", "true")};
    unsigned value = *(bool *)target;
    cdl_read_word(loader, node, &as_word, &value);
    *(bool *)target = value != 0;
}

/* --------------------------------------------------------------------------------------------------------- numbers */

/* Takes the digits that a text begins with; '_' may stand between digits. False for none, or a number beyond 64 bits. */
static bool take_number(struct cdl_slice *text, uint64_t *number)
{
    size_t i = 0;
    uint64_t sum = 0;
    for (; i < text->length; i++) {
        char c = text->bytes[i];
        if (c == '_' && i > 0 && i + 1 < text->length && text->bytes[i - 1] != '_')
            continue;
        if (c < '0' || c > '9')
            break;
        if (__builtin_mul_overflow(sum, 10u, &sum) || __builtin_add_overflow(sum, (uint64_t)(c - '0'), &sum))
            return false;
    }
    *text = cdl_slice_from(*text, i);
    *number = sum;
    return i > 0;
}

static bool read_whole(struct cdl_loader *loader, const struct cdl_yaml_node *node, const struct cdl_setting *setting,
                       uint64_t *number)
{
    const struct cdl_bounds *bounds = setting->detail;
    struct cdl_slice text = node->text;
    if (node->kind == CDL_YAML_SCALAR && take_number(&text, number) && text.length == 0 && *number >= bounds->min &&
        *number <= bounds->max)
        return true;
    char what[80];
    snprintf(what, sizeof what, "a whole number from %" PRIu64 " to %" PRIu64, bounds->min, bounds->max);
    expected(loader, node, setting->key, what);
    return false;
}

void cdl_read_u64(struct cdl_loader *loader, const struct cdl_yaml_node *node, const struct cdl_setting *setting,
                  void *target)
{
    uint64_t number;
    if (read_whole(loader, node, setting, &number))
        *(uint64_t *)target = number;
}

void cdl_read_u32(struct cdl_loader *loader, const struct cdl_yaml_node *node, const struct cdl_setting *setting,
                  void *target)
{
    uint64_t number;
    if (read_whole(loader, node, setting, &number))
        *(uint32_t *)target = (uint32_t)number; /* its bounds are 32 bits */
}

struct unit {
    const char *name;
    uint64_t factor;
};

static const struct unit durations[] = {
    {"ns", 1},
    {"us", 1000},
    {"ms", 1000000},
    {"s", 1000000000},
    {"m", UINT64_C(60) * 1000000000},
    {"min", UINT64_C(60) * 1000000000},
    {"h", UINT64_C(3600) * 1000000000},
    {"d", UINT64_C(86400) * 1000000000},
};

static const struct unit sizes[] = {
    {"B", 1},
    {"KiB", UINT64_C(1) << 10},
    {"MiB", UINT64_C(1) << 20},
    {"GiB", UINT64_C(1) << 30},
};

static bool read_with_unit(struct cdl_slice text, const struct unit *units, size_t count, uint64_t *value)
{
    uint64_t number;
    if (!take_number(&text, &number))
        return false;
    text = cdl_slice_trim(text);
    for (size_t i = 0; i < count; i++)
        if (cdl_slice_equal(text, cdl_slice_of(units[i].name)))
            return !__builtin_mul_overflow(number, units[i].factor, value);
    return false;
}

static void out_of_bounds(struct cdl_loader *loader, const struct cdl_yaml_node *node, const char *key,
                          const struct unit *units, size_t count, const struct cdl_bounds *bounds)
{
    const struct unit *low = units, *high = units;
    for (size_t i = 0; i < count; i++) {
        if (bounds->min % units[i].factor == 0)
            low = &units[i];
        if (bounds->max % units[i].factor == 0)
            high = &units[i];
    }
    cdl_report_error(loader->report, node->place, "'%.40s': '%.40s' is not from %" PRIu64 "%s to %" PRIu64 "%s", key,
                     node->text.bytes, bounds->min / low->factor, bounds->min == 0 ? "" : low->name,
                     bounds->max / high->factor, high->name);
}

void cdl_read_duration(struct cdl_loader *loader, const struct cdl_yaml_node *node, const struct cdl_setting *setting,
                       void *target)
{
    const size_t count = sizeof durations / sizeof durations[0];
    const struct cdl_bounds *bounds = setting->detail;
    uint64_t ns;
    if (node->kind != CDL_YAML_SCALAR || !read_with_unit(node->text, durations, count, &ns))
        expected(loader, node, setting->key, "a duration with its unit, as in 500ms, 2s or 1m");
    else if (ns < bounds->min || ns > bounds->max)
        out_of_bounds(loader, node, setting->key, durations, count, bounds);
    else
        *(int64_t *)target = (int64_t)ns;
}

void cdl_read_bytes(struct cdl_loader *loader, const struct cdl_yaml_node *node, const struct cdl_setting *setting,
                    void *target)
{
    const size_t count = sizeof sizes / sizeof sizes[0];
    const struct cdl_bounds *bounds = setting->detail;
    uint64_t bytes;
    if (node->kind != CDL_YAML_SCALAR || !read_with_unit(node->text, sizes, count, &bytes))
        expected(loader, node, setting->key, "a size with its unit, as in 512B, 16KiB or 1MiB");
    else if (bytes < bounds->min || bytes > bounds->max)
        out_of_bounds(loader, node, setting->key, sizes, count, bounds);
    else
        *(uint64_t *)target = bytes;
}

/* "0.015" is 15/1000: at most nine digits, so that both numbers fit 32 bits. */
static bool read_decimal(struct cdl_slice text, struct cdl_ratio *ratio)
{
    uint64_t whole, digits = 0, scale = 1;
    if (!take_number(&text, &whole) || whole > 1)
        return false;
    if (text.length > 1 && text.bytes[0] == '.') {
        size_t places = text.length - 1;
        text = cdl_slice_from(text, 1);
        if (places > 9 || memchr(text.bytes, '_', text.length) != NULL || !take_number(&text, &digits))
            return false;
        while (places-- > 0)
            scale *= 10;
    }
    *ratio = (struct cdl_ratio){(uint32_t)(whole * scale + digits), (uint32_t)scale};
    return text.length == 0;
}

static bool read_fraction(struct cdl_slice text, struct cdl_ratio *ratio)
{
    uint64_t part, whole = 0;
    if (!take_number(&text, &part))
        return false;
    if (text.length == 1 && text.bytes[0] == '%') {
        whole = 100;
    } else if (text.length > 1 && text.bytes[0] == '/') {
        text = cdl_slice_from(text, 1);
        if (!take_number(&text, &whole) || text.length > 0)
            return false;
    }
    *ratio = (struct cdl_ratio){(uint32_t)part, (uint32_t)whole};
    return whole > 0 && whole <= UINT32_MAX && part <= whole;
}

static bool read_ratio(struct cdl_slice text, struct cdl_ratio *ratio)
{
    if (cdl_slice_equal(text, CDL_SLICE("none")))
        *ratio = (struct cdl_ratio){0, 1};
    else if (cdl_slice_equal(text, CDL_SLICE("all")))
        *ratio = (struct cdl_ratio){1, 1};
    else
        return read_fraction(text, ratio) || read_decimal(text, ratio);
    return true;
}

void cdl_read_ratio(struct cdl_loader *loader, const struct cdl_yaml_node *node, const struct cdl_setting *setting,
                    void *target)
{
    struct cdl_ratio ratio;
    if (node->kind == CDL_YAML_SCALAR && read_ratio(node->text, &ratio) && ratio.numerator <= ratio.denominator &&
        (ratio.numerator > 0 || setting->detail != NULL))
        *(struct cdl_ratio *)target = ratio;
    else
        expected(loader, node, setting->key,
                 setting->detail != NULL ? "a part from none to all, as in 1/100, 1% or 0.01"
                                         : "a part above 0 and at most 1, as in 1/4, 25% or 0.25");
}
