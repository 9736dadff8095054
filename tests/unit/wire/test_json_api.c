/* The JSON API: what is read, the words of every refusal, and every byte of what is written. */
#include "wire/json_api.h"

#include <jansson.h>
#include <stdlib.h>

#include "../support.h"

static struct cdl_json_body parse(struct cdl_slice text)
{
    struct cdl_json_body body;
    struct caudal_problem problem = {.message = ""};
    /* In memory of exactly its size. */
    char *copy = malloc(text.length + (text.length == 0));
    assert_non_null(copy);
    memcpy(copy, text.bytes, text.length);
    const int status = cdl_json_parse((struct cdl_slice){copy, text.length}, &body, &problem);
    free(copy); /* nothing of it is needed any more */
    if (status != CAUDAL_OK)
        fail_msg("%.*s: %s", CDL_SLICE_ARG(text), problem.message);
    return body;
}

static void assert_wrong(struct cdl_slice text, int code, const char *words)
{
    struct cdl_json_body body = {.count = 99};
    struct caudal_problem problem = {.message = ""};
    assert_int_equal(cdl_json_parse(text, &body, &problem), code);
    assert_int_equal(problem.code, code);
    if (strcmp(problem.message, words) != 0)
        fail_msg("%.*s: got \"%s\", want \"%s\"", CDL_SLICE_ARG(text), problem.message, words);
    assert_null(body.root);
    assert_int_equal(body.count, 0);
    cdl_json_free(&body);
    assert_int_equal(cdl_json_parse(text, &body, NULL), code); /* nobody has to listen */
}

static void assert_malformed(const char *text, const char *words)
{
    assert_wrong(cdl_slice_of(text), CAUDAL_ERR_SYNTAX, words);
}

static void assert_slice(struct cdl_slice got, struct cdl_slice want)
{
    if (!cdl_slice_equal(got, want))
        fail_msg("got \"%.*s\", want \"%.*s\"", CDL_SLICE_ARG(got), CDL_SLICE_ARG(want));
}

/* ---- what is read ---- */

static void a_request_by_attributes(void **state)
{
    (void)state;
    struct cdl_json_body body = parse(
        CDL_SLICE("{\"attributes\": {\"client_ip\": \"203.0.113.7\", \"tenant\": \"caf\\u00e9\"}, \"cost\": 2}"));
    struct cdl_json_request request;
    assert_int_equal(body.count, 1);
    assert_false(body.is_batch);
    cdl_json_request(&body, 0, &request);
    assert_int_equal(request.limit.length, 0);
    assert_int_equal(request.key_part_count, 0);
    assert_true(request.has_cost);
    assert_int_equal(request.cost, 2);
    assert_int_equal(request.attribute_count, 2);
    assert_slice(request.attributes[0].name, CDL_SLICE("client_ip"));
    assert_slice(request.attributes[0].value, CDL_SLICE("203.0.113.7"));
    assert_slice(request.attributes[1].value, CDL_SLICE("caf\xc3\xa9"));
    cdl_json_free(&body);
    body = parse(CDL_SLICE("{\"attributes\": {}}"));
    cdl_json_request(&body, 0, &request);
    assert_int_equal(request.attribute_count, 0);
    assert_false(request.has_cost);
    assert_int_equal(request.cost, 1);
    cdl_json_free(&body);
}

static void a_request_by_limit_and_key(void **state)
{
    (void)state;
    struct cdl_json_request request;
    struct cdl_json_body body = parse(CDL_SLICE("{\"limit\":\"per-client\",\"key\":\"a\"}"));
    cdl_json_request(&body, 0, &request);
    assert_slice(request.limit, CDL_SLICE("per-client"));
    assert_int_equal(request.key_part_count, 1);
    assert_slice(request.key_parts[0], CDL_SLICE("a"));
    cdl_json_free(&body);

    body = parse(CDL_SLICE(" {\"cost\":0,\"key\":[\"a\",\"\",\"b\"],\"limit\":\"l\"} \n"));
    cdl_json_request(&body, 0, &request);
    assert_int_equal(request.cost, 0);
    assert_int_equal(request.key_part_count, 3);
    assert_slice(request.key_parts[1], CDL_SLICE(""));
    assert_slice(request.key_parts[2], CDL_SLICE("b"));
    cdl_json_free(&body);

    body = parse(CDL_SLICE("{\"limit\":\"everybody\"}"));
    cdl_json_request(&body, 0, &request);
    assert_int_equal(request.key_part_count, 0);
    cdl_json_free(&body);
}

/* C75 */
static void nul_in_a_string_is_data(void **state)
{
    (void)state;
    struct cdl_json_request request;
    struct cdl_json_body body = parse(CDL_SLICE("{\"limit\":\"l\",\"key\":[\"a\\u0000b\",\"\\u0000\",\"\\r\\n\"]}"));
    cdl_json_request(&body, 0, &request);
    assert_slice(request.key_parts[0], CDL_SLICE("a\0b"));
    assert_slice(request.key_parts[1], CDL_SLICE("\0"));
    assert_slice(request.key_parts[2], CDL_SLICE("\r\n"));
    cdl_json_free(&body);
    body = parse(CDL_SLICE("{\"attributes\":{\"t\":\"\\u0000x\"}}"));
    cdl_json_request(&body, 0, &request);
    assert_slice(request.attributes[0].value, CDL_SLICE("\0x"));
    cdl_json_free(&body);
    /* But as the name of a limit it would be "a" to whoever reads C strings. */
    assert_malformed("{\"limit\":\"a\\u0000b\"}", "limit: expected a name of 1 to 255 bytes without NUL");
}

static void a_batch_of_both_forms(void **state)
{
    (void)state;
    struct cdl_json_request request;
    struct cdl_json_body body = parse(CDL_SLICE("{\"requests\":[{\"limit\":\"l\",\"key\":\"k\"},"
                                                "{\"attributes\":{\"a\":\"b\"},\"cost\":7}]}"));
    assert_true(body.is_batch);
    assert_int_equal(body.count, 2);
    cdl_json_request(&body, 1, &request);
    assert_int_equal(request.cost, 7);
    assert_int_equal(request.attribute_count, 1);
    assert_int_equal(request.limit.length, 0);
    cdl_json_request(&body, 0, &request);
    assert_slice(request.limit, CDL_SLICE("l"));
    assert_int_equal(request.attribute_count, 0);
    assert_int_equal(request.cost, 1);
    cdl_json_free(&body);
}

static void costs_are_whole_and_large(void **state)
{
    (void)state;
    struct cdl_json_request request;
    struct cdl_json_body body = parse(CDL_SLICE("{\"limit\":\"l\",\"cost\":9223372036854775807}"));
    cdl_json_request(&body, 0, &request);
    assert_int_equal(request.cost, INT64_MAX);
    cdl_json_free(&body);
}

/* ---- what is refused, in which words ---- */

static void what_is_no_json(void **state)
{
    (void)state;
    assert_malformed("", "line 1, column 0: '[' or '{' expected near end of file");
    assert_malformed("{\"limit\":\"l\"", "line 1, column 12: '}' expected near end of file");
    assert_malformed("{\"limit\":\"l\"}x", "line 1, column 14: end of file expected near 'x'");
    assert_malformed("{\n\"limit\":\"\xff\"}", "line 2, column 9: unable to decode byte 0xff near '\"'");
    assert_malformed("{\"limit\":\"l\",\"cost\":99999999999999999999}",
                     "line 1, column 40: too big integer near '99999999999999999999'");
    assert_malformed("{\"limit\":\"l\",\"\\u0000\":1}",
                     "line 1, column 21: NUL byte in object key not supported near '\"\\u0000\"'");
    struct caudal_problem problem;
    struct cdl_json_body body;
    assert_int_equal(cdl_json_parse((struct cdl_slice){NULL, 0}, &body, &problem), CAUDAL_ERR_SYNTAX);
}

static void a_key_that_is_given_twice(void **state)
{
    (void)state;
    assert_malformed("{\"limit\":\"l\",\"cost\":1,\"cost\":2}",
                     "line 1, column 28: duplicate object key near '\"cost\"'");
    assert_malformed("{\"attributes\":{\"a\":\"1\",\"a\":\"2\"}}",
                     "line 1, column 26: duplicate object key near '\"a\"'");
}

static void another_type_than_expected(void **state)
{
    (void)state;
    assert_malformed("[]", "expected an object, found a list");
    assert_malformed("{\"limit\":5}", "limit: expected a string, found a whole number");
    assert_malformed("{\"limit\":\"l\",\"cost\":\"1\"}", "cost: expected a whole number, found a string");
    assert_malformed("{\"limit\":\"l\",\"cost\":1.5}",
                     "cost: expected a whole number, found a number that is not whole");
    assert_malformed("{\"limit\":\"l\",\"cost\":null}", "cost: expected a whole number, found null");
    assert_malformed("{\"limit\":\"l\",\"cost\":true}", "cost: expected a whole number, found true");
    assert_malformed("{\"limit\":\"l\",\"cost\":false}", "cost: expected a whole number, found false");
    assert_malformed("{\"limit\":\"l\",\"cost\":-1}", "cost: expected 0 or more, found -1");
    assert_malformed("{\"limit\":\"l\",\"key\":{}}", "key: expected a string or a list of strings, found an object");
    assert_malformed("{\"limit\":\"l\",\"key\":[\"a\",1]}",
                     "key: expected a string or a list of strings, found a whole number");
    assert_malformed("{\"attributes\":[]}", "attributes: expected an object, found a list");
    assert_malformed("{\"attributes\":{\"tenant\":5}}", "attributes.tenant: expected a string, found a whole number");
    assert_malformed("{\"requests\":{}}", "requests: expected a list, found an object");
    assert_malformed("{\"requests\":[1]}", "requests[0]: expected an object, found a whole number");
}

static void keys_that_are_not_known_or_do_not_go_together(void **state)
{
    (void)state;
    assert_malformed("{}", "limit: missing; give attributes, or a limit and a key");
    assert_malformed("{\"cost\":1}", "limit: missing; give attributes, or a limit and a key");
    assert_malformed("{\"limits\":\"l\"}", "limits: unknown; known are attributes, limit, key and cost");
    assert_malformed("{\"limit\":\"l\",\"attributes\":{}}", "limit: cannot stand beside attributes");
    assert_malformed("{\"key\":\"k\",\"attributes\":{}}", "key: needs a limit");
    assert_malformed("{\"key\":\"k\"}", "key: needs a limit");
    assert_malformed("{\"requests\":[{\"limit\":\"l\"}],\"cost\":1}", "cost: cannot stand beside requests");
    assert_malformed("{\"requests\":[{\"limit\":\"l\"},{\"limit\":\"l\",\"Cost\":1}]}",
                     "requests[1].Cost: unknown; known are attributes, limit, key and cost");
    assert_malformed("{\"requests\":[{\"requests\":[]}]}",
                     "requests[0].requests: unknown; known are attributes, limit, key and cost");
    assert_malformed("{\"an-unknown-key-that-is-longer-than-anybody-wants-to-read\":1}",
                     "an-unknown-key-that-is-longer-than-anybo: unknown; known are attributes, limit, key and cost");
    assert_malformed("{\"a\\nb\":1}", "a?b: unknown; known are attributes, limit, key and cost");
}

/* `head`, then `piece` as often as said, then `tail`. */
static struct cdl_slice long_text(const char *head, const char *piece, size_t times, const char *tail)
{
    static char room[2 * CDL_JSON_BODY_MAX];
    struct cdl_writer writer = cdl_writer_on(room, sizeof room);
    cdl_write_text(&writer, head);
    for (size_t i = 0; i < times; i++)
        cdl_write_text(&writer, piece);
    cdl_write_text(&writer, tail);
    assert_false(writer.overflow);
    return cdl_written(&writer);
}

static void assert_fits(struct cdl_slice text)
{
    struct cdl_json_body body = parse(text);
    cdl_json_free(&body);
}

static void everything_has_a_bound(void **state)
{
    (void)state;
    assert_malformed("{\"requests\":[]}", "requests: expected 1 to 256, found 0");
    const char *one = "{\"limit\":\"l\"},";
    assert_fits(long_text("{\"requests\":[", one, 255, "{\"limit\":\"l\"}]}"));
    assert_wrong(long_text("{\"requests\":[", one, 256, "{\"limit\":\"l\"}]}"), CAUDAL_ERR_SYNTAX,
                 "requests: expected 1 to 256, found 257");
    assert_fits(long_text("{\"limit\":\"l\",\"key\":[", "\"a\",", 15, "\"a\"]}"));
    assert_wrong(long_text("{\"limit\":\"l\",\"key\":[", "\"a\",", 16, "\"a\"]}"), CAUDAL_ERR_SYNTAX,
                 "key: expected at most 16 parts");
    assert_fits(long_text("{\"limit\":\"l\",\"key\":\"", "a", CAUDAL_KEY_MAX, "\"}"));
    assert_wrong(long_text("{\"limit\":\"l\",\"key\":\"", "a", CAUDAL_KEY_MAX + 1, "\"}"), CAUDAL_ERR_KEY,
                 "key: expected at most 65536 bytes, found 65537");
    assert_fits(long_text("{\"limit\":\"", "a", 255, "\"}"));
    assert_wrong(long_text("{\"limit\":\"", "a", 256, "\"}"), CAUDAL_ERR_SYNTAX,
                 "limit: expected a name of 1 to 255 bytes without NUL");
    assert_malformed("{\"limit\":\"\"}", "limit: expected a name of 1 to 255 bytes without NUL");
    assert_wrong(long_text("{\"limit\":\"l\"", " ", CDL_JSON_BODY_MAX, "}"), CAUDAL_ERR_SYNTAX,
                 "the body is longer than 1048576 bytes");
    assert_wrong(long_text("", "[", 9, ""), CAUDAL_ERR_SYNTAX, "the body is nested deeper than 8");
    assert_wrong(long_text("{\"a\":\"\\\"]\",\"b\":", "[", 500000, ""), CAUDAL_ERR_SYNTAX,
                 "the body is nested deeper than 8");
    assert_fits(long_text("{\"limit\":\"l\",\"key\":\"\\\"", "[", 500, "\\\\\"}"));
}

static void attributes_have_a_bound(void **state)
{
    (void)state;
    for (size_t count = CDL_JSON_ATTRIBUTES_MAX; count <= CDL_JSON_ATTRIBUTES_MAX + 1; count++) {
        static char room[8192];
        struct cdl_writer writer = cdl_writer_on(room, sizeof room);
        for (size_t i = 0; i < count; i++)
            cdl_writef(&writer, "%s\"a%zu\":\"v\"", i == 0 ? "{\"attributes\":{" : ",", i);
        cdl_write_text(&writer, "}}");
        if (count == CDL_JSON_ATTRIBUTES_MAX)
            assert_fits(cdl_written(&writer));
        else
            assert_wrong(cdl_written(&writer), CAUDAL_ERR_SYNTAX, "attributes: expected at most 64, found 65");
    }
}

/* ---- memory ---- */

static long allocations_left;

static void *allocate_while_it_lasts(size_t size)
{
    return allocations_left-- > 0 ? malloc(size) : NULL;
}

/* Each allocation of a body fails in turn. */
static void want_of_memory_is_an_error_and_leaks_nothing(void **state)
{
    (void)state;
    const struct cdl_slice text = CDL_SLICE("{\"requests\":[{\"limit\":\"l\",\"key\":[\"a\",\"b\"]},"
                                            "{\"attributes\":{\"a\":\"b\"},\"cost\":7}]}");
    json_set_alloc_funcs(allocate_while_it_lasts, free);
    struct cdl_json_body body;
    int status;
    long fail_at = 0;
    do {
        allocations_left = fail_at;
        status = cdl_json_parse(text, &body, NULL);
        assert_true(status == CAUDAL_OK || status == CAUDAL_ERR_MEMORY || status == CAUDAL_ERR_SYNTAX);
    } while (status != CAUDAL_OK && ++fail_at < 1000);
    json_set_alloc_funcs(malloc, free);
    assert_in_range(fail_at, 20, 999);
    cdl_json_free(&body);
}

/* ---- what is written ---- */

static char room[8192];

static void assert_json(struct cdl_writer *writer, const char *want)
{
    assert_false(writer->overflow);
    if (!cdl_slice_equal(cdl_written(writer), cdl_slice_of(want)))
        fail_msg("got\n%.*s\nwant\n%s", CDL_SLICE_ARG(cdl_written(writer)), want);
    json_t *root = json_loadb(writer->bytes, writer->length, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, NULL);
    if (root == NULL)
        fail_msg("no JSON: %s", want);
    json_decref(root);
}

static const struct caudal_decision denied = {
    .verdict = CAUDAL_DENY, .capacity = 100, .retry_after_ns = 600000000, .reset_after_ns = 60000000000};
static const struct caudal_decision allowed = {.verdict = CAUDAL_ALLOW,
                                               .source = CAUDAL_SOURCE_LEASE,
                                               .capacity = 5000,
                                               .granted = 1,
                                               .remaining = 4999,
                                               .reset_after_ns = 200000,
                                               .error_bound = 3};
static const struct caudal_decision never = {
    .verdict = CAUDAL_NEVER, .capacity = 10, .remaining = 4, .retry_after_ns = -1, .reset_after_ns = -1};
static const struct caudal_decision unlimited = {
    .verdict = CAUDAL_ALLOW, .capacity = UINT64_MAX, .remaining = UINT64_MAX, .granted = 1};
static const struct caudal_decision failed = {.status = CAUDAL_ERR_UNKNOWN};

static void a_decision_and_its_limits(void **state)
{
    (void)state;
    const struct cdl_json_decision limits[] = {{CDL_SLICE("per-client"), &denied}, {CDL_SLICE("everybody"), &allowed}};
    struct cdl_writer writer = cdl_writer_on(room, sizeof room);
    cdl_json_write_decision(&writer, &limits[0], limits, 2);
    assert_json(&writer,
                "{\"verdict\":\"deny\",\"limit\":\"per-client\",\"remaining\":0,\"capacity\":100,\"granted\":0,"
                "\"retry_after\":1,\"retry_after_ns\":600000000,\"reset_after_ns\":60000000000,"
                "\"source\":\"store\",\"error_bound\":0,\"limits\":["
                "{\"verdict\":\"deny\",\"limit\":\"per-client\",\"remaining\":0,\"capacity\":100,\"granted\":0,"
                "\"retry_after\":1,\"retry_after_ns\":600000000,\"reset_after_ns\":60000000000,"
                "\"source\":\"store\",\"error_bound\":0},"
                "{\"verdict\":\"allow\",\"limit\":\"everybody\",\"remaining\":4999,\"capacity\":5000,"
                "\"granted\":1,\"retry_after\":0,\"retry_after_ns\":0,\"reset_after_ns\":200000,"
                "\"source\":\"lease\",\"error_bound\":3}]}");
}

static void what_has_no_number_is_null(void **state)
{
    (void)state;
    struct cdl_writer writer = cdl_writer_on(room, sizeof room);
    cdl_json_write_decision(&writer, &(struct cdl_json_decision){CDL_SLICE("trial"), &never}, NULL, 0);
    assert_json(&writer, "{\"verdict\":\"never\",\"limit\":\"trial\",\"remaining\":4,\"capacity\":10,\"granted\":0,"
                         "\"retry_after\":null,\"retry_after_ns\":null,\"reset_after_ns\":null,"
                         "\"source\":\"store\",\"error_bound\":0,\"limits\":[]}");
    writer = cdl_writer_on(room, sizeof room);
    cdl_json_write_decision(&writer, &(struct cdl_json_decision){{NULL, 0}, &unlimited}, NULL, 0);
    assert_json(&writer, "{\"verdict\":\"allow\",\"limit\":null,\"remaining\":null,\"capacity\":null,\"granted\":1,"
                         "\"retry_after\":0,\"retry_after_ns\":0,\"reset_after_ns\":0,"
                         "\"source\":\"store\",\"error_bound\":0,\"limits\":[]}");
}

static void a_batch_of_decisions_one_of_which_failed(void **state)
{
    (void)state;
    struct cdl_writer writer = cdl_writer_on(room, sizeof room);
    cdl_json_begin_batch(&writer);
    for (size_t i = 0; i < 2; i++) {
        cdl_json_next(&writer, i);
        cdl_json_write_decision(&writer, &(struct cdl_json_decision){CDL_SLICE("nobody"), &failed}, NULL, 0);
    }
    cdl_json_end_batch(&writer);
    assert_json(&writer, "{\"decisions\":[{\"error\":\"unknown limit\",\"limit\":\"nobody\",\"limits\":[]},"
                         "{\"error\":\"unknown limit\",\"limit\":\"nobody\",\"limits\":[]}]}");
}

static void a_refusal_as_a_problem(void **state)
{
    (void)state;
    const struct cdl_json_decision limits[] = {
        {CDL_SLICE("everybody"), &allowed}, {CDL_SLICE("per \"client\" 50%"), &denied}, {CDL_SLICE("trial"), &never}};
    struct cdl_writer writer = cdl_writer_on(room, sizeof room);
    cdl_json_write_refusal(&writer, 429, &limits[1], limits, 3, 4);
    assert_json(&writer, "{\"type\":\"https://iana.org/assignments/http-problem-types#quota-exceeded\","
                         "\"title\":\"Request cannot be satisfied as assigned quota has been exceeded\",\"status\":429,"
                         "\"detail\":\"the limit per \\\"client\\\" 50% does not admit this request now; try again in "
                         "4 s\",\"violated-policies\":[\"per \\\"client\\\" 50%25\",\"trial\"]}");
    writer = cdl_writer_on(room, sizeof room);
    cdl_json_write_refusal(&writer, 403, &limits[2], limits + 2, 1, 0);
    assert_json(&writer, "{\"type\":\"https://iana.org/assignments/http-problem-types#quota-exceeded\","
                         "\"title\":\"Request cannot be satisfied as assigned quota has been exceeded\",\"status\":403,"
                         "\"detail\":\"the limit trial can never admit this request: it admits at most 10 at once; "
                         "waiting does not help\","
                         "\"violated-policies\":[\"trial\"]}");
}

static void any_other_problem(void **state)
{
    (void)state;
    struct cdl_writer writer = cdl_writer_on(room, sizeof room);
    cdl_json_write_problem(&writer, 400, CDL_SLICE("cost: expected 0 or more, found -1"));
    assert_json(&writer, "{\"type\":\"about:blank\",\"title\":\"Bad Request\",\"status\":400,"
                         "\"detail\":\"cost: expected 0 or more, found -1\"}");
}

static void every_source_and_verdict_has_a_word(void **state)
{
    (void)state;
    static const char *const sources[] = {"store", "lease", "deny_cache", "local_share", "failure_policy"};
    for (size_t i = 0; i < COUNT_OF(sources); i++)
        assert_string_equal(cdl_source_word((enum caudal_source)i), sources[i]);
    static const char *const verdicts[] = {"none", "allow", "deny", "never"};
    for (size_t i = 0; i < COUNT_OF(verdicts); i++)
        assert_string_equal(cdl_verdict_word((enum caudal_verdict)i), verdicts[i]);
}

static void assert_string_writes(struct cdl_slice text, const char *want)
{
    struct cdl_writer writer = cdl_writer_on(room, sizeof room);
    cdl_json_write_string(&writer, text);
    if (!cdl_slice_equal(cdl_written(&writer), cdl_slice_of(want)))
        fail_msg("got %.*s, want %s", CDL_SLICE_ARG(cdl_written(&writer)), want);
}

static void strings_are_escaped(void **state)
{
    (void)state;
    assert_string_writes(CDL_SLICE(""), "\"\"");
    assert_string_writes(CDL_SLICE("a\"b\\c/"), "\"a\\\"b\\\\c/\"");
    assert_string_writes(CDL_SLICE("\0\n\x1f\x7f"), "\"\\u0000\\u000a\\u001f\x7f\"");
    assert_string_writes(CDL_SLICE("caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80"),
                         "\"caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80\"");
    assert_string_writes(CDL_SLICE("\xff"), "\"\\ufffd\"");
    assert_string_writes(CDL_SLICE("a\xc3"), "\"a\\ufffd\"");                                /* cut */
    assert_string_writes(CDL_SLICE("\xc0\x80"), "\"\\ufffd\\ufffd\"");                       /* overlong */
    assert_string_writes(CDL_SLICE("\xed\xa0\x80"), "\"\\ufffd\\ufffd\\ufffd\"");            /* a surrogate */
    assert_string_writes(CDL_SLICE("\xf4\x90\x80\x80"), "\"\\ufffd\\ufffd\\ufffd\\ufffd\""); /* too large */
}

/* Any bytes become a string that jansson, which is strict about UTF-8, reads; UTF-8 comes back as it was. */
static void any_string_is_read_back(void **state)
{
    (void)state;
    struct rng rng = {3};
    for (unsigned round = 0; round < 20000; round++) {
        char bytes[12];
        const size_t length = rng_below(&rng, sizeof bytes + 1);
        for (size_t i = 0; i < length; i++)
            bytes[i] = (char)(rng_below(&rng, 3) == 0 ? rng_below(&rng, 128) : 0x80 + rng_below(&rng, 128));
        struct cdl_writer writer = cdl_writer_on(room, sizeof room);
        cdl_json_write_string(&writer, (struct cdl_slice){bytes, length});
        json_t *back = json_loadb(room, writer.length, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
        assert_non_null(back);
        json_t *valid = json_stringn(bytes, length);
        if (valid != NULL) {
            assert_int_equal(json_string_length(back), length);
            assert_memory_equal(json_string_value(back), bytes, length);
        } else {
            assert_non_null(memmem(json_string_value(back), json_string_length(back), "\xef\xbf\xbd", 3));
        }
        json_decref(valid);
        json_decref(back);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_by_attributes),
        cmocka_unit_test(a_request_by_limit_and_key),
        cmocka_unit_test(nul_in_a_string_is_data),
        cmocka_unit_test(a_batch_of_both_forms),
        cmocka_unit_test(costs_are_whole_and_large),
        cmocka_unit_test(what_is_no_json),
        cmocka_unit_test(a_key_that_is_given_twice),
        cmocka_unit_test(another_type_than_expected),
        cmocka_unit_test(keys_that_are_not_known_or_do_not_go_together),
        cmocka_unit_test(everything_has_a_bound),
        cmocka_unit_test(attributes_have_a_bound),
        cmocka_unit_test(want_of_memory_is_an_error_and_leaks_nothing),
        cmocka_unit_test(a_decision_and_its_limits),
        cmocka_unit_test(what_has_no_number_is_null),
        cmocka_unit_test(a_batch_of_decisions_one_of_which_failed),
        cmocka_unit_test(a_refusal_as_a_problem),
        cmocka_unit_test(any_other_problem),
        cmocka_unit_test(every_source_and_verdict_has_a_word),
        cmocka_unit_test(strings_are_escaped),
        cmocka_unit_test(any_string_is_read_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
