/* trace.h - what happens in a simulated job, a line each, where a seed is replayed; and what is wrong with
 * it. */
#ifndef WEFT_TESTS_PROTOCOLS_TRACE_H
#define WEFT_TESTS_PROTOCOLS_TRACE_H
#include <stdbool.h>
#include <stdint.h>

extern bool trace_on;

/* Costs a comparison where nobody reads it. */
#define TRACE(...) (trace_on ? trace_line(__VA_ARGS__) : (void)0)

void trace_line(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* A promise that this seed has broken; the first one of a seed is printed. */
void trace_blame(const char *format, ...) __attribute__((format(printf, 1, 2)));
void trace_begin(const char *protocol, uint64_t seed);
bool trace_blamed(void); /* since trace_begin */
#endif
