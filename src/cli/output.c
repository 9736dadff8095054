#include "cli/output.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define TEMPORARY_SUFFIX ".XXXXXX"
#define TEMPORARIES_MAX 8u

/* What a signal would leave behind. */
static char *volatile temporaries[TEMPORARIES_MAX];

/* `what` may be empty. */
static bool fail(const struct cdl_command *command, const char *option, const char *path, const char *what)
{
    fprintf(stderr, "caudal %s: --%s: %s: %s%s\n", command->name, option, path, what, strerrordesc_np(errno));
    return false;
}

bool cdl_output_is_standard(const struct cdl_output *output)
{
    return output->path != NULL && strcmp(output->path, "-") == 0;
}

/* The folder that a path's last name is in. */
static bool find_folder(const char *path, const char *name, struct stat *folder)
{
    const size_t length = (size_t)(name - path);
    char *text = length == 0 ? strdup(".") : strndup(path, length);
    const bool is_found = text != NULL && stat(text, folder) == 0;
    free(text);
    return is_found;
}

static const char *last_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash == NULL ? path : slash + 1;
}

static bool is_same_inode(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

bool cdl_output_same_file(const char *a, const char *b)
{
    struct stat first, second;
    const char *name = last_name(a), *other = last_name(b);
    const bool exists = stat(a, &first) == 0;
    if (exists != (stat(b, &second) == 0))
        return false;
    if (exists)
        return S_ISREG(first.st_mode) && is_same_inode(&first, &second);
    return strcmp(name, other) == 0 && find_folder(a, name, &first) && find_folder(b, other, &second) &&
           is_same_inode(&first, &second);
}

/* mkstemp makes files for their owner alone; this one is to be as any other. */
static void give_usual_rights(int fd)
{
    const mode_t mask = umask(0);
    umask(mask);
    (void)fchmod(fd, 0666 & ~mask);
}

/* One name in the place of another; NULL: of none. */
static void remember(char *name, char *instead_of)
{
    for (unsigned i = 0; i < TEMPORARIES_MAX; i++)
        if (temporaries[i] == instead_of) {
            temporaries[i] = name;
            return;
        }
}

void cdl_outputs_abandon(void)
{
    for (unsigned i = 0; i < TEMPORARIES_MAX; i++)
        if (temporaries[i] != NULL)
            (void)unlink(temporaries[i]);
}

static bool open_temporary(struct cdl_output *output)
{
    const size_t size = strlen(output->target) + sizeof TEMPORARY_SUFFIX;
    output->temporary = malloc(size);
    if (output->temporary == NULL)
        return false;
    snprintf(output->temporary, size, "%s" TEMPORARY_SUFFIX, output->target);
    const int fd = mkstemp(output->temporary);
    if (fd < 0) {
        free(output->temporary);
        output->temporary = NULL;
        return false;
    }
    remember(output->temporary, NULL);
    give_usual_rights(fd);
    output->stream = fdopen(fd, "w");
    if (output->stream == NULL)
        close(fd);
    return output->stream != NULL;
}

/* "there is no folder 'x': " where that is what is wrong. */
static void explain_missing(const char *path, char *text, size_t size)
{
    const char *slash = strrchr(path, '/');
    const int length = slash == NULL ? 0 : slash == path ? 1 : (int)(slash - path);
    text[0] = '\0';
    if (errno == ENOENT && slash != NULL)
        snprintf(text, size, "there is no folder '%.*s': ", length, path);
}

bool cdl_output_open(struct cdl_output *output, const struct cdl_command *command, const char *option)
{
    if (output->path == NULL)
        return true;
    if (cdl_output_is_standard(output)) {
        output->stream = stdout;
        return true;
    }
    struct stat there;
    const bool exists = stat(output->path, &there) == 0;
    if (exists && S_ISDIR(there.st_mode)) {
        errno = EISDIR;
    } else if (exists && !S_ISREG(there.st_mode)) {
        output->stream = fopen(output->path, "w");
    } else {
        output->target = exists ? realpath(output->path, NULL) : strdup(output->path);
        if (output->target != NULL && open_temporary(output))
            return true;
    }
    if (output->stream != NULL)
        return true;
    char what[512];
    explain_missing(output->path, what, sizeof what);
    fail(command, option, output->path, what);
    cdl_output_discard(output);
    return false;
}

static void forget(struct cdl_output *output)
{
    if (output->temporary != NULL)
        remember(NULL, output->temporary);
    free(output->target);
    free(output->temporary);
    output->target = output->temporary = NULL;
    output->stream = NULL;
}

bool cdl_output_finish(struct cdl_output *output, const struct cdl_command *command, const char *option)
{
    if (output->stream == NULL)
        return true;
    bool good = fflush(output->stream) == 0 && !ferror(output->stream);
    if (output->stream != stdout && fclose(output->stream) != 0)
        good = false;
    output->stream = NULL;
    if (good && output->temporary != NULL)
        good = rename(output->temporary, output->target) == 0;
    if (!good) {
        fail(command, option, output->path, "");
        cdl_output_discard(output);
    }
    forget(output);
    return good;
}

void cdl_output_discard(struct cdl_output *output)
{
    if (output->stream != NULL && output->stream != stdout)
        fclose(output->stream);
    if (output->temporary != NULL)
        unlink(output->temporary);
    forget(output);
}

bool cdl_output_folder(const char *path, const struct cdl_command *command, const char *option)
{
    struct stat there;
    if (path == NULL || mkdir(path, 0777) == 0)
        return true;
    if (errno == EEXIST && stat(path, &there) == 0) {
        if (S_ISDIR(there.st_mode) && access(path, W_OK | X_OK) == 0)
            return true;
        errno = S_ISDIR(there.st_mode) ? EACCES : ENOTDIR;
    }
    char what[512];
    explain_missing(path, what, sizeof what);
    return fail(command, option, path, what);
}
