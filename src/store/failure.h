/* What can come of asking a store that lives elsewhere, other than a decision. Each is counted by its name:
 * caudal_store_events_total{event="…"}. Some are healed on the way and cost a call nothing but time (a redirection, a script that was
 * forgotten); the others are why a call failed. */
#ifndef CDL_STORE_FAILURE_H
#define CDL_STORE_FAILURE_H

#include <stdatomic.h>
#include <stdint.h>

#include "base/slice.h"

enum cdl_store_event {
    CDL_STORE_NONE,
    /* The way there. */
    CDL_STORE_RESOLVE,    /* a host name was not found */
    CDL_STORE_CONNECT,    /* nobody answers there, or connecting takes too long */
    CDL_STORE_TLS,        /* the handshake failed, or the certificate is not to be trusted */
    CDL_STORE_LOST,       /* a connection broke; calls in flight may or may not have been executed */
    CDL_STORE_PROTOCOL,   /* bytes that are no reply */
    CDL_STORE_TIMEOUT,    /* a call passed its deadline; it may still be executed */
    CDL_STORE_BREAKER,    /* failed at once, because the store is known to be away */
    CDL_STORE_OVERLOAD,   /* failed at once, because as much is in flight as may be */
    CDL_STORE_CLOSED,     /* the client was closed with the call in flight */
    CDL_STORE_NO_PRIMARY, /* sentinels name none, or the one they name is a replica */
    /* Replies that prove that nothing was executed. */
    CDL_STORE_NOSCRIPT,
    CDL_STORE_MOVED,
    CDL_STORE_ASK,
    CDL_STORE_TRYAGAIN,
    CDL_STORE_CLUSTERDOWN,
    CDL_STORE_LOADING,
    CDL_STORE_READONLY,
    CDL_STORE_MASTERDOWN,
    CDL_STORE_BUSY,
    CDL_STORE_OOM,
    CDL_STORE_NOAUTH,
    CDL_STORE_WRONGPASS,
    CDL_STORE_NOPERM,
    CDL_STORE_NOREPLICAS,
    CDL_STORE_CROSSSLOT,
    /* Replies that prove nothing. */
    CDL_STORE_ERROR,    /* any other error */
    CDL_STORE_ANSWER,   /* a reply of another shape than the script's */
    CDL_STORE_REPLICAS, /* executed, but too few replicas have confirmed it */
    /* Of keys. */
    CDL_STORE_HEALED,    /* a key under our name held something foreign or had no expiry */
    CDL_STORE_GIVE_BACK, /* what another slot refused could not be given back: it stays spent */
    /* Of connections. */
    CDL_STORE_CONNECTED, /* a connection was made and greeted */
    CDL_STORE_EVENTS,
};

struct cdl_store_events {
    _Atomic uint64_t counts[CDL_STORE_EVENTS];
};

/* "timeout"; for an unknown number "none". */
const char *cdl_store_event_name(enum cdl_store_event event);
/* In words, for a person: "no answer before the deadline". */
const char *cdl_store_event_text(enum cdl_store_event event);
/* What a server's error reply says, by the code that it begins with; of an error that a script raised, by the code of the command that
 * failed in it. CDL_STORE_ERROR for a code that is not ours. */
enum cdl_store_event cdl_store_event_of_error(struct cdl_slice error);

static inline void cdl_store_event_count(struct cdl_store_events *events, enum cdl_store_event event)
{
    atomic_fetch_add_explicit(&events->counts[event], 1, memory_order_relaxed);
}

#endif
