/* holder.h - who holds the engine: what every thread rule of the runtime asserts. */
#ifndef WEFT_CORE_HOLDER_H
#define WEFT_CORE_HOLDER_H
#include "check.h"

#include <stdbool.h>
#include <stddef.h>
#include <weft/weft.h>

extern WEFT__THREAD_WORD const weft_context
    *weft__engine_held; /* by this thread; NULL: none.  engine.c writes */

static inline bool weft__holds_engine(const weft_context *ctx)
{
    return weft__engine_held == ctx;
}

static inline bool weft__holds_any_engine(void) /* whichever context's */
{
    return weft__engine_held != NULL;
}
#endif
