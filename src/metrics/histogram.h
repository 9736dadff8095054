/* How long things took: a log-linear histogram, as HdrHistogram (Gil Tene) has them.
 *
 * Each power of two of nanoseconds is divided into 128 equal buckets, so a recorded time is known to better than 1 % at any
 * length up to 68 s; what took longer is counted in the last bucket, and its length in full in the sum. Beside them stand the
 * few decimal buckets that Prometheus is shown. They are counted on their own and not derived, since their bounds are not
 * those of the fine buckets: le="0.001" means one millisecond exactly.
 *
 * One thread records into a histogram and owns it; any thread may take a snapshot at any time, which may then have counted a
 * time in one of its tables and not yet in the other. */
#ifndef CDL_METRICS_HISTOGRAM_H
#define CDL_METRICS_HISTOGRAM_H

#include "metrics/cell.h"
#include "metrics/prometheus.h"

#define CDL_HISTOGRAM_STEP_BITS 7u /* 128 buckets to a power of two */
#define CDL_HISTOGRAM_STEPS (1u << CDL_HISTOGRAM_STEP_BITS)
#define CDL_HISTOGRAM_TOP_BITS 36u /* up to 2^36 ns, 68.7 s */
#define CDL_HISTOGRAM_BUCKETS ((CDL_HISTOGRAM_TOP_BITS - CDL_HISTOGRAM_STEP_BITS + 1) * CDL_HISTOGRAM_STEPS)
#define CDL_HISTOGRAM_BOUNDS 19u

/* The bounds that Prometheus is shown, in nanoseconds, rising; a bucket holds what took at most its bound. */
extern const uint64_t cdl_histogram_bounds_ns[CDL_HISTOGRAM_BOUNDS];

/* Zeroed memory is an empty histogram. About 30 KiB. */
struct cdl_histogram {
    cdl_cell sum_ns; /* wraps after 584 years of waiting */
    cdl_cell coarse[CDL_HISTOGRAM_BOUNDS + 1];
    cdl_cell fine[CDL_HISTOGRAM_BUCKETS];
} __attribute__((aligned(CDL_CACHE_LINE)));

/* Sums of histograms, in the hands of one thread. Zeroed memory is an empty one. */
struct cdl_histogram_snapshot {
    uint64_t sum_ns;
    uint64_t coarse[CDL_HISTOGRAM_BOUNDS + 1]; /* by bound, not cumulative; the last one: above all bounds */
    uint64_t fine[CDL_HISTOGRAM_BUCKETS];
};

/* The bucket of a time, and the longest time that falls into a bucket. */
uint32_t cdl_histogram_bucket(uint64_t ns);
uint64_t cdl_histogram_bucket_end_ns(uint32_t bucket);

/* Counts a time; a negative one, from a clock that was set back, counts as 0. Only the owner calls this. */
void cdl_histogram_record(struct cdl_histogram *histogram, int64_t ns);
/* The same for `count` things that took that time each. */
void cdl_histogram_record_many(struct cdl_histogram *histogram, int64_t ns, uint64_t count);

/* Adds what a histogram holds now to a snapshot. */
void cdl_histogram_add(struct cdl_histogram_snapshot *snapshot, const struct cdl_histogram *histogram);

uint64_t cdl_histogram_count(const struct cdl_histogram_snapshot *snapshot);

/* The time that `per_million` of a million of the recorded ones did not exceed (500000: the median): the longest time of the
 * bucket in which that one lies, so never too short, and too long by less than 1 %. 0 when nothing was recorded. */
uint64_t cdl_histogram_quantile_ns(const struct cdl_histogram_snapshot *snapshot, uint32_t per_million);

/* Writes _bucket, _sum and _count into the open family; at most CDL_LABELS_MAX - 1 labels, none of them "le". */
void cdl_histogram_expose(const struct cdl_histogram_snapshot *snapshot, struct cdl_exposition *page,
                          const struct cdl_label *labels, size_t count);

#endif
