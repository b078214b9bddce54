/* capture.h - streams that capture: which do, what they record (graph.h), which calls that forbids to which
 * threads, and what spoils the capture.
 *
 * What cannot be queued again is refused with cudaErrorNotSupported, and so is nothing ever done as if it were
 * recorded. */
#ifndef EMULATION_CAPTURE_H
#define EMULATION_CAPTURE_H
#include "emulation.h"
#include "graph.h"

struct CUstream_st;
typedef struct emu__capture emu__capture;

/* A call that may wait, or that makes or frees memory, in this thread: the error while a capture forbids it,
 * which it spoils.  Takes the lock, if anything captures. */
cudaError_t emu__capture_forbids(void);

/* All below: under the lock. */

/* Work that cannot be captured is to be queued on the stream: the error where it captures, or must not be used
 * because of one that does. */
cudaError_t emu__capture_refuses(struct CUstream_st *stream);
/* Work that can be: *captured says that it is recorded, and the piece the graph's; there is no more to do then. */
cudaError_t emu__capture_takes(struct CUstream_st *stream, const emu__piece *piece, bool *captured);
/* The stream is to be waited for, or asked whether it has finished: the error in those cases. */
cudaError_t emu__capture_unseen(struct CUstream_st *stream);
cudaError_t emu__capture_device_unseen(int device);
/* An event is recorded on the stream: *in is the capture that it belongs to then; NULL: none. */
cudaError_t emu__capture_records(struct CUstream_st *stream, emu__capture **in);
/* The stream waits for an event that the stream in slot `from` recorded in this capture (NULL: in none);
 * *captured: there is no more to do. */
cudaError_t emu__capture_waits(struct CUstream_st *stream, emu__capture *of, int from, bool *captured);
#endif
