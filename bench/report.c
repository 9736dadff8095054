#include "bench.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What we set out to reach. */
#define REACH_RATIO 1.4
#define REACH_BYTES_PER_KEY 24.0
#define REACH_REFUSAL 1.0

const char *bench_operation_name(enum bench_operation operation)
{
    static const char *const names[BENCH_OPERATIONS] = {"take", "denied take", "batch of 16"};
    return names[operation];
}

/* ---- samples ---- */

/* Keeps them in order, so that the median and the ends can be read off. */
void bench_sample_add(struct bench_sample *sample, double value)
{
    unsigned at = sample->count++;
    for (; at > 0 && sample->values[at - 1] > value; at--)
        sample->values[at] = sample->values[at - 1];
    sample->values[at] = value;
}

static double median(const struct bench_sample *sample)
{
    const unsigned half = sample->count / 2;
    return sample->count % 2 != 0 ? sample->values[half] : (sample->values[half - 1] + sample->values[half]) / 2;
}

static double lowest(const struct bench_sample *sample)
{
    return sample->values[0];
}

static double highest(const struct bench_sample *sample)
{
    return sample->values[sample->count - 1];
}

static double bytes_per_key(const struct bench_memory *memory)
{
    return (double)memory->table_bytes / (double)memory->live_keys;
}

/* ---- text ---- */

static const char *mark(double value, double reach)
{
    return value <= reach ? "" : "  above reach";
}

void bench_print_head(const struct bench_report *report)
{
    printf("nanoseconds a decision, medians of %u pairs of %.0f ms; one reading of the clock: %.1f ns%s%s\n\n",
           report->rounds, report->part_ms, report->clock_ns, report->cpu_time ? "; processor time of the threads" : "",
           report->overlap ? "; takes overlap" : "");
    printf("%-12s %10s %8s %9s %9s %7s   %s\n", "operation", "keys", "threads", "caudal", "floor", "ratio",
           "lowest-highest ratio");
}

void bench_print_row(const struct bench_row *row)
{
    const double ratio = median(&row->ratio);
    printf("%-12s %10llu %8u %9.1f %9.1f %7.2f   %.2f-%.2f%s%s\n", bench_operation_name(row->operation),
           (unsigned long long)row->keys, row->threads, median(&row->caudal_ns), median(&row->floor_ns), ratio,
           lowest(&row->ratio), highest(&row->ratio), mark(ratio, REACH_RATIO),
           row->disturbed > 0 ? "  (disturbed)" : "");
    fflush(stdout);
}

static void print_refusals(const struct bench_report *report)
{
    if (report->refusal_count > 0)
        printf("\na refusal costs, in admissions (denied take / take of the same round)\n\n"
               "%-12s %10s %8s %9s %9s %7s   %s\n",
               "", "keys", "threads", "", "", "ratio", "lowest-highest ratio");
    for (unsigned i = 0; i < report->refusal_count; i++) {
        const struct bench_refusal *refusal = &report->refusals[i];
        const double ratio = median(&refusal->ratio);
        printf("%-12s %10llu %8u %9s %9s %7.2f   %.2f-%.2f%s\n", "", (unsigned long long)refusal->keys,
               refusal->threads, "", "", ratio, lowest(&refusal->ratio), highest(&refusal->ratio),
               mark(ratio, REACH_REFUSAL));
    }
}

static void print_memories(const struct bench_report *report)
{
    if (report->memory_count > 0)
        printf("\nmemory of the table (64 bytes times its lines) after as many keys came in as it was opened for\n\n"
               "%-12s %10s %12s %12s %10s %15s\n",
               "", "keys", "bytes", "keys held", "forgotten", "bytes/key held");
    for (unsigned i = 0; i < report->memory_count; i++) {
        const struct bench_memory *memory = &report->memories[i];
        printf("%-12s %10llu %12llu %12llu %10llu %15.2f%s\n", "", (unsigned long long)memory->keys,
               (unsigned long long)memory->table_bytes, (unsigned long long)memory->live_keys,
               (unsigned long long)memory->live_evictions, bytes_per_key(memory),
               mark(bytes_per_key(memory), REACH_BYTES_PER_KEY));
    }
}

void bench_print_rest(const struct bench_report *report)
{
    print_refusals(report);
    print_memories(report);
    unsigned within = 0;
    for (unsigned i = 0; i < report->row_count; i++)
        within += median(&report->rows[i].ratio) <= REACH_RATIO;
    printf("\n%u of %u rows within %.1f times the floor\n", within, report->row_count, REACH_RATIO);
}

/* ---- JSON ---- */

static void write_sample(FILE *file, const char *name, const struct bench_sample *sample)
{
    fprintf(file, "\"%s\": {\"median\": %.3f, \"lowest\": %.3f, \"highest\": %.3f}", name, median(sample),
            lowest(sample), highest(sample));
}

/* Characters that need no escape in JSON only. */
static void write_processor(FILE *file)
{
    char line[256] = "";
    FILE *info = fopen("/proc/cpuinfo", "r");
    while (info != NULL && fgets(line, sizeof line, info) != NULL && strncmp(line, "model name", 10) != 0)
        line[0] = '\0';
    if (info != NULL)
        fclose(info);
    const char *colon = strchr(line, ':');
    fputs("\"processor\": \"", file);
    for (const char *at = colon != NULL ? colon + 2 : ""; *at != '\0' && *at != '\n'; at++)
        if (*at >= ' ' && *at <= '~' && *at != '"' && *at != '\\')
            fputc(*at, file);
    fprintf(file, "\", \"processors\": %ld", sysconf(_SC_NPROCESSORS_ONLN));
}

static void write_rows(FILE *file, const struct bench_report *report)
{
    fprintf(file, "  \"rows\": [");
    for (unsigned i = 0; i < report->row_count; i++) {
        const struct bench_row *row = &report->rows[i];
        fprintf(file, "%s\n    {\"operation\": \"%s\", \"keys\": %llu, \"threads\": %u, ", i > 0 ? "," : "",
                bench_operation_name(row->operation), (unsigned long long)row->keys, row->threads);
        write_sample(file, "caudal_ns", &row->caudal_ns);
        fprintf(file, ", ");
        write_sample(file, "floor_ns", &row->floor_ns);
        fprintf(file, ", ");
        write_sample(file, "ratio", &row->ratio);
        fprintf(file, ", \"disturbed_pairs\": %u}", row->disturbed);
    }
    fprintf(file, "\n  ],\n");
}

static void write_rest(FILE *file, const struct bench_report *report)
{
    fprintf(file, "  \"refusal_over_admission\": [");
    for (unsigned i = 0; i < report->refusal_count; i++) {
        const struct bench_refusal *refusal = &report->refusals[i];
        fprintf(file, "%s\n    {\"keys\": %llu, \"threads\": %u, ", i > 0 ? "," : "", (unsigned long long)refusal->keys,
                refusal->threads);
        write_sample(file, "ratio", &refusal->ratio);
        fprintf(file, "}");
    }
    fprintf(file, "\n  ],\n  \"memory\": [");
    for (unsigned i = 0; i < report->memory_count; i++) {
        const struct bench_memory *memory = &report->memories[i];
        fprintf(file,
                "%s\n    {\"keys\": %llu, \"table_bytes\": %llu, \"live_keys\": %llu, \"live_evictions\": %llu, "
                "\"bytes_per_key\": %.3f}",
                i > 0 ? "," : "", (unsigned long long)memory->keys, (unsigned long long)memory->table_bytes,
                (unsigned long long)memory->live_keys, (unsigned long long)memory->live_evictions,
                bytes_per_key(memory));
    }
    fprintf(file, "\n  ]\n");
}

void bench_write_json(const struct bench_report *report, const char *path)
{
    FILE *file = fopen(path, "w");
    if (file == NULL)
        bench_fail("cannot write %s", path);
    fprintf(file, "{\n  \"version\": \"%s\", ", caudal_version());
    write_processor(file);
    fprintf(file, ",\n  \"rounds\": %u, \"part_ms\": %.0f, \"time\": \"%s\", \"takes\": \"%s\", \"clock_ns\": %.3f,\n",
            report->rounds, report->part_ms, report->cpu_time ? "cpu" : "wall",
            report->overlap ? "overlapping" : "chained", report->clock_ns);
    fprintf(file, "  \"reach\": {\"ratio\": %.1f, \"refusal_over_admission\": %.1f, \"bytes_per_key\": %.0f},\n",
            REACH_RATIO, REACH_REFUSAL, REACH_BYTES_PER_KEY);
    write_rows(file, report);
    write_rest(file, report);
    fprintf(file, "}\n");
    if (ferror(file) != 0 || fclose(file) != 0)
        bench_fail("cannot write %s", path);
}
