/* absent.c - all functions that the real library has and the emulation has not: each ends the process with a
 * sentence that names it.  cudart_names.h has the names of the real library's functions; those that another
 * file here defines take the place of these, which are weak.
 *
 * CUDA's headers are left out, because what these functions take and return does not matter. */
#include <stdio.h>
#include <unistd.h>

enum { STATUS = 86 }; /* EMU_MISUSE_STATUS */

_Noreturn static void end_at(const char *function)
{
    fprintf(stderr, "emulation: %s is not emulated; this program needs a GPU\n", function);
    fflush(NULL);
    _exit(STATUS);
}

#define NAME(name)                        \
    void name(void);                      \
    __attribute__((weak)) void name(void) \
    {                                     \
        end_at(#name);                    \
    }
#include "cudart_names.h"
