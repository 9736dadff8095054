/* What a request target, a query and a Cookie header say, each in one spelling, so that one resource has one bucket.
 *
 * One normalisation of paths, before matching and before keying:
 *   - the query and fragment are cut off; "http://host" in front of an absolute-form target is cut off;
 *   - %41 and the like are decoded when they stand for a byte that a segment may hold as it is (RFC 3986, pchar: unreserved
 *     characters and !$&'()*+,;=:@); other escapes keep their two digits, in upper case, so %2F never becomes a separator;
 *   - runs of '/' are one; "." and ".." segments are resolved (never above the root); a final '/' is dropped, but for the root;
 *   - bytes that may not stand in a path are escaped, also a '%' that begins no escape; the case of letters is kept.
 *
 * RFC 3986 (2.2) lets %3A and ':' name two resources, but most routers decode before they route, and a client that could choose a
 * spelling would have a second bucket, or pass by a rule for /v1/items:batch. Two resources that do differ so share a bucket.
 */
#ifndef CDL_IDENTITY_PATH_H
#define CDL_IDENTITY_PATH_H

#include "base/writer.h"

/* Writes the normalised path of a request target. False when it has no path ("*", an authority, an absolute form without a
 * host), or when it does not fit the writer, before a later ".." shortens it, which sets `overflow`: the writer then holds nothing
 * new. Idempotent. At most three bytes are written for one of the target, and one for an empty path. */
bool cdl_path_normalise(struct cdl_slice target, struct cdl_writer *path);

/* The n-th segment, from 1; empty when there is none. `path` is normalised. */
struct cdl_slice cdl_path_segment(struct cdl_slice path, unsigned n);

/* The query of a request target, without '?' and fragment; empty when it has none. */
struct cdl_slice cdl_target_query(struct cdl_slice target);

/* The value of a query parameter, still escaped; false when it is absent, and *value is as it was. `name` is plain: an escape in
 * the query's names is decoded to compare. The first one counts; one without '=' is empty. */
bool cdl_query_find(struct cdl_slice query, struct cdl_slice name, struct cdl_slice *value);

/* Writes the bytes that a form's value stands for: escapes and '+' decoded, a '%' that begins no escape kept. Use it before a value is
 * matched or keyed, or each spelling of one value has its own bucket. False when it does not fit, as above. */
bool cdl_query_decode(struct cdl_slice value, struct cdl_writer *decoded);

/* The value of a cookie in a Cookie header's value (RFC 6265, 4.2.1), without the quotes that it may stand in; false when it is
 * absent, and *value is as it was. The first one counts. */
bool cdl_cookie_find(struct cdl_slice header, struct cdl_slice name, struct cdl_slice *value);

/* A target without the "http://host" of the absolute form. */
struct cdl_slice cdl_target_without_origin(struct cdl_slice target);

/* A host in the spelling that policies match: lower case, without port. */
struct cdl_slice cdl_host_spell(struct cdl_slice host, struct cdl_writer *scratch);

#endif
