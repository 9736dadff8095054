#include "replay/log_request.h"

#include "identity/path.h"

static struct cdl_slice find_path(struct cdl_slice target, struct cdl_writer *scratch)
{
    const size_t start = scratch->length;
    if (target.length == 0 || !cdl_path_normalise(target, scratch))
        return (struct cdl_slice){NULL, 0};
    return (struct cdl_slice){scratch->bytes + start, scratch->length - start};
}

void cdl_log_request_make(const struct cdl_client_rule *rule, const struct cdl_access_record *record,
                          struct cdl_writer *scratch, struct cdl_log_request *made)
{
    struct cdl_address peer;
    if (!cdl_address_parse_hop(record->client, &peer))
        peer = (struct cdl_address){.family = 0};
    scratch->length = 0;
    scratch->overflow = false;
    made->user = (struct cdl_field){CDL_SLICE("user"), record->user};
    made->request = (struct cdl_request){
        .method = record->method,
        .host = cdl_host_spell(record->host, scratch),
        .path = find_path(record->target, scratch),
        .query = cdl_target_query(cdl_target_without_origin(record->target)),
        .client = cdl_client_find(rule, &peer, record->headers, record->header_count).address,
        .headers = record->headers,
        .header_count = record->header_count,
        .attributes = &made->user,
        .attribute_count = record->user.length > 0,
    };
}
