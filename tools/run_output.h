/* run_output.h - what ranks print, passed on line by line so that lines of different ranks never mix.
 *
 * A stream is one rank's stdout or stderr, a sink is weft-run's own.  A line waits in its stream until it is
 * whole, then moves to the sink, which is written only when poll(2) says that it takes more: weft-run itself
 * never blocks on a slow reader.  While a sink is full nothing is read for it, so the ranks feel it. */
#ifndef WEFT_RUN_OUTPUT_H
#define WEFT_RUN_OUTPUT_H
#include "run_buffer.h"

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>

#define RUN_LINE_BYTES ((size_t)1 << 20) /* a longer line is passed on in pieces of this size */
#define RUN_SINK_BYTES ((size_t)1 << 16) /* a sink that holds more takes no further line */

struct run_sink {
    int fd;
    int last_rank;  /* whose bytes came last, -1: weft-run's own */
    bool line_open; /* those bytes did not end a line */
    bool broken;    /* nobody reads any more */
    bool is_terminal;
    bool rewrites; /* a line that ends in \r is shown too: it is there to be written over */
    struct run_buffer waiting;
};

struct run_stream {
    int fd; /* -1: has ended */
    int rank;
    struct run_sink *sink;
    struct run_buffer unsent;
    size_t scanned; /* bytes of unsent known to hold no newline */
};

struct run_output {
    bool prefix;
    bool
        whole_lines; /* false for one rank alone: nothing can mix, so nothing needs to wait for its newline */
    struct run_sink sinks[2], *out, *err; /* both are one sink if stdout and stderr are one file */
    struct run_stream *streams;           /* two a rank: stdout, stderr */
    size_t n, first;                      /* first: whose turn it is */
};

bool run_output_init(struct run_output *o, int ranks, bool prefix);
void run_output_free(struct run_output *o);
/* Takes over a rank's pipe; which: 0 stdout, 1 stderr. */
void run_output_add(struct run_output *o, int rank, int which, int fd);

/* Room for run_output_fds entries is 2 * ranks + 2; returns how many were filled. */
size_t run_output_fds(struct run_output *o, struct pollfd *fds);
/* Takes the entries that it filled in, after poll. */
void run_output_step(struct run_output *o, const struct pollfd *fds, size_t n);

bool run_output_ended(const struct run_output *o); /* every stream has ended and all is written */
void run_output_cut(struct run_output *o);         /* no longer wait for writers that are silent */
void run_output_abandon(struct run_output *o);     /* throw away what is not written */

/* weft-run's own words, as a line of stderr: "weft-run: ..." */
void run_say(struct run_output *o, const char *format, ...) __attribute__((format(printf, 2, 3)));
#endif
