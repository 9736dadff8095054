/* A policy with rates that fit the log: the file as it was written, with other numbers, and above each limit and override a comment that
 * tells what they come from. Every other byte stays as it is.
 *
 * A token bucket gets that rate of the report's ladder at which rate times burst is least, of those at which it refills within the time
 * of the log, and the burst that goes with it: a lower rate would take a burst that stands in for the rate, a higher one would hardly
 * save any. A window keeps its period and gets the smallest count; for a sliding_log that is known to be enough, and may be more than
 * is needed. Both refuse something to at most touch_share of the keys that were seen, each limit taken as if it stood alone.
 *
 * What no request has met, what is unlimited, and a count of 0 stay as they are. Limits of Envoy's files and those that come with calls are
 * not in the file. */
#ifndef CDL_REPLAY_SUGGEST_H
#define CDL_REPLAY_SUGGEST_H

#include <stdio.h>

#include "replay/report.h"

/* Writes the policy of the report, whose file has the bytes `text`. What is written has been read by the policy's loader before, and says
 * the same but for the numbers. CAUDAL_OK; CAUDAL_ERR_ARGUMENT when the file has no limits of requests, when a rate does not stand in it
 * in a way that it can be replaced (the problem names the limit and its line), or when the text is not the policy's;
 * CAUDAL_ERR_MEMORY; CAUDAL_ERR_STORE when `to` cannot be written. Nothing is written but with the first and the last. */
int cdl_suggest_write(FILE *to, const struct cdl_policy *policy, struct cdl_slice text,
                      const struct cdl_replay_report *report, struct caudal_problem *problem);

#endif
