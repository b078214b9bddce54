/* log.h - one log line, to stderr or to the function given to weft_set_log. */
#ifndef WEFT_BASE_LOG_H
#define WEFT_BASE_LOG_H
#include "check.h"

enum weft__log_level { WEFT__ERROR, WEFT__WARN, WEFT__INFO, WEFT__DEBUG };

/* WEFT_LOG decides which levels are told. */
void weft__log(enum weft__log_level level, const char *format, ...) WEFT__PRINTF(2, 3);
#endif
