/* What limits promise, as text and as JSON; and the words that all of `caudal explain` is put together from. */
#include <stdio.h>

#include "cli/explain.h"

struct cdl_writer cdl_words_begin(struct cdl_explaining *about)
{
    return cdl_writer_on(about->words, CDL_EXPLAIN_WORDS_BYTES - 1);
}

const char *cdl_words_end(struct cdl_writer *writer)
{
    writer->bytes[writer->length] = '\0';
    return writer->bytes;
}

const char *cdl_words_printable(struct cdl_explaining *about, struct cdl_slice bytes)
{
    struct cdl_writer writer = cdl_words_begin(about);
    cdl_write_printable(&writer, bytes);
    return cdl_words_end(&writer);
}

static uint32_t index_of(const struct cdl_explaining *about, const struct cdl_rate *rate)
{
    return (uint32_t)(rate - about->policy->rates);
}

static const char *promise(struct cdl_explaining *about, const struct cdl_rate *rate)
{
    struct cdl_writer writer = cdl_words_begin(about);
    cdl_explain_promise(about->policy, index_of(about, rate), &writer);
    return cdl_words_end(&writer);
}

static const char *sharing(struct cdl_explaining *about, const struct cdl_rate *rate)
{
    struct cdl_writer writer = cdl_words_begin(about);
    cdl_explain_sharing(about->policy, index_of(about, rate), &writer);
    return cdl_words_end(&writer);
}

static const char *rate_text(struct cdl_explaining *about, const struct cdl_rate *rate)
{
    struct cdl_writer writer = cdl_words_begin(about);
    cdl_explain_rate_text(about->policy, index_of(about, rate), &writer);
    return cdl_words_end(&writer);
}

/* ---- text ---- */

void cdl_print_rate(struct cdl_explaining *about, const struct cdl_rate *rate)
{
    printf("  %s  (%s)\n", rate->name.bytes, rate_text(about, rate));
    printf("      %s\n", promise(about, rate));
    if (about->policy->limits[rate->limit_index].sharing != CDL_SHARING_STRICT)
        printf("      %s\n", sharing(about, rate));
}

static void print_whose(const struct cdl_limit_rule *limit)
{
    if (limit->per_count > 0)
        printf("      for each");
    for (uint32_t i = 0; i < limit->per_count; i++)
        printf("%s %s", i == 0 ? "" : " and", limit->per[i].text.bytes);
    printf("%s\n", limit->per_count > 0 ? "" : "      for all requests together");
}

void cdl_print_limits(struct cdl_explaining *about)
{
    const struct cdl_policy *policy = about->policy;
    const uint32_t count = cdl_policy_named_limits(policy);
    printf("%s: %u limit%s\n\n", about->file, count, count == 1 ? "" : "s");
    for (uint32_t i = 0; i < policy->rate_count; i++) {
        const struct cdl_limit_rule *limit = &policy->limits[policy->rates[i].limit_index];
        if (limit->kind == CDL_RULE_PER_CALL)
            continue;
        cdl_print_rate(about, &policy->rates[i]);
        print_whose(limit);
        if (limit->mode != CDL_MODE_ENFORCE)
            printf("      mode: %s\n", cdl_mode_word(limit->mode));
    }
}

/* ---- JSON ---- */

/* Words are put into the object one after the other, for they are all written in one place. */
json_t *cdl_rate_json(struct cdl_explaining *about, const struct cdl_rate *rate)
{
    const struct cdl_limit_rule *limit = &about->policy->limits[rate->limit_index];
    json_t *object = json_pack("{s:s, s:s, s:s, s:s, s:i}", "limit", limit->name.bytes, "name", rate->name.bytes,
                               "mode", cdl_mode_word(limit->mode), "sharing", cdl_sharing_word(limit->sharing), "line",
                               (int)limit->place.line);
    if (limit->descriptor != NULL)
        json_object_set_new(object, "file", json_string(cdl_words_printable(about, limit->descriptor->file)));
    json_object_set_new(object, "rate", json_string(rate_text(about, rate)));
    json_object_set_new(object, "promise", json_string(promise(about, rate)));
    json_object_set_new(object, "shared", json_string(sharing(about, rate)));
    return object;
}

json_t *cdl_limits_json(struct cdl_explaining *about)
{
    json_t *limits = json_array();
    for (uint32_t i = 0; i < about->policy->rate_count; i++)
        if (about->policy->limits[about->policy->rates[i].limit_index].kind != CDL_RULE_PER_CALL)
            json_array_append_new(limits, cdl_rate_json(about, &about->policy->rates[i]));
    return json_pack("{s:o}", "limits", limits);
}

int cdl_print_json(json_t *root)
{
    const int status = json_dumpf(root, stdout, JSON_INDENT(2));
    json_decref(root);
    putchar('\n');
    return status;
}
