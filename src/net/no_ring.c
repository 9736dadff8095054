/* In the place of ring.c in a build without io_uring: no ring ever opens, so nothing is asked of one. */
#include "net/ring.h"

int cdl_ring_open(struct cdl_ring **ring, const struct cdl_ring_calls *calls, int fd)
{
    (void)calls, (void)fd;
    *ring = NULL;
    return 0;
}

void cdl_ring_drain(struct cdl_ring *ring)
{
    (void)ring;
}

void cdl_ring_close(struct cdl_ring *ring)
{
    (void)ring;
}

void cdl_ring_turn(struct cdl_ring *ring, int timeout_ms)
{
    (void)ring, (void)timeout_ms;
}

void cdl_ring_receive(struct cdl_ring *ring, struct cdl_ring_socket *socket)
{
    (void)ring, (void)socket;
}

void cdl_ring_pause(struct cdl_ring *ring, struct cdl_ring_socket *socket)
{
    (void)ring, (void)socket;
}

bool cdl_ring_send(struct cdl_ring *ring, struct cdl_ring_socket *socket, struct cdl_slice bytes)
{
    (void)ring, (void)socket, (void)bytes;
    return false;
}

bool cdl_ring_leave(struct cdl_ring *ring, struct cdl_ring_socket *socket)
{
    (void)ring, (void)socket;
    return true;
}
