/* Secrets that stand in a file of their own. */
#ifndef CDL_BASE_SECRET_FILE_H
#define CDL_BASE_SECRET_FILE_H

#include <sys/types.h>

/* Reads a secret from a file, a pipe if need be, without the line ends that stand after it. Returns its length; `size` when it may be
 * longer than `size` - 1; -1 when the file cannot be read, see errno. The caller forgets the bytes when it is done with them. */
ssize_t cdl_secret_file_read(const char *path, char *bytes, size_t size);

#endif
