/* caudal replay: whom would this policy have refused? Asked of access logs. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/duration.h"
#include "cli/replaying.h"
#include "replay/report_numbers.h"

#define MIN_PARSED_DEFAULT 0.95
#define LOGS_MAX 4096
#define YEAR_MIN 1970
#define YEAR_MAX 2261

enum {
    FORMAT = CDL_REPLAYING_OPTIONS,
    LOG_FORMAT,
    FIELDS,
    CAPTURES,
    ZONE,
    YEAR,
    AT_ARRIVAL,
    REORDER,
    MIN_PARSED,
};

static const struct cdl_option options[] = {
    CDL_REPLAYING_OPTION_TABLE,
    [FORMAT] = {"format", "NAME", "of the logs: combined, json, ...; default: by their first lines"},
    [LOG_FORMAT] = {"log-format", "PATTERN", "or as an nginx log_format"},
    [FIELDS] = {"fields", "LIST", "where JSON and CSV have them: time=at,client=peer.ip"},
    [CAPTURES] = {"captures", "LIST", "the headers that HAProxy captures: host|user-agent"},
    [ZONE] = {"zone", "NAME", "of times without an offset: Europe/Berlin"},
    [YEAR] = {"year", "N", "of the first line, where times have none"},
    [AT_ARRIVAL] = {"at-arrival", NULL, "count when requests began, where both are logged"},
    [REORDER] = {"reorder", "DURATION", "how far lines may be out of order; default 60s"},
    [MIN_PARSED] = {"min-parsed", "PERCENT", "of lines; fewer is a failure; default 95"},
};

struct replay {
    struct cdl_replaying replaying;
    struct cdl_log_reader_settings settings;
    const char *paths[LOGS_MAX];
    struct cdl_zone zone;
    struct cdl_arena arena; /* of the zone, and of the format that is only checked */
    double min_parsed;
    struct cdl_log_reader *reader;
    bool interrupted, failed;
};

/* ---- command line ---- */

static int read_operand(struct replay *replay, const char *value)
{
    if (replay->replaying.policy_file == NULL) {
        replay->replaying.policy_file = value;
        return 0;
    }
    if (replay->settings.path_count == LOGS_MAX)
        return cdl_usage_error(replay->replaying.command, "more than %d logs", LOGS_MAX);
    replay->paths[replay->settings.path_count++] = value;
    return 0;
}

static int read_zone(struct replay *replay, const char *name)
{
    const char *why;
    replay->settings.access.zone = &replay->zone;
    if (cdl_zone_load(name, &replay->arena, &replay->zone, &why))
        return 0;
    return cdl_usage_error(replay->replaying.command, "--zone: '%s': %s", name, why);
}

static int read_year(struct replay *replay, const char *text)
{
    uint64_t year;
    const int status = cdl_replaying_number(replay->replaying.command, "year", text, YEAR_MIN, YEAR_MAX, &year);
    replay->settings.access.year = (int32_t)year;
    return status;
}

static int read_reorder(struct replay *replay, const char *text)
{
    if (cdl_duration_parse(cdl_slice_of(text), &replay->settings.window_ns))
        return 0;
    return cdl_usage_error(replay->replaying.command,
                           "--reorder: '%s' is not a duration with its unit, as in 500ms or 60s", text);
}

static int take_argument(struct replay *replay, int kind, const char *value)
{
    struct cdl_access_settings *access = &replay->settings.access;
    switch (kind) {
    case CDL_ARGUMENT_OPERAND:
        return read_operand(replay, value);
    case CDL_ARGUMENT_BAD:
        return CDL_EXIT_USAGE;
    case FORMAT:
        access->name = cdl_slice_of(value);
        return 0;
    case LOG_FORMAT:
        access->pattern = cdl_slice_of(value);
        return 0;
    case FIELDS:
        access->fields = cdl_slice_of(value);
        return 0;
    case CAPTURES:
        access->captures = cdl_slice_of(value);
        return 0;
    case ZONE:
        return read_zone(replay, value);
    case YEAR:
        return read_year(replay, value);
    case AT_ARRIVAL:
        access->at_arrival = true;
        return 0;
    case REORDER:
        return read_reorder(replay, value);
    case MIN_PARSED:
        return cdl_replaying_percent(replay->replaying.command, "min-parsed", value, &replay->min_parsed);
    default:
        return cdl_replaying_option(&replay->replaying, kind, value);
    }
}

/* A format that is named can be judged before any log is opened. */
static int check_format(struct replay *replay)
{
    const struct cdl_access_settings *access = &replay->settings.access;
    const bool is_named = access->name.length > 0, is_pattern = access->pattern.length > 0;
    struct cdl_access_format format;
    struct caudal_problem problem;
    if (is_named && is_pattern)
        return cdl_usage_error(replay->replaying.command, "--format and --log-format are two answers to one question");
    if ((!is_named && !is_pattern) || cdl_access_format_make(access, &replay->arena, &format, &problem) == CAUDAL_OK)
        return 0;
    return cdl_usage_error(replay->replaying.command, "--%s: %s", is_named ? "format" : "log-format", problem.message);
}

static int read_arguments(struct replay *replay, struct cdl_arguments *arguments)
{
    const char *value;
    int kind, status = 0;
    while (status == 0 && (kind = cdl_argument_next(arguments, &value)) != CDL_ARGUMENT_END)
        status = take_argument(replay, kind, value);
    if (status == 0)
        status = cdl_replaying_check(&replay->replaying);
    if (status == 0 && replay->settings.path_count == 0)
        status = cdl_usage_error(replay->replaying.command, "which log? None was given; - is standard input");
    return status == 0 ? check_format(replay) : status;
}

/* ---- reading ---- */

/* What lines are is found out here. That they are in no format is told of them, not of the command line. */
static int open_logs(struct replay *replay)
{
    struct caudal_problem problem;
    const int status = cdl_log_reader_open(&replay->settings, &replay->reader, &problem);
    if (status == CAUDAL_OK)
        return 0;
    if (*replay->settings.stop) {
        cdl_replaying_say(&replay->replaying, "interrupted before the first request");
        return CDL_EXIT_INTERRUPTED;
    }
    cdl_replaying_say(&replay->replaying, "%s", problem.message);
    return status == CAUDAL_ERR_ARGUMENT ? CDL_EXIT_USAGE : CDL_EXIT_NO;
}

/* Stamps of whole seconds leave open when within the second a request came. */
static int begin(struct replay *replay, const struct cdl_access_record *record)
{
    const int64_t resolution_ns = cdl_log_reader_stats(replay->reader)->resolution_ns;
    return cdl_replaying_begin(&replay->replaying, record->instant_ns, resolution_ns >= 1000000000 ? resolution_ns : 0);
}

static int ask(struct replay *replay, const struct cdl_access_record *record, const struct cdl_log_origin *origin)
{
    const int status = replay->replaying.replay == NULL ? begin(replay, record) : 0;
    if (status != 0)
        return status;
    return cdl_replaying_ask(&replay->replaying, record, origin);
}

static void show_progress(struct replay *replay)
{
    const uint64_t lines = cdl_log_reader_stats(replay->reader)->lines;
    if (!cdl_progress_is_due(&replay->replaying.progress, lines))
        return;
    uint64_t done, total;
    cdl_log_reader_progress(replay->reader, &done, &total);
    cdl_progress_draw(&replay->replaying.progress, lines, "lines", done, total);
}

/* To the end of the logs, or to where it is told to stop. A log that is damaged is told, and the others are read on. */
static int read_logs(struct replay *replay)
{
    static struct cdl_access_record record; /* large */
    struct cdl_log_origin origin;
    struct caudal_problem problem;
    for (;;) {
        int status = 0;
        switch (cdl_log_reader_next(replay->reader, &record, &origin, &problem)) {
        case CDL_LOG_RECORD:
            status = ask(replay, &record, &origin);
            break;
        case CDL_LOG_FAILED:
            cdl_replaying_say(&replay->replaying, "%s", problem.message);
            replay->failed = true;
            break;
        case CDL_LOG_STOPPED:
            replay->interrupted = true;
            return 0;
        case CDL_LOG_END:
            return 0;
        }
        if (status != 0)
            return status;
        show_progress(replay);
    }
}

/* ---- what was parsed ---- */

static const struct cdl_log_reason *first_reason(const struct cdl_log_stats *log)
{
    const struct cdl_log_reason *first = &log->reasons[0];
    for (size_t i = 1; i < log->reason_count; i++) {
        const struct cdl_log_reason *other = &log->reasons[i];
        if (other->source < first->source || (other->source == first->source && other->line < first->line))
            first = other;
    }
    return first;
}

static void write_first_skipped(struct cdl_writer *writer, const struct replay *replay, const struct cdl_log_stats *log)
{
    if (log->reason_count == 0)
        return;
    const struct cdl_log_reason *reason = first_reason(log);
    cdl_writef(writer, "; first: %s:%" PRIu64 ": ", replay->paths[reason->source], reason->line);
    cdl_access_why_write(writer, &reason->why);
    cdl_writef(writer, ": \"%.*s\"", (int)reason->example_length, reason->example);
}

/* Whether there is anything to report. */
static bool has_requests(struct replay *replay)
{
    if (replay->replaying.replay != NULL)
        return true;
    const struct cdl_log_stats *log = cdl_log_reader_stats(replay->reader);
    char bytes[8192];
    struct cdl_writer text = cdl_writer_on(bytes, sizeof bytes);
    write_first_skipped(&text, replay, log);
    if (replay->interrupted)
        cdl_replaying_say(&replay->replaying, "interrupted before the first request");
    else if (log->lines == 0)
        cdl_replaying_say(&replay->replaying, "there is no line in %s%s", replay->paths[0],
                          replay->settings.path_count > 1 ? ", nor in the others" : "");
    else
        cdl_replaying_say(&replay->replaying, "none of %" PRIu64 " lines was parsed%.*s", log->lines,
                          CDL_SLICE_ARG(cdl_written(&text)));
    return false;
}

static bool enough_was_parsed(struct replay *replay)
{
    const struct cdl_log_stats *log = cdl_log_reader_stats(replay->reader);
    if ((double)log->parsed >= replay->min_parsed * (double)log->lines)
        return true;
    char bytes[8192];
    struct cdl_writer text = cdl_writer_on(bytes, sizeof bytes);
    cdl_writef(&text, "%s of ", cdl_show_number(log->parsed).text);
    cdl_writef(&text, "%s lines ", cdl_show_number(log->lines).text);
    cdl_writef(&text, "(%s) were parsed, ", cdl_show_share(log->parsed, log->lines).text);
    cdl_writef(&text, "fewer than %s", cdl_show_fraction(replay->min_parsed).text);
    write_first_skipped(&text, replay, log);
    cdl_replaying_say(&replay->replaying, "%.*s", CDL_SLICE_ARG(cdl_written(&text)));
    return false;
}

/* ---- run ---- */

static int report(struct replay *replay)
{
    const struct cdl_replaying_source source = {replay->reader, replay->settings.path_count, replay->interrupted};
    if (!has_requests(replay))
        return replay->interrupted ? CDL_EXIT_INTERRUPTED : CDL_EXIT_NO;
    int status = cdl_replaying_report(&replay->replaying, &source);
    fflush(stdout); /* what follows on stderr stands below the report, where both are one terminal */
    if (!enough_was_parsed(replay) || replay->failed)
        status = CDL_EXIT_NO;
    return replay->interrupted ? CDL_EXIT_INTERRUPTED : status;
}

static int run(struct cdl_arguments *arguments)
{
    static struct replay replay; /* large */
    replay = (struct replay){
        .settings = {.paths = replay.paths,
                     .window_ns = CDL_LOG_WINDOW_DEFAULT_NS,
                     .waiting_bytes_max = CDL_LOG_WAITING_DEFAULT_BYTES},
        .min_parsed = MIN_PARSED_DEFAULT,
    };
    cdl_replaying_init(&replay.replaying, arguments->command);
    replay.replaying.logs = replay.paths;
    cdl_arena_init(&replay.arena, NULL);
    int status = read_arguments(&replay, arguments);
    replay.replaying.log_count = replay.settings.path_count;
    if (status == 0)
        status = cdl_replaying_prepare(&replay.replaying);
    replay.settings.stop = cdl_replaying_catch_signals();
    if (status == 0)
        status = open_logs(&replay);
    cdl_progress_begin(&replay.replaying.progress, replay.replaying.quiet);
    if (status == 0)
        status = read_logs(&replay);
    cdl_progress_erase(&replay.replaying.progress);
    if (status == 0)
        status = report(&replay);
    cdl_log_reader_close(replay.reader);
    cdl_replaying_close(&replay.replaying);
    cdl_arena_free(&replay.arena);
    return status;
}

const struct cdl_command cdl_command_replay = {
    .name = "replay",
    .operands = "POLICY LOG...",
    .summary = "say whom a policy would have refused, by access logs",
    .details = "Reads access logs, asks the limits of the policy about each request at the time\n"
               "of its line, and reports what they would have refused. Logs may be plain, gzip or\n"
               "zstd; several are merged by time; - is standard input. No store is asked: state is\n"
               "in memory, whatever the policy says. SIGINT ends the reading, not the report.\n"
               "The exit status is 0 when logs were read, 1 when one could not be read to its end or\n"
               "too few of its lines were understood, 2 when the command line, the policy or the\n"
               "name of a file is wrong, 130 when it was interrupted.",
    .options = options,
    .option_count = sizeof options / sizeof options[0],
    .run = run,
};
