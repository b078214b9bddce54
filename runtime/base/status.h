/* status.h - failing: one sentence per failure, written by the function that decides it.
 * The functions above it pass status and sentence on. */
#ifndef WEFT_BASE_STATUS_H
#define WEFT_BASE_STATUS_H
#include "check.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <weft/weft.h>

#define WEFT__SENTENCE_BYTES 1024 /* longest error sentence; longer ones are cut */

/* Sets this thread's weft_last_error() and returns status, so: return weft__fail(...). */
weft_status weft__fail(weft_status status, const char *format, ...) WEFT__COLD WEFT__PRINTF(2, 3);
weft_status weft__vfail(weft_status status, const char *format, va_list args) WEFT__COLD;

/* Is that, from another rank, one of the statuses that tell of a failure? */
static inline bool weft__is_failure(int32_t status)
{
    return status < 0 && status >= WEFT_ERR_STATE;
}

/* As weft__fail, with ": " and errno's text behind the sentence; reads errno first. */
weft_status weft__fail_errno(const char *format, ...) WEFT__COLD WEFT__PRINTF(1, 2); /* WEFT_ERR_SYSTEM */
weft_status weft__fail_memory(size_t bytes, const char *what) WEFT__COLD;            /* WEFT_ERR_MEMORY */

/* The analyzer reads one file at a time and would follow every failure as though it could return WEFT_OK. */
#ifdef __clang_analyzer__
#define weft__fail(status, ...)        (weft__fail(status, __VA_ARGS__), (status))
#define weft__fail_errno(...)          (weft__fail_errno(__VA_ARGS__), WEFT_ERR_SYSTEM)
#define weft__fail_memory(bytes, what) (weft__fail_memory(bytes, what), WEFT_ERR_MEMORY)
#endif
#endif
