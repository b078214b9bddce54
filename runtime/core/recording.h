/* recording.h - the flight recorder of a context: where its file lies, and what becomes of it. */
#ifndef WEFT_RUNTIME_RECORDING_H
#define WEFT_RUNTIME_RECORDING_H
#include "context.h"
#include "record_file.h"

#include <limits.h>

#define WEFT__DUMP_PATH_BYTES (PATH_MAX + 64)

typedef struct weft__recording {
    char folder[PATH_MAX], name[WEFT__RECORD_NAME_BYTES];
    int folder_fd;                    /* -1: the job's directory, which others hold */
    const char *job_dir, *run;        /* the rendezvous's */
    char dump[WEFT__DUMP_PATH_BYTES]; /* watchdog thread: where the first failure is told of; "": nowhere */
} weft__recording;

/* Once rank, world and directory are known.  Where there can be none the context goes without, and the log says why. */
void weft__recording_open(weft_context *ctx, const char *job);
/* The rank has left the job: its file stays if something has failed, else it goes; its memory stays. */
void weft__recording_leave(weft_context *ctx);
void weft__recording_close(weft_context *ctx); /* nobody writes any more */
#endif
