/* The parts of a key that caudal_key_join made, one after another. */
#ifndef CDL_IDENTITY_KEY_PARTS_H
#define CDL_IDENTITY_KEY_PARTS_H

#include "base/slice.h"

/* Takes the first part off a key: a netstring, "LENGTH:BYTES,". False: the key is at its end, or is none. */
bool cdl_key_next_part(struct cdl_slice *key, struct cdl_slice *part);

#endif
