/* holder.c - see holder.h. */
#include "holder.h"

WEFT__THREAD_WORD const weft_context *weft__engine_held;
