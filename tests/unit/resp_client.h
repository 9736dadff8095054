/* A Redis client of the server in server_bed.h: commands in words, replies in the words of resp_words.h. Clients are heard one after the other: what
 * has come of one is read to its end before another is heard. */
#ifndef TESTS_UNIT_RESP_CLIENT_H
#define TESTS_UNIT_RESP_CLIENT_H

#include <stdbool.h>

/* What is asked of most servers of these tests. */
#define RESP_LIMITS                                                                                                    \
    "limits:\n  - {name: one, per: [client_ip], rate: 3/min}\n"                                                        \
    "  - {name: pair, per: [tenant, user], if_missing: skip, rate: 10/hour}\n"                                         \
    "  - {name: all, when: {path: /x}, rate: 2/hour}\n"

/* Before the first of a test. */
void resp_begin(void);
/* Says a command whose words are separated by blanks, as clients do. */
void resp_say(int fd, const char *command);
/* Receives what is there, or else lets the server have its turn; false at the end. */
bool resp_receive(int fd);
/* Whether anything has been received that was not read as a reply. */
bool resp_has_received(void);
/* The next reply in words. */
const char *resp_reply(int fd);
void resp_assert_reply(int fd, const char *wanted);
void resp_assert_has(int fd, const char *wanted);
/* That nothing more comes but the end; closes the client. */
void resp_assert_ends(int fd);
/* Says it and hears that. */
void resp_ask(int fd, const char *command, const char *wanted);

#endif
