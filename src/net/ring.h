/* Receiving and sending for the plain connections of one loop through io_uring: what a turn of the loop has to say is told to the
 * kernel in one system call, and what has arrived comes back with it.
 *
 * A socket receives for as long as it is wanted (a multishot receive), into buffers that all sockets of the ring share: they are the
 * kernel's but for the moment in which one is looked at, so the memory is fixed, and between two calls of the kernel no more than
 * CDL_RING_POOL_BYTES can arrive. What is sent is copied, and travels when the turn ends. The kernel is told not to wait for a
 * slow reader: every send is over when the call returns, and what was not taken is its owner's to send by other means.
 *
 * The kernel may know a socket longer than its owner does. So an owner leaves first, then closes its descriptor, and keeps the
 * struct until it is free.
 *
 * Everything belongs to one thread, the first that receives. Built without io_uring (meson's option of that name), or refused by the
 * kernel, there is no ring, and the loop does by epoll what it would have done by the ring. */
#ifndef CDL_NET_RING_H
#define CDL_NET_RING_H

#include <stddef.h>
#include <sys/types.h>

#include "base/slice.h"

#define CDL_RING_POOL_BYTES ((size_t)128 * 2048)
/* The longest piece that is worth a copy. */
#define CDL_RING_SEND_MAX ((size_t)16 * 1024)

struct cdl_ring;

/* A socket as the ring knows it; zeroed, but for the first two, by its owner. */
struct cdl_ring_socket {
    void *owner;
    int fd;
    unsigned known;           /* operations of the kernel that will still be told of */
    struct cdl_slice sending; /* travels at the end of the turn; empty: nothing does */
    bool wanted;              /* what arrives */
    bool armed;               /* the kernel has the receive */
    bool cancelled;           /* and was told to give it up */
    bool left;
};

/* What the ring tells. Each may call all functions but turns and closing. */
struct cdl_ring_calls {
    /* Bytes arrived, which lie there until it returns; 0: there will be none any more; below 0: a negative errno. It may come once more
     * after pausing, with what had arrived by then, but not after leaving. */
    void (*received)(struct cdl_ring_socket *socket, ssize_t got, char *bytes);
    /* Of `bytes` the kernel took the first `sent`, or it is a negative errno. Not after leaving. */
    void (*sent)(struct cdl_ring_socket *socket, ssize_t sent, struct cdl_slice bytes);
    /* After leaving: it is free. */
    void (*freed)(struct cdl_ring_socket *socket);
};

/* `fd` is what else is waited for: an epoll's. Without a ring *ring is NULL, and why is returned: 0, it was not built; a negative errno:
 * -ENOSYS where io_uring is not there or too old (before Linux 6.1), -EPERM where it is forbidden, -ENOMEM. */
int cdl_ring_open(struct cdl_ring **ring, const struct cdl_ring_calls *calls, int fd);
/* Waits until the kernel is done with all sockets, which have been left; in the ring's thread. NULL does nothing. */
void cdl_ring_drain(struct cdl_ring *ring);
/* After draining; from any thread. NULL does nothing. */
void cdl_ring_close(struct cdl_ring *ring);

/* Submits what has come together, and tells what has happened. Waits for something to happen, or for `fd` of the ring's opening to be
 * readable, at most timeout_ms long; below 0: for as long as it takes. */
void cdl_ring_turn(struct cdl_ring *ring, int timeout_ms);

void cdl_ring_receive(struct cdl_ring *ring, struct cdl_ring_socket *socket);
void cdl_ring_pause(struct cdl_ring *ring, struct cdl_ring_socket *socket);
/* False: it is too long, or there is no room in this turn; nothing is done then. A socket sends one piece at a time. */
bool cdl_ring_send(struct cdl_ring *ring, struct cdl_ring_socket *socket, struct cdl_slice bytes);
/* What it was to send is sent now. Returns whether it is free already; `freed` is called later if not. */
bool cdl_ring_leave(struct cdl_ring *ring, struct cdl_ring_socket *socket);

#endif
