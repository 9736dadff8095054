#include "policy/source.h"

#include <errno.h>
#include <stdio.h>

#include "base/memory.h"
#include "policy/yaml.h"

#define SIZE (CDL_YAML_BYTES_MAX + 1)

/* Not by its size, which a pipe does not have and which may change meanwhile. */
bool cdl_source_read(const char *path, const struct caudal_allocator *allocator, struct cdl_slice *text,
                     const char **why)
{
    *text = (struct cdl_slice){NULL, 0};
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        *why = strerrordesc_np(errno);
        return false;
    }
    char *bytes = cdl_allocate(allocator, SIZE, 1, 16);
    const size_t length = bytes != NULL ? fread(bytes, 1, SIZE, file) : 0;
    const bool good = bytes != NULL && !ferror(file);
    *why = bytes == NULL ? "memory is short" : strerrordesc_np(errno);
    fclose(file);
    *text = (struct cdl_slice){bytes, length};
    if (good)
        return true;
    cdl_source_free(allocator, *text);
    return false;
}

void cdl_source_free(const struct caudal_allocator *allocator, struct cdl_slice text)
{
    cdl_release(allocator, (void *)(uintptr_t)text.bytes, SIZE, 1);
}
