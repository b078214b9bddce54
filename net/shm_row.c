/* shm_row.c - the row of the transport in shared memory.  Fails: where a limit on the size of files forbids the
 * segment. */
#include "shm.h"
#include "transports.h"

/* That a rank has an address says that it may; who shares a segment is found out without one. */
static weft_status shm_offer(const weft__transport_site *site, weft__transport_address *own, void **held)
{
    (void)held;
    own->length = 1;
    return weft__segment_check(site->world, site->arena);
}

static bool shm_reaches(const weft__transport_site *site, int rank, const weft__transport_address *theirs)
{
    (void)theirs;
    return site->segment && site->local_of[rank] >= 0;
}

static weft_status shm_open(const weft__transport_site *site, const weft__transport_address *addresses,
                            void *held, weft__transport **transport)
{
    (void)addresses;
    (void)held;
    return weft__shm_open(site->segment, site->local_of, site->world, site->crowded, site->sink, transport);
}

const weft__transport_row weft__transport_shm = {.name = "shm",
                                                 .title = "shared memory",
                                                 .traits = WEFT__TRANSPORT_LOCAL | WEFT__TRANSPORT_ORDERED,
                                                 .without = "shares no memory with its host",
                                                 .offer = shm_offer,
                                                 .reaches = shm_reaches,
                                                 .open = shm_open};
