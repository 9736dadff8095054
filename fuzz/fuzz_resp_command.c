/* Any bytes as commands of a Redis client.
 *
 * The first byte says how the rest is cut. Each prefix sits in memory of exactly its size, at another place each time. What comes out must
 * be the same as in one piece: the same commands, with the same arguments, and the same end.
 */
#include <stdlib.h>

#include "wire/resp_command.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Not assert: a fuzz target must not lose its checks in a release build. */
static void require(bool condition)
{
    if (!condition)
        abort();
}

static char *copy_of(struct cdl_slice text)
{
    char *copy = malloc(text.length > 0 ? text.length : 1);
    require(copy != NULL);
    if (text.length > 0)
        memcpy(copy, text.bytes, text.length);
    return copy;
}

/* What became of some bytes: the last copy that was read, which the command borrows from. */
struct outcome {
    enum cdl_resp_result result;
    struct cdl_resp_command command;
    char *copy;
    size_t fed;
};

static void check(const struct outcome *outcome)
{
    if (outcome->result != CDL_RESP_READY)
        return;
    require(outcome->command.length > 0 && outcome->command.length <= outcome->fed);
    require(outcome->command.count <= CDL_RESP_ARGUMENTS_MAX);
    for (size_t i = 0; i < outcome->command.count; i++) {
        const struct cdl_slice argument = outcome->command.arguments[i];
        require(argument.bytes >= outcome->copy && argument.length <= CDL_RESP_ARGUMENT_MAX &&
                argument.bytes + argument.length <= outcome->copy + outcome->command.length);
    }
}

/* Feeds bytes until there is an outcome; `step` more each time, and a little varied. */
static void feed(struct cdl_slice text, size_t step, struct outcome *outcome)
{
    struct cdl_resp_reader reader = {0};
    outcome->result = CDL_RESP_MORE;
    outcome->copy = NULL;
    for (outcome->fed = 0; outcome->result == CDL_RESP_MORE && outcome->fed < text.length;) {
        outcome->fed += step + outcome->fed % 3;
        if (outcome->fed > text.length)
            outcome->fed = text.length;
        free(outcome->copy);
        outcome->copy = copy_of(cdl_slice_head(text, outcome->fed));
        outcome->result = cdl_resp_read_command(&reader, outcome->copy, outcome->fed, &outcome->command);
        require((outcome->result == CDL_RESP_BAD) == (reader.error != NULL));
    }
    check(outcome);
}

static void compare(const struct outcome *a, const struct outcome *b)
{
    require(a->result == b->result);
    if (a->result != CDL_RESP_READY)
        return;
    require(a->command.length == b->command.length && a->command.count == b->command.count);
    for (size_t i = 0; i < a->command.count; i++)
        require(cdl_slice_equal(a->command.arguments[i], b->command.arguments[i]));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct outcome whole, cut; /* large */
    if (size < 1)
        return 0;
    struct cdl_slice text = {(const char *)data + 1, size - 1};
    for (bool more = text.length > 0; more;) {
        feed(text, text.length, &whole);
        feed(text, 1 + data[0] % 32, &cut);
        compare(&whole, &cut);
        if (whole.result == CDL_RESP_READY)
            text = cdl_slice_from(text, whole.command.length);
        more = whole.result == CDL_RESP_READY && text.length > 0;
        free(whole.copy);
        free(cut.copy);
    }
    return 0;
}
