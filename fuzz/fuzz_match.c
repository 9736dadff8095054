/* Any request against a policy that uses all there is.
 *
 * The first byte is how much scratch there is at a second try, the rest of the line method, host and target; of the other
 * lines, "name: value" is a header and "name=value" an attribute. Whatever comes: what the index finds is what asking every
 * limit finds; keys are well formed and within bounds; and with little scratch a request is refused rather than counted
 * under less.
 */
#include <stdlib.h>
#include <string.h>

#include "caudal/key.h"
#include "identity/path.h"
#include "policy/explain.h"
#include "policy/match.h"

#define FIELDS_MAX 64

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char policy_text[] =
    "identity: {client_ip: {trusted_proxies: [10.0.0.0/8]}}\n"
    "exempt: [{path: /healthz}, {method: OPTIONS, header.x: 'y*'}, {client_ip: 192.0.2.0/24}]\n"
    "limits:\n"
    "- {name: everybody, rate: 9/s}\n"
    "- {name: client, per: client_ip, if_missing: skip, rate: 9/s}\n"
    "- {name: path, when: {path: [/v1/*, '/a/{x}/c', /b*]}, per: [path, path.2], if_missing: none, rate: 9/s}\n"
    "- {name: host, when: {host: [a.org, '*.b.org']}, per: host, rate: 9/s}\n"
    "- {name: user, per: ['/users/{id}/*'], rate: 9/s, overrides: [{match: {'/users/{id}/*': '*/1*'}, rate: 1/s}]}\n"
    "- {name: key, when: {method: [POST, PUT]}, per: [header.x-key, cookie.s, query.q], if_missing: '-', rate: 9/s,\n"
    "   cost: {header: x-cost, max: 5}, overrides: [{match: {header.x-key: k}, rate: 2/s}, {match: {query.q: a*b*c},\n"
    "   rate: 3/s}, {match: {header.x-key: k, cookie.s: s, query.q: q}, rate: 4/s}]}\n"
    "- {name: strict, when: {tenant: [t, 'u*']}, per: [header.x-key, method], rate: 9/s}\n"
    "- {name: shadow, when: {query.q: ['1', x y]}, per: [tenant], mode: shadow, rate: 9/s}\n"
    "- {name: off, mode: off, rate: 9/s}\n";

static void require(int condition)
{
    if (!condition)
        abort();
}

static const struct cdl_policy *the_policy(void)
{
    static struct cdl_policy *policy;
    static struct cdl_report report;
    if (policy == NULL)
        policy = cdl_policy_load_text("fuzz", cdl_slice_of(policy_text), NULL, &report);
    require(policy != NULL);
    return policy;
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

struct input {
    struct cdl_request request;
    struct cdl_field headers[FIELDS_MAX], attributes[FIELDS_MAX];
    char path[3 * 4096 + 1];
};

static void add_field(struct input *input, struct cdl_slice line)
{
    struct cdl_slice rest = line, name = cut(&rest, ':');
    size_t *count = &input->request.header_count;
    struct cdl_field *fields = input->headers;
    if (name.length == line.length) {
        rest = line;
        name = cut(&rest, '=');
        count = &input->request.attribute_count;
        fields = input->attributes;
    }
    if (*count < FIELDS_MAX)
        fields[(*count)++] = (struct cdl_field){name, rest};
}

static void read_input(struct input *input, struct cdl_slice text)
{
    struct cdl_slice line = cut(&text, '\n');
    struct cdl_writer path = cdl_writer_on(input->path, sizeof input->path);
    *input = (struct input){.request.headers = input->headers, .request.attributes = input->attributes};
    input->request.method = cut(&line, ' ');
    input->request.host = cut(&line, ' ');
    input->request.query = cdl_target_query(line);
    if (line.length <= 4096 && cdl_path_normalise(line, &path))
        input->request.path = cdl_written(&path);
    cdl_address_parse_hop(input->request.host, &input->request.client);
    while (text.length > 0)
        add_field(input, cut(&text, '\n'));
}

/* A row of netstrings, as many as the limit has identities. */
static void require_key(struct cdl_slice key, uint32_t parts)
{
    require(key.length <= CAUDAL_KEY_MAX);
    for (; parts > 0; parts--) {
        size_t length = 0;
        struct cdl_slice number = cut(&key, ':');
        require(number.length > 0);
        for (size_t i = 0; i < number.length; i++)
            length = length * 10 + (size_t)(number.bytes[i] - '0');
        require(length > 0 && length < key.length && key.bytes[length] == ',');
        key = cdl_slice_from(key, length + 1);
    }
    require(key.length == 0);
}

static void require_plan(const struct cdl_policy *policy, const struct cdl_plan *plan)
{
    require(plan->outcome == CDL_OUTCOME_LIMITED || plan->count == 0);
    for (size_t i = 0; i < plan->count; i++) {
        const struct cdl_charge *charge = &plan->charges[i];
        require(i == 0 || charge->limit > plan->charges[i - 1].limit);
        require(policy->rates[charge->rate].limit_index == charge->limit);
        require(policy->rates[charge->rate].override_index == charge->override);
        require_key(charge->key, policy->limits[charge->limit].per_count);
    }
}

static void require_words(struct cdl_view *view, uint32_t limit, const struct cdl_account *account)
{
    static char text[64 << 10];
    struct cdl_writer words = cdl_writer_on(text, sizeof text);
    cdl_explain_why(view, limit, account, &words);
    require(words.length > 0 && !words.overflow);
    for (size_t i = 0; i < words.length; i++)
        require(text[i] >= ' ' && text[i] < 0x7f);
}

/* Each limit asked in turn, as the index must find them. */
static void require_explained(const struct cdl_policy *policy, const struct input *input, const struct cdl_plan *plan)
{
    static char scratch[CDL_MATCH_SCRATCH_BYTES];
    struct cdl_writer writer = cdl_writer_on(scratch, sizeof scratch);
    struct cdl_view view;
    size_t applied = 0;
    cdl_view_open(&view, policy, &input->request, &writer);
    for (uint32_t i = 0; i < policy->request_limit_count; i++) {
        struct cdl_account account;
        size_t before = writer.length;
        cdl_explain_limit(&view, i, CDL_COST_UNSAID, &account);
        require_words(&view, i, &account);
        if (account.kind == CDL_ACCOUNT_APPLIES && plan->outcome == CDL_OUTCOME_LIMITED) {
            require(applied < plan->count && plan->charges[applied].limit == i);
            require(plan->charges[applied].rate == account.rate && plan->charges[applied].cost == account.cost);
            require(cdl_slice_equal(plan->charges[applied].key, account.key));
            applied++;
        }
        writer.length = before;
    }
    require(applied == plan->count);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct input input;
    static struct cdl_plan plan, again;
    static char scratch[CDL_MATCH_SCRATCH_BYTES];
    const struct cdl_policy *policy = the_policy();
    if (size < 2 || size > 32768)
        return 0;
    size_t little = data[0];
    char *text = malloc(size - 1);
    if (text == NULL)
        return 0;
    memcpy(text, data + 1, size - 1);
    read_input(&input, (struct cdl_slice){text, size - 1});
    cdl_policy_match(policy, &input.request, CDL_COST_UNSAID, scratch, sizeof scratch, &plan);
    require_plan(policy, &plan);
    require_explained(policy, &input, &plan);
    static char small[256];
    cdl_policy_match(policy, &input.request, CDL_COST_UNSAID, small, little, &again);
    require_plan(policy, &again);
    require(again.outcome == CDL_OUTCOME_TOO_LONG || (again.outcome == plan.outcome && again.count == plan.count) ||
            again.shadow_refusals > plan.shadow_refusals);
    free(text);
    return 0;
}
