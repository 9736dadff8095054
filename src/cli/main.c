/* caudal: one program, several commands. This file is the table of them. */
#include <stdio.h>

#include "base/near.h"
#include "caudal/status.h"
#include "cli/cli.h"

static const struct cdl_command *const commands[] = {
    &cdl_command_serve,  &cdl_command_take,     &cdl_command_validate, &cdl_command_explain,
    &cdl_command_replay, &cdl_command_simulate, &cdl_command_doctor,
};
#define COMMAND_COUNT (sizeof commands / sizeof commands[0])

static void print_usage(FILE *to)
{
    fprintf(to, "usage: caudal COMMAND [OPTION]... [OPERAND]...\n\nAn exact rate limiter. Commands:\n\n");
    for (size_t i = 0; i < COMMAND_COUNT; i++)
        fprintf(to, "  %-10s  %s\n", commands[i]->name, commands[i]->summary);
    fprintf(to, "\n'caudal COMMAND --help' tells more about one; 'caudal --version' tells which caudal this is.\n");
}

static const struct cdl_command *find_command(const char *name)
{
    const char *names[COMMAND_COUNT];
    for (size_t i = 0; i < COMMAND_COUNT; i++) {
        names[i] = commands[i]->name;
        if (strcmp(name, names[i]) == 0)
            return commands[i];
    }
    const char *near = cdl_nearest(cdl_slice_of(name), names, COMMAND_COUNT);
    const char *kind = name[0] == '-' ? "option" : "command";
    if (near != NULL)
        fprintf(stderr, "caudal: unknown %s '%s'; did you mean '%s'?\n", kind, name, near);
    else
        fprintf(stderr, "caudal: unknown %s '%s'\n", kind, name);
    fprintf(stderr, "try 'caudal --help'\n");
    return NULL;
}

static int print_help_of(const char *name)
{
    if (name == NULL) {
        print_usage(stdout);
        return CDL_EXIT_YES;
    }
    const struct cdl_command *command = find_command(name);
    if (command == NULL)
        return CDL_EXIT_USAGE;
    cdl_print_help(command);
    return CDL_EXIT_YES;
}

/* Help is help wherever it is asked for, but after "--". */
static bool asks_for_help(int count, char **words)
{
    for (int i = 0; i < count && strcmp(words[i], "--") != 0; i++)
        if (strcmp(words[i], "--help") == 0 || strcmp(words[i], "-h") == 0)
            return true;
    return false;
}

static int run(int count, char **words)
{
    if (count == 0) {
        print_usage(stderr);
        return CDL_EXIT_USAGE;
    }
    if (strcmp(words[0], "--version") == 0) {
        printf("caudal %s\n", caudal_version());
        return CDL_EXIT_YES;
    }
    if (strcmp(words[0], "--help") == 0 || strcmp(words[0], "-h") == 0 || strcmp(words[0], "help") == 0)
        return print_help_of(count > 1 ? words[1] : NULL);
    const struct cdl_command *command = find_command(words[0]);
    if (command == NULL)
        return CDL_EXIT_USAGE;
    if (asks_for_help(count - 1, words + 1)) {
        cdl_print_help(command);
        return CDL_EXIT_YES;
    }
    struct cdl_arguments arguments = {.command = command, .count = count - 1, .words = words + 1};
    return command->run(&arguments);
}

int main(int argc, char **argv)
{
    int status = run(argc > 0 ? argc - 1 : 0, argv + 1);
    /* An answer that could not be written was not given. */
    if ((fflush(stdout) != 0 || ferror(stdout)) && status == CDL_EXIT_YES) {
        perror("caudal: standard output");
        status = CDL_EXIT_NO;
    }
    return status;
}
