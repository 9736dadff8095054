#include "server/pending.h"

#include <stdlib.h>

#include "server/exchange.h"

struct cdl_pending {
    struct cdl_worker *worker;
    struct cdl_connection *connection; /* NULL: it is gone */
    struct cdl_json_body questions;
    int64_t began_ns;
    bool counts;
    size_t owed; /* inquiries that are not done */
    size_t count;
    struct {
        struct cdl_inquiry *inquiry; /* NULL: none was made */
    } asked[];
};

struct cdl_pending *cdl_pending_new(struct cdl_worker *worker, struct cdl_connection *connection, size_t count,
                                    bool counts)
{
    const struct caudal_clock *clock = worker->server->clock;
    struct cdl_pending *pending = calloc(1, sizeof *pending + count * sizeof pending->asked[0]);
    if (pending == NULL)
        return NULL;
    pending->worker = worker;
    pending->connection = connection;
    pending->began_ns = clock->monotonic_ns(clock->context);
    pending->counts = counts;
    pending->count = count;
    return pending;
}

void cdl_pending_free(struct cdl_pending *pending)
{
    if (pending == NULL)
        return;
    for (size_t i = 0; i < pending->count; i++)
        cdl_inquiry_free(pending->asked[i].inquiry);
    cdl_json_free(&pending->questions);
    free(pending);
}

void cdl_pending_keep_questions(struct cdl_pending *pending, struct cdl_json_body questions)
{
    pending->questions = questions;
}

const struct cdl_json_body *cdl_pending_questions(const struct cdl_pending *pending)
{
    return &pending->questions;
}

static void on_done(struct cdl_inquiry *inquiry, void *context)
{
    struct cdl_pending *pending = context;
    struct cdl_worker *worker = pending->worker;
    if (pending->counts)
        cdl_account(worker, cdl_inquiry_answer(inquiry));
    if (--pending->owed == 0) {
        if (pending->connection != NULL)
            cdl_connection_resume(pending->connection);
        else
            cdl_pending_free(pending);
    }
    if (atomic_load_explicit(&worker->server->stopping, memory_order_relaxed) && worker->asker.waiting == 0)
        cdl_loop_wake(&worker->loop); /* it waited for this one */
}

void cdl_pending_add(struct cdl_pending *pending, size_t index, struct cdl_inquiry *inquiry)
{
    struct cdl_asker *asker = &pending->worker->asker;
    if (inquiry != NULL) {
        pending->asked[index].inquiry = inquiry;
        pending->owed++;
        cdl_inquiry_await(inquiry, on_done, pending);
        return;
    }
    if (pending->counts)
        cdl_account(pending->worker, &asker->answer);
    pending->asked[index].inquiry = cdl_inquiry_keep(asker);
}

bool cdl_pending_waits(const struct cdl_pending *pending)
{
    return pending->owed > 0;
}

const struct cdl_answer *cdl_pending_answer(struct cdl_pending *pending, size_t index)
{
    return pending->asked[index].inquiry != NULL ? cdl_inquiry_answer(pending->asked[index].inquiry) : NULL;
}

int64_t cdl_pending_began_ns(const struct cdl_pending *pending)
{
    return pending->began_ns;
}

void cdl_pending_leave(struct cdl_pending *pending)
{
    if (pending == NULL)
        return;
    pending->connection = NULL;
    if (pending->owed == 0)
        cdl_pending_free(pending);
}
