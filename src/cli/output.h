/* A file that a command writes whole or not at all: what is written goes to a temporary file beside it, "NAME.XXXXXX", which takes its name
 * and its place when it is complete. That the folder is there and can be written to shows when it is opened, before a long work begins.
 *
 * "-" is standard output. What exists and is no regular file (a pipe, /dev/stderr) is written to as it is; behind a link the file that it
 * names is replaced, not the link. */
#ifndef CDL_CLI_OUTPUT_H
#define CDL_CLI_OUTPUT_H

#include <stdbool.h>
#include <stdio.h>

#include "cli/cli.h"

struct cdl_output {
    const char *path;         /* NULL: nothing is to be written */
    FILE *stream;             /* NULL: it is not open */
    char *target, *temporary; /* NULL: `stream` is no temporary file */
};

bool cdl_output_is_standard(const struct cdl_output *output);

/* Whether both paths name one file, whatever the spelling; also one that is still to be made. What is no regular file is never the same:
 * a pipe may be written to twice. */
bool cdl_output_same_file(const char *a, const char *b);

/* Each prints what is wrong, named by `option`, and returns false then. Without a path they do nothing. */
bool cdl_output_open(struct cdl_output *output, const struct cdl_command *command, const char *option);
bool cdl_output_finish(struct cdl_output *output, const struct cdl_command *command, const char *option);

/* Leaves nothing behind. Of an output that is finished or was never opened it does nothing. */
void cdl_output_discard(struct cdl_output *output);

/* Removes all temporary files; for the handler of a signal that ends the program. */
void cdl_outputs_abandon(void);

/* Makes the folder unless it is there. False, and a message, when that cannot be done. */
bool cdl_output_folder(const char *path, const struct cdl_command *command, const char *option);

#endif
