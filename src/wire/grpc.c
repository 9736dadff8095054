/* Calls are born with their HEADERS and die with their stream. In between each is in one phase, and stands in the list of that phase, the one
 * that entered it first in front.
 *
 * When a client has gone too far, or nghttp2 gives a session up, the session is not touched any more: `broken` says why, and the last
 * word, a GOAWAY, is written by hand. Frames leave a session whole, so it stands where a frame may stand. */
#include "wire/grpc.h"

#include <nghttp2/nghttp2.h>
#include <stdlib.h>

#define NS_PER_S INT64_C(1000000000)
#define PREFIX_BYTES 5u /* a flag, and the length of the message */
#define HEAD_BYTES 9u   /* of a frame */
#define SPARE_MAX 64u
#define ROOM_BYTES 512u    /* of a message that lies in its call */
#define WHY_MAX 512u       /* of a reason, before it is escaped */
#define FRAME_BYTES 32768u /* more than the longest frame that is sent */
#define FIELD_BYTES 32u    /* that each field of a header counts beside its name and value (RFC 9113, 6.5.2) */
#define TINY_DATA 64u
#define WASTE_PER_FRAME 64u  /* bytes of headers that mean nothing, which cost as much as a frame */
#define LATE_PER_FRAME 1024u /* bytes of a message that nobody reads any more */

enum phase {
    PHASE_READING,
    PHASE_GIVEN,    /* to who answers it */
    PHASE_STREAMED, /* the same, and some is answered */
    PHASE_ANSWERED,
    PHASES,
};

struct cdl_grpc_call {
    struct cdl_grpc *grpc;
    struct cdl_grpc_call *next, *previous; /* in the same phase; `next` among the spare ones, too */
    int32_t stream;
    enum phase phase;
    bool is_post, is_grpc, is_encoded, has_bad_timeout; /* what its headers say */
    bool is_ended;                                      /* the client has said all */
    bool is_trailing;                                   /* streamed to, and to be ended */
    size_t method;                                      /* method_count: none of ours */
    int64_t began_ns, timeout_ns;
    void *data;
    uint32_t header_bytes;
    unsigned char prefix[PREFIX_BYTES];
    uint32_t prefix_length;
    size_t wanted; /* the length that the prefix tells */
    /* The request's message, and then what is sent: up to `length`, of which `at` have been. */
    char *bytes; /* `room`, or from take() */
    size_t size, length, at;
    char room[ROOM_BYTES];
};

struct list {
    struct cdl_grpc_call *first, *last;
};

struct cdl_grpc {
    nghttp2_session *session;
    const struct cdl_grpc_service *service;
    int64_t message_timeout_ns;
    void *context;
    struct list phases[PHASES];
    struct cdl_grpc_call *spare;
    uint32_t spare_count, call_count;
    size_t bytes; /* that are held */
    int64_t now_ns;
    uint32_t purse; /* frames that may still be a nuisance */
    int64_t purse_ns;
    unsigned char head[HEAD_BYTES]; /* of the next frame, as far as it is there */
    uint32_t head_length;
    size_t frame_left;      /* bytes of a frame that are still to come behind its head */
    uint32_t continuations; /* of the headers at hand */
    size_t block_bytes;     /* that they came in */
    size_t decoded_bytes;   /* that they mean */
    int32_t last_stream;    /* of the newest call */
    uint32_t broken;        /* an error of HTTP/2; 0: not */
    bool said_goaway;       /* after that */
};

/* ---- memory ---- */

/* Stands before each piece that a connection holds. */
union head {
    size_t bytes;
    max_align_t alignment;
};

static void *take(size_t bytes, void *context)
{
    struct cdl_grpc *grpc = context;
    if (bytes > CDL_GRPC_BYTES_MAX || grpc->bytes + bytes > CDL_GRPC_BYTES_MAX)
        return NULL;
    union head *head = malloc(sizeof *head + bytes);
    if (head == NULL)
        return NULL;
    head->bytes = bytes;
    grpc->bytes += bytes;
    return head + 1;
}

static void give(void *piece, void *context)
{
    struct cdl_grpc *grpc = context;
    if (piece == NULL)
        return;
    union head *head = (union head *)piece - 1;
    grpc->bytes -= head->bytes;
    free(head);
}

static void *take_zeroed(size_t count, size_t size, void *context)
{
    if (count > CDL_GRPC_BYTES_MAX || size > CDL_GRPC_BYTES_MAX)
        return NULL;
    void *piece = take(count * size, context);
    if (piece != NULL)
        memset(piece, 0, count * size);
    return piece;
}

static void *take_again(void *piece, size_t bytes, void *context)
{
    if (piece == NULL)
        return take(bytes, context);
    const size_t old = ((union head *)piece - 1)->bytes;
    void *other = take(bytes, context);
    if (other == NULL)
        return NULL;
    memcpy(other, piece, old < bytes ? old : bytes);
    give(piece, context);
    return other;
}

/* ---- calls ---- */

static void append_to(struct list *list, struct cdl_grpc_call *call)
{
    call->next = NULL;
    call->previous = list->last;
    if (list->last != NULL)
        list->last->next = call;
    else
        list->first = call;
    list->last = call;
}

static void remove_from(struct list *list, struct cdl_grpc_call *call)
{
    if (call->previous != NULL)
        call->previous->next = call->next;
    else
        list->first = call->next;
    if (call->next != NULL)
        call->next->previous = call->previous;
    else
        list->last = call->previous;
}

static void enter_phase(struct cdl_grpc_call *call, enum phase phase)
{
    remove_from(&call->grpc->phases[call->phase], call);
    append_to(&call->grpc->phases[phase], call);
    call->phase = phase;
}

static struct cdl_grpc_call *new_call(struct cdl_grpc *grpc, int32_t stream)
{
    struct cdl_grpc_call *call = grpc->spare;
    if (call != NULL) {
        grpc->spare = call->next;
        grpc->spare_count--;
    } else if ((call = take(sizeof *call, grpc)) == NULL) {
        return NULL;
    }
    memset(call, 0, offsetof(struct cdl_grpc_call, room));
    call->grpc = grpc;
    call->stream = stream;
    call->method = grpc->service->method_count;
    call->began_ns = grpc->now_ns;
    call->timeout_ns = INT64_MAX;
    call->bytes = call->room;
    call->size = sizeof call->room;
    append_to(&grpc->phases[PHASE_READING], call);
    grpc->call_count++;
    return call;
}

static void drop_bytes(struct cdl_grpc_call *call)
{
    if (call->bytes != call->room)
        give(call->bytes, call->grpc);
    call->bytes = call->room;
    call->size = sizeof call->room;
    call->length = call->at = 0;
}

static void free_call(struct cdl_grpc_call *call)
{
    struct cdl_grpc *grpc = call->grpc;
    remove_from(&grpc->phases[call->phase], call);
    drop_bytes(call);
    grpc->call_count--;
    if (grpc->spare_count == SPARE_MAX) {
        give(call, grpc);
        return;
    }
    call->next = grpc->spare;
    grpc->spare = call;
    grpc->spare_count++;
}

/* Room for `more` bytes behind those that there are. */
static bool reserve(struct cdl_grpc_call *call, size_t more)
{
    size_t size = call->size;
    if (more <= size - call->length)
        return true;
    while (size - call->length < more)
        size *= 2;
    const bool in_room = call->bytes == call->room;
    char *bytes = take_again(in_room ? NULL : call->bytes, size, call->grpc);
    if (bytes == NULL)
        return false;
    if (in_room)
        memcpy(bytes, call->room, call->length);
    call->bytes = bytes;
    call->size = size;
    return true;
}

static void put(struct cdl_grpc_call *call, struct cdl_slice bytes)
{
    if (bytes.length > 0)
        memcpy(call->bytes + call->length, bytes.bytes, bytes.length);
    call->length += bytes.length;
}

/* ---- going too far ---- */

static int break_off(struct cdl_grpc *grpc, uint32_t error)
{
    if (grpc->broken == 0)
        grpc->broken = error;
    return NGHTTP2_ERR_CALLBACK_FAILURE;
}

/* For so many frames that only cost. */
static int pay(struct cdl_grpc *grpc, size_t frames)
{
    if (frames > grpc->purse)
        return break_off(grpc, NGHTTP2_ENHANCE_YOUR_CALM);
    grpc->purse -= (uint32_t)frames;
    return 0;
}

static void fill_purse(struct cdl_grpc *grpc, uint64_t frames)
{
    grpc->purse = frames >= CDL_GRPC_NUISANCE_MAX - grpc->purse ? CDL_GRPC_NUISANCE_MAX
                                                                : grpc->purse + (uint32_t)frames;
}

static void fill_purse_with_time(struct cdl_grpc *grpc)
{
    const int64_t step_ns = NS_PER_S / CDL_GRPC_NUISANCE_PER_SECOND;
    const int64_t steps = (grpc->now_ns - grpc->purse_ns) / step_ns;
    if (steps <= 0)
        return;
    fill_purse(grpc, (uint64_t)steps);
    grpc->purse_ns += steps * step_ns;
}

/* ---- answers ---- */

#define STATIC_FIELD(name, value)                                                                                      \
    {                                                                                                                  \
        (uint8_t *)(uintptr_t)(name), (uint8_t *)(uintptr_t)(value), sizeof(name) - 1, sizeof(value) - 1,              \
            NGHTTP2_NV_FLAG_NO_COPY_NAME | NGHTTP2_NV_FLAG_NO_COPY_VALUE                                               \
    }

static const nghttp2_nv ok_fields[] = {
    STATIC_FIELD(":status", "200"),
    STATIC_FIELD("content-type", "application/grpc"),
};
static const nghttp2_nv ok_trailers[] = {STATIC_FIELD("grpc-status", "0")};

static nghttp2_nv field_of(const char *name, struct cdl_slice value)
{
    return (nghttp2_nv){(uint8_t *)(uintptr_t)name, (uint8_t *)(uintptr_t)value.bytes, strlen(name), value.length,
                        NGHTTP2_NV_FLAG_NO_COPY_NAME};
}

/* A reason as gRPC wants it: printable ASCII, everything else and '%' as in a URI. */
static void escape(struct cdl_writer *writer, struct cdl_slice text)
{
    static const char digits[] = "0123456789ABCDEF";
    for (size_t i = 0; i < text.length; i++) {
        const unsigned char byte = (unsigned char)text.bytes[i];
        const char escaped[] = {'%', digits[byte >> 4], digits[byte & 15]};
        const bool plain = byte >= ' ' && byte <= '~' && byte != '%';
        cdl_write(writer, plain ? (struct cdl_slice){&text.bytes[i], 1} : (struct cdl_slice){escaped, sizeof escaped});
    }
}

/* The fields grpc-status and grpc-message, for as long as the memory of both. */
struct verdict {
    nghttp2_nv fields[2];
    char status[4];
    char why[3 * WHY_MAX];
};

static void lay_out_verdict(struct verdict *verdict, enum cdl_grpc_status status, struct cdl_slice why)
{
    struct cdl_writer number = cdl_writer_on(verdict->status, sizeof verdict->status);
    struct cdl_writer text = cdl_writer_on(verdict->why, sizeof verdict->why);
    cdl_write_u64(&number, (uint64_t)status);
    escape(&text, cdl_slice_head(why, why.length < WHY_MAX ? why.length : WHY_MAX));
    verdict->fields[0] = field_of("grpc-status", cdl_written(&number));
    verdict->fields[1] = field_of("grpc-message", cdl_written(&text));
}

static ssize_t read_answer(nghttp2_session *session, int32_t stream, uint8_t *buffer, size_t size, uint32_t *flags,
                           nghttp2_data_source *source, void *context)
{
    (void)context;
    struct cdl_grpc_call *call = source->ptr;
    const size_t left = call->length - call->at;
    const size_t step = left < size ? left : size;
    memcpy(buffer, call->bytes + call->at, step);
    call->at += step;
    if (call->at < call->length)
        return (ssize_t)step;
    if (call->phase == PHASE_STREAMED && !call->is_trailing)
        return step > 0 ? (ssize_t)step : NGHTTP2_ERR_DEFERRED;
    *flags |= NGHTTP2_DATA_FLAG_EOF | NGHTTP2_DATA_FLAG_NO_END_STREAM;
    struct verdict verdict;
    lay_out_verdict(&verdict, CDL_GRPC_UNAVAILABLE, CDL_SLICE("the server ends"));
    const int error = call->is_trailing ? nghttp2_submit_trailer(session, stream, verdict.fields, 2)
                                        : nghttp2_submit_trailer(session, stream, ok_trailers, 1);
    return error == 0 ? (ssize_t)step : NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
}

/* Puts a message behind what is to be sent. */
static bool put_message(struct cdl_grpc_call *call, struct cdl_slice message)
{
    const uint32_t length = (uint32_t)message.length;
    const char prefix[PREFIX_BYTES] = {0, (char)(length >> 24), (char)(length >> 16), (char)(length >> 8),
                                       (char)length};
    if (message.length > CDL_GRPC_BYTES_MAX || !reserve(call, PREFIX_BYTES + message.length))
        return false;
    put(call, (struct cdl_slice){prefix, sizeof prefix});
    put(call, message);
    return true;
}

/* What nghttp2 or the allocator could not do: the client is holding more than it may, or memory is short. */
static void require(struct cdl_grpc *grpc, bool done)
{
    if (!done)
        break_off(grpc, NGHTTP2_ENHANCE_YOUR_CALM);
}

static bool begin_answer(struct cdl_grpc_call *call)
{
    const nghttp2_data_provider body = {.source.ptr = call, .read_callback = read_answer};
    return nghttp2_submit_response(call->grpc->session, call->stream, ok_fields, 2, &body) == 0;
}

void cdl_grpc_answer(struct cdl_grpc_call *call, struct cdl_slice message)
{
    struct cdl_grpc *grpc = call->grpc;
    enter_phase(call, PHASE_ANSWERED);
    fill_purse(grpc, CDL_GRPC_NUISANCE_PER_CALL);
    if (grpc->broken != 0)
        return;
    call->length = call->at = 0;
    require(grpc, put_message(call, message) && begin_answer(call));
}

/* An answer without a message. */
static void answer_bare(struct cdl_grpc_call *call, const nghttp2_nv *fields, size_t count)
{
    struct cdl_grpc *grpc = call->grpc;
    enter_phase(call, PHASE_ANSWERED);
    drop_bytes(call);
    if (grpc->broken != 0)
        return;
    require(grpc, nghttp2_submit_response(grpc->session, call->stream, fields, count, NULL) == 0);
}

/* The end of an answer has been sent. A client that has not said all yet need not go on. */
static int on_sent(nghttp2_session *session, const nghttp2_frame *frame, void *context)
{
    struct cdl_grpc *grpc = context;
    if (frame->hd.type != NGHTTP2_HEADERS || (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) == 0)
        return 0;
    const struct cdl_grpc_call *call = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);
    if (call != NULL && !call->is_ended)
        require(grpc, nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, call->stream, NGHTTP2_NO_ERROR) == 0);
    return 0;
}

void cdl_grpc_fail(struct cdl_grpc_call *call, enum cdl_grpc_status status, struct cdl_slice why)
{
    struct verdict verdict;
    lay_out_verdict(&verdict, status, why);
    const nghttp2_nv fields[] = {ok_fields[0], ok_fields[1], verdict.fields[0], verdict.fields[1]};
    answer_bare(call, fields, 4);
}

void cdl_grpc_stream(struct cdl_grpc_call *call, struct cdl_slice message)
{
    struct cdl_grpc *grpc = call->grpc;
    const bool is_first = call->phase == PHASE_GIVEN;
    if (grpc->broken != 0)
        return;
    if (is_first || call->at == call->length)
        call->length = call->at = 0;
    bool done = put_message(call, message);
    if (is_first)
        enter_phase(call, PHASE_STREAMED);
    if (done && is_first)
        done = begin_answer(call);
    else if (done) /* it may be waiting for a window, and not for us */
        nghttp2_session_resume_data(grpc->session, call->stream);
    require(grpc, done);
}

struct cdl_grpc_call *cdl_grpc_next_streamed(const struct cdl_grpc *grpc, const struct cdl_grpc_call *call)
{
    return call != NULL ? call->next : grpc->phases[PHASE_STREAMED].first;
}

/* ---- what a call says of itself ---- */

size_t cdl_grpc_method(const struct cdl_grpc_call *call)
{
    return call->method;
}

struct cdl_slice cdl_grpc_message(const struct cdl_grpc_call *call)
{
    return (struct cdl_slice){call->bytes, call->length};
}

int64_t cdl_grpc_timeout_ns(const struct cdl_grpc_call *call)
{
    return call->timeout_ns;
}

int64_t cdl_grpc_deadline_ns(const struct cdl_grpc_call *call)
{
    return call->timeout_ns > INT64_MAX - call->began_ns ? INT64_MAX : call->began_ns + call->timeout_ns;
}

void cdl_grpc_set_data(struct cdl_grpc_call *call, void *data)
{
    call->data = data;
}

void *cdl_grpc_data(const struct cdl_grpc_call *call)
{
    return call->data;
}

/* ---- requests: headers ---- */

/* "application/grpc", of messages in protobuf or of a kind that is not told. */
static bool is_grpc_type(struct cdl_slice type)
{
    const struct cdl_slice name = CDL_SLICE("application/grpc"), proto = CDL_SLICE("+proto");
    if (type.length < name.length || !cdl_slice_equal_nocase(cdl_slice_head(type, name.length), name))
        return false;
    struct cdl_slice rest = cdl_slice_from(type, name.length);
    if (rest.length >= proto.length && cdl_slice_equal_nocase(cdl_slice_head(rest, proto.length), proto))
        rest = cdl_slice_from(rest, proto.length);
    return rest.length == 0 || rest.bytes[0] == ';' || rest.bytes[0] == ' ';
}

/* "20m": up to eight digits and a unit. False: it is none. */
static bool read_timeout(struct cdl_slice text, int64_t *timeout_ns)
{
    static const struct {
        char letter;
        int64_t ns;
    } units[] = {{'n', 1}, {'u', 1000}, {'m', 1000000}, {'S', NS_PER_S}, {'M', 60 * NS_PER_S}, {'H', 3600 * NS_PER_S}};
    int64_t number = 0;
    if (text.length < 2 || text.length > 9)
        return false;
    for (size_t i = 0; i < text.length - 1; i++) {
        if (text.bytes[i] < '0' || text.bytes[i] > '9')
            return false;
        number = 10 * number + (text.bytes[i] - '0');
    }
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++)
        if (units[i].letter == text.bytes[text.length - 1]) {
            *timeout_ns = number > INT64_MAX / units[i].ns ? INT64_MAX : number * units[i].ns;
            return true;
        }
    return false;
}

static size_t find_method(const struct cdl_grpc_service *service, struct cdl_slice path)
{
    size_t method = 0;
    while (method < service->method_count && !cdl_slice_equal(service->methods[method], path))
        method++;
    return method;
}

static void read_field(struct cdl_grpc_call *call, struct cdl_slice name, struct cdl_slice value)
{
    if (cdl_slice_equal(name, CDL_SLICE(":path")))
        call->method = find_method(call->grpc->service, value);
    else if (cdl_slice_equal(name, CDL_SLICE(":method")))
        call->is_post = cdl_slice_equal(value, CDL_SLICE("POST"));
    else if (cdl_slice_equal(name, CDL_SLICE("content-type")))
        call->is_grpc = is_grpc_type(value);
    else if (cdl_slice_equal(name, CDL_SLICE("grpc-encoding")))
        call->is_encoded = !cdl_slice_equal(value, CDL_SLICE("identity"));
    else if (cdl_slice_equal(name, CDL_SLICE("grpc-timeout")))
        call->has_bad_timeout = !read_timeout(value, &call->timeout_ns);
}

static struct cdl_grpc_call *call_of(nghttp2_session *session, int32_t stream)
{
    return nghttp2_session_get_stream_user_data(session, stream);
}

static int on_begin_headers(nghttp2_session *session, const nghttp2_frame *frame, void *context)
{
    struct cdl_grpc *grpc = context;
    if (frame->hd.type != NGHTTP2_HEADERS || frame->headers.cat != NGHTTP2_HCAT_REQUEST)
        return 0;
    struct cdl_grpc_call *call = new_call(grpc, frame->hd.stream_id);
    if (call == NULL)
        return break_off(grpc, NGHTTP2_ENHANCE_YOUR_CALM);
    grpc->last_stream = frame->hd.stream_id;
    nghttp2_session_set_stream_user_data(session, frame->hd.stream_id, call);
    return 0;
}

/* Trailers of a request mean nothing here, and cost as much. */
static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name, size_t name_length,
                     const uint8_t *value, size_t value_length, uint8_t flags, void *context)
{
    (void)flags;
    struct cdl_grpc *grpc = context;
    struct cdl_grpc_call *call = call_of(session, frame->hd.stream_id);
    const size_t bytes = name_length + value_length + FIELD_BYTES;
    grpc->decoded_bytes += bytes;
    if (call == NULL)
        return 0;
    call->header_bytes += (uint32_t)bytes;
    if (call->header_bytes > CDL_GRPC_HEADERS_BEARABLE)
        return break_off(grpc, NGHTTP2_ENHANCE_YOUR_CALM);
    if (frame->headers.cat == NGHTTP2_HCAT_REQUEST)
        read_field(call, (struct cdl_slice){(const char *)name, name_length},
                   (struct cdl_slice){(const char *)value, value_length});
    return 0;
}

/* Answers a request whose headers say that it cannot be served. */
static void judge_headers(struct cdl_grpc_call *call)
{
    const nghttp2_nv not_post[] = {STATIC_FIELD(":status", "405"), STATIC_FIELD("allow", "POST")};
    const nghttp2_nv not_grpc[] = {STATIC_FIELD(":status", "415")};
    const nghttp2_nv too_large[] = {STATIC_FIELD(":status", "431")};
    if (call->header_bytes > CDL_GRPC_HEADERS_MAX)
        answer_bare(call, too_large, 1);
    else if (!call->is_post)
        answer_bare(call, not_post, 2);
    else if (!call->is_grpc)
        answer_bare(call, not_grpc, 1);
    else if (call->method == call->grpc->service->method_count)
        cdl_grpc_fail(call, CDL_GRPC_UNIMPLEMENTED, CDL_SLICE("there is no such method"));
    else if (call->is_encoded)
        cdl_grpc_fail(call, CDL_GRPC_UNIMPLEMENTED, CDL_SLICE("grpc-encoding: messages are not compressed here"));
    else if (call->has_bad_timeout)
        cdl_grpc_fail(call, CDL_GRPC_INVALID_ARGUMENT, CDL_SLICE("grpc-timeout: no time, as 20m is one"));
}

/* ---- requests: messages ---- */

static void fail_too_long(struct cdl_grpc_call *call)
{
    char text[128];
    struct cdl_writer why = cdl_writer_on(text, sizeof text);
    cdl_writef(&why, "the message is %zu bytes long, which is more than %zu", call->wanted,
               call->grpc->service->message_max);
    cdl_grpc_fail(call, CDL_GRPC_INVALID_ARGUMENT, cdl_written(&why));
}

/* The five bytes before a message are there. */
static void judge_prefix(struct cdl_grpc_call *call)
{
    const unsigned char *prefix = call->prefix;
    const uint32_t length = (uint32_t)prefix[1] << 24 | (uint32_t)prefix[2] << 16 | (uint32_t)prefix[3] << 8 |
                            prefix[4];
    call->wanted = length;
    if (prefix[0] != 0)
        cdl_grpc_fail(call, CDL_GRPC_UNIMPLEMENTED, CDL_SLICE("a message is compressed, which is not understood here"));
    else if (length > call->grpc->service->message_max)
        fail_too_long(call);
}

/* Takes a part of what a client sends as its only message, its prefix first. */
static int take_in(struct cdl_grpc_call *call, struct cdl_slice data)
{
    while (data.length > 0 && call->prefix_length < PREFIX_BYTES) {
        call->prefix[call->prefix_length++] = (unsigned char)data.bytes[0];
        data = cdl_slice_from(data, 1);
        if (call->prefix_length == PREFIX_BYTES)
            judge_prefix(call);
        if (call->phase != PHASE_READING)
            return 0;
    }
    if (data.length > call->wanted - call->length) {
        cdl_grpc_fail(call, CDL_GRPC_INVALID_ARGUMENT, CDL_SLICE("there is more than one message"));
        return 0;
    }
    if (!reserve(call, data.length))
        return break_off(call->grpc, NGHTTP2_ENHANCE_YOUR_CALM);
    put(call, data);
    return 0;
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t stream, const uint8_t *data, size_t length,
                   void *context)
{
    (void)flags;
    (void)context;
    struct cdl_grpc_call *call = call_of(session, stream);
    if (call == NULL || call->phase != PHASE_READING)
        return 0;
    return take_in(call, (struct cdl_slice){(const char *)data, length});
}

/* The client has said all. */
static void hand_over(struct cdl_grpc_call *call)
{
    struct cdl_grpc *grpc = call->grpc;
    const bool is_whole = call->prefix_length == PREFIX_BYTES && call->length == call->wanted;
    enter_phase(call, PHASE_GIVEN);
    if (!is_whole)
        cdl_grpc_fail(call, CDL_GRPC_INVALID_ARGUMENT, CDL_SLICE("the call ends within its message"));
    else if (call->timeout_ns == 0)
        cdl_grpc_fail(call, CDL_GRPC_DEADLINE_EXCEEDED, CDL_SLICE("grpc-timeout: no time at all"));
    else
        grpc->service->called(grpc->context, call);
}

static int on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *context)
{
    const struct cdl_grpc *grpc = context;
    if (frame->hd.type != NGHTTP2_HEADERS && frame->hd.type != NGHTTP2_DATA)
        return 0;
    struct cdl_grpc_call *call = call_of(session, frame->hd.stream_id);
    if (call == NULL || call->phase != PHASE_READING)
        return 0;
    call->is_ended = (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0;
    if (frame->hd.type == NGHTTP2_HEADERS && frame->headers.cat == NGHTTP2_HCAT_REQUEST)
        judge_headers(call);
    if (call->is_ended && call->phase == PHASE_READING)
        hand_over(call);
    return grpc->broken != 0 ? NGHTTP2_ERR_CALLBACK_FAILURE : 0;
}

static void end_call(struct cdl_grpc_call *call)
{
    struct cdl_grpc *grpc = call->grpc;
    if (call->phase == PHASE_GIVEN || call->phase == PHASE_STREAMED)
        grpc->service->cancelled(grpc->context, call);
    free_call(call);
}

static int on_stream_close(nghttp2_session *session, int32_t stream, uint32_t error, void *context)
{
    (void)error;
    (void)context;
    struct cdl_grpc_call *call = call_of(session, stream);
    if (call != NULL)
        end_call(call);
    return 0;
}

/* ---- frames, by their heads ----
 *
 * Each frame is looked at before nghttp2 gets it, which does not tell of those that it ignores. Heads are handed to it whole:
 * where headers go on, nghttp2 counts not frames but how often it is given any part of a head, and after eight times it ends the session. */

struct head_of_frame {
    size_t length;
    unsigned type, flags;
    int32_t stream;
};

static struct head_of_frame read_head(const unsigned char head[HEAD_BYTES])
{
    return (struct head_of_frame){
        .length = (size_t)head[0] << 16 | (size_t)head[1] << 8 | head[2],
        .type = head[3],
        .flags = head[4],
        .stream = (int32_t)((uint32_t)(head[5] & 127) << 24 | (uint32_t)head[6] << 16 | (uint32_t)head[7] << 8 |
                            head[8]),
    };
}

/* What a frame costs that is no part of a call that is read; 0: it is. */
static size_t cost_of(const struct cdl_grpc *grpc, const struct head_of_frame *frame)
{
    if (frame->type == NGHTTP2_HEADERS)
        return grpc->call_count < CDL_GRPC_CALLS_MAX && frame->stream > grpc->last_stream ? 0 : 1;
    if (frame->type != NGHTTP2_DATA)
        return 1;
    const struct cdl_grpc_call *call = call_of(grpc->session, frame->stream);
    if (call == NULL || call->phase != PHASE_READING)
        return 1 + frame->length / LATE_PER_FRAME;
    return frame->length >= TINY_DATA || (frame->flags & NGHTTP2_FLAG_END_STREAM) != 0 ? 0 : 1;
}

/* What the headers before this frame came in beyond what they mean: padding, or changes of the table that they are packed with. */
static size_t waste_before(const struct cdl_grpc *grpc)
{
    return grpc->block_bytes > grpc->decoded_bytes ? grpc->block_bytes - grpc->decoded_bytes : 0;
}

static void look_at(struct cdl_grpc *grpc, const struct head_of_frame *frame)
{
    pay(grpc, cost_of(grpc, frame));
    if (frame->type == NGHTTP2_CONTINUATION) {
        grpc->block_bytes += frame->length;
        if (++grpc->continuations > CDL_GRPC_CONTINUATIONS_MAX)
            break_off(grpc, NGHTTP2_ENHANCE_YOUR_CALM);
        return;
    }
    pay(grpc, waste_before(grpc) / WASTE_PER_FRAME);
    grpc->continuations = 0;
    grpc->block_bytes = frame->type == NGHTTP2_HEADERS ? frame->length : 0;
    grpc->decoded_bytes = 0;
}

static uint32_t error_of(ssize_t code)
{
    return code == NGHTTP2_ERR_FLOODED || code == NGHTTP2_ERR_TOO_MANY_SETTINGS || code == NGHTTP2_ERR_NOMEM
               ? NGHTTP2_ENHANCE_YOUR_CALM
               : NGHTTP2_PROTOCOL_ERROR;
}

static void pass_on(struct cdl_grpc *grpc, const void *bytes, size_t length)
{
    const ssize_t taken = nghttp2_session_mem_recv(grpc->session, bytes, length);
    if (taken < 0)
        break_off(grpc, error_of(taken));
}

/* Takes a head, or what is there of it, and passes it on when it is whole; returns how many bytes it took. */
static size_t take_head(struct cdl_grpc *grpc, struct cdl_slice bytes)
{
    const size_t missing = HEAD_BYTES - grpc->head_length, part = missing < bytes.length ? missing : bytes.length;
    memcpy(grpc->head + grpc->head_length, bytes.bytes, part);
    grpc->head_length += (uint32_t)part;
    if (grpc->head_length < HEAD_BYTES)
        return part;
    const struct head_of_frame frame = read_head(grpc->head);
    grpc->head_length = 0;
    grpc->frame_left = frame.length;
    look_at(grpc, &frame);
    if (grpc->broken == 0)
        pass_on(grpc, grpc->head, HEAD_BYTES);
    return part;
}

/* The same of what follows a head. */
static size_t take_rest(struct cdl_grpc *grpc, struct cdl_slice bytes)
{
    const size_t part = grpc->frame_left < bytes.length ? grpc->frame_left : bytes.length;
    grpc->frame_left -= part;
    pass_on(grpc, bytes.bytes, part);
    return part;
}

/* ---- the connection ---- */

static nghttp2_session_callbacks *new_callbacks(void)
{
    nghttp2_session_callbacks *callbacks;
    if (nghttp2_session_callbacks_new(&callbacks) != 0)
        return NULL;
    nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, on_begin_headers);
    nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
    nghttp2_session_callbacks_set_on_frame_send_callback(callbacks, on_sent);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_stream_close);
    return callbacks;
}

static nghttp2_option *new_options(void)
{
    nghttp2_option *options;
    if (nghttp2_option_new(&options) != 0)
        return NULL;
    nghttp2_option_set_no_closed_streams(options, 1);
    nghttp2_option_set_max_outbound_ack(options, 100);
#ifdef CDL_NGHTTP2_LIMITS_RESETS
    /* Our purse is for resets, too; what the library allows by itself is less than a slow store may cost a proxy. */
    nghttp2_option_set_stream_reset_rate_limit(options, CDL_GRPC_NUISANCE_MAX, CDL_GRPC_NUISANCE_PER_SECOND);
#endif
    return options;
}

static bool open_session(struct cdl_grpc *grpc)
{
    static const nghttp2_settings_entry settings[] = {
        {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, CDL_GRPC_CALLS_MAX},
        {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, CDL_GRPC_HEADERS_MAX},
        {NGHTTP2_SETTINGS_NO_RFC7540_PRIORITIES, 1},
    };
    nghttp2_mem memory = {grpc, take, give, take_zeroed, take_again};
    nghttp2_session_callbacks *callbacks = new_callbacks();
    nghttp2_option *options = new_options();
    const bool opened = callbacks != NULL && options != NULL &&
                        nghttp2_session_server_new3(&grpc->session, callbacks, grpc, options, &memory) == 0 &&
                        nghttp2_submit_settings(grpc->session, NGHTTP2_FLAG_NONE, settings,
                                                sizeof settings / sizeof settings[0]) == 0;
    nghttp2_session_callbacks_del(callbacks);
    nghttp2_option_del(options);
    return opened;
}

struct cdl_grpc *cdl_grpc_open(const struct cdl_grpc_service *service, int64_t message_timeout_ns, void *context)
{
    struct cdl_grpc *grpc = calloc(1, sizeof *grpc);
    if (grpc == NULL)
        return NULL;
    grpc->service = service;
    grpc->message_timeout_ns = message_timeout_ns;
    grpc->context = context;
    grpc->purse = CDL_GRPC_NUISANCE_MAX;
    grpc->frame_left = NGHTTP2_CLIENT_MAGIC_LEN; /* which comes before all frames */
    if (open_session(grpc))
        return grpc;
    cdl_grpc_close(grpc);
    return NULL;
}

void cdl_grpc_close(struct cdl_grpc *grpc)
{
    if (grpc == NULL)
        return;
    nghttp2_session_del(grpc->session); /* without a word of the streams that are open */
    for (int phase = 0; phase < PHASES; phase++)
        for (struct cdl_grpc_call *call = grpc->phases[phase].first, *next; call != NULL; call = next) {
            next = call->next;
            end_call(call);
        }
    for (struct cdl_grpc_call *call = grpc->spare, *next; call != NULL; call = next) {
        next = call->next;
        give(call, grpc);
    }
    free(grpc);
}

/* Requests that began and do not go on. */
static void expire(struct cdl_grpc *grpc)
{
    struct cdl_grpc_call *call;
    while ((call = grpc->phases[PHASE_READING].first) != NULL &&
           grpc->now_ns - call->began_ns > grpc->message_timeout_ns)
        cdl_grpc_fail(call, CDL_GRPC_DEADLINE_EXCEEDED, CDL_SLICE("the request did not become whole in time"));
}

void cdl_grpc_receive(struct cdl_grpc *grpc, struct cdl_slice bytes, int64_t now_ns)
{
    if (grpc->broken != 0)
        return;
    grpc->now_ns = now_ns;
    fill_purse_with_time(grpc);
    expire(grpc);
    for (size_t part; bytes.length > 0 && grpc->broken == 0; bytes = cdl_slice_from(bytes, part))
        part = grpc->frame_left > 0 ? take_rest(grpc, bytes) : take_head(grpc, bytes);
}

/* GOAWAY, from the session's last words on: whatever it still had to say is not said. */
static void say_goaway(struct cdl_grpc *grpc, struct cdl_writer *output)
{
    const uint32_t last = (uint32_t)nghttp2_session_get_last_proc_stream_id(grpc->session), error = grpc->broken;
    const char frame[] = {0,
                          0,
                          8,
                          NGHTTP2_GOAWAY,
                          0,
                          0,
                          0,
                          0,
                          0,
                          (char)(last >> 24),
                          (char)(last >> 16),
                          (char)(last >> 8),
                          (char)last,
                          (char)(error >> 24),
                          (char)(error >> 16),
                          (char)(error >> 8),
                          (char)error};
    cdl_write(output, (struct cdl_slice){frame, sizeof frame});
    grpc->said_goaway = true;
}

void cdl_grpc_send(struct cdl_grpc *grpc, struct cdl_writer *output)
{
    while (grpc->broken == 0 && output->size - output->length >= FRAME_BYTES) {
        const uint8_t *bytes;
        const ssize_t length = nghttp2_session_mem_send(grpc->session, &bytes);
        if (length < 0)
            break_off(grpc, error_of(length));
        if (length <= 0)
            break;
        cdl_write(output, (struct cdl_slice){(const char *)bytes, (size_t)length});
    }
    if (grpc->broken != 0 && !grpc->said_goaway)
        say_goaway(grpc, output);
}

bool cdl_grpc_is_over(const struct cdl_grpc *grpc)
{
    if (grpc->broken != 0)
        return grpc->said_goaway;
    return nghttp2_session_want_read(grpc->session) == 0 && nghttp2_session_want_write(grpc->session) == 0;
}

bool cdl_grpc_owes(const struct cdl_grpc *grpc)
{
    return grpc->broken == 0 && grpc->phases[PHASE_GIVEN].first != NULL;
}

void cdl_grpc_drain(struct cdl_grpc *grpc)
{
    if (grpc->broken == 0)
        require(grpc, nghttp2_submit_shutdown_notice(grpc->session) == 0);
}

void cdl_grpc_finish(struct cdl_grpc *grpc)
{
    if (grpc->broken != 0)
        return;
    for (struct cdl_grpc_call *call = grpc->phases[PHASE_STREAMED].first; call != NULL; call = call->next) {
        call->is_trailing = true;
        nghttp2_session_resume_data(grpc->session, call->stream);
    }
    require(grpc, nghttp2_submit_goaway(grpc->session, NGHTTP2_FLAG_NONE,
                                        nghttp2_session_get_last_proc_stream_id(grpc->session), NGHTTP2_NO_ERROR, NULL,
                                        0) == 0);
}
