/* run_terminal.h - a rank's stdout where weft-run's own is a terminal: a pseudo-terminal.  Programs then
 * write line by line, as they would without weft-run; into a pipe they write when a buffer is full, or at
 * their end. */
#ifndef WEFT_RUN_TERMINAL_H
#define WEFT_RUN_TERMINAL_H
#include <stdbool.h>

/* ends[0] for weft-run to read, ends[1] for the rank, which finds the size that the terminal `like` has;
 * bytes pass unchanged.  False: the system gives none, and nothing is open. */
bool run_terminal_open(int like, int ends[2]);
#endif
