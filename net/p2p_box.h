/* p2p_box.h - what p2p.c and its parts share: the records of messages under way. */
#ifndef WEFT_NET_P2P_BOX_H
#define WEFT_NET_P2P_BOX_H
#include "p2p.h"
#include "slab.h"
#include "status.h"
#include "transports.h"

#include <string.h>

#define WEFT__P2P_BUCKETS   1024
#define WEFT__SENDS_MAX     (1u << 20)
#define WEFT__EAGER_TO_SELF (8 * 1024) /* by copy, with no transport in between */
#define WEFT__P2P_POLL_BYTES \
    (512 * 1024) /* moved in one poll at most, so that an engine that is driven comes back */

/* Moved by send_to in p2p.c, which has the table of what may follow. */
enum weft__send_state {
    WEFT__SEND_FREE,      /* nobody's: the record lies in its slab */
    WEFT__SEND_EAGER,     /* over when the transport lets go of its frame */
    WEFT__SEND_ANNOUNCED, /* waits for its receiver's answer */
    WEFT__SEND_FLOWING,   /* to another rank, piece by piece */
    WEFT__SEND_COPYING    /* to this rank itself, piece by piece */
};

struct weft__send {
    weft__slab_item item;
    uint32_t serial; /* counts uses of this record: with the index it makes the id on the wire */
    enum weft__send_state state;
    bool queued; /* the transport has `out` */
    weft__outgoing out;
    weft__p2p *p2p;
    weft__list link;  /* in its peer's sends while announced or flowing */
    weft__list ready; /* has a piece to send or copy in the next poll */
    const char *buf;
    size_t bytes, offset;
    uint64_t recv_id;
    int peer;
    weft__completion *completion;
    weft__match_hook *hook; /* NULL: it carries its payload */
    weft__recv *recv;       /* COPYING: the receive in this process */
};

/* Moved by weft__recv_to. */
enum weft__recv_state {
    WEFT__RECV_FREE,    /* nobody's: the record lies in its slab, or is about to be posted */
    WEFT__RECV_POSTED,  /* has met nothing yet */
    WEFT__RECV_FLOWING, /* its message is coming in */
    WEFT__RECV_HOLDING  /* a probe that has its message: p2p_held.c */
};

struct weft__recv {
    weft__slab_item item;
    enum weft__recv_state state;
    bool abandoned; /* cancelled while flowing: the rest is thrown away */
    bool probes;    /* it takes no message: it holds one */
    bool only;      /* for the message that it has met or was held for it, and for no other */
    weft__list link;
    weft__envelope from;
    char *buf;
    size_t room;
    size_t prefix;          /* FLOWING: so much of it came with its announcement */
    weft__recv_result *got; /* so far: its owner's, or, where that wants none or has gone, */
    weft__recv_result own;
    weft__completion *completion;
    uint64_t id;                   /* of the sender's send */
    struct weft__unexpected *held; /* of one that probes: its message, once they have met */
};

/* A message that arrived before its receive. */
typedef struct weft__unexpected {
    weft__list link;
    int peer;
    bool whole; /* the payload of its frame is complete */
    bool lost;  /* and thrown away for want of memory: that ends its receive */
    weft__frame frame;
    weft__recv *recv;  /* a receive that came while the payload was still arriving, or what holds it */
    weft_status ended; /* held, and its sender gave it up or is gone meanwhile: what its receive ends in */
    _Alignas(16) char payload[];
} weft__unexpected;

/* What is known of one peer. */
typedef struct weft__peer_box {
    weft__transport *route;
    const char *route_name; /* its transport's, "self", or "none" */
    bool gone;              /* died or left: nothing more will come or go */
    bool astray;            /* and yet lives: a connection that begins anew is being made */
    bool dropping;          /* being made so: its transport may still hand over what had arrived */
    bool said_bye;          /* it has */
    bool bye_sent, bye_awaited, bye_taken; /* this rank's to it */
    bool heard;          /* something came from it: then it knows of us, and would say goodbye */
    bool touched;        /* something went to it or came from it */
    bool starved;        /* a message from it was lost, and with it all note of it, for want of memory */
    weft__list leaving;  /* in p2p->leaving: its route is dropped once our last frames have gone */
    size_t eager_bytes;  /* the longest message that goes there unasked */
    size_t prefix_bytes; /* of a longer one: so much goes with its announcement */
    size_t credit;       /* eager bytes it still takes */
    size_t owed;         /* eager bytes of its that were taken and not told */
    uint32_t unanswered; /* messages of its that found their place since the last sent there at once */
    weft__list sends;    /* announced or flowing to it */
    weft__list recvs;    /* flowing from it */
    weft__recv *into;    /* what the frame being read belongs to */
    weft__unexpected *unexpected;
    void *control; /* payload of a control frame being read */
    size_t control_room;
} weft__peer_box;

struct weft__p2p {
    weft__sink sink;
    weft__p2p_events *events;
    int me, world;
    bool eager_by_route; /* else one length for all */
    weft__peer_box *peers;
    weft__list posted[WEFT__P2P_BUCKETS];
    weft__list unexpected[WEFT__P2P_BUCKETS];
    size_t unexpected_count;
    weft__slab sends, recvs;
    weft__list ready;                                /* sends with a piece to send or copy */
    weft__transport *routes[WEFT__TRANSPORTS_COUNT]; /* by which some peer is reached */
    int route_count;
    bool starved;           /* one of the peers is */
    weft_status bye_status; /* of our goodbyes */
    char bye_why[WEFT__SENTENCE_BYTES];
    bool leaving_all;   /* our goodbyes are out: that peers close their ends is no death any more */
    weft__list leaving; /* of weft__peer_box: those whose route is to be dropped once flushed */
};

/* What may follow on each state of a receive.  It waits again if its sender takes back what was announced;
 * what came in while it waited for the rest of a frame begins to flow then. */
static const uint8_t weft__recv_follows[] = {
    [WEFT__RECV_FREE] = WEFT__MAY_BECOME(WEFT__RECV_POSTED),
    [WEFT__RECV_POSTED] = WEFT__MAY_BECOME(WEFT__RECV_FLOWING) | WEFT__MAY_BECOME(WEFT__RECV_HOLDING) |
                          WEFT__MAY_BECOME(WEFT__RECV_FREE),
    [WEFT__RECV_FLOWING] = WEFT__MAY_BECOME(WEFT__RECV_FLOWING) | WEFT__MAY_BECOME(WEFT__RECV_POSTED) |
                           WEFT__MAY_BECOME(WEFT__RECV_HOLDING) | WEFT__MAY_BECOME(WEFT__RECV_FREE),
    [WEFT__RECV_HOLDING] = WEFT__MAY_BECOME(WEFT__RECV_FLOWING) | WEFT__MAY_BECOME(WEFT__RECV_FREE)};

/* The one place that stores a receive's state.  All of the point-to-point layer is the engine's: no order of
 * memory is needed. */
static inline void weft__recv_to(weft__recv *recv, enum weft__recv_state to)
{
    WEFT__ASSERT_HOT(WEFT__ALLOWS(weft__recv_follows, recv->state, to), recv->state, to);
    recv->state = to;
}

weft__list *weft__p2p_bucket(weft__list *table, weft__channel channel, uint64_t group, uint64_t sequence);

/* p2p_match.c.  Is this message what that receive asks for? */
bool weft__p2p_fits(const weft__envelope *from, int peer, const weft__frame *frame);
/* The first receive that waits for it; NULL: none does. */
weft__recv *weft__p2p_find_recv(weft__p2p *p2p, int peer, const weft__frame *frame);
/* Is that this one? */
bool weft__p2p_is_for(weft__p2p *p2p, int peer, const weft__frame *frame, const weft__recv *recv);
/* The first message that waits for such a receive. */
weft__unexpected *weft__p2p_find_unexpected(weft__p2p *p2p, const weft__envelope *from);
/* Checks type and length of a message against the receive it met. */
weft_status weft__p2p_judge(weft__recv *recv, int peer, const weft__frame *frame);

/* p2p_held.c.  A whole message and a probe, which is in no list, have met: nobody else finds it. */
void weft__p2p_hold(weft__p2p *p2p, weft__recv *probe, weft__unexpected *unexpected);
/* That probe, at whatever state, is over; what it has met is free again, at its old place. */
void weft__p2p_let_go(weft__p2p *p2p, weft__recv *probe);
/* The sender of that message, which was only announced, gave it up or is gone.  It may be freed. */
void weft__p2p_withdraw(weft__p2p *p2p, weft__unexpected *unexpected, weft_status status);
/* All that this peer has announced is withdrawn. */
void weft__p2p_withdraw_all(weft__p2p *p2p, int peer);

/* p2p_posted.c.  It meets what is there, or waits; in front: it has waited before all others. */
void weft__p2p_wait_for(weft__p2p *p2p, weft__recv *recv, bool in_front);

/* p2p_arrive.c.  A receive, or a probe, that is in no list and a message that waited meet. */
void weft__p2p_match_unexpected(weft__p2p *p2p, weft__recv *recv, weft__unexpected *unexpected);
void weft__p2p_drop_unexpected(weft__p2p *p2p, weft__unexpected *unexpected);
void weft__p2p_free_recv(weft__p2p *p2p, weft__recv *recv); /* nobody is told */

/* What it took of its sender's credit, a whole message or a prefix, has found its place. */
void weft__p2p_owe(weft__p2p *p2p, int peer, size_t cost);
void weft__p2p_finish_recv(weft__p2p *p2p, weft__recv *recv, weft_status status);
void weft__p2p_finish_send(weft__p2p *p2p, weft__send *send, weft_status status);
/* It has met its receive, of this rank itself or (NULL) of another, and its payload goes another way. */
void weft__p2p_match_send(weft__p2p *p2p, weft__send *send, weft__recv *own);
void weft__p2p_end_send(weft__p2p *p2p, weft__send *send); /* its peer is gone */
/* Does an eager message take of the credit that its receiver gave?  Short ones of collectives are few: nobody
 * gets many operations ahead of who they are for. */
static inline bool weft__p2p_counted(weft__channel channel, uint64_t bytes)
{
    return channel != WEFT__CHANNEL_COLLECTIVE || bytes > WEFT__CREDIT_FREE;
}
/* What a frame takes of the credit of the rank it goes to. */
static inline size_t weft__p2p_cost(const weft__frame *frame)
{
    bool whole = frame->kind == WEFT__FRAME_EAGER, announces = frame->kind == WEFT__FRAME_RTS;
    if (whole && weft__p2p_counted((weft__channel)frame->channel, frame->bytes))
        return frame->bytes + sizeof *frame;
    return announces && frame->length ? frame->length + sizeof *frame : 0;
}
/* What it took of the credit of this peer and did not use.  Held to what there is: a peer may have given more
 * back than it got. */
static inline void weft__p2p_take_back(weft__peer_box *box, size_t cost)
{
    box->credit = WEFT__CREDIT_BYTES - box->credit < cost ? WEFT__CREDIT_BYTES : box->credit + cost;
}
bool weft__p2p_note(weft__p2p *p2p, int peer, const weft__frame *frame, const void *payload, size_t length);
/* The send may flow into that receive of its peer (id on the wire; or, to this rank itself, the receive). */
void weft__p2p_flow(weft__p2p *p2p, weft__send *send, uint64_t recv_id, weft__recv *own);
weft__send *weft__p2p_find_send(weft__p2p *p2p, uint64_t id); /* NULL: gone */
uint64_t weft__p2p_send_id(const weft__send *send);
void weft__p2p_refuse(weft__p2p *p2p, weft__send *send); /* its receiver does not want it */

/* At most WEFT__FRAME_SMALL_BYTES. */
static inline void weft__copy_small(void *to, const void *from, size_t bytes)
{
    unsigned char *t = to;
    const unsigned char *f = from;
    if (bytes >= 8) { /* from both ends: they may overlap */
        uint64_t low, high;
        memcpy(&low, f, 8);
        memcpy(&high, f + bytes - 8, 8);
        memcpy(t, &low, 8);
        memcpy(t + bytes - 8, &high, 8);
        return;
    }
    for (size_t i = 0; i < bytes; i++) t[i] = f[i];
}

/* p2p_arrive.c: the sink's functions */
void *weft__p2p_header(weft__sink *sink, int peer, const weft__frame *frame);
void weft__p2p_arrived(weft__sink *sink, int peer, const weft__frame *frame, void *where);
void weft__p2p_lost(weft__sink *sink, int peer, const char *why);
void weft__p2p_lacks(weft__sink *sink, int64_t until_ns);
/* What a receive or a probe is told of its message, before its bytes are there. */
static inline weft__recv_result weft__p2p_result(int peer, const weft__frame *frame)
{
    bool apart = frame->flags & WEFT__FRAME_APART;
    return (weft__recv_result){.peer = peer,
                               .tag = frame->tag,
                               .offered = frame->bytes,
                               .dtype = frame->dtype,
                               .apart = apart,
                               .way = apart ? (uint8_t)frame->signature[1] : 0,
                               .said = apart ? (uint32_t)(frame->signature[1] >> 8) : 0,
                               .number = apart ? frame->signature[0] : 0};
}

/* p2p_bye.c */
void weft__p2p_bye_to(weft__p2p *p2p, int peer);         /* our goodbye, which is awaited there */
void weft__p2p_heard_too_late(weft__p2p *p2p, int peer); /* its first frame came behind our goodbyes */
void weft__p2p_bye_arrived(weft__p2p *p2p, int peer, weft_status status, const char *why);
void weft__p2p_bye_taken(weft__p2p *p2p, int peer);
void weft__p2p_left(weft__sink *sink, int peer, weft_status status, const char *why);
/* Routes of peers that have left go when our answer to their goodbye is out. */
void weft__p2p_drop_routes(weft__p2p *p2p);

void weft__p2p_connected(weft__sink *sink, int peer);
void weft__p2p_goes_astray(weft__sink *sink, int peer, const char *why);
#endif
