#include "cli/store_url.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/secret_file.h"
#include "store/url.h"

#define DEFAULT_URL "redis://127.0.0.1:6379"
#define VARIABLE "CAUDAL_STORE"
/* A person, or a script, can wait for longer than a request that is on its way. */
#define DEADLINE_NS INT64_C(1000000000)
#define SECRET_MIN 16u /* bytes, as the server wants them */

static void choose(const char *option, const struct cdl_policy *policy, struct cdl_cli_store *store)
{
    const char *variable = secure_getenv(VARIABLE);
    int64_t deadline_ns = DEADLINE_NS;
    if (option != NULL) {
        *store = (struct cdl_cli_store){.url = option, .from = "--store"};
    } else if (variable != NULL && variable[0] != '\0') {
        *store = (struct cdl_cli_store){.url = variable, .from = "$" VARIABLE};
    } else if (policy != NULL) {
        *store = (struct cdl_cli_store){.url = policy->store.url.bytes, .from = policy->file.bytes};
        if (policy->store.deadline_ns > deadline_ns)
            deadline_ns = policy->store.deadline_ns;
    } else {
        *store = (struct cdl_cli_store){.url = DEFAULT_URL, .from = "the default"};
    }
    store->deadline_ns = cdl_store_url_has(store->url, "deadline") ? 0 : deadline_ns;
}

static bool read_secret(const char *command, const struct cdl_policy *policy, struct cdl_cli_store *store)
{
    const char *file = policy->secret_file.bytes;
    const ssize_t length = cdl_secret_file_read(file, store->secret, sizeof store->secret);
    if (length < 0)
        fprintf(stderr, "caudal %s: %s: cannot be read: %s\n", command, file, strerrordesc_np(errno));
    else if (length < (ssize_t)SECRET_MIN || length == (ssize_t)sizeof store->secret)
        fprintf(stderr, "caudal %s: %s does not hold a secret of %u to %u bytes\n", command, file, SECRET_MIN,
                CDL_CLI_SECRET_MAX - 1);
    else
        store->secret_length = (size_t)length;
    return store->secret_length > 0;
}

bool cdl_cli_find_store(const char *command, const char *option, const struct cdl_policy *policy,
                        struct cdl_cli_store *store)
{
    choose(option, policy, store);
    struct cdl_writer writer = cdl_writer_on(store->shown, sizeof store->shown - 1);
    cdl_store_url_mask(store->url, &writer);
    if (strncmp(store->url, "memory:", 7) == 0) {
        fprintf(stderr,
                "caudal %s: the store of %s is memory:, which lives in one process and ends with it; name a Redis or "
                "Valkey with --store\n",
                command, store->from);
        return false;
    }
    return policy == NULL || policy->secret_file.length == 0 || read_secret(command, policy, store);
}
