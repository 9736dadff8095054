#include "base/secret_file.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

/* read(2) until the end or until `size` bytes are there. */
static ssize_t read_all(int fd, char *bytes, size_t size)
{
    size_t length = 0;
    while (length < size) {
        const ssize_t got = read(fd, bytes + length, size - length);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return -1;
        if (got == 0)
            break;
        length += (size_t)got;
    }
    return (ssize_t)length;
}

ssize_t cdl_secret_file_read(const char *path, char *bytes, size_t size)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    ssize_t length = read_all(fd, bytes, size);
    const int error = errno;
    close(fd);
    errno = error;
    if (length == (ssize_t)size)
        return length;
    while (length > 0 && (bytes[length - 1] == '\n' || bytes[length - 1] == '\r'))
        length--;
    return length;
}
