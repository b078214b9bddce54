/* launcher.h - who started this process as a rank: env:// read from the environment of weft-run, torchrun,
 * mpirun (Open MPI; hydra, which MPICH and Intel MPI use), srun, or whoever has set RANK and WORLD_SIZE by
 * hand.
 *
 * Ranks that were all started on one host meet in the job directory, under a name that their launcher's
 * process and its job id make: two starts at once never meet.  Over several hosts, and for ranks set by hand,
 * MASTER_ADDR and MASTER_PORT tell the place, or CUPYX_DISTRIBUTED_HOST and _PORT.  Pure text, getenv and /proc. */
#ifndef WEFT_NET_JOIN_LAUNCHER_H
#define WEFT_NET_JOIN_LAUNCHER_H
#include "url.h"

/* Fills in what url has not got yet: rank and world size (-1), and the place.  ERR_ARGUMENT names the
 * variable that is missing or wrong, and what was expected. */
weft_status weft__launcher_read(weft__url *url);
/* As it stands in sentences, "Open MPI's mpirun"; NULL: this process was not started as a rank. */
const char *weft__launcher_name(void);
#endif
