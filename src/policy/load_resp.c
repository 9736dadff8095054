/* `resp:`, the front end for Redis clients. */
#include "policy/added.h"
#include "policy/load.h"

/* No other limit has a name that begins with '/'. */
#define PER_CALL_NAME CDL_SLICE("/per-call")

struct resp_draft {
    const struct cdl_yaml_node *commands, *users;
    enum cdl_on_failure on_store_failure;
};

static const struct cdl_setting resp_settings[] = {
    {"commands", cdl_read_node, offsetof(struct resp_draft, commands), NULL},
    {"on_store_failure", cdl_read_word, offsetof(struct resp_draft, on_store_failure),
     CDL_WORDS("allow", "deny", "local")},
    {"users", cdl_read_node, offsetof(struct resp_draft, users), NULL},
};
const struct cdl_shape cdl_resp_shape = CDL_SHAPE("resp", resp_settings);

struct user_draft {
    struct cdl_slice name, password_file;
    const struct cdl_yaml_node *may;
};

static const struct cdl_setting user_settings[] = {
    {"name", cdl_read_text, offsetof(struct user_draft, name), "the name of a user"},
    {"password_file", cdl_read_text, offsetof(struct user_draft, password_file), "the path of a file"},
    {"may", cdl_read_node, offsetof(struct user_draft, may), NULL},
};
const struct cdl_shape cdl_resp_user_shape = CDL_SHAPE("resp.users", user_settings);

/* Which of `words` (32 at most) the items name, as bits. */
static uint32_t read_set(struct cdl_loader *loader, const struct cdl_yaml_node *node, const char *key,
                         const struct cdl_words *words)
{
    const struct cdl_setting setting = {.key = key, .detail = words};
    struct cdl_items items = {NULL, 0};
    uint32_t set = 0;
    if (!cdl_read_items(loader, node, key, &items))
        return 0;
    const struct cdl_yaml_node *item = items.first;
    for (uint32_t i = 0; i < items.count; i++, item = item->next) {
        unsigned word = 0;
        const size_t errors = loader->report->errors;
        cdl_read_word(loader, item, &setting, &word);
        if (loader->report->errors == errors)
            set |= UINT32_C(1) << word;
    }
    return set;
}

/* ---- commands ---- */

static void read_commands(struct cdl_loader *loader, const struct cdl_yaml_node *node, struct cdl_resp_settings *resp)
{
    enum {
        CL_THROTTLE = 1,
        THROTTLE = 2,
        GCRA = 4
    };
    resp->cl_throttle = true;
    if (node == NULL)
        return;
    uint32_t set = 0;
    if (node->kind != CDL_YAML_SCALAR || !cdl_slice_equal(node->text, CDL_SLICE("none")))
        set = read_set(loader, node, "commands", CDL_WORDS("cl.throttle", "throttle", "gcra"));
    resp->cl_throttle = (set & CL_THROTTLE) != 0;
    resp->throttle = (set & THROTTLE) != 0;
    resp->gcra = (set & GCRA) != 0;
}

/* ---- users ---- */

static void check_user(struct cdl_loader *loader, const struct cdl_yaml_node *node, const struct cdl_resp_user *users,
                       uint32_t index)
{
    const struct cdl_resp_user *user = &users[index];
    if (user->name.length == 0)
        cdl_report_error(loader->report, node->place, "the user has no 'name'");
    if (user->name.length > CDL_POLICY_NAME_MAX)
        cdl_report_error(loader->report, node->place, "the user's name has %zu bytes, and may have %u",
                         user->name.length, CDL_POLICY_NAME_MAX);
    if (user->password_file.length == 0)
        cdl_report_error(loader->report, node->place, "the user has no 'password_file'");
    for (uint32_t i = 0; i < index; i++)
        if (user->name.length > 0 && cdl_slice_equal(users[i].name, user->name))
            cdl_report_error(loader->report, node->place, "the user '%.100s' is there twice; first at line %u",
                             user->name.bytes, users[i].place.line);
}

static void read_user(struct cdl_loader *loader, const struct cdl_yaml_node *node, struct cdl_resp_user *user)
{
    static const char *const rights[] = {"throttle", "take", "peek", "refund", "reset", "explain"};
    struct user_draft draft = {{"", 0}, {"", 0}, NULL};
    cdl_read_map(loader, node, &cdl_resp_user_shape, &draft);
    *user = (struct cdl_resp_user){draft.name, draft.password_file, CDL_RESP_ALL, node->place};
    if (draft.may != NULL)
        user->rights = read_set(loader, draft.may, "may",
                                &(const struct cdl_words){rights, sizeof rights / sizeof rights[0]});
}

static void read_users(struct cdl_loader *loader, const struct cdl_yaml_node *node, struct cdl_resp_settings *resp)
{
    char found[CDL_FOUND_MAX];
    if (node->kind != CDL_YAML_LIST || node->count == 0 || node->count > CDL_RESP_USERS_MAX) {
        if (node->kind != CDL_YAML_BAD)
            cdl_report_error(loader->report, node->place,
                             "'users': expected a list of 1 to %u {name: ..., password_file: ...}, found %s",
                             CDL_RESP_USERS_MAX, cdl_found(node, found));
        return;
    }
    struct cdl_resp_user *users = cdl_arena_allocate(loader->arena, node->count, sizeof *users);
    if (users == NULL)
        return;
    const struct cdl_yaml_node *item = node->first;
    for (uint32_t i = 0; i < node->count; i++, item = item->next) {
        read_user(loader, item, &users[i]);
        if (item->kind == CDL_YAML_MAP && item->count > 0)
            check_user(loader, item, users, i);
    }
    resp->users = users;
    resp->user_count = node->count;
}

void cdl_load_resp(struct cdl_loader *loader, const struct cdl_yaml_node *node)
{
    struct resp_draft draft = {NULL, NULL, CDL_FAILURE_ALLOW};
    struct cdl_resp_settings *resp = &loader->policy->resp;
    if (node != NULL)
        cdl_read_map(loader, node, &cdl_resp_shape, &draft);
    read_commands(loader, draft.commands, resp);
    if (draft.users != NULL)
        read_users(loader, draft.users, resp);
    const struct cdl_limit_rule rule = {
        .name = PER_CALL_NAME,
        .kind = CDL_RULE_PER_CALL,
        .missing_value = {"", 0},
        .cost = {.header = {"", 0}, .standard = 1, .max = UINT64_MAX},
        .on_store_failure = draft.on_store_failure,
    };
    resp->limit = cdl_add_limit_rule(loader, &rule, rule.name, NULL);
}
