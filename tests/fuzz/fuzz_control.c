/* What other ranks tell a rank's runtime: control messages, notices, frames of messages; in any order, mixed
 * with what the rank's own program does.
 *
 * An input is a list of steps (enum step), each with what it needs behind it; an input that ends early goes
 * on with zeros.  The rank is 3 of 5 and shares memory with 1.  Its threads do not run and its wires lead
 * nowhere, so the same input does the same thing every time.  After each step all requests and groups must be
 * in a state that the public header knows. */
#include "device_comm.h"
#include "engine.h"
#include "executors.h"
#include "fuzz.h"
#include "group.h"
#include "group_break.h"
#include "lone_rank.h"
#include "order.h"
#include "peer.h"
#include "protocol.h"
#include "slot_tree.h"
#include "slots.h"
#include "straggler.h"
#include "watchdog.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    WORLD = LONE_WORLD,
    ME = LONE_ME,
    NEAR = LONE_NEAR,
    REQUESTS = 8,
    GROUPS = 6,
    ECHOES = 8,
    COUNT = 512 * 1024,
    PAYLOAD_MOST = 4096,
    ID_BYTES = 1000
};

size_t fuzz_reached; /* requests that settled and groups that broke over what others told */

enum step { TELL, NOTICE, ECHO, FRAME, SUBMIT, CANCEL, ABORT, GONE, TICKET, LINK, ROW, SLOT, STEPS };

typedef struct input {
    const uint8_t *at;
    size_t left;
} input;

/* What this rank has told another one: told back, changed, it gets further than anything made up. */
typedef struct echo {
    int type;
    size_t length;
    unsigned char bytes[PAYLOAD_MOST];
} echo;

static struct {
    weft_context *ctx;
    weft_request *requests[REQUESTS];
    bool settled[REQUESTS];
    int request_count;
    weft_group *groups[GROUPS]; /* the world, that of the ranks of this host, and those made since */
    bool broken[GROUPS];
    int group_count;
    echo echoes[ECHOES];
    unsigned echo_count;
    weft__ticket ticket;
    weft__segment *near; /* of the rank that shares memory */
    uint64_t near_slots; /* 0: it has told of none */
} rank;

static char buffers[REQUESTS][2][COUNT];

static uint64_t take(input *in, size_t bytes)
{
    uint64_t number = 0;
    for (size_t i = 0; i < bytes && in->left; i++, in->at++, in->left--) number |= (uint64_t)*in->at << 8 * i;
    return number;
}

/* One byte, -128 to 127. */
static int take_signed(input *in)
{
    const int number = (int)take(in, 1);
    return number < 128 ? number : number - 256;
}

/* The next n bytes over what is there. */
static void take_over(input *in, unsigned char *to, size_t n)
{
    if (n > in->left) n = in->left;
    if (n) memcpy(to, in->at, n);
    in->at += n;
    in->left -= n;
}

/* ---- the rank ---- */

static void keep_sent(const weft__outgoing *out)
{
    echo *e;
    if (out->frame.kind != WEFT__FRAME_CONTROL || out->frame.length > PAYLOAD_MOST) return;
    e = &rank.echoes[rank.echo_count++ % ECHOES];
    e->type = out->frame.tag;
    e->length = out->frame.length;
    memcpy(e->bytes, out->payload, out->frame.length);
}

static weft_status owns_nothing(weft_backend *backend, const void *pointer, bool *owned)
{
    (void)backend;
    (void)pointer;
    *owned = false;
    return WEFT_OK;
}

static weft_backend_comm *open_comm(weft_backend *backend, void *owner, int me, int size, const char *label,
                                    bool names)
{
    (void)owner;
    (void)names;
    if (me < 0 || me >= size || !label) abort();
    return (weft_backend_comm *)(void *)backend;
}

static void join_comm(weft_backend_comm *comm, const void *id)
{
    static unsigned char kept[ID_BYTES];
    if (!comm || !id) abort();
    memcpy(kept, id, sizeof kept); /* a sanitizer sees whether all of it is there */
}

static void doom_comm(weft_backend_comm *comm, const char *why)
{
    if (!comm || !*why) abort();
}

static void drop_comm(weft_backend_comm *comm)
{
    if (!comm) abort();
}

static void open_rank(void)
{
    static weft_backend module = {.name = "fuzz",
                                  .memory = WEFT_MEMORY_CUDA,
                                  .id_bytes = ID_BYTES,
                                  .owns = owns_nothing,
                                  .open = open_comm,
                                  .join = join_comm,
                                  .doom = doom_comm,
                                  .drop = drop_comm};
    const int world[] = {0, 1, 2, 3, 4}, host[] = {NEAR, ME};
    memset(&rank, 0, sizeof rank);
    weft__ticket_begin(&rank.ticket);
    rank.ctx = lone_rank_open((lone_wires){.sent = keep_sent});
    rank.near = lone_rank_near();
    rank.ctx->modules[WEFT_MEMORY_CUDA].backend = &module;
    rank.ctx->module_count = 1;
    rank.groups[rank.group_count++] = rank.ctx->world = lone_rank_group(rank.ctx, world, WORLD, "world", 1);
    rank.groups[rank.group_count++] = rank.ctx->host_group = lone_rank_group(rank.ctx, host, 2, "host", 2);
}

static void close_rank(void)
{
    for (int i = 0; i < rank.request_count; i++) weft_release(rank.requests[i]);
    weft__device_comms_shut(rank.ctx);
    rank.ctx->modules[WEFT_MEMORY_CUDA].backend = NULL;
    rank.ctx->module_count = 0;
    weft__list_remove(&rank.ticket.link);
    if (rank.near_slots) weft__segment_give(rank.near, rank.near_slots);
    lone_rank_close(rank.ctx);
}

/* ---- steps ---- */

static int other(uint64_t number)
{
    int peer = (int)(number % WORLD);
    return peer == ME ? NEAR : peer;
}

static void tell(int peer, int type, const unsigned char *bytes, size_t length)
{
    void *copy = malloc(length ? length : 1); /* of its exact size */
    if (!copy) abort();
    if (length) memcpy(copy, bytes, length);
    weft__engine_take(rank.ctx);
    rank.ctx->p2p_events.control(&rank.ctx->p2p_events, peer, type, copy, length);
    weft__engine_drop(rank.ctx);
    free(copy);
}

/* Some bytes of it are given, each with where they go; the others stay. */
static void lay_over(input *in, unsigned char *bytes, size_t length)
{
    for (size_t n = take(in, 1) % 8; n && length; n--) {
        size_t at = take(in, 2) % length, given = take(in, 1) % 65;
        take_over(in, bytes + at, given < length - at ? given : length - at);
    }
}

/* By the numbers that inputs have for them, which stay as types come and go.  What has none is told as it is. */
static int take_type(input *in)
{
    static const int types[] = {WEFT__MESSAGE_NONE,
                                WEFT__MESSAGE_CREATE_JOIN,
                                WEFT__MESSAGE_CREATE_READY,
                                WEFT__MESSAGE_CREATE_FAILED,
                                WEFT__MESSAGE_CREATE_EXPIRED,
                                WEFT__MESSAGE_SHRINK_JOIN,
                                WEFT__MESSAGE_SHRINK_READY,
                                WEFT__MESSAGE_SHRINK_FAILED,
                                WEFT__MESSAGE_SHRINK_EXPIRED,
                                WEFT__MESSAGE_SLOTS,
                                WEFT__MESSAGE_BROKEN,
                                WEFT__MESSAGE_COMM,
                                WEFT__MESSAGE_PROPOSE,
                                WEFT__MESSAGE_FINAL,
                                WEFT__MESSAGE_RAISE,
                                WEFT__MESSAGE_RAISED,
                                WEFT__MESSAGE_CREATE_ASK,
                                WEFT__MESSAGE_CREATE_MEMBERS,
                                WEFT__MESSAGE_SHRINK_STORED,
                                WEFT__MESSAGE_SHRINK_DONE,
                                WEFT__MESSAGE_SPREAD,
                                WEFT__MESSAGE_SPREAD_TAKEN,
                                WEFT__MESSAGE_GATHER_JOINS,
                                WEFT__MESSAGE_GATHER_KNOWN,
                                WEFT__MESSAGE_GATHER_GIVES_UP,
                                WEFT__MESSAGE_SIGNED,
                                WEFT__MESSAGE_INTERLEAVED,
                                WEFT__MESSAGE_LATE,
                                WEFT__MESSAGE_LEAVING,
                                WEFT__MESSAGE_ALL_LEAVE,
                                WEFT__MESSAGE_SENT_TOGETHER,
                                WEFT__MESSAGE_GO_TOGETHER,
                                WEFT__MESSAGE_MESH_GRID};
    const int number = take_signed(in);
    return number < 0 || number >= (int)(sizeof types / sizeof *types) ? number : types[number];
}

static void step_tell(input *in)
{
    unsigned char bytes[PAYLOAD_MOST] = {0};
    int peer = other(take(in, 1)), type = take_type(in);
    size_t length = take(in, 2) % sizeof bytes;
    lay_over(in, bytes, length);
    tell(peer, type, bytes, length);
}

/* length 0: that of a notice. */
static void step_notice(input *in)
{
    unsigned char bytes[PAYLOAD_MOST] = {0};
    int peer = take_signed(in);
    size_t length = take(in, 2) % sizeof bytes;
    unsigned char *copy;
    if (!length) length = sizeof(weft__notice);
    lay_over(in, bytes, length);
    copy = malloc(length);
    if (!copy) abort();
    memcpy(copy, bytes, length);
    weft__watchdog_take(rank.ctx, peer, copy, length);
    free(copy);
}

/* As this rank has said it, or as another type of message, or longer. */
static void step_echo(input *in)
{
    int peer = other(take(in, 1)), type = take_type(in);
    echo e = rank.echoes[take(in, 1) % ECHOES];
    size_t more = take(in, 1) % 64;
    if (e.length + more <= sizeof e.bytes) {
        memset(e.bytes + e.length, 0, more);
        e.length += more;
    }
    lay_over(in, e.bytes, e.length);
    tell(peer, type < 0 ? e.type : type, e.bytes, e.length);
}

static void step_frame(input *in)
{
    weft__sink *sink = weft__p2p_sink(rank.ctx->p2p);
    weft__frame frame = {0};
    int peer = other(take(in, 1));
    void *where = NULL;
    take_over(in, (unsigned char *)&frame, take(in, 1) % (sizeof frame + 1));
    frame.length %= PAYLOAD_MOST;
    if (weft__frame_check(&frame)) return;
    weft__engine_take(rank.ctx);
    if (frame.length) where = sink->header(sink, peer, &frame);
    if (where) memset(where, 'f', frame.length);
    sink->arrived(sink, peer, &frame, where);
    weft__engine_drop(rank.ctx);
}

static weft_group *pick_group(uint64_t number)
{
    return rank.groups[number % (unsigned)rank.group_count];
}

static void made_group(weft_group *group)
{
    rank.groups[rank.group_count++] = group;
}

static weft_status submit(input *in, weft_group *group, char (*buffer)[COUNT], weft_request **req)
{
    weft_group *made = NULL;
    weft_status status;
    int ranks[WORLD], n = 0, size = weft_group_size(group);
    unsigned what = (unsigned)take(in, 1) % 8, mask = (unsigned)take(in, 1);
    switch (what) {
    case 0: return weft_barrier(group, NULL, req);
    case 1:
        return weft_all_reduce(group, buffer[0], buffer[1], mask * (COUNT / 256), WEFT_INT8, WEFT_SUM, NULL,
                               req);
    case 2:
        return weft_irecv(group, buffer[0], mask, WEFT_INT8, mask % 7 ? (int)mask % size : WEFT_ANY_RANK,
                          mask % 3 ? 1 : WEFT_ANY_TAG, NULL, req);
    case 3: return weft_isend(group, buffer[0], mask, WEFT_INT8, (int)mask % size, 1, NULL, req);
    case 4:
        return weft_broadcast(group, buffer[0], mask * (COUNT / 256), WEFT_INT8, (int)mask % size, NULL, req);
    default: break;
    }
    if (rank.group_count == GROUPS) return WEFT_ERR_MEMORY;
    for (int i = 0; i < size; i++)
        if (mask >> i & 1 || i == weft_group_rank(group)) ranks[n++] = i;
    if (what == 5)
        status = weft_new_group(group, ranks, n, NULL, &made, req);
    else if (what == 6)
        status = weft_shrink_group(group, NULL, &made, req);
    else
        status = weft_split_group(group, (int)mask % 3, 0, NULL, &made, req);
    if (status == WEFT_OK && made) made_group(made);
    return status;
}

static void step_submit(input *in)
{
    int slot = rank.request_count;
    weft_group *group = pick_group(take(in, 1));
    if (slot == REQUESTS || weft_group_status(group) == WEFT_PENDING || weft_group_rank(group) < 0) return;
    if (submit(in, group, buffers[slot], &rank.requests[slot]) == WEFT_OK) rank.request_count++;
}

static void step_cancel(input *in)
{
    unsigned which = (unsigned)take(in, 1);
    if (rank.request_count) weft_cancel(rank.requests[which % (unsigned)rank.request_count]);
}

static void step_gone(input *in)
{
    int peer = other(take(in, 1));
    unsigned how = (unsigned)take(in, 1);
    weft__engine_take(rank.ctx);
    weft__peer_gone(rank.ctx, peer, (weft__gone)(WEFT__LEFT + how % 3), how & 4, "has died");
    weft__engine_drop(rank.ctx);
}

static void ticket_goes(weft__ticket *ticket)
{
    (void)ticket;
    fuzz_reached++;
}

static void ticket_refused(weft__ticket *ticket, weft_status status, const char *why)
{
    (void)ticket;
    if (status >= 0 || !*why) abort();
    fuzz_reached++;
}

/* An operation on device memory wants its turn. */
static void step_ticket(input *in)
{
    static const int lead[] = {ME, 0, 4}, other_leads[] = {0, 1, 2, 3, 4};
    bool leads = take(in, 1) % 2;
    if (rank.ticket.go) return; /* one an input */
    rank.ticket = (weft__ticket){.key = {.group = 1, .number = take(in, 1)},
                                 .world = leads ? lead : other_leads,
                                 .size = leads ? 3 : 5,
                                 .length = 1,
                                 .go = ticket_goes,
                                 .refuse = ticket_refused};
    weft__ticket_begin(&rank.ticket);
    weft__engine_take(rank.ctx);
    weft__order_enter(rank.ctx, &rank.ticket);
    weft__engine_drop(rank.ctx);
}

/* A communicator is needed. */
static void step_link(input *in)
{
    weft_group *group = pick_group(take(in, 1));
    int peer = other(take(in, 1));
    if (weft_group_status(group) != WEFT_OK) return;
    weft__engine_take(rank.ctx);
    if (peer == 0)
        weft__device_comm_of_group(group, &rank.ctx->modules[WEFT_MEMORY_CUDA]);
    else if (weft__group_member(group, peer) >= 0)
        weft__device_comm_of_pair(group, &rank.ctx->modules[WEFT_MEMORY_CUDA], peer);
    weft__engine_drop(rank.ctx);
}

/* The rank that shares memory takes a row, as it should, and tells where it is. */
static void step_slots(input *in)
{
    const weft_group *group = pick_group(take(in, 1));
    const int near = weft__group_member(group, NEAR);
    struct {
        uint64_t group;
        int32_t first, count;
        uint64_t slots[WORLD];
    } word = {.group = group->id};
    weft__slot_branch told;
    if (near < 0) return;
    if (!rank.near_slots) rank.near_slots = weft__slots_take(rank.near);
    told = weft__slot_branch_of(near, group->size, rank.ctx->fan_out);
    if (told.above != group->rank) told = (weft__slot_branch){0, group->size, -1};
    word.first = told.first;
    word.count = told.count;
    for (int i = 0; i < told.count; i++)
        word.slots[i] = told.first + i == near ? rank.near_slots : group->shm_coll.own_slots;
    tell(NEAR, WEFT__MESSAGE_SLOTS, (const unsigned char *)&word,
         offsetof(__typeof__(word), slots) + (size_t)told.count * sizeof *word.slots);
}

/* And publishes there what this rank has published in its row of that group, but for some bytes. */
static void step_slot(input *in)
{
    const weft__shm_coll *coll = &pick_group(take(in, 1))->shm_coll;
    weft__member_slots *slots = rank.near_slots ? weft__slots_at(rank.near, rank.near_slots) : NULL;
    if (!slots) return;
    if (coll->own_slots)
        memcpy(slots->slot, weft__slots_at(rank.near, coll->own_slots)->slot, sizeof slots->slot);
    lay_over(in, (unsigned char *)slots, sizeof *slots);
}

static void take_step(input *in)
{
    switch ((enum step)(take(in, 1) % STEPS)) {
    case TELL: step_tell(in); break;
    case NOTICE: step_notice(in); break;
    case ECHO: step_echo(in); break;
    case FRAME: step_frame(in); break;
    case SUBMIT: step_submit(in); break;
    case CANCEL: step_cancel(in); break;
    case ABORT: weft_group_abort(pick_group(take(in, 1)), "because"); break;
    case GONE: step_gone(in); break;
    case TICKET: step_ticket(in); break;
    case LINK: step_link(in); break;
    case ROW: step_slots(in); break;
    case SLOT: step_slot(in); break;
    case STEPS: break;
    }
}

/* ---- what must hold ---- */

static void check_failure(weft_status status)
{
    if (status >= 0 || !strcmp(weft_status_name(status), "WEFT_(unknown status)")) abort();
}

static void check_request(int i)
{
    weft_request *req = rank.requests[i];
    weft_request_info info;
    char text[WEFT__SENTENCE_BYTES];
    weft_request_get_info(req, &info);
    if (!*weft_request_message(req)) abort();
    if (info.status == WEFT_PENDING) {
        if (weft__request_state(req) == WEFT__SETTLED) abort();
        weft__engine_take(rank.ctx);
        if (weft__request_state(req) < WEFT__DRAINING)
            weft__straggler_text(req, weft__now_ns(), text, sizeof text);
        weft__engine_drop(rank.ctx);
        return;
    }
    if (info.status != WEFT_OK) check_failure(info.status);
    if (info.peer < -1 || info.peer >= WORLD) abort();
    fuzz_reached += !rank.settled[i];
    rank.settled[i] = true;
}

static void check_group(int i)
{
    const weft_group *group = rank.groups[i];
    weft_status status = weft_group_status(group);
    int size = weft_group_size(group), dead[WORLD];
    if (size > WORLD || weft_group_dead(group, dead, WORLD) > size) abort();
    for (int r = 0; r < size; r++) {
        int world = weft_group_to_world(group, r);
        if (world < 0 || world >= WORLD || weft_group_from_world(group, world) != r) abort();
    }
    if (group->shm_coll.slots && group->params.slot_bytes != rank.ctx->slot_bytes) abort();
    if (atomic_load(&group->state) == WEFT__BROKEN) check_failure(group->cause);
    if (status == WEFT_OK || status == WEFT_PENDING) return;
    check_failure(status);
    if (group->culprit < -1 || group->culprit >= WORLD) abort();
    fuzz_reached += !rank.broken[i];
    rank.broken[i] = true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    input in = {data, bytes};
    open_rank();
    for (int steps = 0; in.left && steps < 64; steps++) {
        take_step(&in);
        weft__engine_take(rank.ctx);
        weft__engine_progress(rank.ctx);
        weft__engine_drop(rank.ctx);
        for (int i = 0; i < rank.request_count; i++) check_request(i);
        for (int i = 0; i < rank.group_count; i++) check_group(i);
    }
    close_rank();
    return 0;
}
