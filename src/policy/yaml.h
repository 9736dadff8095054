/* A YAML file as a tree with places.
 *
 * Only the part of YAML that a policy needs: one document of maps, lists and scalars. Tags are refused, and so are anchors, aliases and
 * merge keys in files of our own: values that are written out are easier to follow. Files that others have written may have them; they
 * stand for what they name, which counts each time, so that a small file cannot stand for a huge one. Bounded: bytes, depth, nodes and
 * keys of one map. What is wrong with a part is reported and that part marked as bad, so that the rest is still looked at. */
#ifndef CDL_POLICY_YAML_H
#define CDL_POLICY_YAML_H

#include "base/arena.h"
#include "policy/report.h"

#define CDL_YAML_BYTES_MAX ((size_t)16 << 20)
#define CDL_YAML_DEPTH_MAX 96
#define CDL_YAML_NODES_MAX 2000000u
#define CDL_YAML_KEYS_MAX 64u /* of one map */
#define CDL_YAML_ANCHORS_MAX 1000u

enum cdl_yaml_kind {
    CDL_YAML_BAD, /* reported already; be silent about it */
    CDL_YAML_SCALAR,
    CDL_YAML_LIST,
    CDL_YAML_MAP,
};

struct cdl_yaml_node {
    enum cdl_yaml_kind kind;
    bool plain;    /* a scalar without quotes */
    bool one_line; /* a scalar whose n-th character stands n (and one for its quote) behind its place */
    struct cdl_place place;
    struct cdl_slice text; /* of a scalar; a NUL follows, and none is inside */
    struct cdl_yaml_node
        *first; /* of a list: its items. Of a map: key, value, key, value; keys are scalars, each once */
    struct cdl_yaml_node *next;
    uint32_t count;  /* items, or pairs */
    uint32_t weight; /* nodes in it, itself included, each as often as it is named */
    uint32_t height; /* how deep lists and maps are nested in it, itself included */
};

enum cdl_yaml_dialect {
    CDL_YAML_WRITTEN_OUT,
    CDL_YAML_WITH_ALIASES,
};

/* Reads a text into a tree in `arena`. NULL when there is no tree at all (errors tell why); otherwise a tree, perhaps with
 * bad parts that errors tell about. */
struct cdl_yaml_node *cdl_yaml_read(struct cdl_slice text, enum cdl_yaml_dialect dialect, struct cdl_arena *arena,
                                    struct cdl_report *report);

/* A plain scalar that YAML takes for nothing: empty, "~" or "null". */
bool cdl_yaml_is_null(const struct cdl_yaml_node *node);

/* The place of a scalar's byte. */
struct cdl_place cdl_yaml_place_in(const struct cdl_yaml_node *node, size_t offset);

#endif
