/* The book by itself, as a loop's client: the smallest thing that does what book.h says. The lease store's own client cannot be told an answer
 * twice, for the store behind it never does that; here each answer to an errand is repeated now and then, later, and in any order,
 * as a protocol without connections would deliver it. */
#ifndef TESTS_SIMULATION_BARE_CLIENT_H
#define TESTS_SIMULATION_BARE_CLIENT_H

#include "instances.h"

struct cdl_store_client *bare_client_open(struct instance *instance, const struct cdl_loop_hooks *hooks);

#endif
