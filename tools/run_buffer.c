/* run_buffer.c - see run_buffer.h. */
#include "run_buffer.h"

#include <stdlib.h>
#include <string.h>

bool run_buffer_reserve(struct run_buffer *b, size_t more)
{
    size_t need = run_buffer_held(b) + more, room = b->room ? b->room : 4096;
    char *grown;
    if (b->begin) {
        memmove(b->bytes, b->bytes + b->begin, run_buffer_held(b));
        b->end -= b->begin;
        b->begin = 0;
    }
    if (need <= b->room) return true;
    while (room < need) room *= 2;
    grown = realloc(b->bytes, room);
    if (!grown) return false;
    b->bytes = grown;
    b->room = room;
    return true;
}

void run_buffer_append(struct run_buffer *b, const void *bytes, size_t n)
{
    if (n) memcpy(b->bytes + b->end, bytes, n);
    b->end += n;
}

void run_buffer_drop(struct run_buffer *b, size_t n)
{
    b->begin += n;
    if (b->begin == b->end) b->begin = b->end = 0;
}

void run_buffer_free(struct run_buffer *b)
{
    free(b->bytes);
    *b = (struct run_buffer){0};
}
