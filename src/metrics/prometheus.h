/* Writing metrics as text: Prometheus' format 0.0.4, or OpenMetrics 1.0 for who asks for it.
 *
 *     struct cdl_exposition page;
 *     cdl_exposition_begin(&page, CDL_PROMETHEUS_TEXT, 1 << 20);
 *     cdl_exposition_family(&page, CDL_METRIC_COUNTER, "caudal_reloads", "Policies that were loaded.");
 *     cdl_exposition_u64(&page, (struct cdl_label[]){{"result", CDL_SLICE("ok")}}, 1, 17);
 *     if (cdl_exposition_finish(&page, &text) == CAUDAL_OK) ...
 *     cdl_exposition_end(&page);
 *
 * What comes out parses, whatever the values of labels are. Names of metrics and labels come from this program's own
 * text, never from a client; one that is not a name, a family or a series that was already written, is left out and
 * counted in `refused` instead of spoiling the page. Numbers are integers, or nanoseconds written as decimal seconds: no
 * floating point, so nothing is rounded.
 *
 * A label's value is shown as it is, with the format's escapes for backslash, quote and newline. Bytes that are not UTF-8
 * and characters that would move a cursor are marked (base/utf8.h), so different values are different series. */
#ifndef CDL_METRICS_PROMETHEUS_H
#define CDL_METRICS_PROMETHEUS_H

#include "base/writer.h"
#include "caudal/status.h"

enum cdl_exposition_format {
    CDL_PROMETHEUS_TEXT,
    CDL_OPENMETRICS_TEXT,
};

enum cdl_metric_type {
    CDL_METRIC_COUNTER, /* samples are named NAME_total */
    CDL_METRIC_GAUGE,
    CDL_METRIC_HISTOGRAM,
    CDL_METRIC_INFO, /* what does not change, as labels of the one sample NAME_info with value 1 */
    /* A counter that others have named: samples are named NAME. OpenMetrics has no such counters, and is told that the type is unknown. */
    CDL_METRIC_FOREIGN_COUNTER,
};

struct cdl_label {
    const char *name;
    struct cdl_slice value;
};

#define CDL_LABELS_MAX 34u

/* The hashes of what was written: names of families, and series, which are the same in any order of their labels. */
struct cdl_exposition_seen {
    uint64_t *hashes; /* open addressing; 0: free */
    size_t size;      /* a power of two, or 0 */
    size_t used;
};

struct cdl_exposition {
    struct cdl_writer out;
    size_t max_bytes;
    enum cdl_exposition_format format;
    enum cdl_metric_type type; /* of the family that is open */
    const char *family;        /* its name; NULL: none is open, or it was refused */
    struct cdl_exposition_seen seen;
    bool overflow;    /* something did not fit or memory was short */
    uint32_t refused; /* families and series that were left out, by a mistake of the caller */
};

/* Which format an Accept header asks for. OpenMetrics when it is named at least as high as text/plain; an empty header, one
 * that asks for neither, and OpenMetrics before 1.0 give Prometheus' own. */
enum cdl_exposition_format cdl_exposition_choose(struct cdl_slice accept);
const char *cdl_exposition_content_type(enum cdl_exposition_format format);

/* Starts a page that grows to at most `max_bytes`. Allocates as it grows; not for the request path. */
void cdl_exposition_begin(struct cdl_exposition *page, enum cdl_exposition_format format, size_t max_bytes);

/* Opens a family; `name` without _total, _info or _bucket, and constant while the page is in use. A name that ends in its unit
 * (_seconds, _bytes) declares it. */
void cdl_exposition_family(struct cdl_exposition *page, enum cdl_metric_type type, const char *name, const char *help);

/* Samples of the open family. Labels may be NULL when count is 0. */
void cdl_exposition_u64(struct cdl_exposition *page, const struct cdl_label *labels, size_t count, uint64_t value);
void cdl_exposition_i64(struct cdl_exposition *page, const struct cdl_label *labels, size_t count, int64_t value);
void cdl_exposition_seconds(struct cdl_exposition *page, const struct cdl_label *labels, size_t count,
                            uint64_t value_ns);

/* A sample named FAMILY + suffix whose value is already text. What the functions above are made of. */
void cdl_exposition_sample(struct cdl_exposition *page, const char *suffix, const struct cdl_label *labels,
                           size_t count, struct cdl_slice value);

/* Nanoseconds as seconds, without trailing zeros: 1500000 is "0.0015". */
void cdl_write_seconds(struct cdl_writer *writer, uint64_t ns);

/* Completes the page: CAUDAL_OK and its text, which lasts until cdl_exposition_end; or CAUDAL_ERR_MEMORY when it is
 * incomplete. Half a page is never given out: to its reader every counter that is missing would have vanished. */
int cdl_exposition_finish(struct cdl_exposition *page, struct cdl_slice *text);
void cdl_exposition_end(struct cdl_exposition *page);

#endif
