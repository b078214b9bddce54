/* owed.c - a program that calls no MPI: once a rank's collective is over it waits for the library's own operations alone, so
 * nobody in it calls MPI.  Another rank's may still need an acknowledgement that MPI here has not sent yet; with
 * UCX_SYSV_FIFO_SIZE=2 and UCX_RNDV_THRESH=1024 MPICH over UCX owes one within some hundred rounds. */
#include <stdio.h>
#include <stdlib.h>
#include <weft/weft.h>

enum { ROUNDS = 300, BYTES = 20000, TIME_MS = 20000 };

static void check(weft_status status)
{
    if (status == WEFT_OK) return;
    fprintf(stderr, "%s\n", weft_last_error());
    _Exit(1); /* MPI_Finalize would wait for what is owed */
}

int main(void)
{
    weft_config config = WEFT_CONFIG_INIT;
    const weft_call call = {.timeout_ms = TIME_MS};
    weft_context *ctx = NULL;
    weft_group *world;
    unsigned char *in, *out;
    size_t size;
    config.backends = "mpi";
    check(weft_init(&config, &ctx));
    world = weft_world(ctx);
    size = (size_t)weft_group_size(world);
    in = calloc(size, BYTES);
    out = calloc(size, BYTES);
    if (!in || !out) return 1;
    for (int i = 0; i < ROUNDS; i++) {
        check(weft_all_to_all(world, in, out, BYTES, WEFT_UINT8, &call, NULL));
        check(weft_barrier(world, &call, NULL));
    }
    check(weft_finalize(ctx, WEFT_FOREVER));
    free(in);
    free(out);
    puts("nothing owed");
    return 0;
}
