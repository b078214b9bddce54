/* transfer.c - moves what can be moved, and sleeps when nothing can.
 *
 * A frame that is not what was expected is the misuse that NCCL would hang on or compute nonsense from: ranks
 * that call different operations, or one by which each reaches into the others' memory at its own offset.  It is told with both ranks' names; then this end hangs, as NCCL would. */
#include "transfer.h"
#include "type.h"

#include <stdio.h>
#include <string.h>

enum { NAP_MS = 50, DESCRIBED = 320, OFFSETS = 96 };

_Static_assert(sizeof(frame) == 56, "frames are compared as bytes");

frame frame_of(const task *t, uint64_t number)
{
    bool is_pair = t->kind >= TASK_SEND;

    return (frame){
        .kind = is_pair ? TASK_SEND : t->kind,
        .type = (uint32_t)t->type,
        .number = number,
        .count = t->count,
        .reduction = (uint32_t)t->how.kind,
        .root = is_pair ? 0 : t->peer,
        .index = t->index,
        .of = t->of,
        .send_offset = t->send_offset,
        .recv_offset = t->recv_offset,
    };
}

/* Two ranks may differ in this alone. */
static const char *describe_offsets(const frame *f, char text[OFFSETS])
{
    if (!f->send_offset && !f->recv_offset) return "";
    snprintf(text, OFFSETS, ", offsets in windows %lld and %lld (-1: in none)", (long long)f->send_offset - 1,
             (long long)f->recv_offset - 1);
    return text;
}

static const char *describe(const frame *f, bool other_end, char text[DESCRIBED])
{
    static const char *const names[] = {"ncclAllReduce",     "ncclBroadcast", "ncclReduce", "ncclAllGather",
                                        "ncclReduceScatter", "ncclAlltoAll",  "ncclGather", "ncclScatter"};
    const char *type = type_name((int)f->type);
    unsigned long long number = f->number, count = f->count;
    char offsets[OFFSETS];
    bool reduces = f->kind == TASK_ALL_REDUCE || f->kind == TASK_REDUCE || f->kind == TASK_REDUCE_SCATTER;

    if (f->kind >= TASK_SEND)
        snprintf(text, DESCRIBED, "%s #%llu between them (%llu %s)", other_end ? "ncclSend" : "ncclRecv",
                 number, count, type);
    else
        snprintf(text, DESCRIBED, "%s, collective #%llu (%llu %s, %s%sroot %d, %u of %u in its group call%s)",
                 names[f->kind], number, count, type, reduces ? reduce_name((int)f->reduction) : "",
                 reduces ? ", " : "", f->root, f->index + 1, f->of, describe_offsets(f, offsets));
    return text;
}

static void tell_difference(ncclComm_t comm, const transfer *t, const frame *came)
{
    char own[DESCRIBED], other[DESCRIBED];

    emu_misuse("%s: the ranks call different operations: rank %d is in %s, but rank %d sends it %s",
               comm->name, comm->rank, describe(&t->head, false, own), t->peer, describe(came, true, other));
}

/* True: the frame has been sent, or has come and is the right one. */
static bool move_frame(ncclComm_t comm, transfer *t, ring *r)
{
    frame came;

    if (t->sends) {
        if (ring_room(r) < sizeof t->head) return false;
        ring_write(r, &t->head, sizeof t->head);
    } else {
        if (ring_filled(r) < sizeof came) return false;
        ring_read(r, &came, sizeof came);
        if (memcmp(&came, &t->head, sizeof came) != 0) {
            t->differs = true;
            tell_difference(comm, t, &came);
            return false;
        }
    }
    t->framed = false;
    return true;
}

/* True: it is done. */
static bool move(ncclComm_t comm, transfer *t, bool *moved)
{
    ring *r = t->sends ? segment_ring(comm->segment, comm->rank, t->peer)
                       : segment_ring(comm->segment, t->peer, comm->rank);
    bool any = false;

    if (t->differs) return false;
    if (t->framed) {
        if (!move_frame(comm, t, r)) return false;
        any = true;
    }
    if (t->moved < t->bytes) {
        size_t left = t->bytes - t->moved;
        size_t n = t->sends ? ring_write(r, t->at + t->moved, left) : ring_read(r, t->at + t->moved, left);
        t->moved += n;
        any |= n > 0;
    }
    if (any) {
        bell_strike(&comm->segment->members[t->peer].bell);
        *moved = true;
    }
    return t->moved == t->bytes;
}

bool transfers_run(ncclComm_t comm, transfer **lanes, int count)
{
    bell *own = &comm_self(comm)->bell;

    while (!atomic_load(&comm->aborted)) {
        uint32_t seen = bell_strokes(own);
        bool moved = false;
        int left = 0;
        for (int i = 0; i < count; i++) {
            while (lanes[i] && move(comm, lanes[i], &moved)) lanes[i] = lanes[i]->next;
            left += lanes[i] != NULL;
        }
        if (!left) return true;
        if (!moved) bell_wait(own, seen, NAP_MS);
    }
    return false;
}
