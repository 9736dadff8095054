/* caudal validate: is a policy right, and is it wise? */
#include <stdio.h>

#include "cli/cli.h"
#include "cli/policy_file.h"

struct cdl_policy *cdl_cli_load_policy(const char *path, bool with_warnings, struct cdl_report *report)
{
    struct cdl_policy *policy = cdl_policy_load_file(path, NULL, report);
    size_t errors = 0, warnings = 0;
    for (size_t i = 0; i < report->count; i++) {
        char line[CDL_FINDING_LINE_MAX + 4096]; /* a path may be so long */
        const struct cdl_finding *finding = &report->findings[i];
        if (finding->warning && !with_warnings)
            continue;
        *(finding->warning ? &warnings : &errors) += 1;
        cdl_finding_format(finding, path, line, sizeof line);
        fprintf(stderr, "%s\n", line);
    }
    if (report->errors > errors)
        fprintf(stderr, "%s: %zu errors more\n", path, report->errors - errors);
    if (with_warnings && report->warnings > warnings)
        fprintf(stderr, "%s: %zu warnings more\n", path, report->warnings - warnings);
    return policy;
}

static const struct cdl_option options[] = {
    {"strict", NULL, "warnings are errors"},
};

static bool validate(const char *path, bool strict)
{
    static struct cdl_report report; /* large */
    struct cdl_policy *policy = cdl_cli_load_policy(path, true, &report);
    bool good = policy != NULL && !(strict && report.warnings > 0);
    if (good) {
        const uint32_t limits = cdl_policy_named_limits(policy);
        printf("%s: ok, %u limit%s\n", path, limits, limits == 1 ? "" : "s");
    }
    cdl_policy_free(policy);
    return good;
}

static int run(struct cdl_arguments *arguments)
{
    const char *value;
    int kind, files = 0;
    bool strict = false, good = true;
    struct cdl_arguments again = *arguments;
    while ((kind = cdl_argument_next(arguments, &value)) != CDL_ARGUMENT_END) {
        if (kind == CDL_ARGUMENT_BAD)
            return CDL_EXIT_USAGE;
        if (kind == CDL_ARGUMENT_OPERAND)
            files++;
        else
            strict = true;
    }
    if (files == 0)
        return cdl_usage_error(arguments->command, "which file? None was given");
    while ((kind = cdl_argument_next(&again, &value)) != CDL_ARGUMENT_END)
        if (kind == CDL_ARGUMENT_OPERAND)
            good = validate(value, strict) && good;
    return good ? CDL_EXIT_YES : CDL_EXIT_NO;
}

const struct cdl_command cdl_command_validate = {
    .name = "validate",
    .operands = "FILE...",
    .summary = "check policy files",
    .details = "Reads policy files as the server would. Errors go to stderr, all of them at\n"
               "once, as FILE:LINE:COLUMN: what is wrong; so do warnings of what is legal and\n"
               "probably not meant. For each good file \"FILE: ok, N limits\" goes to stdout.\n"
               "The exit status is 0 when all files are good and 1 when one is not.",
    .options = options,
    .option_count = sizeof options / sizeof options[0],
    .run = run,
};
