/* Asking what checkup.c judges: each server by itself, through a client that knows no other.
 *
 * Nodes of a cluster and sentinels are asked as if each were a server alone: a config that is the store's but for its kind and its
 * place. It borrows the texts of the store's, and is never freed. */
#include <stdio.h>

#include "caudal/clock.h"
#include "store/redis/blocking.h"
#include "store/redis/checkup.h"
#include "store/redis/redis_store.h"
#include "store/url.h"

#define NS_PER_S INT64_C(1000000000)
#define ANSWER_NS NS_PER_S /* beside connecting */
#define TEXT_MAX 65536u
#define WORDS_MAX 4u

static int64_t monotonic_now(void)
{
    const struct caudal_clock *clock = caudal_clock_system();
    return clock->monotonic_ns(clock->context);
}

static int64_t realtime_now(void)
{
    const struct caudal_clock *clock = caudal_clock_system();
    return clock->realtime_ns(clock->context);
}

/* ---- one question ---- */

/* The answer is a text: of an array or a map, each element on a line of its own, and an empty line for one that has elements itself. */
struct question {
    struct cdl_redis_call call; /* first, so that a call is its question */
    enum cdl_store_event event;
    bool answered, is_error;
    struct cdl_writer answer;
};

static void write_value(struct cdl_writer *writer, const struct cdl_resp *value)
{
    if (value->kind == CDL_RESP_INTEGER || value->kind == CDL_RESP_BOOLEAN)
        cdl_write_i64(writer, value->integer);
    else if (value->kind < CDL_RESP_NULL)
        cdl_write(writer, cdl_slice_head(value->text, value->text.length < writer->size - writer->length
                                                          ? value->text.length
                                                          : writer->size - writer->length));
}

static void write_elements(struct cdl_writer *writer, const struct cdl_resp *reply)
{
    struct cdl_slice rest = reply->elements;
    struct cdl_resp element;
    while (cdl_resp_next(&rest, &element)) {
        write_value(writer, &element);
        cdl_write_text(writer, "\n");
    }
}

static void on_answer(struct cdl_redis_call *call, const struct cdl_resp *reply, enum cdl_store_event event)
{
    struct question *question = (struct question *)call;
    question->event = event;
    question->answered = reply != NULL;
    if (reply == NULL)
        return;
    question->is_error = reply->kind == CDL_RESP_ERROR;
    if (reply->kind == CDL_RESP_ARRAY || reply->kind == CDL_RESP_MAP)
        write_elements(&question->answer, reply);
    else
        write_value(&question->answer, reply);
}

/* ---- one server ---- */

/* A server, or whoever answers for the store, and the last answer. */
struct server {
    const char *place; /* for people */
    const struct cdl_redis_config *config;
    struct cdl_redis_blocking *blocking;
    struct question question;
};

/* True: there is an answer, which is no error. Words are a command and what follows it. */
static bool ask(struct server *server, const char *command, const char *operand, const char *name)
{
    static char text[TEXT_MAX]; /* the command asks one question at a time */
    struct cdl_slice words[WORDS_MAX];
    size_t count = 0;
    for (size_t i = 0; i < 3; i++) {
        const char *const given[] = {command, operand, name};
        if (given[i] != NULL)
            words[count++] = cdl_slice_of(given[i]);
    }
    server->question = (struct question){
        .call = {.words = words,
                 .word_count = count,
                 .deadline_ns = monotonic_now() + server->config->connect_timeout_ns + ANSWER_NS,
                 .done = on_answer},
        .answer = cdl_writer_on(text, sizeof text),
    };
    struct cdl_redis_call *const calls[] = {&server->question.call};
    cdl_redis_blocking_run(server->blocking, calls, 1);
    return server->question.answered && !server->question.is_error;
}

static struct cdl_slice answer(const struct server *server)
{
    return cdl_written(&server->question.answer);
}

static void report_unanswered(struct cdl_checkup *checkup, const struct server *server, const char *subject)
{
    cdl_checkup_unanswered(checkup, server->place, subject, server->question.event, answer(server));
}

/* The whole number on a line of the answer, counted from 0; -1: there is none. */
static int64_t number_on_line(struct cdl_slice text, size_t line)
{
    for (; text.length > 0; line--) {
        const char *end = memchr(text.bytes, '\n', text.length);
        const size_t length = end == NULL ? text.length : (size_t)(end - text.bytes);
        uint64_t number;
        if (line == 0)
            return cdl_url_read_number(cdl_slice_head(text, length), &number) && number <= INT64_MAX ? (int64_t)number
                                                                                                     : -1;
        text = cdl_slice_from(text, length + (end != NULL));
    }
    return -1;
}

static void look_at_clock(struct cdl_checkup *checkup, struct server *server)
{
    const int64_t before_ns = realtime_now();
    const bool answered = ask(server, "TIME", NULL, NULL);
    const int64_t after_ns = realtime_now();
    if (!answered) {
        report_unanswered(checkup, server, "clock");
        return;
    }
    const int64_t seconds = number_on_line(answer(server), 0), micros = number_on_line(answer(server), 1);
    const bool good = seconds >= 0 && seconds < INT64_MAX / 1000000 - 1 && micros >= 0 && micros < 1000000;
    cdl_checkup_clock(checkup, server->place, good ? seconds * 1000000 + micros : -1, before_ns, after_ns);
}

static void look_at_server(struct cdl_checkup *checkup, struct server *server, enum cdl_redis_kind kind)
{
    if (!ask(server, "INFO", NULL, NULL)) {
        report_unanswered(checkup, server, "server");
        if (!server->question.answered)
            return; /* nor would it answer anything else */
    } else {
        cdl_checkup_info(checkup, server->place, answer(server), kind);
    }
    look_at_clock(checkup, server);
}

/* ---- all servers ---- */

/* What it takes to open clients. */
struct round {
    struct cdl_checkup *checkup;
    const struct cdl_redis_config *config;
    struct cdl_redis_tls *tls;
    struct cdl_store_events events;
    bool any; /* has answered */
};

/* Opens a client, has `look` look through it, and closes it. */
static void visit(struct round *round, const struct cdl_redis_config *config, const char *place,
                  void (*look)(struct round *round, struct server *server))
{
    const struct cdl_redis_shared shared = {
        .config = config,
        .tls = round->tls,
        .events = &round->events,
        .allocator = &config->allocator,
    };
    struct server server = {.place = place, .config = config, .blocking = cdl_redis_blocking_open(&shared)};
    if (server.blocking == NULL) {
        cdl_checkup_unanswered(round->checkup, place, "connection", CDL_STORE_NONE,
                               CDL_SLICE("no memory for a client"));
        return;
    }
    look(round, &server);
    cdl_redis_blocking_close(server.blocking);
}

static const char *place_text(const struct cdl_redis_place *place, char text[264])
{
    if (place->port == 0)
        snprintf(text, 264, "%s", place->host);
    else
        snprintf(text, 264, strchr(place->host, ':') != NULL ? "[%s]:%u" : "%s:%u", place->host, place->port);
    return text;
}

static void visit_alone(struct round *round, const struct cdl_redis_place *place, bool is_sentinel,
                        void (*look)(struct round *round, struct server *server))
{
    struct cdl_redis_config config = *round->config;
    char text[264];
    config.kind = CDL_REDIS_SINGLE;
    config.seeds[0] = *place;
    config.seed_count = 1;
    if (is_sentinel) {
        config.user = config.sentinel_user;
        config.password = config.sentinel_password;
        config.database = 0;
    }
    visit(round, &config, place_text(place, text), look);
}

static void look_at_one(struct round *round, struct server *server)
{
    look_at_server(round->checkup, server, round->config->kind);
    round->any = round->any || server->question.answered;
}

static void look_at_sentinel(struct round *round, struct server *server)
{
    ask(server, "SENTINEL", "CKQUORUM", round->config->primary);
    if (server->question.answered)
        cdl_checkup_quorum(round->checkup, server->place, answer(server), server->question.is_error);
    else
        report_unanswered(round->checkup, server, "sentinel");
    round->any = round->any || server->question.answered;
}

/* Through any node: the state of the whole, and then each primary by itself. */
static void look_at_cluster(struct round *round, struct server *server)
{
    static char nodes[TEXT_MAX];
    if (ask(server, "CLUSTER", "INFO", NULL))
        cdl_checkup_cluster(round->checkup, "", answer(server));
    else
        report_unanswered(round->checkup, server, "cluster");
    round->any = server->question.answered;
    if (!round->any || !ask(server, "CLUSTER", "NODES", NULL))
        return;
    struct cdl_slice rest = {nodes, answer(server).length};
    memcpy(nodes, answer(server).bytes, rest.length);
    struct cdl_redis_place place;
    for (unsigned i = 0; i < CDL_CHECKUP_NODES_MAX && cdl_checkup_next_primary(&rest, &place); i++)
        visit_alone(round, &place, false, look_at_one);
}

bool cdl_checkup_servers(struct cdl_checkup *checkup, const struct cdl_redis_config *config, struct cdl_redis_tls *tls)
{
    struct round round = {.checkup = checkup, .config = config, .tls = tls};
    char text[264];
    switch (config->kind) {
    case CDL_REDIS_SINGLE:
        visit(&round, config, place_text(&config->seeds[0], text), look_at_one);
        break;
    case CDL_REDIS_SENTINEL:
        for (uint32_t i = 0; i < config->seed_count; i++)
            visit_alone(&round, &config->seeds[i], true, look_at_sentinel);
        visit(&round, config, "the primary", look_at_one);
        break;
    case CDL_REDIS_CLUSTER:
        visit(&round, config, "", look_at_cluster);
        break;
    }
    return round.any;
}

/* ---- the script ---- */

/* A bucket that is full again a thousandth of a second after any take, were it not forgotten at once. */
static const struct caudal_limit probe = {sizeof probe, CAUDAL_TOKEN_BUCKET, 1000, (uint64_t)NS_PER_S,
                                          CAUDAL_BURST_DEFAULT};

void cdl_checkup_takes(struct cdl_checkup *checkup, struct caudal_store *store, int64_t deadline_ns)
{
    int64_t times_ns[CDL_CHECKUP_TAKES];
    uint32_t limit;
    struct caudal_problem problem;
    int status = caudal_add_limit(store, "caudal-doctor", &probe, &limit, &problem);
    for (size_t i = 0; i < CDL_CHECKUP_TAKES && status == CAUDAL_OK; i++) {
        char key[32];
        const size_t length = (size_t)snprintf(key, sizeof key, "probe %zu", i);
        struct caudal_decision decision;
        const int64_t before_ns = monotonic_now();
        status = caudal_take(store, limit, key, length, 1, &decision);
        times_ns[i] = monotonic_now() - before_ns;
        if (status == CAUDAL_OK)
            status = caudal_reset(store, limit, key, length);
    }
    if (status == CAUDAL_OK)
        cdl_checkup_script(checkup, times_ns, CDL_CHECKUP_TAKES, deadline_ns);
    else if (status == CAUDAL_ERR_STORE)
        cdl_checkup_unanswered(checkup, "", "script", cdl_redis_last_failure(), (struct cdl_slice){"", 0});
    else
        cdl_checkup_unanswered(checkup, "", "script", CDL_STORE_NONE, cdl_slice_of(caudal_status_text(status)));
}
