/* io_uring by liburing.
 *
 * IORING_SETUP_DEFER_TASKRUN keeps the kernel from interrupting the thread: what has arrived is worked off when the thread asks for
 * events, and so nothing can arrive between two such calls, and a receive that is cancelled in one is over before anything else is
 * received. The ring is made without a thread, and enabled by the one that first receives.
 *
 * An operation's user data is its socket, and in the two lowest bits what it is. */
#include "net/ring.h"

#include <errno.h>
#include <liburing.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define ENTRIES 512u
#define COMPLETIONS 4096u
#define BATCH 64u
#define OUTGOING_BYTES ((size_t)256 * 1024)

#define BUFFERS 128u
#define BUFFER_BYTES ((size_t)2048)
/* Buffers that lay at multiples of their size would all fall into the same lines of the nearest cache. */
#define STRIDE_BYTES (BUFFER_BYTES + 64)
#define GROUP 0

_Static_assert(BUFFERS *BUFFER_BYTES == CDL_RING_POOL_BYTES, "what the header promises");

enum operation {
    RECEIVE,
    SEND,
    CANCEL,
    WATCH, /* no socket's */
    OPERATION_MASK = 3,
};

struct cdl_ring {
    struct io_uring uring;
    const struct cdl_ring_calls *calls;
    struct io_uring_buf_ring *offered;
    char *pool;
    char *outgoing;
    size_t outgoing_length;
    unsigned sending; /* sockets with bytes in `outgoing` */
    unsigned known;   /* operations, of all sockets */
    int watched_fd;
    bool is_watching;
    bool enabled;
};

/* ---- operations ---- */

static struct io_uring_sqe *next_entry(struct cdl_ring *ring)
{
    struct io_uring_sqe *entry;
    while ((entry = io_uring_get_sqe(&ring->uring)) == NULL)
        io_uring_submit(&ring->uring);
    return entry;
}

static uint64_t data_of(const struct cdl_ring_socket *socket, enum operation operation)
{
    return (uint64_t)(uintptr_t)socket | operation;
}

/* From now on the kernel knows the socket by this entry, too. */
static void name(struct cdl_ring *ring, struct io_uring_sqe *entry, struct cdl_ring_socket *socket,
                 enum operation operation)
{
    io_uring_sqe_set_data64(entry, data_of(socket, operation));
    socket->known++;
    ring->known++;
}

static void arm(struct cdl_ring *ring, struct cdl_ring_socket *socket)
{
    struct io_uring_sqe *entry = next_entry(ring);
    io_uring_prep_recv_multishot(entry, socket->fd, NULL, 0, 0);
    entry->flags |= IOSQE_BUFFER_SELECT;
    entry->buf_group = GROUP;
    name(ring, entry, socket, RECEIVE);
    socket->armed = true;
    socket->cancelled = false;
}

static void cancel(struct cdl_ring *ring, struct cdl_ring_socket *socket)
{
    if (!socket->armed || socket->cancelled)
        return;
    struct io_uring_sqe *entry = next_entry(ring);
    io_uring_prep_cancel64(entry, data_of(socket, RECEIVE), 0);
    name(ring, entry, socket, CANCEL);
    socket->cancelled = true;
}

/* (Debian 12's liburing has a function for it that it does not export.) */
static void enable(struct cdl_ring *ring)
{
    if (ring->enabled)
        return;
    ring->enabled = true;
    syscall(SYS_io_uring_register, ring->uring.ring_fd, IORING_REGISTER_ENABLE_RINGS, NULL, 0);
    io_uring_register_ring_fd(&ring->uring); /* saves the kernel a look-up; goes without */
}

void cdl_ring_receive(struct cdl_ring *ring, struct cdl_ring_socket *socket)
{
    enable(ring);
    socket->wanted = true;
    if (!socket->armed) /* one that is being cancelled is armed again when it is over */
        arm(ring, socket);
}

void cdl_ring_pause(struct cdl_ring *ring, struct cdl_ring_socket *socket)
{
    socket->wanted = false;
    cancel(ring, socket);
}

bool cdl_ring_send(struct cdl_ring *ring, struct cdl_ring_socket *socket, struct cdl_slice bytes)
{
    if (ring->sending == 0)
        ring->outgoing_length = 0;
    if (bytes.length > CDL_RING_SEND_MAX || bytes.length > OUTGOING_BYTES - ring->outgoing_length)
        return false;
    char *copy = ring->outgoing + ring->outgoing_length;
    memcpy(copy, bytes.bytes, bytes.length);
    ring->outgoing_length += bytes.length;
    ring->sending++;
    socket->sending = (struct cdl_slice){copy, bytes.length};
    struct io_uring_sqe *entry = next_entry(ring);
    io_uring_prep_send(entry, socket->fd, copy, bytes.length, MSG_DONTWAIT | MSG_NOSIGNAL);
    name(ring, entry, socket, SEND);
    return true;
}

/* All that is said of its descriptor has to reach the kernel before the number means another. */
bool cdl_ring_leave(struct cdl_ring *ring, struct cdl_ring_socket *socket)
{
    socket->left = true;
    socket->wanted = false;
    cancel(ring, socket);
    if (socket->known > 0)
        io_uring_submit(&ring->uring);
    return socket->known == 0;
}

/* ---- what came of them ---- */

static void offer(struct cdl_ring *ring, unsigned short number)
{
    io_uring_buf_ring_add(ring->offered, ring->pool + number * STRIDE_BYTES, (unsigned)BUFFER_BYTES, number,
                          io_uring_buf_ring_mask(BUFFERS), 0);
    io_uring_buf_ring_advance(ring->offered, 1);
}

static void on_received(struct cdl_ring *ring, struct cdl_ring_socket *socket, const struct io_uring_cqe *cqe)
{
    const bool is_over = (cqe->flags & IORING_CQE_F_MORE) == 0;
    const unsigned short number = (unsigned short)(cqe->flags >> IORING_CQE_BUFFER_SHIFT);
    const bool is_told = cqe->res != -ENOBUFS && cqe->res != -ECANCELED && !socket->left;
    if (is_over)
        socket->armed = socket->cancelled = false;
    if (is_told && cqe->res <= 0)
        socket->wanted = false;
    if (is_told)
        ring->calls->received(socket, cqe->res, ring->pool + number * STRIDE_BYTES);
    if ((cqe->flags & IORING_CQE_F_BUFFER) != 0)
        offer(ring, number);
    if (socket->wanted && !socket->armed)
        arm(ring, socket);
}

static void on_sent(struct cdl_ring *ring, struct cdl_ring_socket *socket, int sent)
{
    const struct cdl_slice bytes = socket->sending;
    socket->sending.length = 0;
    if (!socket->left)
        ring->calls->sent(socket, sent, bytes);
    ring->sending--;
}

static void tell(struct cdl_ring *ring, const struct io_uring_cqe *cqe)
{
    struct cdl_ring_socket *socket = (void *)(uintptr_t)(cqe->user_data & ~(uint64_t)OPERATION_MASK);
    const enum operation operation = cqe->user_data & OPERATION_MASK;
    if (operation == WATCH) {
        ring->is_watching = false;
        return;
    }
    if (operation == RECEIVE)
        on_received(ring, socket, cqe);
    else if (operation == SEND)
        on_sent(ring, socket, cqe->res);
    if ((cqe->flags & IORING_CQE_F_MORE) != 0)
        return;
    ring->known--;
    if (--socket->known == 0 && socket->left)
        ring->calls->freed(socket);
}

static void tell_all(struct cdl_ring *ring)
{
    struct io_uring_cqe *cqes[BATCH];
    unsigned count;
    while ((count = io_uring_peek_batch_cqe(&ring->uring, cqes, BATCH)) > 0) {
        for (unsigned i = 0; i < count; i++)
            tell(ring, cqes[i]);
        io_uring_cq_advance(&ring->uring, count);
    }
}

/* ---- turns ---- */

/* One that fired is made anew before each wait, and looks whether there is anything then: nothing gets lost between two. */
static void watch(struct cdl_ring *ring)
{
    if (ring->is_watching)
        return;
    struct io_uring_sqe *entry = next_entry(ring);
    io_uring_prep_poll_add(entry, ring->watched_fd, POLLIN);
    io_uring_sqe_set_data64(entry, WATCH);
    ring->is_watching = true;
}

void cdl_ring_turn(struct cdl_ring *ring, int timeout_ms)
{
    struct io_uring_cqe *first;
    struct __kernel_timespec timeout = {.tv_sec = timeout_ms / 1000, .tv_nsec = timeout_ms % 1000 * 1000000LL};
    enable(ring);
    watch(ring);
    if (timeout_ms == 0)
        io_uring_submit_and_get_events(&ring->uring);
    else
        io_uring_submit_and_wait_timeout(&ring->uring, &first, 1, timeout_ms < 0 ? NULL : &timeout, NULL);
    tell_all(ring);
}

/* ---- the ring ---- */

static bool make_buffers(struct cdl_ring *ring)
{
    const size_t offered_bytes = BUFFERS * sizeof(struct io_uring_buf);
    ring->offered = aligned_alloc(4096, (offered_bytes + 4095) & ~(size_t)4095);
    ring->pool = malloc(BUFFERS * STRIDE_BYTES);
    ring->outgoing = malloc(OUTGOING_BYTES);
    if (ring->offered == NULL || ring->pool == NULL || ring->outgoing == NULL)
        return false;
    io_uring_buf_ring_init(ring->offered);
    for (unsigned short number = 0; number < BUFFERS; number++)
        offer(ring, number);
    return true;
}

static int set_up(struct cdl_ring *ring)
{
    struct io_uring_params parameters = {.flags = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN |
                                                  IORING_SETUP_R_DISABLED | IORING_SETUP_CQSIZE,
                                         .cq_entries = COMPLETIONS};
    int error = io_uring_queue_init_params(ENTRIES, &ring->uring, &parameters);
    if (error < 0)
        return error == -EINVAL ? -ENOSYS : error;
    struct io_uring_buf_reg offered = {
        .ring_addr = (uint64_t)(uintptr_t)ring->offered, .ring_entries = BUFFERS, .bgid = GROUP};
    error = io_uring_register_buf_ring(&ring->uring, &offered, 0);
    if (error < 0)
        io_uring_queue_exit(&ring->uring);
    return error;
}

static void free_memory(struct cdl_ring *ring)
{
    free(ring->offered);
    free(ring->pool);
    free(ring->outgoing);
    free(ring);
}

int cdl_ring_open(struct cdl_ring **out, const struct cdl_ring_calls *calls, int fd)
{
    struct cdl_ring *ring = calloc(1, sizeof *ring);
    *out = NULL;
    if (ring == NULL)
        return -ENOMEM;
    ring->calls = calls;
    ring->watched_fd = fd;
    const int error = make_buffers(ring) ? set_up(ring) : -ENOMEM;
    if (error < 0)
        free_memory(ring);
    else
        *out = ring;
    return error;
}

void cdl_ring_drain(struct cdl_ring *ring)
{
    if (ring == NULL || !ring->enabled)
        return;
    while (ring->known > 0) {
        io_uring_submit_and_wait(&ring->uring, 1);
        tell_all(ring);
    }
    io_uring_unregister_ring_fd(&ring->uring); /* it is the thread's */
}

void cdl_ring_close(struct cdl_ring *ring)
{
    if (ring == NULL)
        return;
    io_uring_queue_exit(&ring->uring);
    free_memory(ring);
}
