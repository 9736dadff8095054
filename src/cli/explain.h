/* What the parts of `caudal explain` share. */
#ifndef CDL_CLI_EXPLAIN_H
#define CDL_CLI_EXPLAIN_H

#include <jansson.h>

#include "cli/cli.h"
#include "policy/explain_domain.h"

#define CDL_EXPLAIN_WORDS_BYTES ((size_t)256 << 10)

/* The policy that is explained, and memory for one piece of words at a time. */
struct cdl_explaining {
    const char *file;
    struct cdl_policy *policy;
    char *words; /* of CDL_EXPLAIN_WORDS_BYTES */
};

/* Each of these begins anew in `words`, and what it returns lasts until the next one. */
struct cdl_writer cdl_words_begin(struct cdl_explaining *about);
const char *cdl_words_end(struct cdl_writer *writer);
const char *cdl_words_printable(struct cdl_explaining *about, struct cdl_slice bytes);

void cdl_print_rate(struct cdl_explaining *about, const struct cdl_rate *rate);
json_t *cdl_rate_json(struct cdl_explaining *about, const struct cdl_rate *rate);

/* All limits that the files name. */
void cdl_print_limits(struct cdl_explaining *about);
json_t *cdl_limits_json(struct cdl_explaining *about);

/* Prints a document and drops it. 0, or -1 when it cannot be written. */
int cdl_print_json(json_t *root);

/* A request of Envoy's rate limit service: --domain and --descriptor. */
struct cdl_explained_descriptors {
    const char *domain; /* NULL: the only one that there is */
    const char *texts[CDL_DESCRIPTORS_MAX];
    size_t count;
    uint64_t hits; /* 0: one each */
    bool json;
};

/* Shows which way each descriptor takes, and what it is limited by there. The command's exit status. */
int cdl_explain_descriptors(struct cdl_explaining *about, const struct cdl_command *command,
                            const struct cdl_explained_descriptors *asked);

#endif
