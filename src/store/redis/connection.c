/* A connection: a link, which has a socket, and a session, which knows what the bytes mean. Bytes are read when the loop says so and
 * written when the client settles, so that what was asked in one turn leaves in one piece.
 *
 * Life: closed; open (from cdl_redis_connection_open: TCP, TLS, greeting); ready (greeted; now it takes calls); perhaps draining (takes
 * no more); closed. The memory of the session is kept for the next time. */
#include "store/redis/client_parts.h"

/* Beyond the calls: WAIT, ASKING, what the finder asks. Each follows a call that found room, so there are never more than a few. */
#define ASIDE_MAX 16u

static struct cdl_redis_client *client_of(const struct cdl_redis_connection *connection)
{
    return connection->node->client;
}

/* ---- opening and closing ---- */

static void watch(struct cdl_redis_connection *connection, unsigned events)
{
    const struct cdl_loop_hooks *hooks = &client_of(connection)->hooks;
    if (connection->watched == events)
        return;
    connection->watched = events;
    hooks->watch(hooks->context, &connection->link.socket, events);
}

static void go_on(struct cdl_redis_connection *connection)
{
    switch (connection->link.state) {
    case CDL_LINK_CONNECTING:
        watch(connection, connection->link.wants);
        break;
    case CDL_LINK_OPEN:
        cdl_redis_session_connected(connection->session);
        cdl_redis_connection_touch(connection);
        break;
    default:
        cdl_redis_connection_fail(connection, connection->link.failure);
    }
}

static bool open_session(struct cdl_redis_connection *connection)
{
    const struct cdl_redis_client *client = client_of(connection);
    if (connection->session == NULL)
        connection->session = cdl_redis_session_open(&client->greetings[connection->node->role],
                                                     client->config->in_flight + ASIDE_MAX, client->shared->allocator);
    return connection->session != NULL;
}

void cdl_redis_connection_open(struct cdl_redis_connection *connection)
{
    struct cdl_redis_node *node = connection->node;
    const struct cdl_redis_config *config = node->client->config;
    const char *name = config->tls_name != NULL ? config->tls_name : node->place.host;
    if (!open_session(connection)) {
        cdl_redis_connection_fail(connection, CDL_STORE_CONNECT);
        return;
    }
    connection->open = true;
    cdl_redis_link_open(&connection->link, (const struct sockaddr *)&node->address, node->address_length,
                        node->client->shared->tls, config->tls && config->tls_verify ? name : NULL);
    go_on(connection);
}

void cdl_redis_connection_close(struct cdl_redis_connection *connection, enum cdl_store_event why)
{
    if (!connection->open)
        return;
    connection->open = connection->ready = connection->draining = connection->overdue = connection->busy = false;
    connection->why = why;
    connection->loader = NULL;
    if (connection->link.socket.fd >= 0)
        watch(connection, 0);
    connection->watched = 0;
    cdl_redis_link_close(&connection->link);
    cdl_redis_session_lost(connection->session);
    client_of(connection)->restless = true;
}

void cdl_redis_connection_fail(struct cdl_redis_connection *connection, enum cdl_store_event why)
{
    struct cdl_redis_node *node = connection->node;
    if (node->opening == connection) {
        cdl_redis_node_not_opened(node, why);
        return;
    }
    cdl_redis_count(node->client, why);
    const bool drained = connection->draining;
    connection->ready = false;
    if (!drained)
        cdl_redis_node_setback(node, node->client->now_ns - connection->since_ns, why);
    cdl_redis_connection_close(connection, why);
}

void cdl_redis_connection_free(struct cdl_redis_connection *connection)
{
    struct cdl_redis_connection **link = &client_of(connection)->dirty;
    while (connection->dirty && *link != connection)
        link = &(*link)->next_dirty;
    if (connection->dirty)
        *link = connection->next_dirty;
    cdl_redis_session_close(connection->session);
    cdl_redis_confirmations_free(connection);
}

/* ---- reading ---- */

static void heard(struct cdl_redis_connection *connection)
{
    if (!connection->ready)
        return;
    connection->heard_ns = client_of(connection)->now_ns;
    connection->overdue = false;
    cdl_redis_node_heard(connection->node);
}

static void look_at_session(struct cdl_redis_connection *connection)
{
    if (connection->ready || cdl_redis_session_state(connection->session) != CDL_SESSION_READY)
        return;
    connection->ready = true;
    connection->since_ns = connection->heard_ns = client_of(connection)->now_ns;
    cdl_redis_node_opened(connection->node);
}

static void read_all(struct cdl_redis_connection *connection)
{
    char *buffer = client_of(connection)->buffer;
    for (;;) {
        const ssize_t got = cdl_redis_link_read(&connection->link, buffer, CDL_REDIS_BUFFER_BYTES);
        if (got < 0) {
            cdl_redis_connection_fail(connection, connection->link.failure);
            return;
        }
        if (got == 0)
            break;
        heard(connection);
        if (!cdl_redis_session_receive(connection->session, (struct cdl_slice){buffer, (size_t)got})) {
            cdl_redis_connection_fail(connection, cdl_redis_session_failure(connection->session));
            return;
        }
        look_at_session(connection);
    }
    connection->busy = cdl_redis_session_in_flight(connection->session) > 0;
    cdl_redis_connection_touch(connection);
}

void cdl_redis_connection_ready(struct cdl_redis_connection *connection)
{
    if (!connection->open)
        return;
    if (connection->link.state == CDL_LINK_CONNECTING) {
        cdl_redis_link_go_on(&connection->link);
        go_on(connection);
    }
    if (connection->open && connection->link.state == CDL_LINK_OPEN)
        read_all(connection);
}

/* ---- writing ---- */

void cdl_redis_connection_touch(struct cdl_redis_connection *connection)
{
    struct cdl_redis_client *client = client_of(connection);
    if (connection->dirty)
        return;
    connection->dirty = true;
    connection->next_dirty = client->dirty;
    client->dirty = connection;
}

static void write_all(struct cdl_redis_connection *connection)
{
    struct cdl_slice output;
    cdl_redis_confirmation_flush(connection);
    while ((output = cdl_redis_session_output(connection->session)).length > 0) {
        const ssize_t sent = cdl_redis_link_write(&connection->link, output);
        if (sent < 0) {
            cdl_redis_connection_fail(connection, connection->link.failure);
            return;
        }
        if (sent == 0)
            break;
        cdl_redis_session_sent(connection->session, (size_t)sent);
    }
    if (!connection->busy && cdl_redis_session_in_flight(connection->session) > 0) {
        connection->busy = true;
        connection->heard_ns = client_of(connection)->now_ns;
    }
    watch(connection, connection->link.wants);
}

void cdl_redis_connections_write(struct cdl_redis_client *client)
{
    while (client->dirty != NULL) {
        struct cdl_redis_connection *connection = client->dirty;
        client->dirty = connection->next_dirty;
        connection->dirty = false;
        if (connection->open && connection->link.state == CDL_LINK_OPEN) {
            look_at_session(connection);
            write_all(connection);
        }
    }
}

/* ---- calls ---- */

/* A command whose reply nobody waits for. */
static bool send_aside(struct cdl_redis_connection *connection, struct cdl_slice word)
{
    struct cdl_redis_command command = {.replied = NULL};
    if (!cdl_redis_session_send(connection->session, &command, &word, 1))
        return false;
    cdl_redis_session_abandon(connection->session, &command);
    return true;
}

static bool send_words(struct cdl_redis_connection *connection, struct cdl_redis_call *call)
{
    struct cdl_redis_client *client = client_of(connection);
    if (call->script == NULL)
        return cdl_redis_session_send(connection->session, &call->command, call->words, call->word_count);
    struct cdl_slice *words = cdl_redis_words(client, call->word_count + 2);
    if (words == NULL)
        return false;
    words[0] = call->whole_script ? CDL_SLICE("EVAL") : CDL_SLICE("EVALSHA");
    words[1] = call->whole_script ? call->script->text : call->script->sha;
    if (call->word_count > 0)
        memcpy(words + 2, call->words, call->word_count * sizeof *words);
    return cdl_redis_session_send(connection->session, &call->command, words, call->word_count + 2);
}

void cdl_redis_connection_send(struct cdl_redis_connection *connection, struct cdl_redis_call *call)
{
    struct cdl_redis_client *client = client_of(connection);
    if (cdl_redis_session_in_flight(connection->session) >= client->config->in_flight ||
        (client->config->wait_replicas > 0 && !cdl_redis_confirm(connection, call)) ||
        (call->asking && !send_aside(connection, CDL_SLICE("ASKING"))) || !send_words(connection, call)) {
        cdl_redis_end_later(client, call, CDL_STORE_OVERLOAD);
        return;
    }
    call->at = connection;
    connection->live++;
    if (call->whole_script && connection->loader == NULL)
        connection->loader = call;
    cdl_redis_connection_touch(connection);
}

void cdl_redis_connection_release(struct cdl_redis_connection *connection, struct cdl_redis_call *call)
{
    call->at = NULL;
    connection->live--;
    if (connection->loader == call)
        connection->loader = NULL;
    if (connection->draining && connection->live == 0)
        client_of(connection)->restless = true;
}

void cdl_redis_connection_abandon(struct cdl_redis_connection *connection, struct cdl_redis_call *call)
{
    cdl_redis_session_abandon(connection->session, &call->command);
    cdl_redis_connection_release(connection, call);
    connection->overdue = true;
    cdl_redis_arm(client_of(connection), connection->heard_ns + CDL_REDIS_SILENCE_NS);
}
