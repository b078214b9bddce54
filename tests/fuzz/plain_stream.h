/* plain_stream.h - a stream of frames as a plain reader would take it, for what is compared with that. */
#ifndef WEFT_FUZZ_PLAIN_STREAM_H
#define WEFT_FUZZ_PLAIN_STREAM_H
#include "tcp_link.h"

#include <string.h>

typedef struct plain_stream {
    const uint8_t *bytes;
    size_t length, at;
    uint32_t sent, told; /* frames that went the other way; so many of them are acknowledged */
} plain_stream;

/* The next whole, correct frame, payload behind it; false: there is none.  Behind it: `at` of *s. */
static inline bool plain_next(plain_stream *s, weft__frame *frame, const uint8_t **payload)
{
    while (s->length - s->at >= sizeof *frame) {
        uint32_t told;
        memcpy(frame, s->bytes + s->at, sizeof *frame);
        told = frame->reserved & WEFT__TCP_COUNT_MASK;
        frame->reserved = 0;
        if (told < s->told || told > s->sent) return false;
        s->told = told;
        if (frame->kind == WEFT__FRAME_ACK && !frame->length) {
            s->at += sizeof *frame;
            continue;
        }
        if (weft__frame_check(frame) || s->length - s->at - sizeof *frame < frame->length) return false;
        *payload = s->bytes + s->at + sizeof *frame;
        s->at += sizeof *frame + frame->length;
        return true;
    }
    return false;
}
#endif
