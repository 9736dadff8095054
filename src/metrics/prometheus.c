#include "metrics/prometheus.h"

#include <stdlib.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/arith.h"
#include "base/utf8.h"

#define FIRST_BYTES 4096u
#define NUMBER_BYTES 32u /* the longest number, its blank and its newline */

/* ---- The page grows ---- */

/* Makes room for `bytes` more, as far as the page may grow. The writer sees whether it was enough. */
static void make_room(struct cdl_exposition *page, size_t bytes)
{
    struct cdl_writer *out = &page->out;
    if (bytes <= out->size - out->length || out->size >= page->max_bytes)
        return;
    size_t size = out->size < FIRST_BYTES ? FIRST_BYTES : out->size;
    while (size - out->length < bytes && size < page->max_bytes)
        size *= 2;
    if (size > page->max_bytes)
        size = page->max_bytes;
    char *bigger = realloc(out->bytes, size);
    if (bigger == NULL)
        return;
    out->bytes = bigger;
    out->size = size;
}

/* Takes back what was written since `start` when not all of it fitted. */
static void settle(struct cdl_exposition *page, size_t start)
{
    if (!page->out.overflow)
        return;
    page->out.length = start;
    page->out.overflow = false;
    page->overflow = true;
}

/* ---- Nothing is written twice ---- */

static bool seen_grow(struct cdl_exposition_seen *seen)
{
    const size_t size = seen->size == 0 ? 64 : seen->size * 2;
    uint64_t *hashes = calloc(size, sizeof *hashes);
    if (hashes == NULL)
        return false;
    for (size_t i = 0; i < seen->size; i++) {
        if (seen->hashes[i] == 0)
            continue;
        size_t at = seen->hashes[i] & (size - 1);
        while (hashes[at] != 0)
            at = (at + 1) & (size - 1);
        hashes[at] = seen->hashes[i];
    }
    free(seen->hashes);
    seen->hashes = hashes;
    seen->size = size;
    return true;
}

/* Remembers a hash; false when it was there before. Two things of the same 64-bit hash would be taken for one, which for the
 * few thousand series of a page does not happen. */
static bool is_new(struct cdl_exposition *page, uint64_t hash)
{
    struct cdl_exposition_seen *seen = &page->seen;
    if (seen->used * 2 >= seen->size && !seen_grow(seen)) {
        page->overflow = true;
        return true;
    }
    if (hash == 0)
        hash = 1;
    size_t at = hash & (seen->size - 1);
    while (seen->hashes[at] != 0) {
        if (seen->hashes[at] == hash)
            return false;
        at = (at + 1) & (seen->size - 1);
    }
    seen->hashes[at] = hash;
    seen->used++;
    return true;
}

static uint64_t hash_text(struct cdl_slice text, uint64_t seed)
{
    return XXH3_64bits_withSeed(text.bytes, text.length, seed);
}

/* A sum, so that the order of labels does not count; a label without a value is the same as none, as Prometheus has it. */
static uint64_t hash_series(const struct cdl_exposition *page, const char *suffix, const struct cdl_label *labels,
                            size_t count)
{
    uint64_t hash = hash_text(cdl_slice_of(suffix), hash_text(cdl_slice_of(page->family), 1));
    for (size_t i = 0; i < count; i++)
        if (labels[i].value.length > 0)
            hash += hash_text(labels[i].value, hash_text(cdl_slice_of(labels[i].name), 2));
    return hash;
}

/* ---- Names ---- */

static bool is_name(const char *name, bool colons)
{
    for (const char *c = name; *c != '\0'; c++) {
        const bool letter = (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') || *c == '_' || (colons && *c == ':');
        const bool digit = *c >= '0' && *c <= '9';
        if (!letter && (!digit || c == name))
            return false;
    }
    return *name != '\0';
}

static bool are_labels(const struct cdl_label *labels, size_t count)
{
    if (count > CDL_LABELS_MAX)
        return false;
    for (size_t i = 0; i < count; i++) {
        if (!is_name(labels[i].name, false) || strncmp(labels[i].name, "__", 2) == 0)
            return false;
        for (size_t j = 0; j < i; j++)
            if (strcmp(labels[i].name, labels[j].name) == 0)
                return false;
    }
    return true;
}

static bool ends_with(const char *text, const char *end)
{
    const size_t length = strlen(text), end_length = strlen(end);
    return length >= end_length && strcmp(text + length - end_length, end) == 0;
}

/* Endings that the format gives to samples: a family that has one could be taken for a sample of another family. */
static bool has_reserved_ending(const char *name)
{
    static const char *const endings[] = {"_total", "_created", "_bucket", "_count",
                                          "_sum",   "_info",    "_gcount", "_gsum"};
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++)
        if (ends_with(name, endings[i]))
            return true;
    return false;
}

/* ---- Families ---- */

static const char *suffix_of(enum cdl_metric_type type)
{
    return type == CDL_METRIC_COUNTER ? "_total" : type == CDL_METRIC_INFO ? "_info" : "";
}

static const char *type_name(const struct cdl_exposition *page)
{
    switch (page->type) {
    case CDL_METRIC_COUNTER:
        return "counter";
    case CDL_METRIC_HISTOGRAM:
        return "histogram";
    case CDL_METRIC_INFO:
        if (page->format == CDL_OPENMETRICS_TEXT)
            return "info";
        return "gauge"; /* 0.0.4 has no infos */
    case CDL_METRIC_FOREIGN_COUNTER:
        return page->format == CDL_OPENMETRICS_TEXT ? "unknown" : "counter";
    case CDL_METRIC_GAUGE:
        break;
    }
    return "gauge";
}

/* "# WORD NAME ". OpenMetrics names the family; 0.0.4 names the samples. */
static void write_comment(struct cdl_exposition *page, const char *word)
{
    cdl_write_text(&page->out, "# ");
    cdl_write_text(&page->out, word);
    cdl_write_text(&page->out, " ");
    cdl_write_text(&page->out, page->family);
    if (page->format == CDL_PROMETHEUS_TEXT)
        cdl_write_text(&page->out, suffix_of(page->type));
    cdl_write_text(&page->out, " ");
}

/* Text inside a line. OpenMetrics escapes quotes in help as well as in values; 0.0.4 in values only. */
static void write_escaped(struct cdl_writer *out, struct cdl_slice text, bool quotes)
{
    while (text.length > 0) {
        const struct cdl_character first = cdl_utf8_first(text);
        const struct cdl_slice bytes = cdl_slice_head(text, first.length);
        text = cdl_slice_from(text, first.length);
        if (first.code == '\n')
            cdl_write_text(out, "\\n");
        else if (first.code == '\\')
            cdl_write_text(out, "\\\\");
        else if (first.code == '"' && quotes)
            cdl_write_text(out, "\\\"");
        else if (first.kind == CDL_CHARACTER_PLAIN && first.code != CDL_UTF8_MARK)
            cdl_write(out, bytes);
        else
            cdl_write_marked(out, bytes);
    }
}

static void write_unit(struct cdl_exposition *page)
{
    static const char *const units[] = {"seconds", "bytes"};
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        const size_t length = strlen(page->family), unit_length = strlen(units[i]);
        if (length > unit_length && page->family[length - unit_length - 1] == '_' &&
            ends_with(page->family, units[i])) {
            write_comment(page, "UNIT");
            cdl_write_text(&page->out, units[i]);
            cdl_write_text(&page->out, "\n");
        }
    }
}

void cdl_exposition_family(struct cdl_exposition *page, enum cdl_metric_type type, const char *name, const char *help)
{
    page->family = NULL;
    if (!is_name(name, true) || has_reserved_ending(name) || !is_new(page, hash_text(cdl_slice_of(name), 0))) {
        page->refused++;
        return;
    }
    page->family = name;
    page->type = type;
    make_room(page, 3 * (strlen(name) + NUMBER_BYTES) + CDL_UTF8_MARKED_BYTES * strlen(help));
    const size_t start = page->out.length;
    write_comment(page, "HELP");
    write_escaped(&page->out, cdl_slice_of(help), page->format == CDL_OPENMETRICS_TEXT);
    cdl_write_text(&page->out, "\n");
    write_comment(page, "TYPE");
    cdl_write_text(&page->out, type_name(page));
    cdl_write_text(&page->out, "\n");
    if (page->format == CDL_OPENMETRICS_TEXT)
        write_unit(page);
    settle(page, start);
}

/* ---- Samples ---- */

static size_t room_for_sample(const struct cdl_exposition *page, const char *suffix, const struct cdl_label *labels,
                              size_t count, struct cdl_slice value)
{
    size_t bytes = strlen(page->family) + strlen(suffix) + value.length + NUMBER_BYTES;
    for (size_t i = 0; i < count; i++)
        bytes += strlen(labels[i].name) + 4 + CDL_UTF8_MARKED_BYTES * labels[i].value.length;
    return bytes;
}

static void write_labels(struct cdl_writer *out, const struct cdl_label *labels, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        cdl_write_text(out, i == 0 ? "{" : ",");
        cdl_write_text(out, labels[i].name);
        cdl_write_text(out, "=\"");
        write_escaped(out, labels[i].value, true);
        cdl_write_text(out, "\"");
    }
    if (count > 0)
        cdl_write_text(out, "}");
}

void cdl_exposition_sample(struct cdl_exposition *page, const char *suffix, const struct cdl_label *labels,
                           size_t count, struct cdl_slice value)
{
    if (page->family == NULL || !are_labels(labels, count) || !is_new(page, hash_series(page, suffix, labels, count))) {
        page->refused++;
        return;
    }
    make_room(page, room_for_sample(page, suffix, labels, count, value));
    const size_t start = page->out.length;
    cdl_write_text(&page->out, page->family);
    cdl_write_text(&page->out, suffix);
    write_labels(&page->out, labels, count);
    cdl_write_text(&page->out, " ");
    cdl_write(&page->out, value);
    cdl_write_text(&page->out, "\n");
    settle(page, start);
}

void cdl_exposition_u64(struct cdl_exposition *page, const struct cdl_label *labels, size_t count, uint64_t value)
{
    char text[NUMBER_BYTES];
    struct cdl_writer number = cdl_writer_on(text, sizeof text);
    cdl_write_u64(&number, value);
    cdl_exposition_sample(page, suffix_of(page->type), labels, count, cdl_written(&number));
}

void cdl_exposition_i64(struct cdl_exposition *page, const struct cdl_label *labels, size_t count, int64_t value)
{
    char text[NUMBER_BYTES];
    struct cdl_writer number = cdl_writer_on(text, sizeof text);
    cdl_write_i64(&number, value);
    cdl_exposition_sample(page, suffix_of(page->type), labels, count, cdl_written(&number));
}

void cdl_exposition_seconds(struct cdl_exposition *page, const struct cdl_label *labels, size_t count,
                            uint64_t value_ns)
{
    char text[NUMBER_BYTES];
    struct cdl_writer number = cdl_writer_on(text, sizeof text);
    cdl_write_seconds(&number, value_ns);
    cdl_exposition_sample(page, suffix_of(page->type), labels, count, cdl_written(&number));
}

void cdl_write_seconds(struct cdl_writer *writer, uint64_t ns)
{
    cdl_write_u64(writer, ns / (uint64_t)CDL_NS_PER_S);
    uint64_t rest = ns % (uint64_t)CDL_NS_PER_S;
    if (rest == 0)
        return;
    char digits[10] = ".";
    size_t length = 0;
    for (size_t i = 9; i > 0; i--, rest /= 10) {
        digits[i] = (char)('0' + rest % 10);
        if (length == 0 && digits[i] != '0')
            length = i + 1;
    }
    cdl_write(writer, (struct cdl_slice){digits, length});
}

/* ---- The page as a whole ---- */

void cdl_exposition_begin(struct cdl_exposition *page, enum cdl_exposition_format format, size_t max_bytes)
{
    *page = (struct cdl_exposition){.format = format, .max_bytes = max_bytes};
}

int cdl_exposition_finish(struct cdl_exposition *page, struct cdl_slice *text)
{
    static const char end[] = "# EOF\n";
    if (page->format == CDL_OPENMETRICS_TEXT) {
        make_room(page, sizeof end);
        cdl_write_text(&page->out, end);
        settle(page, page->out.length);
    }
    page->family = NULL;
    *text = page->overflow ? (struct cdl_slice){NULL, 0} : cdl_written(&page->out);
    return page->overflow ? CAUDAL_ERR_MEMORY : CAUDAL_OK;
}

void cdl_exposition_end(struct cdl_exposition *page)
{
    free(page->out.bytes);
    free(page->seen.hashes);
    *page = (struct cdl_exposition){.format = page->format};
}

/* ---- Which format ---- */

/* Cuts what stands before a separator off the front of a text. */
static struct cdl_slice cut(struct cdl_slice *text, char separator)
{
    const char *at = text->length == 0 ? NULL : memchr(text->bytes, separator, text->length);
    const size_t length = at == NULL ? text->length : (size_t)(at - text->bytes);
    const struct cdl_slice piece = cdl_slice_head(*text, length);
    *text = cdl_slice_from(*text, at == NULL ? length : length + 1);
    return cdl_slice_trim(piece);
}

/* A quality in thousandths: "0.85" is 850. What is no quality counts as 0: better the format that everybody reads. */
static unsigned parse_quality(struct cdl_slice text)
{
    if (text.length == 0 || text.length > 5 || (text.length > 1 && text.bytes[1] != '.'))
        return 0;
    unsigned quality = 0;
    for (size_t i = 0, places = 0; places < 4; i++) {
        if (i == 1)
            continue;
        const char c = i < text.length ? text.bytes[i] : '0';
        if (c < '0' || c > '9')
            return 0;
        quality = quality * 10 + (unsigned)(c - '0');
        places++;
    }
    return quality > 1000 ? 0 : quality;
}

/* One element of the header: its media type, how much it is wanted, and its version ("" when none is named). */
struct wish {
    struct cdl_slice type, version;
    unsigned quality;
};

static struct wish parse_wish(struct cdl_slice element)
{
    struct wish wish = {.type = cut(&element, ';'), .version = CDL_SLICE(""), .quality = 1000};
    while (element.length > 0) {
        struct cdl_slice value = cut(&element, ';');
        const struct cdl_slice name = cut(&value, '=');
        if (cdl_slice_equal_nocase(name, CDL_SLICE("q")))
            wish.quality = parse_quality(cdl_slice_trim(value));
        else if (cdl_slice_equal_nocase(name, CDL_SLICE("version")))
            wish.version = cdl_slice_trim(value);
    }
    return wish;
}

enum cdl_exposition_format cdl_exposition_choose(struct cdl_slice accept)
{
    unsigned openmetrics = 0, plain = 0;
    while (accept.length > 0) {
        const struct wish wish = parse_wish(cut(&accept, ','));
        const bool any_version = wish.version.length == 0;
        if (cdl_slice_equal_nocase(wish.type, CDL_SLICE("application/openmetrics-text")) &&
            (any_version || cdl_slice_equal(wish.version, CDL_SLICE("1.0.0"))))
            openmetrics = wish.quality > openmetrics ? wish.quality : openmetrics;
        else if (cdl_slice_equal_nocase(wish.type, CDL_SLICE("text/plain")) &&
                 (any_version || cdl_slice_equal(wish.version, CDL_SLICE("0.0.4"))))
            plain = wish.quality > plain ? wish.quality : plain;
    }
    return openmetrics > 0 && openmetrics >= plain ? CDL_OPENMETRICS_TEXT : CDL_PROMETHEUS_TEXT;
}

const char *cdl_exposition_content_type(enum cdl_exposition_format format)
{
    return format == CDL_OPENMETRICS_TEXT ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
                                          : "text/plain; version=0.0.4; charset=utf-8";
}
