#include "policy/view.h"

#include "identity/path.h"

/* ---------------------------------------------------------------------------------------------------------- values */

/* What the caller says under a name, if it does; header names have no case. */
static bool find_attribute(const struct cdl_request *request, struct cdl_slice name, bool nocase,
                           struct cdl_slice *value)
{
    for (size_t i = 0; i < request->attribute_count; i++) {
        const struct cdl_field *attribute = &request->attributes[i];
        if (nocase ? cdl_slice_equal_nocase(attribute->name, name) : cdl_slice_equal(attribute->name, name)) {
            *value = attribute->value;
            return true;
        }
    }
    return false;
}

static bool next_header(const struct cdl_request *request, struct cdl_slice name, size_t *cursor,
                        struct cdl_slice *value)
{
    while (*cursor < request->header_count) {
        const struct cdl_field *field = &request->headers[(*cursor)++];
        if (field->name.length == name.length && cdl_slice_equal_nocase(field->name, name)) {
            *value = cdl_slice_trim(field->value);
            if (value->length > 0)
                return true;
        }
    }
    return false;
}

/* HTTP/2 sends a cookie a field. The first one that has a value counts. */
static bool find_cookie(const struct cdl_request *request, struct cdl_slice name, struct cdl_slice *value)
{
    size_t cursor = 0;
    struct cdl_slice header;
    while (next_header(request, CDL_SLICE("cookie"), &cursor, &header))
        if (cdl_cookie_find(header, name, value) && value->length > 0)
            return true;
    return false;
}

static bool find_query(struct cdl_view *view, struct cdl_slice name, struct cdl_slice *value)
{
    struct cdl_slice raw;
    if (!cdl_query_find(view->request->query, name, &raw))
        return false;
    size_t before = view->scratch->length;
    if (raw.length == 0 || (memchr(raw.bytes, '%', raw.length) == NULL && memchr(raw.bytes, '+', raw.length) == NULL))
        *value = raw;
    else if (cdl_query_decode(raw, view->scratch))
        *value = (struct cdl_slice){view->scratch->bytes + before, view->scratch->length - before};
    else
        return false;
    return true;
}

static bool fill_template(struct cdl_view *view, const struct cdl_identity *what, struct cdl_slice *value)
{
    if (!cdl_path_pattern_match(&what->template, view->path))
        return false;
    size_t before = view->scratch->length;
    cdl_path_pattern_fill(&what->template, view->path, view->scratch);
    *value = (struct cdl_slice){view->scratch->bytes + before, view->scratch->length - before};
    return !view->scratch->overflow;
}

/* The only value that an identity of another kind than a header can have. */
static bool find_value(struct cdl_view *view, const struct cdl_identity *what, struct cdl_slice *value)
{
    switch (what->kind) {
    case CDL_IDENTITY_CLIENT_IP:
        *value = view->client_text;
        return true;
    case CDL_IDENTITY_METHOD:
        *value = view->method;
        return true;
    case CDL_IDENTITY_HOST:
        *value = view->host;
        return true;
    case CDL_IDENTITY_PATH:
        *value = view->path;
        return true;
    case CDL_IDENTITY_SEGMENT:
        *value = cdl_path_segment(view->path, what->segment);
        return true;
    case CDL_IDENTITY_TEMPLATE:
        return fill_template(view, what, value);
    case CDL_IDENTITY_COOKIE:
        return find_cookie(view->request, what->name, value);
    case CDL_IDENTITY_QUERY:
        return find_query(view, what->name, value);
    case CDL_IDENTITY_ATTRIBUTE:
        return find_attribute(view->request, what->name, false, value);
    case CDL_IDENTITY_HEADER:
        break;
    }
    return false;
}

/* client_ip, method, host and path were overridden when the view was opened; the rest is overridden here. */
static bool is_overridden(struct cdl_view *view, const struct cdl_identity *what, struct cdl_slice *value)
{
    switch (what->kind) {
    case CDL_IDENTITY_HEADER:
    case CDL_IDENTITY_COOKIE:
    case CDL_IDENTITY_QUERY:
    case CDL_IDENTITY_SEGMENT:
        return find_attribute(view->request, what->text, what->kind == CDL_IDENTITY_HEADER, value);
    default:
        return false;
    }
}

bool cdl_view_next(struct cdl_view *view, const struct cdl_identity *what, size_t *cursor, struct cdl_slice *value)
{
    if (*cursor == 0 && view->request->attribute_count > 0 && is_overridden(view, what, value)) {
        *cursor = SIZE_MAX;
        return value->length > 0;
    }
    if (*cursor == SIZE_MAX)
        return false;
    if (what->kind == CDL_IDENTITY_HEADER)
        return next_header(view->request, what->name, cursor, value);
    *cursor = SIZE_MAX;
    return find_value(view, what, value) && value->length > 0;
}

/* ------------------------------------------------------------------------------------------------------------ open */

/* A text that is no address is no client: junk must not be an identity that all junk shares, nor one of its own for each. */
static void override_client(struct cdl_view *view, struct cdl_slice text)
{
    if (cdl_address_parse(text, &view->client))
        view->client = cdl_address_group(&view->client, view->policy->client.ipv6_prefix);
    else
        view->client = (struct cdl_address){.family = 0};
}

static void override_path(struct cdl_view *view, struct cdl_slice text)
{
    size_t before = view->scratch->length;
    view->path = (struct cdl_slice){NULL, 0};
    if (cdl_path_normalise(text, view->scratch))
        view->path = (struct cdl_slice){view->scratch->bytes + before, view->scratch->length - before};
}

static void override_host(struct cdl_view *view, struct cdl_slice text)
{
    size_t before = view->scratch->length;
    cdl_write(view->scratch, text);
    if (view->scratch->overflow)
        return;
    char *bytes = view->scratch->bytes + before;
    for (size_t i = 0; i < text.length; i++)
        bytes[i] = cdl_ascii_lower(bytes[i]);
    view->host = (struct cdl_slice){bytes, text.length};
}

static void open_overrides(struct cdl_view *view)
{
    const struct cdl_request *request = view->request;
    struct cdl_slice text;
    if (find_attribute(request, CDL_SLICE("method"), false, &text))
        view->method = text;
    if (find_attribute(request, CDL_SLICE("host"), false, &text))
        override_host(view, text);
    if (find_attribute(request, CDL_SLICE("path"), false, &text))
        override_path(view, text);
    if (find_attribute(request, CDL_SLICE("client_ip"), false, &text))
        override_client(view, text);
}

void cdl_view_open(struct cdl_view *view, const struct cdl_policy *policy, const struct cdl_request *request,
                   struct cdl_writer *scratch)
{
    *view = (struct cdl_view){
        .policy = policy,
        .request = request,
        .scratch = scratch,
        .method = request->method,
        .host = request->host,
        .path = request->path,
        .client = request->client,
    };
    if (request->attribute_count > 0)
        open_overrides(view);
    if (view->client.family == 0)
        return;
    char text[CDL_ADDRESS_TEXT_MAX];
    size_t before = scratch->length;
    cdl_write(scratch, (struct cdl_slice){text, cdl_address_format(&view->client, text)});
    view->client_text = (struct cdl_slice){scratch->bytes + before, scratch->length - before};
}

/* ----------------------------------------------------------------------------------------------------------- rules */

bool cdl_pattern_matches(const struct cdl_pattern *pattern, struct cdl_slice value, const struct cdl_address *client)
{
    switch (pattern->kind) {
    case CDL_PATTERN_EXACT:
        return cdl_slice_equal(pattern->text, value);
    case CDL_PATTERN_GLOB:
        return cdl_glob_match(pattern->text, value);
    case CDL_PATTERN_PATH:
        return cdl_path_pattern_match(&pattern->path, value);
    case CDL_PATTERN_NETWORK:
        break;
    }
    return client->family != 0 && cdl_network_contains(&pattern->network, client);
}

bool cdl_condition_holds(struct cdl_view *view, const struct cdl_condition *condition)
{
    size_t cursor = 0, before = view->scratch->length;
    bool holds = false;
    struct cdl_slice value;
    while (!holds && cdl_view_next(view, &condition->what, &cursor, &value))
        for (size_t i = 0; i < condition->count && !holds; i++)
            holds = cdl_pattern_matches(&condition->any_of[i], value, &view->client);
    view->scratch->length = before; /* the value is not needed any more */
    return holds;
}

bool cdl_rule_holds(struct cdl_view *view, const struct cdl_rule *rule)
{
    for (size_t i = 0; i < rule->count; i++)
        if (!cdl_condition_holds(view, &rule->conditions[i]))
            return false;
    return true;
}

bool cdl_limit_applies(struct cdl_view *view, const struct cdl_limit_rule *limit)
{
    for (uint32_t i = 0; i < limit->per_count; i++)
        if (limit->per[i].kind == CDL_IDENTITY_TEMPLATE && !cdl_path_pattern_match(&limit->per[i].template, view->path))
            return false;
    return cdl_rule_holds(view, &limit->when);
}
