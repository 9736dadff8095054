/* Which server a call goes to, and what becomes of it when the reply is an error.
 *
 *     NOSCRIPT                          again at once, on the same connection: the first as EVAL, which brings the script, those behind it
 *                                       by the script's name
 *     MOVED                             again at once, at the server that it names, which has the slot from now on
 *     ASK                               again at once, at the server that it names, behind ASKING; the slot stays where it is
 *     TRYAGAIN CLUSTERDOWN              again after 5 ms, 10 ms, 20 ms…
 *     LOADING MASTERDOWN
 *     READONLY                          again on a new connection, when it is known anew where the primary is
 *     any other                         the call has failed
 *
 * All that is sent again proves that nothing was executed, and is sent only while the deadline has not come. Redirections that follow
 * one another without end become pauses. */
#include "store/redis/client_parts.h"

#define PAUSE_NS (5 * CDL_NS_PER_MS)
#define PAUSE_DOUBLINGS_MAX 10u
/* So many redirections are followed at once; a cluster that agrees with itself needs two. */
#define REDIRECTIONS_MAX 4u
/* A script that is forgotten so often is flushed all the time, and travels with the call. */
#define FORGOTTEN_MAX 2u

/* ---- to a server ---- */

static struct cdl_redis_node *any_node(struct cdl_redis_client *client)
{
    struct cdl_redis_node *found = NULL;
    for (struct cdl_redis_node *node = client->nodes; node != NULL; node = node->next) {
        if (node->role != CDL_REDIS_SERVER || node->slots == 0)
            continue;
        if (cdl_redis_node_ready(node) != NULL && !node->away)
            return node;
        if (found == NULL || found->away)
            found = node;
    }
    return found;
}

static struct cdl_redis_node *node_for(struct cdl_redis_client *client, const struct cdl_redis_call *call)
{
    if (client->owners == NULL)
        return client->doubted ? NULL : client->primary;
    return call->key.length > 0 ? client->owners[call->slot] : any_node(client);
}

void cdl_redis_route(struct cdl_redis_client *client, struct cdl_redis_call *call)
{
    struct cdl_redis_node *node = node_for(client, call);
    if (node != NULL) {
        cdl_redis_node_take(node, call);
        return;
    }
    if (client->finder.away) {
        cdl_redis_end_later(client, call, CDL_STORE_BREAKER);
        return;
    }
    if (client->lost.count >= client->config->in_flight) {
        cdl_redis_end_later(client, call, CDL_STORE_OVERLOAD);
        return;
    }
    cdl_redis_calls_add(&client->lost, call);
    if (!client->finder.asking)
        cdl_redis_find(client);
}

void cdl_redis_route_all(struct cdl_redis_client *client, struct cdl_redis_calls *calls)
{
    for (size_t left = calls->count; left > 0; left--) {
        struct cdl_redis_call *call = calls->first;
        cdl_redis_calls_leave(call);
        cdl_redis_route(client, call);
    }
}

/* ---- pauses ---- */

static void enter_paused(struct cdl_redis_client *client, struct cdl_redis_call *call)
{
    struct cdl_redis_calls *paused = &client->paused;
    struct cdl_redis_call *before = paused->last;
    while (before != NULL && before->again_ns > call->again_ns)
        before = before->previous_there;
    if (before == paused->last) {
        cdl_redis_calls_add(paused, call);
        return;
    }
    call->there = paused;
    call->previous_there = before;
    call->next_there = before != NULL ? before->next_there : paused->first;
    call->next_there->previous_there = call;
    if (before != NULL)
        before->next_there = call;
    else
        paused->first = call;
    paused->count++;
}

/* Ends the call when its deadline comes first. */
static void pause_call(struct cdl_redis_client *client, struct cdl_redis_call *call, const struct cdl_resp *reply,
                       enum cdl_store_event event)
{
    call->again_ns = client->now_ns + (PAUSE_NS << call->pauses);
    if (call->pauses < PAUSE_DOUBLINGS_MAX)
        call->pauses++;
    if (call->again_ns >= call->deadline_ns) {
        cdl_redis_end(client, call, reply, event);
        return;
    }
    call->reason = event;
    call->asking = false;
    enter_paused(client, call);
    cdl_redis_arm(client, call->again_ns);
}

void cdl_redis_resume(struct cdl_redis_client *client)
{
    struct cdl_redis_call *call;
    while ((call = client->paused.first) != NULL && call->again_ns <= client->now_ns) {
        cdl_redis_calls_leave(call);
        call->reason = CDL_STORE_NONE;
        cdl_redis_route(client, call);
    }
}

/* ---- error replies ---- */

/* What is sent behind a script on the same connection may name it. */
static void send_script(struct cdl_redis_client *client, struct cdl_redis_connection *connection,
                        struct cdl_redis_call *call, const struct cdl_resp *reply)
{
    if (call->script == NULL || call->whole_script || client->now_ns >= call->deadline_ns) {
        cdl_redis_end(client, call, reply, CDL_STORE_NOSCRIPT);
        return;
    }
    const bool here = connection->ready && !connection->draining;
    call->whole_script = !here || connection->loader == NULL || connection->loader->script != call->script ||
                         call->forgotten >= FORGOTTEN_MAX;
    call->forgotten++;
    if (here)
        cdl_redis_connection_send(connection, call);
    else
        cdl_redis_route(client, call);
}

static void redirect(struct cdl_redis_client *client, struct cdl_redis_connection *connection,
                     struct cdl_redis_call *call, const struct cdl_resp *reply, enum cdl_store_event event)
{
    const bool asked = call->asking;
    struct cdl_redis_node *node = NULL;
    struct cdl_redis_place place;
    uint32_t slot;
    if (client->owners == NULL) {
        cdl_redis_end(client, call, reply, event);
        return;
    }
    call->asking = false;
    if (cdl_redis_error_place(reply->text, &connection->node->place, &slot, &place))
        node = cdl_redis_node_at(client, &place, CDL_REDIS_SERVER);
    if (event == CDL_STORE_MOVED) {
        if (node != NULL)
            cdl_redis_own(client, slot, node);
        cdl_redis_find(client);
    }
    if (node == NULL || (event == CDL_STORE_ASK && asked) || call->redirections >= REDIRECTIONS_MAX) {
        pause_call(client, call, reply, event);
        return;
    }
    if (client->now_ns >= call->deadline_ns) {
        cdl_redis_end(client, call, reply, event);
        return;
    }
    call->redirections++;
    call->asking = event == CDL_STORE_ASK;
    cdl_redis_node_take(node, call);
}

/* All calls on the connection will hear the same; they are given the time for it. */
static void leave_replica(struct cdl_redis_client *client, struct cdl_redis_connection *connection,
                          struct cdl_redis_call *call, const struct cdl_resp *reply)
{
    struct cdl_redis_node *node = connection->node;
    call->reason = CDL_STORE_READONLY;
    if (!connection->draining) {
        cdl_redis_node_drain(node);
        cdl_redis_node_setback(node, client->now_ns - connection->since_ns, CDL_STORE_READONLY);
        if (client->config->kind == CDL_REDIS_SENTINEL && node == client->primary) {
            client->doubted = true;
            cdl_redis_finder_distrust(client);
        }
        if (client->config->kind != CDL_REDIS_SINGLE)
            cdl_redis_find(client);
    }
    if (client->config->kind == CDL_REDIS_CLUSTER)
        pause_call(client, call, reply, CDL_STORE_READONLY);
    else if (client->config->kind == CDL_REDIS_SINGLE && node->away)
        cdl_redis_end(client, call, reply, CDL_STORE_READONLY);
    else
        cdl_redis_route(client, call);
}

static void take_error(struct cdl_redis_client *client, struct cdl_redis_connection *connection,
                       struct cdl_redis_call *call, const struct cdl_resp *reply)
{
    const enum cdl_store_event event = cdl_store_event_of_error(reply->text);
    cdl_redis_count(client, event);
    cdl_redis_confirmation_leave(call);
    switch (event) {
    case CDL_STORE_NOSCRIPT:
        send_script(client, connection, call, reply);
        break;
    case CDL_STORE_MOVED:
    case CDL_STORE_ASK:
        redirect(client, connection, call, reply, event);
        break;
    case CDL_STORE_CLUSTERDOWN:
        cdl_redis_find(client);
        pause_call(client, call, reply, event);
        break;
    case CDL_STORE_TRYAGAIN:
    case CDL_STORE_LOADING:
    case CDL_STORE_MASTERDOWN:
        pause_call(client, call, reply, event);
        break;
    case CDL_STORE_READONLY:
        leave_replica(client, connection, call, reply);
        break;
    default:
        cdl_redis_end(client, call, reply, event);
    }
}

void cdl_redis_replied(struct cdl_redis_command *command, const struct cdl_resp *reply, bool sent)
{
    struct cdl_redis_call *call = (struct cdl_redis_call *)(void *)((char *)command -
                                                                    offsetof(struct cdl_redis_call, command));
    struct cdl_redis_connection *connection = call->at;
    struct cdl_redis_client *client = connection->node->client;
    cdl_redis_connection_release(connection, call);
    if (reply == NULL && sent) {
        cdl_redis_end(client, call, NULL, connection->why);
    } else if (reply == NULL) {
        cdl_redis_confirmation_leave(call);
        cdl_redis_route(client, call);
    } else if (reply->kind == CDL_RESP_ERROR) {
        take_error(client, connection, call, reply);
    } else if (call->confirmation != NULL) {
        cdl_redis_confirmation_keep(call, reply);
    } else {
        cdl_redis_end(client, call, reply, CDL_STORE_NONE);
    }
}
