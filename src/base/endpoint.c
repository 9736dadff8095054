#include "base/endpoint.h"

#include <sys/un.h>

static bool parse_port(struct cdl_slice text, uint16_t *port)
{
    unsigned sum = 0;
    for (size_t i = 0; i < text.length; i++) {
        if (text.bytes[i] < '0' || text.bytes[i] > '9' || sum > 6553)
            return false;
        sum = sum * 10 + (unsigned)(text.bytes[i] - '0');
    }
    *port = (uint16_t)sum;
    return text.length > 0 && sum <= UINT16_MAX;
}

static const char *parse_unix(struct cdl_slice path, struct cdl_endpoint *endpoint)
{
    if (path.length == 0 || path.bytes[0] != '/')
        return "needs an absolute path after 'unix:'";
    if (path.length >= sizeof((struct sockaddr_un *)0)->sun_path)
        return "has a path longer than a Unix socket can have (107 bytes)";
    *endpoint = (struct cdl_endpoint){.is_unix = true, .path = path};
    return NULL;
}

/* Host names as the resolver takes them; an address is told from a name later, by who opens the socket. */
static bool is_host(struct cdl_slice host, bool bracketed)
{
    for (size_t i = 0; i < host.length; i++) {
        char c = cdl_ascii_lower(host.bytes[i]);
        bool plain = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.' || c == '-' || c == '_';
        if (!plain && !(bracketed && (c == ':' || c == '%')))
            return false;
    }
    return true;
}

/* The length of what stands before the last `wanted`; the whole length when there is none. */
static size_t length_before_last(struct cdl_slice text, char wanted)
{
    for (size_t i = text.length; i > 0; i--)
        if (text.bytes[i - 1] == wanted)
            return i - 1;
    return text.length;
}

static const char *parse_tcp(struct cdl_slice text, struct cdl_endpoint *endpoint)
{
    size_t colon = length_before_last(text, ':'), bracket = length_before_last(text, ']');
    if (colon == text.length || (bracket < text.length && colon < bracket))
        return "has no port; write host:port, [v6]:port, :port or unix:/path";
    struct cdl_slice host = cdl_slice_head(text, colon);
    bool bracketed = host.length >= 2 && host.bytes[0] == '[' && host.bytes[host.length - 1] == ']';
    if (bracketed)
        host = (struct cdl_slice){host.bytes + 1, host.length - 2};
    if (bracketed && host.length == 0)
        return "has nothing between its brackets";
    if (!bracketed && length_before_last(host, ':') < host.length)
        return "is ambiguous; an IPv6 address stands in brackets, as in [::1]:8080";
    if (!is_host(host, bracketed))
        return "has a character that no host name has";
    *endpoint = (struct cdl_endpoint){.host = host};
    if (!parse_port(cdl_slice_from(text, host.length + (bracketed ? 3 : 1)), &endpoint->port))
        return "needs a port from 0 to 65535 after its last ':'";
    return NULL;
}

bool cdl_endpoint_parse(struct cdl_slice text, struct cdl_endpoint *endpoint, const char **why)
{
    struct cdl_slice scheme = CDL_SLICE("unix:");
    if (text.length == 0)
        *why = "is empty; write host:port, [v6]:port, :port or unix:/path";
    else if (text.length >= scheme.length && cdl_slice_equal(cdl_slice_head(text, scheme.length), scheme))
        *why = parse_unix(cdl_slice_from(text, scheme.length), endpoint);
    else
        *why = parse_tcp(text, endpoint);
    return *why == NULL;
}
