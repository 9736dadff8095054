#include "resp_client.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "resp_words.h"
#include "server_bed.h"
#include "wire/resp_reply.h"

#define REPLY_BYTES ((size_t)512 * 1024)

static char received[REPLY_BYTES];
static size_t received_length;

void resp_say(int fd, const char *command)
{
    char text[4096];
    struct cdl_writer writer = cdl_writer_on(text, sizeof text);
    size_t count = 0;
    for (const char *at = command; *at != '\0'; at += strcspn(at, " "), at += strspn(at, " "))
        count++;
    cdl_writef(&writer, "*%zu\r\n", count);
    for (const char *at = command; *at != '\0'; at += strspn(at, " ")) {
        const size_t length = strcspn(at, " ");
        cdl_writef(&writer, "$%zu\r\n%.*s\r\n", length, (int)length, at);
        at += length;
    }
    assert_false(writer.overflow);
    bed_say(fd, cdl_written(&writer));
}

bool resp_receive(int fd)
{
    const ssize_t got = recv(fd, received + received_length, sizeof received - received_length, 0);
    assert_true(got >= 0 || errno == EAGAIN);
    received_length += got > 0 ? (size_t)got : 0;
    if (got < 0)
        bed_turn();
    return got != 0;
}

const char *resp_reply(int fd)
{
    static char words[REPLY_BYTES];
    struct cdl_resp_meter meter = {0};
    size_t length = 0;
    enum cdl_resp_result result = CDL_RESP_MORE;
    for (unsigned i = 0; i < BED_PATIENCE && result == CDL_RESP_MORE; i++) {
        result = cdl_resp_measure(&meter, (struct cdl_slice){received, received_length}, &length);
        if (result == CDL_RESP_MORE && !resp_receive(fd))
            fail_msg("the connection ends after '%.*s'", (int)received_length, received);
    }
    assert_int_equal(result, CDL_RESP_READY);
    struct cdl_writer writer = cdl_writer_on(words, sizeof words - 1);
    struct cdl_slice rest = {received, length};
    resp_words(&writer, &rest);
    assert_false(writer.overflow);
    words[writer.length] = '\0';
    memmove(received, received + length, received_length - length);
    received_length -= length;
    return words;
}

void resp_assert_reply(int fd, const char *wanted)
{
    assert_string_equal(resp_reply(fd), wanted);
}

void resp_assert_has(int fd, const char *wanted)
{
    const char *reply = resp_reply(fd);
    if (strstr(reply, wanted) == NULL)
        fail_msg("no '%s' in %s", wanted, reply);
}

void resp_assert_ends(int fd)
{
    for (unsigned i = 0; i < BED_PATIENCE && resp_receive(fd); i++)
        ;
    assert_int_equal(received_length, 0);
    close(fd);
}

void resp_ask(int fd, const char *command, const char *wanted)
{
    resp_say(fd, command);
    resp_assert_reply(fd, wanted);
}

void resp_begin(void)
{
    received_length = 0;
}

bool resp_has_received(void)
{
    return received_length > 0;
}
