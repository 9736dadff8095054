#include "resp_words.h"

#include "support.h"
#include "wire/resp_reply.h"

static void write_elements(struct cdl_writer *writer, const struct cdl_resp *value, const char *name)
{
    struct cdl_slice elements = value->elements;
    cdl_writef(writer, "%s[", name);
    for (size_t i = 0; i < value->count; i++) {
        if (i > 0)
            cdl_write_text(writer, " ");
        resp_words(writer, &elements);
    }
    cdl_write_text(writer, "]");
    assert_int_equal(elements.length, 0);
}

static void write_quoted(struct cdl_writer *writer, const char *before, struct cdl_slice text)
{
    cdl_write_text(writer, before);
    cdl_write(writer, text);
    cdl_write_text(writer, "'");
}

void resp_words(struct cdl_writer *writer, struct cdl_slice *rest)
{
    struct cdl_resp value;
    assert_true(cdl_resp_next(rest, &value));
    switch (value.kind) {
    case CDL_RESP_STRING:
        write_quoted(writer, "'", value.text);
        break;
    case CDL_RESP_ERROR:
        write_quoted(writer, "error '", value.text);
        break;
    case CDL_RESP_INTEGER:
        cdl_write_i64(writer, value.integer);
        break;
    case CDL_RESP_DOUBLE:
        cdl_writef(writer, "double %.*s", CDL_SLICE_ARG(value.text));
        break;
    case CDL_RESP_BOOLEAN:
        cdl_write_text(writer, value.integer ? "true" : "false");
        break;
    case CDL_RESP_BIG:
        cdl_writef(writer, "big %.*s", CDL_SLICE_ARG(value.text));
        break;
    case CDL_RESP_NULL:
        cdl_write_text(writer, "null");
        break;
    case CDL_RESP_ARRAY:
        write_elements(writer, &value, "");
        break;
    case CDL_RESP_MAP:
        write_elements(writer, &value, "map");
        break;
    case CDL_RESP_PUSH:
        write_elements(writer, &value, "push");
        break;
    }
}
