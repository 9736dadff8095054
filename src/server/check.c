/* Forward-auth: a proxy asks, with any method on /check, whether to let a request pass. */
#include <stdio.h>

#include "identity/path.h"
#include "server/original.h"
#include "server/reply.h"

/* Reads ?deny=403. False: it says something else, and has been answered. */
static bool read_options(struct cdl_exchange *exchange, bool *deny_as_403)
{
    struct cdl_slice value = {NULL, 0};
    *deny_as_403 = false;
    if (!cdl_query_find(exchange->query, CDL_SLICE("deny"), &value) || cdl_slice_equal(value, CDL_SLICE("429")))
        return true;
    *deny_as_403 = cdl_slice_equal(value, CDL_SLICE("403"));
    if (!*deny_as_403)
        cdl_exchange_problem(exchange, 400, "deny may be 429 or 403");
    return *deny_as_403;
}

static void warn_of_ignored_header(struct cdl_worker *worker)
{
    cdl_counters_event(worker->counters, CDL_EVENT_IGNORED_FORWARDED, 1);
    cdl_log(worker->server->log, CDL_LOG_WARN,
            "a peer that is not trusted says who its client is; see identity.client_ip.trusted_proxies",
            cdl_log_bool("believed", false));
}

void cdl_check(struct cdl_exchange *exchange)
{
    struct cdl_worker *worker = exchange->worker;
    bool deny_as_403;
    char detail[128];
    if (!read_options(exchange, &deny_as_403))
        return;
    const struct cdl_asking asking = {
        .method = exchange->request->method,
        .target = exchange->request->target,
        .fields = exchange->request->fields,
        .field_count = exchange->request->field_count,
        .peer = cdl_exchange_peer(exchange),
    };
    struct cdl_original original;
    struct cdl_writer scratch = cdl_writer_on(worker->body,
                                              CDL_BODY_BYTES); /* not needed for a body until it is decided */
    switch (cdl_original_find(&worker->live->policy->client, &asking, &scratch, &original)) {
    case CDL_ORIGINAL_TWICE:
        snprintf(detail, sizeof detail, "%s is given twice, or says something else than its like", original.about);
        cdl_reply_problem(exchange, 400, deny_as_403, CDL_SLICE(""), detail);
        return;
    case CDL_ORIGINAL_BAD_PATH:
        cdl_reply_problem(exchange, 400, deny_as_403, CDL_SLICE(""), "the original request has no path");
        return;
    case CDL_ORIGINAL_OK:
        break;
    }
    if (original.ignored_header)
        warn_of_ignored_header(worker);
    cdl_limiter_take(worker->live, &original.request, CDL_COST_UNSAID, worker->scratch, &worker->answer);
    cdl_account(worker, &worker->answer);
    cdl_reply(exchange, &worker->answer, deny_as_403);
}
