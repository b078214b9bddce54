/* check.h - assertions that stay in release builds where they are cheap, and compiler shorthands.
 * WEFT__ASSERT states a rule that only a bug in this library can break; it ends the process. */
#ifndef WEFT_BASE_CHECK_H
#define WEFT_BASE_CHECK_H
#include <stddef.h>

#define WEFT__LIKELY(x)                __builtin_expect(!!(x), 1)
#define WEFT__UNLIKELY(x)              __builtin_expect(!!(x), 0)
#define WEFT__PRINTF(text, args)       __attribute__((format(printf, text, args)))
#define WEFT__OWNER(ptr, type, member) ((type *)(void *)((char *)(ptr)-offsetof(type, member)))
/* Marks functions that are called when something fails: what leads to them is laid aside. */
#define WEFT__COLD     __attribute__((cold))
#define WEFT__NOINLINE __attribute__((noinline)) /* so that its caller needs no frame */
/* So that a copy of it is made for each of its callers, with what is constant there. */
#define WEFT__MADE_FOR_EACH inline __attribute__((always_inline))
/* Thread-local words of the hot path: one instruction instead of a call.  Only for a few bytes: the room is
 * small where the library is loaded late. */
#define WEFT__THREAD_WORD   _Thread_local __attribute__((tls_model("initial-exec")))
#define WEFT__LENGTH(array) (sizeof(array) / sizeof((array)[0]))
#define WEFT__LINE \
    128 /* bytes between words that different processors write: two lines, for the prefetcher */

_Noreturn WEFT__COLD void weft__assert_failed(const char *file, int line, const char *rule);

#define WEFT__ASSERT(rule)                                                           \
    do {                                                                             \
        if (WEFT__UNLIKELY(!(rule))) weft__assert_failed(__FILE__, __LINE__, #rule); \
    } while (0)

/* A table of states has a word for each state: the states that may follow on it, joined by |.  What moves
 * something from one state to another asserts that the table allows it. */
#define WEFT__MAY_BECOME(state)       (1u << (state))
#define WEFT__ALLOWS(table, from, to) ((table)[from] >> (to)&1)

#endif
