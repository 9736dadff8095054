#include "bare_client.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "run.h"
#include "store/lease/book.h"

#define KEYS_KNOWN 64

struct bare {
    struct cdl_store_client head;
    struct instance *instance;
    struct cdl_lease_book *book;
    struct cdl_store_client *inner;
    struct cdl_loop_hooks hooks;
    struct cdl_lease_terms terms;
    int64_t alarm_ns;
    bool is_closing;
};

/* A call that waits, or that the store was asked for. */
struct caller {
    struct cdl_lease_waiter waiter;
    struct cdl_call *call;
    struct cdl_call asked;
    struct cdl_lease_question question;
    struct bare *bare;
};

/* An errand on its way; and what was answered, to be said again. */
struct errand {
    struct cdl_lease_errand errand;
    struct cdl_call call;
    struct caudal_request request;
    struct cdl_question question;
    struct caudal_decision decision;
    struct bare *bare;
    struct instance *instance;
    uint64_t epoch;
    unsigned char key[2];
};

static int64_t now_of(const struct bare *bare)
{
    return instance_monotonic(bare->instance);
}

static struct cdl_lease_subject subject_of(const struct bare *bare, const struct caudal_request *request)
{
    const unsigned key = key_index(request->key);
    return (struct cdl_lease_subject){.limit = request->limit,
                                      .hash = {(key + 1) * UINT64_C(0x9E3779B97F4A7C15), key},
                                      .key = request->key,
                                      .key_length = request->key_length,
                                      .rule = &bare->instance->run->scenario.limit,
                                      .terms = &bare->terms};
}

static void turn(struct bare *bare);

/* ---- errands ---- */

static void tell_book(struct bare *bare, const struct errand *errand)
{
    cdl_lease_answered(bare->book, errand->errand.number, &errand->decision, errand->call.decided_at_ns, 0,
                       (int)errand->call.failure, now_of(bare));
}

static void on_repeated(void *subject, uint64_t detail)
{
    (void)detail;
    struct errand *errand = subject;
    struct instance *instance = errand->instance;
    if (instance->is_up && instance->epoch == errand->epoch) {
        world_tell(&instance->run->world, "i%u: an answer is repeated", instance->number);
        tell_book((struct bare *)instance->client, errand);
        turn((struct bare *)instance->client);
    }
    free(errand);
}

static void on_errand_done(struct cdl_call *call)
{
    struct errand *errand = call->context;
    struct bare *bare = errand->bare;
    struct world *world = &errand->instance->run->world;
    if (call->status != CAUDAL_OK)
        errand->decision = (struct caudal_decision){.status = call->status};
    tell_book(bare, errand);
    if (!bare->is_closing)
        turn(bare);
    if (chance_is(world, 300))
        world_plan(world, world->now_ns + chance_between(world, 0, 2 * bare->terms.ttl_ns), on_repeated, errand, 0);
    else
        free(errand);
}

static void send_errand(struct bare *bare, const struct cdl_lease_errand *what)
{
    struct errand *errand = calloc(1, sizeof *errand);
    if (errand == NULL)
        abort();
    errand->errand = *what;
    memcpy(errand->key, what->key, sizeof errand->key);
    errand->bare = bare;
    errand->instance = bare->instance;
    errand->epoch = bare->instance->epoch;
    errand->request = (struct caudal_request){what->limit, errand->key, sizeof errand->key, what->question.maximum};
    errand->question = what->question;
    errand->call = (struct cdl_call){.requests = &errand->request,
                                     .questions = &errand->question,
                                     .decisions = &errand->decision,
                                     .count = 1,
                                     .for_book = true,
                                     .done = on_errand_done,
                                     .context = errand};
    cdl_store_ask(bare->inner->store, bare->inner, &errand->call);
}

/* ---- calls ---- */

static void finish(struct caller *caller)
{
    struct cdl_call *call = caller->call;
    free(caller);
    call->done(call);
}

static void on_asked_done(struct cdl_call *asked)
{
    struct caller *caller = asked->context;
    struct bare *bare = caller->bare;
    const struct cdl_lease_subject subject = subject_of(bare, &asked->requests[0]);
    caller->call->status = asked->status;
    caller->call->failure = asked->failure;
    caller->call->decided_at_ns = asked->decided_at_ns;
    cdl_lease_heard(bare->book, &subject, &caller->question, &asked->decisions[0], (int)asked->failure, now_of(bare));
    finish(caller);
    if (!bare->is_closing)
        turn(bare);
}

static void ask_store(struct caller *caller)
{
    struct bare *bare = caller->bare;
    const struct cdl_call *call = caller->call;
    const struct cdl_lease_subject subject = subject_of(bare, &call->requests[0]);
    cdl_lease_asked(bare->book, &subject, call->questions[0].maximum, now_of(bare), &caller->question);
    caller->asked = (struct cdl_call){.requests = call->requests,
                                      .questions = call->questions,
                                      .decisions = call->decisions,
                                      .count = 1,
                                      .done = on_asked_done,
                                      .context = caller};
    cdl_store_ask(bare->inner->store, bare->inner, &caller->asked);
}

/* True: it is answered. */
static bool decide(struct bare *bare, struct cdl_call *call, enum cdl_lease_mode mode, struct caller *caller)
{
    const struct cdl_lease_subject subject = subject_of(bare, &call->requests[0]);
    const enum cdl_lease_step step = cdl_lease_take(bare->book, &subject, call->questions[0].maximum, mode,
                                                    now_of(bare), &call->decisions[0], NULL);
    if (step == CDL_LEASE_DECIDED) {
        call->status = CAUDAL_OK;
        return true;
    }
    if (caller == NULL)
        caller = calloc(1, sizeof *caller);
    if (caller == NULL)
        abort();
    caller->call = call;
    caller->bare = bare;
    if (step == CDL_LEASE_ASK)
        ask_store(caller);
    else
        cdl_lease_wait(bare->book, &subject, &caller->waiter);
    return false;
}

static void release(struct caller *caller)
{
    struct bare *bare = caller->bare;
    if (bare->is_closing || caller->waiter.failure != CAUDAL_OK) {
        caller->call->status = CAUDAL_ERR_STORE;
        caller->call->decisions[0] = (struct caudal_decision){.status = CAUDAL_ERR_STORE};
        finish(caller);
    } else if (decide(bare, caller->call, caller->waiter.given_up ? CDL_LEASE_INSIST : CDL_LEASE_AGAIN, caller))
        finish(caller);
}

/* Whatever is due now. */
static void turn(struct bare *bare)
{
    struct cdl_lease_errand errand;
    struct cdl_lease_waiter *waiter;
    bool more = true;
    while (more) {
        more = false;
        while (cdl_lease_next(bare->book, now_of(bare), &errand)) {
            send_errand(bare, &errand);
            more = true;
        }
        while ((waiter = cdl_lease_released(bare->book)) != NULL) {
            release((struct caller *)waiter);
            more = true;
        }
    }
    const int64_t due_ns = cdl_lease_due(bare->book);
    if (due_ns != bare->alarm_ns)
        bare->hooks.alarm(bare->hooks.context, due_ns);
    bare->alarm_ns = due_ns;
}

/* ---- the client ---- */

static bool try_ask(struct cdl_store_client *client, struct cdl_call *call)
{
    struct bare *bare = (struct bare *)client;
    const struct cdl_lease_subject subject = subject_of(bare, &call->requests[0]);
    call->status = CAUDAL_OK;
    return cdl_lease_take(bare->book, &subject, call->questions[0].maximum, CDL_LEASE_TRY, now_of(bare),
                          &call->decisions[0], NULL) == CDL_LEASE_DECIDED;
}

/* It has been tried. A withdrawal that is due is sent by flush, or by what comes before. */
static void ask(struct cdl_store_client *client, struct cdl_call *call)
{
    if (decide((struct bare *)client, call, CDL_LEASE_FIRST, NULL))
        call->done(call);
}

static void flush(struct cdl_store_client *client)
{
    turn((struct bare *)client);
}

static void on_time(struct cdl_store_client *client, int64_t now_ns)
{
    (void)now_ns;
    struct bare *bare = (struct bare *)client;
    bare->alarm_ns = INT64_MAX;
    turn(bare);
}

static void close_client(struct cdl_store_client *client)
{
    struct bare *bare = (struct bare *)client;
    struct cdl_lease_waiter *waiter;
    bare->is_closing = true;
    cdl_store_client_close(bare->inner);
    cdl_lease_release_all(bare->book, CAUDAL_ERR_STORE, CDL_STORE_CLOSED);
    while ((waiter = cdl_lease_released(bare->book)) != NULL)
        release((struct caller *)waiter);
    cdl_lease_book_close(bare->book);
    free(bare);
}

static const struct cdl_client_ops client_ops = {
    .close = close_client, .ask = ask, .try_ask = try_ask, .flush = flush, .time = on_time};

struct cdl_store_client *bare_client_open(struct instance *instance, const struct cdl_loop_hooks *hooks)
{
    const struct caudal_lease *lease = &instance->run->scenario.lease;
    struct bare *bare = calloc(1, sizeof *bare);
    if (bare == NULL)
        abort();
    bare->head = (struct cdl_store_client){&client_ops, &instance->link.head};
    bare->instance = instance;
    bare->book = cdl_lease_book_open(cdl_allocator_default(), KEYS_KNOWN);
    bare->inner = cdl_store_client_open(&instance->link.head, hooks);
    bare->hooks = *hooks;
    bare->terms = (struct cdl_lease_terms){lease->ttl_ns, lease->share_per_mille, lease->strict_bound != 0};
    bare->alarm_ns = INT64_MAX;
    if (bare->book == NULL)
        abort();
    return &bare->head;
}
