/* frame.h - the one header in front of everything that travels between two ranks, on every transport.
 * 64 bytes, little-endian, fixed.  All that is needed to refuse a frame is in it: nothing is allocated
 * for a payload before weft__frame_check has passed. */
#ifndef WEFT_NET_FRAME_H
#define WEFT_NET_FRAME_H
#include <stdbool.h>
#include <stdint.h>
#include <weft/weft.h>

/* What a frame does.  0 never travels: in shared memory it means "not written yet". */
typedef enum weft__frame_kind {
    WEFT__FRAME_EAGER = 1, /* a whole message, payload included */
    WEFT__FRAME_RTS,       /* a message of `bytes` wants to be sent; sender's handle in id.  Its first bytes
                              may come along */
    WEFT__FRAME_CTS,  /* go on: id is the sender's handle, sequence the receiver's; bytes wanted (0: none) */
    WEFT__FRAME_DATA, /* payload for receive id (receiver's handle), at offset `bytes` */
    WEFT__FRAME_CANCEL,    /* the sender gives up the message announced with id */
    WEFT__FRAME_CREDIT,    /* `bytes` of eager room are free again */
    WEFT__FRAME_CONTROL,   /* for the runtime: tag tells what */
    WEFT__FRAME_BYE,       /* nothing follows: this rank leaves; status in tag, why in the payload */
    WEFT__FRAME_BYE_TAKEN, /* everything before your BYE has been taken */
    WEFT__FRAME_KINDS,
    WEFT__FRAME_ACK = 255 /* a transport's own, of which no sink hears: so much has arrived */
} weft__frame_kind;

/* Spaces in which messages are matched apart from each other. */
typedef enum weft__channel {
    WEFT__CHANNEL_COLLECTIVE, /* by (group, sequence, tag) */
    WEFT__CHANNEL_PAIR,       /* isend, irecv: by (group, tag), in order */
    WEFT__CHANNEL_EXCHANGE,   /* send_recv: by group, in order */
    WEFT__CHANNELS
} weft__channel;

/* Flags; the first two, of messages between two ranks. */
#define WEFT__FRAME_APART 1 /* of an RTS: its payload goes another way */
#define WEFT__FRAME_SMALL 2 /* of an EAGER: its payload is in the header, which saves a cache line */
#define WEFT__FRAME_TOKEN 4 /* of an EAGER of nothing, of a collective: it may be that nobody receives it */

#define WEFT__FRAME_SMALL_BYTES 16

typedef struct weft__frame {
    uint8_t kind, channel, dtype, flags;
    uint32_t length; /* payload bytes behind this header */
    int32_t tag;
    uint32_t reserved; /* 0, but for what a transport writes there for its other end */
    uint64_t group;
    uint64_t sequence;
    uint64_t bytes; /* of the whole message, or an offset */
    uint64_t id;
    union {
        uint64_t
            signature[2]; /* collectives: what the sender believes it takes part in; else its number, 0 */
        unsigned char small[WEFT__FRAME_SMALL_BYTES]; /* SMALL: `bytes` of payload, then 0 */
    };
} weft__frame;
_Static_assert(sizeof(weft__frame) == 64, "frames are 64 bytes on every wire");

/* Its first 8 bytes, kind to length; never 0. */
static inline uint64_t weft__frame_first(weft__frame_kind kind, weft__channel channel, uint8_t dtype,
                                         uint8_t flags, uint32_t length)
{
    return (uint64_t)kind | (uint64_t)channel << 8 | (uint64_t)dtype << 16 | (uint64_t)flags << 24 |
           (uint64_t)length << 32;
}

/* Longest payload of one frame: one progress pass.  Over loopback one of half that costs a MiB 15 % more, and
 * of twice that a long message does. */
#define WEFT__FRAME_PAYLOAD_MAX (512u * 1024)

/* Checks what can be checked without context; ERR_PEER with a sentence if a peer sent nonsense.  Of most
 * frames, short messages, few compares tell. */
weft_status weft__frame_look_closely(const weft__frame *frame);
static inline weft_status weft__frame_check(const weft__frame *frame)
{
    bool plain = frame->kind == WEFT__FRAME_EAGER && frame->flags == WEFT__FRAME_SMALL &&
                 frame->channel == WEFT__CHANNEL_PAIR && frame->dtype <= WEFT_BOOL && !frame->length &&
                 !frame->reserved && frame->bytes <= WEFT__FRAME_SMALL_BYTES;
    return plain ? WEFT_OK : weft__frame_look_closely(frame);
}
#endif
