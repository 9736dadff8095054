#include "policy/report.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

void cdl_report_clear(struct cdl_report *report)
{
    report->count = report->errors = report->warnings = 0;
    report->source = 0;
    report->file[0] = '\0';
}

void cdl_report_turn_to(struct cdl_report *report, uint32_t source, struct cdl_slice name)
{
    const size_t room = sizeof report->file - 1;
    report->source = source;
    if (source == 0)
        report->file[0] = '\0';
    else if (name.length <= room)
        snprintf(report->file, sizeof report->file, "%.*s", CDL_SLICE_ARG(name));
    else
        snprintf(report->file, sizeof report->file, "...%.*s",
                 CDL_SLICE_ARG(cdl_slice_from(name, name.length - room + 3)));
}

/* Findings quote what stands in the file, which may be anything: control characters must not reach a terminal. */
static void make_printable(char *text)
{
    for (; *text != '\0'; text++)
        if ((unsigned char)*text < 0x20 || *text == 0x7f)
            *text = '?';
}

__attribute__((format(printf, 4, 0))) static void add(struct cdl_report *report, bool warning, struct cdl_place place,
                                                      const char *format, va_list arguments)
{
    size_t *counted = warning ? &report->warnings : &report->errors;
    if ((*counted)++ >= CDL_FINDINGS_MAX)
        return;
    struct cdl_finding *finding = &report->findings[report->count++];
    finding->warning = warning;
    finding->place = place;
    finding->source = report->source;
    memcpy(finding->file, report->file, sizeof finding->file);
    make_printable(finding->file);
    vsnprintf(finding->text, sizeof finding->text, format, arguments);
    make_printable(finding->text);
}

void cdl_report_error(struct cdl_report *report, struct cdl_place place, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    add(report, false, place, format, arguments);
    va_end(arguments);
}

void cdl_report_warning(struct cdl_report *report, struct cdl_place place, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    add(report, true, place, format, arguments);
    va_end(arguments);
}

static int by_place(const void *left, const void *right)
{
    const struct cdl_finding *a = left, *b = right;
    if (a->source != b->source)
        return a->source < b->source ? -1 : 1;
    if (a->place.line != b->place.line)
        return a->place.line < b->place.line ? -1 : 1;
    if (a->place.column != b->place.column)
        return a->place.column < b->place.column ? -1 : 1;
    if (a->warning != b->warning)
        return a->warning ? 1 : -1;
    return strcmp(a->text, b->text);
}

void cdl_report_sort(struct cdl_report *report)
{
    qsort(report->findings, report->count, sizeof report->findings[0], by_place);
}

int cdl_finding_format(const struct cdl_finding *finding, const char *file, char *buffer, size_t size)
{
    const char *severity = finding->warning ? "warning: " : "";
    if (finding->source != 0)
        file = finding->file;
    if (finding->place.line == 0)
        return snprintf(buffer, size, "%s: %s%s", file, severity, finding->text);
    return snprintf(buffer, size, "%s:%u:%u: %s%s", file, finding->place.line, finding->place.column, severity,
                    finding->text);
}
