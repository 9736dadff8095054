/* Any bytes as names, help and values of labels in a page of metrics.
 *
 * What comes out parses, by a reader that shares nothing with the writer; every series that was taken is in it once, and its
 * values come back byte for byte. The input is a list of texts, each after a byte with its length, and the first byte
 * chooses format and kind.
 */
#include <stdlib.h>
#include <string.h>

#include "../tests/unit/metrics/exposition_reader.h"
#include "metrics/histogram.h"
#include "metrics/prometheus.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define TEXTS 24u
#define PAGE_BYTES (UINT32_C(1) << 20)

/* Not assert: a fuzz target must not lose its checks in a release build. */
static void require(int condition)
{
    if (!condition)
        abort();
}

struct texts {
    struct cdl_slice at[TEXTS];
    size_t count;
};

static struct texts split(const uint8_t *data, size_t size)
{
    struct texts texts = {.count = 0};
    while (size > 0 && texts.count < TEXTS) {
        const size_t length = data[0] < size - 1 ? data[0] : size - 1;
        texts.at[texts.count++] = (struct cdl_slice){(const char *)data + 1, length};
        data += length + 1;
        size -= length + 1;
    }
    return texts;
}

/* As a name or help it ends at its first NUL. */
static char *terminated(struct cdl_slice text)
{
    char *copy = calloc(1, text.length + 1);
    require(copy != NULL);
    if (text.length > 0)
        memcpy(copy, text.bytes, text.length);
    return copy;
}

/* Two labels of fixed name, and one that the input names. */
static bool write_series(struct cdl_exposition *page, const struct cdl_slice text[3], const char *name)
{
    const struct cdl_label labels[3] = {{"limit", text[0]}, {"key", text[1]}, {name, text[2]}};
    const uint32_t refused = page->refused;
    cdl_exposition_u64(page, labels, 3, 1);
    return page->refused == refused;
}

static void require_value(const struct read_sample *sample, size_t label, struct cdl_slice given)
{
    const struct cdl_slice shown = sample->labels[label].value;
    char *bytes = malloc(shown.length + 1);
    require(bytes != NULL);
    require(cdl_slice_equal((struct cdl_slice){bytes, read_unmark(shown, bytes)}, given));
    free(bytes);
}

static void write_page(struct cdl_exposition *page, const struct texts *texts, enum cdl_metric_type type,
                       bool taken[TEXTS], const char *name, const char *help)
{
    cdl_exposition_family(page, type, "fuzz", help);
    for (size_t i = 0; i + 3 <= texts->count; i++)
        taken[i] = write_series(page, &texts->at[i], name);
    static struct cdl_histogram_snapshot snapshot = {.sum_ns = 12, .coarse = {1, 2, 3}};
    cdl_exposition_family(page, CDL_METRIC_HISTOGRAM, "fuzz_seconds", help);
    for (size_t i = 0; i < texts->count && i < 3; i++)
        cdl_histogram_expose(&snapshot, page, (struct cdl_label[]){{name, texts->at[i]}}, 1);
    cdl_exposition_family(page, CDL_METRIC_GAUGE, name, help); /* whatever the name */
    cdl_exposition_i64(page, NULL, 0, -1);
}

static void check_page(struct cdl_slice text, bool openmetrics, const struct texts *texts, const bool taken[TEXTS])
{
    struct read_page read;
    require(read_exposition(text, openmetrics, &read));
    size_t at = 0;
    for (size_t i = 0; i + 3 <= texts->count; i++) {
        if (!taken[i])
            continue;
        for (size_t label = 0; label < 3; label++)
            require_value(&read.samples[at], label, texts->at[i + label]);
        at++;
    }
    read_page_free(&read);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    const enum cdl_exposition_format format = data[0] & 1 ? CDL_OPENMETRICS_TEXT : CDL_PROMETHEUS_TEXT;
    static const enum cdl_metric_type types[] = {CDL_METRIC_COUNTER, CDL_METRIC_GAUGE, CDL_METRIC_INFO,
                                                 CDL_METRIC_FOREIGN_COUNTER};
    const struct texts texts = split(data + 1, size - 1);
    char *name = terminated(texts.count > 0 ? texts.at[0] : CDL_SLICE("x"));
    char *help = terminated(texts.count > 1 ? texts.at[1] : CDL_SLICE(""));
    (void)cdl_exposition_choose((struct cdl_slice){(const char *)data, size});

    bool taken[TEXTS] = {false};
    struct cdl_exposition page;
    struct cdl_slice text;
    cdl_exposition_begin(&page, format, PAGE_BYTES);
    write_page(&page, &texts, types[(data[0] >> 1) % 4], taken, name, help);
    require(cdl_exposition_finish(&page, &text) == CAUDAL_OK);
    check_page(text, format == CDL_OPENMETRICS_TEXT, &texts, taken);
    cdl_exposition_end(&page);
    free(name);
    free(help);
    return 0;
}
