/* payload.c - made in pieces; memory that is not its own is touched by memcpy and memcmp alone, which every sanitizer
 * looks at, whether it watches this file or not. */
#include "payload.h"

#include <string.h>

enum { PIECE = 4096 };

static void make_piece(uint64_t id, size_t first, size_t n, unsigned char *to)
{
    for (size_t i = 0; i < n; i++) {
        const size_t at = first + i;
        to[i] = (unsigned char)((id * 2654435761U + at * 40503U + (at >> 8)) >> 3);
    }
}

void payload_fill(uint64_t id, size_t bytes, void *to)
{
    unsigned char made[PIECE];
    for (size_t done = 0, piece; done < bytes; done += piece) {
        piece = bytes - done < PIECE ? bytes - done : PIECE;
        make_piece(id, done, piece, made);
        memcpy((unsigned char *)to + done, made, piece);
    }
}

size_t payload_differs(uint64_t id, size_t bytes, const void *got)
{
    unsigned char made[PIECE];
    for (size_t done = 0, piece; done < bytes; done += piece) {
        const unsigned char *at = (const unsigned char *)got + done;
        piece = bytes - done < PIECE ? bytes - done : PIECE;
        make_piece(id, done, piece, made);
        if (memcmp(at, made, piece) == 0) continue;
        for (size_t i = 0; i < piece; i++)
            if (at[i] != made[i]) return done + i;
    }
    return bytes;
}
