/* run_wire.c - see run_wire.h. */
#include "run_wire.h"

#include <string.h>

/* ---- writing ---- */

static void put_number(unsigned char *at, uint32_t number)
{
    for (int i = 0; i < 4; i++) at[i] = (unsigned char)(number >> (24 - 8 * i));
}

static void append(struct run_frame_out *f, const void *bytes, size_t n)
{
    size_t had = run_buffer_held(f->to) - f->begins;
    f->failed = f->failed || n > RUN_FRAME_MOST || had + n > RUN_FRAME_MOST || !run_buffer_reserve(f->to, n);
    if (!f->failed) run_buffer_append(f->to, bytes, n);
}

struct run_frame_out run_frame_begin(struct run_buffer *to, enum run_kind kind)
{
    struct run_frame_out f = {to, run_buffer_held(to), false};
    unsigned char header[RUN_FRAME_HEADER] = {(unsigned char)kind};
    append(&f, header, sizeof(header));
    return f;
}

void run_frame_number(struct run_frame_out *f, uint32_t number)
{
    unsigned char bytes[4];
    put_number(bytes, number);
    append(f, bytes, sizeof(bytes));
}

void run_frame_text(struct run_frame_out *f, const char *text)
{
    size_t n = strlen(text) + 1;
    run_frame_number(f, n > RUN_FRAME_MOST ? RUN_FRAME_MOST : (uint32_t)n);
    append(f, text, n);
}

void run_frame_raw(struct run_frame_out *f, const void *bytes, size_t n)
{
    append(f, bytes, n);
}

bool run_frame_end(struct run_frame_out *f)
{
    size_t bytes = run_buffer_held(f->to) - f->begins;
    if (f->failed) {
        f->to->end = f->to->begin + f->begins;
        return false;
    }
    put_number((unsigned char *)f->to->bytes + f->to->begin + f->begins + 1,
               (uint32_t)(bytes - RUN_FRAME_HEADER));
    return true;
}

bool run_frame_put(struct run_buffer *to, enum run_kind kind, const uint32_t *numbers, size_t n)
{
    struct run_frame_out f = run_frame_begin(to, kind);
    for (size_t i = 0; i < n; i++) run_frame_number(&f, numbers[i]);
    return run_frame_end(&f);
}

/* ---- reading ---- */

static uint32_t get_number(const unsigned char *at)
{
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

enum run_took run_frame_take(struct run_buffer *from, struct run_frame *f)
{
    const unsigned char *at = (const unsigned char *)from->bytes + from->begin;
    size_t held = run_buffer_held(from), bytes;
    if (held < RUN_FRAME_HEADER) return RUN_TOOK_NOTHING;
    bytes = get_number(at + 1);
    if (bytes > RUN_FRAME_MOST) return RUN_TOOK_NONSENSE;
    if (held < RUN_FRAME_HEADER + bytes) return RUN_TOOK_NOTHING;
    *f = (struct run_frame){.kind = *at, .at = at + RUN_FRAME_HEADER, .left = bytes};
    run_buffer_drop(from, RUN_FRAME_HEADER + bytes);
    return RUN_TOOK_FRAME;
}

enum run_took run_greeting_take(struct run_buffer *from)
{
    static const char greeting[] = RUN_GREETING;
    size_t held = run_buffer_held(from), n = sizeof(greeting) - 1;
    const char *begin = from->bytes + from->begin, *found;
    if (held < n) return RUN_TOOK_NOTHING;
    found = memmem(begin, held, greeting, n);
    if (!found) return held > RUN_NOISE_MOST ? RUN_TOOK_NONSENSE : RUN_TOOK_NOTHING;
    run_buffer_drop(from, (size_t)(found - begin) + n);
    return RUN_TOOK_FRAME;
}

uint32_t run_frame_read_number(struct run_frame *f)
{
    uint32_t number;
    if (f->wrong || f->left < 4) {
        f->wrong = true;
        return 0;
    }
    number = get_number(f->at);
    f->at += 4;
    f->left -= 4;
    return number;
}

int run_frame_read_count(struct run_frame *f, int most)
{
    uint32_t number = run_frame_read_number(f);
    if (number <= (uint32_t)most) return (int)number;
    f->wrong = true;
    return 0;
}

const char *run_frame_read_text(struct run_frame *f)
{
    size_t n = run_frame_read_number(f);
    const char *text = (const char *)f->at;
    if (f->wrong || n < 1 || n > f->left || memchr(text, '\0', n) != text + n - 1) {
        f->wrong = true;
        return "";
    }
    f->at += n;
    f->left -= n;
    return text;
}
