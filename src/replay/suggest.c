/* The file is read into the tree that the policy was read from, whose nodes know where they stand. What changes is a list of edits: scalars
 * that get other bytes, and lines that come in between. Then all is written in one go.
 *
 * Whether the edits did what they should is not argued but looked at: the new text is read again, must have the same tree but for
 * the scalars that were replaced, and must make a policy with exactly the rates that were fitted. (A comment that comes to lie inside
 * of a scalar of several lines would be found here.) */
#include "replay/suggest.h"

#include <inttypes.h>
#include <stdlib.h>
#include <time.h>

#include "base/arith.h"
#include "base/problem.h"
#include "base/utf8.h"
#include "limiter/local_share.h"
#include "policy/yaml.h"
#include "replay/fit.h"

#define COMMENT_BYTES_MAX 8192u
#define EDITS_OF_RATE 3u /* a comment, a rate, a burst */

struct edit {
    size_t at, removed;
    size_t number; /* edits of the same place stay in order */
    struct cdl_slice text;
};

struct suggestion {
    const struct cdl_policy *policy;
    const struct cdl_replay_report *report;
    const struct cdl_replay_limit **seen; /* by rate; NULL: not in the report */
    size_t fitted;                        /* limits of the report that saw requests */
    struct cdl_slice text;
    size_t *lines; /* where each begins */
    size_t line_count;
    struct caudal_limit *expected; /* by rate */
    struct edit *edits;
    size_t edit_count;
    struct cdl_arena arena;
    struct caudal_problem *problem;
};

/* ---- places ---- */

/* The length of the line break that begins here, as YAML has them; 0: none does. */
static size_t break_at(struct cdl_slice text, size_t at)
{
    static const char *const breaks[] = {"\r\n", "\r", "\n", "\xc2\x85", "\xe2\x80\xa8", "\xe2\x80\xa9"};
    for (size_t i = 0; i < sizeof breaks / sizeof breaks[0]; i++) {
        const struct cdl_slice found = cdl_slice_of(breaks[i]);
        if (text.length - at >= found.length && memcmp(text.bytes + at, found.bytes, found.length) == 0)
            return found.length;
    }
    return 0;
}

static size_t mark_bytes(struct cdl_slice text)
{
    return text.length >= 3 && memcmp(text.bytes, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
}

/* Where lines begin; with `lines` NULL they are only counted. */
static size_t find_lines(struct cdl_slice text, size_t *lines)
{
    size_t count = 0, at = mark_bytes(text);
    if (lines != NULL)
        lines[0] = at;
    for (count = 1; at < text.length;) {
        const size_t length = break_at(text, at);
        at += length > 0 ? length : 1;
        if (length > 0 && lines != NULL)
            lines[count] = at;
        count += length > 0;
    }
    return count;
}

/* The byte of a place; the text's length when it has no such place. */
static size_t offset_of(const struct suggestion *suggestion, struct cdl_place place)
{
    const struct cdl_slice text = suggestion->text;
    if (place.line < 1 || place.line > suggestion->line_count)
        return text.length;
    size_t at = suggestion->lines[place.line - 1];
    for (uint32_t column = 1; column < place.column && at < text.length; column++)
        do
            at++;
        while (at < text.length && ((unsigned char)text.bytes[at] & 0xc0) == 0x80);
    return at;
}

/* The break that ends the line before this one or, of the first line, this one. */
static struct cdl_slice break_of(const struct suggestion *suggestion, uint32_t line)
{
    const struct cdl_slice text = suggestion->text;
    size_t at = suggestion->lines[line > 1 ? line - 2 : 0];
    while (at < text.length && break_at(text, at) == 0)
        at++;
    return at < text.length ? (struct cdl_slice){text.bytes + at, break_at(text, at)} : CDL_SLICE("\n");
}

/* ---- edits ---- */

static void add_edit(struct suggestion *suggestion, size_t at, size_t removed, struct cdl_slice text)
{
    suggestion->edits[suggestion->edit_count] = (struct edit){at, removed, suggestion->edit_count,
                                                              cdl_arena_copy(&suggestion->arena, text)};
    suggestion->edit_count++;
}

/* The part of the text that a scalar's characters take up, without its quotes; NULL bytes when it is not all in one line, or spelled
 * with escapes. */
static struct cdl_slice part_of(const struct suggestion *suggestion, const struct cdl_yaml_node *node)
{
    const struct cdl_slice text = suggestion->text;
    const size_t at = offset_of(suggestion, node->place) + (node->plain ? 0 : 1);
    const bool is_quoted = !node->plain && at <= text.length && strchr("'\"", text.bytes[at - 1]) != NULL;
    if ((!node->plain && !is_quoted) || at > text.length || text.length - at < node->text.length ||
        memcmp(text.bytes + at, node->text.bytes, node->text.length) != 0)
        return (struct cdl_slice){NULL, 0};
    return (struct cdl_slice){text.bytes + at, node->text.length};
}

/* Gives a scalar another text, in the file and in the tree. */
static int replace(struct suggestion *suggestion, const struct cdl_rate *rate, struct cdl_yaml_node *node,
                   struct cdl_slice text)
{
    const struct cdl_slice part = node->one_line ? part_of(suggestion, node) : (struct cdl_slice){NULL, 0};
    if (part.bytes == NULL)
        return cdl_problem(
            suggestion->problem, CAUDAL_ERR_ARGUMENT, 0,
            "the rate of '%.100s' in line %u cannot be replaced as it stands there; write it in one line, "
            "without escapes",
            rate->name.bytes, node->place.line);
    add_edit(suggestion, (size_t)(part.bytes - suggestion->text.bytes), part.length, text);
    node->text = cdl_arena_copy(&suggestion->arena, text);
    return CAUDAL_OK;
}

/* ---- comments ---- */

struct comment {
    struct cdl_writer writer;
    struct cdl_slice indent, line_end;
};

static struct cdl_writer *begin_line(struct comment *comment)
{
    cdl_write(&comment->writer, comment->indent);
    return &comment->writer;
}

static void end_line(struct comment *comment)
{
    cdl_write(&comment->writer, comment->line_end);
}

/* The name of an override has values in it, which may have anything. */
static void write_name(struct cdl_writer *writer, struct cdl_slice name)
{
    for (size_t i = 0; i < name.length; i++) {
        const unsigned char c = (unsigned char)name.bytes[i];
        if (c < ' ' || c >= 0x7f)
            cdl_writef(writer, "%%%02X", c);
        else
            cdl_write(writer, (struct cdl_slice){name.bytes + i, 1});
    }
}

static const char *text_of(const struct caudal_limit *limit, char text[CAUDAL_LIMIT_TEXT_MAX])
{
    if (caudal_limit_format(limit, text, CAUDAL_LIMIT_TEXT_MAX) < 0)
        text[0] = '\0';
    return text;
}

#define INSTANT_MAX 40u
static const char *utc_of(int64_t ns, char text[INSTANT_MAX])
{
    const time_t seconds = (time_t)(ns / INT64_C(1000000000));
    struct tm utc;
    gmtime_r(&seconds, &utc);
    snprintf(text, INSTANT_MAX, "%04d-%02d-%02d %02d:%02d:%02d", utc.tm_year + 1900, utc.tm_mon + 1, utc.tm_mday,
             utc.tm_hour, utc.tm_min, utc.tm_sec);
    return text;
}

static void tell_seen(struct comment *comment, const struct suggestion *suggestion, const struct cdl_replay_limit *seen)
{
    char begin[INSTANT_MAX], end[INSTANT_MAX];
    cdl_writef(begin_line(comment), "#   seen: %" PRIu64 " requests of %" PRIu64 " keys, %s to %s UTC%s",
               seen->requests, seen->keys, utc_of(suggestion->report->begin_ns, begin),
               utc_of(suggestion->report->end_ns, end),
               suggestion->report->interrupted ? ", of a log that was not read to its end" : "");
    end_line(comment);
    if (seen->unstudied > 0) {
        cdl_writef(begin_line(comment),
                   "#   not studied: %" PRIu64 " of these requests, of more keys than were allowed", seen->unstudied);
        end_line(comment);
    }
}

/* The most that all but a hundredth of the keys asked for, as far as the bins can tell: the end of the bin that holds it. Bin n ends before
 * 2^((n + 1) / 4), and bin 0 begins with 0; the last has no end. */
static uint64_t p99_of(const struct cdl_replay_limit *seen)
{
    static const double roots[] = {1, 1.189207115002721, 1.4142135623730951, 1.681792830507429};
    uint64_t all = 0, below = 0;
    unsigned bin = 0;
    for (unsigned i = 0; i < CDL_REPLAY_PEAK_BINS; i++)
        all += seen->peaks.keys[i];
    for (; bin < CDL_REPLAY_PEAK_BINS - 1; bin++) {
        below += seen->peaks.keys[bin];
        if (below >= all - all / 100)
            break;
    }
    if (bin == CDL_REPLAY_PEAK_BINS - 1)
        return UINT64_MAX; /* whatever is large is in the last one */
    const double end = roots[(bin + 1) % 4] * (double)(UINT64_C(1) << (bin + 1) / 4);
    const uint64_t whole = (uint64_t)end;
    return (double)whole < end ? whole : whole - 1;
}

static void tell_peaks(struct comment *comment, const struct cdl_replay_limit *seen)
{
    char text[CAUDAL_LIMIT_TEXT_MAX];
    struct caudal_limit one = CAUDAL_LIMIT_INIT;
    one.count = 1;
    one.period_ns = seen->what.period_ns;
    const uint64_t most = seen->fixed_count.for_all, p99 = p99_of(seen);
    cdl_writef(begin_line(comment),
               "#   asked for per %s: at most %" PRIu64 " by 99 %% of the keys, %" PRIu64 " by the busiest",
               text_of(&one, text) + 2, p99 < most ? p99 : most, most);
    end_line(comment);
}

static void tell_target(struct comment *comment, const struct suggestion *suggestion,
                        const struct cdl_replay_limit *seen, const struct cdl_fit *fit)
{
    const double share = suggestion->report->touch_share;
    const uint64_t touched = (uint64_t)(share * (double)seen->keys);
    cdl_writef(begin_line(comment),
               "#   target: something is refused to at most %.6g %% of the keys; now: to %s%" PRIu64 " of %" PRIu64,
               100 * share, fit->touches_none || touched == 0 ? "" : "at most ", fit->touches_none ? 0 : touched,
               seen->keys);
    end_line(comment);
}

static void tell_alternatives(struct comment *comment, const struct cdl_fit *fit)
{
    char text[CAUDAL_LIMIT_TEXT_MAX];
    if (fit->alternative_count == 0)
        return;
    cdl_writef(begin_line(comment), "#   as good for this target: %s", text_of(&fit->alternatives[0], text));
    for (uint32_t i = 1; i < fit->alternative_count; i++)
        cdl_writef(&comment->writer, ", or %s", text_of(&fit->alternatives[i], text));
    end_line(comment);
}

static void tell_caveats(struct comment *comment, const struct suggestion *suggestion, const struct cdl_fit *fit)
{
    if (fit->result == CDL_FIT_BURST_ONLY) {
        cdl_writef(begin_line(comment),
                   "#   the log does not tell the rate: at none near this one a bucket refills within its time");
        end_line(comment);
    }
    if (fit->limit.algorithm == CAUDAL_SLIDING_LOG && fit->result == CDL_FIT_FOUND) {
        cdl_writef(begin_line(comment), "#   the count is certainly enough, and may be up to twice of what is needed");
        end_line(comment);
    }
    if (suggestion->fitted > 1) {
        cdl_writef(begin_line(comment),
                   "#   fitted as if it stood alone, like each limit here; a refusal is counted for one of them");
        end_line(comment);
    }
}

static const char *headline(const struct cdl_fit *fit, bool is_new)
{
    switch (fit->result) {
    case CDL_FIT_FOUND:
    case CDL_FIT_BURST_ONLY:
        return is_new ? "was fitted to a log" : "fits the log as it is";
    case CDL_FIT_UNSEEN:
        return "stays as it was: the log has no request that it was asked about";
    case CDL_FIT_CHOSEN:
        return "stays as it was: a count of 0 is a choice, and nothing to fit";
    case CDL_FIT_NONE:
        break;
    }
    return "stays as it was: what this target takes is more than such a limit may have";
}

static bool is_same(const struct caudal_limit *a, const struct caudal_limit *b)
{
    return a->algorithm == b->algorithm && a->count == b->count && a->period_ns == b->period_ns &&
           caudal_limit_capacity(a) == caudal_limit_capacity(b);
}

static void tell(struct comment *comment, const struct suggestion *suggestion, const struct cdl_rate *rate,
                 const struct cdl_replay_limit *seen, const struct cdl_fit *fit)
{
    char text[CAUDAL_LIMIT_TEXT_MAX];
    cdl_write_text(begin_line(comment), "# ");
    write_name(&comment->writer, rate->name);
    cdl_writef(&comment->writer, " %s", headline(fit, !is_same(&rate->limit, &fit->limit)));
    end_line(comment);
    if (seen == NULL || fit->result == CDL_FIT_UNSEEN || fit->result == CDL_FIT_CHOSEN)
        return;
    tell_seen(comment, suggestion, seen);
    cdl_writef(begin_line(comment), "#   before: %s, which would have refused %" PRIu64 " requests of %" PRIu64 " keys",
               text_of(&rate->limit, text), seen->refused, seen->keys_refused);
    end_line(comment);
    tell_peaks(comment, seen);
    if (fit->result != CDL_FIT_NONE)
        tell_target(comment, suggestion, seen, fit);
    tell_alternatives(comment, fit);
    tell_caveats(comment, suggestion, fit);
}

/* Above the line in which the entry begins, and as far to the right. */
static int add_comment(struct suggestion *suggestion, const struct cdl_yaml_node *entry, const struct cdl_rate *rate,
                       const struct cdl_replay_limit *seen, const struct cdl_fit *fit)
{
    char bytes[COMMENT_BYTES_MAX];
    const uint32_t line = entry->place.line;
    if (line < 1 || line > suggestion->line_count)
        return cdl_problem(suggestion->problem, CAUDAL_ERR_ARGUMENT, 0, "the text is not that of the policy");
    const struct cdl_slice rest = cdl_slice_from(suggestion->text, suggestion->lines[line - 1]);
    size_t indent = 0;
    while (indent < rest.length && rest.bytes[indent] == ' ')
        indent++;
    struct comment comment = {cdl_writer_on(bytes, sizeof bytes), cdl_slice_head(rest, indent < 40 ? indent : 40),
                              break_of(suggestion, line)};
    tell(&comment, suggestion, rate, seen, fit);
    add_edit(suggestion, suggestion->lines[line - 1], 0, cdl_written(&comment.writer));
    return CAUDAL_OK;
}

/* ---- the walk ---- */

static struct cdl_yaml_node *find(const struct cdl_yaml_node *map, struct cdl_slice key)
{
    struct cdl_yaml_node *node = map->kind == CDL_YAML_MAP ? map->first : NULL;
    while (node != NULL && !cdl_slice_equal(node->text, key))
        node = node->next->next;
    return node != NULL ? node->next : NULL;
}

/* Puts a limit in the place of what stands in one scalar, or in two where the burst has its own. */
static int put_limit(struct suggestion *suggestion, const struct cdl_rate *rate, const struct cdl_yaml_node *entry,
                     struct caudal_limit limit)
{
    char text[CAUDAL_LIMIT_TEXT_MAX];
    struct cdl_yaml_node *rate_node = find(entry, CDL_SLICE("rate")), *burst_node = find(entry, CDL_SLICE("burst"));
    const uint64_t burst = caudal_limit_capacity(&limit);
    int status = CAUDAL_OK;
    if (rate_node == NULL)
        return cdl_problem(suggestion->problem, CAUDAL_ERR_ARGUMENT, 0, "the text is not that of the policy");
    if (burst_node != NULL) {
        snprintf(text, sizeof text, "%" PRIu64, burst);
        status = replace(suggestion, rate, burst_node, cdl_slice_of(text));
    }
    if (burst_node != NULL || limit.burst == limit.count)
        limit.burst = CAUDAL_BURST_DEFAULT;
    return status == CAUDAL_OK ? replace(suggestion, rate, rate_node, cdl_slice_of(text_of(&limit, text))) : status;
}

/* What a policy has to say so that this is an instance's share of it. False: more than a limit may have. */
static bool make_whole(struct caudal_limit *limit, struct cdl_ratio share)
{
    const cdl_u128 count = ((cdl_u128)limit->count * share.denominator + share.numerator - 1) / share.numerator;
    const cdl_u128 burst = ((cdl_u128)caudal_limit_capacity(limit) * share.denominator + share.numerator - 1) /
                           share.numerator;
    if (count > UINT64_MAX || burst >= CAUDAL_BURST_DEFAULT)
        return false;
    limit->count = (uint64_t)count;
    if (limit->algorithm == CAUDAL_TOKEN_BUCKET)
        limit->burst = (uint64_t)burst;
    return caudal_limit_check(limit, NULL) == CAUDAL_OK;
}

/* A limit of `sharing: local` is fitted as what one instance enforces of it, and told as the whole. */
static void fit_share(const struct suggestion *suggestion, const struct cdl_rate *rate, struct cdl_ratio share,
                      const struct cdl_replay_limit *seen, struct cdl_fit *fit)
{
    const struct cdl_limit_rule *rule = &suggestion->policy->limits[rate->limit_index];
    const bool is_all = share.numerator == share.denominator;
    const struct caudal_limit part = is_all ? rate->limit : cdl_local_limit(&rate->limit, share);
    uint32_t alternatives = 0;
    cdl_fit_limit(&part, rule, seen, suggestion->report->end_ns - suggestion->report->begin_ns, fit);
    if (is_same(&fit->limit, &part)) {
        fit->limit = rate->limit;
    } else if (!make_whole(&fit->limit, share)) {
        fit->result = CDL_FIT_NONE;
        fit->limit = rate->limit;
    }
    for (uint32_t i = 0; i < fit->alternative_count; i++)
        if (make_whole(&fit->alternatives[i], share))
            fit->alternatives[alternatives++] = fit->alternatives[i];
    fit->alternative_count = alternatives;
}

static int suggest_rate(struct suggestion *suggestion, uint32_t index, const struct cdl_yaml_node *entry)
{
    const struct cdl_policy *policy = suggestion->policy;
    const struct cdl_rate *rate = &policy->rates[index];
    const struct cdl_replay_limit *seen = suggestion->seen[index];
    const struct cdl_limit_rule *rule = &policy->limits[rate->limit_index];
    const bool is_local = rule->sharing == CDL_SHARING_LOCAL;
    struct cdl_fit fit;
    fit_share(suggestion, rate, is_local ? cdl_local_ratio(policy, rule) : (struct cdl_ratio){1, 1}, seen, &fit);
    suggestion->expected[index] = fit.limit;
    if (rate->limit.algorithm == CAUDAL_UNLIMITED)
        return CAUDAL_OK;
    const int status = add_comment(suggestion, entry, rate, seen, &fit);
    if (status != CAUDAL_OK || is_same(&rate->limit, &fit.limit))
        return status;
    return put_limit(suggestion, rate, entry, fit.limit);
}

static int suggest_limit(struct suggestion *suggestion, const struct cdl_limit_rule *rule,
                         const struct cdl_yaml_node *entry)
{
    int status = suggest_rate(suggestion, rule->rate, entry);
    const struct cdl_yaml_node *list = find(entry, CDL_SLICE("overrides"));
    const struct cdl_yaml_node *override = list != NULL ? list->first : NULL;
    for (uint32_t i = 0; i < rule->override_count && override != NULL && status == CAUDAL_OK; i++) {
        status = suggest_rate(suggestion, rule->overrides[i].rate, override);
        override = override->next;
    }
    return status;
}

static int suggest_all(struct suggestion *suggestion, const struct cdl_yaml_node *root)
{
    const struct cdl_policy *policy = suggestion->policy;
    const struct cdl_yaml_node *list = find(root, CDL_SLICE("limits"));
    if (list == NULL)
        return cdl_problem(suggestion->problem, CAUDAL_ERR_ARGUMENT, 0,
                           "the policy has no limits of requests in its own file: there is nothing to fit");
    const struct cdl_yaml_node *entry = list->first;
    int status = CAUDAL_OK;
    for (uint32_t i = 0; i < policy->request_limit_count && entry != NULL && status == CAUDAL_OK; i++) {
        status = suggest_limit(suggestion, &policy->limits[i], entry);
        entry = entry->next;
    }
    return status;
}

/* ---- the new text ---- */

static int compare_edits(const void *a, const void *b)
{
    const struct edit *x = a, *y = b;
    if (x->at != y->at)
        return x->at < y->at ? -1 : 1;
    return (x->number > y->number) - (x->number < y->number);
}

static struct cdl_slice apply(struct suggestion *suggestion)
{
    size_t length = suggestion->text.length, from = 0;
    qsort(suggestion->edits, suggestion->edit_count, sizeof *suggestion->edits, compare_edits);
    for (size_t i = 0; i < suggestion->edit_count; i++)
        length += suggestion->edits[i].text.length - suggestion->edits[i].removed;
    char *bytes = cdl_arena_allocate(&suggestion->arena, length + 1, 1);
    if (bytes == NULL)
        return (struct cdl_slice){NULL, 0};
    struct cdl_writer writer = cdl_writer_on(bytes, length);
    for (size_t i = 0; i < suggestion->edit_count; i++) {
        const struct edit *edit = &suggestion->edits[i];
        cdl_write(&writer, (struct cdl_slice){suggestion->text.bytes + from, edit->at - from});
        cdl_write(&writer, edit->text);
        from = edit->at + edit->removed;
    }
    cdl_write(&writer, cdl_slice_from(suggestion->text, from));
    return cdl_written(&writer);
}

static bool same_tree(const struct cdl_yaml_node *a, const struct cdl_yaml_node *b)
{
    if (a->kind != b->kind || a->count != b->count || !cdl_slice_equal(a->text, b->text))
        return false;
    const struct cdl_yaml_node *x = a->first, *y = b->first;
    for (; x != NULL && y != NULL; x = x->next, y = y->next)
        if (!same_tree(x, y))
            return false;
    return x == NULL && y == NULL;
}

static const char *first_error(const struct cdl_report *report)
{
    for (size_t i = 0; i < report->count; i++)
        if (!report->findings[i].warning)
            return report->findings[i].text;
    return "it says something else";
}

static bool same_rates(const struct suggestion *suggestion, const struct cdl_policy *made)
{
    if (made->rate_count != suggestion->policy->rate_count)
        return false;
    for (uint32_t i = 0; i < made->rate_count; i++)
        if (!cdl_slice_equal(made->rates[i].name, suggestion->policy->rates[i].name) ||
            !is_same(&made->rates[i].limit, &suggestion->expected[i]))
            return false;
    return true;
}

/* Whether the new text is what it should be: the old one's tree with other scalars, and a policy with the rates that were fitted. */
static int check(struct suggestion *suggestion, const struct cdl_yaml_node *root, struct cdl_slice text)
{
    struct cdl_report *findings = cdl_arena_allocate(&suggestion->arena, 1, sizeof *findings);
    if (findings == NULL)
        return CAUDAL_ERR_MEMORY;
    const struct cdl_yaml_node *made = cdl_yaml_read(text, CDL_YAML_WRITTEN_OUT, &suggestion->arena, findings);
    bool is_good = made != NULL && findings->errors == 0 && same_tree(root, made);
    if (is_good) {
        struct cdl_policy *policy = cdl_policy_load_text(suggestion->policy->file.bytes, text, NULL, findings);
        is_good = policy != NULL && same_rates(suggestion, policy);
        cdl_policy_free(policy);
    }
    if (is_good)
        return CAUDAL_OK;
    return cdl_problem(
        suggestion->problem, CAUDAL_ERR_ARGUMENT, 0,
        "the file is laid out so that it cannot be rewritten in place: %.200s; let each limit begin in a line "
        "of its own",
        first_error(findings));
}

static int write_out(FILE *to, struct cdl_slice text, struct caudal_problem *problem)
{
    if (fwrite(text.bytes, 1, text.length, to) == text.length && fflush(to) == 0)
        return CAUDAL_OK;
    return cdl_problem(problem, CAUDAL_ERR_STORE, 0, "the policy cannot be written: %m");
}

/* ---- all of it ---- */

static bool prepare(struct suggestion *suggestion)
{
    const uint32_t rates = suggestion->policy->rate_count;
    const struct cdl_replay_report *report = suggestion->report;
    suggestion->line_count = find_lines(suggestion->text, NULL);
    suggestion->lines = cdl_arena_allocate(&suggestion->arena, suggestion->line_count, sizeof(size_t));
    suggestion->seen = cdl_arena_allocate(&suggestion->arena, rates, sizeof(void *));
    suggestion->expected = cdl_arena_allocate(&suggestion->arena, rates, sizeof *suggestion->expected);
    suggestion->edits = cdl_arena_allocate(&suggestion->arena, (size_t)rates * EDITS_OF_RATE, sizeof(struct edit));
    if (suggestion->arena.failed)
        return false;
    find_lines(suggestion->text, suggestion->lines);
    for (uint32_t i = 0; i < rates; i++)
        suggestion->expected[i] = suggestion->policy->rates[i].limit;
    for (size_t i = 0; i < report->limit_count; i++) {
        suggestion->fitted += report->limits[i].requests > 0;
        if (report->limits[i].rate_index < rates)
            suggestion->seen[report->limits[i].rate_index] = &report->limits[i];
    }
    return true;
}

static int suggest(struct suggestion *suggestion, FILE *to)
{
    struct cdl_report *findings = cdl_arena_allocate(&suggestion->arena, 1, sizeof *findings);
    if (findings == NULL || !prepare(suggestion))
        return CAUDAL_ERR_MEMORY;
    const struct cdl_yaml_node *root = cdl_yaml_read(suggestion->text, CDL_YAML_WITH_ALIASES, &suggestion->arena,
                                                     findings);
    if (root == NULL || findings->errors > 0)
        return cdl_problem(suggestion->problem, CAUDAL_ERR_ARGUMENT, 0, "the text is not that of the policy");
    int status = suggest_all(suggestion, root);
    const struct cdl_slice text = apply(suggestion);
    if (status == CAUDAL_OK && !suggestion->arena.failed)
        status = check(suggestion, root, text);
    if (suggestion->arena.failed)
        return CAUDAL_ERR_MEMORY;
    return status == CAUDAL_OK ? write_out(to, text, suggestion->problem) : status;
}

int cdl_suggest_write(FILE *to, const struct cdl_policy *policy, struct cdl_slice text,
                      const struct cdl_replay_report *report, struct caudal_problem *problem)
{
    struct suggestion suggestion = {.policy = policy, .report = report, .text = text, .problem = problem};
    cdl_arena_init(&suggestion.arena, NULL);
    const int status = suggest(&suggestion, to);
    cdl_arena_free(&suggestion.arena);
    return status == CAUDAL_ERR_MEMORY ? cdl_problem(problem, status, 0, "memory is short") : status;
}
