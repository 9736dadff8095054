/* caudal simulate: what would this policy do to traffic that nobody has had yet? The reports of replay, on requests that are made up. */
#include <stdio.h>
#include <stdlib.h>

#include "base/duration.h"
#include "base/near.h"
#include "cli/replaying.h"
#include "replay/generate.h"
#include "wire/access_log_parts.h"

#define CLIENTS_DEFAULT 100u
#define BURST_DEFAULT 10u
#define RATE_DEFAULT 1.0
#define DURATION_DEFAULT_NS (INT64_C(600) * 1000000000)
#define BEGIN_DEFAULT_NS (INT64_C(1767225600) * 1000000000) /* 2026-01-01T00:00:00Z: every usual window begins then */
#define HEADERS_MAX 32u

enum {
    CLIENTS = CDL_REPLAYING_OPTIONS,
    PATTERN,
    RATE,
    DURATION,
    BEGIN,
    SEED,
    BURST,
    QUOTA,
    PERIOD,
    REQUEST,
    HOST,
    HEADER,
};

static const struct cdl_option options[] = {
    CDL_REPLAYING_OPTION_TABLE,
    [CLIENTS] = {"clients", "N", "how many there are; default 100"},
    [PATTERN] = {"pattern", "NAME", "steady, burst, edge, poisson or flash-crowd; default steady"},
    [RATE] = {"rate", "N/TIME", "of each client on average: 5/s, 100/minute; default 1/s, of edge the most"},
    [DURATION] = {"duration", "DURATION", "how long they go on; default 10m"},
    [BEGIN] = {"begin", "TIME", "when they start; default 2026-01-01T00:00:00Z"},
    [SEED] = {"seed", "N", "another one, other requests; default 1"},
    [BURST] = {"burst", "N", "of burst: requests at once; default 10"},
    [QUOTA] = {"quota", "N", "of edge: requests before and behind it; default: the first limit's"},
    [PERIOD] = {"period", "DURATION", "of edge: of the windows; default: the first limit's"},
    [REQUEST] = {"request", "\"METHOD TARGET\"", "what they ask for; default \"GET /\""},
    [HOST] = {"host", "NAME", "that requests are for"},
    [HEADER] = {"header", "\"NAME: VALUE\"", "of them; {client} is the client's number; may be given again"},
};

static const char *const pattern_names[] = {
    [CDL_TRAFFIC_STEADY] = "steady",
    [CDL_TRAFFIC_BURST] = "burst",
    [CDL_TRAFFIC_EDGE] = "edge",
    [CDL_TRAFFIC_POISSON] = "poisson",
    [CDL_TRAFFIC_FLASH_CROWD] = "flash-crowd",
};
#define PATTERNS (sizeof pattern_names / sizeof pattern_names[0])

struct simulate {
    struct cdl_replaying replaying;
    struct cdl_traffic traffic;
    struct cdl_field headers[HEADERS_MAX];
    struct cdl_generator *generator;
    const volatile sig_atomic_t *stop;
};

/* ---- command line ---- */

static int read_pattern(struct simulate *simulate, const char *name)
{
    for (size_t i = 0; i < PATTERNS; i++)
        if (strcmp(name, pattern_names[i]) == 0) {
            simulate->traffic.pattern = (enum cdl_traffic_pattern)i;
            return 0;
        }
    const char *near = cdl_nearest(cdl_slice_of(name), pattern_names, PATTERNS);
    return cdl_usage_error(simulate->replaying.command, "--pattern: there is no '%s'%s%s%s", name,
                           near != NULL ? "; did you mean '" : "", near != NULL ? near : "", near != NULL ? "'?" : "");
}

/* In the words of a limit, without its burst. */
static int read_rate(struct simulate *simulate, const char *text)
{
    struct caudal_limit limit = CAUDAL_LIMIT_INIT;
    struct caudal_problem problem;
    if (caudal_limit_parse(text, &limit, &problem) != CAUDAL_OK || limit.algorithm != CAUDAL_TOKEN_BUCKET ||
        limit.burst != CAUDAL_BURST_DEFAULT || limit.count == 0)
        return cdl_usage_error(simulate->replaying.command, "--rate: '%s' is not a rate, as in 5/s or 100/minute",
                               text);
    simulate->traffic.rate = (double)limit.count / ((double)limit.period_ns / 1e9);
    return 0;
}

static int read_duration(struct simulate *simulate, const char *option, const char *text, int64_t *ns)
{
    if (cdl_duration_parse(cdl_slice_of(text), ns) && *ns > 0)
        return 0;
    return cdl_usage_error(simulate->replaying.command, "--%s: '%s' is not a duration with its unit, as in 30s or 10m",
                           option, text);
}

static int read_begin(struct simulate *simulate, const char *text)
{
    struct cdl_access_clock clock = {0};
    struct cdl_access_stamp stamp;
    const char *wrong = cdl_access_time_read(&clock, cdl_slice_of(text), &stamp);
    if (wrong != NULL)
        return cdl_usage_error(simulate->replaying.command, "--begin: '%s' %s, as in 2026-01-01T00:00:00Z", text,
                               wrong);
    simulate->traffic.begin_ns = stamp.instant_ns;
    return 0;
}

static int read_request(struct simulate *simulate, const char *text)
{
    const size_t method = strcspn(text, " ");
    const struct cdl_slice target = cdl_slice_trim(cdl_slice_of(text + method));
    if (method == 0 || target.length == 0 || memchr(target.bytes, ' ', target.length) != NULL)
        return cdl_usage_error(simulate->replaying.command,
                               "--request: expected \"METHOD TARGET\", as in \"GET /v1/x\", found '%s'", text);
    simulate->traffic.method = (struct cdl_slice){text, method};
    simulate->traffic.target = target;
    return 0;
}

static int read_header(struct simulate *simulate, const char *text)
{
    const char *colon = strchr(text, ':');
    if (colon == NULL || colon == text)
        return cdl_usage_error(simulate->replaying.command, "--header: expected \"NAME: VALUE\", found '%s'", text);
    if (simulate->traffic.header_count == HEADERS_MAX)
        return cdl_usage_error(simulate->replaying.command, "--header: more than %u", HEADERS_MAX);
    simulate->headers[simulate->traffic.header_count++] = (struct cdl_field){{text, (size_t)(colon - text)},
                                                                             cdl_slice_trim(cdl_slice_of(colon + 1))};
    return 0;
}

static int read_operand(struct simulate *simulate, const char *value)
{
    if (simulate->replaying.policy_file != NULL)
        return cdl_usage_error(simulate->replaying.command, "one policy; '%s' is a second, which goes with --compare",
                               value);
    simulate->replaying.policy_file = value;
    return 0;
}

static int take_argument(struct simulate *simulate, int kind, const char *value)
{
    const struct cdl_command *command = simulate->replaying.command;
    struct cdl_traffic *traffic = &simulate->traffic;
    switch (kind) {
    case CDL_ARGUMENT_OPERAND:
        return read_operand(simulate, value);
    case CDL_ARGUMENT_BAD:
        return CDL_EXIT_USAGE;
    case CLIENTS:
        return cdl_replaying_number(command, "clients", value, 1, CDL_TRAFFIC_CLIENTS_MAX, &traffic->clients);
    case PATTERN:
        return read_pattern(simulate, value);
    case RATE:
        return read_rate(simulate, value);
    case DURATION:
        return read_duration(simulate, "duration", value, &traffic->duration_ns);
    case BEGIN:
        return read_begin(simulate, value);
    case SEED:
        return cdl_replaying_number(command, "seed", value, 0, UINT64_MAX, &traffic->seed);
    case BURST:
        return cdl_replaying_number(command, "burst", value, 1, CDL_TRAFFIC_COUNT_MAX, &traffic->burst);
    case QUOTA:
        return cdl_replaying_number(command, "quota", value, 1, CDL_TRAFFIC_COUNT_MAX, &traffic->quota);
    case PERIOD:
        return read_duration(simulate, "period", value, &traffic->period_ns);
    case REQUEST:
        return read_request(simulate, value);
    case HOST:
        traffic->host = cdl_slice_of(value);
        return 0;
    case HEADER:
        return read_header(simulate, value);
    default:
        return cdl_replaying_option(&simulate->replaying, kind, value);
    }
}

static int read_arguments(struct simulate *simulate, struct cdl_arguments *arguments)
{
    const char *value;
    int kind, status = 0;
    while (status == 0 && (kind = cdl_argument_next(arguments, &value)) != CDL_ARGUMENT_END)
        status = take_argument(simulate, kind, value);
    return status == 0 ? cdl_replaying_check(&simulate->replaying) : status;
}

/* ---- traffic ---- */

static const struct caudal_limit *first_limit(const struct cdl_policy *policy)
{
    for (uint32_t i = 0; i < policy->request_limit_count; i++) {
        const struct caudal_limit *limit = &policy->rates[policy->limits[i].rate].limit;
        if (limit->algorithm != CAUDAL_UNLIMITED && limit->count > 0)
            return limit;
    }
    return NULL;
}

/* What a client of the edge spends, and when, unless that was said: what the policy's first limit allows. */
static int find_edge(struct simulate *simulate)
{
    struct cdl_traffic *traffic = &simulate->traffic;
    if (traffic->quota > 0 && traffic->period_ns > 0)
        return 0;
    const struct caudal_limit *limit = first_limit(simulate->replaying.policy);
    if (limit == NULL)
        return cdl_usage_error(simulate->replaying.command,
                               "--pattern edge: %s has no limit to take --quota and --period from",
                               simulate->replaying.policy_file);
    if (traffic->quota == 0)
        traffic->quota = limit->count;
    if (traffic->period_ns == 0)
        traffic->period_ns = (int64_t)limit->period_ns;
    return 0;
}

/* What was not said of the traffic. At edges that is the most that they allow: every other one. */
static int find_defaults(struct simulate *simulate)
{
    struct cdl_traffic *traffic = &simulate->traffic;
    const bool is_edge = traffic->pattern == CDL_TRAFFIC_EDGE;
    const int status = is_edge ? find_edge(simulate) : 0;
    if (status == 0 && traffic->rate <= 0)
        traffic->rate = is_edge ? (double)traffic->quota / ((double)traffic->period_ns / 1e9) : RATE_DEFAULT;
    return status;
}

static int open_traffic(struct simulate *simulate)
{
    struct caudal_problem problem;
    const int status = cdl_generator_open(&simulate->traffic, &simulate->generator, &problem);
    if (status == CAUDAL_OK)
        return 0;
    cdl_replaying_say(&simulate->replaying, "%s", problem.message);
    return status == CAUDAL_ERR_ARGUMENT ? CDL_EXIT_USAGE : CDL_EXIT_NO;
}

static void show_progress(struct simulate *simulate, uint64_t requests, int64_t instant_ns)
{
    if (cdl_progress_is_due(&simulate->replaying.progress, requests))
        cdl_progress_draw(&simulate->replaying.progress, requests, "requests",
                          (uint64_t)(instant_ns - simulate->traffic.begin_ns), (uint64_t)simulate->traffic.duration_ns);
}

/* To the end of the traffic, or to where it is told to stop. */
static int ask_all(struct simulate *simulate)
{
    static struct cdl_access_record record; /* large */
    uint64_t requests = 0;
    while (!*simulate->stop && cdl_generator_next(simulate->generator, &record)) {
        int status = 0;
        if (requests == 0)
            status = cdl_replaying_begin(&simulate->replaying, record.instant_ns, 0);
        if (status == 0)
            status = cdl_replaying_ask(&simulate->replaying, &record, &(struct cdl_log_origin){.line = ++requests});
        if (status != 0)
            return status;
        show_progress(simulate, requests, record.instant_ns);
    }
    return 0;
}

static int report(struct simulate *simulate)
{
    const struct cdl_replaying_source source = {.interrupted = *simulate->stop};
    int status = CDL_EXIT_NO;
    if (simulate->replaying.replay != NULL)
        status = cdl_replaying_report(&simulate->replaying, &source);
    else
        cdl_replaying_say(&simulate->replaying, source.interrupted ? "interrupted before the first request"
                                                                   : "there is no request in so short a time");
    return source.interrupted ? CDL_EXIT_INTERRUPTED : status;
}

/* ---- run ---- */

static int run(struct cdl_arguments *arguments)
{
    static struct simulate simulate; /* large */
    simulate = (struct simulate){
        .traffic = {.clients = CLIENTS_DEFAULT,
                    .duration_ns = DURATION_DEFAULT_NS,
                    .begin_ns = BEGIN_DEFAULT_NS,
                    .seed = 1,
                    .burst = BURST_DEFAULT,
                    .method = CDL_SLICE("GET"),
                    .target = CDL_SLICE("/"),
                    .headers = simulate.headers},
    };
    cdl_replaying_init(&simulate.replaying, arguments->command);
    int status = read_arguments(&simulate, arguments);
    if (status == 0)
        status = cdl_replaying_prepare(&simulate.replaying);
    if (status == 0)
        status = find_defaults(&simulate);
    if (status == 0)
        status = open_traffic(&simulate);
    simulate.stop = cdl_replaying_catch_signals();
    cdl_progress_begin(&simulate.replaying.progress, simulate.replaying.quiet);
    if (status == 0)
        status = ask_all(&simulate);
    cdl_progress_erase(&simulate.replaying.progress);
    if (status == 0)
        status = report(&simulate);
    cdl_generator_close(simulate.generator);
    cdl_replaying_close(&simulate.replaying);
    return status;
}

const struct cdl_command cdl_command_simulate = {
    .name = "simulate",
    .operands = "POLICY",
    .summary = "say what a policy would do to traffic that is made up",
    .details = "Makes up requests of so many clients, asks the limits of the policy about them,\n"
               "and reports as replay does. The same seed makes the same requests everywhere.\n"
               "  steady       each client at even distances\n"
               "  burst        each client several at once, at distances that give its rate\n"
               "  edge         each client its quota just before the edge of a window, and again\n"
               "               just behind it\n"
               "  poisson      at random\n"
               "  flash-crowd  at random, and in the middle third ten times as many clients",
    .options = options,
    .option_count = sizeof options / sizeof options[0],
    .run = run,
};
