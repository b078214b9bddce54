/* meet.h - how the ranks of a new communicator find each other, and agree that they fit together.
 *
 * The unique id is the name of an abstract Unix socket, which rank 0 opens.  The others say there who they
 * are; rank 0 judges, and gives each the descriptor of the shared segment, or the reason why not. */
#ifndef EMULATION_NCCL_MEET_H
#define EMULATION_NCCL_MEET_H
#include "error.h"
#include "segment.h"

#include <stdatomic.h>

typedef struct meeting_id {
    uint64_t kind; /* MEETING_ID: what is not made by ncclGetUniqueId is refused */
    uint64_t name[2];
} meeting_id;

enum { MEETING_ID = 0x77656674 };

typedef struct meeting {
    meeting_id id;
    int rank, ranks, device;
    const atomic_bool *aborted; /* ends it with ncclInternalError */
} meeting;

/* Blocks until all have come. */
ncclResult_t meet(const meeting *asked, segment **made);

ncclResult_t meeting_id_read(const ncclUniqueId *id, meeting_id *read);
/* All who say the same about the same parent get one id. */
meeting_id meeting_id_derive(const meeting_id *parent, const void *about, size_t bytes);
#endif
