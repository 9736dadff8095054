/* Where things are: sentinels know the primary of their group, nodes of a cluster know who has which slot.
 *
 * A round asks servers one after the other: the next at once when one has failed, and after a tenth of a second when it has not answered,
 * so that one that hangs costs no more than that. The first good answer ends the round. Sentinels are asked in the order of `order`, in
 * which the one that answered stands first, and one whose word turned out to be wrong last. Of a cluster the nodes to which a
 * connection stands are asked first, in no order, then the seeds.
 *
 * Rounds are at least 100 ms apart. One is begun when a reply has shown that what is known is out of date (cdl_redis_find), and again and
 * again, at growing distances, while there is doubt: nothing is known yet, the primary is not connected to, or a node that owns slots is
 * away. So a promotion is seen within the longest distance. */
#include "store/redis/client_parts.h"

/* Between two rounds; up to half as long again by chance. */
#define DISTANCE_NS (100 * CDL_NS_PER_MS)
#define DISTANCE_DOUBLINGS_MAX 2u
/* How long a server is waited for before the next one is asked as well. */
#define PATIENCE_NS (100 * CDL_NS_PER_MS)

void cdl_redis_find(struct cdl_redis_client *client)
{
    client->finder.wanted = true;
    client->restless = true;
}

void cdl_redis_finder_distrust(struct cdl_redis_client *client)
{
    const uint32_t count = client->config->seed_count;
    uint8_t *order = client->finder.order;
    const uint8_t first = order[0];
    memmove(order, order + 1, count - 1);
    order[count - 1] = first;
}

static bool is_in_doubt(struct cdl_redis_client *client)
{
    if (!client->finder.known || client->doubted)
        return true;
    if (client->owners == NULL) {
        struct cdl_redis_node *primary = client->primary;
        return primary->away || (primary->setbacks > 0 && cdl_redis_node_ready(primary) == NULL);
    }
    for (const struct cdl_redis_node *node = client->nodes; node != NULL; node = node->next)
        if (node->slots > 0 && node->away)
            return true;
    return false;
}

/* ---- the end of a round ---- */

/* Whoever has not answered yet is not listened to; a connection on which an answer is missing is watched for silence. */
static void end_round(struct cdl_redis_client *client)
{
    client->finder.asking = false;
    client->finder.out = 0;
    for (struct cdl_redis_node *node = client->nodes; node != NULL; node = node->next) {
        struct cdl_redis_question *question = &node->question;
        if (question->wanted && question->at != NULL) {
            cdl_redis_session_abandon(question->at->session, &question->command);
            question->at->overdue = true;
        }
        question->wanted = false;
        question->at = NULL;
    }
    client->restless = true;
}

/* Those who were asked and turned out to own nothing are not needed any more: names of seeds mostly, whose servers the map calls by their
 * addresses. */
static void dismiss(struct cdl_redis_client *client)
{
    for (struct cdl_redis_node *node = client->nodes; node != NULL; node = node->next)
        if (node->round == client->finder.round && node->slots == 0)
            node->used_ns = client->now_ns - CDL_REDIS_IDLE_NS;
}

static void round_answered(struct cdl_redis_client *client)
{
    client->finder.known = true;
    client->finder.away = false;
    end_round(client);
    if (client->owners != NULL)
        dismiss(client);
    cdl_redis_route_all(client, &client->lost);
}

static void round_failed(struct cdl_redis_client *client)
{
    end_round(client);
    if (!client->finder.known || client->doubted)
        client->finder.away = true;
    cdl_redis_end_all_later(client, &client->lost, client->finder.event);
}

/* ---- answers ---- */

/* A host and a port, both as text. */
static bool take_primary(struct cdl_redis_client *client, const struct cdl_resp *reply)
{
    struct cdl_slice rest = reply->elements;
    struct cdl_resp host, port;
    struct cdl_redis_place place;
    uint64_t number = 0;
    if (reply->count != 2 || !cdl_resp_next(&rest, &host) || !cdl_resp_next(&rest, &port) ||
        host.kind != CDL_RESP_STRING || port.kind != CDL_RESP_STRING ||
        !cdl_redis_number(port.text, UINT16_MAX, &number) || !cdl_redis_place_set(&place, host.text, number))
        return false;
    struct cdl_redis_node *node = cdl_redis_node_at(client, &place, CDL_REDIS_SERVER), *old = client->primary;
    if (node == NULL)
        return false;
    client->doubted = false;
    client->primary = node;
    node->slots = 1;
    node->wanted = true;
    if (old != NULL && old != node)
        cdl_redis_node_retire(old);
    return true;
}

void cdl_redis_own(struct cdl_redis_client *client, uint32_t slot, struct cdl_redis_node *node)
{
    if (client->owners[slot] != NULL)
        client->owners[slot]->slots--;
    client->owners[slot] = node;
    if (node != NULL)
        node->slots++;
}

/* Whether the reply is a map, and names anybody. */
static bool is_map(const struct cdl_redis_node *asked, const struct cdl_resp *reply)
{
    struct cdl_slice rest = reply->elements;
    struct cdl_redis_range range;
    bool any = false;
    for (size_t i = 0; i < reply->count; i++) {
        const int found = cdl_redis_range_next(&rest, &asked->place, &range);
        if (found < 0)
            return false;
        any = any || found > 0;
    }
    return any;
}

/* All of the new map, and nothing of the old one. */
static bool take_slots(struct cdl_redis_client *client, const struct cdl_redis_node *asked,
                       const struct cdl_resp *reply)
{
    struct cdl_slice rest = reply->elements;
    struct cdl_redis_range range;
    if (!is_map(asked, reply))
        return false;
    for (uint32_t slot = 0; slot < CDL_REDIS_SLOTS; slot++)
        cdl_redis_own(client, slot, NULL);
    for (size_t i = 0; i < reply->count; i++) {
        if (cdl_redis_range_next(&rest, &asked->place, &range) <= 0)
            continue;
        struct cdl_redis_node *node = cdl_redis_node_at(client, &range.place, CDL_REDIS_SERVER);
        for (uint32_t slot = range.first; node != NULL && slot <= range.last; slot++)
            cdl_redis_own(client, slot, node);
    }
    return true;
}

static bool take_answer(struct cdl_redis_node *node, const struct cdl_resp *reply, enum cdl_store_event *event)
{
    struct cdl_redis_client *client = node->client;
    const bool sentinel = client->owners == NULL;
    if (reply->kind == CDL_RESP_ARRAY && (sentinel ? take_primary(client, reply) : take_slots(client, node, reply)))
        return true;
    if (reply->kind == CDL_RESP_ERROR)
        *event = cdl_store_event_of_error(reply->text);
    else
        *event = sentinel && reply->kind == CDL_RESP_NULL ? CDL_STORE_NO_PRIMARY : CDL_STORE_ANSWER;
    return false;
}

/* Who answers is asked first the next time. */
static void prefer(struct cdl_redis_client *client, const struct cdl_redis_node *node)
{
    uint8_t *order = client->finder.order;
    for (uint32_t i = 0; i < client->config->seed_count; i++) {
        const struct cdl_redis_place *seed = &client->config->seeds[order[i]];
        if (seed->port != node->place.port || strcmp(seed->host, node->place.host) != 0)
            continue;
        const uint8_t chosen = order[i];
        memmove(order + 1, order, i);
        order[0] = chosen;
        return;
    }
}

static void answered(struct cdl_redis_command *command, const struct cdl_resp *reply, bool sent)
{
    struct cdl_redis_node *node = (struct cdl_redis_node *)(void *)((char *)command -
                                                                    offsetof(struct cdl_redis_node, question.command));
    struct cdl_redis_client *client = node->client;
    enum cdl_store_event event = node->question.at->why;
    (void)sent;
    if (reply != NULL && take_answer(node, reply, &event)) {
        node->question.wanted = false;
        prefer(client, node);
        round_answered(client);
        return;
    }
    if (reply != NULL)
        cdl_redis_count(client, event);
    cdl_redis_finder_failed(node, event);
}

/* ---- asking ---- */

void cdl_redis_finder_failed(struct cdl_redis_node *node, enum cdl_store_event event)
{
    struct cdl_redis_client *client = node->client;
    node->question.wanted = false;
    node->question.at = NULL;
    client->finder.out--;
    client->finder.event = event;
    client->restless = true;
}

void cdl_redis_finder_ask(struct cdl_redis_node *node, struct cdl_redis_connection *connection)
{
    struct cdl_redis_client *client = node->client;
    const bool sentinel = client->owners == NULL;
    const struct cdl_slice words[] = {
        sentinel ? CDL_SLICE("SENTINEL") : CDL_SLICE("CLUSTER"),
        sentinel ? CDL_SLICE("GET-MASTER-ADDR-BY-NAME") : CDL_SLICE("SLOTS"),
        sentinel ? cdl_slice_of(client->config->primary) : CDL_SLICE(""),
    };
    node->question.command.replied = answered;
    if (!cdl_redis_session_send(connection->session, &node->question.command, words, sentinel ? 3 : 2)) {
        cdl_redis_finder_failed(node, CDL_STORE_OVERLOAD);
        return;
    }
    node->question.at = connection;
    cdl_redis_connection_touch(connection);
}

/* Any node of a cluster to which a connection stands, each as likely as the others. */
static struct cdl_redis_node *next_connected(struct cdl_redis_client *client)
{
    struct cdl_redis_node *chosen = NULL;
    int64_t others = 0;
    for (struct cdl_redis_node *node = client->nodes; node != NULL; node = node->next)
        if (node->round != client->finder.round && !node->away && cdl_redis_node_ready(node) != NULL &&
            cdl_redis_jitter(client, others++, 1) == 0)
            chosen = node;
    return chosen;
}

static struct cdl_redis_node *next_seed(struct cdl_redis_client *client)
{
    struct cdl_redis_finder *finder = &client->finder;
    const enum cdl_redis_role role = client->owners == NULL ? CDL_REDIS_SENTINEL_SERVER : CDL_REDIS_SERVER;
    while (finder->seed < client->config->seed_count) {
        const struct cdl_redis_place *seed = &client->config->seeds[finder->order[finder->seed++]];
        struct cdl_redis_node *node = cdl_redis_node_at(client, seed, role);
        if (node != NULL && node->round != finder->round)
            return node;
    }
    return NULL;
}

/* False: all have been asked. */
static bool ask_next(struct cdl_redis_client *client)
{
    struct cdl_redis_finder *finder = &client->finder;
    struct cdl_redis_node *node = client->owners != NULL ? next_connected(client) : NULL;
    if (node == NULL)
        node = next_seed(client);
    if (node == NULL)
        return false;
    node->round = finder->round;
    node->wanted = true;
    node->used_ns = client->now_ns;
    node->question = (struct cdl_redis_question){.wanted = true};
    finder->out++;
    finder->next_ns = client->now_ns + PATIENCE_NS;
    finder->give_up_ns = client->now_ns + client->config->connect_timeout_ns;
    client->restless = true;
    return true;
}

static void begin_round(struct cdl_redis_client *client)
{
    struct cdl_redis_finder *finder = &client->finder;
    finder->asking = true;
    finder->wanted = false;
    finder->round++;
    finder->seed = 0;
    finder->out = 0;
    finder->event = CDL_STORE_TIMEOUT;
    const uint32_t doublings = finder->doubts < DISTANCE_DOUBLINGS_MAX ? finder->doubts : DISTANCE_DOUBLINGS_MAX;
    const int64_t distance = DISTANCE_NS << doublings;
    finder->not_before_ns = client->now_ns + cdl_redis_jitter(client, distance + distance / 2, 3);
    if (is_in_doubt(client))
        finder->doubts++;
}

void cdl_redis_finder_turn(struct cdl_redis_client *client)
{
    struct cdl_redis_finder *finder = &client->finder;
    if (client->config->kind == CDL_REDIS_SINGLE)
        return;
    if (!finder->asking) {
        if (!is_in_doubt(client))
            finder->doubts = 0;
        if (!finder->wanted && !is_in_doubt(client))
            return;
        if (client->now_ns < finder->not_before_ns) {
            cdl_redis_arm(client, finder->not_before_ns);
            return;
        }
        begin_round(client);
    }
    bool more = true;
    while (more && (finder->out == 0 || client->now_ns >= finder->next_ns))
        more = ask_next(client);
    if (finder->out == 0 || (!more && client->now_ns >= finder->give_up_ns))
        round_failed(client);
    else
        cdl_redis_arm(client, client->now_ns < finder->next_ns ? finder->next_ns : finder->give_up_ns);
}
