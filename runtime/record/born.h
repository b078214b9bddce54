/* born.h - when a process began, by which a later one of the same number is told apart, and whether it is stopped. */
#ifndef WEFT_RECORD_BORN_H
#define WEFT_RECORD_BORN_H
#include <stdbool.h>
#include <stdint.h>

/* In the kernel's own unit; 0: there is none of that number, or it is dead and waits for its parent. */
int64_t weft__born(int64_t pid);
/* Is it stopped, by a signal or a debugger? */
bool weft__is_stopped(int64_t pid);
#endif
