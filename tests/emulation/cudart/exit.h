/* exit.h - the end of CUDA at exit, before that of the process. */
#ifndef EMULATION_EXIT_H
#define EMULATION_EXIT_H
#include <stdbool.h>

/* From the first call on it is taken down at exit. */
void emu__exit_watch(void);
bool emu__exit_begun(void);
#endif
