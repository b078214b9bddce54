/* protocol.h - what ranks tell each other beside the data of operations, and what follows from it.
 *
 * A protocol has message types, a state of its own behind one pointer of the context, and answers to what
 * happens to ranks and groups.  The core knows protocols by this table alone.  Adding one is an enumerator
 * here, a row in protocols.c, and the file that it points to.  Every slot may be NULL: then it does not
 * concern that protocol.  The engine is held in all of them unless a slot says otherwise; none blocks. */
#ifndef WEFT_RUNTIME_PROTOCOL_H
#define WEFT_RUNTIME_PROTOCOL_H
#include "group.h"
#include "notice.h"

/* Messages over the data plane (weft__p2p_control).  Each protocol's stand together. */
enum weft__message {
    WEFT__MESSAGE_NONE, /* says nothing: makes a connection */
    WEFT__MESSAGE_CREATE_JOIN,
    WEFT__MESSAGE_CREATE_ASK,
    WEFT__MESSAGE_CREATE_MEMBERS,
    WEFT__MESSAGE_CREATE_READY,
    WEFT__MESSAGE_CREATE_FAILED,
    WEFT__MESSAGE_CREATE_EXPIRED,
    WEFT__MESSAGE_SHRINK_JOIN,
    WEFT__MESSAGE_SHRINK_READY,
    WEFT__MESSAGE_SHRINK_STORED,
    WEFT__MESSAGE_SHRINK_DONE,
    WEFT__MESSAGE_SHRINK_FAILED,
    WEFT__MESSAGE_SHRINK_EXPIRED,
    WEFT__MESSAGE_SPREAD,
    WEFT__MESSAGE_SPREAD_TAKEN,
    WEFT__MESSAGE_GATHER_JOINS,
    WEFT__MESSAGE_GATHER_KNOWN,
    WEFT__MESSAGE_GATHER_GIVES_UP,
    WEFT__MESSAGE_MESH_GRID,
    WEFT__MESSAGE_SLOTS,
    WEFT__MESSAGE_SIGNED,
    WEFT__MESSAGE_INTERLEAVED,
    WEFT__MESSAGE_BROKEN,
    WEFT__MESSAGE_LATE,
    WEFT__MESSAGE_COMM,
    WEFT__MESSAGE_LEAVING,
    WEFT__MESSAGE_ALL_LEAVE,
    WEFT__MESSAGE_PROPOSE,
    WEFT__MESSAGE_FINAL,
    WEFT__MESSAGE_RAISE,
    WEFT__MESSAGE_RAISED,
    WEFT__MESSAGE_SENT_TOGETHER,
    WEFT__MESSAGE_GO_TOGETHER
};

struct weft__protocol {
    const char *name;
    int first, last;                    /* its messages; 0, 0: it has none */
    uint32_t first_notice, last_notice; /* its notices, which go by the watchdogs; 0, 0: none */

    /* Makes its state, ctx->protocol_state of it; before any other slot.  The caller's thread. */
    weft_status (*open)(weft_context *ctx);
    /* The context ends: after all groups and requests; no thread uses it any more.
     * Also where open failed. */
    void (*close)(weft_context *ctx);

    /* A message from that rank: its bytes are not to be trusted. */
    void (*message)(weft_context *ctx, int peer, int type, const void *bytes, size_t length);
    /* A notice from that rank, whose fields have been checked.  The watchdog's thread, engine not held. */
    void (*notice)(weft_context *ctx, int from, const weft__notice *notice);
    /* A message of a collective from that rank.  True: it was an awaited token, and nothing else. */
    bool (*collective)(weft_context *ctx, int peer, const weft__frame *frame);

    /* A rank has died or left; why: a sentence. */
    void (*peer_gone)(weft_context *ctx, int rank, const char *why);
    /* That rank lives and cannot be reached from here: what waits for a message of it ends; why: a sentence. */
    void (*peer_unreachable)(weft_context *ctx, int rank, const char *why);
    void (*peer_returns)(weft_context *ctx, int rank); /* it is reached again */
    /* This rank leaves, and does not reach that one, which others do. */
    void (*leaves_without)(weft_context *ctx, int rank);
    /* This rank leaves, and others stay: what was put off while it asked whether all leave is told now. */
    void (*leaves_alone)(weft_context *ctx);
    /* It gets a goodbye behind those to the others, as it has been heard only now: what has to come before one is sent. */
    void (*late_goodbye)(weft_context *ctx, int rank);
    /* Its death, which was presumed, is certain. */
    void (*peer_certain)(weft_context *ctx, int rank, const char *why);
    /* Who is in the job was decided anew (fault/membership.h); after peer_gone of those that are not. */
    void (*view_changed)(weft_context *ctx);

    /* Does what it has put off until then or before, and says when there is more of it; WEFT__NEVER: there is none.
     * As this rank begins to leave, and has nothing under way any more, now_ns is WEFT__NEVER, and all of it is done; not
     * where it aborts. */
    int64_t (*due)(weft_context *ctx, int64_t now_ns);

    /* A rank has died, as the notice says, and all are to know.  False: it is to be told each. */
    bool (*tell_death)(weft_context *ctx, const weft__notice *notice);
    /* The life of a group: ready; broken, before its operations fail; retired, as nobody can use it any more
     * (its memory stays while `keeps_group` says so); gone, before its memory is freed. */
    void (*group_ready)(weft_group *group);
    void (*tell_broken)(weft_group *group); /* it has just been, and not as told: others are to know */
    /* It has been aborted when it had been broken; here: likewise, else as told. */
    void (*tell_abort)(weft_group *group, bool here);
    void (*group_broken)(weft_group *group);
    void (*group_retired)(weft_group *group);
    bool (*keeps_group)(const weft_group *group);
    void (*group_gone)(weft_group *group);
};

/* An `open` of a protocol whose state is a list, empty at first and freed by `close`. */
weft_status weft__protocol_open_list(weft_context *ctx, weft__protocol_kind kind);
/* Such a `close`: what is left in the list is freed, and the list. */
void weft__protocol_close_list(weft_context *ctx, weft__protocol_kind kind,
                               void (*free_entry)(weft__list *link));

#define WEFT__EACH_PROTOCOL(ctx, p) \
    for (const weft__protocol *const *at_##p = (ctx)->protocols, *p; (p = *at_##p) != NULL; at_##p++)
#endif
