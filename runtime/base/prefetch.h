/* prefetch.h - asking for a cache line before it is written, or read.
 *
 * A line that another processor has read last must be taken from it before a store to it can be seen.  Where
 * the two share no cache that is 200 ns, during which the stores behind it wait as well; asked for early it
 * costs nothing. */
#ifndef WEFT_BASE_PREFETCH_H
#define WEFT_BASE_PREFETCH_H

static inline void weft__prefetch_read(const void *line)
{
    __builtin_prefetch(line);
}

static inline void weft__prefetch_write(const void *line)
{
#if defined(__x86_64__)
    /* The compiler would ask for a shared one, so as to run where this is not known;
     * there it does nothing. */
    __asm__ volatile("prefetchw %0" : : "m"(*(const char *)line));
#else
    __builtin_prefetch(line, 1);
#endif
}
#endif
