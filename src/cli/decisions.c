#include "cli/decisions.h"

#include "base/instant.h"
#include "wire/json_api.h"

static void write_name(struct cdl_writer *writer, struct cdl_slice member, struct cdl_slice text)
{
    cdl_write(writer, member);
    if (text.length == 0)
        cdl_write(writer, CDL_SLICE("null"));
    else
        cdl_json_write_string(writer, text);
}

static void write_time(struct cdl_writer *writer, struct cdl_slice member, int64_t instant_ns)
{
    cdl_write(writer, member);
    cdl_instant_write(writer, instant_ns);
    cdl_write(writer, CDL_SLICE("\""));
}

static void write_tokens(struct cdl_writer *writer, const struct caudal_decision *decision)
{
    cdl_write(writer, CDL_SLICE(",\"remaining\":"));
    if (decision == NULL || decision->remaining == UINT64_MAX)
        cdl_write(writer, CDL_SLICE("null"));
    else
        cdl_write_u64(writer, decision->remaining);
    cdl_write(writer, CDL_SLICE(",\"retry_after_ns\":"));
    if (decision == NULL || decision->retry_after_ns < 0)
        cdl_write(writer, CDL_SLICE("null"));
    else
        cdl_write_i64(writer, decision->retry_after_ns);
}

static void write_client(struct cdl_writer *writer, const struct cdl_address *client)
{
    char text[CDL_ADDRESS_TEXT_MAX];
    const size_t length = client->family == 0 ? 0 : cdl_address_format(client, text);
    write_name(writer, CDL_SLICE(",\"client\":"), (struct cdl_slice){text, length});
}

static void write_key(struct cdl_decisions *decisions, struct cdl_writer *writer, const struct cdl_decided *decided)
{
    struct cdl_writer key = cdl_writer_on(decisions->key, sizeof decisions->key);
    if (decided->decision->charge != NULL)
        cdl_replay_write_key(decided->replay, decided->decision->charge, &key);
    write_name(writer, CDL_SLICE(",\"key\":"), cdl_written(&key));
}

/* What one policy says, without the braces around it. */
static void write_decided(struct cdl_decisions *decisions, struct cdl_writer *writer, const struct cdl_decided *decided)
{
    const struct cdl_replay_decision *decision = decided->decision;
    const bool refused = decision->verdict == CDL_REPLAY_REFUSED;
    cdl_write_text(writer, refused ? "\"verdict\":\"refused\"" : "\"verdict\":\"admitted\"");
    write_name(writer, CDL_SLICE(",\"limit\":"), decision->limit);
    write_key(decisions, writer, decided);
    write_tokens(writer, decision->decision);
    if (decision->reason != NULL)
        write_name(writer, CDL_SLICE(",\"reason\":"), cdl_slice_of(decision->reason));
    if (decision->shadow_refusals > 0) {
        cdl_write(writer, CDL_SLICE(",\"shadow_refusals\":"));
        cdl_write_u64(writer, decision->shadow_refusals);
    }
}

static void write_origin(struct cdl_writer *writer, const char *log, const struct cdl_replay_decision *decision)
{
    write_name(writer, CDL_SLICE("{\"log\":"), log != NULL ? cdl_slice_of(log) : CDL_SLICE(""));
    cdl_write(writer, CDL_SLICE(",\"line\":"));
    cdl_write_u64(writer, decision->origin.line);
    write_time(writer, CDL_SLICE(",\"time\":\""), decision->instant_ns);
    if (decision->asked_at_ns != decision->instant_ns)
        write_time(writer, CDL_SLICE(",\"asked_at\":\""), decision->asked_at_ns);
}

void cdl_decisions_write(struct cdl_decisions *decisions, const char *log, const struct cdl_decided *first,
                         const struct cdl_decided *second)
{
    struct cdl_writer writer = cdl_writer_on(decisions->bytes, sizeof decisions->bytes);
    writer.length = decisions->length;
    write_origin(&writer, log, first->decision);
    write_client(&writer, &first->decision->client);
    cdl_write(&writer, CDL_SLICE(","));
    write_decided(decisions, &writer, first);
    if (second != NULL) {
        cdl_write(&writer, CDL_SLICE(",\"second\":{"));
        write_decided(decisions, &writer, second);
        cdl_write(&writer, CDL_SLICE("}"));
    }
    cdl_write(&writer, CDL_SLICE("}\n"));
    decisions->length = writer.length;
    /* The next one has room: a key has 65,536 bytes at most, each of which may become six, and there may be two. */
    if (writer.length > sizeof decisions->bytes / 16)
        cdl_decisions_flush(decisions);
}

void cdl_decisions_flush(struct cdl_decisions *decisions)
{
    fwrite(decisions->bytes, 1, decisions->length, decisions->to);
    decisions->length = 0;
}
