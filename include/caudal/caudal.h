/* caudal: exact rate limiting. Include this file; link with `pkg-config --cflags --libs caudal`. */
#ifndef CAUDAL_CAUDAL_H
#define CAUDAL_CAUDAL_H

#include "clock.h"
#include "key.h"
#include "limit.h"
#include "status.h"
#include "store.h"

#endif
