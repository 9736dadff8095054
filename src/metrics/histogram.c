#include "metrics/histogram.h"

#include "base/arith.h"

#define US UINT64_C(1000)
#define MS (1000 * US)

const uint64_t cdl_histogram_bounds_ns[CDL_HISTOGRAM_BOUNDS] = {
    1 * US, 5 * US,  10 * US, 25 * US, 50 * US,  100 * US, 250 * US, 500 * US,  1 * MS,     2500 * US,
    5 * MS, 10 * MS, 25 * MS, 50 * MS, 100 * MS, 250 * MS, 500 * MS, 1000 * MS, 10000 * MS,
};

/* A number up to 127 is its own bucket. Above, the position is the power of two and the seven bits after the leading one:
 * for ns = 1bbbbbbb…, shifted right until eight bits are left, those eight bits with 128 more for each shift. */
uint32_t cdl_histogram_bucket(uint64_t ns)
{
    if (ns < CDL_HISTOGRAM_STEPS)
        return (uint32_t)ns;
    const uint32_t shift = 63u - (uint32_t)__builtin_clzll(ns) - CDL_HISTOGRAM_STEP_BITS;
    if (shift >= CDL_HISTOGRAM_TOP_BITS - CDL_HISTOGRAM_STEP_BITS)
        return CDL_HISTOGRAM_BUCKETS - 1;
    return (shift << CDL_HISTOGRAM_STEP_BITS) + (uint32_t)(ns >> shift);
}

uint64_t cdl_histogram_bucket_end_ns(uint32_t bucket)
{
    if (bucket < 2 * CDL_HISTOGRAM_STEPS)
        return bucket;
    const uint32_t shift = (bucket >> CDL_HISTOGRAM_STEP_BITS) - 1;
    const uint64_t eight_bits = bucket - (shift << CDL_HISTOGRAM_STEP_BITS);
    return ((eight_bits + 1) << shift) - 1;
}

static uint32_t coarse_bucket(uint64_t ns)
{
    uint32_t low = 0, high = CDL_HISTOGRAM_BOUNDS;
    while (low < high) {
        const uint32_t middle = (low + high) / 2;
        if (ns <= cdl_histogram_bounds_ns[middle])
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

void cdl_histogram_record_many(struct cdl_histogram *histogram, int64_t ns, uint64_t count)
{
    const uint64_t time = ns < 0 ? 0 : (uint64_t)ns;
    cdl_cell_add(&histogram->sum_ns, time * count);
    cdl_cell_add(&histogram->coarse[coarse_bucket(time)], count);
    cdl_cell_add(&histogram->fine[cdl_histogram_bucket(time)], count);
}

void cdl_histogram_record(struct cdl_histogram *histogram, int64_t ns)
{
    cdl_histogram_record_many(histogram, ns, 1);
}

void cdl_histogram_add(struct cdl_histogram_snapshot *snapshot, const struct cdl_histogram *histogram)
{
    snapshot->sum_ns += cdl_cell_read(&histogram->sum_ns);
    for (uint32_t i = 0; i <= CDL_HISTOGRAM_BOUNDS; i++)
        snapshot->coarse[i] += cdl_cell_read(&histogram->coarse[i]);
    for (uint32_t i = 0; i < CDL_HISTOGRAM_BUCKETS; i++)
        snapshot->fine[i] += cdl_cell_read(&histogram->fine[i]);
}

uint64_t cdl_histogram_count(const struct cdl_histogram_snapshot *snapshot)
{
    uint64_t count = 0;
    for (uint32_t i = 0; i <= CDL_HISTOGRAM_BOUNDS; i++)
        count += snapshot->coarse[i];
    return count;
}

uint64_t cdl_histogram_quantile_ns(const struct cdl_histogram_snapshot *snapshot, uint32_t per_million)
{
    /* Counted anew: while times are being recorded the two tables may differ by those that are under way. */
    uint64_t count = 0;
    for (uint32_t i = 0; i < CDL_HISTOGRAM_BUCKETS; i++)
        count += snapshot->fine[i];
    if (count == 0)
        return 0;
    const cdl_u128 share = (cdl_u128)count * (per_million < 1000000 ? per_million : 1000000);
    const uint64_t rank = (uint64_t)((share + 999999) / 1000000); /* the rank-th shortest, from 1 */
    uint64_t below = 0;
    for (uint32_t i = 0; i < CDL_HISTOGRAM_BUCKETS; i++) {
        below += snapshot->fine[i];
        if (below > 0 && below >= rank)
            return cdl_histogram_bucket_end_ns(i);
    }
    return cdl_histogram_bucket_end_ns(CDL_HISTOGRAM_BUCKETS - 1);
}

/* The value of `le`: digits, and where the format wants a number that looks like a floating one, ".0" behind whole ones. Small
 * bounds are written as Go writes them, with an exponent below 0.0001, since that is how other exporters spell them. */
static struct cdl_slice bound_text(uint64_t ns, enum cdl_exposition_format format, char text[32])
{
    struct cdl_writer writer = cdl_writer_on(text, 32);
    if (ns < 100 * US) {
        const uint64_t tenth = ns >= 10 * US ? 10 * US : 1 * US;
        cdl_write_u64(&writer, ns / tenth);
        if (ns % tenth != 0) {
            cdl_write_text(&writer, ".");
            cdl_write_u64(&writer, ns % tenth / (tenth / 10));
        }
        cdl_write_text(&writer, tenth == 10 * US ? "e-05" : "e-06");
        return cdl_written(&writer);
    }
    cdl_write_seconds(&writer, ns);
    if (format == CDL_OPENMETRICS_TEXT && ns % (uint64_t)CDL_NS_PER_S == 0)
        cdl_write_text(&writer, ".0");
    return cdl_written(&writer);
}

static void write_bucket(struct cdl_exposition *page, const struct cdl_label *labels, size_t count, struct cdl_slice le,
                         uint64_t cumulative)
{
    struct cdl_label all[CDL_LABELS_MAX + 1];
    char text[24];
    struct cdl_writer value = cdl_writer_on(text, sizeof text);
    cdl_write_u64(&value, cumulative);
    if (count > 0)
        memcpy(all, labels, count * sizeof *labels);
    all[count] = (struct cdl_label){"le", le};
    cdl_exposition_sample(page, "_bucket", all, count + 1, cdl_written(&value));
}

static void write_sum_and_count(const struct cdl_histogram_snapshot *snapshot, struct cdl_exposition *page,
                                const struct cdl_label *labels, size_t count, uint64_t total)
{
    char text[32];
    struct cdl_writer value = cdl_writer_on(text, sizeof text);
    cdl_write_seconds(&value, snapshot->sum_ns);
    cdl_exposition_sample(page, "_sum", labels, count, cdl_written(&value));
    value.length = 0;
    cdl_write_u64(&value, total);
    cdl_exposition_sample(page, "_count", labels, count, cdl_written(&value));
}

/* "le" is the histogram's own, and one place is for it. */
static bool leaves_room_for_le(const struct cdl_label *labels, size_t count)
{
    if (count >= CDL_LABELS_MAX)
        return false;
    for (size_t i = 0; i < count; i++)
        if (strcmp(labels[i].name, "le") == 0)
            return false;
    return true;
}

void cdl_histogram_expose(const struct cdl_histogram_snapshot *snapshot, struct cdl_exposition *page,
                          const struct cdl_label *labels, size_t count)
{
    if (!leaves_room_for_le(labels, count)) {
        page->refused++;
        return;
    }
    uint64_t cumulative = 0;
    for (uint32_t i = 0; i < CDL_HISTOGRAM_BOUNDS; i++) {
        char text[32];
        cumulative += snapshot->coarse[i];
        write_bucket(page, labels, count, bound_text(cdl_histogram_bounds_ns[i], page->format, text), cumulative);
    }
    cumulative += snapshot->coarse[CDL_HISTOGRAM_BOUNDS];
    write_bucket(page, labels, count, CDL_SLICE("+Inf"), cumulative);
    write_sum_and_count(snapshot, page, labels, count, cumulative);
}
