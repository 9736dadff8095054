#include "store/url.h"

#include <arpa/inet.h>

#include "base/problem.h"

#define NUMBERS_MAX 32
#define HOST_MAX 255u

/* ---- taking apart ---- */

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* -1: none. */
static int hex_digit(char c)
{
    if (is_digit(c))
        return c - '0';
    const char lower = cdl_ascii_lower(c);
    return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

/* What is wrong with a byte wherever it stands; NULL: nothing. */
static const char *wrong_byte(const char *at)
{
    if ((unsigned char)*at < ' ' || *at == 0x7f)
        return "a control character has no place in a URL";
    if (*at != '%')
        return NULL;
    if (hex_digit(at[1]) < 0 || hex_digit(at[2]) < 0)
        return "a '%' is followed by two hexadecimal digits; for itself it is written %25";
    return at[1] == '0' && at[2] == '0' ? "%00 has no place in a URL of a store" : NULL;
}

/* The bytes of `text` before the first that is one of `ends`. */
static struct cdl_slice before(const char *text, const char *ends)
{
    return (struct cdl_slice){text, strcspn(text, ends)};
}

/* Splits at the first `separator`; false: there is none, and `head` is all of it. */
static bool split_at(struct cdl_slice text, char separator, struct cdl_slice *head, struct cdl_slice *tail)
{
    const char *at = text.length == 0 ? NULL : memchr(text.bytes, separator, text.length);
    const size_t length = at == NULL ? text.length : (size_t)(at - text.bytes);
    *head = cdl_slice_head(text, length);
    *tail = cdl_slice_from(text, length + (at != NULL));
    return at != NULL;
}

static void split_authority(struct cdl_slice authority, struct cdl_url *url)
{
    struct cdl_slice head, tail;
    url->hosts = authority;
    if (!split_at(authority, '@', &head, &tail))
        return;
    url->hosts = tail;
    url->has_password = split_at(head, ':', &url->user, &url->password);
    url->has_user = url->user.length > 0;
}

static bool is_scheme(struct cdl_slice scheme)
{
    for (size_t i = 0; i < scheme.length; i++)
        if ((scheme.bytes[i] < 'a' || scheme.bytes[i] > 'z') && scheme.bytes[i] != '-')
            return false;
    return scheme.length > 0;
}

int cdl_url_split(const char *text, struct cdl_url *url, struct caudal_problem *problem)
{
    const struct cdl_slice none = {text, 0};
    *url = (struct cdl_url){
        .scheme = before(text, ":"), .user = none, .password = none, .hosts = none, .path = none, .parameters = none};
    if (strnlen(text, CDL_URL_MAX + 1) > CDL_URL_MAX)
        return cdl_problem(problem, CAUDAL_ERR_SYNTAX, CDL_URL_MAX, "the URL is longer than %u bytes", CDL_URL_MAX);
    for (const char *at = text; *at != '\0'; at++) {
        const char *wrong = wrong_byte(at);
        if (wrong != NULL)
            return cdl_problem(problem, CAUDAL_ERR_SYNTAX, (size_t)(at - text), "%s", wrong);
    }
    if (text[url->scheme.length] != ':' || !is_scheme(url->scheme))
        return cdl_problem(problem, CAUDAL_ERR_SYNTAX, 0, "a URL begins with a scheme, as in redis://127.0.0.1:6379");
    const char *at = text + url->scheme.length + 1;
    if (strncmp(at, "//", 2) == 0) {
        const struct cdl_slice authority = before(at + 2, "/?");
        url->has_authority = true;
        at = authority.bytes + authority.length;
        split_authority(authority, url);
    }
    url->path = before(at, "?");
    at += url->path.length;
    url->parameters = cdl_slice_of(at + (*at == '?'));
    /* Of two, the first would end a password that the second was meant to end. */
    const char *stray = strchr(url->hosts.bytes, '@');
    if (stray != NULL)
        return cdl_problem(problem, CAUDAL_ERR_SYNTAX, (size_t)(stray - text),
                           "an '@' stands once, before the host; in a user, password, path or value it is written %%40"
                           " (and '/' %%2F, '?' %%3F)");
    return CAUDAL_OK;
}

void cdl_url_decode(struct cdl_slice part, struct cdl_writer *out)
{
    for (size_t i = 0; i < part.length; i++) {
        char byte = part.bytes[i];
        if (byte == '%') {
            byte = (char)(hex_digit(part.bytes[i + 1]) * 16 + hex_digit(part.bytes[i + 2]));
            i += 2;
        }
        cdl_write(out, (struct cdl_slice){&byte, 1});
    }
}

/* ---- hosts ---- */

static bool is_name(struct cdl_slice name)
{
    for (size_t i = 0; i < name.length; i++) {
        const char c = cdl_ascii_lower(name.bytes[i]);
        if ((c < 'a' || c > 'z') && !is_digit(c) && c != '.' && c != '-' && c != '_')
            return false;
    }
    return name.length <= HOST_MAX;
}

static bool is_ipv6(struct cdl_slice name)
{
    char text[INET6_ADDRSTRLEN];
    struct in6_addr address;
    if (name.length >= sizeof text)
        return false;
    memcpy(text, name.bytes, name.length);
    text[name.length] = '\0';
    return inet_pton(AF_INET6, text, &address) == 1;
}

static bool read_port(struct cdl_slice text, uint16_t *port)
{
    uint64_t number;
    if (!cdl_url_read_number(text, &number) || number < 1 || number > UINT16_MAX)
        return false;
    *port = (uint16_t)number;
    return true;
}

const char *cdl_url_next_host(struct cdl_slice *list, struct cdl_url_host *host)
{
    struct cdl_slice item, rest, port;
    const bool more = split_at(*list, ',', &item, &rest);
    if (more && (item.length == 0 || rest.length == 0))
        return "a list of hosts has no empty places";
    *host = (struct cdl_url_host){.port = 0};
    bool has_port;
    if (item.length > 0 && item.bytes[0] == '[') {
        const bool closed = split_at(cdl_slice_from(item, 1), ']', &host->name, &port);
        if (!closed || !is_ipv6(host->name))
            return "what stands in brackets is not an IPv6 address, as in [::1]:6379";
        has_port = port.length > 0;
        if (has_port && port.bytes[0] != ':')
            return "after the brackets of an address comes ':' and a port, or nothing";
        port = cdl_slice_from(port, has_port);
    } else {
        has_port = split_at(item, ':', &host->name, &port);
        if (!is_name(host->name))
            return "this is not the name or address of a host";
    }
    if (has_port && !read_port(port, &host->port))
        return "after the ':' of a host comes a port, 1 to 65535; an IPv6 address stands in brackets";
    *list = rest;
    return NULL;
}

/* ---- parameters ---- */

bool cdl_url_read_number(struct cdl_slice text, uint64_t *value)
{
    uint64_t number = 0;
    for (size_t i = 0; i < text.length; i++)
        if (!is_digit(text.bytes[i]) || __builtin_mul_overflow(number, UINT64_C(10), &number) ||
            __builtin_add_overflow(number, (uint64_t)(text.bytes[i] - '0'), &number))
            return false;
    *value = number;
    return text.length > 0;
}

bool cdl_url_next_parameter(struct cdl_slice *list, struct cdl_url_parameter *parameter)
{
    struct cdl_slice item;
    if (list->length == 0)
        return false;
    split_at(*list, '&', &item, list);
    split_at(item, '=', &parameter->name, &parameter->value);
    return true;
}

static const struct cdl_url_number *by_name(const struct cdl_url_number *numbers, size_t count, struct cdl_slice name)
{
    for (size_t i = 0; i < count; i++)
        if (cdl_slice_equal(cdl_slice_of(numbers[i].name), name))
            return &numbers[i];
    return NULL;
}

int cdl_url_numbers(const char *parameters, size_t position, const struct cdl_url_number *numbers, size_t count,
                    struct caudal_problem *problem)
{
    bool seen[NUMBERS_MAX] = {false};
    struct cdl_slice list = cdl_slice_of(parameters);
    struct cdl_url_parameter parameter;
    while (cdl_url_next_parameter(&list, &parameter)) {
        const struct cdl_slice name = parameter.name;
        const size_t where = position + (size_t)(name.bytes - parameters);
        const struct cdl_url_number *number = by_name(numbers, count, name);
        if (number == NULL)
            return cdl_problem(problem, CAUDAL_ERR_SYNTAX, where, "unknown parameter '%.*s'",
                               (int)(name.length < 40 ? name.length : 40), name.bytes);
        if (seen[number - numbers])
            return cdl_problem(problem, CAUDAL_ERR_SYNTAX, where, "parameter '%s' is given twice", number->name);
        seen[number - numbers] = true;
        uint64_t value;
        if (!cdl_url_read_number(parameter.value, &value) || value < number->least || value > number->most)
            return cdl_problem(problem, CAUDAL_ERR_SYNTAX, position + (size_t)(parameter.value.bytes - parameters),
                               "parameter '%s' wants a whole number from %llu to %llu", number->name,
                               (unsigned long long)number->least, (unsigned long long)number->most);
        *number->value = value;
    }
    return CAUDAL_OK;
}

bool cdl_store_url_has(const char *url, const char *name)
{
    struct cdl_url parts;
    if (cdl_url_split(url, &parts, NULL) != CAUDAL_OK)
        return false;
    struct cdl_url_parameter parameter;
    while (cdl_url_next_parameter(&parts.parameters, &parameter))
        if (cdl_slice_equal(parameter.name, cdl_slice_of(name)))
            return true;
    return false;
}

/* ---- showing ---- */

enum shape {
    NOTHING,  /* no hosts and no path */
    A_FILE,   /* a path, and no hosts */
    NUMBERED, /* hosts, and perhaps a number as path */
    NAMED,    /* hosts and a path */
};

static const struct {
    const char *name;
    enum shape shape;
} schemes[] = {
    {"memory", NOTHING}, {"redis", NUMBERED},       {"rediss", NUMBERED},
    {"unix", A_FILE},    {"redis-sentinel", NAMED}, {"redis-cluster", NUMBERED},
};
#define SCHEME_COUNT (sizeof schemes / sizeof schemes[0])

/* What can be shown whatever its value. */
static const char *const harmless[] = {
    "breaker",     "clients", "connect_timeout", "connections", "db",       "deadline",   "in_flight",     "keys",
    "log_entries", "prefix",  "protocol",        "tls",         "tls_name", "tls_verify", "wait_replicas", "wide_keys",
};

static bool is_number_or_empty(struct cdl_slice path)
{
    uint64_t number;
    return path.length <= 1 || cdl_url_read_number(cdl_slice_from(path, 1), &number);
}

/* Whether each part is what it seems to be, so that none is a password that went astray. */
static bool is_clear(const struct cdl_url *url, enum shape shape)
{
    struct cdl_slice hosts = url->hosts;
    struct cdl_url_host host;
    while (hosts.length > 0)
        if (cdl_url_next_host(&hosts, &host) != NULL)
            return false;
    switch (shape) {
    case NOTHING:
        return !url->has_authority && url->path.length == 0;
    case A_FILE:
        return url->hosts.length == 0 && url->path.length > 0 && url->path.bytes[0] == '/';
    case NUMBERED:
        return url->has_authority && is_number_or_empty(url->path);
    case NAMED:
        break;
    }
    return url->has_authority;
}

static void show_credentials(const struct cdl_url *url, struct cdl_writer *out)
{
    if (url->has_user && url->has_password) {
        cdl_write(out, url->user);
        cdl_write_text(out, ":");
    }
    if (url->has_user || url->has_password)
        cdl_write_text(out, "***@");
}

static void show_parameters(struct cdl_slice list, struct cdl_writer *out)
{
    const char *joint = "?";
    struct cdl_url_parameter parameter;
    while (cdl_url_next_parameter(&list, &parameter))
        for (size_t i = 0; i < sizeof harmless / sizeof harmless[0]; i++) {
            if (!cdl_slice_equal(parameter.name, cdl_slice_of(harmless[i])))
                continue;
            cdl_write_text(out, joint);
            cdl_write_text(out, harmless[i]);
            cdl_write_text(out, "=");
            cdl_write(out, parameter.value);
            joint = "&";
        }
}

void cdl_store_url_mask(const char *url, struct cdl_writer *out)
{
    struct cdl_url parts;
    const bool good = cdl_url_split(url, &parts, NULL) == CAUDAL_OK;
    const struct cdl_slice scheme = before(url, ":");
    size_t i = 0;
    while (i < SCHEME_COUNT && !cdl_slice_equal(cdl_slice_of(schemes[i].name), scheme))
        i++;
    if (i < SCHEME_COUNT && url[scheme.length] == ':') {
        cdl_write(out, scheme);
        cdl_write_text(out, ":");
    }
    if (!good || i == SCHEME_COUNT || !is_clear(&parts, schemes[i].shape)) {
        cdl_write_text(out, "***");
        return;
    }
    cdl_write_text(out, parts.has_authority ? "//" : "");
    show_credentials(&parts, out);
    cdl_write(out, parts.hosts);
    cdl_write(out, parts.path);
    show_parameters(parts.parameters, out);
}
