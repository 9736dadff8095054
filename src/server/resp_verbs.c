/* The commands: one list, which is looked up, told by COMMAND, and compared with docs/resp.md by a test. */
#include <stdlib.h>

#include "server/resp.h"

static bool has_cl_throttle(const struct cdl_resp_settings *settings)
{
    return settings->cl_throttle;
}

static bool has_throttle(const struct cdl_resp_settings *settings)
{
    return settings->throttle;
}

static bool has_gcra(const struct cdl_resp_settings *settings)
{
    return settings->gcra;
}

#define NAME(text) .name = {text, sizeof(text) - 1}

/* What is asked most comes first. */
static const struct cdl_resp_verb verbs[] = {
    {NAME("cl.throttle"), .arity = -5, .right = CDL_RESP_THROTTLE, .keys = 1, .flags = "write fast",
     .is_on = has_cl_throttle, .run = cdl_resp_cl_throttle, .tell = cdl_resp_tell_cl_throttle,
     .syntax = "key max_burst count period [quantity]",
     .summary = "Takes from a bucket of max_burst + 1 that refills by count in each period of seconds."},
    {NAME("throttle"), .arity = -5, .right = CDL_RESP_THROTTLE, .keys = 1, .flags = "write fast", .is_on = has_throttle,
     .run = cdl_resp_throttle, .tell = cdl_resp_tell_throttle,
     .syntax = "key max_burst count_per_period period [quantity]",
     .summary = "Takes from a bucket of max_burst that refills by count_per_period in each period of seconds."},
    {NAME("gcra"), .arity = -5, .right = CDL_RESP_THROTTLE, .keys = 1, .flags = "write fast", .is_on = has_gcra,
     .run = cdl_resp_gcra, .tell = cdl_resp_tell_cl_throttle,
     .syntax = "key max-burst tokens-per-period period [TOKENS count]",
     .summary = "Takes from a bucket of max-burst + 1 that refills by tokens-per-period in each period of seconds."},
    {NAME("caudal.take"), .arity = -2, .right = CDL_RESP_TAKE, .flags = "write fast", .run = cdl_resp_take,
     .tell = cdl_resp_tell_named, .syntax = "limit key... [COST cost]",
     .summary = "Takes from a limit of the policy, by its name."},
    {NAME("caudal.check"), .arity = -1, .right = CDL_RESP_TAKE, .flags = "write fast", .run = cdl_resp_check,
     .tell = cdl_resp_tell_policy, .syntax = "attribute-value... [COST cost]",
     .summary = "Takes from all limits of the policy that apply to a request, or from none."},
    {NAME("caudal.peek"), .arity = -2, .right = CDL_RESP_PEEK, .flags = "readonly fast", .run = cdl_resp_peek,
     .tell = cdl_resp_tell_named, .syntax = "limit key... [COST cost]",
     .summary = "Says what CAUDAL.TAKE would answer, and takes nothing."},
    {NAME("caudal.refund"), .arity = -2, .right = CDL_RESP_REFUND, .flags = "write fast", .run = cdl_resp_refund,
     .tell = cdl_resp_tell_named, .syntax = "limit key... [COST cost]",
     .summary = "Gives back what was taken from a limit."},
    {NAME("caudal.reset"), .arity = -2, .right = CDL_RESP_RESET, .flags = "write", .run = cdl_resp_reset_key,
     .syntax = "limit key...", .summary = "Forgets a key under a limit, as if it had never been seen."},
    {NAME("caudal.explain"), .arity = -1, .right = CDL_RESP_EXPLAIN, .flags = "readonly", .run = cdl_resp_explain,
     .syntax = "attribute-value... [COST cost]",
     .summary = "Says which limits of the policy apply to a request, and why. Takes nothing."},

    {NAME("ping"), .arity = -1, .flags = "fast", .run = cdl_resp_ping, .syntax = "[message]",
     .summary = "Answers PONG, or the message."},
    {NAME("hello"), .arity = -1, .before_auth = true, .flags = "noscript loading stale fast no_auth",
     .run = cdl_resp_hello, .syntax = "[protocol] [AUTH username-password] [SETNAME name]",
     .summary = "Greets, and chooses RESP2 or RESP3."},
    {NAME("auth"), .arity = -2, .before_auth = true, .flags = "noscript loading stale fast no_auth",
     .run = cdl_resp_auth, .syntax = "[username] password", .summary = "Says who the client is."},
    {NAME("client"), .arity = -2, .flags = "noscript loading stale", .run = cdl_resp_client,
     .syntax = "subcommand [argument...]",
     .summary = "SETNAME name, GETNAME, SETINFO LIB-NAME|LIB-VER value, ID, INFO: about this connection."},
    {NAME("select"), .arity = 2, .flags = "loading stale fast", .run = cdl_resp_select, .syntax = "index",
     .summary = "Accepts database 0, which is the only one."},
    {NAME("echo"), .arity = 2, .flags = "loading stale fast", .run = cdl_resp_echo, .syntax = "message",
     .summary = "Answers the message."},
    {NAME("command"), .arity = -1, .flags = "loading stale", .run = cdl_resp_command,
     .syntax = "[subcommand] [name...]",
     .summary = "Tells the commands: all, COUNT, LIST, INFO and DOCS of those that are named."},
    {NAME("info"), .arity = -1, .flags = "loading stale", .run = cdl_resp_info, .syntax = "[section...]",
     .summary = "Tells of the server, as Redis does."},
    {NAME("config"), .arity = -2, .flags = "admin noscript loading stale", .run = cdl_resp_config,
     .syntax = "subcommand [parameter...]",
     .summary = "GET: answers what benchmarks ask for. Settings are the policy's."},
    {NAME("reset"), .arity = 1, .before_auth = true, .flags = "noscript loading stale fast no_auth",
     .run = cdl_resp_reset, .syntax = "", .summary = "Makes the connection as it was when it was new."},
    {NAME("quit"), .arity = -1, .before_auth = true, .flags = "noscript loading stale fast no_auth",
     .run = cdl_resp_quit, .syntax = "", .summary = "Answers OK and closes the connection."},
};
#define VERBS (sizeof verbs / sizeof verbs[0])

static bool is_on(const struct cdl_resp_verb *verb, const struct cdl_policy *policy)
{
    return verb->is_on == NULL || verb->is_on(&policy->resp);
}

/* A verb's name has letters and dots only, so that a letter's case is all that may differ. */
static bool is_called(const struct cdl_resp_verb *verb, struct cdl_slice name)
{
    if (name.length != verb->name.length)
        return false;
    unsigned differing = 0;
    for (size_t i = 0; i < name.length; i++) {
        const unsigned bits = (unsigned char)(name.bytes[i] ^ verb->name.bytes[i]);
        differing |= verb->name.bytes[i] == '.' ? bits : bits & ~0x20u;
    }
    return differing == 0;
}

const struct cdl_resp_verb *cdl_resp_verb_find(const struct cdl_policy *policy, struct cdl_slice name)
{
    for (size_t i = 0; i < VERBS; i++)
        if (is_called(&verbs[i], name) && is_on(&verbs[i], policy))
            return &verbs[i];
    return NULL;
}

const struct cdl_resp_verb *cdl_resp_verb_at(size_t index)
{
    return index < VERBS ? &verbs[index] : NULL;
}

/* ---- COMMAND: the commands that are on ---- */

/* Goes through words that are separated by blanks. */
static bool next_word(const char **at, struct cdl_slice *word)
{
    *at += strspn(*at, " ");
    *word = (struct cdl_slice){*at, strcspn(*at, " ")};
    *at += word->length;
    return word->length > 0;
}

static size_t count_words(const char *text)
{
    struct cdl_slice word;
    size_t count = 0;
    while (next_word(&text, &word))
        count++;
    return count;
}

/* What Redis 7 tells of a command: ten elements, the last three of which are of no use to us. */
static void write_info(struct cdl_resp_call *call, const struct cdl_resp_verb *verb)
{
    struct cdl_writer *output = call->output;
    const unsigned protocol = call->session->protocol;
    struct cdl_slice flag;
    cdl_resp_write_array(output, 10);
    cdl_resp_write_bulk(output, verb->name);
    cdl_resp_write_integer(output, verb->arity);
    cdl_resp_write_set(output, protocol, count_words(verb->flags));
    for (const char *at = verb->flags; next_word(&at, &flag);)
        cdl_resp_write_simple(output, flag);
    cdl_resp_write_integer(output, verb->keys);
    cdl_resp_write_integer(output, verb->keys);
    cdl_resp_write_integer(output, verb->keys > 0);
    cdl_resp_write_set(output, protocol, 0);
    for (int i = 0; i < 3; i++)
        cdl_resp_write_array(output, 0);
}

static size_t count_on(const struct cdl_policy *policy)
{
    size_t count = 0;
    for (size_t i = 0; i < VERBS; i++)
        count += is_on(&verbs[i], policy);
    return count;
}

static void command_all(struct cdl_resp_call *call)
{
    const struct cdl_policy *policy = call->worker->live->policy;
    cdl_resp_write_array(call->output, count_on(policy));
    for (size_t i = 0; i < VERBS; i++)
        if (is_on(&verbs[i], policy))
            write_info(call, &verbs[i]);
}

static void command_count(struct cdl_resp_call *call)
{
    cdl_resp_write_integer(call->output, (int64_t)count_on(call->worker->live->policy));
}

static void command_list(struct cdl_resp_call *call)
{
    const struct cdl_policy *policy = call->worker->live->policy;
    cdl_resp_write_array(call->output, count_on(policy));
    for (size_t i = 0; i < VERBS; i++)
        if (is_on(&verbs[i], policy))
            cdl_resp_write_bulk(call->output, verbs[i].name);
}

/* More names than there are commands would only repeat them. */
static bool check_names(struct cdl_resp_call *call)
{
    if (call->count <= 2 + VERBS)
        return true;
    cdl_resp_error(call, "ERR more names than there are commands");
    return false;
}

static void command_info(struct cdl_resp_call *call)
{
    if (call->count == 2)
        command_all(call);
    if (call->count == 2 || !check_names(call))
        return;
    cdl_resp_write_array(call->output, call->count - 2);
    for (size_t i = 2; i < call->count; i++) {
        const struct cdl_resp_verb *verb = cdl_resp_verb_find(call->worker->live->policy, call->arguments[i]);
        if (verb != NULL)
            write_info(call, verb);
        else
            cdl_resp_write_null(call->output, call->session->protocol);
    }
}

static void write_pair(struct cdl_writer *output, const char *key, struct cdl_slice value)
{
    cdl_resp_write_bulk(output, cdl_slice_of(key));
    cdl_resp_write_bulk(output, value);
}

/* One argument of a syntax: "name", "name...", "[name]", "[TOKEN name]". */
struct argument {
    struct cdl_slice name, token;
    bool is_optional, is_multiple;
};

static bool next_argument(const char **at, struct argument *argument)
{
    struct cdl_slice word;
    if (!next_word(at, &word))
        return false;
    *argument = (struct argument){.is_optional = word.bytes[0] == '['};
    if (argument->is_optional)
        word = cdl_slice_from(word, 1);
    if (word.bytes[0] >= 'A' && word.bytes[0] <= 'Z') {
        argument->token = word;
        next_word(at, &word);
    }
    if (word.bytes[word.length - 1] == ']')
        word.length--;
    argument->is_multiple = word.bytes[word.length - 1] == '.';
    if (argument->is_multiple)
        word.length -= sizeof "..." - 1;
    argument->name = word;
    return true;
}

static void write_argument(struct cdl_resp_call *call, const struct argument *argument)
{
    struct cdl_writer *output = call->output;
    const unsigned protocol = call->session->protocol;
    const bool has_flags = argument->is_optional || argument->is_multiple, has_token = argument->token.length > 0;
    cdl_resp_write_map(output, protocol, 2u + has_token + has_flags);
    write_pair(output, "name", argument->name);
    write_pair(output, "type", CDL_SLICE("string"));
    if (has_token)
        write_pair(output, "token", argument->token);
    if (!has_flags)
        return;
    cdl_resp_write_bulk(output, CDL_SLICE("flags"));
    cdl_resp_write_set(output, protocol, (size_t)argument->is_optional + argument->is_multiple);
    if (argument->is_optional)
        cdl_resp_write_simple(output, CDL_SLICE("optional"));
    if (argument->is_multiple)
        cdl_resp_write_simple(output, CDL_SLICE("multiple"));
}

static void write_docs(struct cdl_resp_call *call, const struct cdl_resp_verb *verb)
{
    struct cdl_writer *output = call->output;
    struct argument argument;
    size_t count = 0;
    for (const char *at = verb->syntax; next_argument(&at, &argument);)
        count++;
    cdl_resp_write_bulk(output, verb->name);
    cdl_resp_write_map(output, call->session->protocol, count > 0 ? 4 : 3);
    write_pair(output, "summary", cdl_slice_of(verb->summary));
    write_pair(output, "since", CDL_SLICE("0.1.0"));
    write_pair(output, "group", verb->right != 0 ? CDL_SLICE("rate_limit") : CDL_SLICE("connection"));
    if (count == 0)
        return;
    cdl_resp_write_bulk(output, CDL_SLICE("arguments"));
    cdl_resp_write_array(output, count);
    for (const char *at = verb->syntax; next_argument(&at, &argument);)
        write_argument(call, &argument);
}

/* Whether the command is one of those that are asked for; all are when none is named. */
static bool is_named(const struct cdl_resp_call *call, const struct cdl_resp_verb *verb)
{
    for (size_t i = 2; i < call->count; i++)
        if (cdl_slice_equal_nocase(verb->name, call->arguments[i]))
            return true;
    return call->count == 2;
}

static void command_docs(struct cdl_resp_call *call)
{
    const struct cdl_policy *policy = call->worker->live->policy;
    size_t count = 0;
    for (size_t i = 0; i < VERBS; i++)
        count += is_on(&verbs[i], policy) && is_named(call, &verbs[i]);
    cdl_resp_write_map(call->output, call->session->protocol, count);
    for (size_t i = 0; i < VERBS; i++)
        if (is_on(&verbs[i], policy) && is_named(call, &verbs[i]))
            write_docs(call, &verbs[i]);
}

void cdl_resp_command(struct cdl_resp_call *call)
{
    static const struct {
        struct cdl_slice name;
        void (*run)(struct cdl_resp_call *call);
    } subcommands[] = {
        {{"count", 5}, command_count},
        {{"list", 4}, command_list},
        {{"info", 4}, command_info},
        {{"docs", 4}, command_docs},
    };
    if (call->count == 1) {
        command_all(call);
        return;
    }
    for (size_t i = 0; i < sizeof subcommands / sizeof subcommands[0]; i++)
        if (cdl_slice_equal_nocase(call->arguments[1], subcommands[i].name)) {
            subcommands[i].run(call);
            return;
        }
    cdl_resp_error_about(call, "unknown subcommand", " '", call->arguments[1], "'");
}
