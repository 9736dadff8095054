/* Any bytes as a file of Envoy's rate limit service, and any request against it.
 *
 * Up to a NUL the input is the file; behind it, the first line is a domain and each other line a descriptor, "key=value,key=value". '!' before
 * it: it brings a limit of its own; '0': it only looks. Whatever comes: a file loads or is refused for a reason; a descriptor that says
 * what a limit's path says meets that limit; a charge is one of the policy's, its key is well formed, and it is what explaining says.
 */
#include <stdlib.h>
#include <string.h>

#include "caudal/key.h"
#include "policy/explain_domain.h"

#define ENTRIES_MAX (CDL_DESCRIPTOR_ENTRIES_MAX + 1)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int condition)
{
    if (!condition)
        abort();
}

static struct cdl_slice cut(struct cdl_slice *text, char separator)
{
    size_t length = 0;
    while (length < text->length && text->bytes[length] != separator)
        length++;
    struct cdl_slice piece = cdl_slice_head(*text, length);
    *text = cdl_slice_from(*text, length + (length < text->length));
    return piece;
}

struct asked {
    struct cdl_descriptor_request request;
    struct cdl_descriptor descriptors[CDL_DESCRIPTORS_MAX];
    struct cdl_descriptor_entry entries[CDL_DESCRIPTORS_MAX][ENTRIES_MAX];
    struct cdl_descriptor_result results[CDL_DESCRIPTORS_MAX];
    struct cdl_plan plan;
    char scratch[CDL_MATCH_SCRATCH_BYTES];
};

static void read_descriptor(struct asked *asked, struct cdl_slice line)
{
    const size_t index = asked->request.descriptor_count++;
    struct cdl_descriptor *descriptor = &asked->descriptors[index];
    *descriptor = (struct cdl_descriptor){.entries = asked->entries[index]};
    while (line.length > 0 && (line.bytes[0] == '!' || line.bytes[0] == '0')) {
        if (line.bytes[0] == '!') {
            descriptor->has_limit = true;
            descriptor->requests_per_unit = (uint32_t)line.length;
            descriptor->unit = CDL_UNIT_SECOND + (enum cdl_unit)(line.length % (CDL_UNITS - 1));
        } else {
            descriptor->has_hits = true;
        }
        line = cdl_slice_from(line, 1);
    }
    while (line.length > 0 && descriptor->entry_count < ENTRIES_MAX) {
        struct cdl_slice value = cut(&line, ','), key = cut(&value, '=');
        asked->entries[index][descriptor->entry_count++] = (struct cdl_descriptor_entry){key, value};
    }
}

static void read_request(struct asked *asked, struct cdl_slice text)
{
    asked->request = (struct cdl_descriptor_request){.domain = cut(&text, '\n'), .descriptors = asked->descriptors};
    while (text.length > 0 && asked->request.descriptor_count < CDL_DESCRIPTORS_MAX)
        read_descriptor(asked, cut(&text, '\n'));
}

static void match(const struct cdl_policy *policy, struct asked *asked)
{
    cdl_descriptors_match(policy, &asked->request, INT64_C(1767225600) * 1000000000, asked->scratch,
                          sizeof asked->scratch, &asked->plan, asked->results);
}

static void require_words(const struct cdl_writer *words)
{
    require(!words->overflow && words->length > 0);
    for (size_t i = 0; i < words->length; i++)
        require((unsigned char)words->bytes[i] >= ' ' && (unsigned char)words->bytes[i] < 0x7f);
}

static void require_explained(const struct cdl_policy *policy, const struct asked *asked, size_t i)
{
    static char memory[(size_t)1 << 20];
    const struct cdl_domain *domain = cdl_policy_domain(policy, asked->request.domain);
    const struct cdl_descriptor *descriptor = &asked->descriptors[i];
    struct cdl_descriptor_way way;
    if (domain == NULL || descriptor->has_limit)
        return;
    cdl_explain_way(domain, descriptor, &way);
    const bool ruled = way.end != NULL && way.end->rule != NULL && policy->limits[way.end->limit].mode != CDL_MODE_OFF;
    if (asked->plan.outcome == CDL_OUTCOME_LIMITED)
        require(ruled ? asked->results[i].limit == way.end->limit : asked->results[i].outcome == CDL_DESCRIPTOR_FREE);
    for (size_t j = 0; j < way.count; j++) {
        struct cdl_writer words = cdl_writer_on(memory, sizeof memory);
        cdl_explain_level(&way.levels[j], &descriptor->entries[j], &words);
        require_words(&words);
    }
    struct cdl_writer words = cdl_writer_on(memory, sizeof memory);
    cdl_explain_end(policy, &way, &words);
    require_words(&words);
}

static void require_charge(const struct cdl_policy *policy, const struct cdl_charge *charge)
{
    require(charge->limit < policy->limit_count && charge->rate == policy->limits[charge->limit].rate);
    require(charge->key.length <= CAUDAL_KEY_MAX);
    require(policy->rates[charge->rate].per_call == (charge->per_call.size != 0));
    if (charge->per_call.size != 0)
        require(caudal_limit_check(&charge->per_call, NULL) == CAUDAL_OK);
}

static void require_planned(const struct cdl_policy *policy, const struct asked *asked)
{
    const struct cdl_plan *plan = &asked->plan;
    size_t charged = 0;
    require(plan->outcome == CDL_OUTCOME_LIMITED || plan->outcome == CDL_OUTCOME_TOO_LONG);
    for (size_t i = 0; i < plan->count; i++)
        require_charge(policy, &plan->charges[i]);
    for (size_t i = 0; i < asked->request.descriptor_count; i++) {
        if (asked->results[i].charge != CDL_NONE) {
            require(asked->results[i].charge == charged++);
            require(asked->results[i].outcome == CDL_DESCRIPTOR_LIMITED);
            require(plan->charges[asked->results[i].charge].limit == asked->results[i].limit);
        }
        require_explained(policy, asked, i);
    }
    require(charged == plan->count);
}

/* A descriptor in the very words of a path is taken by it, unless a level of the path takes any value. */
static void require_met(const struct cdl_policy *policy, const struct cdl_domain *domain,
                        const struct cdl_descriptor_node *node, struct asked *asked)
{
    bool open = false;
    size_t depth = 0;
    for (const struct cdl_descriptor_node *at = node; at->parent != NULL; at = at->parent)
        depth++;
    asked->request = (struct cdl_descriptor_request){
        .domain = cdl_domain_name(domain), .descriptors = asked->descriptors, .descriptor_count = 1};
    asked->descriptors[0] = (struct cdl_descriptor){.entries = asked->entries[0], .entry_count = depth};
    for (const struct cdl_descriptor_node *at = node; at->parent != NULL; at = at->parent) {
        asked->entries[0][--depth] = (struct cdl_descriptor_entry){at->key, at->value};
        open = open || at->value.length == 0;
    }
    match(policy, asked);
    require_planned(policy, asked);
    if (!open && node->rule != NULL && policy->limits[node->limit].mode != CDL_MODE_OFF)
        require(asked->results[0].limit == node->limit);
    for (uint32_t i = 0; i < node->child_count; i++)
        require_met(policy, domain, node->children[i], asked);
}

static void require_sound(const struct cdl_policy *policy, struct asked *asked)
{
    for (uint32_t i = 0; i < policy->limit_count; i++) {
        const struct cdl_limit_rule *limit = &policy->limits[i];
        require(limit->name.length > 0 && limit->name.length <= CDL_RATE_NAME_MAX);
        for (size_t j = 0; j < limit->name.length; j++)
            require((unsigned char)limit->name.bytes[j] > ' ' && (unsigned char)limit->name.bytes[j] < 0x7f);
        require(limit->kind == CDL_RULE_PER_CALL || cdl_policy_find(policy, limit->name) == i);
        require((limit->descriptor != NULL) == (limit->kind == CDL_RULE_DESCRIPTOR));
    }
    for (uint32_t i = 0; i < policy->domain_count; i++)
        require_met(policy, &policy->domains[i], &policy->domains[i].root, asked);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct cdl_report report;
    static struct asked asked;
    const uint8_t *end = size > 0 ? memchr(data, '\0', size) : NULL;
    const size_t length = end != NULL ? (size_t)(end - data) : size;
    /* Memory of exactly its size, so that AddressSanitizer sees a look beyond its end. */
    char *text = malloc(length > 0 ? length : 1);
    if (text == NULL)
        return 0;
    if (length > 0)
        memcpy(text, data, length);
    struct cdl_policy *policy = cdl_policy_load_text("fuzz", (struct cdl_slice){text, length}, NULL, &report);
    free(text); /* nothing of it may still be in use */
    require((policy == NULL) == (report.errors > 0));
    if (policy != NULL) {
        require_sound(policy, &asked);
        read_request(&asked,
                     (struct cdl_slice){(const char *)data + length + (end != NULL), size - length - (end != NULL)});
        match(policy, &asked);
        require_planned(policy, &asked);
    }
    cdl_policy_free(policy);
    return 0;
}
