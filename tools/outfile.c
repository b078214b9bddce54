/* outfile.c - see outfile.h. */
#include "outfile.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char suffix[] = ".part";

static bool is_stdout(const struct outfile *file)
{
    return !strcmp(file->path, "-");
}

/* Allocated; NULL with errno: no memory. */
static char *part_path(const struct outfile *file)
{
    size_t n = strlen(file->path);
    char *part = malloc(n + sizeof(suffix));
    if (!part) return NULL;
    memcpy(part, file->path, n);
    memcpy(part + n, suffix, sizeof(suffix));
    return part;
}

bool outfile_open(struct outfile *file, const char *path)
{
    char *part;
    file->path = path;
    file->stream = stdout;
    if (is_stdout(file)) return true;
    part = part_path(file);
    file->stream = part ? fopen(part, "we") : NULL;
    free(part);
    if (!file->stream) file->path = NULL;
    return file->path;
}

bool outfile_keep(struct outfile *file)
{
    bool good = !ferror(file->stream) && !fflush(file->stream);
    char *part;
    int saved;
    if (is_stdout(file)) {
        file->path = NULL;
        return good;
    }
    part = part_path(file);
    good = !fclose(file->stream) && good && part && !rename(part, file->path);
    saved = errno;
    if (!good && part) unlink(part);
    free(part);
    file->path = NULL;
    errno = saved;
    return good;
}

void outfile_drop(struct outfile *file)
{
    char *part;
    if (!file->path) return;
    part = part_path(file);
    if (!is_stdout(file)) fclose(file->stream);
    if (!is_stdout(file) && part) unlink(part);
    free(part);
    file->path = NULL;
}
