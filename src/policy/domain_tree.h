/* The descriptors of a domain as a tree, and one step down it: what domain.c matches by, the loader builds and explain.c shows. */
#ifndef CDL_POLICY_DOMAIN_TREE_H
#define CDL_POLICY_DOMAIN_TREE_H

#include "policy/domain.h"

struct cdl_descriptor_draft; /* load_domain.c */

/* A descriptor of the files. All strings are followed by a NUL. */
struct cdl_descriptor_node {
    struct cdl_slice key;
    struct cdl_slice value; /* empty: any */
    bool wildcard;          /* `value` has a '*' */
    bool shared;            /* its values are counted together */
    bool value_to_metric;
    bool value_only; /* neither a rate nor descriptors: whoever ends here is not limited, on purpose */
    const struct cdl_descriptor_node *parent; /* NULL: it is the domain itself */
    uint32_t limit;                           /* index in the policy's limits; CDL_NONE: no rate */
    struct cdl_descriptor_rule *rule;         /* NULL: no rate */
    struct cdl_descriptor_draft *draft;       /* the loader's */
    struct cdl_slice file;
    uint32_t source;
    struct cdl_place place;
    struct cdl_descriptor_node **children; /* in the order of the files */
    uint32_t child_count;
    struct cdl_lookup lookup; /* of the children */
};

struct cdl_domain {
    struct cdl_slice name;
    struct cdl_descriptor_node root; /* its place is the domain's */
    uint32_t
        override_limit; /* index in the policy's limits: what limits that come with a descriptor are counted under */
};

/* How a level of the tree takes an entry, in the order in which it is tried. */
enum cdl_descriptor_step {
    CDL_STEP_EXACT,
    CDL_STEP_WILDCARD, /* the first in the order of the files */
    CDL_STEP_KEY,      /* a descriptor without a value */
    CDL_STEP_NONE,
};

/* The hashes that the children of a node are found by: those of one key and value, and those of one key by their kind. */
uint64_t cdl_descriptor_hash(enum cdl_descriptor_step step, struct cdl_slice key, struct cdl_slice value);

/* The child that takes an entry; NULL: none. `step`: how. */
const struct cdl_descriptor_node *cdl_descriptor_child(const struct cdl_descriptor_node *node,
                                                       const struct cdl_descriptor_entry *entry,
                                                       enum cdl_descriptor_step *step);

/* Whether the value that was met at a node is part of the key. */
static inline bool cdl_descriptor_is_counted(const struct cdl_descriptor_node *node)
{
    return node->value.length == 0 || (node->wildcard && !node->shared);
}

#endif
