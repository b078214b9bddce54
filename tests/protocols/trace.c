/* trace.c - see trace.h. */
#include "trace.h"
#include "clock.h"

#include <stdarg.h>
#include <stdio.h>

bool trace_on;
static bool blamed;
static const char *playing;
static uint64_t seed_played;

void trace_begin(const char *protocol, uint64_t seed)
{
    blamed = false;
    playing = protocol;
    seed_played = seed;
}

bool trace_blamed(void)
{
    return blamed;
}

void trace_line(const char *format, ...)
{
    va_list args;
    printf("%12.3f ms  ", (double)weft__now_ns() / 1e6);
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    putchar('\n');
}

void trace_blame(const char *format, ...)
{
    va_list args;
    if (blamed && !trace_on) return;
    blamed = true;
    printf("%s, seed %llu: ", playing, (unsigned long long)seed_played);
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    putchar('\n');
}
