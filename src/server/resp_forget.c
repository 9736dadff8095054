/* CAUDAL.RESET: a key is forgotten, as if it had never been seen.
 *
 * It is an administrator's command, so a policy without users allows it only where nobody else can come from, and the log says who did it.
 * Stores forget keys by functions that wait for them. Where there is something to wait for, that is done in a thread of libuv's: a loop
 * must not wait. */
#include <stdlib.h>

#include "server/exchange.h"
#include "server/resp.h"

#define BY_BYTES (CDL_RESP_NAME_MAX + 1 + CDL_ADDRESS_TEXT_MAX)

/* A key that a thread forgets. */
struct forgetting {
    uv_work_t work;
    struct cdl_worker *worker;
    struct cdl_resp_reply *reply;
    struct cdl_live_policy *live; /* held */
    struct cdl_named_key key;
    struct cdl_slice values[CDL_PER_MAX];
    unsigned protocol;
    struct caudal_decision decision;
    char by[BY_BYTES];
    char memory[]; /* CDL_MATCH_SCRATCH_BYTES, and behind it the key's bytes */
};

/* "alice@203.0.113.7" */
static void say_who(const struct cdl_resp_call *call, char by[BY_BYTES])
{
    const struct cdl_exchange exchange = {.connection = call->connection};
    const struct cdl_address peer = cdl_exchange_peer(&exchange);
    char address[CDL_ADDRESS_TEXT_MAX] = "unix";
    if (peer.family != 0)
        cdl_address_format(&peer, address);
    struct cdl_writer writer = cdl_writer_on(by, BY_BYTES - 1);
    cdl_write(&writer, (struct cdl_slice){call->session->user, call->session->user_length});
    cdl_write_text(&writer, writer.length > 0 ? "@" : "");
    cdl_write_text(&writer, address);
    by[writer.length] = '\0';
}

static void write_outcome(struct cdl_writer *output, unsigned protocol, const struct cdl_limit_rule *limit,
                          const struct caudal_decision *decision)
{
    char text[512];
    struct cdl_writer error = cdl_writer_on(text, sizeof text);
    if (decision->status == CAUDAL_OK) {
        cdl_resp_write_decision(output, protocol, limit->name, decision);
        return;
    }
    cdl_writef(&error, "%s limit '%.*s': %s", decision->status == CAUDAL_ERR_STORE ? "UNAVAILABLE" : "ERR",
               CDL_SLICE_ARG(limit->name), caudal_status_text(decision->status));
    cdl_resp_write_error(output, cdl_written(&error));
}

/* ---- in a thread ---- */

static void forget(uv_work_t *work)
{
    struct forgetting *job = work->data;
    cdl_limiter_inspect(job->live, &job->key, true, job->memory, &job->decision);
}

static void after(uv_work_t *work, int status)
{
    struct forgetting *job = work->data;
    struct cdl_worker *worker = job->worker;
    char text[1024];
    struct cdl_writer output = cdl_writer_on(text, sizeof text);
    if (status != 0)
        job->decision = (struct caudal_decision){.status = CAUDAL_ERR_STORE};
    if (job->decision.status == CAUDAL_OK)
        cdl_account_reset(worker, job->live, &job->key, job->by);
    write_outcome(&output, job->protocol, &job->live->policy->limits[job->key.limit], &job->decision);
    worker->asker.waiting--;
    cdl_resp_done(job->reply, cdl_written(&output));
    cdl_limiter_release(job->live);
    free(job);
}

/* What the thread needs, copied. NULL: there is no memory. */
static struct forgetting *new_job(const struct cdl_resp_call *call, const struct cdl_named_key *key)
{
    size_t bytes = CDL_MATCH_SCRATCH_BYTES;
    for (size_t i = 0; i < key->value_count; i++)
        bytes += key->values[i].length;
    struct forgetting *job = malloc(sizeof *job + bytes);
    if (job == NULL)
        return NULL;
    *job = (struct forgetting){.worker = call->worker,
                               .live = call->worker->live,
                               .key = {key->limit, job->values, key->value_count},
                               .protocol = call->session->protocol};
    char *at = job->memory + CDL_MATCH_SCRATCH_BYTES;
    for (size_t i = 0; i < key->value_count; i++) {
        memcpy(at, key->values[i].bytes, key->values[i].length);
        job->values[i] = (struct cdl_slice){at, key->values[i].length};
        at += key->values[i].length;
    }
    job->work.data = job;
    say_who(call, job->by);
    return job;
}

static void forget_in_thread(struct cdl_resp_call *call, const struct cdl_named_key *key)
{
    struct cdl_worker *worker = call->worker;
    struct forgetting *job = worker->asker.waiting < CDL_WAITING_MAX ? new_job(call, key) : NULL;
    if (job == NULL) {
        cdl_resp_error(call, "ERR no memory to wait for the store");
        return;
    }
    job->reply = cdl_resp_wait(call);
    if (job->reply == NULL) {
        free(job);
        return;
    }
    /* The worker holds it already. */
    atomic_fetch_add_explicit(&job->live->users, 1, memory_order_relaxed);
    worker->asker.waiting++; /* the end of the server waits for it, as for any question */
    uv_queue_work(&worker->loop.uv, &job->work, forget, after);
}

/* ---- the command ---- */

static void forget_here(struct cdl_resp_call *call, const struct cdl_named_key *key)
{
    struct cdl_worker *worker = call->worker;
    struct caudal_decision decision;
    char by[BY_BYTES];
    say_who(call, by);
    if (cdl_limiter_inspect(worker->live, key, true, worker->asker.scratch, &decision) == CAUDAL_OK)
        cdl_account_reset(worker, worker->live, key, by);
    write_outcome(call->output, call->session->protocol, &worker->live->policy->limits[key->limit], &decision);
}

void cdl_resp_reset_key(struct cdl_resp_call *call)
{
    const struct cdl_live_policy *live = call->worker->live;
    struct cdl_named_key key;
    uint64_t cost;
    if (live->policy->resp.user_count == 0 && !call->connection->listener->is_local) {
        cdl_resp_error(call,
                       "NOPERM others can reach this listener, and nobody has to say who they are: see resp.users "
                       "of the policy");
        return;
    }
    if (!cdl_resp_read_named(call, false, &key, &cost))
        return;
    if (cdl_store_answers_later(live->store))
        forget_in_thread(call, &key);
    else
        forget_here(call, &key);
}
