/* Suggested policies: the numbers that are chosen, and a file in which nothing but them has changed. */
#include <stdlib.h>

#include "../support.h"
#include "policy/policy.h"
#include "replay/fit.h"
#include "replay/suggest.h"

static struct caudal_problem problem;
static struct cdl_report findings;

/* ---- what a log may have shown ---- */

/* Keys that send clumps of so many at once, and `sustained` tokens a period on average, over so many periods. */
struct traffic {
    double sustained, clump, periods;
};

static struct cdl_replay_headroom headroom(double tokens)
{
    const uint64_t most = tokens < 1 ? 1 : (uint64_t)tokens;
    return (struct cdl_replay_headroom){2 * most, most};
}

/* What is above the rate fills the bucket for as long as the log lasts; the clump comes on top. */
static struct cdl_replay_limit seen_of(const struct cdl_policy *policy, uint32_t rate, struct traffic traffic)
{
    static const double factors[CDL_STUDY_RATES] = {
        0.125, 0.17677669529663687, 0.25, 0.35355339059327373, 0.5, 0.7071067811865475, 1, 1.4142135623730951,
        2,     2.8284271247461903,  4,    5.656854249492381,   8};
    struct cdl_replay_limit seen = {
        .name = policy->rates[rate].name,
        .what = policy->rates[rate].limit,
        .rate_index = rate,
        .limit_index = policy->rates[rate].limit_index,
        .requests = 5000,
        .refused = 70,
        .keys = 2000,
        .keys_refused = 3,
    };
    for (unsigned n = 0; n < CDL_STUDY_RATES; n++) {
        const double own = (double)seen.what.count * factors[n];
        const double above = traffic.sustained > own ? traffic.sustained - own : 0;
        seen.rungs[n] = (struct cdl_replay_rung){own, headroom(traffic.clump + above * traffic.periods)};
    }
    seen.fixed_count = headroom(traffic.sustained + traffic.clump);
    seen.sliding_count = headroom(traffic.sustained + traffic.clump + 1);
    seen.peaks.keys[4] = 1500; /* 2 */
    seen.peaks.keys[8] = 490;  /* 4 */
    seen.peaks.keys[16] = 10;  /* 16 to 19 */
    return seen;
}

#define SPAN_NS (10 * HOUR)
#define RATES_MAX 64u

static struct cdl_replay_limit all_seen[RATES_MAX];

static struct cdl_replay_report report_of(const struct cdl_policy *policy, struct traffic traffic)
{
    uint32_t count = 0; /* those of limits that come with calls stand behind all others */
    for (; count < policy->rate_count && policy->rates[count].limit_index < policy->request_limit_count; count++) {
        assert_true(count < RATES_MAX);
        all_seen[count] = seen_of(policy, count, traffic);
    }
    return (struct cdl_replay_report){
        .touch_share = 0.001,
        .begin_ns = EPOCH,
        .end_ns = EPOCH + SPAN_NS,
        .limit_count = count,
        .limits = all_seen,
    };
}

static struct cdl_policy *load(struct cdl_slice text)
{
    struct cdl_policy *policy = cdl_policy_load_text("policy.yaml", text, NULL, &findings);
    if (policy == NULL)
        fail_msg("line %u: %s\n%.*s", findings.findings[0].place.line, findings.findings[0].text, CDL_SLICE_ARG(text));
    return policy;
}

/* ---- what is written ---- */

static char output[1 << 18];
static size_t output_length;

static int write_suggestion(const struct cdl_policy *policy, struct cdl_slice text,
                            const struct cdl_replay_report *report)
{
    char *bytes = NULL;
    FILE *to = open_memstream(&bytes, &output_length);
    assert_non_null(to);
    problem = (struct caudal_problem){.code = CAUDAL_OK};
    const int status = cdl_suggest_write(to, policy, text, report, &problem);
    fclose(to);
    assert_true(output_length < sizeof output);
    memcpy(output, bytes, output_length);
    output[output_length] = '\0';
    free(bytes);
    return status;
}

static bool is_break(char c)
{
    return c == '\n' || c == '\r';
}

/* Whether the line that begins here was put in: "# NAME ...", or "#   ..." below it. The tests' own comments begin with "##". */
static bool is_told(const char *line)
{
    line += strspn(line, " ");
    return line[0] == '#' && line[1] == ' ';
}

/* The output without the lines that were put in. */
static const char *without_comments(void)
{
    static char kept[sizeof output];
    size_t length = 0;
    const char *at = output;
    while (strncmp(output, "\xef\xbb\xbf", 3) == 0 && length < 3)
        kept[length++] = *at++;
    while (*at != '\0') {
        const bool told = is_told(at);
        while (*at != '\0' && !is_break(*at)) {
            if (!told)
                kept[length++] = *at;
            at++;
        }
        for (bool first = true; is_break(*at) && (first || (at[-1] == '\r' && at[0] == '\n')); first = false, at++)
            if (!told)
                kept[length++] = *at;
    }
    kept[length] = '\0';
    return kept;
}

/* What most tests ask about: 30 a minute, 20 of them at once. A limit of 100/min becomes 36/min burst 20. */
static const struct traffic usual = {.sustained = 30, .clump = 20, .periods = 600};

static void a_file_keeps_all_but_its_numbers(void **state)
{
    (void)state;
    static const struct {
        const char *before, *after;
    } cases[] = {
        /* plain, quoted, with blanks and comments around */
        {"limits:\n- name: a\n  rate: 100/min\n", "limits:\n- name: a\n  rate: 36/min burst 20\n"},
        {"limits:\n  - rate: '100/min'   ## why\n    name: a",
         "limits:\n  - rate: '36/min burst 20'   ## why\n    name: a"},
        {"limits:\n  - \"name\": \"a\"\n    \"rate\": \"100 per minute\"\n\n\n",
         "limits:\n  - \"name\": \"a\"\n    \"rate\": \"36/min burst 20\"\n\n\n"},
        {"limits:\n  -\n    name:    a\n    rate:\n      100 / 1min burst 7\n",
         "limits:\n  -\n    name:    a\n    rate:\n      36/min burst 20\n"},
        {"## top\n---\nlimits:\n  - name: a ## one\n    ## two\n    ? rate\n    : 100/minute token_bucket\n...\n## "
         "end\n",
         "## top\n---\nlimits:\n  - name: a ## one\n    ## two\n    ? rate\n    : 36/min burst 20\n...\n## end\n"},
        /* a burst of its own, before and behind */
        {"limits:\n- name: a\n  burst: 1_000\n  rate: 100/min\n", "limits:\n- name: a\n  burst: 20\n  rate: 36/min\n"},
        {"limits:\n- {name: a, rate: 100/min, burst: \"5\"}\n", "limits:\n- {name: a, rate: 36/min, burst: \"20\"}\n"},
        /* flow style, also in one line, and over several */
        {"limits: [{name: a, rate: 100/min}, {name: b, rate: '100/min'}]",
         "limits: [{name: a, rate: 36/min burst 20}, {name: b, rate: '36/min burst 20'}]"},
        {"{limits: [ {\n  name: a,\n  rate: 100/min ## c\n  },\n{name: b, rate: 100/min}\n]}\n",
         "{limits: [ {\n  name: a,\n  rate: 36/min burst 20 ## c\n  },\n{name: b, rate: 36/min burst 20}\n]}\n"},
        {"{\"limits\":[{\"name\":\"a\",\"rate\":\"100/min\"}]}\n",
         "{\"limits\":[{\"name\":\"a\",\"rate\":\"36/min burst 20\"}]}\n"},
        /* overrides; what is unlimited or 0 stays */
        {"limits:\n- name: a\n  per: [client_ip, header.x]\n  overrides:\n    - {match: {header.x: \"\xc3\xa4\"}, "
         "rate: 100/min}\n"
         "    - match: {header.x: b}\n      burst: 3\n      rate: 100/min\n    - {match: {header.x: c}, rate: "
         "unlimited}\n"
         "    - {match: {header.x: d}, rate: 0/min burst 5}\n  rate: 100/min\n",
         "limits:\n- name: a\n  per: [client_ip, header.x]\n  overrides:\n    - {match: {header.x: \"\xc3\xa4\"}, "
         "rate: 36/min burst "
         "20}\n    - match: {header.x: b}\n      burst: 20\n      rate: 36/min\n    - {match: {header.x: c}, rate: "
         "unlimited}\n    - {match: {header.x: d}, rate: 0/min burst 5}\n  rate: 36/min burst 20\n"},
        {"limits: [{name: a, per: [header.x], rate: 100/min, overrides: [{match: {header.x: \"\xe2\x82\xac\\u2028\"}, "
         "rate: 100/min}]}]",
         "limits: [{name: a, per: [header.x], rate: 36/min burst 20, overrides: [{match: {header.x: "
         "\"\xe2\x82\xac\\u2028\"}, rate: 36/min "
         "burst 20}]}]"},
        /* windows keep algorithm and period */
        {"limits:\n- {name: a, rate: 100/min fixed_window}\n- {name: b, rate: 100 per 60 s sliding_window}\n- name: "
         "c\n  rate: "
         "100/min sliding_log\n",
         "limits:\n- {name: a, rate: 50/min fixed_window}\n- {name: b, rate: 51/min sliding_window}\n- name: c\n  "
         "rate: "
         "56/min sliding_log\n"},
        /* line ends and marks */
        {"limits:\r\n- name: a\r\n  rate: 100/min\r\n", "limits:\r\n- name: a\r\n  rate: 36/min burst 20\r\n"},
        {"limits:\r- name: a\r  rate: 100/min\r", "limits:\r- name: a\r  rate: 36/min burst 20\r"},
        {"\xef\xbb\xbflimits: [{name: a, rate: 100/min}]", "\xef\xbb\xbflimits: [{name: a, rate: 36/min burst 20}]"},
        {"## \xc2\x85limits:\n- name: a\n  rate: 100/min\n",
         "## \xc2\x85limits:\n- name: a\n  rate: 36/min burst 20\n"},
        {"## \xe2\x82\xac\nlimits: [{when: {path: \"/\xe2\x82\xac\"}, name: a, rate: 100/min}]\nfields: none",
         "## \xe2\x82\xac\nlimits: [{when: {path: \"/\xe2\x82\xac\"}, name: a, rate: 36/min burst 20}]\nfields: none"},
        /* a scalar of several lines elsewhere */
        {"limits:\n- name: a\n  when: {header.x: \"b\n\n    c\"}\n  rate: 100/min\n- name: b\n  when:\n    header.x: "
         "|\n      # x\n  rate: "
         "100/min\n",
         "limits:\n- name: a\n  when: {header.x: \"b\n\n    c\"}\n  rate: 36/min burst 20\n- name: b\n  when:\n    "
         "header.x: |\n      # "
         "x\n  rate: 36/min burst 20\n"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        const struct cdl_slice text = cdl_slice_of(cases[i].before);
        struct cdl_policy *policy = load(text);
        const struct cdl_replay_report report = report_of(policy, usual);
        const int status = write_suggestion(policy, text, &report);
        if (status != CAUDAL_OK)
            fail_msg("%s\n%s", problem.message, cases[i].before);
        assert_int_not_equal(output_length, strlen(cases[i].after)); /* something is told */
        if (strstr(cases[i].before, "# x") == NULL)
            assert_string_equal(without_comments(), cases[i].after);
        cdl_policy_free(policy);
        cdl_policy_free(load((struct cdl_slice){output, output_length}));
    }
}

/* ---- what is told ---- */

static void a_comment_tells_the_evidence(void **state)
{
    (void)state;
    const struct cdl_slice text = CDL_SLICE("limits:\n"
                                            "  - name: a\n"
                                            "    per: [header.x]\n"
                                            "    rate: 100/min burst 7\n"
                                            "    overrides:\n"
                                            "      - match: {header.x: \"\\u20ac\"}\n"
                                            "        rate: 50/min\n"
                                            "      - {match: {header.x: b}, rate: 0/min}\n"
                                            "  - {name: c, rate: 100/min sliding_log, mode: shadow}\n");
    struct cdl_policy *policy = load(text);
    struct cdl_replay_report report = report_of(policy, usual);
    all_seen[1].requests = 0;
    all_seen[3].unstudied = 12;
    report.interrupted = true;
    assert_int_equal(write_suggestion(policy, text, &report), CAUDAL_OK);
    assert_string_equal(
        output, "limits:\n"
                "  # a was fitted to a log\n"
                "  #   seen: 5000 requests of 2000 keys, 2025-12-01 00:00:00 to 2025-12-01 10:00:00 UTC, of a log that "
                "was not read "
                "to its end\n"
                "  #   before: 100/min burst 7, which would have refused 70 requests of 3 keys\n"
                "  #   asked for per min: at most 4 by 99 % of the keys, 100 by the busiest\n"
                "  #   target: something is refused to at most 0.1 % of the keys; now: to at most 2 of 2000\n"
                "  #   as good for this target: 18/min burst 7500, or 71/min burst 20\n"
                "  #   fitted as if it stood alone, like each limit here; a refusal is counted for one of them\n"
                "  - name: a\n"
                "    per: [header.x]\n"
                "    rate: 36/min burst 20\n"
                "    overrides:\n"
                "      # a{header.x=%E2%82%AC} stays as it was: the log has no request that it was asked about\n"
                "      - match: {header.x: \"\\u20ac\"}\n"
                "        rate: 50/min\n"
                "      # a{header.x=b} stays as it was: a count of 0 is a choice, and nothing to fit\n"
                "      - {match: {header.x: b}, rate: 0/min}\n"
                "  # c was fitted to a log\n"
                "  #   seen: 5000 requests of 2000 keys, 2025-12-01 00:00:00 to 2025-12-01 10:00:00 UTC, of a log that "
                "was not read "
                "to its end\n"
                "  #   not studied: 12 of these requests, of more keys than were allowed\n"
                "  #   before: 100/min sliding_log, which would have refused 70 requests of 3 keys\n"
                "  #   asked for per min: at most 4 by 99 % of the keys, 100 by the busiest\n"
                "  #   target: something is refused to at most 0.1 % of the keys; now: to at most 2 of 2000\n"
                "  #   as good for this target: 36/min burst 20, or 18/min burst 7500\n"
                "  #   the count is certainly enough, and may be up to twice of what is needed\n"
                "  #   fitted as if it stood alone, like each limit here; a refusal is counted for one of them\n"
                "  - {name: c, rate: 56/min sliding_log, mode: shadow}\n");
    cdl_policy_free(policy);
}

/* The limit that was there may be the one that fits. */
static void what_fits_already_keeps_its_spelling(void **state)
{
    (void)state;
    const struct cdl_slice text = CDL_SLICE("limits:\n- name: a\n  rate: >-\n    36  per  minute\n  burst: 2_0\n");
    struct cdl_policy *policy = load(text);
    struct cdl_replay_report report = report_of(policy, usual);
    assert_int_equal(write_suggestion(policy, text, &report), CAUDAL_OK);
    assert_string_equal(without_comments(), text.bytes);
    assert_non_null(strstr(output, "# a fits the log as it is\n"));
    assert_null(strstr(output, "stood alone")); /* it is the only one */
    cdl_policy_free(policy);
}

/* ---- what cannot be done ---- */

static void what_cannot_be_replaced_is_named(void **state)
{
    (void)state;
    static const struct {
        const char *text, *part;
    } cases[] = {
        {"limits:\n- name: a\n  rate: >-\n    100/min\n", "'a' in line 3"},
        {"limits:\n- name: a\n  rate: |-\n    100/min\n", "'a' in line 3"},
        {"limits:\n- name: a\n  rate: 100\n   /min\n", "'a' in line 3"},
        {"limits:\n- {name: b, rate: 1/s}\n- name: a\n  rate: '100\n   /min'\n", "'a' in line 4"},
        {"limits:\n- name: a\n  rate: \"100\\u002fmin\"\n", "'a' in line 3"},
        {"limits:\n- name: a\n  rate: 100/min\n  burst: \"\\x31\"\n", "'a' in line 4"},
        {"limits:\n- name: a\n  per: [header.x]\n  rate: 1/s\n  overrides:\n  - match: {header.x: b}\n    rate: >-\n   "
         "   1/s\n",
         "'a{header.x=b}' in line 7"},
        /* a comment would come to lie inside of a text */
        {"limits: [{name: b, rate: 1/s, when: {header.x: \"c\n  d\"}}, {name: a, rate: 1/s}]\n", "a line of its own"},
        {"limits: [{name: b, rate: 1/s, when: {header.x: c\n  d}}, {name: a, rate: 1/s}]\n", "a line of its own"},
        {"resp: {commands: cl.throttle}\nlisten: {resp: 127.0.0.1:0}\n", "no limits"},
        {"domain: d\ndescriptors:\n- key: k\n  rate_limit: {unit: minute, requests_per_unit: 5}\n", "no limits"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        const struct cdl_slice text = cdl_slice_of(cases[i].text);
        struct cdl_policy *policy = load(text);
        const struct cdl_replay_report report = report_of(policy, usual);
        if (write_suggestion(policy, text, &report) != CAUDAL_ERR_ARGUMENT)
            fail_msg("accepted:\n%s\n%s", cases[i].text, output);
        assert_int_equal(problem.code, CAUDAL_ERR_ARGUMENT);
        if (strstr(problem.message, cases[i].part) == NULL)
            fail_msg("'%s' does not say '%s'", problem.message, cases[i].part);
        assert_int_equal(output_length, 0);
        cdl_policy_free(policy);
    }
}

/* Whatever text comes with a policy that was read from another one: an error, and nothing is written. */
static void another_text_is_refused(void **state)
{
    (void)state;
    static const char *const others[] = {
        "",
        "a",
        "[",
        "limits: []\n",
        "limits:\n- {name: a}\n",
        "limits:\n- {name: b, rate: 5/min}\n",
        "limits:\n- x\n",
        "limits:\n- {name: a, rate: 5/min}\n- {name: b, rate: 5/min}\n",
    };
    const struct cdl_slice text = CDL_SLICE("limits: [{name: a, rate: 100/min}]");
    struct cdl_policy *policy = load(text);
    const struct cdl_replay_report report = report_of(policy, usual);
    for (size_t i = 0; i < COUNT_OF(others); i++) {
        assert_int_equal(write_suggestion(policy, cdl_slice_of(others[i]), &report), CAUDAL_ERR_ARGUMENT);
        assert_int_equal(output_length, 0);
    }
    cdl_policy_free(policy);
}

static void a_full_disk_is_an_error(void **state)
{
    (void)state;
    const struct cdl_slice text = CDL_SLICE("limits: [{name: a, rate: 100/min}]");
    struct cdl_policy *policy = load(text);
    const struct cdl_replay_report report = report_of(policy, usual);
    FILE *full = fopen("/dev/full", "w");
    assert_non_null(full);
    assert_int_equal(cdl_suggest_write(full, policy, text, &report, &problem), CAUDAL_ERR_STORE);
    assert_non_null(strstr(problem.message, "No space left"));
    fclose(full);
    cdl_policy_free(policy);
}

/* ---- which numbers ---- */

static struct cdl_fit fit_of(const char *rate, const char *more, struct traffic traffic, int64_t span_ns)
{
    char text[512];
    const int length = snprintf(text, sizeof text, "limits: [{name: a, rate: %s%s}]", rate, more);
    struct cdl_policy *policy = load((struct cdl_slice){text, (size_t)length});
    const struct cdl_replay_limit seen = seen_of(policy, 0, traffic);
    struct cdl_fit fit;
    cdl_fit_limit(&policy->rates[0].limit, &policy->limits[0], &seen, span_ns, &fit);
    cdl_policy_free(policy);
    return fit;
}

static void numbers_fit_the_traffic(void **state)
{
    (void)state;
    static const struct {
        const char *rate, *more;
        struct traffic traffic;
        int64_t span_ns;
        enum cdl_fit_result result;
        const char *want;
    } cases[] = {
        /* a page with 40 parts, now and then: the burst is that, whatever the unit of time, and the rate low */
        {"10/s", "", {0.1, 40, 36000}, 10 * HOUR, CDL_FIT_FOUND, "13/10s burst 40"},
        {"600/min", "", {6, 40, 600}, 10 * HOUR, CDL_FIT_FOUND, "75/min burst 40"},
        {"1000/d", "", {30, 40, 7}, 7 * DAY, CDL_FIT_FOUND, "130/d burst 40"},
        /* steady: the rate that it takes, and hardly a burst */
        {"100/min", "", {70, 2, 600}, 10 * HOUR, CDL_FIT_FOUND, "71/min burst 2"},
        {"100/min", "", {100, 2, 600}, 10 * HOUR, CDL_FIT_FOUND, "100/min burst 2"},
        {"100/min", "", {101, 2, 600}, 10 * HOUR, CDL_FIT_FOUND, "150/min burst 2"},
        /* the own rate stays as it was said, others are rounded */
        {"101/min", "", {101, 123, 600}, 10 * HOUR, CDL_FIT_FOUND, "101/min burst 130"},
        {"5/min", "", {5, 1, 600}, 10 * HOUR, CDL_FIT_FOUND, "5/min burst 1"},
        {"5/min", "", {5.1, 1, 600}, 10 * HOUR, CDL_FIT_FOUND, "8/min burst 1"},
        {"5/min", "", {1.2, 1, 600}, 10 * HOUR, CDL_FIT_FOUND, "13/10min burst 1"},
        {"1/min", "", {0.1, 1, 600}, 10 * HOUR, CDL_FIT_FOUND, "13/100min burst 1"},
        /* an hour says nothing of a day's rate */
        {"5/d", "", {0, 3, 1.0 / 24}, HOUR, CDL_FIT_BURST_ONLY, "5/d burst 3"},
        {"10/s", "", {1000, 3, 3600}, HOUR, CDL_FIT_BURST_ONLY, "10/s burst 3600000"},
        /* windows: their period, rounded */
        {"10/min fixed_window", "", {100, 23, 600}, 10 * HOUR, CDL_FIT_FOUND, "130/min fixed_window"},
        {"10/min sliding_window", "", {100, 20, 600}, 10 * HOUR, CDL_FIT_FOUND, "130/min sliding_window"},
        /* a log: 20 at once and a rung that carries 4 or more a minute; or twice the window */
        {"10/min sliding_log", "", {4, 20, 600}, 10 * HOUR, CDL_FIT_FOUND, "25/min sliding_log"},
        {"10/min sliding_log", "", {1000, 20, 600}, 10 * HOUR, CDL_FIT_FOUND, "2100/min sliding_log"},
        {"10/min sliding_log", "", {6000, 20, 600}, 10 * HOUR, CDL_FIT_NONE, "10/min sliding_log"},
        /* what a request costs must fit in */
        {"100/min", ", cost: 50", {30, 20, 600}, 10 * HOUR, CDL_FIT_FOUND, "36/min burst 50"},
        {"10/min fixed_window", ", cost: 50", {1, 1, 600}, 10 * HOUR, CDL_FIT_FOUND, "50/min fixed_window"},
        /* 1 % of a second's 36 tokens stays in the store; a bucket alone has none */
        {"100/s",
         ", sharing: leased, lease: {ttl: 1s, strict_bound: true}, burst: 200",
         {30, 20, 600},
         10 * HOUR,
         CDL_FIT_FOUND,
         "36/s burst 56"},
        {"0/min", "", {30, 20, 600}, 10 * HOUR, CDL_FIT_CHOSEN, "0/min"},
        {"unlimited", "", {30, 20, 600}, 10 * HOUR, CDL_FIT_CHOSEN, "unlimited"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        char got[CAUDAL_LIMIT_TEXT_MAX];
        struct cdl_fit fit = fit_of(cases[i].rate, cases[i].more, cases[i].traffic, cases[i].span_ns);
        assert_true(caudal_limit_format(&fit.limit, got, sizeof got) > 0);
        if (strcmp(got, cases[i].want) != 0 || fit.result != cases[i].result)
            fail_msg("case %zu, %s: %s (%d), not %s (%d)", i, cases[i].rate, got, (int)fit.result, cases[i].want,
                     (int)cases[i].result);
    }
}

/* Nothing that is rounded refuses more, nothing that is suggested is illegal, and alternatives meet the target, too. */
static void any_numbers_give_a_legal_limit_that_is_enough(void **state)
{
    (void)state;
    struct rng rng = {3};
    struct cdl_limit_rule rule = {.cost.standard = 1};
    for (uint64_t round = scaled(200000); round > 0; round--) {
        struct cdl_replay_limit seen = {.requests = 1, .what = random_bucket(&rng)};
        struct cdl_fit fit;
        seen.what.burst = CAUDAL_BURST_DEFAULT;
        if (caudal_limit_check(&seen.what, NULL) != CAUDAL_OK)
            continue;
        for (unsigned n = 0; n < CDL_STUDY_RATES; n++) {
            seen.rungs[n].rate = (double)seen.what.count * (double)(1 << n) / 64;
            seen.rungs[n].burst.for_most = rng_below(&rng, 20) == 0 ? UINT64_MAX
                                                                    : rng_magnitude(&rng, UINT64_C(1) << 41);
            seen.rungs[n].burst.for_all = seen.rungs[n].burst.for_most;
        }
        cdl_fit_limit(&seen.what, &rule, &seen, (int64_t)rng_magnitude(&rng, (uint64_t)YEAR), &fit);
        assert_int_equal(caudal_limit_check(&fit.limit, NULL), CAUDAL_OK);
        if (fit.result == CDL_FIT_NONE)
            continue;
        for (uint32_t i = 0; i <= fit.alternative_count; i++) {
            const struct caudal_limit *limit = i == 0 ? &fit.limit : &fit.alternatives[i - 1];
            bool is_enough = false;
            assert_int_equal(caudal_limit_check(limit, NULL), CAUDAL_OK);
            for (unsigned n = 0; n < CDL_STUDY_RATES; n++)
                is_enough |= seen.rungs[n].burst.for_most <= caudal_limit_capacity(limit) &&
                             seen.rungs[n].rate / (double)seen.what.period_ns * 0.999999 <=
                                 (double)limit->count / (double)limit->period_ns;
            assert_true(is_enough);
        }
    }
}

/* ---- any policy, any report ---- */

static const char *pick(struct rng *rng, const char *const *words, size_t count)
{
    return words[rng_below(rng, count)];
}
#define PICK(rng, ...)                                                                                                 \
    pick(rng, (const char *const[]){__VA_ARGS__}, sizeof((const char *const[]){__VA_ARGS__}) / sizeof(const char *))

/* A policy in pieces: those with odd numbers are rates and bursts, all others have to stay. */
struct pieces {
    char text[1 << 16];
    size_t length;
    size_t ends[512];
    size_t count;
};

__attribute__((format(printf, 2, 3))) static void add(struct pieces *pieces, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    const int length = vsnprintf(pieces->text + pieces->length, sizeof pieces->text - pieces->length, format,
                                 arguments);
    va_end(arguments);
    assert_true(length >= 0 && pieces->length + (size_t)length < sizeof pieces->text);
    pieces->length += (size_t)length;
}

static void end_piece(struct pieces *pieces)
{
    assert_true(pieces->count < COUNT_OF(pieces->ends));
    pieces->ends[pieces->count++] = pieces->length;
}

/* "KEY: VALUE" with blanks and quotes as they come. */
static void add_value(struct pieces *pieces, struct rng *rng, const char *key, const char *value)
{
    const char *quote = PICK(rng, "", "", "'", "\"");
    const char *key_quote = PICK(rng, "", "", "'", "\"");
    add(pieces, "%s%s%s:%s%s", key_quote, key, key_quote, PICK(rng, " ", "   "), quote);
    end_piece(pieces);
    add(pieces, "%s", value);
    end_piece(pieces);
    add(pieces, "%s", quote);
}

static void add_rate(struct pieces *pieces, struct rng *rng, const char *separator)
{
    char rate[64], burst[32];
    const bool is_bucket = rng_below(rng, 2) == 0;
    snprintf(rate, sizeof rate, "%llu%s%s%s", (unsigned long long)rng_magnitude(rng, 5000),
             PICK(rng, "/", " per ", " / "), PICK(rng, "s", "min", "30 s", "hour", "d"),
             is_bucket ? "" : PICK(rng, " fixed_window", " sliding_window", " sliding_log"));
    snprintf(burst, sizeof burst, "%llu", (unsigned long long)rng_magnitude(rng, 5000));
    if (is_bucket && rng_below(rng, 3) == 0) {
        add_value(pieces, rng, "burst", burst);
        add(pieces, "%s", separator);
    }
    add_value(pieces, rng, "rate", rate);
}

static void add_overrides(struct pieces *pieces, struct rng *rng, const char *line_end)
{
    add(pieces, "    overrides:%s", line_end);
    for (uint64_t i = 0, count = 1 + rng_below(rng, 3); i < count; i++) {
        const char *value = PICK(rng, "\\u2028", "b*", "%%", "\xc3\xa4", "x: #y", "}{");
        if (rng_below(rng, 2) == 0) {
            add(pieces, "      - {match: {header.x: \"%s%llu\"}, ", value, (unsigned long long)i);
            add_rate(pieces, rng, ", ");
            add(pieces, "}%s", line_end);
        } else {
            add(pieces, "      - match: {header.x: \"%s%llu\"}%s        ", value, (unsigned long long)i, line_end);
            char separator[16];
            snprintf(separator, sizeof separator, "%s        ", line_end);
            add_rate(pieces, rng, separator);
            add(pieces, "  ## \xe2\x82\xac rate: 5/s%s", line_end);
        }
    }
}

static void add_limit(struct pieces *pieces, struct rng *rng, unsigned number, const char *line_end)
{
    char separator[16];
    snprintf(separator, sizeof separator, "%s    ", line_end);
    if (rng_below(rng, 3) == 0) {
        add(pieces, "  - {name: n%u, ", number);
        add_rate(pieces, rng, PICK(rng, ", ", ",   "));
        add(pieces, ", mode: %s}%s", PICK(rng, "shadow", "enforce", "off"), line_end);
        return;
    }
    add(pieces, "  - name: n%u%s    per: [header.x]%s    ", number, line_end, line_end);
    add_rate(pieces, rng, separator);
    add(pieces, "%s%s", PICK(rng, "", "   ## why", " "), line_end);
    if (rng_below(rng, 2) == 0)
        add_overrides(pieces, rng, line_end);
    if (rng_below(rng, 2) == 0)
        add(pieces, "%s    ## between%s", PICK(rng, "", line_end), line_end);
}

static void random_seen(struct rng *rng, const struct cdl_replay_report *report)
{
    for (size_t i = 0; i < report->limit_count; i++) {
        struct cdl_replay_limit *seen = &report->limits[i];
        seen->requests = rng_below(rng, 4) == 0 ? 0 : rng_magnitude(rng, UINT64_MAX >> 1);
        seen->keys = rng_magnitude(rng, UINT64_MAX >> 1);
        for (unsigned n = 0; n < CDL_STUDY_RATES; n++)
            seen->rungs[n].burst.for_most = rng_below(rng, 20) == 0 ? UINT64_MAX : rng_magnitude(rng, 1000000);
        seen->fixed_count.for_most = rng_magnitude(rng, rng_below(rng, 20) == 0 ? UINT64_MAX : 10000);
        seen->sliding_count.for_most = rng_magnitude(rng, rng_below(rng, 20) == 0 ? UINT64_MAX : 10000);
        for (unsigned bin = 0; bin < CDL_REPLAY_PEAK_BINS; bin++)
            seen->peaks.keys[bin] = rng_below(rng, 100);
    }
}

/* What stays is there, in its order and nothing beside it: between pieces that stay are rates and bursts. */
static void assert_pieces_stay(const struct pieces *pieces, const char *text)
{
    static const char number[] = "0123456789abcdefghijklmnopqrstuvwxyz_/ ";
    for (size_t i = 0; i < pieces->count; i += 2) {
        const size_t begin = i > 0 ? pieces->ends[i - 1] : 0, length = pieces->ends[i] - begin;
        const size_t most = i > 0 ? strspn(text, number) : 0;
        size_t skipped = 0;
        while (skipped <= most && strncmp(text + skipped, pieces->text + begin, length) != 0)
            skipped++;
        if (skipped > most)
            fail_msg("'%.*s' has become '%.*s'\n%s", (int)length, pieces->text + begin, (int)length + 20, text, output);
        text += skipped + length;
    }
    assert_int_equal(*text, '\0');
}

static void any_policy_loads_and_keeps_its_bytes(void **state)
{
    (void)state;
    static struct pieces pieces;
    struct rng rng = {11};
    for (uint64_t round = scaled(3000); round > 0; round--) {
        const char *line_end = PICK(&rng, "\n", "\r\n", "\r");
        pieces.length = pieces.count = 0;
        add(&pieces, "%s## top%slimits:%s", PICK(&rng, "", "\xef\xbb\xbf"), line_end, line_end);
        for (unsigned i = 0, count = 1 + (unsigned)rng_below(&rng, 8); i < count; i++)
            add_limit(&pieces, &rng, i, line_end);
        add(&pieces, "exempt: [{path: /healthz}]%s", line_end);
        end_piece(&pieces);
        const struct cdl_slice text = {pieces.text, pieces.length};
        struct cdl_policy *policy = load(text);
        const struct cdl_replay_report report = report_of(policy, usual);
        random_seen(&rng, &report);
        const int status = write_suggestion(policy, text, &report);
        if (status != CAUDAL_OK)
            fail_msg("%s\n%s", problem.message, pieces.text);
        assert_pieces_stay(&pieces, without_comments());
        cdl_policy_free(policy);
        cdl_policy_free(load((struct cdl_slice){output, output_length}));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_keeps_all_but_its_numbers),
        cmocka_unit_test(a_comment_tells_the_evidence),
        cmocka_unit_test(what_fits_already_keeps_its_spelling),
        cmocka_unit_test(what_cannot_be_replaced_is_named),
        cmocka_unit_test(another_text_is_refused),
        cmocka_unit_test(a_full_disk_is_an_error),
        cmocka_unit_test(numbers_fit_the_traffic),
        cmocka_unit_test(any_numbers_give_a_legal_limit_that_is_enough),
        cmocka_unit_test(any_policy_loads_and_keeps_its_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
