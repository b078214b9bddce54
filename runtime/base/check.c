#include "check.h"

#include <stdio.h>
#include <stdlib.h>

_Noreturn void weft__assert_failed(const char *file, int line, const char *rule)
{
    fprintf(stderr, "weft: %s:%d: broken rule: %s\n", file, line, rule);
    abort();
}
