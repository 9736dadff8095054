#include "store/url.h"

#include <stdbool.h>
#include <string.h>

#include "base/problem.h"

#define NUMBERS_MAX 32

/* One decimal number that fills [text, text + length). */
static bool read_number(const char *text, size_t length, uint64_t *value)
{
    uint64_t number = 0;
    for (size_t i = 0; i < length; i++)
        if (text[i] < '0' || text[i] > '9' || __builtin_mul_overflow(number, UINT64_C(10), &number) ||
            __builtin_add_overflow(number, (uint64_t)(text[i] - '0'), &number))
            return false;
    *value = number;
    return length > 0;
}

static const struct cdl_url_number *by_name(const struct cdl_url_number *numbers, size_t count, const char *name,
                                            size_t length)
{
    for (size_t i = 0; i < count; i++)
        if (strlen(numbers[i].name) == length && memcmp(numbers[i].name, name, length) == 0)
            return &numbers[i];
    return NULL;
}

int cdl_url_numbers(const char *parameters, size_t position, const struct cdl_url_number *numbers, size_t count,
                    struct caudal_problem *problem)
{
    bool seen[NUMBERS_MAX] = {false};
    for (const char *at = parameters; *at != '\0';) {
        const size_t length = strcspn(at, "&"), name_length = strcspn(at, "=&");
        const size_t where = position + (size_t)(at - parameters);
        const struct cdl_url_number *number = by_name(numbers, count, at, name_length);
        if (number == NULL)
            return cdl_problem(problem, CAUDAL_ERR_SYNTAX, where, "unknown parameter '%.*s'",
                               (int)(name_length < 40 ? name_length : 40), at);
        if (seen[number - numbers])
            return cdl_problem(problem, CAUDAL_ERR_SYNTAX, where, "parameter '%s' is given twice", number->name);
        seen[number - numbers] = true;
        const char *text = at + name_length + (name_length < length);
        uint64_t value;
        if (!read_number(text, length - (size_t)(text - at), &value) || value < number->least || value > number->most)
            return cdl_problem(problem, CAUDAL_ERR_SYNTAX, where + (size_t)(text - at),
                               "parameter '%s' wants a whole number from %llu to %llu", number->name,
                               (unsigned long long)number->least, (unsigned long long)number->most);
        *number->value = value;
        at += length + (at[length] == '&');
    }
    return CAUDAL_OK;
}
