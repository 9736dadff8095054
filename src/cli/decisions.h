/* The file of decisions: a JSON object a line for each request, in the order in which they were asked.
 *
 *     {"log":"access.log","line":12,"time":"2024-05-17T10:05:03Z","client":"203.0.113.7","verdict":"refused","limit":"per-client",
 *      "key":"203.0.113.7","remaining":0,"retry_after_ns":600000000}
 *
 * "time" is the request's own stamp; "asked_at" stands beside it where it was asked later, because its line came late. null is what there
 * is not: a client without an address, a limit where none decided, a wait that does not end. "reason" says why no limit decided. With a
 * second policy its decision stands under "second". */
#ifndef CDL_CLI_DECISIONS_H
#define CDL_CLI_DECISIONS_H

#include <stdio.h>

#include "replay/replay.h"

#define CDL_DECISIONS_BUFFER_BYTES (1u << 20)
#define CDL_DECISIONS_KEY_BYTES (1u << 17)

/* All zero but for the stream: nothing is written yet. */
struct cdl_decisions {
    FILE *to; /* NULL: nobody wants them */
    size_t length;
    char bytes[CDL_DECISIONS_BUFFER_BYTES];
    char key[CDL_DECISIONS_KEY_BYTES];
};

/* What a replay has said of the request. */
struct cdl_decided {
    const struct cdl_replay *replay;
    const struct cdl_replay_decision *decision;
};

/* `log` is NULL for traffic from no log, `second` unless there are two policies. Errors stay with the stream. */
void cdl_decisions_write(struct cdl_decisions *decisions, const char *log, const struct cdl_decided *first,
                         const struct cdl_decided *second);

void cdl_decisions_flush(struct cdl_decisions *decisions);

#endif
