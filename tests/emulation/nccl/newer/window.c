/* window.c - buffers that all ranks register together, from NCCL 2.27 on. */
#include "alias.h"
#include "board.h"
#include "buffer.h"
#include "group.h"
#include "version.h"

#include <stdlib.h>

#ifdef NCCL_WIN_DEFAULT
typedef struct window_job {
    job base;
    void *at;
    size_t bytes;
    ncclWindow_t *made;
    int flags;
} window_job;

/* Collective: every rank brings as much. */
static ncclResult_t run_window(job *j)
{
    window_job *w = (window_job *)j;
    board_note note = {.function = "ncclCommWindowRegister", .values = {w->flags}, .bytes = w->bytes};
    board_note all[SEGMENT_RANKS_MAX];
    ncclResult_t result = comm_enter(j->comm, j->function);
    comm_buffer *made;

    if (!result) result = board_exchange(j->comm, &note, all, NULL);
    for (int r = 0; !result && r < j->comm->ranks; r++)
        if (all[r].bytes != w->bytes || all[r].values[0] != w->flags) {
            emu_misuse(
                "%s: ncclCommWindowRegister of %zu bytes, flags %d, on rank %d, but of %llu, flags %d, on "
                "rank %d",
                j->comm->name, w->bytes, w->flags, j->comm->rank, (unsigned long long)all[r].bytes,
                all[r].values[0], r);
            result = fail(ncclInvalidUsage, "ncclCommWindowRegister: the ranks bring different buffers");
        }
    if (result) return result;
    made = buffer_add(j->comm, w->at, w->bytes, true, j->function);
    if (!made) return fail(ncclSystemError, "no memory");
    made->symmetric = w->flags & NCCL_WIN_COLL_SYMMETRIC;
    *w->made = (ncclWindow_t)(void *)made;
    return ncclSuccess;
}

static ncclResult_t queue_window(ncclComm_t comm, void *at, size_t bytes, ncclWindow_t *made, int flags)
{
    window_job *w = calloc(1, sizeof *w);

    if (!w) return fail(ncclSystemError, "no memory");
    *w = (window_job){.base = {.run = run_window, .function = "ncclCommWindowRegister", .comm = comm},
                      .at = at,
                      .bytes = bytes,
                      .made = made,
                      .flags = flags};
    comm_hold(comm);
    group_add_comm(comm);
    return group_add_job(&w->base);
}

ncclResult_t ncclCommWindowRegister(ncclComm_t comm, void *buff, size_t size, ncclWindow_t *win, int winFlags)
{
    const char *function = "ncclCommWindowRegister";
    ncclResult_t result = version_check(function, 22700), ended;

    if (!result) result = comm_check_ready(comm, function);
    if (!result) result = comm_claim(comm, function);
    if (result) return group_note(result);
    group_begin();
    if (!win)
        result = fail(ncclInvalidArgument, "%s: win is NULL", function);
    else if (winFlags & ~NCCL_WIN_COLL_SYMMETRIC)
        result = fail(ncclInvalidArgument, "%s: flags %d", function, winFlags);
    else
        result = buffer_check(comm, buff, size, function);
    if (!result && !buffer_from_nccl(buff)) /* before the ranks meet, so that the others wait for this one */
        result = fail(ncclUnhandledCudaError, "%s: cuMemRetainAllocationHandle: %p is not of ncclMemAlloc",
                      function, buff);
    if (!result) result = queue_window(comm, buff, size, win, winFlags);
    comm_end(comm);
    group_note(result);
    ended = group_end_silent();
    return result ? result : ended;
}
ALIAS(ncclCommWindowRegister)

ncclResult_t ncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t win)
{
    const char *function = "ncclCommWindowDeregister";
    ncclResult_t result = version_check(function, 22700);

    if (!result) result = comm_begin(comm, function);
    if (result) return result;
    if (win) result = buffer_remove(comm, win, true, function);
    comm_end(comm);
    return result;
}
ALIAS(ncclCommWindowDeregister)
#endif
