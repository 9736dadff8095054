/* A file of a policy, whole, in memory. */
#ifndef CDL_POLICY_SOURCE_H
#define CDL_POLICY_SOURCE_H

#include "base/slice.h"
#include "caudal/store.h"

/* Reads one byte more than YAML may have, at most, so that a file that is too long is known for it. False: *why says so in words. */
bool cdl_source_read(const char *path, const struct caudal_allocator *allocator, struct cdl_slice *text,
                     const char **why);
/* NULL bytes do nothing. */
void cdl_source_free(const struct caudal_allocator *allocator, struct cdl_slice text);

#endif
