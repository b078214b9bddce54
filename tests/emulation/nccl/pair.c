/* pair.c - messages between pairs: Send, Recv, and what NCCL makes of them (AlltoAll, Gather, Scatter).
 *
 * All those of one kernel progress together, in the order of their calls per peer and direction.  A message
 * of up to a ring's bytes leaves without its receiver, a larger one waits for it. */
#include "transfer.h"
#include "type.h"

#include <stdlib.h>
#include <string.h>

typedef struct pairs {
    ncclComm_t comm;
    transfer **lanes; /* per peer: out, in */
    transfer ***ends;
    bool whole;
} pairs;

static void add(pairs *p, const task *t, int peer, bool sends, const void *at)
{
    transfer *made = calloc(1, sizeof *made);
    int lane = 2 * peer + (sends ? 0 : 1);
    uint64_t *messages = sends ? p->comm->sent : p->comm->received;

    if (!made) {
        p->whole = false;
        return;
    }
    made->peer = peer;
    made->sends = sends;
    made->framed = true;
    made->head = frame_of(t, t->kind >= TASK_SEND ? ++messages[peer] : t->number);
    made->at = (char *)(uintptr_t)at;
    made->bytes = t->count * type_bytes(t->type);
    *p->ends[lane] = made;
    p->ends[lane] = &made->next;
}

/* A collective's message to or from each; a rank's own is copied. */
static void add_collective(pairs *p, const task *t)
{
    int self = p->comm->rank;
    size_t bytes = t->count * type_bytes(t->type);
    bool sends_all = t->kind == TASK_ALL_TO_ALL || (t->kind == TASK_SCATTER && t->peer == self);
    bool receives_all = t->kind == TASK_ALL_TO_ALL || (t->kind == TASK_GATHER && t->peer == self);
    const char *send = emu_host_view(t->send);
    char *recv = emu_host_view(t->recv);

    for (int r = 0; r < p->comm->ranks; r++) {
        bool sends = sends_all || (t->kind == TASK_GATHER && r == t->peer);
        bool receives = receives_all || (t->kind == TASK_SCATTER && r == t->peer);
        const char *from = sends_all ? send + (size_t)r * bytes : send;
        char *to = receives_all ? recv + (size_t)r * bytes : recv;
        if (r == self) {
            if ((sends || receives) && from != to) memmove(to, from, bytes);
            continue;
        }
        if (sends) add(p, t, r, true, from);
        if (receives) add(p, t, r, false, to);
    }
}

static void add_task(pairs *p, const task *t)
{
    if (t->kind == TASK_SEND)
        add(p, t, t->peer, true, emu_host_view(t->send));
    else if (t->kind == TASK_RECV)
        add(p, t, t->peer, false, emu_host_view(t->recv));
    else if (t->kind >= TASK_ALL_TO_ALL)
        add_collective(p, t);
}

bool pairs_run(ncclComm_t comm, task *tasks)
{
    size_t count = 2 * (size_t)comm->ranks;
    transfer **lanes =
        calloc(3 * count, sizeof *lanes); /* to be emptied; the same, to be freed; their ends */
    pairs p = {comm, lanes, (transfer ***)(lanes + 2 * count), lanes != NULL};

    if (!lanes) return false;
    for (size_t i = 0; i < count; i++) p.ends[i] = &lanes[i];
    for (task *t = tasks; t; t = t->next) add_task(&p, t);
    memcpy(lanes + count, lanes, count * sizeof *lanes);
    p.whole = p.whole && transfers_run(comm, lanes, (int)count);
    for (size_t i = count; i < 2 * count; i++)
        while (lanes[i]) {
            transfer *next = lanes[i]->next;
            free(lanes[i]);
            lanes[i] = next;
        }
    free(lanes);
    return p.whole;
}
