#include <stdarg.h>
#include <stdio.h>

#include "base/near.h"
#include "cli/cli.h"

#define OPTIONS_MAX 32

int cdl_usage_error(const struct cdl_command *command, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "caudal %s: ", command->name);
    vfprintf(stderr, format, arguments);
    fprintf(stderr, "\ntry 'caudal %s --help'\n", command->name);
    va_end(arguments);
    return CDL_EXIT_USAGE;
}

static int unknown_option(const struct cdl_command *command, const char *word, size_t length)
{
    const char *names[OPTIONS_MAX] = {"help"};
    for (size_t i = 0; i < command->option_count; i++)
        names[i + 1] = command->options[i].name;
    const char *near = cdl_nearest((struct cdl_slice){word, length}, names, command->option_count + 1);
    if (near != NULL)
        cdl_usage_error(command, "unknown option '--%.*s'; did you mean '--%s'?", (int)length, word, near);
    else
        cdl_usage_error(command, "unknown option '--%.*s'", (int)length, word);
    return CDL_ARGUMENT_BAD;
}

static int find_option(const struct cdl_command *command, const char *word, size_t length)
{
    for (size_t i = 0; i < command->option_count; i++)
        if (cdl_slice_equal(cdl_slice_of(command->options[i].name), (struct cdl_slice){word, length}))
            return (int)i;
    return unknown_option(command, word, length);
}

/* `word` is what follows "--". */
static int take_option(struct cdl_arguments *arguments, const char *word, const char **value)
{
    const struct cdl_command *command = arguments->command;
    size_t length = strcspn(word, "=");
    int index = find_option(command, word, length);
    if (index < 0)
        return index;
    const struct cdl_option *option = &command->options[index];
    *value = NULL;
    if (option->value == NULL) {
        if (word[length] == '\0')
            return index;
        cdl_usage_error(command, "the option '--%s' takes no value", option->name);
        return CDL_ARGUMENT_BAD;
    }
    if (word[length] == '=')
        *value = word + length + 1;
    else if (arguments->at < arguments->count)
        *value = arguments->words[arguments->at++];
    if (*value != NULL)
        return index;
    cdl_usage_error(command, "the option '--%s' needs a value: %s", option->name, option->value);
    return CDL_ARGUMENT_BAD;
}

int cdl_argument_next(struct cdl_arguments *arguments, const char **value)
{
    if (arguments->at == arguments->count)
        return CDL_ARGUMENT_END;
    const char *word = arguments->words[arguments->at++];
    if (!arguments->only_operands && strcmp(word, "--") == 0) {
        arguments->only_operands = 1;
        return cdl_argument_next(arguments, value);
    }
    if (!arguments->only_operands && strncmp(word, "--", 2) == 0)
        return take_option(arguments, word + 2, value);
    if (!arguments->only_operands && word[0] == '-' && word[1] != '\0') {
        cdl_usage_error(arguments->command, "unknown option '%s'; options are written out, as in --help", word);
        return CDL_ARGUMENT_BAD;
    }
    *value = word;
    return CDL_ARGUMENT_OPERAND;
}

void cdl_print_help(const struct cdl_command *command)
{
    printf("usage: caudal %s [OPTION]... %s\n\n%s\n\n", command->name, command->operands, command->details);
    for (size_t i = 0; i < command->option_count; i++) {
        const struct cdl_option *option = &command->options[i];
        char left[64];
        snprintf(left, sizeof left, "--%s%s%s", option->name, option->value != NULL ? " " : "",
                 option->value != NULL ? option->value : "");
        printf("  %-26s  %s\n", left, option->help);
    }
    printf("  %-26s  %s\n", "--help", "this text");
}

int cdl_exit_printed(const struct cdl_command *command, int status)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return status;
    fprintf(stderr, "caudal %s: standard output cannot be written\n", command->name);
    return CDL_EXIT_ERROR;
}
