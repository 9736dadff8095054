#include "cli/replaying.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "cli/decisions.h"
#include "cli/policy_file.h"
#include "replay/report_write.h"
#include "replay/suggest.h"

#define TOUCH_SHARE_DEFAULT 0.001
#define POLICY_TEXT_MAX ((size_t)64 << 20)

static const char *const output_names[CDL_OUTPUTS] = {
    [CDL_OUTPUT_JSON] = "json",
    [CDL_OUTPUT_HTML] = "html",
    [CDL_OUTPUT_DECISIONS] = "decisions",
    [CDL_OUTPUT_SUGGEST] = "suggest",
};

void cdl_replaying_say(struct cdl_replaying *replaying, const char *format, ...)
{
    va_list arguments;
    cdl_progress_erase(&replaying->progress);
    va_start(arguments, format);
    fprintf(stderr, "caudal %s: ", replaying->command->name);
    vfprintf(stderr, format, arguments);
    fprintf(stderr, "\n");
    va_end(arguments);
}

/* ---- command line ---- */

void cdl_replaying_init(struct cdl_replaying *replaying, const struct cdl_command *command)
{
    *replaying = (struct cdl_replaying){
        .command = command, .keys_max = CDL_REPLAY_KEYS_DEFAULT, .touch_share = TOUCH_SHARE_DEFAULT};
}

int cdl_replaying_number(const struct cdl_command *command, const char *option, const char *text, uint64_t least,
                         uint64_t most, uint64_t *number)
{
    char *end;
    errno = 0;
    *number = strtoull(text, &end, 10);
    if (text[0] >= '0' && text[0] <= '9' && *end == '\0' && errno == 0 && *number >= least && *number <= most)
        return 0;
    return cdl_usage_error(command, "--%s: '%s' is not a whole number from %" PRIu64 " to %" PRIu64, option, text,
                           least, most);
}

int cdl_replaying_percent(const struct cdl_command *command, const char *option, const char *text, double *share)
{
    char *end;
    *share = strtod(text, &end) / 100;
    if (*end == '%')
        end++;
    if (text[0] >= '0' && text[0] <= '9' && *end == '\0' && *share >= 0 && *share <= 1)
        return 0;
    return cdl_usage_error(command, "--%s: '%s' is not a percentage from 0 to 100", option, text);
}

static int take_output(struct cdl_replaying *replaying, unsigned output, const char *path)
{
    replaying->outputs[output].path = path;
    for (unsigned i = 0; i < CDL_OUTPUTS; i++)
        if (i != output && strcmp(path, "-") == 0 && cdl_output_is_standard(&replaying->outputs[i]))
            return cdl_usage_error(replaying->command, "--%s and --%s cannot both be standard output", output_names[i],
                                   output_names[output]);
    return 0;
}

int cdl_replaying_option(struct cdl_replaying *replaying, int kind, const char *value)
{
    const struct cdl_command *command = replaying->command;
    switch (kind) {
    case CDL_REPLAYING_KEYS:
        return cdl_replaying_number(command, "keys", value, 1, UINT64_C(1) << 32, &replaying->keys_max);
    case CDL_REPLAYING_TOUCH:
        return cdl_replaying_percent(command, "touch", value, &replaying->touch_share);
    case CDL_REPLAYING_KEY:
        replaying->traced = value;
        return strchr(value, '=') != NULL
                   ? 0
                   : cdl_usage_error(command, "--key: expected \"LIMIT=KEY\", found '%s'", value);
    case CDL_REPLAYING_COMPARE:
        replaying->second_file = value;
        return 0;
    case CDL_REPLAYING_SVG:
        replaying->svg = value;
        return 0;
    case CDL_REPLAYING_PNG:
        replaying->png = value;
        return 0;
    case CDL_REPLAYING_JSON:
        return take_output(replaying, CDL_OUTPUT_JSON, value);
    case CDL_REPLAYING_HTML:
        return take_output(replaying, CDL_OUTPUT_HTML, value);
    case CDL_REPLAYING_DECISIONS:
        return take_output(replaying, CDL_OUTPUT_DECISIONS, value);
    case CDL_REPLAYING_SUGGEST:
        return take_output(replaying, CDL_OUTPUT_SUGGEST, value);
    default:
        replaying->quiet = true;
        return 0;
    }
}

int cdl_replaying_check(const struct cdl_replaying *replaying)
{
    return replaying->policy_file != NULL ? 0 : cdl_usage_error(replaying->command, "which policy? None was given");
}

/* ---- policies ---- */

static int load(struct cdl_replaying *replaying, const char *file, struct cdl_policy **policy)
{
    static struct cdl_report report; /* large */
    *policy = cdl_cli_load_policy(file, false, &report);
    if (*policy == NULL)
        return CDL_EXIT_USAGE;
    uint32_t others = 0;
    for (uint32_t i = (*policy)->request_limit_count; i < (*policy)->limit_count; i++)
        others += (*policy)->limits[i].kind == CDL_RULE_DESCRIPTOR;
    if (others > 0)
        cdl_replaying_say(replaying, "%s: %" PRIu32 " limit%s of descriptors: logs have none, so %s does not apply",
                          file, others, others == 1 ? "" : "s", others == 1 ? "it" : "each of them");
    return 0;
}

/* What stands before the first '=' of --key is a limit: names of limits have none. */
static struct cdl_slice traced_limit(const struct cdl_replaying *replaying)
{
    const char *traced = replaying->traced;
    return traced == NULL ? CDL_SLICE("") : (struct cdl_slice){traced, strcspn(traced, "=")};
}

static bool has_limit(const struct cdl_policy *policy, struct cdl_slice limit)
{
    return limit.length > 0 && cdl_policy_find(policy, limit) < policy->request_limit_count;
}

static int check_traced(const struct cdl_replaying *replaying)
{
    const struct cdl_slice limit = traced_limit(replaying);
    if (replaying->traced == NULL || has_limit(replaying->policy, limit))
        return 0;
    return cdl_usage_error(replaying->command, "--key: %s has no limit '%.*s' that is of requests",
                           replaying->policy_file, CDL_SLICE_ARG(limit));
}

static int read_all(FILE *file, size_t size, struct cdl_slice *text)
{
    char *bytes = malloc(size + 1);
    if (bytes == NULL)
        return ENOMEM;
    *text = (struct cdl_slice){bytes, fread(bytes, 1, size, file)};
    return text->length == size ? 0 : EIO;
}

/* As it was before the work began: a suggestion is made from this text. */
static int read_policy_text(struct cdl_replaying *replaying)
{
    struct stat there;
    FILE *file = fopen(replaying->policy_file, "r");
    int error = errno;
    if (file != NULL && fstat(fileno(file), &there) == 0) {
        error = S_ISDIR(there.st_mode) ? EISDIR : there.st_size > (off_t)POLICY_TEXT_MAX ? EFBIG : 0;
        if (error == 0)
            error = read_all(file, (size_t)there.st_size, &replaying->policy_text);
    }
    if (file != NULL)
        fclose(file);
    if (error == 0)
        return 0;
    cdl_replaying_say(replaying, "--suggest: %s: %s", replaying->policy_file, strerrordesc_np(error));
    return CDL_EXIT_USAGE;
}

/* ---- begin ---- */

/* What is read is not written over, but for the policy by one that fits better. */
static int check_output(const struct cdl_replaying *replaying, unsigned output)
{
    const struct cdl_command *command = replaying->command;
    const char *path = replaying->outputs[output].path, *name = output_names[output];
    for (size_t i = 0; i < replaying->log_count; i++)
        if (cdl_output_same_file(path, replaying->logs[i]))
            return cdl_usage_error(command, "--%s: %s would be written over, and is one of the logs", name, path);
    if ((output != CDL_OUTPUT_SUGGEST && cdl_output_same_file(path, replaying->policy_file)) ||
        (replaying->second_file != NULL && cdl_output_same_file(path, replaying->second_file)))
        return cdl_usage_error(command, "--%s: %s would be written over, and is a policy", name, path);
    for (unsigned i = 0; i < output; i++) {
        const struct cdl_output *other = &replaying->outputs[i];
        if (other->path != NULL && !cdl_output_is_standard(other) && cdl_output_same_file(path, other->path))
            return cdl_usage_error(command, "--%s and --%s cannot both be %s", output_names[i], name, path);
    }
    return 0;
}

static int check_outputs(const struct cdl_replaying *replaying)
{
    int status = 0;
    for (unsigned i = 0; i < CDL_OUTPUTS && status == 0; i++)
        if (replaying->outputs[i].path != NULL && !cdl_output_is_standard(&replaying->outputs[i]))
            status = check_output(replaying, i);
    return status;
}

static int open_outputs(struct cdl_replaying *replaying)
{
    for (unsigned i = 0; i < CDL_OUTPUTS; i++)
        if (!cdl_output_open(&replaying->outputs[i], replaying->command, output_names[i]))
            return CDL_EXIT_USAGE;
    if (!cdl_output_folder(replaying->svg, replaying->command, "svg") ||
        !cdl_output_folder(replaying->png, replaying->command, "png"))
        return CDL_EXIT_USAGE;
    replaying->decisions = calloc(1, sizeof *replaying->decisions);
    if (replaying->decisions == NULL) {
        cdl_replaying_say(replaying, "out of memory");
        return CDL_EXIT_NO;
    }
    replaying->decisions->to = replaying->outputs[CDL_OUTPUT_DECISIONS].stream;
    return 0;
}

int cdl_replaying_prepare(struct cdl_replaying *replaying)
{
    int status = load(replaying, replaying->policy_file, &replaying->policy);
    if (status == 0)
        status = check_traced(replaying);
    if (status == 0 && replaying->second_file != NULL)
        status = load(replaying, replaying->second_file, &replaying->second_policy);
    if (status == 0 && replaying->outputs[CDL_OUTPUT_SUGGEST].path != NULL)
        status = read_policy_text(replaying);
    if (status == 0)
        status = check_outputs(replaying);
    return status == 0 ? open_outputs(replaying) : status;
}

/* The policy is the replay's afterwards, also when this fails. */
static bool open_replay(struct cdl_replaying *replaying, const struct cdl_replay_settings *common,
                        struct cdl_policy **policy, struct cdl_replay **replay)
{
    struct caudal_problem problem;
    struct cdl_replay_settings settings = *common;
    if (has_limit(*policy, traced_limit(replaying))) {
        settings.traced_limit = traced_limit(replaying);
        settings.traced_key = cdl_slice_of(strchr(replaying->traced, '=') + 1);
    }
    const int status = cdl_replay_open(&settings, *policy, replay, &problem);
    *policy = NULL;
    if (status != CAUDAL_OK)
        cdl_replaying_say(replaying, "%s", problem.message);
    return status == CAUDAL_OK;
}

int cdl_replaying_begin(struct cdl_replaying *replaying, int64_t begin_ns, int64_t cell_ns)
{
    const struct cdl_replay_settings settings = {
        .keys_max = replaying->keys_max,
        .cell_ns = cell_ns,
        .begin_ns = begin_ns,
        .touch_share = replaying->touch_share,
    };
    replaying->asked = replaying->policy;
    if (!open_replay(replaying, &settings, &replaying->policy, &replaying->replay))
        return CDL_EXIT_NO;
    if (replaying->second_file == NULL)
        return 0;
    if (!open_replay(replaying, &settings, &replaying->second_policy, &replaying->second))
        return CDL_EXIT_NO;
    replaying->compare = cdl_compare_open(replaying->keys_max, NULL);
    if (replaying->compare != NULL)
        return 0;
    cdl_replaying_say(replaying, "out of memory");
    return CDL_EXIT_NO;
}

/* ---- requests ---- */

static int out_of_memory(struct cdl_replaying *replaying)
{
    cdl_replaying_say(replaying, "out of memory; --keys bounds what is remembered");
    return CDL_EXIT_NO;
}

/* What both policies say of a request: both are as far as each other. */
static int note(struct cdl_replaying *replaying, const struct cdl_replay_decision *decision,
                const struct cdl_replay_decision *other)
{
    const struct cdl_decided first = {replaying->replay, decision}, second = {replaying->second, other};
    if (other != NULL && !cdl_compare_note(replaying->compare, decision, other))
        return out_of_memory(replaying);
    if (replaying->decisions->to != NULL) {
        const char *log = replaying->logs != NULL ? replaying->logs[decision->origin.source] : NULL;
        cdl_decisions_write(replaying->decisions, log, &first, other != NULL ? &second : NULL);
    }
    return 0;
}

int cdl_replaying_ask(struct cdl_replaying *replaying, const struct cdl_access_record *record,
                      const struct cdl_log_origin *origin)
{
    const struct cdl_replay_decision *first, *second = NULL;
    if (cdl_replay_request(replaying->replay, record, origin, &first) != CAUDAL_OK)
        return out_of_memory(replaying);
    if (replaying->second != NULL && cdl_replay_request(replaying->second, record, origin, &second) != CAUDAL_OK)
        return out_of_memory(replaying);
    return first != NULL ? note(replaying, first, second) : 0;
}

/* Decides those that are still under way. */
static int settle(struct cdl_replaying *replaying)
{
    int status = 0;
    for (const struct cdl_replay_decision *first, *second = NULL; status == 0;) {
        if (cdl_replay_settle(replaying->replay, &first) != CAUDAL_OK)
            return out_of_memory(replaying);
        if (replaying->second != NULL && cdl_replay_settle(replaying->second, &second) != CAUDAL_OK)
            return out_of_memory(replaying);
        if (first == NULL)
            return 0;
        status = note(replaying, first, second);
    }
    return status;
}

/* ---- the report ---- */

static bool tell(struct cdl_replaying *replaying, struct cdl_replay *replay, const struct cdl_replaying_source *source,
                 struct cdl_replay_report *report)
{
    struct caudal_problem problem;
    if (cdl_replay_tell(replay, report, &problem) != CAUDAL_OK) {
        cdl_replaying_say(replaying, "%s", problem.message);
        return false;
    }
    report->interrupted = source->interrupted;
    if (source->reader == NULL)
        return true;
    report->log = *cdl_log_reader_stats(source->reader);
    report->sources = cdl_arena_allocate(&report->arena, source->count, sizeof *report->sources);
    if (report->sources == NULL) {
        cdl_replaying_say(replaying, "out of memory");
        return false;
    }
    report->source_count = source->count;
    for (size_t i = 0; i < source->count; i++)
        cdl_log_reader_source(source->reader, i, &report->sources[i]);
    return true;
}

/* A writer's answer. What the system makes of the bytes shows when the file is finished. */
static bool write_one(struct cdl_replaying *replaying, unsigned output,
                      int (*write)(FILE *to, const struct cdl_replay_reports *set),
                      const struct cdl_replay_reports *set)
{
    FILE *to = replaying->outputs[output].stream;
    if (to == NULL || write(to, set) == 0)
        return true;
    cdl_replaying_say(replaying, "--%s: %s: %s", output_names[output], replaying->outputs[output].path,
                      strerrordesc_np(errno));
    cdl_output_discard(&replaying->outputs[output]);
    return false;
}

static bool suggest(struct cdl_replaying *replaying, const struct cdl_replay_report *report)
{
    struct caudal_problem problem;
    FILE *to = replaying->outputs[CDL_OUTPUT_SUGGEST].stream;
    if (to == NULL)
        return true;
    const int status = cdl_suggest_write(to, replaying->asked, replaying->policy_text, report, &problem);
    if (status == CAUDAL_OK)
        return true;
    cdl_output_discard(&replaying->outputs[CDL_OUTPUT_SUGGEST]);
    cdl_replaying_say(replaying, "--suggest: %s", problem.message);
    return false;
}

static bool draw(struct cdl_replaying *replaying, const char *folder, enum cdl_chart_format format,
                 const struct cdl_replay_reports *set)
{
    struct caudal_problem problem;
    if (folder == NULL || cdl_replay_write_charts(folder, format, set, &problem) == 0)
        return true;
    cdl_replaying_say(replaying, "--%s: %s", format == CDL_CHART_SVG ? "svg" : "png", problem.message);
    return false;
}

static bool has_standard_output(const struct cdl_replaying *replaying)
{
    for (unsigned i = 0; i < CDL_OUTPUTS; i++)
        if (cdl_output_is_standard(&replaying->outputs[i]))
            return true;
    return false;
}

static bool write_reports(struct cdl_replaying *replaying, const struct cdl_replay_reports *set)
{
    if (replaying->decisions->to != NULL)
        cdl_decisions_flush(replaying->decisions);
    bool good = write_one(replaying, CDL_OUTPUT_JSON, cdl_replay_write_json, set);
    good = write_one(replaying, CDL_OUTPUT_HTML, cdl_replay_write_html, set) && good;
    good = suggest(replaying, set->report) && good;
    for (unsigned i = 0; i < CDL_OUTPUTS; i++)
        good = cdl_output_finish(&replaying->outputs[i], replaying->command, output_names[i]) && good;
    good = draw(replaying, replaying->svg, CDL_CHART_SVG, set) && good;
    good = draw(replaying, replaying->png, CDL_CHART_PNG, set) && good;
    if (!has_standard_output(replaying))
        (void)cdl_replay_write_text(stdout, set); /* main() looks at what became of standard output */
    return good;
}

int cdl_replaying_report(struct cdl_replaying *replaying, const struct cdl_replaying_source *source)
{
    struct cdl_replay_report first = {0}, second = {0};
    struct cdl_comparison comparison = {0};
    const bool two = replaying->second != NULL;
    struct cdl_replay_reports set = {&first, two ? &second : NULL, two ? &comparison : NULL};
    cdl_progress_erase(&replaying->progress);
    bool good = settle(replaying) == 0 && tell(replaying, replaying->replay, source, &first);
    if (good && two)
        good = tell(replaying, replaying->second, source, &second) &&
               cdl_compare_report(replaying->compare, &comparison) == CAUDAL_OK;
    if (good && replaying->traced != NULL && first.trace_count == 0)
        cdl_replaying_say(replaying, "--key: '%.200s' is not followed: no such key was seen", replaying->traced);
    if (good)
        good = write_reports(replaying, &set);
    cdl_comparison_free(&comparison);
    cdl_replay_report_free(&second);
    cdl_replay_report_free(&first);
    return good ? 0 : CDL_EXIT_NO;
}

void cdl_replaying_close(struct cdl_replaying *replaying)
{
    for (unsigned i = 0; i < CDL_OUTPUTS; i++)
        cdl_output_discard(&replaying->outputs[i]);
    cdl_compare_close(replaying->compare);
    cdl_replay_close(replaying->second);
    cdl_replay_close(replaying->replay);
    cdl_policy_free(replaying->second_policy);
    cdl_policy_free(replaying->policy);
    free((char *)replaying->policy_text.bytes);
    free(replaying->decisions);
}

/* ---- signals ---- */

static volatile sig_atomic_t was_told_to_stop;

/* The signal's own effect, but for what would be left behind. */
static void end(int signal_number)
{
    cdl_outputs_abandon();
    signal(signal_number, SIG_DFL);
    raise(signal_number);
}

static void stop(int signal_number)
{
    if (was_told_to_stop)
        end(signal_number);
    was_told_to_stop = 1;
}

/* Unless whoever started the program wants the signal ignored, as nohup does. */
static void catch_end(int signal_number)
{
    const struct sigaction action = {.sa_handler = end};
    struct sigaction before;
    if (sigaction(signal_number, NULL, &before) == 0 && before.sa_handler != SIG_IGN)
        sigaction(signal_number, &action, NULL);
}

const volatile sig_atomic_t *cdl_replaying_catch_signals(void)
{
    /* Reading ends by the flag; what is written meanwhile goes on (SA_RESTART). */
    const struct sigaction action = {.sa_handler = stop, .sa_flags = SA_RESTART};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    catch_end(SIGPIPE);
    catch_end(SIGHUP);
    return &was_told_to_stop;
}
