/* From nodes of a tree to values of C, with a word for everything that is wrong. A map is read by a table of its keys, so that
 * the tables are the only place where keys are named.
 *
 * A reader that cannot make sense of its node reports that and leaves the target as it was; the loader looks once, at the end,
 * whether anything was reported. */
#ifndef CDL_POLICY_READ_H
#define CDL_POLICY_READ_H

#include "policy/policy.h"
#include "policy/yaml.h"

struct cdl_added_limit;   /* policy/added.h */
struct cdl_domain_drafts; /* policy/load_domain.h */

struct cdl_loader {
    struct cdl_policy *policy; /* under construction */
    struct cdl_arena *arena;   /* its own */
    struct cdl_report *report;
    struct cdl_added_limit *added; /* the last one first */
    uint32_t added_count;
    struct cdl_slice *sources;         /* the policy's */
    struct cdl_domain_drafts *domains; /* of the files of Envoy's rate limit service, as far as they have been read */
};

struct cdl_setting {
    const char *key;
    void (*read)(struct cdl_loader *loader, const struct cdl_yaml_node *node, const struct cdl_setting *setting,
                 void *target);
    size_t offset;      /* of the target in what the map is read into */
    const void *detail; /* what the reader wants to know beside: bounds, words */
};

struct cdl_words {
    const char *const *words;
    size_t count;
};

/* A map of a policy. */
struct cdl_shape {
    const char *name; /* "limits": for messages */
    const struct cdl_setting *settings;
    size_t count;
    const struct cdl_words *ignored; /* keys that have no meaning here, but that other programs read past; NULL: none */
};
#define CDL_SHAPE(name, settings)                                                                                      \
    {                                                                                                                  \
        name, settings, sizeof settings / sizeof settings[0], NULL                                                     \
    }

/* Reads a map into `into`. Keys that the shape does not know are errors, and so is a node that is no map or an empty one; keys that it
 * ignores are warned of. */
void cdl_read_map(struct cdl_loader *loader, const struct cdl_yaml_node *node, const struct cdl_shape *shape,
                  void *into);

/* "found ..." for messages: a kind of node, or its text, cut. */
#define CDL_FOUND_MAX 56
const char *cdl_found(const struct cdl_yaml_node *node, char found[CDL_FOUND_MAX]);

/* The items of a list, or a lone scalar as a list of one. False, with an error, for an empty list and for anything else. */
struct cdl_items {
    const struct cdl_yaml_node *first;
    uint32_t count;
};
bool cdl_read_items(struct cdl_loader *loader, const struct cdl_yaml_node *node, const char *key,
                    struct cdl_items *items);

/* The text of a scalar that is not empty; false, with an error, for anything else. `expected` completes "expected ...". */
bool cdl_read_scalar(struct cdl_loader *loader, const struct cdl_yaml_node *node, const char *key, const char *expected,
                     struct cdl_slice *text);

/* Readers for tables, with the type of their target. */

/* const struct cdl_yaml_node *: the node itself, to be looked at later. */
void cdl_read_node(struct cdl_loader *, const struct cdl_yaml_node *, const struct cdl_setting *, void *target);
/* A map inside; detail: its struct cdl_shape. */
void cdl_read_inner(struct cdl_loader *, const struct cdl_yaml_node *, const struct cdl_setting *, void *target);
/* struct cdl_slice; detail: what is expected ("the path of a file"). */
void cdl_read_text(struct cdl_loader *, const struct cdl_yaml_node *, const struct cdl_setting *, void *target);

struct cdl_bounds {
    uint64_t min, max;
};
/* uint64_t and uint32_t, without a unit; detail: struct cdl_bounds. */
void cdl_read_u64(struct cdl_loader *, const struct cdl_yaml_node *, const struct cdl_setting *, void *target);
void cdl_read_u32(struct cdl_loader *, const struct cdl_yaml_node *, const struct cdl_setting *, void *target);
/* int64_t in nanoseconds, from "500ms"; detail: struct cdl_bounds in nanoseconds. */
void cdl_read_duration(struct cdl_loader *, const struct cdl_yaml_node *, const struct cdl_setting *, void *target);
/* uint64_t in bytes, from "16KiB"; detail: struct cdl_bounds in bytes. */
void cdl_read_bytes(struct cdl_loader *, const struct cdl_yaml_node *, const struct cdl_setting *, void *target);
/* struct cdl_ratio, from "1/100", "1%", "0.01", "all" or "none"; detail: not NULL when nothing is allowed. */
void cdl_read_ratio(struct cdl_loader *, const struct cdl_yaml_node *, const struct cdl_setting *, void *target);

/* An enum whose values are the indexes of its words; detail: struct cdl_words. */
#define CDL_WORDS(...)                                                                                                 \
    (&(const struct cdl_words){(const char *const[]){__VA_ARGS__},                                                     \
                               sizeof((const char *const[]){__VA_ARGS__}) / sizeof(const char *)})
void cdl_read_word(struct cdl_loader *, const struct cdl_yaml_node *, const struct cdl_setting *, void *target);
/* bool, from "true" or "false". */
void cdl_read_bool(struct cdl_loader *, const struct cdl_yaml_node *, const struct cdl_setting *, void *target);

#endif
