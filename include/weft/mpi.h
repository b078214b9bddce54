/* mpi.h - join a Weft job over an MPI communicator.
 *
 *     MPI_Init(&argc, &argv);
 *     weft_bootstrap bootstrap;
 *     weft_config config = WEFT_CONFIG_INIT;
 *     weft_context *ctx;
 *     weft_mpi_bootstrap(MPI_COMM_WORLD, &bootstrap);   // collective
 *     config.bootstrap = &bootstrap;
 *     weft_init(&config, &ctx);                         // rank and size are the communicator's
 *     weft_mpi_bootstrap_free(&bootstrap);              // collective; MPI is not needed any more
 *
 * Header only: libweft knows no MPI, so one libweft serves every MPI that this is compiled with (mpicc, mpicxx).
 * Between hosts the job needs a secret as with any other way to join (weft_config.secret); MPI carries none of
 * it.  weft_last_error() tells nothing of the functions below; weft_mpi_bootstrap_error() does. */
#ifndef WEFT_MPI_H
#define WEFT_MPI_H

#include <limits.h>
#include <mpi.h>
#include <stdlib.h>
#include <weft/weft.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Private: a cast that neither language warns about. */
#ifdef __cplusplus
#define WEFT_MPI_AS(type, value) (static_cast<type>(value))
#else
#define WEFT_MPI_AS(type, value) ((type)(value))
#endif

/* Private: what weft_bootstrap.state points to. */
typedef struct weft_mpi_state {
    MPI_Comm comm; /* a duplicate: no message of the caller's is mistaken for ours */
    char error[MPI_MAX_ERROR_STRING];
} weft_mpi_state;

/* Private. */
static inline weft_status weft_mpi_checked(weft_mpi_state *s, int rc)
{
    int length;
    if (rc == MPI_SUCCESS) return WEFT_OK;
    if (MPI_Error_string(rc, s->error, &length) != MPI_SUCCESS) s->error[0] = '\0';
    return WEFT_ERR_SYSTEM;
}

/* Private: weft_bootstrap.all_gather. */
static inline weft_status weft_mpi_all_gather(void *state, const void *in, void *out, size_t bytes_each)
{
    weft_mpi_state *s = WEFT_MPI_AS(weft_mpi_state *, state);
    const int n = WEFT_MPI_AS(int, bytes_each);
    if (bytes_each > INT_MAX) return WEFT_ERR_ARGUMENT; /* MPI counts in int; joining gathers far less */
    return weft_mpi_checked(s, MPI_Allgather(in, n, MPI_BYTE, out, n, MPI_BYTE, s->comm));
}

/* Make a bootstrap whose ranks are those of `comm`: the world, or any other intracommunicator.  Collective over
 * comm, which is duplicated and not used later; errors of that one call go to comm's error handler (MPI's
 * default ends the program), later ones come back as WEFT_ERR_SYSTEM.  The bootstrap may serve any number of
 * weft_init, one after the other, from any thread that may call MPI.  Give it back with
 * weft_mpi_bootstrap_free; *bootstrap is written on success only.
 *
 * WEFT_ERR_ARGUMENT  bootstrap is NULL, comm is MPI_COMM_NULL or an intercommunicator
 * WEFT_ERR_STATE     MPI_Init has not been called, or MPI_Finalize has
 * WEFT_ERR_MEMORY    no memory for the state
 * WEFT_ERR_SYSTEM    an MPI call failed */
static inline weft_status weft_mpi_bootstrap(MPI_Comm comm, weft_bootstrap *bootstrap)
{
    int initialized = 0, finalized = 0, inter = 0;
    weft_bootstrap made;
    weft_mpi_state *s;
    if (!bootstrap || comm == MPI_COMM_NULL) return WEFT_ERR_ARGUMENT;
    if (MPI_Initialized(&initialized) != MPI_SUCCESS || MPI_Finalized(&finalized) != MPI_SUCCESS)
        return WEFT_ERR_SYSTEM;
    if (!initialized || finalized) return WEFT_ERR_STATE;
    if (MPI_Comm_test_inter(comm, &inter) != MPI_SUCCESS) return WEFT_ERR_SYSTEM;
    if (inter) return WEFT_ERR_ARGUMENT;
    s = WEFT_MPI_AS(weft_mpi_state *, calloc(1, sizeof *s));
    if (!s) return WEFT_ERR_MEMORY;
    made.state = s;
    made.all_gather = weft_mpi_all_gather;
    if (MPI_Comm_dup(comm, &s->comm) != MPI_SUCCESS) {
        free(s);
        return WEFT_ERR_SYSTEM;
    }
    if (MPI_Comm_set_errhandler(s->comm, MPI_ERRORS_RETURN) != MPI_SUCCESS ||
        MPI_Comm_rank(s->comm, &made.rank) != MPI_SUCCESS ||
        MPI_Comm_size(s->comm, &made.world_size) != MPI_SUCCESS) {
        MPI_Comm_free(&s->comm);
        free(s);
        return WEFT_ERR_SYSTEM;
    }
    *bootstrap = made;
    return WEFT_OK;
}

/* What MPI said of the last failure in this bootstrap's all_gather, "" if there was none.  Valid until
 * weft_mpi_bootstrap_free. */
static inline const char *weft_mpi_bootstrap_error(const weft_bootstrap *bootstrap)
{
    return WEFT_MPI_AS(const weft_mpi_state *, bootstrap->state)->error;
}

/* Give back what weft_mpi_bootstrap made, once no weft_init uses it: contexts live on without it.  Collective
 * over the communicator, before MPI_Finalize.  WEFT_ERR_STATE after it (the memory is freed all the same);
 * WEFT_ERR_SYSTEM: MPI could not free the duplicate.  A bootstrap freed already: WEFT_OK. */
static inline weft_status weft_mpi_bootstrap_free(weft_bootstrap *bootstrap)
{
    weft_mpi_state *s = bootstrap ? WEFT_MPI_AS(weft_mpi_state *, bootstrap->state) : NULL;
    int finalized = 0;
    weft_status status = WEFT_OK;
    if (!s) return WEFT_OK;
    if (MPI_Finalized(&finalized) != MPI_SUCCESS || finalized)
        status = WEFT_ERR_STATE;
    else if (MPI_Comm_free(&s->comm) != MPI_SUCCESS)
        status = WEFT_ERR_SYSTEM;
    free(s);
    bootstrap->state = NULL;
    bootstrap->all_gather = NULL;
    return status;
}

#undef WEFT_MPI_AS

#ifdef __cplusplus
}
#endif
#endif /* WEFT_MPI_H */
