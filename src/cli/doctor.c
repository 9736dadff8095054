/* caudal doctor: can limits rely on this Redis or Valkey? What is asked and how it is judged is in store/redis/checkup.h. */
#include <jansson.h>
#include <stdio.h>

#include "base/memory.h"
#include "cli/cli.h"
#include "cli/policy_file.h"
#include "cli/store_url.h"
#include "store/redis/checkup.h"
#include "store/redis/link.h"

enum {
    STORE,
    POLICY,
    JSON,
};

static const struct cdl_option options[] = {
    [STORE] = {"store", "URL", "a Redis or Valkey; default: $CAUDAL_STORE, the policy's, or local"},
    [POLICY] = {"policy", "FILE", "look at the store of this policy"},
    [JSON] = {"json", NULL, "answer in JSON"},
};

struct doctor {
    const struct cdl_command *command;
    const char *store_url, *policy_file;
    bool json;
    struct cdl_cli_store where;
    struct cdl_policy *policy; /* NULL: none; holds texts of `where` */
    int64_t deadline_ns;       /* of servers */
    struct cdl_redis_config config;
    struct cdl_redis_tls *tls;
    struct cdl_checkup checkup;
};

static int read_arguments(struct doctor *doctor, struct cdl_arguments *arguments)
{
    const char *value;
    int kind;
    while ((kind = cdl_argument_next(arguments, &value)) != CDL_ARGUMENT_END) {
        switch (kind) {
        case CDL_ARGUMENT_BAD:
            return CDL_EXIT_USAGE;
        case CDL_ARGUMENT_OPERAND:
            return cdl_usage_error(doctor->command, "no operands, not '%s'; the store is named with --store", value);
        case STORE:
            doctor->store_url = value;
            break;
        case POLICY:
            doctor->policy_file = value;
            break;
        default:
            doctor->json = true;
            break;
        }
    }
    return 0;
}

/* ---- looking ---- */

static int fail(const struct doctor *doctor, const char *why)
{
    fprintf(stderr, "caudal %s: the store of %s, %s: %s\n", doctor->command->name, doctor->where.from,
            doctor->where.shown, why);
    return CDL_EXIT_ERROR;
}

static void try_script(struct doctor *doctor)
{
    struct caudal_problem problem;
    struct caudal_store *store;
    const struct caudal_store_options store_options = {
        .size = sizeof store_options,
        .secret = doctor->where.secret,
        .secret_length = doctor->where.secret_length,
        .deadline_ns = doctor->where.deadline_ns,
    };
    if (caudal_store_open(doctor->where.url, &store_options, &store, &problem) != CAUDAL_OK) {
        cdl_checkup_unanswered(&doctor->checkup, "", "script", CDL_STORE_NONE, cdl_slice_of(problem.message));
        return;
    }
    cdl_checkup_takes(&doctor->checkup, store, doctor->deadline_ns);
    caudal_store_close(store);
}

/* What servers wait for: what the policy says, else the URL. */
static int64_t deadline_of_servers(const struct doctor *doctor)
{
    const struct cdl_policy *policy = doctor->policy;
    return policy != NULL && policy->store.deadline_ns > 0 ? policy->store.deadline_ns : doctor->config.deadline_ns;
}

static int examine(struct doctor *doctor)
{
    struct caudal_problem problem;
    if (cdl_redis_config_read(doctor->where.url, cdl_allocator_default(), &doctor->config, &problem) != CAUDAL_OK)
        return fail(doctor, problem.message);
    doctor->deadline_ns = deadline_of_servers(doctor);
    if (doctor->config.tls) {
        doctor->tls = cdl_redis_tls_open(&doctor->config, &problem);
        if (doctor->tls == NULL)
            return fail(doctor, problem.message);
    }
    cdl_checkup_transport(&doctor->checkup, &doctor->config);
    if (!cdl_checkup_servers(&doctor->checkup, &doctor->config, doctor->tls))
        return CDL_EXIT_ERROR;
    try_script(doctor);
    return cdl_checkup_worst(&doctor->checkup) == CDL_CHECK_FAIL ? CDL_EXIT_NO : CDL_EXIT_YES;
}

static int find_and_examine(struct doctor *doctor)
{
    static struct cdl_report report; /* large */
    if (doctor->policy_file != NULL)
        doctor->policy = cdl_cli_load_policy(doctor->policy_file, false, &report);
    if (doctor->policy_file != NULL && doctor->policy == NULL)
        return CDL_EXIT_ERROR;
    if (!cdl_cli_find_store(doctor->command->name, doctor->store_url, doctor->policy, &doctor->where))
        return CDL_EXIT_ERROR;
    const int status = examine(doctor);
    explicit_bzero(doctor->where.secret, sizeof doctor->where.secret);
    cdl_redis_tls_close(doctor->tls);
    cdl_redis_config_free(&doctor->config);
    return status;
}

/* ---- telling ---- */

static void print_text(const struct doctor *doctor)
{
    printf("%s, of %s\n", doctor->where.shown, doctor->where.from);
    for (size_t i = 0; i < doctor->checkup.count; i++) {
        const struct cdl_check *check = &doctor->checkup.checks[i];
        printf("%-4s  %-11s  %s%s%s%s%s\n", cdl_check_level_name(check->level), check->subject, check->place,
               check->place[0] != '\0' ? ": " : "", check->found, check->advice != NULL ? ". Advice: " : "",
               check->advice != NULL ? check->advice : "");
    }
}

/* What servers say may be of any bytes, and JSON is UTF-8: jansson refuses the rest, and then it is left out. */
static json_t *text_json(const char *text)
{
    json_t *string = text[0] == '\0' ? NULL : json_string(text);
    return string != NULL ? string : json_null();
}

static void print_json(const struct doctor *doctor)
{
    json_t *checks = json_array();
    for (size_t i = 0; i < doctor->checkup.count; i++) {
        const struct cdl_check *check = &doctor->checkup.checks[i];
        json_array_append_new(checks, json_pack("{s:s, s:s, s:o, s:o, s:o}", "level",
                                                cdl_check_level_name(check->level), "subject", check->subject, "server",
                                                text_json(check->place), "found", text_json(check->found), "advice",
                                                text_json(check->advice != NULL ? check->advice : "")));
    }
    json_t *root = json_pack("{s:s, s:s, s:o}", "store", doctor->where.shown, "level",
                             cdl_check_level_name(cdl_checkup_worst(&doctor->checkup)), "checks", checks);
    json_dumpf(root, stdout, JSON_INDENT(2));
    json_decref(root);
    putchar('\n');
}

static int run(struct cdl_arguments *arguments)
{
    static struct doctor doctor; /* large */
    doctor.command = arguments->command;
    int status = read_arguments(&doctor, arguments);
    if (status == 0)
        status = find_and_examine(&doctor);
    if (doctor.checkup.count > 0) {
        if (doctor.json)
            print_json(&doctor);
        else
            print_text(&doctor);
        status = cdl_exit_printed(doctor.command, status);
    }
    cdl_policy_free(doctor.policy);
    return status;
}

const struct cdl_command cdl_command_doctor = {
    .name = "doctor",
    .operands = "",
    .summary = "say whether limits can rely on a Redis or Valkey",
    .details = "Looks at each server of a store and prints a line for each thing: ok, warn or\n"
               "fail, what was found, and advice. It asks INFO and TIME, and takes from buckets of\n"
               "its own; nothing is changed. The exit status is 0 when nothing fails, 1 when\n"
               "something does, and 2 when no server answers or the command line is wrong.\n"
               "Without any URL the store is redis://127.0.0.1:6379.",
    .options = options,
    .option_count = sizeof options / sizeof options[0],
    .run = run,
};
