/* caudal take: one decision, for shell scripts. The exit status is the answer; --wait waits for the turn. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/duration.h"
#include "caudal/store.h"
#include "cli/cli.h"
#include "cli/policy_file.h"
#include "cli/store_url.h"
#include "limiter/limiter.h"
#include "store/redis/redis_store.h"
#include "wire/json_api.h"

enum {
    COST,
    STORE,
    WAIT,
    POLICY,
    NAME,
    PEEK,
    JSON,
};

static const struct cdl_option options[] = {
    [COST] = {"cost", "N", "tokens to take; default 1"},
    [STORE] = {"store", "URL", "a Redis or Valkey; default: $CAUDAL_STORE, the policy's, or local"},
    [WAIT] = {"wait", "DURATION", "wait for the turn, up to that long: 500ms, 30s, 5m"},
    [POLICY] = {"policy", "FILE", "LIMIT is a name in this policy, KEY a value for each of its per"},
    [NAME] = {"name", "NAME", "of the limit in the store; default: its text"},
    [PEEK] = {"peek", NULL, "say what would be answered, and take nothing"},
    [JSON] = {"json", NULL, "print the decision in JSON"},
};

struct take {
    const struct cdl_command *command;
    const char *limit; /* "" until it has one */
    bool has_limit;
    struct cdl_slice keys[CDL_PER_MAX];
    size_t key_count;
    const char *store_url, *policy_file, *name;
    uint64_t cost;
    int64_t wait_ns;
    bool waits, peeks, json;

    struct cdl_cli_store where;
    struct caudal_store *store;
    char name_text[CAUDAL_LIMIT_TEXT_MAX];
    uint32_t id;                 /* of the limit: in the policy, or in the store */
    struct cdl_limiter *limiter; /* with a policy: it knows how keys are made of values */
    struct cdl_live_policy *live;
    struct caudal_decision decision;
};

/* ---- command line ---- */

static int read_operand(struct take *take, const char *value)
{
    if (!take->has_limit) {
        take->has_limit = true;
        take->limit = value;
        return 0;
    }
    if (take->key_count == CDL_PER_MAX)
        return cdl_usage_error(take->command, "more than %u KEYs; '%s' is one too many", CDL_PER_MAX, value);
    take->keys[take->key_count++] = cdl_slice_of(value);
    return 0;
}

static int read_cost(struct take *take, const char *text)
{
    char *end;
    take->cost = strtoull(text, &end, 10);
    if (text[0] >= '0' && text[0] <= '9' && *end == '\0' && take->cost < UINT64_MAX)
        return 0;
    return cdl_usage_error(take->command, "--cost: '%s' is not a whole number", text);
}

static int read_wait(struct take *take, const char *text)
{
    take->waits = true;
    if (cdl_duration_parse(cdl_slice_of(text), &take->wait_ns))
        return 0;
    return cdl_usage_error(take->command, "--wait: '%s' is not a duration with its unit, as in 500ms, 30s or 5m", text);
}

static int take_argument(struct take *take, int kind, const char *value)
{
    switch (kind) {
    case CDL_ARGUMENT_OPERAND:
        return read_operand(take, value);
    case COST:
        return read_cost(take, value);
    case STORE:
        take->store_url = value;
        return 0;
    case WAIT:
        return read_wait(take, value);
    case POLICY:
        take->policy_file = value;
        return 0;
    case NAME:
        take->name = value;
        return 0;
    case PEEK:
        take->peeks = true;
        return 0;
    case JSON:
        take->json = true;
        return 0;
    default:
        return CDL_EXIT_USAGE;
    }
}

static int check_arguments(const struct take *take)
{
    if (!take->has_limit)
        return cdl_usage_error(take->command, "which limit? None was given");
    if (take->peeks && take->waits)
        return cdl_usage_error(take->command, "--peek takes nothing, so there is nothing to wait for");
    if (take->policy_file != NULL)
        return take->name == NULL ? 0 : cdl_usage_error(take->command, "--name: a policy names its limits itself");
    if (take->key_count == 0)
        return cdl_usage_error(take->command, "which key? None was given; of a limit for all, any word");
    if (take->key_count > 1)
        return cdl_usage_error(take->command, "one KEY; '%s' is a second", take->keys[1].bytes);
    /* As of a variable of the script that is not set: all such callers would share a bucket. */
    return take->keys[0].length > 0 ? 0 : cdl_usage_error(take->command, "the KEY is empty");
}

static int read_arguments(struct take *take, struct cdl_arguments *arguments)
{
    const char *value;
    int kind, status = 0;
    while (status == 0 && (kind = cdl_argument_next(arguments, &value)) != CDL_ARGUMENT_END)
        status = take_argument(take, kind, value);
    return status != 0 ? status : check_arguments(take);
}

/* ---- opening ---- */

__attribute__((format(printf, 2, 3))) static int fail(const struct take *take, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "caudal %s: ", take->command->name);
    vfprintf(stderr, format, arguments);
    fprintf(stderr, "\n");
    va_end(arguments);
    return CDL_EXIT_ERROR;
}

static int open_store(struct take *take)
{
    struct caudal_problem problem;
    const struct caudal_store_options store_options = {
        .size = sizeof store_options,
        .secret = take->where.secret,
        .secret_length = take->where.secret_length,
        .deadline_ns = take->where.deadline_ns,
    };
    const int status = caudal_store_open(take->where.url, &store_options, &take->store, &problem);
    explicit_bzero(take->where.secret, sizeof take->where.secret);
    if (status == CAUDAL_OK)
        return 0;
    return fail(take, "the store of %s, %s: %s", take->where.from, take->where.shown, problem.message);
}

/* A limit that stands on the command line. Scripts that write the same limit share its buckets. */
static int open_limit(struct take *take)
{
    struct caudal_limit limit;
    struct caudal_problem problem;
    if (caudal_limit_parse(take->limit, &limit, &problem) != CAUDAL_OK)
        return cdl_usage_error(take->command, "LIMIT: %s", problem.message);
    if (take->name == NULL) {
        caudal_limit_format(&limit, take->name_text, sizeof take->name_text);
        take->name = take->name_text;
    }
    if (!cdl_cli_find_store(take->command->name, take->store_url, NULL, &take->where))
        return CDL_EXIT_ERROR;
    const int status = open_store(take);
    if (status != 0 || caudal_add_limit(take->store, take->name, &limit, &take->id, &problem) == CAUDAL_OK)
        return status;
    return fail(take, "%s", problem.message);
}

static int check_keys(const struct take *take, const struct cdl_policy *policy)
{
    const struct cdl_limit_rule *limit = &policy->limits[take->id];
    if (take->key_count == limit->per_count)
        return 0;
    char bytes[512];
    struct cdl_writer per = cdl_writer_on(bytes, sizeof bytes);
    for (uint32_t i = 0; i < limit->per_count; i++) {
        cdl_write_text(&per, i == 0 ? "" : ", ");
        cdl_write(&per, limit->per[i].text);
    }
    if (limit->per_count == 0)
        return cdl_usage_error(take->command, "limit '%s' has one bucket for all, and no KEY", take->limit);
    return cdl_usage_error(take->command, "limit '%s' counts by %.*s: it wants %u KEYs, not %zu", take->limit,
                           CDL_SLICE_ARG(cdl_written(&per)), limit->per_count, take->key_count);
}

/* Puts the policy in force as the server does, so that a key is made, and its bucket named, in one way only. */
static int apply(struct take *take, struct cdl_policy *policy)
{
    struct caudal_problem problem;
    take->limiter = cdl_limiter_open(take->store);
    if (take->limiter == NULL) {
        cdl_policy_free(policy);
        return fail(take, "no memory for a policy");
    }
    if (cdl_limiter_apply(take->limiter, policy, NULL, &problem) != CAUDAL_OK) {
        cdl_policy_free(policy);
        return fail(take, "%s", problem.message);
    }
    take->live = cdl_limiter_acquire(take->limiter);
    return 0;
}

static int open_policy(struct take *take)
{
    static struct cdl_report report; /* large */
    struct cdl_policy *policy = cdl_cli_load_policy(take->policy_file, false, &report);
    if (policy == NULL)
        return CDL_EXIT_ERROR;
    int status;
    take->id = cdl_policy_find(policy, cdl_slice_of(take->limit));
    if (take->id == CDL_NONE)
        status = fail(take, "%s has no limit '%s'", take->policy_file, take->limit);
    else if ((status = check_keys(take, policy)) != 0)
        ;
    else if (!cdl_cli_find_store(take->command->name, take->store_url, policy, &take->where))
        status = CDL_EXIT_ERROR;
    else if ((status = open_store(take)) == 0)
        return apply(take, policy);
    cdl_policy_free(policy);
    return status;
}

/* NULL does nothing, here too. */
static void close_all(struct take *take)
{
    cdl_limiter_release(take->live);
    cdl_limiter_close(take->limiter);
    caudal_store_close(take->store);
}

/* ---- asking ---- */

/* Without a client everything is answered within the call. */
static int ask_policy(struct take *take)
{
    static char scratch[CDL_MATCH_SCRATCH_BYTES];
    static struct cdl_asker asker = {.scratch = scratch}; /* large */
    const struct cdl_named_key key = {take->id, take->keys, take->key_count};
    cdl_limiter_ask_named(&asker, take->live, &key, take->peeks ? CDL_ASK_PEEK : CDL_ASK_TAKE, take->cost);
    take->decision = asker.answer.overall;
    return take->decision.status;
}

static int ask_store(struct take *take)
{
    const struct cdl_slice key = take->keys[0];
    return take->peeks ? caudal_peek(take->store, take->id, key.bytes, key.length, take->cost, &take->decision)
                       : caudal_take(take->store, take->id, key.bytes, key.length, take->cost, &take->decision);
}

/* What a limit answers while its store is away is for servers; here it is an error. */
static int ask(struct take *take)
{
    int status = take->live != NULL ? ask_policy(take) : ask_store(take);
    if (take->decision.source == CAUDAL_SOURCE_FAILURE_POLICY || take->decision.source == CAUDAL_SOURCE_LOCAL_SHARE)
        status = CAUDAL_ERR_STORE;
    if (status == CAUDAL_OK)
        return 0;
    if (status != CAUDAL_ERR_STORE)
        return fail(take, "%s", caudal_status_text(status));
    return fail(take, "%s: %s", take->where.shown, cdl_store_event_text(cdl_redis_last_failure()));
}

static int64_t later(int64_t now_ns, int64_t by_ns)
{
    int64_t then_ns;
    return __builtin_add_overflow(now_ns, by_ns, &then_ns) ? INT64_MAX : then_ns;
}

/* Asks until there is an answer that waiting does not change: allowed, never, or a turn that comes after the patience has ended. The
 * wait counts from when the answer has come, which is after the store has worked it out, so that no turn is asked for too early. */
static int ask_in_turn(struct take *take)
{
    const struct caudal_clock *clock = caudal_clock_system();
    const int64_t end_ns = later(clock->monotonic_ns(clock->context), take->wait_ns);
    for (;;) {
        const int status = ask(take);
        if (status != 0 || take->decision.verdict != CAUDAL_DENY)
            return status;
        const int64_t turn_ns = later(clock->monotonic_ns(clock->context), take->decision.retry_after_ns);
        if (turn_ns > end_ns)
            return 0;
        cdl_sleep_until(turn_ns);
    }
}

/* ---- answering ---- */

static void print_wait(const struct caudal_decision *decision)
{
    char bytes[40];
    struct cdl_writer writer = cdl_writer_on(bytes, sizeof bytes);
    if (decision->verdict == CAUDAL_NEVER)
        cdl_write_text(&writer, "never");
    else
        cdl_duration_write_seconds(&writer, decision->retry_after_ns);
    printf("%.*s\n", CDL_SLICE_ARG(cdl_written(&writer)));
}

static void print_json(const struct take *take)
{
    char bytes[4096]; /* a name has 255 bytes at most, and each becomes six */
    struct cdl_writer writer = cdl_writer_on(bytes, sizeof bytes);
    const char *name = take->live != NULL ? take->limit : take->name;
    const struct cdl_json_decision told = {cdl_slice_of(name), &take->decision};
    cdl_json_write_decision(&writer, &told, &told, 1);
    printf("%.*s\n", CDL_SLICE_ARG(cdl_written(&writer)));
}

static int answer(const struct take *take)
{
    const bool allowed = take->decision.verdict == CAUDAL_ALLOW;
    if (take->json)
        print_json(take);
    else if (!allowed)
        print_wait(&take->decision);
    return cdl_exit_printed(take->command, allowed ? CDL_EXIT_YES : CDL_EXIT_NO);
}

static int run(struct cdl_arguments *arguments)
{
    static struct take take; /* large */
    take = (struct take){.command = arguments->command, .limit = "", .cost = 1};
    int status = read_arguments(&take, arguments);
    if (status == 0)
        status = take.policy_file != NULL ? open_policy(&take) : open_limit(&take);
    if (status == 0)
        status = ask_in_turn(&take);
    if (status == 0)
        status = answer(&take);
    close_all(&take);
    return status;
}

const struct cdl_command cdl_command_take = {
    .name = "take",
    .operands = "LIMIT KEY...",
    .summary = "take from a limit in a Redis or Valkey, for shell scripts",
    .details = "Takes from the bucket of KEY under LIMIT, such as \"10/minute burst 20\", and says\n"
               "by its exit status whether there was enough:\n"
               "  0  taken\n"
               "  1  refused, and nothing was taken; the wait is printed, as 1.25s: seconds with\n"
               "     at most nine decimals; or never, where no wait helps\n"
               "  2  an error, or a command line that is wrong; stderr says which\n"
               "Whoever names the same limit, key and store shares the bucket; with --policy,\n"
               "so do the servers of that policy. Without any URL the store is\n"
               "redis://127.0.0.1:6379. Its answer is waited for 1 s, unless its URL has a deadline.",
    .options = options,
    .option_count = sizeof options / sizeof options[0],
    .run = run,
};
