/* transport.h - the seam for moving frames between two ranks.  Which transports stand behind it, and how one
 * is added, is in transports.h.
 *
 * Everything here is called by the holder of the engine and by nobody else, except open and close.
 * No slot blocks.  A transport keeps frames of one urgency between two ranks in order. */
#ifndef WEFT_NET_TRANSPORT_H
#define WEFT_NET_TRANSPORT_H
#include "completion.h"
#include "frame.h"
#include "hearing.h"
#include "list.h"

#include <stdbool.h>

/* A frame on its way out.  The owner fills the upper part, the transport uses the lower. */
typedef struct weft__outgoing {
    weft__frame frame;
    const void *payload; /* frame.length bytes */
    bool bulk;           /* payload of point to point: everything else goes first, between frames */
    bool lazy;           /* without payload: may go with the next one, or some polls later */
    bool stays;          /* nobody takes it back (retract) */
    bool more;           /* a piece of a message of which more follows: `sent` says that the next may go, and
                            the payload is the transport's until the last one is sent, or release */
    bool last;           /* of such a message: `sent` says that all of it is its owner's again */
    /* Payload and `out` are free again.  ERR_MEMORY: nothing of it was written (rests.h); never where it
     * stays. */
    void (*sent)(struct weft__outgoing *out, weft_status status);

    weft__list link;
    size_t done;   /* bytes written, header included */
    bool numbered; /* some of it may have arrived, though done is 0 */
    int peer;
} weft__outgoing;

/* Where arriving frames go; one for all transports of a context.  Called from inside poll and send. */
typedef struct weft__sink weft__sink;
struct weft__sink {
    /* A header has arrived and passed weft__frame_check.  Not called where frame->length is 0.  Returns where
     * its payload goes, so many bytes, or NULL: the payload is thrown away.  Must not fail. */
    void *(*header)(weft__sink *sink, int peer, const weft__frame *frame);
    /* The payload is there (also for length 0 and for thrown away ones; then `where` is NULL). */
    void (*arrived)(weft__sink *sink, int peer, const weft__frame *frame, void *where);
    /* Nothing will come from peer any more and nothing can be sent to it.  Once per peer, and once more for each
     * begin_anew. */
    void (*lost)(weft__sink *sink, int peer, const char *why);
    /* Its connection is there; of a transport that makes one.  Once per peer, and once more for each begin_anew.
     * NULL: nobody asks. */
    void (*connected)(weft__sink *sink, int peer);
    /* As lost, but it lives and asks for a connection that begins anew: it had let go of this rank (begin_anew).
     * Whoever does not begin anew before this returns refuses it.  NULL: it is lost. */
    void (*let_go)(weft__sink *sink, int peer, const char *why);
    /* It has left, with that, and says nothing more: seen otherwise than by a frame (leave).  Once or more for each peer.
     * NULL: nobody asks. */
    void (*left)(weft__sink *sink, int peer, weft_status status, const char *why);
    /* Frames wait for what this process lacks, for which no descriptor and no peer will wake anybody: poll is to be called
     * at that time.  Told anew in each poll.  NULL: nobody asks. */
    void (*lacks)(weft__sink *sink, int64_t until_ns);
};

/* What holds of a transport.  Whoever has to know asks for one of these, and never which transport it is.
 *
 *   LOCAL    it goes through the memory that the ranks of a host share (shm_segment.h).  They share it if each of
 *            them offers such a transport; then each watches the processes of the others
 *   WAKES    what arrives shows at a descriptor in the poller, on which a thread can sleep; without this the
 *            sender rings the receiver's bell (weft__bell_ring)
 *   ORDERED  frames of one urgency between two ranks stay in order; the point-to-point layer takes no other
 *            transport as yet
 *   EXPOSES  it has expose and fetch */
typedef enum weft__transport_trait {
    WEFT__TRANSPORT_LOCAL = 1U << 0,
    WEFT__TRANSPORT_WAKES = 1U << 1,
    WEFT__TRANSPORT_ORDERED = 1U << 2,
    WEFT__TRANSPORT_EXPOSES = 1U << 3
} weft__transport_trait;

/* Memory of one rank that another one may read: what expose makes and fetch takes.  It travels as it is. */
#define WEFT__TRANSPORT_KEY_BYTES 63
typedef struct weft__transport_key {
    uint8_t length;
    uint8_t bytes[WEFT__TRANSPORT_KEY_BYTES];
} weft__transport_key;

struct weft__transport {
    const char *name;    /* that of its row */
    unsigned traits;     /* likewise */
    size_t eager_bytes;  /* up to so many a message goes unasked: to ask first would cost more than a copy */
    size_t prefix_bytes; /* so many of a longer one go with the question: they are on their way while it is
                           answered */
    weft__sink *sink;
    /* Owns `out` until it calls out->sent, which it may do before it returns.  Waits in a queue while there
     * is no room or no connection yet.  After lost(peer): sent(ERR_PEER) at once. */
    void (*send)(weft__transport *t, int peer, weft__outgoing *out);
    /* A frame that nothing waits before and that there is room for can be written at once and whole: takes
     * its payload, and returns where its header is to be written, all but the first 8 bytes; commit, with
     * those (weft__frame_first), sends it.  The next call must be commit.  NULL: it has to be sent. */
    weft__frame *(*reserve)(weft__transport *t, int peer, const void *payload,
                            size_t length); /* NULL: never */
    void (*commit)(weft__transport *t, int peer, uint64_t first, size_t length);
    /* The frame that the sink would get next from peer, if all of it has arrived and passed
     * weft__frame_check; else NULL.  It stays there, and the next one, until it is taken or read. */
    const weft__frame *(*next)(weft__transport *t, int peer); /* NULL: never */
    void (*take)(weft__transport *t, int peer, void *where);  /* that frame, past the sink: its payload */
    void (*read)(weft__transport *t, int peer);               /* that frame goes to the sink */
    /* Take a frame back that send was given and whose `sent` has not been called.  Afterwards neither the
     * payload nor `out` is touched and sent is not called.  A frame half written goes on from a private
     * copy of its rest, for which memory was put by before it was begun (rests.h). */
    void (*retract)(weft__transport *t, weft__outgoing *out);
    /* The payloads of what was sent with `out`, with more to follow, are their owner's again.  Afterwards they
     * are not touched.  NULL: they are not touched once `sent` has been called. */
    void (*release)(weft__transport *t, int peer, weft__outgoing *out);
    /* The buffer that header() returned is no longer there: throw away what still arrives for it. */
    void (*forget)(weft__transport *t, int peer, void *where);
    /* Read and write what can be read and written now, about budget frames.  Returns how many moved. */
    int (*poll)(weft__transport *t, int budget);
    void (*hurry)(weft__transport *t); /* lazy ones go now; NULL: they always do */
    /* Frames that wait or are half written, lazy ones among them: is there something to do that nobody will
     * ring for? */
    bool (*busy)(const weft__transport *t);
    /* Now and then, by who watches deadlines: reads and writes wherever it can, whatever the kernel has
     * told, and logs what it should have told and has not.  NULL: poll always does. */
    void (*recheck)(weft__transport *t);
    /* True once everything given to send for this peer has left this process's memory (shm: has been
     * taken by the peer; tcp: is in the kernel). */
    bool (*flushed)(const weft__transport *t, int peer);
    /* The runtime knows that peer is gone (died, left): calls out->sent(ERR_PEER) for what is queued;
     * drains what has already arrived first.  Does not call lost. */
    void (*drop)(weft__transport *t, int peer);
    /* As drop, of a peer that lives: what is written and has not been acknowledged ends in ERR_PEER too, as it may never arrive,
     * and nothing else would tell.  NULL: as drop. */
    void (*drop_living)(weft__transport *t, int peer);
    /* This rank leaves, with that: peers that see its process end find it there, unless a frame has told them before, and
     * their sinks hear `left`.  NULL: no peer sees that. */
    void (*leave)(weft__transport *t, weft_status status, const char *why);
    /* And this peer, to which no frame was ever sent, hears it now.  It takes no memory.  NULL: as leave is. */
    void (*tell_left)(weft__transport *t, int peer);
    /* That peer has called leave: nothing that is sent there is of use any more.  NULL: as leave is. */
    bool (*has_left)(const weft__transport *t, int peer);
    /* After drop, drop_living or lost: peer lives, and is tried again and again until it is dropped, or lost once more.  Its next
     * connection, of which sink->connected tells, begins a sequence of frames of its own, and its other end lets go
     * of the one before too.  Until then sends to it end in ERR_PEER.  NULL: never. */
    void (*begin_anew)(weft__transport *t, int peer);
    /* How often the two have done so; alike at both ends while they have a connection.  NULL: never. */
    uint32_t (*course)(const weft__transport *t, int peer);
    /* What this process lacks, in words, so that it has no connection to peer; NULL: nothing.  The slot is NULL: nothing ever. */
    const char *(*want)(const weft__transport *t, int peer);
    void (*close)(weft__transport *t); /* frees t; queued frames get sent(ERR_CANCELLED) */
    const weft__hearing *hearing;      /* whether hosts live; NULL: of its peers this is seen otherwise */
    /* Room for transports that read registered memory of another rank without a frame for each piece.  No
     * transport has these two yet, and nothing calls them: both are NULL.
     * expose lets other ranks read [memory, + bytes), until it is called with that key and 0 bytes; the key
     * would go with the announcement of a long message.  fetch reads from `offset` on of what peer exposed as
     * key, and counts `fetched` down (ERR_PEER: the peer is gone) when nothing is written to `where` any
     * more. */
    weft_status (*expose)(weft__transport *t, const void *memory, size_t bytes, weft__transport_key *key);
    void (*fetch)(weft__transport *t, int peer, const weft__transport_key *key, size_t offset, void *where,
                  size_t bytes, weft__completion *fetched);
};
#endif
