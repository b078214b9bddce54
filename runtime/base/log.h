/* log.h - one log line, to stderr or to the function given to weft_set_log. */
#ifndef WEFT_BASE_LOG_H
#define WEFT_BASE_LOG_H
#include "check.h"

#include <stdbool.h>

enum weft__log_level { WEFT__ERROR, WEFT__WARN, WEFT__INFO, WEFT__DEBUG };

/* WEFT_LOG decides which levels are told.  Any thread, whatever locks it holds: the program's function is
 * called later, by a thread that holds none. */
void weft__log(enum weft__log_level level, const char *format, ...) WEFT__PRINTF(2, 3);
/* Waits until the program's function has been given every line so far, two seconds at most.  In that function
 * it does nothing.  The caller holds no lock of the library's. */
void weft__log_flush(void);
/* Is this thread inside the program's log function? */
bool weft__log_inside(void);
#endif
