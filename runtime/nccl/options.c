/* options.c - see options.h.
 *
 * Happy path: the communicator keeps a copy from its opening on, and each configuration that NCCL is given for it, that of a
 * part and of a split too, is filled in from there.  Fails: what the NCCL that runs, or that whose header this module
 * was built with, does not know, before anything is made. */
#include "options.h"

#include <stdio.h>
#include <string.h>
#include <weft/cuda.h>

#define TRAFFIC_CLASS_SINCE 22600 /* all else is older than the oldest NCCL that is taken */

weft_status weft__options_may(weft_backend *backend, const struct weft_nccl_options *options)
{
    const weft__nccl *nccl = weft__nccl_of(backend);
    int version = nccl->version < NCCL_VERSION_CODE ? nccl->version : NCCL_VERSION_CODE;
    if (!options->traffic_class || version >= TRAFFIC_CLASS_SINCE) return WEFT_OK;
    return weft__nccl_fail(
        nccl, WEFT_ERR_UNSUPPORTED,
        "nccl_configure: traffic_class is %d: NCCL %d.%d%s has none, expected 2.26 or later",
        options->traffic_class, version / 10000, version / 100 % 100,
        version < nccl->version ? ", which this module was built for," : "");
}

void weft__options_set(weft__comm *comm, const struct weft_nccl_options *options)
{
    comm->options = *options;
    if (!options->net_name) return;
    snprintf(comm->net_name, sizeof comm->net_name, "%s", options->net_name);
    comm->options.net_name = comm->net_name;
}

static void say(int option, int *field)
{
    if (option) *field = option == WEFT_NCCL_ZERO ? 0 : option;
}

void weft__options_apply(const weft__comm *comm, ncclConfig_t *config)
{
    const weft_nccl_options *options = &comm->options;
    say(options->min_ctas, &config->minCTAs);
    say(options->max_ctas, &config->maxCTAs);
    if (options->max_ctas && !options->min_ctas) config->minCTAs = 1; /* NCCL takes both or neither */
    say(options->cga_cluster_size, &config->cgaClusterSize);
    if (options->net_name) config->netName = options->net_name; /* NCCL keeps the pointer, as of the label */
#if NCCL_VERSION_CODE >= TRAFFIC_CLASS_SINCE
    say(options->traffic_class, &config->trafficClass);
#endif
}

int weft__options_priority(const weft__comm *comm, int least, int most)
{
    return comm->options.stream_priority < least - most ? most + comm->options.stream_priority : least;
}
