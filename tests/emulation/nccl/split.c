/* split.c - ncclCommSplit: all ranks of the parent show color and key; those of one color meet at a place
 * that is derived from the parent's.  A rank without color gets NULL, but takes part.  Nothing may run on the
 * parent.  The handle of what is made is written when it is whole, and until then only the parent's abort
 * reaches it. */
#include "alias.h"
#include "board.h"
#include "group.h"

#include <stdlib.h>
#include <string.h>

typedef struct split_job {
    job base;
    ncclComm_t parent; /* takes part in the group call too, which holds it */
    ncclComm_t *to;
    int color, key;
} split_job;

/* Rank and size of the new communicator: by key, then by rank in the parent. */
static void find_place(const split_job *s, const board_note *all)
{
    ncclComm_t made = s->base.comm;

    made->rank = made->ranks = 0;
    for (int r = 0; r < s->parent->ranks; r++) {
        int color = all[r].values[0], key = all[r].values[1];
        if (color != s->color) continue;
        made->ranks++;
        made->rank += key < s->key || (key == s->key && r < s->parent->rank);
    }
}

static ncclResult_t run_split(job *j)
{
    split_job *s = (split_job *)j;
    board_note note = {.function = "ncclCommSplit", .values = {s->color, s->key}}, all[SEGMENT_RANKS_MAX];
    ncclResult_t result = comm_enter(s->parent, j->function);

    if (!result) result = board_exchange(s->parent, &note, all, &j->comm->aborted);
    if (!result && s->color != NCCL_SPLIT_NOCOLOR) {
        uint64_t about[3] = {1, s->parent->notices, (uint64_t)s->color};
        find_place(s, all);
        j->comm->id = meeting_id_derive(&s->parent->id, about, sizeof about);
        comm_set_part(s->parent, j->comm);
        result = comm_meet(j->comm);
        comm_set_part(s->parent, NULL);
        if (!result) job_hand_out(j, s->to);
    }
    return result;
}

static ncclResult_t queue_split(ncclComm_t parent, int color, int key, ncclComm_t *made,
                                const ncclConfig_t *config)
{
    ncclResult_t busy = comm_check_idle(parent, "ncclCommSplit");
    split_job *s = busy ? NULL : calloc(1, sizeof *s);
    ncclComm_t child = s ? comm_new(0, 1, parent->device, config, parent) : NULL;

    if (busy) return busy;
    if (!child) {
        free(s);
        return fail(ncclSystemError, "no memory");
    }
    *s = (split_job){.base = {.run = run_split, .function = "ncclCommSplit", .comm = child, .governed = true},
                     .parent = parent,
                     .to = made,
                     .color = color,
                     .key = key};
    *made = NULL;
    group_add_comm(parent);
    return group_add_job(&s->base);
}

ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t *newcomm, ncclConfig_t *config)
{
    ncclResult_t result = comm_check_ready(comm, "ncclCommSplit"), ended;

    if (!result) result = comm_claim(comm, "ncclCommSplit");
    if (result) return group_note(result);
    group_begin();
    if (!newcomm)
        result = fail(ncclInvalidArgument, "ncclCommSplit: newcomm is NULL");
    else if (color < NCCL_SPLIT_NOCOLOR)
        result = fail(ncclInvalidArgument, "ncclCommSplit: color %d", color);
    else if (!config_check(config))
        result = fail(ncclInvalidArgument, "ncclCommSplit: invalid config");
    else if (atomic_load(&comm->state) == COMM_FINALIZED)
        result = fail(ncclInvalidUsage, "ncclCommSplit: %s was finalized", comm->name);
    else
        result = queue_split(comm, color, key, newcomm, config);
    comm_end(comm);
    group_note(result);
    ended = group_end_silent();
    return result ? result : ended;
}
ALIAS(ncclCommSplit)
