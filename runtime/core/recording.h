/* recording.h - the flight recorder of a context: where its file lies, and what becomes of it. */
#ifndef WEFT_RUNTIME_RECORDING_H
#define WEFT_RUNTIME_RECORDING_H
#include "context.h"
#include "record_file.h"

#include <limits.h>

#define WEFT__DUMP_PATH_BYTES (PATH_MAX + 64)
#define WEFT__DUMP_WAIT_NS    (500 * WEFT__MS) /* for another rank to read, and for a file to be written then */
/* Before the records are read for a rank that has gone: reading takes a processor for milliseconds, in which those to whom it is
 * still to be told on this host would wait for it. */
#define WEFT__DUMP_PAUSE_NS (2 * WEFT__MS)

typedef struct weft__recording {
    char folder[PATH_MAX], name[WEFT__RECORD_NAME_BYTES];
    _Atomic int place;    /* of this host among those of the job (dump.h) */
    int folder_fd;        /* -1: the job's directory, which others hold */
    _Atomic bool cleaned; /* what others have left: the lowest rank of each host sees to it */
    const char *run;      /* the rendezvous's */
    const char *dump_dir; /* where dumps go */
} weft__recording;

/* Once rank, world and directory are known.  Where there can be none the context goes without, and the log says why. */
void weft__recording_open(weft_context *ctx, const char *job);
/* All ranks are there, and it is known where they are. */
void weft__recording_met(weft_context *ctx);
/* The rank has left the job: its file stays if something has failed, else it goes; its memory stays. */
void weft__recording_leave(weft_context *ctx);
void weft__recording_close(weft_context *ctx); /* nobody writes any more */
/* What a record needs now and then, and what dead runs and jobs have left: progress thread, when it rests. */
void weft__recording_tend(weft_context *ctx);
/* Puts "; recorded in FILE" behind a sentence about a failure, if there is room, and if its dump has been asked for and
 * not failed: the file may be late (weft__recording_await).  Any thread. */
void weft__recording_where(const weft_context *ctx, char *text, size_t bytes);
/* A call that waits is about to give a failure back: the dump that has been asked for is waited for until it is written,
 * for WEFT__DUMP_WAIT_NS and timeout_ms at most, so that whoever ends its process then, however that is, does not take the
 * dump along.  Not in a callback. */
void weft__recording_await(weft_context *ctx, int64_t timeout_ms);
/* False: its state is another one by now. */
bool weft__dumping_to(weft_context *ctx, weft__dumping_state from, weft__dumping_state to);
#endif
