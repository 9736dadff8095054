/* The limits of descriptors in words: what one promises, and the way that a descriptor takes through its domain. */
#ifndef CDL_POLICY_EXPLAIN_DOMAIN_H
#define CDL_POLICY_EXPLAIN_DOMAIN_H

#include "policy/domain_tree.h"
#include "policy/explain.h"

/* A rate of the policy as a text of the grammar, "20/min fixed_window"; with a calendar, "20 a month in Europe/Berlin". */
void cdl_explain_rate_text(const struct cdl_policy *policy, uint32_t rate, struct cdl_writer *words);
/* As cdl_explain_rate; with a calendar, "at most 20 in each month, as a calendar in Europe/Berlin has it". CDL_EXPLAIN_RATE_MAX bytes are
 * enough for both. */
void cdl_explain_promise(const struct cdl_policy *policy, uint32_t rate, struct cdl_writer *words);

/* What one level of the tree makes of one entry. */
struct cdl_descriptor_level {
    const struct cdl_descriptor_node *above; /* whose children were looked at */
    const struct cdl_descriptor_node *node;  /* the one that takes the entry; NULL: none, and the way ends here */
    enum cdl_descriptor_step step;
};

/* The way of a descriptor through its domain. */
struct cdl_descriptor_way {
    struct cdl_descriptor_level levels[CDL_DESCRIPTOR_ENTRIES_MAX];
    size_t count;
    const struct cdl_descriptor_node *end; /* NULL: it is nowhere */
};

void cdl_explain_way(const struct cdl_domain *domain, const struct cdl_descriptor *descriptor,
                     struct cdl_descriptor_way *way);

/* Why a level took an entry or did not, in one line of printable text: "no such value, and not fo*; any value will do (rl.yaml:4:5)". */
void cdl_explain_level(const struct cdl_descriptor_level *level, const struct cdl_descriptor_entry *entry,
                       struct cdl_writer *words);

/* Why a descriptor is not limited where its way ends, as "the way goes on from here, and no limit stands here"; or that it is. */
void cdl_explain_end(const struct cdl_policy *policy, const struct cdl_descriptor_way *way, struct cdl_writer *words);

#endif
