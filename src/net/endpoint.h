/* Where a listener listens: "host:port", "[v6]:port", ":port", "unix:/path".
 *
 * Without a host it is the loopback interface, never all of them: "0.0.0.0:8080" has to be written out. Port 0 lets the system
 * choose. */
#ifndef CDL_NET_ENDPOINT_H
#define CDL_NET_ENDPOINT_H

#include <stdbool.h>
#include <sys/socket.h>

#include "caudal/status.h"

#define CDL_ENDPOINT_TEXT_MAX 128

struct cdl_endpoint {
    struct sockaddr_storage address;
    socklen_t length;
};

/* Reads an endpoint. A host name is looked up; the first address counts. */
int cdl_endpoint_parse(const char *text, struct cdl_endpoint *endpoint, struct caudal_problem *problem);

/* The spelling that cdl_endpoint_parse reads back; NUL-terminated. */
void cdl_endpoint_format(const struct cdl_endpoint *endpoint, char text[CDL_ENDPOINT_TEXT_MAX]);

/* Reached from this machine only: a loopback address or a Unix socket. */
bool cdl_endpoint_is_local(const struct cdl_endpoint *endpoint);

/* A listening, non-blocking socket, and in *endpoint its real address (port 0 is gone). With `shared`, further calls for the same
 * TCP endpoint get sockets of their own, among which the kernel spreads connections (SO_REUSEPORT). A Unix socket's file that is
 * left from a process that is gone is replaced; one that somebody listens on is an error. Returns the descriptor, or -1. */
int cdl_endpoint_listen(struct cdl_endpoint *endpoint, bool shared, struct caudal_problem *problem);

#endif
