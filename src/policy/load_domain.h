/* Reading the files of Envoy's rate limit service: which there are (load_envoy.c), and what is in them (load_domain.c, load_rate.c). */
#ifndef CDL_POLICY_LOAD_DOMAIN_H
#define CDL_POLICY_LOAD_DOMAIN_H

#include <sys/types.h>

#include "policy/domain_tree.h"
#include "policy/load.h"

struct cdl_domain_draft {
    struct cdl_domain domain;
    struct cdl_domain_draft *next;
};

/* What is gathered while the files are read. */
struct cdl_domain_drafts {
    struct cdl_domain_draft *first, **tail; /* in the order in which they were read */
    uint32_t count;
    bool merge;            /* files of one domain are parts of it */
    struct cdl_slice file; /* the one that is read just now */
    struct {
        dev_t device;
        ino_t inode;
    } read[CDL_POLICY_SOURCES_MAX]; /* those that have been read */
    uint32_t read_count;
    uint32_t calendars; /* limits that have one */
};

/* What a descriptor's limit is made of before it has a name. */
struct cdl_descriptor_draft {
    struct cdl_limit_rule rule;
    struct caudal_limit limit;
};

extern const struct cdl_shape cdl_domain_shape, cdl_descriptor_shape;                       /* load_domain.c */
extern const struct cdl_shape cdl_rate_limit_shape, cdl_calendar_shape, cdl_replaces_shape; /* load_rate.c */
extern const struct cdl_shape cdl_envoy_shape;                                              /* load_envoy.c */

/* Keys that the reference knows somewhere, and reads past everywhere else. */
extern const struct cdl_words cdl_reference_words;

/* What was read, or looked through. Returns its index in the policy's sources; CDL_NONE: there are too many. */
uint32_t cdl_add_source(struct cdl_loader *loader, const char *path);

/* The node under `envoy`; and a folder of files, which is a source already. */
void cdl_load_envoy(struct cdl_loader *loader, const struct cdl_yaml_node *node);
void cdl_load_envoy_folder(struct cdl_loader *loader, const char *path, struct cdl_place place);

/* Whether a file is one of these rather than a policy of ours. */
bool cdl_is_domain_file(const struct cdl_yaml_node *root);

/* Takes the descriptors of one file into the drafts. */
void cdl_load_domain(struct cdl_loader *loader, const struct cdl_yaml_node *root);

/* A rate_limit, into the draft and the rule, which have their defaults. */
void cdl_load_rate_limit(struct cdl_loader *loader, const struct cdl_yaml_node *node,
                         struct cdl_descriptor_draft *draft, struct cdl_descriptor_rule *rule);

/* A map of anything as JSON text; empty, with an error, when it is no map. */
struct cdl_slice cdl_read_metadata(struct cdl_loader *loader, const struct cdl_yaml_node *node);

/* Makes domains and limits of the drafts, when all files have been read. */
void cdl_place_domains(struct cdl_loader *loader);

/* A key that is not there, or has nothing behind it. */
static inline bool cdl_is_absent(const struct cdl_yaml_node *node)
{
    return node == NULL || cdl_yaml_is_null(node);
}

/* A reader for tables: true, yes, on or false, no, off into a bool, nothing being false. */
void cdl_read_flag(struct cdl_loader *, const struct cdl_yaml_node *, const struct cdl_setting *, void *target);

/* A text, or nothing, which is the empty text; at most 1024 bytes. False, with an error, for anything else. */
bool cdl_read_loose_text(struct cdl_loader *loader, const struct cdl_yaml_node *node, const char *key,
                         struct cdl_slice *text);

#endif
