#include "base/problem.h"

#include <stdarg.h>
#include <stdio.h>

int cdl_problem(struct caudal_problem *problem, int code, size_t position, const char *format, ...)
{
    if (problem == NULL)
        return code;
    problem->code = code;
    problem->position = position;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(problem->message, sizeof problem->message, format, arguments);
    va_end(arguments);
    for (char *c = problem->message; *c != '\0'; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f)
            *c = '?';
    return code;
}
