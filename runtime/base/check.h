/* check.h - assertions, and compiler shorthands.
 *
 * An assertion states a rule that only a bug in this library can break, whatever other ranks send: what they
 * could break is checked, and refused.  One that does not hold prints one line and ends the process.  Up to
 * three values that help to see why may stand behind the rule: WEFT__ASSERT(taken <= count, taken, count).
 *
 *   WEFT__ASSERT      in every build: where a few instructions cannot be measured
 *   WEFT__ASSERT_HOT  for what each operation passes, and for rules that cost a walk to check: only in
 *                     builds without NDEBUG, as those for debugging, for sanitizers and for tests/mutations */
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

/* text: the rule as it stands in the source, and its values' names, `values` of them. */
_Noreturn WEFT__COLD void weft__assert_failed(const char *file, int line, const char *text, int values,
                                              long long a, long long b, long long c);

#ifdef NDEBUG
#define WEFT__HOT_TOO 0
#else
#define WEFT__HOT_TOO 1
#endif

#define WEFT__ASSERT(...)     WEFT__ASSERT_IF(1, #__VA_ARGS__, __VA_ARGS__)
#define WEFT__ASSERT_HOT(...) WEFT__ASSERT_IF(WEFT__HOT_TOO, #__VA_ARGS__, __VA_ARGS__)

/* How these two are made; for nobody else.  The rule comes first among what follows the text. */
#define WEFT__ASSERT_IF(built, text, ...)                                                               \
    do {                                                                                                \
        if ((built) && WEFT__UNLIKELY(!(WEFT__RULE(__VA_ARGS__, 0))))                                   \
            weft__assert_failed(__FILE__, __LINE__, text,                                               \
                                WEFT__PICK(__VA_ARGS__, WEFT__VALUES_3, WEFT__VALUES_2, WEFT__VALUES_1, \
                                           WEFT__VALUES_0, 0)(__VA_ARGS__));                            \
    } while (0)
#define WEFT__RULE(rule, ...)                   rule
#define WEFT__PICK(rule, a, b, c, made_of, ...) made_of
#define WEFT__VALUES_0(rule)                    0, 0, 0, 0
#define WEFT__VALUES_1(rule, a)                 1, (long long)(a), 0, 0
#define WEFT__VALUES_2(rule, a, b)              2, (long long)(a), (long long)(b), 0
#define WEFT__VALUES_3(rule, a, b, c)           3, (long long)(a), (long long)(b), (long long)(c)

/* A table of states has a word for each state: the states that may follow on it, joined by |.  What moves
 * something from one state to another asserts that the table allows it. */
#define WEFT__MAY_BECOME(state)       (1u << (state))
#define WEFT__ALLOWS(table, from, to) ((table)[from] >> (to)&1)

#endif
