/* Reading a page of metrics back, as strictly as its format is written down: Prometheus text 0.0.4 or OpenMetrics 1.0, as far as
 * caudal writes them. What a tolerant reader would let pass is an error here: a series twice, a family in two places, an
 * escape that the format does not have, a control character, a bucket that falls. */
#ifndef TESTS_UNIT_METRICS_EXPOSITION_READER_H
#define TESTS_UNIT_METRICS_EXPOSITION_READER_H

#include <stdint.h>

#include "base/slice.h"

#define READ_LABELS_MAX 40

struct read_label {
    struct cdl_slice name, value; /* value without its escapes */
};

struct read_sample {
    struct cdl_slice name;
    struct read_label labels[READ_LABELS_MAX];
    size_t label_count;
    struct cdl_slice value; /* digits */
};

struct read_page {
    struct read_sample *samples;
    size_t count;
    char *values; /* what the labels' values point into */
    size_t line;  /* that was read last, from 1 */
    const char *why;
};

/* False with page->why and page->line when the text is not such a page. Slices point into it. To be freed in any case. */
bool read_exposition(struct cdl_slice text, bool openmetrics, struct read_page *page);
void read_page_free(struct read_page *page);

/* The sample of that name with exactly these labels, given as "a=x,b=y" in any order ("" for none); NULL when there is none. */
const struct read_sample *read_find(const struct read_page *page, const char *name, const char *labels);

/* Takes the marks (base/utf8.h) out of a value: what was given to the writer. Returns its length; `bytes` has room for value.length. */
size_t read_unmark(struct cdl_slice value, char *bytes);

#endif
