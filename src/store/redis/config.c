/* Reading the URL of a Redis. Each parameter is a line of a table; what is possible only together with something else is looked at when
 * all has been read.
 *
 * No message shows more of the URL than the name of a parameter: in a URL that is malformed, a password may be anywhere. */
#include "store/redis/config.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/un.h>

#include "base/duration.h"
#include "base/problem.h"
#include "base/secret_file.h"
#include "store/url.h"

#define SECRET_MAX 4096u /* bytes of a file that holds a password */
#define PREFIX_MAX 64u
#define DATABASE_MAX INT32_MAX
#define DEFAULT_PREFIX "caudal"
#define MS INT64_C(1000000)

/* For whom a parameter has a meaning. */
enum use {
    FOR_ALL,
    FOR_SENTINEL,
    FOR_LISTS, /* sentinels and clusters: of the others the scheme says it */
    FOR_TLS,
};

struct reader;

struct parameter {
    const char *name;
    int (*read)(struct reader *reader, const struct parameter *parameter, struct cdl_slice value);
    size_t offset; /* in the config */
    enum use use;
    int64_t least, most;
};

#define PARAMETERS_MAX 32u

struct reader {
    const char *url;
    struct cdl_url parts;
    uint16_t standard_port;
    bool is_unix;
    struct cdl_redis_config *config;
    struct caudal_problem *problem;
    size_t places[PARAMETERS_MAX]; /* of the parameters that were given; 0: it was not */
    bool has_database;
    char text[CDL_URL_MAX + 1]; /* what was decoded last */
};

static int bad(const struct reader *reader, struct cdl_slice part, const char *what)
{
    return cdl_problem(reader->problem, CAUDAL_ERR_SYNTAX, (size_t)(part.bytes - reader->url), "%s", what);
}

static int bad_value(const struct reader *reader, const struct parameter *parameter, struct cdl_slice value,
                     const char *what)
{
    return cdl_problem(reader->problem, CAUDAL_ERR_SYNTAX, (size_t)(value.bytes - reader->url), "parameter '%s' %s",
                       parameter->name, what);
}

/* ---- texts ---- */

/* The part as a text, which stands until the next is decoded. */
static struct cdl_slice decode(struct reader *reader, struct cdl_slice part)
{
    struct cdl_writer writer = cdl_writer_on(reader->text, CDL_URL_MAX);
    cdl_url_decode(part, &writer);
    reader->text[writer.length] = '\0';
    return cdl_written(&writer);
}

static int keep(struct reader *reader, struct cdl_slice text, char **kept)
{
    *kept = cdl_allocate(&reader->config->allocator, text.length + 1, 1, 1);
    if (*kept == NULL)
        return cdl_problem(reader->problem, CAUDAL_ERR_MEMORY, 0, "no memory for the configuration of a store");
    if (text.length > 0)
        memcpy(*kept, text.bytes, text.length);
    return CAUDAL_OK;
}

static bool has_control_character(struct cdl_slice text)
{
    for (size_t i = 0; i < text.length; i++)
        if ((unsigned char)text.bytes[i] < ' ' || text.bytes[i] == 0x7f)
            return true;
    return false;
}

/* ---- one parameter ---- */

static void *target(const struct reader *reader, const struct parameter *parameter)
{
    return (char *)reader->config + parameter->offset;
}

static int read_number(struct reader *reader, const struct parameter *parameter, struct cdl_slice value)
{
    uint64_t number;
    if (cdl_url_read_number(value, &number) && number >= (uint64_t)parameter->least &&
        number <= (uint64_t)parameter->most) {
        *(uint32_t *)target(reader, parameter) = (uint32_t)number;
        return CAUDAL_OK;
    }
    char what[80];
    snprintf(what, sizeof what, "wants a whole number from %" PRId64 " to %" PRId64, parameter->least, parameter->most);
    return bad_value(reader, parameter, value, what);
}

static int read_database(struct reader *reader, const struct parameter *parameter, struct cdl_slice value)
{
    if (reader->has_database)
        return bad_value(reader, parameter, value, "is given twice: the path of the URL is the database, too");
    reader->has_database = true;
    return read_number(reader, parameter, value);
}

static int read_flag(struct reader *reader, const struct parameter *parameter, struct cdl_slice value)
{
    const bool yes = cdl_slice_equal(value, CDL_SLICE("yes"));
    if (!yes && !cdl_slice_equal(value, CDL_SLICE("no")))
        return bad_value(reader, parameter, value, "wants yes or no");
    *(bool *)target(reader, parameter) = yes;
    return CAUDAL_OK;
}

static int read_duration(struct reader *reader, const struct parameter *parameter, struct cdl_slice value)
{
    int64_t ns;
    if (cdl_duration_parse(value, &ns) && ns >= parameter->least && ns <= parameter->most) {
        *(int64_t *)target(reader, parameter) = ns;
        return CAUDAL_OK;
    }
    return bad_value(reader, parameter, value, "wants a whole number and its unit, as in 15ms, from 1ms to 60s");
}

static int read_text(struct reader *reader, const struct parameter *parameter, struct cdl_slice value)
{
    char **kept = target(reader, parameter);
    if (*kept != NULL)
        return bad_value(reader, parameter, value, "is given twice: it stands before the host, too");
    const struct cdl_slice text = decode(reader, value);
    return text.length == 0 ? bad_value(reader, parameter, value, "is empty") : keep(reader, text, kept);
}

static int read_prefix(struct reader *reader, const struct parameter *parameter, struct cdl_slice value)
{
    const struct cdl_slice text = decode(reader, value);
    /* A brace would decide which part of a key's name a cluster places it by. */
    if (text.length == 0 || text.length > PREFIX_MAX || has_control_character(text) ||
        memchr(text.bytes, '{', text.length) != NULL || memchr(text.bytes, '}', text.length) != NULL)
        return bad_value(reader, parameter, value, "wants 1 to 64 bytes without braces and control characters");
    return keep(reader, text, target(reader, parameter));
}

/* ---- secrets ---- */

static int keep_secret(struct reader *reader, const struct parameter *parameter, struct cdl_slice value,
                       struct cdl_slice secret)
{
    char **kept = target(reader, parameter);
    if (*kept != NULL)
        return bad_value(reader, parameter, value, "is a second password; give one");
    return keep(reader, secret, kept);
}

static int read_variable(struct reader *reader, const struct parameter *parameter, struct cdl_slice value)
{
    decode(reader, value);
    const char *secret = secure_getenv(reader->text);
    if (secret == NULL || secret[0] == '\0')
        return bad_value(reader, parameter, value,
                         secret == NULL ? "names a variable that the environment does not have"
                                        : "names a variable that is empty");
    return keep_secret(reader, parameter, value, cdl_slice_of(secret));
}

static int read_secret_file(struct reader *reader, const struct parameter *parameter, struct cdl_slice value)
{
    char bytes[SECRET_MAX + 3], what[128]; /* with a line end, and one more */
    decode(reader, value);
    const ssize_t length = cdl_secret_file_read(reader->text, bytes, sizeof bytes);
    const struct cdl_slice secret = {bytes, length < 0 ? 0 : (size_t)length};
    int status;
    if (length < 0) {
        snprintf(what, sizeof what, "names a file that cannot be read: %s", strerrordesc_np(errno));
        status = bad_value(reader, parameter, value, what);
    } else if (secret.length == 0) {
        status = bad_value(reader, parameter, value, "names a file that is empty");
    } else if (secret.length > SECRET_MAX) {
        status = bad_value(reader, parameter, value,
                           "names a file that is too large: a password has 4096 bytes at most");
    } else if (memchr(secret.bytes, '\0', secret.length) != NULL || memchr(secret.bytes, '\n', secret.length) != NULL) {
        status = bad_value(reader, parameter, value, "names a file that is not one line of text");
    } else {
        status = keep_secret(reader, parameter, value, secret);
    }
    explicit_bzero(bytes, sizeof bytes);
    return status;
}

/* ---- all parameters ---- */

#define OF(member) offsetof(struct cdl_redis_config, member)

enum {
    USER,
    PASSWORD_FILE,
    PASSWORD_ENV,
    SENTINEL_USER,
    TLS_CERT,
    TLS_KEY,
    DB,
};

static const struct parameter parameters[] = {
    [USER] = {"user", read_text, OF(user), FOR_ALL, 0, 0},
    [PASSWORD_FILE] = {"password_file", read_secret_file, OF(password), FOR_ALL, 0, 0},
    [PASSWORD_ENV] = {"password_env", read_variable, OF(password), FOR_ALL, 0, 0},
    [SENTINEL_USER] = {"sentinel_user", read_text, OF(sentinel_user), FOR_SENTINEL, 0, 0},
    [TLS_CERT] = {"tls_cert", read_text, OF(tls_certificate), FOR_TLS, 0, 0},
    [TLS_KEY] = {"tls_key", read_text, OF(tls_key), FOR_TLS, 0, 0},
    [DB] = {"db", read_database, OF(database), FOR_ALL, 0, DATABASE_MAX},
    {"sentinel_password_file", read_secret_file, OF(sentinel_password), FOR_SENTINEL, 0, 0},
    {"sentinel_password_env", read_variable, OF(sentinel_password), FOR_SENTINEL, 0, 0},
    {"tls", read_flag, OF(tls), FOR_LISTS, 0, 0},
    {"tls_ca", read_text, OF(tls_ca), FOR_TLS, 0, 0},
    {"tls_name", read_text, OF(tls_name), FOR_TLS, 0, 0},
    {"tls_verify", read_flag, OF(tls_verify), FOR_TLS, 0, 0},
    {"protocol", read_number, OF(protocol), FOR_ALL, 2, 3},
    {"prefix", read_prefix, OF(prefix), FOR_ALL, 0, 0},
    {"deadline", read_duration, OF(deadline_ns), FOR_ALL, MS, 60000 * MS},
    {"connect_timeout", read_duration, OF(connect_timeout_ns), FOR_ALL, MS, 60000 * MS},
    {"connections", read_number, OF(connections), FOR_ALL, 1, 16},
    {"clients", read_number, OF(clients), FOR_ALL, 1, 256},
    {"in_flight", read_number, OF(in_flight), FOR_ALL, 1, 65536},
    {"breaker", read_number, OF(breaker), FOR_ALL, 1, 1000},
    {"wait_replicas", read_number, OF(wait_replicas), FOR_ALL, 0, 16},
};
#define PARAMETER_COUNT (sizeof parameters / sizeof parameters[0])
_Static_assert(PARAMETER_COUNT <= PARAMETERS_MAX, "each parameter has a place");

static int unknown_parameter(const struct reader *reader, struct cdl_slice name)
{
    return cdl_problem(reader->problem, CAUDAL_ERR_SYNTAX, (size_t)(name.bytes - reader->url),
                       "unknown parameter '%.*s'", (int)(name.length < 40 ? name.length : 40), name.bytes);
}

static int read_parameter(struct reader *reader, const struct cdl_url_parameter *given)
{
    size_t i = 0;
    while (i < PARAMETER_COUNT && !cdl_slice_equal(cdl_slice_of(parameters[i].name), given->name))
        i++;
    if (i == PARAMETER_COUNT)
        return unknown_parameter(reader, given->name);
    if (reader->places[i] != 0)
        return bad_value(reader, &parameters[i], given->name, "is given twice");
    reader->places[i] = (size_t)(given->name.bytes - reader->url);
    return parameters[i].read(reader, &parameters[i], given->value);
}

static int read_parameters(struct reader *reader)
{
    struct cdl_slice list = reader->parts.parameters;
    struct cdl_url_parameter given;
    while (cdl_url_next_parameter(&list, &given)) {
        const int status = read_parameter(reader, &given);
        if (status != CAUDAL_OK)
            return status;
    }
    return CAUDAL_OK;
}

/* ---- what fits what ---- */

static int out_of_place(const struct reader *reader, size_t i, const char *why)
{
    return cdl_problem(reader->problem, CAUDAL_ERR_SYNTAX, reader->places[i], "parameter '%s' %s", parameters[i].name,
                       why);
}

static const char *why_out_of_place(const struct reader *reader, const struct parameter *parameter)
{
    const struct cdl_redis_config *config = reader->config;
    switch (parameter->use) {
    case FOR_SENTINEL:
        return config->kind == CDL_REDIS_SENTINEL ? NULL : "is for redis-sentinel:// only";
    case FOR_LISTS:
        return config->kind != CDL_REDIS_SINGLE ? NULL
                                                : "is for redis-sentinel:// and redis-cluster://; of one server "
                                                  "rediss:// says it";
    case FOR_TLS:
        return config->tls ? NULL : "has a meaning with TLS only: write rediss://, or add tls=yes to a list of hosts";
    case FOR_ALL:
        break;
    }
    return NULL;
}

static int check_credentials(const struct reader *reader)
{
    const struct cdl_redis_config *config = reader->config;
    if (config->user != NULL && config->password == NULL && reader->places[USER] != 0)
        return out_of_place(reader, USER, "stands without a password; add password_file or password_env");
    if (config->user != NULL && config->password == NULL)
        return bad(reader, reader->parts.user,
                   "a user without a password: write user:password@, :password@ for the default user, or add "
                   "password_file or password_env");
    if (config->sentinel_user != NULL && config->sentinel_password == NULL)
        return out_of_place(reader, SENTINEL_USER,
                            "stands without a password; add sentinel_password_file or sentinel_password_env");
    return CAUDAL_OK;
}

static int check_all(const struct reader *reader)
{
    const struct cdl_redis_config *config = reader->config;
    for (size_t i = 0; i < PARAMETER_COUNT; i++) {
        const char *why = reader->places[i] == 0 ? NULL : why_out_of_place(reader, &parameters[i]);
        if (why != NULL)
            return out_of_place(reader, i, why);
    }
    if ((config->tls_certificate == NULL) != (config->tls_key == NULL))
        return config->tls_key == NULL ? out_of_place(reader, TLS_CERT, "needs tls_key beside it")
                                       : out_of_place(reader, TLS_KEY, "needs tls_cert beside it");
    if (config->kind == CDL_REDIS_CLUSTER && config->database != 0)
        return reader->places[DB] != 0 ? out_of_place(reader, DB, "is 0 in a cluster: it has no other database")
                                       : bad(reader, reader->parts.path, "a cluster has no database but 0");
    return check_credentials(reader);
}

/* ---- what stands before the parameters ---- */

static int read_credentials(struct reader *reader)
{
    const struct cdl_url *parts = &reader->parts;
    int status = CAUDAL_OK;
    if (parts->has_user)
        status = keep(reader, decode(reader, parts->user), &reader->config->user);
    /* Programs that put URLs together write ":@" when there is no password. A user's may be empty. */
    if (status == CAUDAL_OK && parts->has_password && (parts->has_user || parts->password.length > 0))
        status = keep(reader, decode(reader, parts->password), &reader->config->password);
    explicit_bzero(reader->text, sizeof reader->text);
    return status;
}

static int read_hosts(struct reader *reader)
{
    struct cdl_redis_config *config = reader->config;
    struct cdl_slice list = reader->parts.hosts;
    do {
        struct cdl_url_host host;
        if (config->seed_count == (config->kind == CDL_REDIS_SINGLE ? 1 : CDL_REDIS_SEEDS_MAX))
            return bad(reader, list,
                       config->kind == CDL_REDIS_SINGLE
                           ? "one host; several are written with redis-sentinel:// or redis-cluster://"
                           : "more than 16 hosts; some of them are enough to find the others");
        const char *wrong = cdl_url_next_host(&list, &host);
        if (wrong != NULL)
            return bad(reader, list, wrong);
        if (host.name.length == 0)
            host.name = CDL_SLICE("127.0.0.1");
        struct cdl_redis_place *place = &config->seeds[config->seed_count++];
        memcpy(place->host, host.name.bytes, host.name.length);
        place->port = host.port != 0 ? host.port : reader->standard_port;
    } while (list.length > 0);
    return CAUDAL_OK;
}

static int read_socket(struct reader *reader)
{
    struct cdl_redis_config *config = reader->config;
    if (reader->parts.hosts.length > 0)
        return bad(reader, reader->parts.hosts, "a Unix socket has no host: write unix:/path or unix:///path");
    const struct cdl_slice path = decode(reader, reader->parts.path);
    if (path.length < 2 || path.bytes[0] != '/')
        return bad(reader, reader->parts.path, "expected the absolute path of a socket, as in unix:/run/redis.sock");
    if (path.length >= sizeof((struct sockaddr_un *)0)->sun_path)
        return bad(reader, reader->parts.path, "the path is longer than that of a Unix socket can be: 107 bytes");
    memcpy(config->seeds[0].host, path.bytes, path.length);
    config->seed_count = 1;
    return CAUDAL_OK;
}

/* "", "/" or "/N". */
static int read_path_database(struct reader *reader, struct cdl_slice path)
{
    if (path.length <= 1)
        return CAUDAL_OK;
    uint64_t number;
    if (!cdl_url_read_number(cdl_slice_from(path, 1), &number) || number > DATABASE_MAX)
        return bad(reader, path,
                   "after the hosts comes '/' and the number of a database, '?' and parameters, or nothing");
    reader->config->database = (uint32_t)number;
    reader->has_database = true;
    return CAUDAL_OK;
}

/* "/name" or "/name/N". */
static int read_primary(struct reader *reader)
{
    const struct cdl_slice path = reader->parts.path;
    const char *slash = path.length == 0 ? NULL : memchr(path.bytes + 1, '/', path.length - 1);
    const size_t length = slash == NULL ? path.length : (size_t)(slash - path.bytes);
    if (length < 2)
        return bad(reader, path, "after the sentinels comes '/' and the name that they know the primary by");
    const struct cdl_slice name = decode(reader, (struct cdl_slice){path.bytes + 1, length - 1});
    if (has_control_character(name))
        return bad(reader, path, "the name of a primary has no control characters");
    const int status = keep(reader, name, &reader->config->primary);
    return status != CAUDAL_OK ? status : read_path_database(reader, cdl_slice_from(path, length));
}

static int read_place(struct reader *reader)
{
    if (reader->is_unix)
        return read_socket(reader);
    if (!reader->parts.has_authority)
        return bad(reader, reader->parts.path, "expected '//' and a host after the scheme");
    const int status = read_hosts(reader);
    if (status != CAUDAL_OK)
        return status;
    return reader->config->kind == CDL_REDIS_SENTINEL ? read_primary(reader)
                                                      : read_path_database(reader, reader->parts.path);
}

/* ---- the whole ---- */

static int read_scheme(struct reader *reader)
{
    static const struct {
        const char *name;
        enum cdl_redis_kind kind;
        uint16_t port;
        bool tls;
    } schemes[] = {
        {"redis", CDL_REDIS_SINGLE, 6379, false},
        {"rediss", CDL_REDIS_SINGLE, 6379, true},
        {"unix", CDL_REDIS_SINGLE, 0, false},
        {"redis-sentinel", CDL_REDIS_SENTINEL, 26379, false},
        {"redis-cluster", CDL_REDIS_CLUSTER, 6379, false},
    };
    for (size_t i = 0; i < sizeof schemes / sizeof schemes[0]; i++) {
        if (!cdl_slice_equal(cdl_slice_of(schemes[i].name), reader->parts.scheme))
            continue;
        reader->config->kind = schemes[i].kind;
        reader->config->tls = schemes[i].tls;
        reader->standard_port = schemes[i].port;
        reader->is_unix = schemes[i].port == 0;
        return CAUDAL_OK;
    }
    return bad(reader, reader->parts.scheme,
               "expected redis://, rediss://, unix:, redis-sentinel:// or redis-cluster://");
}

static int read_all(struct reader *reader)
{
    int status = cdl_url_split(reader->url, &reader->parts, reader->problem);
    if (status == CAUDAL_OK)
        status = read_scheme(reader);
    if (status == CAUDAL_OK)
        status = read_credentials(reader);
    if (status == CAUDAL_OK)
        status = read_place(reader);
    if (status == CAUDAL_OK)
        status = read_parameters(reader);
    if (status == CAUDAL_OK)
        status = check_all(reader);
    if (status == CAUDAL_OK && reader->config->prefix == NULL)
        status = keep(reader, CDL_SLICE(DEFAULT_PREFIX), &reader->config->prefix);
    return status;
}

int cdl_redis_config_read(const char *url, const struct caudal_allocator *allocator, struct cdl_redis_config *config,
                          struct caudal_problem *problem)
{
    *config = (struct cdl_redis_config){
        .tls_verify = true,
        .deadline_ns = 15 * MS,
        .connect_timeout_ns = 1000 * MS,
        .connections = 1,
        .clients = 8,
        .in_flight = 4096,
        .breaker = 5,
        .allocator = *allocator,
    };
    struct reader reader = {.url = url, .config = config, .problem = problem};
    const int status = read_all(&reader);
    if (status != CAUDAL_OK)
        cdl_redis_config_free(config);
    return status;
}

void cdl_redis_config_free(struct cdl_redis_config *config)
{
    char **const texts[] = {
        &config->primary,           &config->user,   &config->password, &config->sentinel_user,
        &config->sentinel_password, &config->tls_ca, &config->tls_key,  &config->tls_certificate,
        &config->tls_name,          &config->prefix,
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        if (*texts[i] == NULL)
            continue;
        const size_t size = strlen(*texts[i]) + 1;
        explicit_bzero(*texts[i], size);
        cdl_release(&config->allocator, *texts[i], size, 1);
    }
    explicit_bzero(config, sizeof *config);
}
