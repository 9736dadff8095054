/* Asks a server at a fixed rate, whether it answers or not, for bench/latency.py:
 *
 *     steady_load http|resp PORT REQUEST_FILE CONNECTIONS RATE SECONDS
 *
 * Question i is due at i / RATE from the start, on connection i modulo CONNECTIONS, and is sent then even if that connection still waits
 * for answers. How long one took is counted from when it was due, not from when it was sent: a server that stops for a while is not
 * spared the questions that would have come meanwhile. The first tenth is not counted.
 *
 * Prints one line of JSON: what was answered in a second, percentiles of the time to an answer, and the 99th of how late questions were
 * sent, all in microseconds; the latter is the driver's own part in the former. */
#include <arpa/inet.h>
#include <inttypes.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/arith.h"
#include "caudal/clock.h"
#include "metrics/histogram.h"
#include "wire/resp_reply.h"

#define CONNECTIONS_MAX 256u
#define BUFFER_BYTES ((size_t)64 * 1024)
#define WAITING_MAX 4096u /* questions of a connection that wait: a power of two */
#define GIVE_UP_NS (5 * CDL_NS_PER_S)

struct connection {
    struct cdl_resp_meter meter;
    size_t length;
    uint64_t asked, answered;
    int64_t due_ns[WAITING_MAX];
    char bytes[BUFFER_BYTES];
};

static struct connection connections[CONNECTIONS_MAX];
static struct pollfd sockets[CONNECTIONS_MAX];
static unsigned connection_count;
static bool is_http;
static char request[4096];
static size_t request_length;
static struct cdl_histogram times, delays;
static int64_t counted_from_ns;
static uint64_t counted;

_Noreturn static void fail(const char *what)
{
    perror(what);
    exit(1);
}

static int64_t now_ns(void)
{
    const struct caudal_clock *clock = caudal_clock_system();
    return clock->monotonic_ns(clock->context);
}

static void read_request(const char *path)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL)
        fail(path);
    request_length = fread(request, 1, sizeof request, file);
    fclose(file);
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

/* ---- questions and answers ---- */

static void ask(unsigned index, int64_t due_ns)
{
    struct connection *connection = &connections[index];
    if (connection->asked - connection->answered == WAITING_MAX) {
        fprintf(stderr, "steady_load: %u questions of one connection wait: this is more than the server can do\n",
                WAITING_MAX);
        exit(1);
    }
    connection->due_ns[connection->asked++ % WAITING_MAX] = due_ns;
    if (write(sockets[index].fd, request, request_length) != (ssize_t)request_length)
        fail("write");
    if (due_ns >= counted_from_ns)
        cdl_histogram_record(&delays, now_ns() - due_ns);
}

/* The length of an answer at the front of the bytes; 0: it is not whole. */
static size_t measure_http(struct cdl_slice bytes)
{
    static const char length_name[] = "content-length:";
    size_t body = 0;
    for (size_t at = 0; at + 1 < bytes.length; at++) {
        if (bytes.bytes[at] != '\r' || bytes.bytes[at + 1] != '\n')
            continue;
        const struct cdl_slice rest = cdl_slice_from(bytes, at + 2);
        if (rest.length >= 2 && rest.bytes[0] == '\r' && rest.bytes[1] == '\n')
            return rest.length - 2 >= body ? at + 4 + body : 0;
        if (rest.length > sizeof length_name && strncasecmp(rest.bytes, length_name, sizeof length_name - 1) == 0)
            body = strtoul(rest.bytes + sizeof length_name - 1, NULL, 10);
    }
    return 0;
}

static size_t measure(struct connection *connection, struct cdl_slice bytes)
{
    size_t length = 0;
    if (is_http)
        return measure_http(bytes);
    const enum cdl_resp_result result = cdl_resp_measure(&connection->meter, bytes, &length);
    if (result == CDL_RESP_BAD || (result == CDL_RESP_READY && bytes.bytes[0] == '-')) {
        fprintf(stderr, "steady_load: %.*s\n", (int)bytes.length, bytes.bytes);
        exit(1);
    }
    return result == CDL_RESP_READY ? length : 0;
}

static void take_answers(unsigned index)
{
    struct connection *connection = &connections[index];
    const ssize_t got = read(sockets[index].fd, connection->bytes + connection->length,
                             BUFFER_BYTES - 1 - connection->length);
    if (got <= 0)
        fail("read");
    const int64_t now = now_ns();
    connection->length += (size_t)got;
    connection->bytes[connection->length] = '\0'; /* where a number ends at the latest */
    struct cdl_slice rest = {connection->bytes, connection->length};
    for (size_t length; rest.length > 0 && (length = measure(connection, rest)) > 0;) {
        const int64_t due_ns = connection->due_ns[connection->answered++ % WAITING_MAX];
        if (due_ns >= counted_from_ns) {
            cdl_histogram_record(&times, now - due_ns);
            counted++;
        }
        rest = cdl_slice_from(rest, length);
    }
    memmove(connection->bytes, rest.bytes, rest.length);
    connection->length = rest.length;
}

static void wait_for_answers(int64_t until_ns)
{
    const int64_t left_ns = until_ns - now_ns(), wait_ns = left_ns > 0 ? left_ns : 0;
    const struct timespec timeout = {wait_ns / CDL_NS_PER_S, wait_ns % CDL_NS_PER_S};
    if (ppoll(sockets, connection_count, &timeout, NULL) < 0)
        fail("ppoll");
    for (unsigned i = 0; i < connection_count; i++)
        if (sockets[i].revents != 0)
            take_answers(i);
}

static bool is_waiting(void)
{
    for (unsigned i = 0; i < connection_count; i++)
        if (connections[i].asked != connections[i].answered)
            return true;
    return false;
}

static void run(double rate, double seconds)
{
    const int64_t began_ns = now_ns();
    const uint64_t total = (uint64_t)(rate * seconds);
    counted_from_ns = began_ns + (int64_t)(seconds * 0.1 * CDL_NS_PER_S);
    for (uint64_t i = 0; i < total;) {
        const int64_t due_ns = began_ns + (int64_t)((double)i / rate * CDL_NS_PER_S);
        if (now_ns() < due_ns) {
            wait_for_answers(due_ns);
            continue;
        }
        ask((unsigned)(i++ % connection_count), due_ns);
        if (i % connection_count == 0) /* also when questions are late: the answers are there */
            wait_for_answers(0);
    }
    const int64_t give_up_ns = now_ns() + GIVE_UP_NS;
    while (is_waiting() && now_ns() < give_up_ns)
        wait_for_answers(give_up_ns);
    if (is_waiting()) {
        fprintf(stderr, "steady_load: the last answers do not come\n");
        exit(1);
    }
}

static double quantile_us(const struct cdl_histogram_snapshot *snapshot, uint32_t per_million)
{
    return (double)cdl_histogram_quantile_ns(snapshot, per_million) / 1000;
}

int main(int argc, char **argv)
{
    if (argc != 7 || strtoul(argv[4], NULL, 10) < 1 || strtoul(argv[4], NULL, 10) > CONNECTIONS_MAX) {
        fprintf(stderr, "usage: steady_load http|resp PORT REQUEST_FILE CONNECTIONS RATE SECONDS\n");
        return 2;
    }
    static struct cdl_histogram_snapshot of_times, of_delays;
    const double rate = strtod(argv[5], NULL), seconds = strtod(argv[6], NULL);
    is_http = strcmp(argv[1], "http") == 0;
    connection_count = (unsigned)strtoul(argv[4], NULL, 10);
    read_request(argv[3]);
    prctl(PR_SET_TIMERSLACK, 1UL, 0, 0, 0); /* or every wait ends up to 50 us late */
    for (unsigned i = 0; i < connection_count; i++)
        sockets[i] = (struct pollfd){.fd = connect_to(argv[2]), .events = POLLIN};
    run(rate, seconds);
    cdl_histogram_add(&of_times, &times);
    cdl_histogram_add(&of_delays, &delays);
    printf("{\"per_second\": %.1f, \"p50_us\": %.2f, \"p90_us\": %.2f, \"p99_us\": %.2f, \"p999_us\": %.2f, "
           "\"p9999_us\": %.2f, \"driver_p99_us\": %.2f}\n",
           (double)counted / (seconds * 0.9), quantile_us(&of_times, 500000), quantile_us(&of_times, 900000),
           quantile_us(&of_times, 990000), quantile_us(&of_times, 999000), quantile_us(&of_times, 999900),
           quantile_us(&of_delays, 990000));
    return 0;
}
