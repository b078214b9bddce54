/* scarce.h - memory that runs out: one allocation of the library's own code, or all from it on, gets none.
 *
 * For programs that are linked with the layers' archives and with the linker's --wrap for malloc, calloc,
 * realloc, aligned_alloc and strdup (fault_scarce in CMakeLists.txt): what libc and other libraries allocate
 * is not counted. */
#ifndef TESTS_SUPPORT_SCARCE_H
#define TESTS_SUPPORT_SCARCE_H

#include <stdbool.h>
#include <stdint.h>

/* From now on allocations are counted, in all threads of this process.  The nth of them (the first is 1) gets
 * nothing, nor do the `more` after it. */
void scarce_begin(int64_t nth, int64_t more);
int64_t scarce_refused(void); /* so many allocations have got nothing since then */
/* Not any more.  True: it had come to the nth. */
bool scarce_end(void);

#endif
