#include "check.h"

#include <stdio.h>
#include <stdlib.h>

/* Up to the comma that no parenthesis encloses: so long is the first of what stands in text. */
static int length_of_first(const char *text)
{
    int n = 0, depth = 0;
    for (; text[n] && (depth || text[n] != ','); n++) {
        if (text[n] == '(' || text[n] == '[') depth++;
        if (text[n] == ')' || text[n] == ']') depth--;
    }
    return n;
}

/* One line, written at once: several ranks may have the same standard error. */
_Noreturn void weft__assert_failed(const char *file, int line, const char *text, int values, long long a,
                                   long long b, long long c)
{
    const long long value[] = {a, b, c};
    char said[1024];
    int first = length_of_first(text);
    int at = snprintf(said, sizeof said, "weft: %s:%d: broken rule: %.*s", file, line, first, text);
    for (size_t i = 0;
         i < sizeof value / sizeof *value && (int)i < values && at < (int)sizeof said && text[first]; i++) {
        text += first + 1;
        text += *text == ' ';
        first = length_of_first(text);
        at += snprintf(said + at, sizeof said - (size_t)at, "%s%.*s is %lld", i ? ", " : "; ", first, text,
                       value[i]);
    }
    fprintf(stderr, "%s\n", said);
    abort();
}
