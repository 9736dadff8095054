/* Any bytes as a client that speaks gRPC over HTTP/2.
 *
 * The first byte says how the rest is cut into reads, and whether a good beginning of a connection stands before it. Each read sits in memory of
 * exactly its size. Whatever is read, the connection keeps its bounds, says nothing but whole frames, and hands over the same calls as in
 * one read. Where nothing is said until all is read, it ends as in one read, too.
 */
#include <stdlib.h>
#include <string.h>

#include <nghttp2/nghttp2.h>

#include "wire/grpc.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Not assert: a fuzz target must not lose its checks in a release build. */
static void require(bool condition)
{
    if (!condition)
        abort();
}

#define BEGINNING NGHTTP2_CLIENT_MAGIC "\0\0\0\4\0\0\0\0\0"
#define HELD_MAX 1024u
#define MESSAGE_MAX 256u

enum {
    ECHO,
    LATER,
    WATCH,
};

static const struct cdl_slice methods[] = {{"/t.T/Echo", 9}, {"/t.T/Later", 10}, {"/t.T/Watch", 10}};

/* A connection, and what came of it. */
struct outcome {
    struct cdl_grpc *grpc;
    struct cdl_grpc_call *held[HELD_MAX];
    size_t held_count, calls;
    uint64_t sum; /* of what was handed over */
    bool over;
};

static void called(void *context, struct cdl_grpc_call *call)
{
    struct outcome *outcome = context;
    const struct cdl_slice message = cdl_grpc_message(call);
    char copy[MESSAGE_MAX];
    require(cdl_grpc_method(call) < sizeof methods / sizeof methods[0] && message.length <= MESSAGE_MAX);
    require(cdl_grpc_timeout_ns(call) > 0 && cdl_grpc_deadline_ns(call) >= cdl_grpc_timeout_ns(call));
    outcome->calls++;
    outcome->sum = outcome->sum * 31 + cdl_grpc_method(call);
    for (size_t i = 0; i < message.length; i++)
        outcome->sum = outcome->sum * 31 + (unsigned char)message.bytes[i];
    if (message.length > 0)
        memcpy(copy, message.bytes, message.length);
    if (cdl_grpc_method(call) == ECHO) {
        cdl_grpc_answer(call, (struct cdl_slice){copy, message.length});
    } else if (cdl_grpc_method(call) == WATCH) {
        cdl_grpc_stream(call, (struct cdl_slice){copy, message.length});
    } else {
        require(outcome->held_count < HELD_MAX);
        outcome->held[outcome->held_count++] = call;
    }
}

static void cancelled(void *context, struct cdl_grpc_call *call)
{
    struct outcome *outcome = context;
    bool found = cdl_grpc_method(call) == WATCH;
    for (size_t i = 0; i < outcome->held_count; i++)
        if (outcome->held[i] == call) {
            outcome->held[i] = outcome->held[--outcome->held_count];
            found = true;
        }
    require(found);
}

static const struct cdl_grpc_service service = {methods, sizeof methods / sizeof methods[0], MESSAGE_MAX, called,
                                                cancelled};

/* What is said is whole frames. */
static void hear(struct cdl_slice bytes)
{
    while (bytes.length > 0) {
        const unsigned char *at = (const unsigned char *)bytes.bytes;
        require(bytes.length >= 9);
        const size_t length = (size_t)at[0] << 16 | (size_t)at[1] << 8 | at[2];
        require(length <= 16384 && bytes.length >= 9 + length);
        bytes = cdl_slice_from(bytes, 9 + length);
    }
}

static void say(struct outcome *outcome)
{
    static char room[CDL_GRPC_BYTES_MAX + 256 * 1024];
    struct cdl_writer output = cdl_writer_on(room, sizeof room);
    cdl_grpc_send(outcome->grpc, &output);
    require(!output.overflow);
    hear(cdl_written(&output));
    outcome->over = cdl_grpc_is_over(outcome->grpc);
}

static void give(struct outcome *outcome, struct cdl_slice bytes)
{
    char *copy = malloc(bytes.length + 1);
    require(copy != NULL);
    if (bytes.length > 0)
        memcpy(copy, bytes.bytes, bytes.length);
    cdl_grpc_receive(outcome->grpc, (struct cdl_slice){copy, bytes.length}, 1000000000);
    free(copy);
}

/* The whole, in steps of so many bytes; 0: at once. Says what there is to say behind each step, or at the end. */
static void feed(struct outcome *outcome, struct cdl_slice bytes, size_t step, bool says_at_once)
{
    memset(outcome, 0, sizeof *outcome);
    outcome->grpc = cdl_grpc_open(&service, INT64_C(10000000000), outcome);
    require(outcome->grpc != NULL);
    while (bytes.length > 0 && !outcome->over) {
        const size_t part = step == 0 || step > bytes.length ? bytes.length : step;
        give(outcome, cdl_slice_head(bytes, part));
        bytes = cdl_slice_from(bytes, part);
        if (says_at_once || bytes.length == 0)
            say(outcome);
    }
}

/* Answers what waits, one way or the other, and ends. */
static void end(struct outcome *outcome)
{
    for (size_t i = 0; i < outcome->held_count; i++)
        if (i % 2 == 0)
            cdl_grpc_answer(outcome->held[i], CDL_SLICE("answer"));
        else
            cdl_grpc_fail(outcome->held[i], CDL_GRPC_UNAVAILABLE, CDL_SLICE("100 %\n"));
    outcome->held_count = 0;
    require(!cdl_grpc_owes(outcome->grpc));
    cdl_grpc_drain(outcome->grpc);
    cdl_grpc_finish(outcome->grpc);
    say(outcome);
    cdl_grpc_close(outcome->grpc);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct outcome whole, cut, quiet;
    if (size < 1 || size > 65536)
        return 0;
    const size_t before = (data[0] & 128) != 0 ? 0 : sizeof BEGINNING - 1, length = before + size - 1;
    char *bytes = malloc(length + 1);
    require(bytes != NULL);
    memcpy(bytes, BEGINNING, before);
    memcpy(bytes + before, data + 1, size - 1);
    const size_t step = 1 + data[0] % 64;
    feed(&whole, (struct cdl_slice){bytes, length}, 0, true);
    feed(&cut, (struct cdl_slice){bytes, length}, step, true);
    feed(&quiet, (struct cdl_slice){bytes, length}, step, false);
    require(whole.over == quiet.over && whole.calls == quiet.calls && whole.sum == quiet.sum);
    /* What waits to be sent while all is read at once may be too much. */
    if (!whole.over && !cut.over)
        require(whole.calls == cut.calls && whole.sum == cut.sum);
    end(&whole);
    end(&cut);
    end(&quiet);
    free(bytes);
    return 0;
}
