/* module.c - the seam: opens and closes what one context has of MPI.
 *
 * Fails: weft_backend_open, with one sentence: another version of the seam, another MPI than the one that this was
 * built for, no mpirun, or too low a level of threads (job.c). */
#include "mpi_module.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

__attribute__((visibility("default"))) weft_backend_open_fn weft_backend_open;

static weft_status refuse(const weft__mpi *mpi, const weft_backend_operation *op, const char *why)
{
    char text[WEFT__MPI_SENTENCE];
    snprintf(text, sizeof text, "%s: %s", op->name, why);
    return mpi->runtime->fail(WEFT_ERR_UNSUPPORTED, text);
}

/* What is refused here the library carries out itself. */
static weft_status check(weft_backend *backend, const weft_backend_operation *op)
{
    const weft__mpi *mpi = weft__mpi_of(backend);
    const char *why =
        weft__mpi_is_reduction(op->kind) ? weft__mpi_reduces(mpi, op->dtype, op->reduction) : NULL;
    if (op->kind == WEFT_BACKEND_BARRIER || op->kind >= WEFT_BACKEND_ISEND)
        why = "MPI is given collectives that move data, nothing else";
    if (!why && !op->uneven && op->count > INT_MAX / weft__mpi_element(op->dtype))
        why = "blocks of 2 GiB and more are not for MPI, which counts in int";
    return why ? refuse(mpi, op, why) : WEFT_OK;
}

static const char *describe(weft_backend *backend)
{
    (void)backend;
    return weft__mpi_name();
}

/* MPI_Finalize would wait for who has died. */
static void abandon(weft_backend *backend)
{
    weft__mpi_of(backend)->abandoned = true;
}

static void close_backend(weft_backend *backend)
{
    weft__mpi *mpi = weft__mpi_of(backend);
    bool ended = mpi->asked || weft__mpi_comms_outwait(mpi);
    if (!mpi->asked) {
        weft__mpi_comms_tidy(mpi);
        weft__mpi_leave(ended && weft__mpi_end_endless(mpi) && !mpi->abandoned);
    }
    if (!ended) {
        mpi->runtime->log(1, "a call of MPI has not come back: it and its communicator are left behind");
        return; /* the thread may come back to it */
    }
    pthread_cond_destroy(&mpi->changed);
    pthread_mutex_destroy(&mpi->lock);
    weft__mpi_runnings_free(mpi);
    free(mpi);
}

static const weft_backend slots = {.version = WEFT_BACKEND_VERSION,
                                   .name = "mpi",
                                   .memory = WEFT_MEMORY_HOST,
                                   .device = -1,
                                   .id_bytes = sizeof(uint64_t),
                                   .unstoppable = true,
                                   .independent = true,
                                   .lingers = true,
                                   .check = check,
                                   .open = weft__mpi_comm_open,
                                   .members = weft__mpi_comm_members,
                                   .join = weft__mpi_comm_join,
                                   .doom = weft__mpi_comm_doom,
                                   .drop = weft__mpi_comm_drop,
                                   .start = weft__mpi_start,
                                   .poll = weft__mpi_poll,
                                   .describe = describe,
                                   .abandon = abandon,
                                   .close = close_backend};

static void cond_init(pthread_cond_t *cond)
{
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(cond, &attributes);
    pthread_condattr_destroy(&attributes);
}

weft_backend *weft_backend_open(const weft_backend_runtime *runtime, const weft_backend_place *place,
                                const char **why)
{
    const char *order = getenv("WEFT_REDUCE");
    weft__mpi *mpi;
    uint64_t address = 0;
    *why = "it is made for another version of this library";
    if (runtime->version != WEFT_BACKEND_VERSION) return NULL;
    *why = weft__mpi_enter(place, &address);
    if (*why) return NULL;
    mpi = calloc(1, sizeof *mpi);
    if (!mpi) {
        *why = "no memory";
        if (place) weft__mpi_leave(true);
        return NULL;
    }
    mpi->seam = slots;
    mpi->seam.address = address;
    mpi->seam.any_thread = weft__mpi_is_ours(); /* else the program's calls may hold up MPI's */
    mpi->runtime = runtime;
    mpi->asked = !place;
    mpi->rank_order = order && !strcmp(order, "rank_order");
    mpi->end = &mpi->first;
    mpi->endless = MPI_REQUEST_NULL;
    pthread_mutex_init(&mpi->lock, NULL);
    cond_init(&mpi->changed);
    return &mpi->seam;
}
