/* p2p.h - messages with addresses between ranks, over whatever transport reaches them.
 *
 * A short message goes at once, payload included, within the credit the receiver gives ("eager"); a longer
 * one is announced, over some transports with its first bytes (its "prefix", within the same credit), and
 * flows when its receive is there, straight between the two buffers.  So what nobody has asked for yet takes
 * a bounded place at the receiver and holds nothing else up.
 *
 * Everything is called by the holder of the engine.  Nothing blocks.  A completion may run inside the call
 * that makes the message.  Buffers are the caller's until its completion ran or a cancel returned. */
#ifndef WEFT_NET_P2P_H
#define WEFT_NET_P2P_H
#include "completion.h"
#include "transport.h"

#include <stdbool.h>
#include <stddef.h>

#define WEFT__CREDIT_BYTES \
    (512 * 1024) /* eager payload one rank may have on another that nobody asked for yet */
#define WEFT__CREDIT_FREE    (8 * 1024) /* collective messages up to this long are not counted */
#define WEFT__EAGER_BY_ROUTE SIZE_MAX   /* for weft__p2p_open: what is eager depends on the transport */

typedef struct weft__match_hook weft__match_hook;

/* What a message is matched by. */
typedef struct weft__envelope {
    int peer; /* world rank; receives: or WEFT_ANY_RANK */
    weft__channel channel;
    uint64_t group;
    uint64_t sequence; /* COLLECTIVE: the operation's number; else 0 */
    int tag;           /* receives on PAIR: or WEFT_ANY_TAG */
    uint8_t dtype;
    uint64_t signature[2];  /* COLLECTIVE; of a send with a hook: its number, told to the receiver, and in the
                             lowest byte the hook's way, above it what else the receiver is told; else 0 */
    weft__match_hook *hook; /* NULL: an ordinary message */
} weft__envelope;

typedef struct weft__p2p weft__p2p;
typedef struct weft__send weft__send; /* a message on its way out */
typedef struct weft__recv weft__recv; /* a receive */

/* One side of a message whose payload goes another way.  The point-to-point layer matches and judges it like
 * any other.  What is refused or empty or loses its peer ends by its completion, as ever; of what fits
 * `matched` is called on both sides instead.  A send is over then.  A receive stays until it is cancelled:
 * the sender may have given the message up before it heard, and then the receive waits again. */
struct weft__match_hook {
    /* Receives: the result is filled in.  False (receives): it has been cancelled in there, and its sender hears of it as of
     * one that is refused. */
    bool (*matched)(weft__match_hook *hook);
    bool (*unmatched)(weft__match_hook *hook); /* receives.  False: it has been cancelled in there */
    uint8_t way;                               /* its payload goes: both sides must have it alike */
    weft__send *send;                          /* the point-to-point layer's own, while there is one */
    weft__recv *recv;
    weft__match_hook *other; /* with `matched`: the other side, if that is this rank itself; else NULL */
};

/* What comes of a receive; all of it is there with its completion. */
typedef struct weft__recv_result {
    int peer, tag;
    size_t bytes;    /* received */
    size_t offered;  /* length of the message: more than there was room for if ERR_TRUNCATED */
    uint8_t dtype;   /* of the sender: another one if ERR_MISMATCH */
    bool apart;      /* the same: its payload goes another way, */
    uint8_t way;     /* and which: the hook's */
    uint32_t said;   /* what else its sender tells the receiver */
    uint64_t number; /* the sender's */
} weft__recv_result;

/* What the point-to-point layer tells the runtime of its own accord. */
typedef struct weft__p2p_events weft__p2p_events;
struct weft__p2p_events {
    /* A collective message whose signature differs from the receive it meets, or that meets none yet (look
     * whether that operation has been here with another signature).  True: one that met none is a token that
     * nobody will receive, and done with. */
    bool (*collective)(weft__p2p_events *events, int peer, const weft__frame *frame);
    void (*control)(weft__p2p_events *events, int peer, int type, const void *bytes, size_t length);
    void (*left)(weft__p2p_events *events, int peer, weft_status status, const char *why); /* said goodbye */
    void (*lost)(weft__p2p_events *events, int peer, const char *why);                     /* vanished */
    void (*connected)(weft__p2p_events *events,
                      int peer); /* a connection to it is there; NULL: nobody asks */
    void (*let_go)(weft__p2p_events *events, int peer,
                   const char *why); /* as lost, but it lives and begins anew (transport.h) */
    void (*lacks)(weft__p2p_events *events, int64_t until_ns); /* a sink's (transport.h); NULL: nobody asks */
    /* A goodbye is about to go there, behind those to the others: what has to come before it is sent now; NULL: nothing. */
    void (*late_bye)(weft__p2p_events *events, int peer);
};

/* eager_bytes: the longest message that goes unasked. */
weft_status weft__p2p_open(int me, int world, size_t eager_bytes, weft__p2p_events *events, weft__p2p **out);
weft__sink *weft__p2p_sink(weft__p2p *p2p);                                 /* for the transports */
void weft__p2p_route(weft__p2p *p2p, int peer, weft__transport *transport); /* how peer is reached */
const char *weft__p2p_route_name(const weft__p2p *p2p, int peer);           /* its transport's, or "self" */
weft__transport *weft__p2p_transport(const weft__p2p *p2p, int peer);       /* NULL: it is this rank */
void weft__p2p_close(weft__p2p *p2p); /* no completion is called any more */

/* buf: not used with a hook.  NULL: no memory (the completion is not called).  The completion may have run
 * when it returns a send: the handle is only good for a cancel before that. */
weft__send *weft__p2p_send(weft__p2p *p2p, const weft__envelope *to, const void *buf, size_t bytes,
                           weft__completion *completion);
/* A short message to another rank whose way is free goes at once: nothing of it is left to be told or
 * cancelled.  False: it has to be sent. */
bool weft__p2p_send_now(weft__p2p *p2p, const weft__envelope *to, const void *buf, size_t bytes);
/* Messages that have come from there and found their place since the last that went there at once. */
uint32_t weft__p2p_unanswered(const weft__p2p *p2p, int peer);
/* A receive is made in two steps: weft__p2p_new_recv gives the place where its envelope is to be written,
 * which weft__p2p_post then takes.  So that is written just once, part by part; copied as a whole it would be
 * read in wider words than it had just been written in, and wait for them.  NULL: no memory. */
weft__envelope *weft__p2p_new_recv(weft__p2p *p2p);
/* result: of this receive alone, and the point-to-point layer's until the completion ran or a cancel
 * returned; may be NULL. A failure of the peer is ERR_PEER. */
weft__recv *weft__p2p_post(weft__p2p *p2p, weft__envelope *from, void *buf, size_t room,
                           weft__recv_result *recv_result, weft__completion *completion);
/* Both, of an envelope that lies elsewhere. */
static inline weft__recv *weft__p2p_receive(weft__p2p *p2p, const weft__envelope *from, void *buf,
                                            size_t room, weft__recv_result *recv_result,
                                            weft__completion *completion)
{
    weft__envelope *own = weft__p2p_new_recv(p2p);
    if (!own) return NULL;
    *own = *from;
    return weft__p2p_post(p2p, own, buf, room, recv_result, completion);
}
/* Asks for a message as a receive on PAIR or EXCHANGE would, in its place in the order of posting, but takes
 * nothing of it: with its completion (WEFT_OK, the result tells what it is, of whatever type and length,
 * apart or not) it holds the message, which stays where it is and which nobody else finds.  Then the handle,
 * from weft__p2p_new_recv and good until one of these, is for weft__p2p_receive_held, or for
 * weft__p2p_cancel_receive, which lets the message go: whoever asks next in its place gets it.  A failure is
 * as of a receive, and ends the handle. */
weft__recv *weft__p2p_probe(weft__p2p *p2p, weft__envelope *from, weft__recv_result *recv_result,
                            weft__completion *completion);
/* The receive of what it holds, and of nothing else: it ends in ERR_CANCELLED if the sender has given that
 * up, in ERR_PEER if it is gone and has not sent all.  The probe's handle is its own from now on. */
void weft__p2p_receive_held(weft__p2p *p2p, weft__recv *probe, uint8_t dtype, weft__match_hook *hook,
                            void *buf, size_t room, weft__recv_result *recv_result,
                            weft__completion *completion);
/* What a receive on PAIR or EXCHANGE from another rank would get, if that is there already, whole, and it
 * would take it; else NULL: it has to be posted.  Good until something else moves in the point-to-point
 * layer. */
const weft__frame *weft__p2p_at_hand(weft__p2p *p2p, const weft__envelope *from, size_t room);
void weft__p2p_take(weft__p2p *p2p, int peer, const weft__frame *frame, void *buf);
/* For one that waits: lets through what is next where its message will come, for whomever that is.  False:
 * nothing is there.  Only where its peer's next message can be told, and not once it has met its own. */
bool weft__p2p_poll_for(weft__p2p *p2p, weft__recv *recv);
bool weft__p2p_can_poll_for(const weft__p2p *p2p, const weft__recv *recv);
/* Afterwards the buffer is the caller's and the completion is not called. */
void weft__p2p_cancel_send(weft__p2p *p2p, weft__send *send);
void weft__p2p_cancel_receive(weft__p2p *p2p, weft__recv *recv);
/* This receive has met its message: cancelled now, that would be lost. */
bool weft__p2p_flowing(const weft__recv *recv);
/* Cancelled while it flows, it is to keep that message; but should the sender take it back, it ends as
 * WEFT_ERR_CANCELLED and waits for no other. */
void weft__p2p_take_no_other(weft__recv *recv);

/* Signatures of collective messages that wait for operation (group, sequence): calls fn for each. */
void weft__p2p_peek(weft__p2p *p2p, uint64_t group, uint64_t sequence,
                    void (*fn)(void *arg, int peer, const weft__frame *frame), void *arg);
/* A token: of a collective, with nothing in it, to another rank, who may have no receive for it.  It goes
 * with what is sent there next, or somewhat later; nothing is told of its fate. */
void weft__p2p_send_token(weft__p2p *p2p, const weft__envelope *to);
/* One that came before its operation began here: is done with.  False: it has not come. */
bool weft__p2p_drop_token(weft__p2p *p2p, const weft__envelope *from);
/* Drops what waits for collectives of a group that is over. */
void weft__p2p_forget_group(weft__p2p *p2p, uint64_t group);

/* A small message to the runtime of peer; copied. */
weft_status weft__p2p_control(weft__p2p *p2p, int peer, int type, const void *bytes, size_t length);

/* Goodbye to every peer that a frame was exchanged with.  Who shares memory with this rank finds it there as this
 * process ends; at_once: and is told now, as all must be that do not leave too. */
void weft__p2p_bye(weft__p2p *p2p, weft_status status, const char *why, bool at_once);
bool weft__p2p_touched(const weft__p2p *p2p, int peer); /* did anything ever go there or come from there? */
bool weft__p2p_heard(const weft__p2p *p2p, int peer);   /* has anything come from there? */
bool weft__p2p_awaits_bye(const weft__p2p *p2p, int peer); /* it has not taken this rank's goodbye */
int weft__p2p_bye_awaited(const weft__p2p *p2p);           /* the first that has not taken it; -1: none */
bool weft__p2p_took_bye(const weft__p2p *p2p, int peer);   /* and that it has taken it has come back */
/* The process of peer has ended, if it shares memory with this one: what it had written is read, of which the last may
 * be a goodbye.  Nothing goes there any more. */
void weft__p2p_ended(weft__p2p *p2p, int peer);
/* Peer is gone: its receives and sends end in ERR_PEER; what had already arrived from it can still be
 * received. */
void weft__p2p_drop(weft__p2p *p2p, int peer);
/* As drop, of a peer that lives, and may not have had what was sent to it last: sends of that end in ERR_PEER too. */
void weft__p2p_part(weft__p2p *p2p, int peer);
/* It was dropped, and lives: its next connection, of which `connected` tells, begins anew, and it is not gone from then
 * on.  `lost` may tell once more that there is none.  False: its transport makes none. */
bool weft__p2p_begin_anew(weft__p2p *p2p, int peer);
uint32_t weft__p2p_course(const weft__p2p *p2p, int peer); /* how often it did (transport.h) */

int weft__p2p_poll(weft__p2p *p2p);        /* returns how much was done */
void weft__p2p_hurry(weft__p2p *p2p);      /* before nobody polls for a while: what was to go later goes */
void weft__p2p_recheck(weft__p2p *p2p);    /* reads and writes everything, whatever the kernel has told */
bool weft__p2p_busy(const weft__p2p *p2p); /* is there work that nobody will ring for? */
#endif
