/* A server: when to connect to it, and when it is known to be away.
 *
 * Connections are opened one at a time, each from a look-up of the name on, and never more than config->connections are held or being
 * opened. While the first is on its way calls wait. Afterwards:
 *
 *   a setback   is a connection that was lost, was told to be READONLY, or could not be opened. A pause follows it: up to 5 ms after the
 *               first, then 20 ms, doubled each time up to 500 ms, all but the first less up to half by chance, so that those who lost the
 *               same server do not come back in step. A connection that has stood for a second starts the count anew
 *   address     of a name that has several the one that has served is kept; a setback of a connection that has not stood for a second
 *               leads to the next
 *   away        the server does not answer: a connection could not be opened, was lost again soon, or config->breaker calls in a row have
 *               timed out without a byte between them. Calls fail at once. A byte on a greeted connection, or a greeting, ends it
 *   silence     a connection on which calls have timed out, and from which nothing has come for a second, is given up: it may be dead
 *               at the other end. It is what turns a server that was stopped into one that is connected to again
 *
 * A server of no further use (it owns no slot, nothing was asked of it for a while) is closed and forgotten. */
#include "store/redis/client_parts.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/un.h>

#define FIRST_PAUSE_NS (5 * CDL_NS_PER_MS)
#define PAUSE_NS (20 * CDL_NS_PER_MS)
#define PAUSE_MAX_NS (500 * CDL_NS_PER_MS)
#define PAUSE_DOUBLINGS_MAX 8u
/* A connection that stood for so long was a good one. */
#define PROVEN_NS CDL_NS_PER_S

static uint32_t most_connections(const struct cdl_redis_node *node)
{
    return node->client->config->connections;
}

/* ---- finding and making ---- */

static size_t node_bytes(const struct cdl_redis_client *client)
{
    return sizeof(struct cdl_redis_node) + client->config->connections * sizeof(struct cdl_redis_connection);
}

static bool same_place(const struct cdl_redis_place *a, const struct cdl_redis_place *b)
{
    return a->port == b->port && strcmp(a->host, b->host) == 0;
}

struct cdl_redis_node *cdl_redis_node_at(struct cdl_redis_client *client, const struct cdl_redis_place *place,
                                         enum cdl_redis_role role)
{
    struct cdl_redis_node *node = client->nodes;
    while (node != NULL && (node->role != role || !same_place(&node->place, place)))
        node = node->next;
    if (node != NULL) {
        node->retired = false;
        node->used_ns = client->now_ns;
        return node;
    }
    if (client->node_count >= CDL_REDIS_NODES_MAX)
        return NULL;
    node = cdl_allocate(client->shared->allocator, 1, node_bytes(client), _Alignof(struct cdl_redis_node));
    if (node == NULL)
        return NULL;
    node->client = client;
    node->place = *place;
    node->role = role;
    node->used_ns = client->now_ns;
    node->retry_ns = INT64_MIN;
    for (uint32_t i = 0; i < client->config->connections; i++) {
        node->connections[i].node = node;
        node->connections[i].link.socket.fd = -1;
    }
    node->next = client->nodes;
    client->nodes = node;
    client->node_count++;
    return node;
}

struct cdl_redis_connection *cdl_redis_node_ready(struct cdl_redis_node *node)
{
    struct cdl_redis_connection *best = NULL;
    size_t least = SIZE_MAX;
    for (uint32_t i = 0; i < most_connections(node); i++) {
        struct cdl_redis_connection *connection = &node->connections[i];
        if (!connection->ready || connection->draining)
            continue;
        const size_t in_flight = cdl_redis_session_in_flight(connection->session);
        if (in_flight < least) {
            least = in_flight;
            best = connection;
        }
    }
    return best;
}

/* ---- calls ---- */

void cdl_redis_node_take(struct cdl_redis_node *node, struct cdl_redis_call *call)
{
    struct cdl_redis_client *client = node->client;
    node->wanted = true;
    node->used_ns = client->now_ns;
    if (node->away) {
        cdl_redis_end_later(client, call, CDL_STORE_BREAKER);
        return;
    }
    struct cdl_redis_connection *connection = cdl_redis_node_ready(node);
    if (connection != NULL) {
        cdl_redis_connection_send(connection, call);
        return;
    }
    if (node->waiting.count >= (size_t)client->config->in_flight * most_connections(node)) {
        cdl_redis_end_later(client, call, CDL_STORE_OVERLOAD);
        return;
    }
    cdl_redis_calls_add(&node->waiting, call);
    client->restless = true;
}

static void send_waiting(struct cdl_redis_node *node)
{
    for (size_t left = node->waiting.count; left > 0; left--) {
        struct cdl_redis_call *call = node->waiting.first;
        cdl_redis_calls_leave(call);
        cdl_redis_node_take(node, call);
    }
}

/* ---- away, and back ---- */

static void go_away(struct cdl_redis_node *node, enum cdl_store_event event)
{
    node->away = true;
    cdl_redis_end_all_later(node->client, &node->waiting, event);
    node->client->restless = true;
}

static int64_t pause_after(struct cdl_redis_node *node, uint32_t setbacks)
{
    if (setbacks == 0)
        return cdl_redis_jitter(node->client, FIRST_PAUSE_NS, 1);
    const uint32_t doublings = setbacks - 1 < PAUSE_DOUBLINGS_MAX ? setbacks - 1 : PAUSE_DOUBLINGS_MAX;
    const int64_t pause = PAUSE_NS << doublings;
    return cdl_redis_jitter(node->client, pause < PAUSE_MAX_NS ? pause : PAUSE_MAX_NS, 2);
}

void cdl_redis_node_setback(struct cdl_redis_node *node, int64_t up_ns, enum cdl_store_event event)
{
    if (up_ns >= PROVEN_NS)
        node->setbacks = 0;
    else
        node->address_turn++;
    if (up_ns < 0 && node->setbacks == 0)
        node->setbacks = 1;
    node->retry_ns = node->client->now_ns + pause_after(node, node->setbacks);
    if (node->setbacks > 0 && cdl_redis_node_ready(node) == NULL)
        go_away(node, event);
    if (node->setbacks < UINT32_MAX)
        node->setbacks++;
    node->client->restless = true;
}

void cdl_redis_node_heard(struct cdl_redis_node *node)
{
    node->timeouts = 0;
    node->away = false;
}

void cdl_redis_node_timed_out(struct cdl_redis_node *node)
{
    if (!node->tried)
        return;
    node->timeouts++;
    if (!node->away && node->timeouts >= node->client->config->breaker)
        go_away(node, CDL_STORE_BREAKER);
}

/* ---- opening a connection ---- */

void cdl_redis_node_opened(struct cdl_redis_node *node)
{
    cdl_redis_count(node->client, CDL_STORE_CONNECTED);
    node->opening = NULL;
    node->tried = true;
    cdl_redis_node_heard(node);
    send_waiting(node);
    node->client->restless = true;
}

static void forget_look_up(struct cdl_redis_node *node)
{
    const struct cdl_loop_hooks *hooks = &node->client->hooks;
    if (node->looking)
        hooks->forget(hooks->context, &node->lookup);
    node->looking = false;
}

/* Ends an attempt without a word. */
static void drop_opening(struct cdl_redis_node *node)
{
    struct cdl_redis_connection *connection = node->opening;
    node->opening = NULL;
    forget_look_up(node);
    if (connection != NULL)
        cdl_redis_connection_close(connection, CDL_STORE_LOST);
}

void cdl_redis_node_not_opened(struct cdl_redis_node *node, enum cdl_store_event event)
{
    cdl_redis_count(node->client, event);
    node->tried = true;
    drop_opening(node);
    cdl_redis_node_setback(node, -1, event);
    if (event == CDL_STORE_NO_PRIMARY)
        cdl_redis_finder_distrust(node->client);
    if (node->question.wanted && node->question.at == NULL && cdl_redis_node_ready(node) == NULL)
        cdl_redis_finder_failed(node, event);
}

static socklen_t set_unix(struct sockaddr_storage *address, const char *path)
{
    struct sockaddr_un *place = (struct sockaddr_un *)address;
    const size_t length = strlen(path);
    if (length >= sizeof place->sun_path)
        return 0;
    place->sun_family = AF_UNIX;
    memcpy(place->sun_path, path, length + 1);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length + 1);
}

/* The address of a place that needs no looking up; 0: it is a name. A path that is too long is looked up, too, and not found. */
static socklen_t set_address(struct sockaddr_storage *address, const struct cdl_redis_place *place)
{
    struct sockaddr_in *four = (struct sockaddr_in *)address;
    struct sockaddr_in6 *six = (struct sockaddr_in6 *)address;
    memset(address, 0, sizeof *address);
    if (place->host[0] == '/')
        return set_unix(address, place->host);
    if (inet_pton(AF_INET, place->host, &four->sin_addr) == 1) {
        four->sin_family = AF_INET;
        four->sin_port = htons(place->port);
        return sizeof *four;
    }
    if (inet_pton(AF_INET6, place->host, &six->sin6_addr) == 1) {
        six->sin6_family = AF_INET6;
        six->sin6_port = htons(place->port);
        return sizeof *six;
    }
    return 0;
}

static void look_up(struct cdl_redis_node *node)
{
    const struct cdl_loop_hooks *hooks = &node->client->hooks;
    node->lookup = (struct cdl_lookup_request){
        .host = node->place.host, .port = node->place.port, .turn = node->address_turn};
    node->looking = true;
    hooks->look_up(hooks->context, &node->lookup);
}

static void begin_opening(struct cdl_redis_node *node)
{
    for (uint32_t i = 0; i < most_connections(node) && node->opening == NULL; i++)
        if (!node->connections[i].open)
            node->opening = &node->connections[i];
    node->give_up_ns = node->client->now_ns + node->client->config->connect_timeout_ns;
    node->address_length = set_address(&node->address, &node->place);
    if (node->address_length == 0)
        look_up(node);
}

/* What an attempt that takes too long has not come beyond. A server without TLS may wait for more when it gets our handshake. */
static enum cdl_store_event missing(const struct cdl_redis_node *node)
{
    const struct cdl_redis_link *link = &node->opening->link;
    if (node->looking)
        return CDL_STORE_RESOLVE;
    const bool is_in_tls = link->state == CDL_LINK_CONNECTING && link->reached;
    return is_in_tls ? CDL_STORE_TLS : CDL_STORE_CONNECT;
}

static void go_on_opening(struct cdl_redis_node *node)
{
    if (node->client->now_ns >= node->give_up_ns)
        cdl_redis_node_not_opened(node, missing(node));
    else if (node->looking || node->opening->open)
        return;
    else if (node->address_length == 0)
        cdl_redis_node_not_opened(node, CDL_STORE_RESOLVE);
    else
        cdl_redis_connection_open(node->opening);
}

/* ---- the turn of a node ---- */

/* How many connections it should have now. The first shows whether the server is there. */
static uint32_t connections_wanted(struct cdl_redis_node *node)
{
    if (!node->wanted || node->retired)
        return 0;
    const bool in_use = node->slots > 0 || node->waiting.count > 0;
    return in_use && cdl_redis_node_ready(node) != NULL ? most_connections(node) : 1;
}

static uint32_t connections_held(const struct cdl_redis_node *node)
{
    uint32_t held = node->opening != NULL && !node->opening->open ? 1 : 0;
    for (uint32_t i = 0; i < most_connections(node); i++)
        held += node->connections[i].open;
    return held;
}

static void look_after(struct cdl_redis_connection *connection)
{
    struct cdl_redis_client *client = connection->node->client;
    if (connection->overdue && client->now_ns >= connection->heard_ns + CDL_REDIS_SILENCE_NS)
        cdl_redis_connection_fail(connection, CDL_STORE_LOST);
    else if (connection->draining && connection->live == 0)
        cdl_redis_connection_close(connection, CDL_STORE_LOST);
    else if (connection->overdue)
        cdl_redis_arm(client, connection->heard_ns + CDL_REDIS_SILENCE_NS);
}

static void turn(struct cdl_redis_node *node)
{
    struct cdl_redis_client *client = node->client;
    for (uint32_t i = 0; i < most_connections(node); i++)
        look_after(&node->connections[i]);
    const bool more = node->opening == NULL && connections_held(node) < connections_wanted(node);
    if (more && client->now_ns < node->retry_ns)
        cdl_redis_arm(client, node->retry_ns);
    else if (more)
        begin_opening(node);
    if (node->opening != NULL)
        go_on_opening(node);
    if (node->opening != NULL)
        cdl_redis_arm(client, node->give_up_ns);
    if (node->question.wanted && node->question.at == NULL && cdl_redis_node_ready(node) != NULL)
        cdl_redis_finder_ask(node, cdl_redis_node_ready(node));
}

/* ---- the end of a node ---- */

void cdl_redis_node_drain(struct cdl_redis_node *node)
{
    for (uint32_t i = 0; i < most_connections(node); i++)
        if (node->connections[i].ready)
            node->connections[i].draining = true;
    node->client->restless = true;
}

void cdl_redis_node_retire(struct cdl_redis_node *node)
{
    node->retired = true;
    node->wanted = node->away = false;
    node->slots = 0;
    drop_opening(node);
    cdl_redis_node_drain(node);
    cdl_redis_route_all(node->client, &node->waiting);
}

static bool is_needed(struct cdl_redis_node *node)
{
    if (node->slots > 0 || node->waiting.count > 0 || node->question.wanted)
        return true;
    for (uint32_t i = 0; i < most_connections(node); i++)
        if (node->connections[i].live > 0)
            return true;
    const int64_t until_ns = node->used_ns + CDL_REDIS_IDLE_NS;
    if (node->retired || node->client->now_ns >= until_ns)
        return false;
    cdl_redis_arm(node->client, until_ns);
    return true;
}

static void free_node(struct cdl_redis_node *node)
{
    struct cdl_redis_client *client = node->client;
    drop_opening(node);
    for (uint32_t i = 0; i < most_connections(node); i++) {
        cdl_redis_connection_close(&node->connections[i], CDL_STORE_CLOSED);
        cdl_redis_connection_free(&node->connections[i]);
    }
    client->node_count--;
    cdl_release(client->shared->allocator, node, 1, node_bytes(client));
}

/* Nothing but the list of nodes points to one that is not needed: what owns a slot has slots > 0, and so has the primary. */
static void free_unneeded(struct cdl_redis_client *client)
{
    struct cdl_redis_node **link = &client->nodes;
    while (*link != NULL) {
        struct cdl_redis_node *node = *link;
        if (is_needed(node)) {
            link = &node->next;
            continue;
        }
        *link = node->next;
        free_node(node);
    }
}

/* A node that comes in while the others have their turn has its own in the next pass. */
void cdl_redis_nodes_turn(struct cdl_redis_client *client)
{
    for (struct cdl_redis_node *node = client->nodes; node != NULL; node = node->next)
        turn(node);
    free_unneeded(client);
}

void cdl_redis_nodes_close(struct cdl_redis_client *client)
{
    while (client->nodes != NULL) {
        struct cdl_redis_node *node = client->nodes;
        client->nodes = node->next;
        free_node(node);
    }
}
