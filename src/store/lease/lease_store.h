/* A store that leases: it wraps any other, and passes everything through but questions about limits that are leased, which go by a book
 * first (book.h).
 *
 * A loop's client has a book of its own, and the inner store's client (none, if that answers at once). A call that the book decides is
 * answered by cdl_store_client_try, and so by cdl_store_ask, without a lock and without an allocation. One that has to wait for an errand
 * is kept by the client and decided when the errand is back. Blocking users share books behind locks, by key; errands that nobody
 * waits for are carried out by one thread, the keeper, which is started with the first limit that is leased.
 *
 * Time is the options' clock, and the loop's alarm must be set by the same one: with a clock that is not the system's, alarms of the
 * inner client and of this one are compared as they are.
 *
 * What the wrapped store is asked on behalf of a book are calls of count 1 with for_book set: CDL_TAKE of minimum to maximum, which may be the
 * same, and CDL_UNDO. An undoing names the instant of the charge as the store told it (charged_realtime_ns, from decided_at_ns);
 * charged_monotonic_ns is the asking by this process's own clock, for stores that live here. */
#ifndef CDL_STORE_LEASE_STORE_H
#define CDL_STORE_LEASE_STORE_H

#include "store/call.h"
#include "store/lease/book.h"

#define CDL_LEASE_TTL_MIN_NS INT64_C(1000000)
#define CDL_LEASE_TTL_MAX_NS INT64_C(10000000000)

/* Keys that one book knows at once. */
#define CDL_LEASE_KEYS 4096u

/* Wraps `inner`, which is closed with the store, and when this fails. The options are complete. CAUDAL_OK or CAUDAL_ERR_MEMORY. */
int cdl_lease_store_open(struct caudal_store *inner, const struct caudal_store_options *options,
                         struct caudal_store **store, struct caudal_problem *problem);

/* All books of the store together. Zero for a store without leases. */
static inline void cdl_store_lease_counts(struct caudal_store *store, struct cdl_lease_counts *counts)
{
    *counts = (struct cdl_lease_counts){0};
    if (store->ops->lease_counts != NULL)
        store->ops->lease_counts(store, counts);
}

#endif
