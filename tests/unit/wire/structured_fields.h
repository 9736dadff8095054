/* A small reader of structured fields (RFC 9651, 4.2), written from the RFC and not from what writes them: a list of strings
 * with integer parameters, which is all that RateLimit and RateLimit-Policy are. */
#ifndef TESTS_UNIT_WIRE_STRUCTURED_FIELDS_H
#define TESTS_UNIT_WIRE_STRUCTURED_FIELDS_H

#include <stdint.h>

#include "base/slice.h"

#define SF_MEMBERS_MAX 64
#define SF_PARAMETERS_MAX 8
#define SF_STRING_MAX 1024

struct sf_parameter {
    struct cdl_slice key;
    int64_t value;
};

struct sf_member {
    char string[SF_STRING_MAX]; /* unescaped */
    size_t length;
    struct sf_parameter parameters[SF_PARAMETERS_MAX];
    size_t parameter_count;
};

struct sf_list {
    struct sf_member members[SF_MEMBERS_MAX];
    size_t count;
};

static bool sf_take(struct cdl_slice *text, char byte)
{
    if (text->length == 0 || *text->bytes != byte)
        return false;
    *text = cdl_slice_from(*text, 1);
    return true;
}

/* 4.2.5 */
static bool sf_string(struct cdl_slice *text, struct sf_member *member)
{
    if (!sf_take(text, '"'))
        return false;
    while (text->length > 0) {
        if (sf_take(text, '"'))
            return true;
        if (sf_take(text, '\\') && (text->length == 0 || (*text->bytes != '"' && *text->bytes != '\\')))
            return false;
        if (*text->bytes < ' ' || *text->bytes > '~' || member->length == SF_STRING_MAX)
            return false;
        member->string[member->length++] = *text->bytes;
        *text = cdl_slice_from(*text, 1);
    }
    return false;
}

/* 4.2.4, without decimals */
static bool sf_integer(struct cdl_slice *text, int64_t *number)
{
    const bool negative = sf_take(text, '-');
    size_t digits = 0;
    *number = 0;
    for (; text->length > 0 && *text->bytes >= '0' && *text->bytes <= '9'; digits++) {
        if (digits == 15)
            return false;
        *number = *number * 10 + (*text->bytes - '0');
        *text = cdl_slice_from(*text, 1);
    }
    if (negative)
        *number = -*number;
    return digits > 0;
}

/* 4.2.3.3: a letter and what may follow it. */
static bool sf_key(struct cdl_slice *text, struct cdl_slice *key)
{
    *key = cdl_slice_head(*text, 0);
    while (text->length > 0) {
        const char c = *text->bytes;
        const bool first = (c >= 'a' && c <= 'z') || c == '*';
        const bool later = (c >= '0' && c <= '9') || c == '_' || c == '-' || c == '.';
        if (!first && !(later && key->length > 0))
            break;
        key->length++;
        *text = cdl_slice_from(*text, 1);
    }
    return key->length > 0;
}

static bool sf_parameters(struct cdl_slice *text, struct sf_member *member)
{
    while (sf_take(text, ';')) {
        if (member->parameter_count == SF_PARAMETERS_MAX)
            return false;
        struct sf_parameter *parameter = &member->parameters[member->parameter_count++];
        while (sf_take(text, ' '))
            ;
        if (!sf_key(text, &parameter->key) || !sf_take(text, '=') || !sf_integer(text, &parameter->value))
            return false;
    }
    return true;
}

/* 4.2.1: the whole value of a field, or false. */
static bool sf_parse(struct cdl_slice text, struct sf_list *list)
{
    list->count = 0;
    for (;;) {
        if (list->count == SF_MEMBERS_MAX)
            return false;
        struct sf_member *member = &list->members[list->count++];
        member->length = member->parameter_count = 0;
        if (!sf_string(&text, member) || !sf_parameters(&text, member))
            return false;
        while (sf_take(&text, ' ') || sf_take(&text, '\t'))
            ;
        if (text.length == 0)
            return true;
        if (!sf_take(&text, ','))
            return false;
        while (sf_take(&text, ' ') || sf_take(&text, '\t'))
            ;
    }
}

/* The value of a parameter, or -1. */
static int64_t sf_parameter(const struct sf_member *member, const char *key)
{
    for (size_t i = 0; i < member->parameter_count; i++)
        if (cdl_slice_equal(member->parameters[i].key, cdl_slice_of(key)))
            return member->parameters[i].value;
    return -1;
}

static struct cdl_slice sf_name(const struct sf_member *member)
{
    return (struct cdl_slice){member->string, member->length};
}

/* The value of a field among lines that each end in CRLF; its bytes are NULL when it is absent. */
static struct cdl_slice sf_field(struct cdl_slice lines, const char *name)
{
    while (lines.length > 0) {
        const char *end = memchr(lines.bytes, '\r', lines.length);
        const size_t length = end == NULL ? lines.length : (size_t)(end - lines.bytes);
        const size_t name_length = strlen(name);
        if (length > name_length + 1 && memcmp(lines.bytes, name, name_length) == 0 &&
            memcmp(lines.bytes + name_length, ": ", 2) == 0)
            return (struct cdl_slice){lines.bytes + name_length + 2, length - name_length - 2};
        lines = cdl_slice_from(lines, length + 2 < lines.length ? length + 2 : lines.length);
    }
    return (struct cdl_slice){NULL, 0};
}

#endif
