/* tcp_link.h - what the files of the TCP transport know of each other; nobody else includes it.
 *
 *   tcp.c          the transport's slots, its peers and their queues, listening
 *   tcp_connect.c  a connection this rank makes: dial, greet, prove, wait for the verdict
 *   tcp_accept.c   a connection somebody made to us: a stranger until its proof is there
 *   tcp_link.c     an established connection: reading and writing frames
 *   tcp_sealed.c   one that is encrypted: what stands between the socket and the frames
 *   tcp_recheck.c  the links checked without being told of
 *
 * All of it runs in the thread that holds the engine.  Any callback (sink, sent) may call the transport
 * again, so after one a link is only good for asking whether its descriptor is still open: closed links are
 * freed in poll. */
#ifndef WEFT_NET_TCP_LINK_H
#define WEFT_NET_TCP_LINK_H
#include "list.h"
#include "rests.h"
#include "tcp_handshake.h"

#include <stdbool.h>

#define WEFT__TCP_BUFFER     (16u * 1024)  /* received ahead per link, so that small frames cost one read */
#define WEFT__TCP_POLL_BYTES (512u * 1024) /* bytes one link may read, and write, in one poll */
#define WEFT__TCP_GUESTS     128           /* strangers at one time; the oldest makes room */
#define WEFT__TCP_ACCEPTS    64            /* connections accepted in one poll */
#define WEFT__TCP_DIALS      10            /* attempts at one peer that closes before its verdict */
#define WEFT__TCP_PATIENCE   12 /* times WEFT_HANDSHAKE_MS: how long a member may leave a dialler waiting */
#define WEFT__TCP_LAZY       8  /* frames for one peer that go together rather than at once */
#define WEFT__TCP_TEXT       80 /* an address as text */

/* The acceptor's verdict, one byte. */
typedef enum weft__tcp_verdict {
    WEFT__TCP_TAKEN = 1, /* frames may come */
    WEFT__TCP_CROSSED,   /* we have both dialled: mine stays, being the lower rank's */
    WEFT__TCP_UNWANTED   /* this peer counts as gone */
} weft__tcp_verdict;

/* Once, and only forward, as weft__tcp_peer_to in tcp.c has it. */
typedef enum weft__tcp_state {
    WEFT__TCP_IDLE,     /* nothing has been sent yet, nobody has come */
    WEFT__TCP_DIALLING, /* `dial` is at work */
    WEFT__TCP_UP,       /* `link` is there */
    WEFT__TCP_GONE      /* for good */
} weft__tcp_state;

typedef struct weft__tcp weft__tcp;
typedef struct weft__tcp_link weft__tcp_link;
typedef struct weft__tcp_dial weft__tcp_dial;
typedef struct weft__tcp_sealed weft__tcp_sealed; /* tcp_sealed.c */

typedef struct weft__tcp_peer {
    weft__tcp *tcp;
    int rank;
    weft__tcp_state state;
    weft__tcp_address address;
    weft__tcp_wire wire;     /* of the connection with it */
    weft__list urgent, bulk; /* of weft__outgoing, untouched ones */
    weft__outgoing *current; /* half written; in no list */
    int lazy;                /* in `urgent`, behind the last write */
    weft__tcp_dial *dial;
    weft__tcp_link *link;
} weft__tcp_peer;

/* How a link ends; moved by end_as in tcp_link.c. */
typedef enum weft__tcp_ending {
    WEFT__TCP_OPEN,
    WEFT__TCP_DRAINING, /* writing failed: what has arrived is taken, then the peer is lost */
    WEFT__TCP_DROPPED   /* the runtime gave it up: what has arrived is taken, and nothing is said */
} weft__tcp_ending;

/* A link at the beginning of a recheck: what the set has to tell of, unless it is tried meanwhile. */
typedef struct weft__tcp_noted {
    int bytes;              /* that lie there to be read */
    bool room;              /* there is some, for a link that waits for it */
    uint32_t reads, writes; /* so far */
} weft__tcp_noted;

/* Likewise of what waits for one thing at a time: the listener, a handshake. */
typedef struct weft__tcp_looks {
    uint32_t made, noted; /* how often it was tried; by the beginning of a recheck */
    bool ready;           /* there was something to try for then */
} weft__tcp_looks;

struct weft__tcp_link {
    weft__polled polled; /* fd -1: closed, waits to be freed */
    weft__tcp_peer *peer;
    weft__list queued; /* in tcp->resume: goes on in the next poll; in tcp->closed: to be freed */
    weft__tcp_ending ending;
    weft__tcp_sealed *sealed; /* NULL: frames go plain */
    int error;                /* errno of the write that failed */
    bool reading, writing;    /* on the stack right now */
    bool blocked;             /* the socket is full; its edge will tell */
    bool hung_up;             /* the end has been announced: read on until it comes */

    unsigned char
        *rest; /* what a retracted, half written frame still owes the stream: a piece of tcp->rests */
    size_t rest_length, rest_done;
    bool promised; /* a piece for the frame that is, or will be, half written */

    weft__frame frame; /* whose payload is arriving, if in_frame */
    bool in_frame;
    unsigned char *where;   /* NULL: thrown away */
    size_t got;             /* of the payload */
    size_t allowance;       /* bytes this poll may still read */
    int wake_bytes;         /* SO_RCVLOWAT; 0: never set */
    uint32_t reads, writes; /* tried: whoever reads it twice sees whether it was between */
    weft__tcp_noted noted;
    size_t start, end; /* of what lies in buffer */
    unsigned char buffer[WEFT__TCP_BUFFER];
};

typedef enum weft__tcp_guest_step {
    WEFT__GUEST_FREE, /* the place is nobody's */
    WEFT__GUEST_HELLO,
    WEFT__GUEST_ANSWER,
    WEFT__GUEST_PROOF
} weft__tcp_guest_step;

typedef struct weft__tcp_guest {
    weft__polled polled;
    weft__tcp *tcp;
    weft__list link; /* in tcp->guests, oldest first, or tcp->free_guests */
    int64_t deadline_ns;
    weft__tcp_address address;
    weft__tcp_guest_step step; /* moved by guest_to in tcp_accept.c */
    size_t done;               /* bytes of this step */
    weft__tcp_looks looks;
    weft__tcp_hello hello;
    weft__tcp_answer answer;
    weft__tcp_proof proof;
    weft__tcp_handshake handshake; /* wiped with its place */
} weft__tcp_guest;

struct weft__tcp {
    weft__transport transport;
    int me, world, moved;
    int links;      /* that are up */
    int lazy;       /* frames that are, of all peers */
    int lazy_polls; /* until they go, if there are any */
    const weft__keys *keys;
    weft__poller *poller;
    weft__polled listener;
    weft__tcp_looks accepts;
    bool accept_again; /* connections may wait that no edge will tell of */
    bool stranger_told;
    int64_t accept_at_ns; /* no descriptors were left: when to try again */
    weft__polled alarm;   /* timerfd: nobody else would wake us for a time limit */
    int64_t alarm_at_ns;
    int64_t recheck_at_ns;     /* not before */
    weft__list resume, closed; /* of weft__tcp_link */
    weft__list dials;          /* of weft__tcp_dial */
    weft__rests rests;
    weft__list guests, free_guests;
    weft__tcp_guest guest[WEFT__TCP_GUESTS];
    weft__tcp_peer peer[];
};

/* tcp.c */
/* The end of a peer: everything of it is closed, then sink->lost, then sent(ERR_PEER).  Nothing if it is
 * gone. */
void weft__tcp_lose(weft__tcp_peer *peer, const char *format, ...) WEFT__PRINTF(2, 3);
void weft__tcp_peer_to(weft__tcp_peer *peer, weft__tcp_state to);
void weft__tcp_lazy_no_more(weft__tcp_peer *peer); /* its lazy frames go now, or never */
void weft__tcp_wake_at(weft__tcp *tcp, int64_t when_ns);
void weft__tcp_address_text(const weft__tcp_address *address, char text[WEFT__TCP_TEXT]);
void weft__tcp_socket_options(int fd);

/* One message of a handshake, as far as it goes. */
typedef enum weft__tcp_step { WEFT__STEP_WAIT, WEFT__STEP_DONE, WEFT__STEP_ENDED } weft__tcp_step;
/* ENDED: errno says why, 0 is the other end's close. */
weft__tcp_step weft__tcp_step_read(int fd, void *bytes, size_t length, size_t *done);
weft__tcp_step weft__tcp_step_write(int fd, const void *bytes, size_t length, size_t *done);

/* tcp_connect.c */
void weft__tcp_dial_begin(weft__tcp_peer *peer); /* may end in weft__tcp_lose */
void weft__tcp_dial_end(weft__tcp_peer *peer);   /* closes and frees; safe without one */
void weft__tcp_dials_due(weft__tcp *tcp, int64_t now_ns);
void weft__tcp_dial_note(weft__tcp_peer *peer); /* safe without one, as is the other */
void weft__tcp_dial_recheck(weft__tcp_peer *peer);

/* tcp_accept.c */
void weft__tcp_accept_all(weft__tcp *tcp);
void weft__tcp_guest_begin(weft__tcp *tcp, int fd, const weft__tcp_address *address); /* owns fd */
void weft__tcp_guest_end(weft__tcp_guest *guest);
void weft__tcp_guests_due(weft__tcp *tcp, int64_t now_ns);
void weft__tcp_accept_note(weft__tcp *tcp); /* the listener and the guests, at the beginning of a recheck */
void weft__tcp_accept_recheck(weft__tcp *tcp); /* and at its end */

/* tcp_link.c */
/* NULL: no memory.  handshake: whose keys it takes; not looked at where the peer's wire is plain. */
weft__tcp_link *weft__tcp_link_new(weft__tcp_peer *peer, const weft__tcp_handshake *handshake);
/* The peer is up on fd from now on; what is queued begins to flow. */
void weft__tcp_link_start(weft__tcp_link *link, int fd);
void weft__tcp_link_write(weft__tcp_link *link);
void weft__tcp_link_read(weft__tcp_link *link);
void weft__tcp_link_drop(weft__tcp_link *link); /* drains what is here, then closes */
void weft__tcp_link_end(weft__tcp_link *link);  /* closes; freed by sweep */
/* Takes the half written frame's rest into own memory, which was promised. */
void weft__tcp_link_detach(weft__tcp_link *link, const weft__outgoing *out);
void weft__tcp_links_sweep(weft__tcp *tcp);
/* For tcp_sealed.c, of a link whose writing or reading it is in. */
void weft__tcp_link_resume(weft__tcp_link *link); /* goes on in the next poll, though no edge will come */
/* Before the first byte of a frame: is there memory for its rest, should it be taken back half written? */
bool weft__tcp_link_may_begin(weft__tcp_link *link, const weft__outgoing *out);
void weft__tcp_link_rest_gone(weft__tcp_link *link); /* all of link->rest is written */
void weft__tcp_link_fail_unbegun(weft__outgoing *out);
void weft__tcp_link_settle(weft__tcp *tcp, weft__list *finished); /* of weft__outgoing: `sent`, one by one */
void weft__tcp_link_broken(weft__tcp_link *link, int error);      /* by writing */
/* A header has come.  False: the peer was lost over it. */
bool weft__tcp_link_begin_frame(weft__tcp_link *link, const void *header);
void weft__tcp_link_deliver(weft__tcp_link *link); /* all of its payload has */

/* tcp_sealed.c */
weft__tcp_sealed *weft__tcp_sealed_new(const weft__tcp_handshake *handshake); /* NULL: no memory */
void weft__tcp_sealed_free(weft__tcp_sealed *sealed);                         /* NULL: nothing */
bool weft__tcp_sealed_waits(
    const weft__tcp_sealed *sealed); /* sealed, and not written yet; NULL: nothing does */
size_t weft__tcp_sealed_here(const weft__tcp_sealed *sealed);         /* bytes read, and not opened yet */
void weft__tcp_sealed_write(weft__tcp_link *link);                    /* a turn of it */
ssize_t weft__tcp_sealed_receive(weft__tcp_link *link, size_t *room); /* one system call */
void weft__tcp_sealed_take(weft__tcp_link *link);                     /* opens what is whole of that */

/* tcp_recheck.c */
void weft__tcp_recheck(weft__tcp *tcp);
/* The events that the descriptor is ready for now, of poll's, which are epoll's; its
 * end is one in any case. */
uint32_t weft__tcp_ready(int fd, short wanted);
void weft__tcp_looks_note(weft__tcp_looks *looks, uint32_t ready);
bool weft__tcp_looks_missed(const weft__tcp_looks *looks); /* nothing has told of it since */
#endif
