/* A way for python to limits that come with each call, which no public function knows: what test_per_call.py calls through ctypes, and
 * nothing more. It has a library of its own inside, hidden. */
#include "store/call.h"

#define SHOWN __attribute__((visibility("default")))

struct door {
    struct caudal_store *store;
    uint32_t id;
};

SHOWN int door_open(const char *url, struct door *door);
SHOWN void door_close(struct door *door);
/* The status; the instant is the caller's. */
SHOWN int door_ask(struct door *door, const struct caudal_request *request, int operation, uint64_t minimum,
                   uint64_t maximum, const struct caudal_limit *limit, int64_t now_ns,
                   struct caudal_decision *decision);

int door_open(const char *url, struct door *door)
{
    const int status = caudal_store_open(url, NULL, &door->store, NULL);
    return status == CAUDAL_OK ? cdl_add_per_call_limit(door->store, "per call", &door->id, NULL) : status;
}

void door_close(struct door *door)
{
    caudal_store_close(door->store);
}

int door_ask(struct door *door, const struct caudal_request *request, int operation, uint64_t minimum, uint64_t maximum,
             const struct caudal_limit *limit, int64_t now_ns, struct caudal_decision *decision)
{
    struct caudal_request asked = *request;
    asked.limit = door->id;
    const struct cdl_question question = {
        .operation = (enum cdl_operation)operation, .minimum = minimum, .maximum = maximum, .limit = limit};
    struct cdl_call call = {
        .requests = &asked, .questions = &question, .decisions = decision, .count = 1, .now_ns = &now_ns};
    return cdl_store_ask(door->store, NULL, &call) ? call.status : CAUDAL_ERR_STORE;
}
