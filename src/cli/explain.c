/* caudal explain: what the limits of a policy promise, and what it makes of one request. As text for people, or as JSON. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli/explain.h"
#include "cli/policy_file.h"
#include "identity/path.h"

#define FIELDS_MAX 256

enum {
    REQUEST,
    HEADER,
    CLIENT_IP,
    PEER,
    ATTRIBUTE,
    COST,
    DOMAIN,
    DESCRIPTOR,
    JSON
};

static const struct cdl_option options[] = {
    [REQUEST] = {"request", "\"METHOD TARGET\"", "the request line: \"POST /v1/x?y=z\""},
    [HEADER] = {"header", "\"NAME: VALUE\"", "a header of it; may be given again"},
    [CLIENT_IP] = {"client-ip", "ADDRESS", "its client"},
    [PEER] = {"peer", "ADDRESS", "or who sent it; the client is found as the policy says"},
    [ATTRIBUTE] = {"attribute", "NAME=VALUE", "what the caller says; may be given again"},
    [COST] = {"cost", "N", "what the caller says that it costs"},
    [DOMAIN] = {"domain", "NAME", "a domain of Envoy's rate limit service"},
    [DESCRIPTOR] = {"descriptor", "\"KEY=VALUE,...\"", "what is asked there; may be given again"},
    [JSON] = {"json", NULL, "answer in JSON"},
};

/* The command line, and what was made of it. */
struct explain {
    const struct cdl_command *command;
    struct cdl_explaining about;
    const char *request_line;
    bool json;
    uint64_t cost;
    struct cdl_address client, peer;
    bool has_client, has_peer;
    struct cdl_field headers[FIELDS_MAX], attributes[FIELDS_MAX];
    struct cdl_request request;
    struct cdl_explained_descriptors descriptors;
    struct cdl_writer scratch;
    struct cdl_view view;
};

/* ---------------------------------------------------------------------------------------------------- command line */

static int add_field(struct explain *explain, struct cdl_field *fields, size_t *count, const char *text, char separator,
                     int option)
{
    const char *at = strchr(text, separator);
    if (at == NULL || at == text)
        return cdl_usage_error(explain->command, "--%s: expected %s, found '%s'", options[option].name,
                               options[option].value, text);
    if (*count == FIELDS_MAX)
        return cdl_usage_error(explain->command, "--%s: more than %d", options[option].name, FIELDS_MAX);
    fields[(*count)++] = (struct cdl_field){{text, (size_t)(at - text)}, cdl_slice_trim(cdl_slice_of(at + 1))};
    return 0;
}

static int read_address(struct explain *explain, const char *text, int option, struct cdl_address *address, bool *has)
{
    *has = true;
    if (cdl_address_parse_hop(cdl_slice_of(text), address))
        return 0;
    return cdl_usage_error(explain->command, "--%s: '%s' is not an address", options[option].name, text);
}

static int read_cost(struct explain *explain, const char *text)
{
    char *end;
    explain->cost = strtoull(text, &end, 10);
    if (text[0] >= '0' && text[0] <= '9' && *end == '\0' && explain->cost < UINT64_MAX)
        return 0;
    return cdl_usage_error(explain->command, "--cost: '%s' is not a whole number", text);
}

static int take_argument(struct explain *explain, int kind, const char *value)
{
    switch (kind) {
    case CDL_ARGUMENT_OPERAND:
        if (explain->about.file != NULL)
            return cdl_usage_error(explain->command, "one file only; '%s' is a second", value);
        explain->about.file = value;
        return 0;
    case REQUEST:
        explain->request_line = value;
        return 0;
    case HEADER:
        return add_field(explain, explain->headers, &explain->request.header_count, value, ':', HEADER);
    case ATTRIBUTE:
        return add_field(explain, explain->attributes, &explain->request.attribute_count, value, '=', ATTRIBUTE);
    case CLIENT_IP:
        return read_address(explain, value, CLIENT_IP, &explain->client, &explain->has_client);
    case PEER:
        return read_address(explain, value, PEER, &explain->peer, &explain->has_peer);
    case COST:
        return read_cost(explain, value);
    case DOMAIN:
        explain->descriptors.domain = value;
        return 0;
    case DESCRIPTOR:
        if (explain->descriptors.count == CDL_DESCRIPTORS_MAX)
            return cdl_usage_error(explain->command, "--descriptor: more than %u", CDL_DESCRIPTORS_MAX);
        explain->descriptors.texts[explain->descriptors.count++] = value;
        return 0;
    case JSON:
        explain->json = true;
        return 0;
    default:
        return CDL_EXIT_USAGE;
    }
}

static bool is_about_a_request(const struct explain *explain)
{
    return explain->request_line != NULL || explain->has_client || explain->has_peer ||
           explain->request.header_count > 0 || explain->request.attribute_count > 0;
}

static int read_arguments(struct explain *explain, struct cdl_arguments *arguments)
{
    const char *value;
    int kind, status = 0;
    while (status == 0 && (kind = cdl_argument_next(arguments, &value)) != CDL_ARGUMENT_END)
        status = take_argument(explain, kind, value);
    if (status != 0)
        return status;
    if (explain->about.file == NULL)
        return cdl_usage_error(explain->command, "which file? None was given");
    if (explain->has_client && explain->has_peer)
        return cdl_usage_error(explain->command, "--client-ip and --peer are two answers to one question; give one");
    if (explain->descriptors.count == 0 && explain->descriptors.domain != NULL)
        return cdl_usage_error(explain->command, "there is no --descriptor to go with --domain");
    if (explain->descriptors.count > 0 && is_about_a_request(explain))
        return cdl_usage_error(explain->command, "--descriptor and a request are two questions; ask one at a time");
    if (explain->request_line == NULL && is_about_a_request(explain) && explain->request.attribute_count == 0)
        return cdl_usage_error(explain->command, "there is no --request to go with these options");
    return 0;
}

/* --------------------------------------------------------------------------------------------------------- request */

static struct cdl_slice take_word(struct cdl_slice *line)
{
    *line = cdl_slice_trim(*line);
    size_t length = 0;
    while (length < line->length && line->bytes[length] != ' ')
        length++;
    struct cdl_slice word = cdl_slice_head(*line, length);
    *line = cdl_slice_from(*line, length);
    return word;
}

/* A target may be "http://host/path", as proxies get it. */
static int read_target(struct explain *explain, struct cdl_slice target)
{
    size_t before = explain->scratch.length;
    if (!cdl_path_normalise(target, &explain->scratch))
        return cdl_usage_error(explain->command, "--request: '%.*s' is not a path, as in \"GET /v1/x\"",
                               CDL_SLICE_ARG(target));
    explain->request.path = (struct cdl_slice){explain->scratch.bytes + before, explain->scratch.length - before};
    explain->request.query = cdl_target_query(target);
    return 0;
}

static int read_request_line(struct explain *explain)
{
    struct cdl_slice line = cdl_slice_of(explain->request_line);
    struct cdl_slice method = take_word(&line), target = take_word(&line), version = take_word(&line);
    if (target.length == 0 && method.length > 0 && method.bytes[0] == '/') {
        target = method;
        method = CDL_SLICE("GET");
    }
    bool has_version = version.length > 5 && memcmp(version.bytes, "HTTP/", 5) == 0;
    if (target.length == 0 || (version.length > 0 && !has_version) || cdl_slice_trim(line).length > 0)
        return cdl_usage_error(explain->command,
                               "--request: expected \"METHOD TARGET\", as in \"GET /v1/x\", found '%s'",
                               explain->request_line);
    explain->request.method = method;
    return read_target(explain, target);
}

static void find_host(struct explain *explain)
{
    for (size_t i = 0; i < explain->request.header_count; i++) {
        if (!cdl_slice_equal_nocase(explain->headers[i].name, CDL_SLICE("host")))
            continue;
        explain->request.host = cdl_host_spell(explain->headers[i].value, &explain->scratch);
        return;
    }
}

static void find_client(struct explain *explain)
{
    const struct cdl_client_rule *rule = &explain->about.policy->client;
    if (explain->has_client)
        explain->request.client = cdl_address_group(&explain->client, rule->ipv6_prefix);
    else if (explain->has_peer)
        explain->request.client =
            cdl_client_find(rule, &explain->peer, explain->headers, explain->request.header_count).address;
}

static int make_request(struct explain *explain)
{
    explain->request.headers = explain->headers;
    explain->request.attributes = explain->attributes;
    int status = explain->request_line != NULL ? read_request_line(explain) : 0;
    find_host(explain);
    find_client(explain);
    return status;
}

/* ----------------------------------------------------------------------------------------------------------- words */

static const char *why(struct explain *explain, uint32_t limit, const struct cdl_account *account)
{
    struct cdl_writer writer = cdl_words_begin(&explain->about);
    cdl_explain_why(&explain->view, limit, account, &writer);
    return cdl_words_end(&writer);
}

static const char *why_exempt(struct explain *explain, uint32_t exemption)
{
    struct cdl_writer writer = cdl_words_begin(&explain->about);
    cdl_explain_exemption(&explain->view, exemption, &writer);
    return cdl_words_end(&writer);
}

static bool counts(const struct cdl_account *account)
{
    return account->kind == CDL_ACCOUNT_APPLIES || account->kind == CDL_ACCOUNT_REFUSES;
}

/* ------------------------------------------------------------------------------------------------------------ text */

static void print_key(struct explain *explain, const struct cdl_limit_rule *limit, const struct cdl_account *account)
{
    if (limit->per_count == 0)
        printf("      counted in one bucket with all others\n");
    for (uint32_t i = 0; i < limit->per_count; i++)
        printf("      %s %s = %s\n", i == 0 ? "counted under" : "          and", limit->per[i].text.bytes,
               cdl_words_printable(&explain->about, account->values[i]));
}

static void print_account(struct explain *explain, uint32_t index, const struct cdl_account *account)
{
    const struct cdl_limit_rule *limit = &explain->about.policy->limits[index];
    cdl_print_rate(&explain->about, &explain->about.policy->rates[account->rate]);
    printf("      %s\n", why(explain, index, account));
    if (account->kind != CDL_ACCOUNT_APPLIES)
        return;
    print_key(explain, limit, account);
    printf("      costs %" PRIu64 " token%s\n", account->cost, account->cost == 1 ? "" : "s");
    if (limit->mode == CDL_MODE_SHADOW)
        printf("      mode: shadow, so it never refuses\n");
}

static void print_request(struct explain *explain)
{
    const struct cdl_view *view = &explain->view;
    printf("%s", view->method.length > 0 ? cdl_words_printable(&explain->about, view->method) : "request");
    if (view->path.length > 0)
        printf(" %s", cdl_words_printable(&explain->about, view->path));
    if (view->host.length > 0)
        printf(" on %s", cdl_words_printable(&explain->about, view->host));
    printf(" from %s\n\n", view->client_text.length > 0 ? cdl_words_printable(&explain->about, view->client_text)
                                                        : "an unknown client");
}

static void print_outcome(struct explain *explain, const struct cdl_plan *plan)
{
    switch (plan->outcome) {
    case CDL_OUTCOME_LIMITED:
        printf("limited by %zu of %u, all or nothing:\n", plan->count, explain->about.policy->request_limit_count);
        break;
    case CDL_OUTCOME_EXEMPT:
        printf("exempt, and so not limited: %s (line %u)\n", why_exempt(explain, plan->exemption),
               explain->about.policy->exemptions[plan->exemption].place.line);
        break;
    case CDL_OUTCOME_TOO_MANY:
        printf("refused: more than %u limits apply to it\n", CDL_PLAN_MAX);
        break;
    default:
        printf("refused without counting: %s%s%s\n", cdl_outcome_word(plan->outcome),
               plan->limit == CDL_NONE ? "" : ", says ",
               plan->limit == CDL_NONE ? "" : explain->about.policy->limits[plan->limit].name.bytes);
        break;
    }
}

static void print_others(struct explain *explain)
{
    bool any = false;
    for (uint32_t i = 0; i < explain->about.policy->request_limit_count; i++) {
        struct cdl_account account;
        size_t before = explain->scratch.length;
        cdl_explain_limit(&explain->view, i, explain->cost, &account);
        if (!counts(&account)) {
            printf("%s  %s: %s\n", any ? "" : "\nnot limited by:\n", explain->about.policy->limits[i].name.bytes,
                   why(explain, i, &account));
            any = true;
        }
        explain->scratch.length = before;
    }
}

static void print_text(struct explain *explain, const struct cdl_plan *plan)
{
    print_request(explain);
    print_outcome(explain, plan);
    if (plan->outcome == CDL_OUTCOME_EXEMPT)
        return;
    for (uint32_t i = 0; i < explain->about.policy->request_limit_count; i++) {
        struct cdl_account account;
        size_t before = explain->scratch.length;
        cdl_explain_limit(&explain->view, i, explain->cost, &account);
        if (counts(&account))
            print_account(explain, i, &account);
        explain->scratch.length = before;
    }
    print_others(explain);
}

/* ------------------------------------------------------------------------------------------------------------ JSON */

static json_t *key_json(struct explain *explain, const struct cdl_limit_rule *limit, const struct cdl_account *account)
{
    json_t *key = json_array();
    for (uint32_t i = 0; i < limit->per_count; i++)
        json_array_append_new(key, json_pack("{s:s, s:s}", "identity", limit->per[i].text.bytes, "value",
                                             cdl_words_printable(&explain->about, account->values[i])));
    return key;
}

static json_t *account_json(struct explain *explain, uint32_t index)
{
    const struct cdl_limit_rule *limit = &explain->about.policy->limits[index];
    struct cdl_account account;
    size_t before = explain->scratch.length;
    cdl_explain_limit(&explain->view, index, explain->cost, &account);
    json_t *object = cdl_rate_json(&explain->about, &explain->about.policy->rates[account.rate]);
    json_object_set_new(object, "applies", json_boolean(counts(&account)));
    json_object_set_new(object, "why", json_string(why(explain, index, &account)));
    if (account.kind == CDL_ACCOUNT_APPLIES) {
        json_object_set_new(object, "key", key_json(explain, limit, &account));
        json_object_set_new(object, "key_bytes", json_string(cdl_words_printable(&explain->about, account.key)));
        json_object_set_new(object, "cost", json_integer((json_int_t)account.cost));
    }
    explain->scratch.length = before;
    return object;
}

static void set_text(struct explain *explain, json_t *object, const char *key, struct cdl_slice value)
{
    if (value.length > 0)
        json_object_set_new(object, key, json_string(cdl_words_printable(&explain->about, value)));
}

static json_t *request_json(struct explain *explain)
{
    json_t *object = json_object();
    set_text(explain, object, "method", explain->view.method);
    set_text(explain, object, "path", explain->view.path);
    set_text(explain, object, "host", explain->view.host);
    set_text(explain, object, "client_ip", explain->view.client_text);
    return object;
}

static json_t *plan_json(struct explain *explain, const struct cdl_plan *plan)
{
    json_t *root = json_pack("{s:o, s:s}", "request", request_json(explain), "outcome",
                             cdl_outcome_word(plan->outcome));
    if (plan->outcome == CDL_OUTCOME_EXEMPT)
        json_object_set_new(root, "exempt",
                            json_pack("{s:s, s:i}", "why", why_exempt(explain, plan->exemption), "line",
                                      (int)explain->about.policy->exemptions[plan->exemption].place.line));
    if (plan->limit != CDL_NONE)
        json_object_set_new(root, "refused_by", json_string(explain->about.policy->limits[plan->limit].name.bytes));
    json_t *limits = json_array();
    for (uint32_t i = 0; i < explain->about.policy->request_limit_count; i++)
        json_array_append_new(limits, account_json(explain, i));
    json_object_set_new(root, "limits", limits);
    return root;
}

/* ------------------------------------------------------------------------------------------------------------- run */

static int explain_request(struct explain *explain)
{
    static struct cdl_plan plan;
    static char scratch[CDL_MATCH_SCRATCH_BYTES];
    int status = make_request(explain);
    if (status != 0)
        return status;
    cdl_policy_match(explain->about.policy, &explain->request, explain->cost, scratch, sizeof scratch, &plan);
    cdl_view_open(&explain->view, explain->about.policy, &explain->request, &explain->scratch);
    if (!explain->json)
        print_text(explain, &plan);
    else if (cdl_print_json(plan_json(explain, &plan)) != 0)
        return CDL_EXIT_NO;
    return CDL_EXIT_YES;
}

static int explain_descriptors(struct explain *explain)
{
    explain->descriptors.hits = explain->cost == CDL_COST_UNSAID ? 0 : explain->cost;
    explain->descriptors.json = explain->json;
    return cdl_explain_descriptors(&explain->about, explain->command, &explain->descriptors);
}

static int explain_limits(struct explain *explain)
{
    if (!explain->json)
        cdl_print_limits(&explain->about);
    else if (cdl_print_json(cdl_limits_json(&explain->about)) != 0)
        return CDL_EXIT_NO;
    return CDL_EXIT_YES;
}

static int run(struct cdl_arguments *arguments)
{
    static struct cdl_report report; /* these are large */
    static struct explain explain;
    static char words[CDL_EXPLAIN_WORDS_BYTES], scratch[2 * CDL_MATCH_SCRATCH_BYTES];
    explain = (struct explain){.command = arguments->command,
                               .cost = CDL_COST_UNSAID,
                               .about.words = words,
                               .scratch = cdl_writer_on(scratch, sizeof scratch)};
    int status = read_arguments(&explain, arguments);
    if (status != 0)
        return status;
    explain.about.policy = cdl_cli_load_policy(explain.about.file, false, &report);
    if (explain.about.policy == NULL)
        return CDL_EXIT_NO;
    if (explain.descriptors.count > 0)
        status = explain_descriptors(&explain);
    else
        status = is_about_a_request(&explain) ? explain_request(&explain) : explain_limits(&explain);
    cdl_policy_free(explain.about.policy);
    return status;
}

const struct cdl_command cdl_command_explain = {
    .name = "explain",
    .operands = "FILE",
    .summary = "say what a policy promises, and what it makes of a request",
    .details = "Without options: what each limit promises, in words. With a request: which limits\n"
               "apply to it and why, what each counts it under and what it costs there, and why\n"
               "the others do not apply. With descriptors, as Envoy asks: the way that each takes\n"
               "through its domain, and what limits it there; a backslash takes ',' and '=' for\n"
               "what they are. Nothing is counted and no store is asked.",
    .options = options,
    .option_count = sizeof options / sizeof options[0],
    .run = run,
};
