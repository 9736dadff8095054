/* Traffic that nobody had: requests of so many clients by a pattern, as records in order of time. The same seed gives the same
 * requests on every machine.
 *
 * Clients are numbered from 1. Client n has the address 10.0.0.0 + n.
 *
 *   steady       Each client sends one request every 1/rate seconds, all of them evenly one after the other: its place in this distance is
 *                one of so many as there are clients, and with each a bit that is random. So the load is steady, too.
 *   burst        The same, but that each client sends `burst` requests at one instant, every burst/rate seconds.
 *   edge         Around an edge of `period_ns`, aligned to 1970, every client sends `quota` requests before it and `quota` from it on, each
 *                within 5 ms (or a quarter of a period that is shorter than 20 ms), evenly and in turn. That is done at as many edges as
 *                give the rate on average, at the same distance as far as edges allow, and never at neighbours: in no window does a
 *                client send more than `quota`, and twice that within 10 ms. The first such edge is the first in the time, and one that
 *                is not there with both its sides is left out. A rate above quota/period_ns is out of range.
 *   poisson      Each client sends at random, independently: the time to its next request has an exponential distribution.
 *   flash-crowd  The same, but that only a tenth of the clients (rounded up; those with the smallest numbers) are there in the first and in
 *                the last third of the time. In the middle third all are, at once from its first to its last nanosecond. Who is there
 *                sends at the rate. */
#ifndef CDL_REPLAY_GENERATE_H
#define CDL_REPLAY_GENERATE_H

#include "caudal/limit.h"
#include "wire/access_log.h"

enum cdl_traffic_pattern {
    CDL_TRAFFIC_STEADY, /* what each is: above */
    CDL_TRAFFIC_BURST,
    CDL_TRAFFIC_EDGE,
    CDL_TRAFFIC_POISSON,
    CDL_TRAFFIC_FLASH_CROWD,
};

#define CDL_TRAFFIC_CLIENTS_MAX 10000000u
#define CDL_TRAFFIC_RATE_MIN 0.000001
#define CDL_TRAFFIC_RATE_MAX 1000000.0
#define CDL_TRAFFIC_COUNT_MAX UINT32_MAX           /* of burst and quota */
#define CDL_TRAFFIC_PERIOD_MIN_NS INT64_C(1000000) /* of edges */

struct cdl_traffic {
    enum cdl_traffic_pattern pattern;
    uint64_t clients; /* 1 to CDL_TRAFFIC_CLIENTS_MAX */
    double rate;      /* requests a second of each client, on average; CDL_TRAFFIC_RATE_MIN to CDL_TRAFFIC_RATE_MAX */
    int64_t duration_ns; /* above 0, to 100 years */
    int64_t begin_ns;    /* since 1970, not before it; the first request is not before it */
    uint64_t seed;
    uint64_t burst;                        /* of CDL_TRAFFIC_BURST, at least 1 */
    uint64_t quota;                        /* of CDL_TRAFFIC_EDGE, at least 1 */
    int64_t period_ns;                     /* of CDL_TRAFFIC_EDGE, CDL_TRAFFIC_PERIOD_MIN_NS to 100 years */
    struct cdl_slice method, target, host; /* of all requests */
    const struct cdl_field *headers;       /* of all; "{client}" in a value is the client's number */
    size_t header_count;                   /* at most CDL_ACCESS_HEADERS_MAX */
};

struct cdl_generator;

/* CAUDAL_OK; CAUDAL_ERR_ARGUMENT for what is out of range, and for a time in which there is no edge; CAUDAL_ERR_MEMORY. What `traffic`
 * points to must outlive the generator, whose memory does not grow with the number of clients or requests. */
int cdl_generator_open(const struct cdl_traffic *traffic, struct cdl_generator **generator,
                       struct caudal_problem *problem);
/* NULL does nothing. */
void cdl_generator_close(struct cdl_generator *generator);
/* The next request, or false after the last one. Its slices live until the next call. */
bool cdl_generator_next(struct cdl_generator *generator, struct cdl_access_record *record);

#endif
