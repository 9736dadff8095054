/* Counting descriptors as Envoy's rate limit service does: in hits, by rule, under its names. docs/metrics.md says what each counts
 * here. All of this comes beside what cdl_account counts of the same requests. */
#ifndef CDL_SERVER_ACCOUNT_DESCRIPTORS_H
#define CDL_SERVER_ACCOUNT_DESCRIPTORS_H

#include "metrics/hits.h"
#include "policy/domain.h"
#include "server/worker.h"

/* Beside each policy in force: under which series its rules are counted. */
struct cdl_descriptor_series;

/* NULL when memory is short. A policy without domains has none of them, and that is not an error. */
struct cdl_descriptor_series *cdl_descriptor_series_acquire(struct cdl_hits *hits, const struct cdl_policy *policy);
/* NULL does nothing. */
void cdl_descriptor_series_release(struct cdl_descriptor_series *series);

/* Counts a request whose descriptors were planned into answer->plan with these results, once it is answered. `request` is read, so it must
 * have been kept for as long as the store took. Only the worker's own thread. */
void cdl_account_descriptors(struct cdl_worker *worker, const struct cdl_descriptor_request *request,
                             const struct cdl_descriptor_result *results, const struct cdl_answer *answer);
/* Counts a request that could not be read, or was not right: CDL_EVENT_BAD_REQUEST among others. */
void cdl_account_bad_descriptors(struct cdl_worker *worker);

/* Writes all that was counted, if there are domains or were. Main thread. */
void cdl_expose_descriptors(struct cdl_server *server, struct cdl_exposition *page);

#endif
