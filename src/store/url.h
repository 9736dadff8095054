/* URLs of stores: taken apart, their parameters read, and shown without what is secret in them.
 *
 *     scheme:[//[user[:password]@][host[:port],…]][path][?name=value&…]
 *
 * A part that holds one of the bytes that separate parts writes it as %XX. '@' stands once at most, before the hosts: where else it
 * stands, part of a password may have been taken for something that can be shown. */
#ifndef CDL_STORE_URL_H
#define CDL_STORE_URL_H

#include <stdint.h>

#include "base/slice.h"
#include "base/writer.h"
#include "caudal/status.h"

#define CDL_URL_MAX 4096u /* bytes of a URL */

/* The parts of a URL, borrowed from it and not decoded. Every %XX in them is right, none is %00, and no byte is a control character. */
struct cdl_url {
    struct cdl_slice scheme; /* without ':' */
    bool has_authority, has_user, has_password;
    struct cdl_slice user, password;
    struct cdl_slice hosts;      /* a list joined by commas: see cdl_url_next_host */
    struct cdl_slice path;       /* from its '/' on */
    struct cdl_slice parameters; /* what follows '?' */
};

/* CAUDAL_OK or CAUDAL_ERR_SYNTAX; the message shows nothing of the URL. */
int cdl_url_split(const char *text, struct cdl_url *url, struct caudal_problem *problem);

/* "name", "name:port", "[v6]:port" or ":port". */
struct cdl_url_host {
    struct cdl_slice name; /* without brackets; may be empty */
    uint16_t port;         /* 0: not said */
};

/* Reads the first of a list, and moves past it and its comma. Returns NULL, or what is wrong, and then `list` begins with it. */
const char *cdl_url_next_host(struct cdl_slice *list, struct cdl_url_host *host);

/* A name=value as it stands in a URL. */
struct cdl_url_parameter {
    struct cdl_slice name, value;
};

/* Reads the first of a list joined by '&', and moves past it. False: there is none. */
bool cdl_url_next_parameter(struct cdl_slice *list, struct cdl_url_parameter *parameter);

/* One decimal number that fills `text`. */
bool cdl_url_read_number(struct cdl_slice text, uint64_t *number);

/* Writes a part of a cdl_url with its %XX replaced by what they stand for. */
void cdl_url_decode(struct cdl_slice part, struct cdl_writer *out);

struct cdl_url_number {
    const char *name;
    uint64_t least, most;
    uint64_t *value; /* left alone when the parameter is absent */
};

/* Reads `parameters` (NUL-terminated; empty is fine), which stand at `position` of the URL and are all numbers. Each name may occur
 * once. */
int cdl_url_numbers(const char *parameters, size_t position, const struct cdl_url_number *numbers, size_t count,
                    struct caudal_problem *problem);

/* Whether the URL has that parameter. */
bool cdl_store_url_has(const char *url, const char *parameter);

/* Writes a URL for logs and messages: its password, or whoever stands alone before '@', as ***, and of its parameters only those that
 * never hold a secret. Of one that is not understood no more than the scheme is shown: a password may be anywhere in it. */
void cdl_store_url_mask(const char *url, struct cdl_writer *out);

#endif
