/* overview.h - what a job is made of, for the log: with WEFT_LOG=2, once, when all ranks have joined. */
#ifndef WEFT_RUNTIME_OVERVIEW_H
#define WEFT_RUNTIME_OVERVIEW_H
#include "context.h"
#include "rendezvous.h"
#include "transports.h"

typedef struct weft__overview {
    const weft__join *asked;
    bool secret_is_config;                  /* asked->secret is weft_config's, not WEFT_SECRET */
    const weft__transport_card *transports; /* where this rank can be reached */
    const int *first_of;                    /* for each rank, the first one of its host */
    int local_ranks;
} weft__overview;

/* Rank 0 tells about the job, the first rank of each host about the host, and each rank about its device; ten
 * lines where there is one host.  Engine not held. */
void weft__overview_tell(const weft_context *ctx, const weft__overview *overview);
bool weft__overview_wanted(void);
#endif
