/* One normalisation of paths, before matching and before keying, so that one resource has one bucket:
 *   - the query and fragment are cut off; "http://host" in front of an absolute-form target is cut off;
 *   - %41 and the like are decoded when they stand for an unreserved character (RFC 3986, 2.3); other escapes keep their two digits,
 *     in upper case, so %2F never becomes a separator;
 *   - runs of '/' are one; "." and ".." segments are resolved (never above the root); a final '/' is dropped, but for the root;
 *   - bytes that may not stand in a path are escaped; the case of letters is kept.
 */
#ifndef CDL_IDENTITY_PATH_H
#define CDL_IDENTITY_PATH_H

#include "base/writer.h"

/* Writes the normalised path of a request target. False when it does not fit the writer or has no path ("*", an authority): the
 * writer then holds nothing new. Idempotent. */
bool cdl_path_normalise(struct cdl_slice target, struct cdl_writer *path);

/* The n-th segment, from 1; empty when there is none. `path` is normalised. */
struct cdl_slice cdl_path_segment(struct cdl_slice path, unsigned n);

/* The value of a query parameter, still escaped; false when it is absent. The first one counts. */
bool cdl_query_find(struct cdl_slice query, struct cdl_slice name, struct cdl_slice *value);

/* The value of a cookie in a Cookie header's value (RFC 6265, 4.2.1); false when it is absent. The first one counts. */
bool cdl_cookie_find(struct cdl_slice header, struct cdl_slice name, struct cdl_slice *value);

#endif
