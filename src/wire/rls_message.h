/* The messages of Envoy's rate limit service and of gRPC's health checks, as bytes of protobuf.
 *
 * Memory is bounded by who calls: what a message is read into is one piece of memory of fixed size, and a message that would need
 * more is an error. Nothing is allocated beside it, but for metadata, which is JSON. */
#ifndef CDL_WIRE_RLS_MESSAGE_H
#define CDL_WIRE_RLS_MESSAGE_H

#include "base/writer.h"
#include "caudal/status.h"
#include "wire/descriptor.h"

#define CDL_RLS_MESSAGE_MAX 65536u /* bytes of a request */
#define CDL_RLS_HEADERS_MAX 8u

/* What messages are read into and put together in, one behind the other, until `used` is set back. */
struct cdl_message_memory {
    char *bytes; /* aligned for anything */
    size_t size, used;
    bool full; /* it has been found too small */
};

/* Enough for a request of CDL_RLS_MESSAGE_MAX bytes within the bounds of wire/descriptor.h, and for what answers it. */
#define CDL_RLS_MEMORY_BYTES ((size_t)1024 * 1024)

/* Zeroed; NULL, and `full`, when there is no room. */
void *cdl_message_allocate(struct cdl_message_memory *memory, size_t count, size_t size);
/* Room for bytes of a length that is not known: half of what is left. */
struct cdl_writer cdl_message_writer(struct cdl_message_memory *memory);

/* ---- RateLimitRequest ---- */

/* Reads and checks a request, which lives in `memory`. CAUDAL_ERR_SYNTAX for what it is not, with the reason in `problem`, which names
 * the field. */
int cdl_rls_request_read(struct cdl_slice bytes, struct cdl_message_memory *memory,
                         struct cdl_descriptor_request *request, struct caudal_problem *problem);

/* What is asked of every request, whatever it came in. Codes and problem as cdl_rls_request_read. */
int cdl_rls_request_check(const struct cdl_descriptor_request *request, struct caudal_problem *problem);

/* ---- RateLimitResponse ---- */

struct cdl_rls_status {
    bool over_limit; /* else OK */
    bool has_limit;  /* the next three are told */
    uint32_t requests_per_unit;
    enum cdl_unit unit; /* CDL_UNIT_UNKNOWN: its period is no unit */
    struct cdl_slice name;
    uint32_t remaining;
    bool has_reset;
    uint64_t reset_s;
};

struct cdl_rls_response {
    bool over_limit;
    size_t status_count, header_count;
    struct cdl_rls_status statuses[CDL_DESCRIPTORS_MAX];
    struct cdl_field headers[CDL_RLS_HEADERS_MAX]; /* to add to the answer that the proxy's client gets */
    struct cdl_slice metadata;                     /* the text of a JSON object; empty: none */
};

/* Appends the message. False: `memory` or `output` is too small for it, or the metadata is no JSON; then nothing is appended. */
bool cdl_rls_response_write(const struct cdl_rls_response *response, struct cdl_message_memory *memory,
                            struct cdl_writer *output);

/* ---- health ---- */

enum cdl_health {
    CDL_HEALTH_UNKNOWN,
    CDL_HEALTH_SERVING,
    CDL_HEALTH_NOT_SERVING,
    CDL_HEALTH_SERVICE_UNKNOWN, /* told by Watch only */
};

/* The name of the service that is asked about; it lives in `memory`. Codes as cdl_rls_request_read. */
int cdl_health_request_read(struct cdl_slice bytes, struct cdl_message_memory *memory, struct cdl_slice *service,
                            struct caudal_problem *problem);
void cdl_health_response_write(enum cdl_health health, struct cdl_writer *output);

#endif
