/* tuning.c - see tuning.h.  Reading trusts nothing: owner, mode, length and every word are checked before
 * the first limit counts. */
#include "tuning.h"
#include "number.h"
#include "status.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>
#if defined(__x86_64__) || defined(__i386__)
#include <cpuid.h>
#endif

enum { FILE_MOST = 65536, LINES_MOST = 1024, NAME_BYTES = 64, VERSION = 1 };

/* ---- where it is ---- */

static void processor_words(char words[NAME_BYTES])
{
    struct utsname host;
#if defined(__x86_64__) || defined(__i386__)
    unsigned brand[12];
    bool told = true;
    for (unsigned i = 0; i < 3 && told; i++)
        told = __get_cpuid(0x80000002U + i, &brand[4 * i], &brand[4 * i + 1], &brand[4 * i + 2],
                           &brand[4 * i + 3]);
    if (told) {
        snprintf(words, NAME_BYTES, "%.48s", (const char *)brand);
        return;
    }
#endif
    snprintf(words, NAME_BYTES, "%.48s", uname(&host) == 0 ? host.machine : "unknown");
}

/* "Intel(R) Xeon(R) Gold 6130 CPU @ 2.10GHz" -> "intel-r-xeon-r-gold-6130-cpu-2-10ghz" */
static void processor_name(char name[NAME_BYTES])
{
    char words[NAME_BYTES];
    size_t n = 0;
    processor_words(words);
    for (const char *at = words; *at; at++) {
        if (isalnum((unsigned char)*at))
            name[n++] = (char)tolower((unsigned char)*at);
        else if (n && name[n - 1] != '-')
            name[n++] = '-';
    }
    while (n && name[n - 1] == '-') n--;
    name[n] = 0;
}

/* XDG_CACHE_HOME counts only if it is absolute: so its specification has it. */
static bool find_dir(char dir[WEFT__TUNING_PATH_BYTES])
{
    const char *cache = secure_getenv("XDG_CACHE_HOME"), *home = secure_getenv("HOME");
    int n;
    if (cache && *cache == '/')
        n = snprintf(dir, WEFT__TUNING_PATH_BYTES, "%s/weft", cache);
    else if (home && *home == '/')
        n = snprintf(dir, WEFT__TUNING_PATH_BYTES, "%s/.cache/weft", home);
    else
        return false;
    return n < WEFT__TUNING_PATH_BYTES - NAME_BYTES - 16;
}

void weft__tuning_path(char path[WEFT__TUNING_PATH_BYTES])
{
    char name[NAME_BYTES];
    size_t n;
    if (!find_dir(path)) {
        *path = 0;
        return;
    }
    processor_name(name);
    n = strlen(path);
    snprintf(path + n, WEFT__TUNING_PATH_BYTES - n, "/tuning-%s", name);
}

/* ---- reading ---- */

static weft_status ignored(const char *path, const char *why)
{
    return weft__fail(WEFT_ERR_ARGUMENT, "the tuning file %s is ignored: %s", path, why);
}

/* Can anybody else have written it?  NULL: no. */
static const char *distrust(int fd)
{
    struct stat about;
    if (fstat(fd, &about) != 0) return "it cannot be examined";
    if (!S_ISREG(about.st_mode)) return "it is no regular file";
    if (about.st_uid != geteuid()) return "it belongs to another user";
    if (about.st_mode & (S_IWGRP | S_IWOTH)) return "others may write it";
    return NULL;
}

/* FILE_MOST + 1 bytes of room.  NULL: it is there, as a string. */
static const char *tuning_fill(int fd, char *text)
{
    ssize_t got = read(fd, text, FILE_MOST + 1);
    if (got < 0) return "it cannot be read";
    if (got > FILE_MOST) return "it is too long";
    text[got] = 0;
    return strlen(text) == (size_t)got ? NULL : "it is no text";
}

/* The whole of it.  *text stays NULL when there is no file. */
static weft_status load(const char *path, char **text)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    const char *why;
    char *room;
    if (fd < 0 && (errno == ENOENT || errno == ENOTDIR)) return WEFT_OK;
    if (fd < 0) return ignored(path, errno == ELOOP ? "it is a symbolic link" : strerror(errno));
    room = malloc(FILE_MOST + 1);
    why = room ? distrust(fd) : "there is no memory";
    if (!why) why = tuning_fill(fd, room);
    close(fd);
    if (!why) {
        *text = room;
        return WEFT_OK;
    }
    free(room);
    return ignored(path, why);
}

/* Splits at single blanks.  False: not exactly n words. */
static bool tuning_split(char *line, char **words, int n)
{
    for (int i = 0; i < n; i++) {
        words[i] = line;
        line += strcspn(line, " ");
        if (line == words[i] || (i < n - 1) != (*line == ' ')) return false;
        if (*line) *line++ = 0;
    }
    return true;
}

static int read_class(const char *word)
{
    for (int class = 0; class < WEFT__SIZES; class ++) {
        char name[16] = "more";
        if (weft__class_most(class)) snprintf(name, sizeof name, "%d", weft__class_most(class));
        if (!strcmp(word, name)) return class;
    }
    return -1;
}

static bool read_upto(const char *word, uint64_t *upto)
{
    int64_t number;
    *upto = !strcmp(word, "any") ? WEFT__UPTO_ANY : WEFT__UPTO_NEVER;
    if (*upto || !strcmp(word, "never")) return true;
    if (!weft__number_read(word, 1, INT64_MAX, &number)) return false;
    *upto = (uint64_t)number;
    return true;
}

/* NULL: taken.  Else what is wrong with it. */
static const char *take_line(char *line, weft__choices *choices)
{
    char *word[5];
    uint64_t upto, before;
    weft__medium medium;
    int class, tunable;
    if (!tuning_split(line, word, 5)) return "expected TRANSPORT RANKS OPERATION ALGORITHM BYTES";
    if (!weft__medium_find(word[0], &medium)) return "there is no such transport";
    if ((class = read_class(word[1])) < 0) return "expected 2, 4, 8, 16 or more as ranks";
    if ((tunable = weft__tunable_find(word[2], word[3])) < 0)
        return "there is no such algorithm of that operation, or it has no limit";
    if (weft__choices_limit(choices, medium, class, tunable, &before)) return "this is there twice";
    if (!read_upto(word[4], &upto) || !weft__choices_set_limit(choices, medium, class, tunable, upto))
        return "expected a power of two, never or any as bytes";
    return NULL;
}

/* The next line, its end cut off; NULL: the rest has none. */
static char *next_line(char **text)
{
    char *line = *text, *end = strchr(line, '\n');
    if (!end) return NULL;
    *end = 0;
    *text = end + 1;
    return line;
}

static const char *take_all(char *text, weft__choices *choices, int *number)
{
    char expected[NAME_BYTES + 32], name[NAME_BYTES], *line;
    const char *why = NULL;
    *number = 1;
    snprintf(expected, sizeof expected, "weft-tuning %d", VERSION);
    line = next_line(&text);
    if (!line || strcmp(line, expected) != 0) return "it is not of this version";
    *number = 2;
    processor_name(name);
    snprintf(expected, sizeof expected, "processor %s", name);
    line = next_line(&text);
    if (!line || strcmp(line, expected) != 0) return "it was measured on another processor";
    for (int lines = 0; lines < LINES_MOST; lines++) {
        *number = lines + 3;
        if (!(line = next_line(&text))) return "it ends too soon";
        snprintf(expected, sizeof expected, "end %d", lines);
        if (!strcmp(line, expected)) return *text ? "something follows its end" : NULL;
        if ((why = take_line(line, choices)) != NULL) return why;
    }
    return "it has too many lines";
}

weft_status weft__tuning_read(const char *path, weft__choices *choices)
{
    weft__choices read = *choices;
    char *text = NULL;
    const char *why;
    int line;
    weft_status status = load(path, &text);
    if (status != WEFT_OK || !text) return status;
    memset(read.upto, 0, sizeof read.upto);
    why = take_all(text, &read, &line);
    free(text);
    if (why)
        return weft__fail(WEFT_ERR_ARGUMENT, "the tuning file %s is ignored: line %d: %s", path, line, why);
    *choices = read;
    return WEFT_OK;
}

/* ---- writing ---- */

static int print_limits(FILE *to, const weft__choices *choices, weft__medium medium, int class)
{
    const weft__candidate *c;
    int lines = 0;
    for (int i = 0; (c = weft__tunable_at(i)) != NULL; i++) {
        char ranks[16] = "more", bytes[24] = "any";
        uint64_t upto;
        if (!weft__choices_limit(choices, medium, class, i, &upto)) continue;
        if (weft__class_most(class)) snprintf(ranks, sizeof ranks, "%d", weft__class_most(class));
        if (upto == WEFT__UPTO_NEVER)
            snprintf(bytes, sizeof bytes, "never");
        else if (upto != WEFT__UPTO_ANY)
            snprintf(bytes, sizeof bytes, "%llu", (unsigned long long)upto);
        fprintf(to, "%s %s %s %s %s\n", weft__medium_name(medium), ranks, weft__kind_name(c->kind), c->name,
                bytes);
        lines++;
    }
    return lines;
}

static void print(FILE *to, const weft__choices *choices)
{
    char name[NAME_BYTES];
    int lines = 0;
    processor_name(name);
    fprintf(to, "weft-tuning %d\nprocessor %s\n", VERSION, name);
    for (int medium = 0; medium < WEFT__MEDIA; medium++)
        for (int class = 0; class < WEFT__SIZES; class ++)
            lines += print_limits(to, choices, (weft__medium)medium, class);
    fprintf(to, "end %d\n", lines);
}

/* The directories of a path, those that are missing. */
static void make_dirs(const char *path)
{
    char dir[WEFT__TUNING_PATH_BYTES];
    snprintf(dir, sizeof dir, "%s", path);
    for (char *slash = strchr(dir + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        (void)mkdir(dir, 0700); /* what cannot be made is told by opening the file */
        *slash = '/';
    }
}

weft_status weft__tuning_write(const char *path, const weft__choices *choices)
{
    char part[WEFT__TUNING_PATH_BYTES + 16];
    FILE *to;
    int fd;
    bool good;
    if (!*path) return weft__fail(WEFT_ERR_ARGUMENT, "there is no place for a tuning file: HOME is not set");
    make_dirs(path);
    snprintf(part, sizeof part, "%s.XXXXXX", path);
    fd = mkstemp(part); /* 0600 */
    to = fd >= 0 ? fdopen(fd, "w") : NULL;
    if (!to) {
        weft_status status = weft__fail_errno("the tuning file cannot be written");
        if (fd >= 0) {
            close(fd);
            unlink(part);
        }
        return status;
    }
    print(to, choices);
    good = !fflush(to) && !ferror(to) && !fsync(fd);
    good = !fclose(to) && good;
    if (good && !rename(part, path)) return WEFT_OK;
    weft_status status = weft__fail_errno("the tuning file cannot be written");
    unlink(part);
    return status;
}
