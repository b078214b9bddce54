/* run_output.h - what ranks print, passed on line by line so that lines of different ranks never mix.
 *
 * A stream is one rank's stdout or stderr, a sink is weft-run's own.  A line waits in its stream until it is
 * whole, then moves to the sink, which is written only when poll(2) says that it takes more: weft-run itself
 * never blocks on a slow reader.  While a sink is full nothing is read for it, so the ranks feel it. */
#ifndef WEFT_RUN_OUTPUT_H
#define WEFT_RUN_OUTPUT_H
#include "run_wire.h"

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RUN_LINE_BYTES ((size_t)1 << 20) /* a longer line is passed on in pieces of this size */
#define RUN_SINK_BYTES ((size_t)1 << 16) /* a sink that holds more takes no further line */
#define RUN_NOT_POLLED SIZE_MAX

enum { RUN_NAME_BYTES = 4352 }; /* room for a path and "/rank.N.out" */

struct run_sink {
    int fd;
    int last_rank;  /* whose bytes came last, -1: weft-run's own */
    bool line_open; /* those bytes did not end a line */
    bool broken;    /* nothing can be written to it any more */
    size_t polled;  /* its entry in the last run_output_fds, or RUN_NOT_POLLED */
    bool is_terminal;
    bool rewrites; /* a line that ends in \r is shown too: it is there to be written over */
    struct run_buffer waiting;
};

struct run_stream {
    int fd;          /* -1: has ended */
    int rank, which; /* 0: stdout, 1: stderr */
    struct run_sink *sink;
    struct run_buffer unsent;
    size_t scanned; /* bytes of unsent known to hold no newline */
    size_t polled;  /* as a sink's */
};

struct run_style {
    int first;               /* the rank that the first two streams are of */
    bool prefix, timestamps; /* how each line begins */
    bool
        whole_lines; /* false for one rank alone: nothing can mix, so nothing needs to wait for its newline */
    bool framed;     /* an agent's: lines go as frames to stdout, and so do weft-run's own words */
    bool terminal, rewrites; /* of who reads the frames: as struct run_sink has them */
    const char *dir;         /* not NULL: ranks' lines go to DIR/rank.N.out and .err */
};

struct run_output {
    struct run_style style;             /* as it was asked for */
    struct run_sink *sinks, *out, *err; /* out and err are one if stdout and stderr are one file */
    size_t sinks_n;
    struct run_stream *streams; /* two a rank: stdout, stderr */
    size_t n, first;            /* first: whose turn it is */
    bool lost;                  /* what ranks have printed could not be written, which has been told */
};

/* False, with errno: no memory, or a file cannot be made, whose name `sentence` has then. */
bool run_output_init(struct run_output *o, int ranks, const struct run_style *style, char *failed,
                     size_t bytes);
/* False: what was written to a file is lost, as closing it has shown; that has been told. */
bool run_output_free(struct run_output *o);
/* Takes over a rank's pipe; which: 0 stdout, 1 stderr. */
void run_output_add(struct run_output *o, int rank, int which, int fd);

/* A line of a rank on another host, or a piece of one that is too long. */
void run_output_pass(struct run_output *o, int rank, int which, const char *line, size_t n);
/* Whether lines of that kind have nobody left to read them; whether others should wait until some are written. */
bool run_output_broken(const struct run_output *o, int which);
bool run_output_full(const struct run_output *o);
/* Something could not be written for another reason than that nobody reads it: a disk is full, say. */
bool run_output_lost(const struct run_output *o);
/* No more is read from the ranks' stdout (0) or stderr (1). */
void run_output_close(struct run_output *o, int which);
/* Where the output is framed: a frame of numbers. */
void run_output_frame(struct run_output *o, enum run_kind kind, const uint32_t *numbers, size_t n);

/* Room for run_output_fds entries is 4 * ranks + 2; returns how many were filled, one for each descriptor that is waited for:
 * poll(2) takes no more entries than a process may open descriptors. */
size_t run_output_fds(struct run_output *o, struct pollfd *fds);
/* Takes the entries that it filled in, after poll. */
void run_output_step(struct run_output *o, const struct pollfd *fds);

bool run_output_ended(const struct run_output *o); /* every stream has ended and all is written */
void run_output_cut(struct run_output *o);         /* no longer wait for writers that are silent */
void run_output_abandon(struct run_output *o);     /* throw away what is not written */

/* weft-run's own words, as a line of stderr: "weft-run: ..." */
void run_say(struct run_output *o, const char *format, ...) __attribute__((format(printf, 2, 3)));
#endif
