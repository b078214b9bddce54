/* run_line.h - command lines of weft-run, in a folder of their own.  Every command ends by itself; ctest's time limit
 * catches one that does not. */
#ifndef WEFT_TESTS_RUN_LINE_H
#define WEFT_TESTS_RUN_LINE_H
#include "skip.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define WEFT_RUN TEST_BIN_DIR "/weft-run "

enum { TEXT_BYTES = 1 << 16, PATH_BYTES = 64 };

struct result {
    int code;
    char out[TEXT_BYTES], err[TEXT_BYTES];
};

static char dir[PATH_BYTES];

static inline void in_dir(char path[2 * PATH_BYTES], const char *name)
{
    snprintf(path, 2 * (size_t)PATH_BYTES, "%s/%s", dir, name);
}

static inline void read_text(const char *name, char text[TEXT_BYTES])
{
    char path[2 * PATH_BYTES];
    FILE *f;
    in_dir(path, name);
    f = fopen(path, "re");
    text[f ? fread(text, 1, TEXT_BYTES - 1, f) : 0] = '\0';
    if (f) fclose(f);
}

/* A shell command line behind "weft-run "; its stdin is empty unless the line says otherwise. */
static inline const struct result *run(const char *arguments)
{
    static struct result r;
    char line[4096];
    int how;
    snprintf(line, sizeof(line), "cd %s && { " WEFT_RUN "%s\n} <%s >out 2>err", dir, arguments, "/dev/null");
    how = system(line);
    r.code = WIFEXITED(how) ? WEXITSTATUS(how) : -1;
    read_text("out", r.out);
    read_text("err", r.err);
    return &r;
}

static inline bool has(const char *text, const char *part)
{
    return strstr(text, part) != NULL;
}

static inline int run_line_begin(void **state)
{
    (void)state;
    strcpy(dir, "/tmp/weft-run-test-XXXXXX");
    setenv("KEPT", "kept", 1);
    return prctl(PR_SET_CHILD_SUBREAPER, 1) || !mkdtemp(dir);
}

static inline int run_line_end(void **state)
{
    char line[2 * PATH_BYTES];
    (void)state;
    snprintf(line, sizeof(line), "rm -rf %s", dir);
    return system(line);
}

#endif
