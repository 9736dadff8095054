/* A real redis-server for a test: on a Unix socket in a folder of its own, without persistence, gone when the test is. */
#ifndef TESTS_UNIT_REDIS_SERVER_H
#define TESTS_UNIT_REDIS_SERVER_H

#include <sys/types.h>

struct redis_server {
    char folder[64];
    char socket[96];
    pid_t process;
};

/* Starts one and waits until it answers. Fails the test when it cannot. */
void redis_server_start(struct redis_server *server);
void redis_server_stop(struct redis_server *server);

/* A blocking connection to it, as a file descriptor. */
int redis_server_connect(const struct redis_server *server);

#endif
