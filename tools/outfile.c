/* outfile.c - see outfile.h. */
#include "outfile.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Allocated; NULL with errno: no memory. */
static char *part_path(const char *path)
{
    static const char suffix[] = ".part";
    size_t n = strlen(path);
    char *part = malloc(n + sizeof(suffix));
    if (!part) return NULL;
    memcpy(part, path, n);
    memcpy(part + n, suffix, sizeof(suffix));
    return part;
}

/* Writes the bytes beside the place, and then there; none: only tries whether that could be done. */
static bool write_file(const char *path, const char *text, size_t bytes)
{
    char *part = part_path(path);
    FILE *to = part ? fopen(part, "we") : NULL;
    bool good = to && fwrite(text, 1, bytes, to) == bytes;
    int saved;
    if (to) good = !fclose(to) && good;
    if (good && bytes) good = !rename(part, path);
    saved = errno;
    if (to && !(good && bytes)) unlink(part);
    free(part);
    errno = saved;
    return good;
}

static bool write_stdout(const char *text, size_t bytes)
{
    return fwrite(text, 1, bytes, stdout) == bytes && !fflush(stdout);
}

bool outfile_open(struct outfile *file, const char *path)
{
    *file = (struct outfile){NULL, NULL, NULL, 0};
    if (strcmp(path, "-") != 0 && !write_file(path, "", 0)) return false;
    file->stream = open_memstream(&file->text, &file->bytes);
    if (!file->stream) return false;
    file->path = path;
    return true;
}

bool outfile_keep(struct outfile *file)
{
    bool good = !ferror(file->stream);
    int saved;
    good = !fclose(file->stream) && good;
    if (good)
        good = strcmp(file->path, "-") ? write_file(file->path, file->text, file->bytes)
                                       : write_stdout(file->text, file->bytes);
    saved = errno;
    free(file->text);
    file->path = NULL;
    errno = saved;
    return good;
}

void outfile_drop(struct outfile *file)
{
    if (!file->path) return;
    fclose(file->stream);
    free(file->text);
    file->path = NULL;
}
