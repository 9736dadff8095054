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

/* Asks about the request that the proxy means. False: it has been answered, or waits. */
static bool ask(struct cdl_exchange *exchange, bool deny_as_403)
{
    struct cdl_worker *worker = exchange->worker;
    char detail[128];
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
        return false;
    case CDL_ORIGINAL_BAD_PATH:
        cdl_reply_problem(exchange, 400, deny_as_403, CDL_SLICE(""), "the original request has no path");
        return false;
    case CDL_ORIGINAL_OK:
        break;
    }
    if (original.ignored_header)
        warn_of_ignored_header(worker);
    struct cdl_inquiry *inquiry = cdl_limiter_ask(&worker->asker, worker->live, &original.request, CDL_ASK_TAKE,
                                                  CDL_COST_UNSAID);
    if (inquiry != NULL) {
        cdl_exchange_wait_for(exchange, inquiry, true);
        return false;
    }
    cdl_account(worker, &worker->asker.answer);
    return true;
}

void cdl_check(struct cdl_exchange *exchange)
{
    bool deny_as_403;
    if (!read_options(exchange, &deny_as_403))
        return;
    if (exchange->pending != NULL)
        cdl_reply(exchange, cdl_pending_answer(exchange->pending, 0), deny_as_403);
    else if (ask(exchange, deny_as_403))
        cdl_reply(exchange, &exchange->worker->asker.answer, deny_as_403);
}
