#include "store/call.h"

#include <netdb.h>

/* ---- names ---- */

static bool is_ip(const struct addrinfo *at)
{
    return at->ai_family == AF_INET || at->ai_family == AF_INET6;
}

const struct addrinfo *cdl_lookup_choose(const struct cdl_lookup_request *request, const struct addrinfo *found)
{
    uint32_t count = 0;
    for (const struct addrinfo *at = found; at != NULL; at = at->ai_next)
        count += is_ip(at);
    if (count == 0)
        return NULL;
    uint32_t before = request->turn % count;
    while (!is_ip(found) || before-- > 0)
        found = found->ai_next;
    return found;
}

/* ---- questions ---- */

static struct cdl_instant instant_of(const struct caudal_store *store, const struct cdl_call *call)
{
    return call->now_ns != NULL ? cdl_instant_given(*call->now_ns) : cdl_instant_read(store->clock);
}

/* The store takes what a request costs from the request, where it decides on all of them. */
static int decide_together(struct caudal_store *store, struct cdl_call *call, struct cdl_instant *now)
{
    struct caudal_request requests[CAUDAL_TAKE_ALL_MAX];
    const struct caudal_limit *limits[CAUDAL_TAKE_ALL_MAX];
    bool come_along = false;
    for (size_t i = 0; i < call->count; i++) {
        requests[i] = call->requests[i];
        requests[i].cost = call->questions[i].maximum;
        limits[i] = call->questions[i].limit;
        come_along |= limits[i] != NULL;
    }
    return store->ops->decide_all(store, call->questions[0].operation, requests, come_along ? limits : NULL,
                                  call->count, now, call->decisions);
}

static int decide_one(struct caudal_store *store, const struct caudal_request *request,
                      const struct cdl_question *question, struct cdl_instant *now, struct caudal_decision *decision)
{
    if (question->operation != CDL_RESET)
        return store->ops->decide(store, request, question, now, decision);
    *decision = (struct caudal_decision){.verdict = CAUDAL_ALLOW};
    return store->ops->reset(store, request);
}

static int decide_each(struct caudal_store *store, struct cdl_call *call, struct cdl_instant *now)
{
    int first = CAUDAL_OK;
    for (size_t i = 0; i < call->count; i++) {
        const int status = decide_one(store, &call->requests[i], &call->questions[i], now, &call->decisions[i]);
        if (status == CAUDAL_OK)
            continue;
        call->decisions[i] = (struct caudal_decision){.status = status};
        first = first == CAUDAL_OK ? status : first;
    }
    return first;
}

bool cdl_store_ask(struct caudal_store *store, struct cdl_store_client *client, struct cdl_call *call)
{
    if (client != NULL) {
        if (cdl_store_client_try(client, call))
            return true;
        client->ops->ask(client, call);
        return false;
    }
    if (store->ops->ask != NULL) {
        store->ops->ask(store, call);
        return true;
    }
    struct cdl_instant now = instant_of(store, call);
    /* All or nothing of one is that one, and the store need not look before it takes. */
    const bool together = call->together && call->count > 1;
    call->status = together ? decide_together(store, call, &now) : decide_each(store, call, &now);
    call->failure = CDL_STORE_NONE;
    /* A clock is not read for that alone. */
    call->decided_at_ns = now.has_realtime ? now.realtime_ns : 0;
    for (size_t i = 0; call->together && call->status != CAUDAL_OK && i < call->count; i++)
        call->decisions[i] = (struct caudal_decision){.status = call->status};
    return true;
}

/* Those of a piece of a batch that are in order are one call; the first status that is not CAUDAL_OK is the piece's. */
static int take_piece(struct caudal_store *store, const struct caudal_request *requests, size_t count,
                      const int64_t *now_ns, struct caudal_decision *decisions, cdl_ask_and_wait *ask)
{
    struct caudal_request asked[CAUDAL_TAKE_ALL_MAX];
    struct cdl_question questions[CAUDAL_TAKE_ALL_MAX];
    struct caudal_decision answers[CAUDAL_TAKE_ALL_MAX];
    struct cdl_call call = {.requests = asked, .questions = questions, .decisions = answers, .now_ns = now_ns};
    int status = CAUDAL_OK;
    for (size_t i = 0; i < count; i++) {
        const int bad = cdl_check_request(&requests[i]);
        decisions[i] = (struct caudal_decision){.status = bad};
        status = status == CAUDAL_OK ? bad : status;
        if (bad != CAUDAL_OK)
            continue;
        asked[call.count] = requests[i];
        questions[call.count++] = cdl_question_take(requests[i].cost);
    }
    if (call.count == 0)
        return status;
    ask(store, &call);
    for (size_t i = 0, answered = 0; i < count; i++)
        if (decisions[i].status == CAUDAL_OK)
            decisions[i] = answers[answered++];
    return status == CAUDAL_OK ? call.status : status;
}

int cdl_store_take_batch(struct caudal_store *store, const struct caudal_request *requests, size_t count,
                         const int64_t *now_ns, struct caudal_decision *decisions, cdl_ask_and_wait *ask)
{
    int status = CAUDAL_OK;
    for (size_t at = 0; at < count; at += CAUDAL_TAKE_ALL_MAX) {
        const size_t some = cdl_min_u64(count - at, CAUDAL_TAKE_ALL_MAX);
        const int piece = take_piece(store, requests + at, some, now_ns, decisions + at, ask);
        status = status == CAUDAL_OK ? piece : status;
    }
    return status;
}
