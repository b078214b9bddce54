/* init.h - what the other makers of communicators share. */
#ifndef EMULATION_NCCL_INIT_H
#define EMULATION_NCCL_INIT_H
#include "group.h"

/* Within group_begin: its ranks are to meet at comm->id.  comm may be NULL: no memory. */
ncclResult_t init_queue(ncclComm_t comm, ncclComm_t *made, const char *function);
ncclResult_t init_on_current(ncclComm_t *comm, int ranks, const ncclUniqueId *id, int rank,
                             const ncclConfig_t *config, const char *function);
#endif
