/* Any bytes as the URL of a store, and any bytes as a password in one.
 *
 * The first line is a URL. It is read as that of a Redis: into a config whose every field is within its bounds, or with a reason that
 * points into it. Its mask is the mask of itself. When there is a second line, it is a password: put before the URL's host it must not
 * be seen, which is found out by putting another there that is made like it. What is read and what is shown, reasons included, must be
 * the same for both. */
#include <stdio.h>
#include <stdlib.h>

#include "store/redis/config.h"
#include "store/url.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int condition)
{
    if (!condition)
        abort();
}

struct outcome {
    struct cdl_redis_config config;
    struct caudal_problem problem;
    int status;
    char mask[2 * CDL_URL_MAX];
};

static void require_text(const char *text, size_t least, size_t most)
{
    const size_t length = text == NULL ? least : strlen(text);
    require(length >= least && length <= most);
}

static void require_within(uint64_t value, uint64_t least, uint64_t most)
{
    require(value >= least && value <= most);
}

static void require_bounds(const struct cdl_redis_config *config)
{
    require_within(config->seed_count, 1, config->kind == CDL_REDIS_SINGLE ? 1 : CDL_REDIS_SEEDS_MAX);
    for (uint32_t i = 0; i < config->seed_count; i++) {
        require_text(config->seeds[i].host, 1, sizeof config->seeds[i].host - 1);
        require((config->seeds[i].port == 0) == (config->seeds[i].host[0] == '/'));
    }
    require((config->kind == CDL_REDIS_SENTINEL) == (config->primary != NULL));
    require(config->kind == CDL_REDIS_SENTINEL || config->sentinel_password == NULL);
    require(config->kind != CDL_REDIS_CLUSTER || config->database == 0);
    require(config->user == NULL || config->password != NULL);
    require(config->tls || (config->tls_ca == NULL && config->tls_certificate == NULL && config->tls_name == NULL));
    require((config->tls_certificate == NULL) == (config->tls_key == NULL));
    require_text(config->primary, 1, CDL_URL_MAX);
    require_text(config->user, 1, CDL_URL_MAX);
    require(config->prefix != NULL && strpbrk(config->prefix, "{}\n\x1b") == NULL);
    require_text(config->prefix, 1, 64);
    require_within(config->database, 0, INT32_MAX);
    require(config->protocol == 0 || config->protocol == 2 || config->protocol == 3);
    require_within((uint64_t)config->deadline_ns, 1000000, UINT64_C(60000000000));
    require_within((uint64_t)config->connect_timeout_ns, 1000000, UINT64_C(60000000000));
    require_within(config->connections, 1, 16);
    require_within(config->clients, 1, 256);
    require_within(config->in_flight, 1, 65536);
    require_within(config->breaker, 1, 1000);
    require_within(config->wait_replicas, 0, 16);
}

static void require_reason(const struct outcome *outcome, const char *url)
{
    require(outcome->status == CAUDAL_ERR_SYNTAX && outcome->problem.code == CAUDAL_ERR_SYNTAX);
    require(outcome->problem.position <= strlen(url));
    const size_t said = strnlen(outcome->problem.message, sizeof outcome->problem.message);
    require(said > 0 && said < sizeof outcome->problem.message - 1);
}

static void mask(const char *url, char *shown, size_t size)
{
    struct cdl_writer writer = cdl_writer_on(shown, size - 1);
    cdl_store_url_mask(url, &writer);
    require(!writer.overflow);
    shown[writer.length] = '\0';
}

static void try_url(const char *url, struct outcome *outcome)
{
    char again[sizeof outcome->mask];
    memset(&outcome->problem, 0, sizeof outcome->problem);
    outcome->status = cdl_redis_config_read(url, cdl_allocator_default(), &outcome->config, &outcome->problem);
    if (outcome->status == CAUDAL_OK)
        require_bounds(&outcome->config);
    else
        require_reason(outcome, url);
    mask(url, outcome->mask, sizeof outcome->mask);
    mask(outcome->mask, again, sizeof again);
    require(strcmp(outcome->mask, again) == 0);
}

static void forget(struct outcome *outcome)
{
    if (outcome->status == CAUDAL_OK)
        cdl_redis_config_free(&outcome->config);
}

/* Another byte that is read in the same way: a letter for a letter, a hexadecimal one for a hexadecimal one, a digit for a digit, but
 * for 0, which may be half of %00. */
static char another(char c)
{
    static const char *const kinds[] = {"abcdef", "ghijklmnopqrstuvwxyz", "ABCDEF", "GHIJKLMNOPQRSTUVWXYZ",
                                        "123456789"};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        const char *at = c == '\0' ? NULL : strchr(kinds[i], c);
        if (at != NULL)
            return at[1] == '\0' ? kinds[i][0] : at[1];
    }
    return c;
}

/* "redis://user:PASSWORD@REST", and once more with another password. */
static void try_password(const char *password, const char *rest)
{
    static const char head[] = "redis://user:";
    const size_t length = strlen(password), size = sizeof head + length + 1 + strlen(rest);
    char *urls[2] = {malloc(size), malloc(size)};
    static struct outcome outcomes[2];
    require(urls[0] != NULL && urls[1] != NULL);
    snprintf(urls[0], size, "%s%s@%s", head, password, rest);
    memcpy(urls[1], urls[0], size);
    for (size_t i = 0; i < length; i++)
        urls[1][sizeof head - 1 + i] = another(password[i]);
    for (size_t i = 0; i < 2; i++)
        try_url(urls[i], &outcomes[i]);
    require(outcomes[0].status == outcomes[1].status);
    require(strcmp(outcomes[0].mask, outcomes[1].mask) == 0);
    if (outcomes[0].status != CAUDAL_OK) {
        require(outcomes[0].problem.position == outcomes[1].problem.position);
        require(strcmp(outcomes[0].problem.message, outcomes[1].problem.message) == 0);
    }
    for (size_t i = 0; i < 2; i++) {
        forget(&outcomes[i]);
        free(urls[i]);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    if (text == NULL)
        return 0;
    if (size > 0)
        memcpy(text, data, size);
    text[size] = '\0';
    char *password = strchr(text, '\n');
    if (password != NULL)
        *password++ = '\0';
    /* No file of this machine is read. */
    static struct outcome outcome;
    if (strlen(text) <= CDL_URL_MAX && strstr(text, "_file") == NULL) {
        try_url(text, &outcome);
        forget(&outcome);
        const char *rest = strstr(text, "//");
        if (password != NULL)
            try_password(password, rest == NULL ? text : rest + 2);
    }
    free(text);
    return 0;
}
