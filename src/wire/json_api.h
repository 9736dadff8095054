/* The bodies of the JSON API: questions in, decisions and problems out. What they mean to a policy is not known here.
 *
 *     {"attributes": {"client_ip": "203.0.113.7", "method": "GET", "path": "/x"}, "cost": 2}
 *     {"limit": "per-client", "key": "203.0.113.7"}
 *     {"limit": "per-tenant-and-user", "key": ["acme", "bob"], "cost": 5}
 *     {"requests": [ any of the above, 1 to 256 of them ]}
 *
 * A key that is not known, one that is given twice, a value of another type: each is an error that names it. "key" as a string is
 * short for a list of one part; it is left away for a limit that is not counted by anything. Without "cost" the policy
 * decides, or, under a limit by its name, it is 1. Strings may hold "\u0000": it is a byte like others, but for the name of a limit.
 */
#ifndef CDL_WIRE_JSON_API_H
#define CDL_WIRE_JSON_API_H

#include "base/writer.h"
#include "caudal/store.h"

#define CDL_JSON_BODY_MAX (1u << 20)
#define CDL_JSON_BATCH_MAX 256
#define CDL_JSON_ATTRIBUTES_MAX 64
#define CDL_JSON_KEY_PARTS_MAX 16

/* ---- questions ---- */

/* Slices lie in the body that was parsed, until it is freed. */
struct cdl_json_request {
    struct cdl_slice limit; /* empty: the policy decides, by the attributes */
    struct cdl_slice key_parts[CDL_JSON_KEY_PARTS_MAX];
    size_t key_part_count;
    struct cdl_field attributes[CDL_JSON_ATTRIBUTES_MAX];
    size_t attribute_count;
    bool has_cost;
    uint64_t cost; /* 1 when there is none */
};

struct cdl_json_body {
    struct json_t *root;
    size_t count;  /* requests in it */
    bool is_batch; /* answered by a list, even if it has one request only */
};

/* Checks all of a body. CAUDAL_OK, and cdl_json_free is due; or CAUDAL_ERR_SYNTAX, CAUDAL_ERR_KEY (a key of more than
 * CAUDAL_KEY_MAX bytes) or CAUDAL_ERR_MEMORY with the reason in `problem`, whose position is that of an error in the JSON
 * itself. Memory is in proportion to the body; jansson does not always tell the want of it from a fault of the text. */
int cdl_json_parse(struct cdl_slice text, struct cdl_json_body *body, struct caudal_problem *problem);

/* One of the body's requests, from 0. */
void cdl_json_request(const struct cdl_json_body *body, size_t index, struct cdl_json_request *request);

/* NULL and an all-zero body do nothing. */
void cdl_json_free(struct cdl_json_body *body);

/* ---- decisions ---- */

struct cdl_json_decision {
    struct cdl_slice limit; /* its name; bytes NULL: none is to be named */
    const struct caudal_decision *decision;
};

/* Writes an object:
 *
 *     {"verdict":"deny","limit":"per-client","remaining":0,"capacity":100,"granted":0,"retry_after":1,
 *      "retry_after_ns":600000000,"reset_after_ns":60000000000,"source":"store","error_bound":0,"limits":[{...}]}
 *
 * The first members tell the limit that binds, "limits" tells every one that applied, in the same words. "retry_after" is whole
 * seconds, rounded up. null stands for what has no number: the capacity of an unlimited limit, a wait that does not end. A
 * decision without a verdict is {"error":"...","limit":"per-client"}. */
void cdl_json_write_decision(struct cdl_writer *writer, const struct cdl_json_decision *overall,
                             const struct cdl_json_decision *limits, size_t limit_count);

/* Around the decisions of a batch: {"decisions":[...]}. cdl_json_next comes before each of them. */
void cdl_json_begin_batch(struct cdl_writer *writer);
void cdl_json_next(struct cdl_writer *writer, size_t index);
void cdl_json_end_batch(struct cdl_writer *writer);

/* ---- problems (RFC 9457, application/problem+json) ---- */

/* That a quota is exceeded, in the type of draft-ietf-httpapi-ratelimit-headers. `limits` are all that applied; those that refuse are
 * the violated policies, under the names that stand in the RateLimit fields. `retry_after_s` is that of the Retry-After field. */
void cdl_json_write_refusal(struct cdl_writer *writer, unsigned status, const struct cdl_json_decision *overall,
                            const struct cdl_json_decision *limits, size_t limit_count, uint64_t retry_after_s);

/* Any other problem, of type about:blank, in words. */
void cdl_json_write_problem(struct cdl_writer *writer, unsigned status, struct cdl_slice detail);

/* ---- words ---- */

/* A string with its quotes. What is not UTF-8 becomes U+FFFD. */
void cdl_json_write_string(struct cdl_writer *writer, struct cdl_slice text);

const char *cdl_verdict_word(enum caudal_verdict verdict); /* "allow", "deny", "never"; "none" */
const char *cdl_source_word(enum caudal_source source);    /* "store", "lease", "deny_cache", ... */

#endif
