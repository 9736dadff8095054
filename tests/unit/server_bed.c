#include "server_bed.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/memory.h"
#include "server/exchange.h"

struct bed bed;

static void open_worker(void)
{
    static const struct cdl_connection_bounds bounds = {
        .connections_max = 100, .message_timeout_ms = 60000, .write_timeout_ms = 60000, .idle_timeout_ms = 60000};
    struct cdl_worker *worker = &bed.worker;
    worker->server = &bed.server;
    worker->counters = cdl_counters_worker(bed.server.counters, 0);
    worker->latency = aligned_alloc(CDL_CACHE_LINE, sizeof *worker->latency);
    worker->top_keys = cdl_top_keys_open(CDL_TOP_KEYS, 1, cdl_allocator_default());
    worker->asker.scratch = malloc(CDL_MATCH_SCRATCH_BYTES);
    worker->body = malloc(CDL_BODY_BYTES);
    worker->messages = (struct cdl_message_memory){.bytes = malloc(CDL_RLS_MEMORY_BYTES), .size = CDL_RLS_MEMORY_BYTES};
    assert_true(worker->latency != NULL && worker->top_keys != NULL && worker->asker.scratch != NULL &&
                worker->body != NULL && worker->messages.bytes != NULL && cdl_loop_open(&worker->loop, &bounds));
    memset(worker->latency, 0, sizeof *worker->latency);
    assert_true(
        cdl_store_loop_open(&worker->store_loop, bed.server.store, CDL_SLICE("redis://h:1"), &worker->loop.uv, NULL));
    worker->asker.client = worker->store_loop.client;
}

static void listen_on_loopback(const struct cdl_protocol *protocol)
{
    struct cdl_endpoint endpoint;
    struct cdl_listening socket;
    const char *why;
    assert_true(cdl_endpoint_parse(CDL_SLICE("127.0.0.1:0"), &endpoint, &why));
    assert_int_equal(cdl_listen(&endpoint, &socket, 1, NULL), CAUDAL_OK);
    bed.port = (uint16_t)atoi(strrchr(socket.text, ':') + 1);
    assert_int_equal(
        cdl_listener_open(&bed.worker.listeners[0], &bed.worker.loop, socket.fd, protocol, NULL, &bed.worker), 0);
    bed.worker.listeners[0].is_local = socket.is_local;
}

void bed_open(const struct cdl_protocol *protocol)
{
    static const struct cdl_counters_options counters = {.workers = 1, .limits = 64, .events = CDL_EVENTS};
    static const struct cdl_hits_options hits = {.workers = 1, .groups = 64};
    memset(&bed, 0, sizeof bed);
    world_open(&bed.world, "memory:?keys=10000");
    later_open(&bed.store, &bed.world);
    bed.server.clock = caudal_fake_clock_clock(bed.world.clock);
    bed.server.store = &bed.store.head;
    bed.server.limiter = cdl_limiter_open(bed.server.store);
    bed.server.counters = cdl_counters_open(&counters, cdl_allocator_default());
    bed.server.hits = cdl_hits_open(&hits, cdl_allocator_default());
    bed.server.admin.server = &bed.server;
    bed.server.http_limits = (struct cdl_http1_limits){4096, 8192, CDL_HTTP1_FIELDS_MAX, 65536};
    assert_true(bed.server.limiter != NULL && bed.server.counters != NULL && bed.server.hits != NULL);
    open_worker();
    listen_on_loopback(protocol);
}

void bed_close(void)
{
    bed.worker.asker.closed = true;
    cdl_store_loop_close(&bed.worker.store_loop);
    assert_int_equal(bed.store.clients, 0);
    cdl_loop_finish(&bed.worker.loop);
    cdl_loop_run(&bed.worker.loop);
    assert_int_equal(atomic_load(&bed.worker.loop.open), 0);
    assert_int_equal(bed.worker.asker.waiting, 0);
    cdl_loop_close(&bed.worker.loop);
    cdl_limiter_release(bed.worker.live);
    cdl_limiter_release(bed.server.admin.live);
    cdl_limiter_close(bed.server.limiter);
    cdl_top_keys_close(bed.worker.top_keys);
    free(bed.worker.latency);
    free(bed.worker.asker.scratch);
    free(bed.worker.body);
    free(bed.worker.messages.bytes);
    cdl_counters_close(bed.server.counters);
    cdl_hits_close(bed.server.hits);
    later_close(&bed.store);
    world_close(&bed.world);
}

void bed_answer_at_once(void)
{
    bed.worker.asker.client = NULL;
}

void bed_apply(const char *text)
{
    static struct cdl_report report; /* large */
    struct caudal_problem problem;
    struct cdl_policy *policy = cdl_policy_load_text("p", cdl_slice_of(text), NULL, &report);
    if (policy == NULL)
        fail_msg("%s\nin:\n%s", report.findings[0].text, text);
    if (cdl_server_apply(&bed.server, policy, &problem) != CAUDAL_OK)
        fail_msg("%s", problem.message);
    cdl_limiter_release(bed.worker.live);
    bed.worker.live = cdl_limiter_acquire(bed.server.limiter);
}

/* ---- turns ---- */

void bed_turn(void)
{
    cdl_loop_turn(&bed.worker.loop, false);
}

void bed_turn_a_while(void)
{
    for (int i = 0; i < 50; i++)
        bed_turn();
}

void bed_until_asked(size_t count)
{
    for (unsigned i = 0; i < BED_PATIENCE && bed.store.count < count; i++)
        bed_turn();
    assert_int_equal(bed.store.count, count);
}

/* ---- clients ---- */

int bed_connect(void)
{
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(bed.port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
    return fd;
}

void bed_reset(int fd)
{
    const struct linger now = {1, 0};
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    close(fd);
}

void bed_say(int fd, struct cdl_slice bytes)
{
    for (unsigned i = 0; i < BED_PATIENCE && bytes.length > 0; i++) {
        const ssize_t sent = send(fd, bytes.bytes, bytes.length, MSG_NOSIGNAL);
        assert_true(sent > 0 || errno == EAGAIN);
        bytes = cdl_slice_from(bytes, sent > 0 ? (size_t)sent : 0);
        if (bytes.length > 0)
            bed_turn();
    }
    assert_int_equal(bytes.length, 0);
}

void bed_assert_silent(int fd)
{
    char byte;
    bed_turn_a_while();
    assert_int_equal(recv(fd, &byte, 1, 0), -1);
    assert_int_equal(errno, EAGAIN);
}

uint64_t bed_counted(enum cdl_counted outcome, enum caudal_source source)
{
    return cdl_counters_sum(bed.server.counters, CDL_COUNTERS_REQUESTS, outcome, source);
}
