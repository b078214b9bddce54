/* tcp_link.h - what the files of the TCP transport know of each other; nobody else includes it.
 *
 *   tcp.c          the transport's slots, its peers and their queues, listening
 *   tcp_connect.c  a connection this rank makes: dial, greet, prove, wait for the verdict
 *   tcp_accept.c   a connection somebody made to us: a stranger until its proof is there
 *   tcp_link.c     an established connection: reading and writing frames
 *   tcp_sealed.c   one that is encrypted: what stands between the socket and the frames
 *   tcp_kept.c     frames that are written and not acknowledged
 *   tcp_mend.c     a connection that broke, and the one that takes its place
 *   tcp_recheck.c  the links checked without being told of
 *   tcp_hearing.c  whether the hosts at their other ends live
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
#define WEFT__TCP_DIALS      10  /* attempts at one peer that closes before it has proved who it is */
#define WEFT__TCP_PATIENCE   12  /* times WEFT_HANDSHAKE_MS: then who says nothing is late */
#define WEFT__TCP_LAZY       8   /* frames for one peer that go together rather than at once */
#define WEFT__TCP_TELL_POLLS 8   /* for the word of what has arrived to go with something else */
#define WEFT__TCP_TEXT       80  /* an address as text */
#define WEFT__TCP_WHY        256 /* what a connection broke with, as text */

/* The acceptor's verdict, one byte. */
typedef enum weft__tcp_verdict {
    WEFT__TCP_TAKEN = 1, /* frames may come */
    WEFT__TCP_CROSSED,   /* we have both dialled: mine stays, being the lower rank's */
    WEFT__TCP_UNWANTED,  /* this peer counts as gone */
    WEFT__TCP_BEHIND     /* this peer is to let go first: where the acceptor stands has its course */
} weft__tcp_verdict;

/* As weft__tcp_peer_to in tcp.c has it. */
typedef enum weft__tcp_state {
    WEFT__TCP_IDLE,     /* nothing has been sent yet, nobody has come */
    WEFT__TCP_DIALLING, /* `dial` is at work */
    WEFT__TCP_UP,       /* `link` is there */
    WEFT__TCP_MENDING,  /* it broke: `dial` is at work on another one */
    WEFT__TCP_ASTRAY,   /* it was let go of, and lives: `dial` is at work on one that begins anew */
    WEFT__TCP_GONE      /* for good, or until it is to begin anew */
} weft__tcp_state;

typedef struct weft__tcp weft__tcp;
typedef struct weft__tcp_link weft__tcp_link;
typedef struct weft__tcp_dial weft__tcp_dial;
typedef struct weft__tcp_sealed weft__tcp_sealed; /* tcp_sealed.c */
typedef struct weft__tcp_kept weft__tcp_kept;     /* tcp_kept.c */

/* The frame whose payload is arriving, if `begun`.  It outlives the connection over which it began. */
typedef struct weft__tcp_arriving {
    weft__frame frame;
    bool begun;
    unsigned char *where; /* NULL: thrown away */
    size_t got;           /* of the payload */
    bool wanted;          /* its sender waits for word of it */
} weft__tcp_arriving;

typedef struct weft__tcp_peer {
    weft__tcp *tcp;
    int rank;
    weft__tcp_state state;
    weft__tcp_address address;
    weft__tcp_wire wire;     /* of the connection with it */
    weft__list urgent, bulk; /* of weft__outgoing, untouched ones */
    weft__outgoing *current; /* half written; in no list */
    int lazy;                /* in `urgent`, behind the last write */
    weft__list lazies;       /* in tcp->lazies, while there are any */
    weft__tcp_dial *dial;
    bool put_off; /* there was no memory for one: it is tried again */
    weft__tcp_link *link;
    weft__tcp_kept *kept; /* from the first connection on */
    weft__tcp_arriving in;
    uint64_t taken;                /* frames that have arrived, of all connections */
    uint32_t untold, untold_bytes; /* of them, since this rank last told how many */
    uint32_t links;      /* connections so far, of this course, as either end has counted: never fewer */
    uint32_t known;      /* of these, as many as the other end is sure to know of */
    uint32_t course;     /* of frames: tcp_mend.c */
    bool met;            /* there was one, of this course, at this end */
    int64_t broken_ns;   /* when the last one broke; 0: none has */
    uint64_t moved_then; /* frames that had come and gone by then */
    uint32_t fruitless;  /* so many broke without one */
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
    weft__list up;     /* in tcp->up, while it is open */
    weft__tcp_ending ending;
    weft__tcp_sealed *sealed; /* NULL: frames go plain */
    int error;                /* errno of the write that failed */
    int64_t waits_ns;      /* something is not acknowledged since, as far as that was looked at; 0: nothing */
    bool reading, writing; /* on the stack right now */
    bool blocked;          /* the socket is full; its edge will tell */
    bool hung_up;          /* the end has been announced: read on until it comes */

    bool promised;          /* a piece for the frame that is, or will be, half written */
    bool dialled;           /* by this rank */
    bool tells;             /* the other end waits for word of what has arrived */
    weft__list telling;     /* in tcp->telling, while it does */
    weft__outgoing ack;     /* tells it where no other frame does */
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
    weft__tcp_standing standing;   /* with its proof */
    weft__tcp_handshake handshake; /* wiped with its place */
} weft__tcp_guest;

struct weft__tcp {
    weft__transport transport;
    int me, world, moved;
    int links;      /* in `up` */
    int lazy;       /* frames that are, of all peers */
    int lazy_polls; /* until they go, if there are any */
    int tell_polls; /* until word goes by itself, if any of `telling` has some */
    const weft__keys *keys;
    weft__poller *poller;
    weft__polled listener;
    weft__tcp_looks accepts;
    bool accept_again;              /* connections may wait that no edge will tell of */
    bool stranger_told, claim_told; /* of those that are told as warnings, the first one has been */
    int64_t accept_at_ns;           /* no descriptors were left: when to try again */
    int held_fd;                    /* a connection that could not be watched; -1: there is none */
    bool held_told;
    weft__tcp_address held; /* where it is from */
    weft__polled alarm;     /* timerfd: nobody else would wake us for a time limit */
    int64_t alarm_at_ns;
    int64_t recheck_at_ns;     /* not before */
    weft__list resume, closed; /* of weft__tcp_link */
    weft__list up, telling;    /* of weft__tcp_link: a poll looks at these, and never through all peers */
    weft__list lazies;         /* of weft__tcp_peer */
    weft__list dials;          /* of weft__tcp_dial */
    int put_off;               /* peers whose dial is */
    weft__rests rests;
    weft__list guests, free_guests;
    weft__tcp_guest guest[WEFT__TCP_GUESTS];
    weft__tcp_peer peer[];
};

/* tcp.c */
/* The end of a peer: everything of it is closed, then sink->lost, then sent(ERR_PEER).  Nothing if it is
 * gone. */
void weft__tcp_lose(weft__tcp_peer *peer, const char *format, ...) WEFT__PRINTF(2, 3);
/* The other end is at a later course: this one lets go too.  True: it is astray now, and at that course. */
bool weft__tcp_follow(weft__tcp_peer *peer, uint32_t course);
void weft__tcp_peer_to(weft__tcp_peer *peer, weft__tcp_state to);
void weft__tcp_lazy_no_more(weft__tcp_peer *peer); /* its lazy frames go now, or never */
void weft__tcp_wake_at(weft__tcp *tcp, int64_t when_ns);

/* tcp_socket.c */
void weft__tcp_address_text(const weft__tcp_address *address, char text[WEFT__TCP_TEXT]);
socklen_t weft__tcp_name(const weft__tcp_address *address, struct sockaddr_storage *name);
void weft__tcp_socket_options(int fd);
/* It says something of this process or machine, and nothing of another rank. */
bool weft__tcp_is_own_want(int error);
void weft__tcp_keep_alive(int fd, bool soon); /* soon: a host that has vanished ends it within seconds */
bool weft__tcp_is_acknowledged(int fd);       /* all that was sent; before that keepalive does not look */

/* One message of a handshake, as far as it goes. */
typedef enum weft__tcp_step { WEFT__STEP_WAIT, WEFT__STEP_DONE, WEFT__STEP_ENDED } weft__tcp_step;
/* ENDED: errno says why, 0 is the other end's close. */
weft__tcp_step weft__tcp_step_read(int fd, void *bytes, size_t length, size_t *done);
weft__tcp_step weft__tcp_step_write(int fd, const void *bytes, size_t length, size_t *done);

/* tcp_connect.c */
/* why: a connection broke, and this is what with; NULL: there was none yet.  May end in weft__tcp_lose.  Where there is no memory
 * for it there is none at first. */
void weft__tcp_dial_begin(weft__tcp_peer *peer, const char *why);
/* Likewise, after a while: the connection broke as this process lacked something. */
void weft__tcp_dial_begin_in_want(weft__tcp_peer *peer, const char *why, int error);
void weft__tcp_dial_end(weft__tcp_peer *peer); /* closes and frees; safe without one */
void weft__tcp_dials_due(weft__tcp *tcp, int64_t now_ns);
void weft__tcp_dial_note(weft__tcp_peer *peer); /* safe without one, as is the other */
int64_t
weft__tcp_dial_unheard(const weft__tcp_peer *peer); /* nobody has answered it since; 0: somebody has */
/* A connection is being made that may still be taken. */
bool weft__tcp_dial_is_hopeful(const weft__tcp_peer *peer);
/* What this process lacks for it, in words; NULL: nothing. */
const char *weft__tcp_dial_want(const weft__tcp_peer *peer);
void weft__tcp_dial_recheck(weft__tcp_peer *peer);

/* tcp_accept.c */
void weft__tcp_accept_all(weft__tcp *tcp);
void weft__tcp_guest_begin(weft__tcp *tcp, int fd, const weft__tcp_address *address); /* owns fd */
void weft__tcp_guest_end(weft__tcp_guest *guest);
void weft__tcp_held_end(
    weft__tcp *tcp); /* closes the connection that could not be watched, if there is one */
void weft__tcp_guests_due(weft__tcp *tcp, int64_t now_ns);
void weft__tcp_accept_note(weft__tcp *tcp); /* the listener and the guests, at the beginning of a recheck */
void weft__tcp_accept_recheck(weft__tcp *tcp); /* and at its end */

/* tcp_link.c */
weft__tcp_link *weft__tcp_link_new(weft__tcp_peer *peer); /* NULL: no memory */
/* The keys that follow the verdict; nothing where the peer's wire is plain. */
void weft__tcp_link_take_keys(weft__tcp_link *link, const weft__tcp_handshake *handshake);
void weft__tcp_link_take_over(weft__tcp_link *link,
                              weft__polled *from); /* its descriptor, which is watched */
/* The peer is up from now on; what is queued begins to flow, from where the other end stands. */
void weft__tcp_link_start(weft__tcp_link *link, const weft__tcp_standing *theirs);
void weft__tcp_link_write(weft__tcp_link *link);
void weft__tcp_link_read(weft__tcp_link *link);
void weft__tcp_link_drop(weft__tcp_link *link); /* drains what is here, then closes */
void weft__tcp_link_end(weft__tcp_link *link);  /* closes; freed by sweep */
/* Takes the half written frame into own memory, which was promised. */
void weft__tcp_link_detach(weft__tcp_link *link, weft__outgoing *out);
void weft__tcp_links_sweep(weft__tcp *tcp);
/* For tcp_sealed.c, of a link whose writing or reading it is in. */
void weft__tcp_link_resume(weft__tcp_link *link); /* goes on in the next poll, though no edge will come */
/* Before the first byte of a frame: is there memory for its rest, should it be taken back half written? */
bool weft__tcp_link_may_begin(weft__tcp_link *link, const weft__outgoing *out);
/* Its header is to go now: what has arrived here is told with it.  It counts as told when the first byte of that header
 * has gone (stamp_gone): what the socket does not take may never go in this form. */
void weft__tcp_link_stamp(weft__tcp_link *link, weft__outgoing *out);
void weft__tcp_link_stamp_gone(weft__tcp_link *link);
/* All of it is written: it is kept, and if its owner is to be told now it is put to `finished`. */
void weft__tcp_link_written(weft__tcp_link *link, weft__outgoing *out, weft__list *finished);
/* Word of what has arrived, which goes with no other frame: link->ack is to be written.  Asked last. */
bool weft__tcp_link_has_to_tell(weft__tcp_link *link);
void weft__tcp_link_fail_unbegun(weft__outgoing *out);
void weft__tcp_link_broken(weft__tcp_link *link, int error); /* by writing */
/* A header has come.  False: the peer was lost over it. */
bool weft__tcp_link_begin_frame(weft__tcp_link *link, const void *header);
void weft__tcp_link_deliver(weft__tcp_link *link); /* all of its payload has */

/* tcp_sealed.c */
weft__tcp_sealed *weft__tcp_sealed_new(void); /* NULL: no memory */
void weft__tcp_sealed_take_keys(weft__tcp_sealed *sealed, const weft__tcp_handshake *handshake);
void weft__tcp_sealed_free(weft__tcp_sealed *sealed); /* NULL: nothing */
bool weft__tcp_sealed_waits(
    const weft__tcp_sealed *sealed); /* sealed, and not written yet; NULL: nothing does */
size_t weft__tcp_sealed_here(const weft__tcp_sealed *sealed);         /* bytes read, and not opened yet */
void weft__tcp_sealed_write(weft__tcp_link *link);                    /* a turn of it */
ssize_t weft__tcp_sealed_receive(weft__tcp_link *link, size_t *room); /* one system call */
void weft__tcp_sealed_take(weft__tcp_link *link);                     /* opens what is whole of that */

/* tcp_kept.c */
#define WEFT__TCP_COUNT_MASK \
    0x7fffffffu /* of a header's `reserved`: frames that have arrived, their low bits */
#define WEFT__TCP_WANTS_WORD 0x80000000u  /* of the same: the sender waits for word of this one */
weft__tcp_kept *weft__tcp_kept_new(void); /* NULL: no memory */
void weft__tcp_kept_free(weft__tcp_peer *peer);
/* It is all written.  True: its owner is to be told now; it is in no list then. */
bool weft__tcp_keep(weft__tcp_peer *peer, weft__outgoing *out);
/* Does its owner wait until it is acknowledged, or will others have to? */
bool weft__tcp_wants_word(const weft__tcp_peer *peer, const weft__outgoing *out);
/* So many frames have arrived, their low bits; tells owners.  False: that cannot be. */
bool weft__tcp_acknowledged(weft__tcp_peer *peer, uint32_t taken);
uint64_t weft__tcp_acknowledged_count(const weft__tcp_peer *peer); /* of all connections */
weft__list *weft__tcp_again(weft__tcp_peer *peer); /* of weft__outgoing: to be written before all others */
bool weft__tcp_is_void(const weft__outgoing *out); /* there was no memory to keep it: it cannot be written */
/* All that is not acknowledged is to be written again, from its beginning. */
void weft__tcp_kept_unwrite(weft__tcp_peer *peer);
/* The other end stands there: what has arrived is taken out, its owners are put to `owners`.  A sentence: it
 * cannot go on from there. */
const char *weft__tcp_kept_resume(weft__tcp_peer *peer, const weft__tcp_standing *theirs, weft__list *owners);
void weft__tcp_kept_tell(weft__list *owners, weft_status status); /* `sent`, one by one */
/* In its place stands a copy, and its owner has it back.  False: there is none, and it was to be written. */
bool weft__tcp_kept_stand_in(weft__tcp_peer *peer, weft__outgoing *out);
/* Likewise of one half written, for which memory may have been promised; returns the copy, or NULL. */
weft__outgoing *weft__tcp_kept_detach(weft__tcp_peer *peer, weft__outgoing *out, bool promised);
/* The payloads that its owner sent with more to follow are copied.  False: as above. */
bool weft__tcp_kept_release(weft__tcp_peer *peer, const weft__outgoing *owner);
/* The end of the peer: owners of what was all written, and of what was to be written again. */
void weft__tcp_kept_take_out(weft__tcp_peer *peer, weft__list *written, weft__list *others);

/* tcp_mend.c */
/* Its connection is over.  It is tried to make another one, or (WEFT_RECONNECT_MS is 0) the peer is lost. */
void weft__tcp_mend(weft__tcp_peer *peer, const char *format, ...) WEFT__PRINTF(2, 3);
/* Its connection is over for this end, and the caller has another one at hand. */
void weft__tcp_unlink(weft__tcp_peer *peer);
/* The other end stands at theirs and wants another connection in place of the one that stands here: does it
 * know that one, so that it is over? */
bool weft__tcp_is_newer(const weft__tcp_peer *peer, const weft__tcp_standing *theirs);
/* Likewise where none stands: theirs is of before one that it has had since, and says nothing of now. */
bool weft__tcp_is_overtaken(const weft__tcp_peer *peer, const weft__tcp_standing *theirs);
weft__tcp_standing weft__tcp_stand(const weft__tcp_peer *peer);
/* A new connection goes on from there.  False: the peer was lost over it. */
bool weft__tcp_go_on(weft__tcp_peer *peer, const weft__tcp_standing *theirs);

/* tcp_hearing.c */
extern const weft__hearing weft__tcp_hearing;

/* tcp_recheck.c */
void weft__tcp_recheck(weft__tcp *tcp);
/* The events that the descriptor is ready for now, of poll's, which are epoll's; its
 * end is one in any case. */
uint32_t weft__tcp_ready(int fd, short wanted);
void weft__tcp_looks_note(weft__tcp_looks *looks, uint32_t ready);
bool weft__tcp_looks_missed(const weft__tcp_looks *looks); /* nothing has told of it since */
#endif
