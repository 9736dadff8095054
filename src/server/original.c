#include "server/original.h"

#include "identity/path.h"

/* The names that proxies say one thing under. */
struct names {
    struct cdl_slice of[3];
    size_t count;
};

static const struct names method_names = {{CDL_SLICE("x-forwarded-method"), CDL_SLICE("x-original-method")}, 2};
static const struct names target_names = {
    {CDL_SLICE("x-forwarded-uri"), CDL_SLICE("x-original-uri"), CDL_SLICE("x-original-url")}, 3};
static const struct names host_names = {{CDL_SLICE("x-forwarded-host"), CDL_SLICE("x-original-host")}, 2};
static const struct names own_host = {{CDL_SLICE("host")}, 1};

/* Finds a field by its name. False: it was sent twice. An absent one leaves *value alone. */
static bool find_once(const struct cdl_asking *asking, struct cdl_slice name, struct cdl_slice *value)
{
    bool found = false;
    for (size_t i = 0; i < asking->field_count; i++) {
        if (!cdl_slice_equal_nocase(asking->fields[i].name, name))
            continue;
        if (found)
            return false;
        found = true;
        *value = asking->fields[i].value;
    }
    return true;
}

/* The value under any of these names. False: it was said twice, under one name or under two that disagree. A proxy sets the one that
 * it knows, and passes on what the client wrote under the others: neither can be believed. */
static bool find_any(const struct cdl_asking *asking, const struct names *names, struct cdl_original *original,
                     struct cdl_slice *value)
{
    bool is_found = false;
    for (size_t i = 0; i < names->count; i++) {
        struct cdl_slice found = {NULL, 0};
        if (!find_once(asking, names->of[i], &found)) {
            original->about = names->of[i].bytes;
            return false;
        }
        if (found.length == 0)
            continue;
        if (is_found && !cdl_slice_equal(cdl_target_without_origin(found), cdl_target_without_origin(*value))) {
            original->about = names->of[i].bytes;
            return false;
        }
        if (!is_found)
            *value = found;
        is_found = true;
    }
    return true;
}

enum cdl_original_result cdl_original_find(const struct cdl_client_rule *rule, const struct cdl_asking *asking,
                                           struct cdl_writer *scratch, struct cdl_original *original)
{
    *original = (struct cdl_original){.about = NULL};
    struct cdl_slice method = asking->method, target = asking->target, host = {NULL, 0};
    if (!find_any(asking, &own_host, original, &host))
        return CDL_ORIGINAL_TWICE;
    if (cdl_peer_is_trusted(rule, &asking->peer) &&
        (!find_any(asking, &method_names, original, &method) || !find_any(asking, &target_names, original, &target) ||
         !find_any(asking, &host_names, original, &host)))
        return CDL_ORIGINAL_TWICE;

    const size_t start = scratch->length;
    if (!cdl_path_normalise(target, scratch))
        return CDL_ORIGINAL_BAD_PATH;
    const struct cdl_slice path = {scratch->bytes + start, scratch->length - start};
    const struct cdl_client client = cdl_client_find(rule, &asking->peer, asking->fields, asking->field_count);
    original->ignored_header = client.ignored_header;
    original->request = (struct cdl_request){
        .method = method,
        .host = cdl_host_spell(host, scratch),
        .path = path,
        .query = cdl_target_query(target),
        .client = client.address,
        .headers = asking->fields,
        .header_count = asking->field_count,
    };
    return scratch->overflow ? CDL_ORIGINAL_BAD_PATH : CDL_ORIGINAL_OK;
}
