/* Listening sockets. Where an endpoint names no host it is the loopback interface, never all of them: "0.0.0.0:8080" has to be
 * written out. */
#ifndef CDL_NET_LISTEN_H
#define CDL_NET_LISTEN_H

#include <sys/types.h>

#include "base/endpoint.h"
#include "caudal/status.h"

#define CDL_LISTEN_TEXT_MAX 128

/* A socket that listens, and the address it really has. */
struct cdl_listening {
    int fd;
    bool is_local; /* reached from this machine only: loopback, or a Unix socket */
    bool is_unix;
    char text[CDL_LISTEN_TEXT_MAX]; /* "127.0.0.1:8080", "[::1]:8080", "unix:/run/caudal.sock" */
};

/* Opens `count` listening, non-blocking sockets for one endpoint. For TCP they are sockets of their own, among which the kernel
 * spreads connections (SO_REUSEPORT); for a Unix socket they are one, duplicated. A Unix socket's file that is left from a process
 * that is gone is replaced; one that somebody listens on is an error. On failure none is left open. */
int cdl_listen(const struct cdl_endpoint *endpoint, struct cdl_listening *sockets, size_t count,
               struct caudal_problem *problem);

/* The file of a Unix socket, to be removed at the end; an empty path: there is none. */
struct cdl_socket_file {
    char path[CDL_LISTEN_TEXT_MAX];
    dev_t device;
    ino_t inode;
};

struct cdl_socket_file cdl_socket_file_of(const struct cdl_listening *socket);
/* Removes it, unless there is another file by that name now. */
void cdl_socket_file_remove(const struct cdl_socket_file *file);

#endif
