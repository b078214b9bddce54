/* number.c - see number.h.  strtoll would also take blanks, signs and what follows a number. */
#include "number.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>

bool weft__number_read(const char *text, int64_t least, int64_t most, int64_t *out)
{
    char *end;
    long long n;
    if (!isdigit((unsigned char)text[least < 0 && *text == '-'])) return false;
    errno = 0;
    n = strtoll(text, &end, 10);
    if (*end || errno || n < least || n > most) return false;
    *out = n;
    return true;
}
