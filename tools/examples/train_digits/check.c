/* check.c - see check.h. */
#include "check.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

void fail(const char *format, ...)
{
    char sentence[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(sentence, sizeof(sentence), format, args);
    va_end(args);
    fprintf(stderr, "train_digits: %s\n", sentence);
    exit(1);
}

void check(weft_status status, const char *what)
{
    if (status != WEFT_OK) fail("%s: %s (%s)", what, weft_last_error(), weft_status_name(status));
}

int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}
