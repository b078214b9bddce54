/* run_wire.h - the words between weft-run and its other self on each host, the agent: frames, in both
 * directions over a stream.
 *
 *   1 byte    kind
 *   4 bytes   length of what follows, big endian, at most RUN_FRAME_MOST
 *   bytes     numbers of 4 bytes, big endian; texts as a length that counts the final zero, and the bytes with
 *             it; raw bytes, which come last
 *
 * An agent begins with RUN_GREETING, so that what a login shell prints before it can be told from frames. */
#ifndef WEFT_RUN_WIRE_H
#define WEFT_RUN_WIRE_H
#include "run_buffer.h"

#include <stdint.h>

#define RUN_GREETING "\nweft-run agent 3\n"
enum { RUN_FRAME_HEADER = 5, RUN_FRAME_MOST = 4 << 20, RUN_NOISE_MOST = 64 << 10 };

enum run_kind {
    /* to the agent */
    RUN_ORDERS = 1, /* run_orders.h; once, first */
    RUN_INPUT,      /* raw bytes for rank 0's stdin, no more than there is credit for */
    RUN_INPUT_END,
    RUN_SIGNAL, /* number */
    RUN_CUT,    /* number: nobody reads the ranks' stdout (0), stderr (1) any more */
    RUN_PING,   /* nothing; the agent answers */
    /* from the agent */
    RUN_HELLO = 65, /* run_orders.h; once, first */
    RUN_OUTPUT,     /* rank, 0 stdout or 1 stderr, raw bytes */
    RUN_SAY,        /* text: a line for weft-run's stderr */
    RUN_EXIT,       /* rank, process, exit code, signal */
    RUN_TAKEN,      /* number of bytes of input that rank 0 has taken: so many more may come */
    RUN_PONG,
    RUN_DUMP,      /* text: path of the file in which it is written what this host's ranks did last; once */
    RUN_DUMP_TEXT, /* raw bytes: what stands in it, piece by piece; an empty one is its end */
    RUN_ENDED      /* exit code: nothing of the job is left on this host */
};

/* ---- writing: into a buffer; without memory the frame is left out, and false returned ---- */

struct run_frame_out {
    struct run_buffer *to;
    size_t begins; /* distance of the header from the buffer's begin */
    bool failed;
};

struct run_frame_out run_frame_begin(struct run_buffer *to, enum run_kind kind);
void run_frame_number(struct run_frame_out *f, uint32_t number);
void run_frame_text(struct run_frame_out *f, const char *text);
void run_frame_raw(struct run_frame_out *f, const void *bytes, size_t n);
bool run_frame_end(struct run_frame_out *f);
/* A frame of nothing but numbers. */
bool run_frame_put(struct run_buffer *to, enum run_kind kind, const uint32_t *numbers, size_t n);

/* ---- reading ---- */

struct run_frame {
    int kind;
    const unsigned char *at; /* what has not been read of it; in the buffer, until that is added to */
    size_t left;
    bool wrong; /* it held less than was asked for, or something else */
};

enum run_took { RUN_TOOK_NOTHING, RUN_TOOK_FRAME, RUN_TOOK_NONSENSE };
/* The first frame of the buffer, if all of it is there; it is dropped from the buffer. */
enum run_took run_frame_take(struct run_buffer *from, struct run_frame *f);
/* What stands before the greeting goes, and the greeting too.  Nonsense: too much of that. */
enum run_took run_greeting_take(struct run_buffer *from);

uint32_t run_frame_read_number(struct run_frame *f);
/* At most `most`; a larger one is wrong. */
int run_frame_read_count(struct run_frame *f, int most);
/* In the buffer, as a C string; "" if wrong. */
const char *run_frame_read_text(struct run_frame *f);
#endif
