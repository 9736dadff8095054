/* A server of one worker on the loopback interface, put together by hand: the worker, its clients and its store, which answers when a test
 * says so, take turns in one thread. One at a time. */
#ifndef TESTS_UNIT_SERVER_BED_H
#define TESTS_UNIT_SERVER_BED_H

#include "later_store.h"
#include "server/worker.h"

struct bed {
    struct world world;
    struct later_store store;
    struct cdl_server server;
    struct cdl_worker worker;
    uint16_t port;
};
extern struct bed bed;

void bed_open(const struct cdl_protocol *protocol);
/* Fails the test if anything is left. */
void bed_close(void);
/* From now on the store answers within each call. */
void bed_answer_at_once(void);
/* Puts a policy in force. */
void bed_apply(const char *text);

#define BED_PATIENCE 1000000u /* turns; a test that fails must end */
void bed_turn(void);
void bed_turn_a_while(void);
/* Turns until as many calls wait for the store. */
void bed_until_asked(size_t count);

/* A client; its socket does not block. */
int bed_connect(void);
/* One that is gone at once, without a word. */
void bed_reset(int fd);
void bed_say(int fd, struct cdl_slice bytes);
/* Fails if the server has anything to say. */
void bed_assert_silent(int fd);

/* Requests that were counted with this outcome. */
uint64_t bed_counted(enum cdl_counted outcome, enum caudal_source source);

#endif
