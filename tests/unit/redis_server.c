#include "redis_server.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static void run(const struct redis_server *server, int output)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    dup2(output, STDOUT_FILENO);
    execlp("redis-server", "redis-server", "--port", "0", "--unixsocket", server->socket, "--dir", server->folder,
           "--save", "", "--appendonly", "no", (char *)NULL);
    _exit(127);
}

/* Its log says when it takes connections; the end of the log says that it will not. */
static void wait_until_ready(int log)
{
    FILE *lines = fdopen(log, "r");
    char line[512];
    while (fgets(line, sizeof line, lines) != NULL)
        if (strstr(line, "eady to accept connections") != NULL || strstr(line, "now ready to accept") != NULL)
            return; /* the pipe stays open: what it logs later must not be the end of it */
    fail_msg("redis-server did not start");
}

void redis_server_start(struct redis_server *server)
{
    int log[2];
    snprintf(server->folder, sizeof server->folder, "/tmp/caudal-redis-XXXXXX");
    assert_non_null(mkdtemp(server->folder));
    snprintf(server->socket, sizeof server->socket, "%s/socket", server->folder);
    assert_int_equal(pipe(log), 0);
    server->process = fork();
    assert_true(server->process >= 0);
    if (server->process == 0)
        run(server, log[1]);
    close(log[1]);
    wait_until_ready(log[0]);
}

void redis_server_stop(struct redis_server *server)
{
    kill(server->process, SIGKILL);
    waitpid(server->process, NULL, 0);
    unlink(server->socket);
    rmdir(server->folder);
}

int redis_server_connect(const struct redis_server *server)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s", server->socket);
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
    return fd;
}
