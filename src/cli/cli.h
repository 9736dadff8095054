/* The program's subcommands, and how each reads its command line. main.c is the table of them.
 *
 * Exit statuses of all commands: 0 yes or done; 1 no or failed; 2 the command line is wrong. Of take and doctor 1 is an answer, so
 * that whatever kept them from answering is 2 as well. */
#ifndef CDL_CLI_CLI_H
#define CDL_CLI_CLI_H

#include <stddef.h>

#define CDL_EXIT_YES 0
#define CDL_EXIT_NO 1
#define CDL_EXIT_USAGE 2
#define CDL_EXIT_ERROR 2 /* of take and doctor */

struct cdl_option {
    const char *name;  /* without "--" */
    const char *value; /* what it takes, for the help: "FILE"; NULL: nothing */
    const char *help;
};

struct cdl_arguments;

struct cdl_command {
    const char *name;
    const char *operands; /* for the help: "FILE..." */
    const char *summary;  /* a line */
    const char *details;  /* paragraphs, each line at most 80 characters */
    const struct cdl_option *options;
    size_t option_count;
    int (*run)(struct cdl_arguments *arguments);
};

extern const struct cdl_command cdl_command_serve, cdl_command_take, cdl_command_validate, cdl_command_explain,
    cdl_command_replay, cdl_command_simulate, cdl_command_doctor;

/* A command line that is read word by word. Options may stand anywhere, as "--name VALUE" or "--name=VALUE"; what follows "--" is
 * operands only. "--help" never gets here. */
struct cdl_arguments {
    const struct cdl_command *command;
    int count, at;
    char **words;
    int only_operands;
};

enum {
    CDL_ARGUMENT_END = -1,
    CDL_ARGUMENT_OPERAND = -2,
    CDL_ARGUMENT_BAD = -3, /* a message was printed: return CDL_EXIT_USAGE */
};

/* The index of the next option in the command's table, or one of the above. *value is the option's value, or the operand. */
int cdl_argument_next(struct cdl_arguments *arguments, const char **value);

/* Prints "caudal COMMAND: ..." and where to find help, to stderr; returns CDL_EXIT_USAGE. */
__attribute__((format(printf, 2, 3))) int cdl_usage_error(const struct cdl_command *command, const char *format, ...);

void cdl_print_help(const struct cdl_command *command);

/* For commands whose 1 is an answer: the status, or CDL_EXIT_ERROR and a message when what they print cannot be written. */
int cdl_exit_printed(const struct cdl_command *command, int status);

#endif
