/* Calls a script of a Redis as fast as the server answers, for bench/redis.py:
 *
 *     redis_load PORT FOLDER PIPELINE CALLS KEYS
 *
 * Loads FOLDER/script.lua and calls it with keys in turn, "t", "" and the bytes of FOLDER/question, over 32 connections on each of which
 * PIPELINE calls travel together. Prints the seconds that CALLS calls took. (redis-benchmark cannot send an argument with NUL in it.) */
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/arith.h"
#include "base/writer.h"
#include "caudal/clock.h"
#include "wire/resp_reply.h"

#define CONNECTIONS 32u
#define BUFFER_BYTES ((size_t)256 * 1024)

struct connection {
    struct cdl_resp_meter meter;
    char bytes[BUFFER_BYTES];
    size_t length;
    unsigned waiting; /* for replies */
};

static struct connection connections[CONNECTIONS];
static struct pollfd sockets[CONNECTIONS];
static char script[65536], question[256], output[BUFFER_BYTES];
static struct cdl_slice sha;
static size_t question_length;
static unsigned long pipeline, calls, keys, sent, answered;

static void fail(const char *what)
{
    perror(what);
    exit(1);
}

static size_t read_file(const char *folder, const char *name, char *bytes, size_t size)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "rb");
    if (file == NULL)
        fail(path);
    const size_t length = fread(bytes, 1, size, file);
    fclose(file);
    return length;
}

static int connect_to(const char *port)
{
    const struct sockaddr_in address = {.sin_family = AF_INET,
                                        .sin_port = htons((uint16_t)strtoul(port, NULL, 10)),
                                        .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const int fd = socket(AF_INET, SOCK_STREAM, 0), one = 1;
    if (fd < 0 || connect(fd, (const struct sockaddr *)&address, sizeof address) != 0)
        fail("connect");
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    return fd;
}

static void write_word(struct cdl_writer *writer, struct cdl_slice word)
{
    cdl_writef(writer, "$%zu\r\n", word.length);
    cdl_write(writer, word);
    cdl_write_text(writer, "\r\n");
}

static void send_all(int fd, struct cdl_slice bytes)
{
    while (bytes.length > 0) {
        const ssize_t step = write(fd, bytes.bytes, bytes.length);
        if (step <= 0)
            fail("write");
        bytes = cdl_slice_from(bytes, (size_t)step);
    }
}

static void send_calls(unsigned index)
{
    struct cdl_writer writer = cdl_writer_on(output, sizeof output);
    for (unsigned long i = 0; i < pipeline && sent < calls; i++, sent++) {
        char key[64];
        const int length = snprintf(key, sizeof key, "caudal:1:{abcdefghij%012lu}:per-client", sent % keys);
        cdl_write_text(&writer, "*7\r\n");
        write_word(&writer, CDL_SLICE("EVALSHA"));
        write_word(&writer, sha);
        write_word(&writer, CDL_SLICE("1"));
        write_word(&writer, (struct cdl_slice){key, (size_t)length});
        write_word(&writer, CDL_SLICE("t"));
        write_word(&writer, CDL_SLICE(""));
        write_word(&writer, (struct cdl_slice){question, question_length});
        connections[index].waiting++;
    }
    send_all(sockets[index].fd, cdl_written(&writer));
}

/* Takes the replies that have come; an error ends the program. */
static void receive(unsigned index)
{
    struct connection *connection = &connections[index];
    const ssize_t got = read(sockets[index].fd, connection->bytes + connection->length,
                             BUFFER_BYTES - connection->length);
    if (got <= 0)
        fail("read");
    connection->length += (size_t)got;
    size_t taken = 0, length;
    struct cdl_slice rest = {connection->bytes, connection->length};
    while (cdl_resp_measure(&connection->meter, rest, &length) == CDL_RESP_READY) {
        if (rest.bytes[0] == '-') {
            fprintf(stderr, "%.*s\n", (int)length, rest.bytes);
            exit(1);
        }
        rest = cdl_slice_from(rest, length);
        taken += length;
        connection->waiting--;
        answered++;
    }
    connection->length -= taken;
    memmove(connection->bytes, connection->bytes + taken, connection->length);
}

static void load_script(size_t length)
{
    static char answer[256];
    static struct cdl_writer writer;
    writer = cdl_writer_on(output, sizeof output);
    cdl_write_text(&writer, "*3\r\n");
    write_word(&writer, CDL_SLICE("SCRIPT"));
    write_word(&writer, CDL_SLICE("LOAD"));
    write_word(&writer, (struct cdl_slice){script, length});
    send_all(sockets[0].fd, cdl_written(&writer));
    const ssize_t got = read(sockets[0].fd, answer, sizeof answer);
    if (got < 45 || answer[0] != '$')
        fail("SCRIPT LOAD");
    sha = (struct cdl_slice){answer + 5, 40};
}

int main(int argc, char **argv)
{
    if (argc != 6) {
        fprintf(stderr, "usage: redis_load PORT FOLDER PIPELINE CALLS KEYS\n");
        return 2;
    }
    pipeline = strtoul(argv[3], NULL, 10);
    calls = strtoul(argv[4], NULL, 10);
    keys = strtoul(argv[5], NULL, 10);
    const size_t script_length = read_file(argv[2], "script.lua", script, sizeof script);
    question_length = read_file(argv[2], "question", question, sizeof question);
    for (unsigned i = 0; i < CONNECTIONS; i++)
        sockets[i] = (struct pollfd){.fd = connect_to(argv[1]), .events = POLLIN};
    load_script(script_length);
    const struct caudal_clock *clock = caudal_clock_system();
    const int64_t began_ns = clock->monotonic_ns(clock->context);
    for (unsigned i = 0; i < CONNECTIONS; i++)
        send_calls(i);
    while (answered < calls) {
        if (poll(sockets, CONNECTIONS, -1) < 0)
            fail("poll");
        for (unsigned i = 0; i < CONNECTIONS; i++) {
            if (sockets[i].revents == 0)
                continue;
            receive(i);
            if (connections[i].waiting == 0 && sent < calls)
                send_calls(i);
        }
    }
    printf("%.6f\n", (double)(clock->monotonic_ns(clock->context) - began_ns) / 1e9);
    return 0;
}
