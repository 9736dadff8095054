/* Replicas that must have what was executed, when the store's URL says wait_replicas.
 *
 * What was sent on a connection between two flushes is followed by one WAIT. A call's reply is lent only while it is looked at, so it is
 * copied, and the call ends when WAIT has told how many replicas have all that was written before it on the connection. Too few, or
 * no word of it: the calls have been executed, and have failed.
 *
 * The confirmations of a connection are used again; in a steady state nothing is allocated. */
#include "store/redis/client_parts.h"

#include "base/writer.h"

/* Left for the way back, so that the server speaks before the deadline. */
#define WAY_BACK_NS CDL_NS_PER_MS

static const struct caudal_allocator *allocator_of(const struct cdl_redis_confirmation *confirmation)
{
    return confirmation->connection->node->client->shared->allocator;
}

/* Nobody is in it, and no reply is to come: it may be used again. */
static void rest(struct cdl_redis_confirmation *confirmation)
{
    struct cdl_redis_connection *connection = confirmation->connection;
    if (confirmation->members > 0 || confirmation->out)
        return;
    if (connection->confirmation == confirmation)
        connection->confirmation = NULL;
    confirmation->length = 0;
    confirmation->broken = false;
    confirmation->next = connection->resting;
    connection->resting = confirmation;
}

/* It is not waited for on the connection any more. */
static void leave_connection(struct cdl_redis_connection *connection)
{
    connection->live--;
    if (connection->draining && connection->live == 0)
        connection->node->client->restless = true;
}

void cdl_redis_confirmation_leave(struct cdl_redis_call *call)
{
    struct cdl_redis_confirmation *confirmation = call->confirmation;
    if (confirmation == NULL)
        return;
    call->confirmation = NULL;
    if (call->there == &confirmation->replied) {
        cdl_redis_calls_leave(call);
        leave_connection(confirmation->connection);
    }
    confirmation->members--;
    if (confirmation->members == 0 && confirmation->connection->confirmation != confirmation)
        rest(confirmation);
}

/* ---- WAIT ---- */

/* The reply as it was lent, from the copy. */
static void end_confirmed(struct cdl_redis_client *client, struct cdl_redis_confirmation *confirmation,
                          struct cdl_redis_call *call)
{
    struct cdl_resp reply = call->held;
    const char *bytes = confirmation->kept + call->held_at;
    if (reply.text.length > 0)
        reply.text.bytes = bytes;
    if (reply.elements.length > 0)
        reply.elements.bytes = bytes + reply.text.length;
    cdl_redis_end(client, call, &reply, CDL_STORE_NONE);
}

static void confirmed(struct cdl_redis_command *command, const struct cdl_resp *reply, bool sent)
{
    struct cdl_redis_confirmation *confirmation = (struct cdl_redis_confirmation *)(void *)command;
    struct cdl_redis_client *client = confirmation->connection->node->client;
    const int64_t wanted = (int64_t)client->config->wait_replicas;
    const bool enough = reply != NULL && reply->kind == CDL_RESP_INTEGER && reply->integer >= wanted;
    (void)sent; /* what is held here was replied to */
    while (confirmation->replied.first != NULL) {
        struct cdl_redis_call *call = confirmation->replied.first;
        if (enough) {
            end_confirmed(client, confirmation, call);
        } else {
            cdl_redis_count(client, CDL_STORE_REPLICAS);
            cdl_redis_end(client, call, NULL, CDL_STORE_REPLICAS);
        }
    }
    confirmation->out = false;
    rest(confirmation);
}

/* WAIT 0 would wait for ever. */
static bool send_wait(struct cdl_redis_confirmation *confirmation)
{
    const struct cdl_redis_client *client = confirmation->connection->node->client;
    const int64_t left_ms = (confirmation->last_deadline_ns - client->now_ns - WAY_BACK_NS) / CDL_NS_PER_MS;
    char replicas[24], milliseconds[24];
    struct cdl_writer first = cdl_writer_on(replicas, sizeof replicas);
    struct cdl_writer second = cdl_writer_on(milliseconds, sizeof milliseconds);
    cdl_write_u64(&first, client->config->wait_replicas);
    cdl_write_i64(&second, cdl_max_i64(left_ms, 1));
    const struct cdl_slice words[] = {CDL_SLICE("WAIT"), cdl_written(&first), cdl_written(&second)};
    confirmation->command.replied = confirmed;
    return cdl_redis_session_send(confirmation->connection->session, &confirmation->command, words, 3);
}

void cdl_redis_confirmation_flush(struct cdl_redis_connection *connection)
{
    struct cdl_redis_confirmation *confirmation = connection->confirmation;
    if (confirmation == NULL)
        return;
    connection->confirmation = NULL;
    if (confirmation->members > 0) {
        confirmation->out = send_wait(confirmation);
        confirmation->broken = !confirmation->out;
    }
    rest(confirmation);
}

/* ---- calls ---- */

static struct cdl_redis_confirmation *make(struct cdl_redis_connection *connection)
{
    struct cdl_redis_confirmation *confirmation = connection->resting;
    if (confirmation != NULL) {
        connection->resting = confirmation->next;
    } else {
        confirmation = cdl_allocate(connection->node->client->shared->allocator, 1, sizeof *confirmation,
                                    _Alignof(struct cdl_redis_confirmation));
        if (confirmation == NULL)
            return NULL;
        confirmation->connection = connection;
    }
    confirmation->last_deadline_ns = INT64_MIN;
    return confirmation;
}

bool cdl_redis_confirm(struct cdl_redis_connection *connection, struct cdl_redis_call *call)
{
    if (connection->confirmation == NULL)
        connection->confirmation = make(connection);
    struct cdl_redis_confirmation *confirmation = connection->confirmation;
    if (confirmation == NULL)
        return false;
    call->confirmation = confirmation;
    confirmation->members++;
    confirmation->last_deadline_ns = cdl_max_i64(confirmation->last_deadline_ns, call->deadline_ns);
    return true;
}

static bool reserve(struct cdl_redis_confirmation *confirmation, size_t more)
{
    const size_t needed = confirmation->length + more;
    if (needed <= confirmation->size)
        return true;
    const size_t size = needed < 512 ? 1024 : 2 * needed;
    char *kept = cdl_allocate(allocator_of(confirmation), size, 1, 1);
    if (kept == NULL)
        return false;
    if (confirmation->length > 0)
        memcpy(kept, confirmation->kept, confirmation->length);
    cdl_release(allocator_of(confirmation), confirmation->kept, confirmation->size, 1);
    confirmation->kept = kept;
    confirmation->size = size;
    return true;
}

static void append(struct cdl_redis_confirmation *confirmation, struct cdl_slice bytes)
{
    if (bytes.length > 0)
        memcpy(confirmation->kept + confirmation->length, bytes.bytes, bytes.length);
    confirmation->length += bytes.length;
}

void cdl_redis_confirmation_keep(struct cdl_redis_call *call, const struct cdl_resp *reply)
{
    struct cdl_redis_confirmation *confirmation = call->confirmation;
    struct cdl_redis_client *client = confirmation->connection->node->client;
    if (confirmation->broken || !reserve(confirmation, reply->text.length + reply->elements.length)) {
        cdl_redis_count(client, CDL_STORE_REPLICAS);
        cdl_redis_end(client, call, NULL, CDL_STORE_REPLICAS);
        return;
    }
    call->held = *reply;
    call->held_at = confirmation->length;
    append(confirmation, reply->text);
    append(confirmation, reply->elements);
    cdl_redis_calls_add(&confirmation->replied, call);
    confirmation->connection->live++;
}

void cdl_redis_confirmations_free(struct cdl_redis_connection *connection)
{
    const struct caudal_allocator *allocator = connection->node->client->shared->allocator;
    if (connection->confirmation != NULL)
        rest(connection->confirmation);
    while (connection->resting != NULL) {
        struct cdl_redis_confirmation *confirmation = connection->resting;
        connection->resting = confirmation->next;
        cdl_release(allocator, confirmation->kept, confirmation->size, 1);
        cdl_release(allocator, confirmation, 1, sizeof *confirmation);
    }
}
