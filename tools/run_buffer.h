/* run_buffer.h - bytes that have come and not yet gone: appended at the end, dropped at the beginning. */
#ifndef WEFT_RUN_BUFFER_H
#define WEFT_RUN_BUFFER_H
#include <stdbool.h>
#include <stddef.h>

struct run_buffer {
    char *bytes;
    size_t begin, end, room;
};

static inline size_t run_buffer_held(const struct run_buffer *b)
{
    return b->end - b->begin;
}
/* Room for `more` bytes behind the end; what is held may move.  False: no memory. */
bool run_buffer_reserve(struct run_buffer *b, size_t more);
/* There must be room for them. */
void run_buffer_append(struct run_buffer *b, const void *bytes, size_t n);
void run_buffer_drop(struct run_buffer *b, size_t n);
void run_buffer_free(struct run_buffer *b);
#endif
