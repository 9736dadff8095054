/* What replay and simulate share: one policy or two, asked about requests in order of time, and all that is written about it.
 *
 *     cdl_replaying_prepare()   policies and outputs: whatever is wrong with them is told before a long work begins
 *     for each request:         cdl_replaying_ask()
 *     cdl_replaying_report()    reports in all forms that are wanted
 *     cdl_replaying_close()     after any of these, and also when one of them failed
 *
 * Where one of the outputs is standard output, the report in words is left out. */
#ifndef CDL_CLI_REPLAYING_H
#define CDL_CLI_REPLAYING_H

#include <signal.h>

#include "cli/cli.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "replay/replay.h"

#define CDL_EXIT_INTERRUPTED 130

/* The options that both have stand first in their tables. */
enum {
    CDL_REPLAYING_KEYS,
    CDL_REPLAYING_TOUCH,
    CDL_REPLAYING_KEY,
    CDL_REPLAYING_COMPARE,
    CDL_REPLAYING_JSON,
    CDL_REPLAYING_HTML,
    CDL_REPLAYING_SVG,
    CDL_REPLAYING_PNG,
    CDL_REPLAYING_DECISIONS,
    CDL_REPLAYING_SUGGEST,
    CDL_REPLAYING_QUIET,
    CDL_REPLAYING_OPTIONS,
};

#define CDL_REPLAYING_OPTION_TABLE                                                                                     \
    [CDL_REPLAYING_KEYS] = {"keys", "N", "keys that are remembered; default 4,000,000"},                               \
    [CDL_REPLAYING_TOUCH] = {"touch", "PERCENT", "of clients that may be refused something; default 0.1"},             \
    [CDL_REPLAYING_KEY] = {"key", "\"LIMIT=KEY\"", "whose bucket is followed; default: the most refused"},             \
    [CDL_REPLAYING_COMPARE] = {"compare", "POLICY2", "another policy beside it, and who changes sides"},               \
    [CDL_REPLAYING_JSON] = {"json", "FILE", "write all numbers; - is standard output"},                                \
    [CDL_REPLAYING_HTML] = {"html", "FILE", "write a page with charts"},                                               \
    [CDL_REPLAYING_SVG] = {"svg", "DIR", "write its charts"},                                                          \
    [CDL_REPLAYING_PNG] = {"png", "DIR", "the same as pictures"},                                                      \
    [CDL_REPLAYING_DECISIONS] = {"decisions", "FILE", "write a line of JSON for each request"},                        \
    [CDL_REPLAYING_SUGGEST] = {"suggest", "FILE", "write the policy with rates that fit"},                             \
    [CDL_REPLAYING_QUIET] = {"quiet", NULL, "show no progress"}

enum {
    CDL_OUTPUT_JSON,
    CDL_OUTPUT_HTML,
    CDL_OUTPUT_DECISIONS,
    CDL_OUTPUT_SUGGEST,
    CDL_OUTPUTS,
};

struct cdl_decisions;

/* All zero but for the command: nothing is open. */
struct cdl_replaying {
    const struct cdl_command *command;

    const char *const *logs; /* the files that origins speak of; NULL: requests come from none */
    size_t log_count;
    const char *policy_file, *second_file; /* the second may be NULL */
    const char *traced;                    /* LIMIT=KEY, or NULL */
    uint64_t keys_max;
    double touch_share;
    bool quiet;
    const char *svg, *png;
    struct cdl_output outputs[CDL_OUTPUTS];

    struct cdl_policy *policy, *second_policy; /* the replays', once these are open */
    const struct cdl_policy *asked;            /* the first of them, wherever it is */
    struct cdl_slice policy_text;              /* the file's bytes, when rates are to be suggested */
    struct cdl_replay *replay, *second;
    struct cdl_compare *compare;
    struct cdl_decisions *decisions;
    struct cdl_progress progress;
};

void cdl_replaying_init(struct cdl_replaying *replaying, const struct cdl_command *command);

/* One of the options above. An exit status, after a message, when its value will not do; else 0. */
int cdl_replaying_option(struct cdl_replaying *replaying, int kind, const char *value);

/* Exit statuses, after messages; 0 when all went well. */
int cdl_replaying_check(const struct cdl_replaying *replaying);
int cdl_replaying_prepare(struct cdl_replaying *replaying);
int cdl_replaying_begin(struct cdl_replaying *replaying, int64_t begin_ns, int64_t cell_ns);
int cdl_replaying_ask(struct cdl_replaying *replaying, const struct cdl_access_record *record,
                      const struct cdl_log_origin *origin);

/* Where the requests came from: what a report tells of it. */
struct cdl_replaying_source {
    const struct cdl_log_reader *reader; /* NULL: they were generated */
    size_t count;                        /* of its files */
    bool interrupted;
};

int cdl_replaying_report(struct cdl_replaying *replaying, const struct cdl_replaying_source *source);
void cdl_replaying_close(struct cdl_replaying *replaying);

/* Prints "caudal COMMAND: ..." to stderr, where no progress stands then. */
__attribute__((format(printf, 2, 3))) void cdl_replaying_say(struct cdl_replaying *replaying, const char *format, ...);

/* SIGINT and SIGTERM set the flag from now on; a second one kills. That, SIGPIPE and SIGHUP leave no temporary file behind. */
const volatile sig_atomic_t *cdl_replaying_catch_signals(void);

/* A whole number within the bounds; else a usage error. */
int cdl_replaying_number(const struct cdl_command *command, const char *option, const char *text, uint64_t least,
                         uint64_t most, uint64_t *number);
/* "95", "0.1" or "0.1%". The part of 1. */
int cdl_replaying_percent(const struct cdl_command *command, const char *option, const char *text, double *share);

#endif
