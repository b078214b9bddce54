/* module_planted.c - what somebody may leave in a folder for others to run: it says that it was. */
#include <stdio.h>

static void __attribute__((constructor)) run(void)
{
    fputs("the planted module was run\n", stderr);
}
