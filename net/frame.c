/* frame.c - refuses headers that no correct rank sends.
 *
 * Pure and total: any 64 bytes may come in.  A header that passes can be handled without overflow and
 * without allocating more than WEFT__FRAME_PAYLOAD_MAX for its payload; whether it fits what the receiver
 * knows (handles, groups, credit) is for the layers above. */
#include "frame.h"
#include "status.h"

#include <inttypes.h>
#include <stdbool.h>

static bool carries_payload(uint8_t kind)
{
    return kind == WEFT__FRAME_EAGER || kind == WEFT__FRAME_RTS || kind == WEFT__FRAME_DATA ||
           kind == WEFT__FRAME_CONTROL || kind == WEFT__FRAME_BYE; /* why it leaves */
}

static bool known_flags(const weft__frame *frame)
{
    bool pair = frame->channel != WEFT__CHANNEL_COLLECTIVE;
    switch (frame->flags) {
    case 0: return true;
    case WEFT__FRAME_APART: return pair && frame->kind == WEFT__FRAME_RTS;
    case WEFT__FRAME_SMALL: return pair && frame->kind == WEFT__FRAME_EAGER && !frame->length;
    case WEFT__FRAME_TOKEN: return !pair && frame->kind == WEFT__FRAME_EAGER && !frame->bytes;
    default: return false;
    }
}

/* Does the frame of a whole message carry as many bytes as it says? */
static bool has_its_bytes(const weft__frame *frame)
{
    if (frame->flags & WEFT__FRAME_SMALL) return frame->bytes <= WEFT__FRAME_SMALL_BYTES;
    return frame->bytes == frame->length;
}

weft_status weft__frame_look_closely(const weft__frame *frame)
{
    uint8_t kind = frame->kind;

    if (kind == 0 || kind >= WEFT__FRAME_KINDS)
        return weft__fail(WEFT_ERR_PEER, "a frame of unknown kind %u", (unsigned)kind);
    if (!known_flags(frame) || frame->reserved)
        return weft__fail(WEFT_ERR_PEER, "a frame with unknown flags %#x, %#x", (unsigned)frame->flags,
                          (unsigned)frame->reserved);
    if (frame->channel >= WEFT__CHANNELS)
        return weft__fail(WEFT_ERR_PEER, "a frame for unknown channel %u", (unsigned)frame->channel);
    if (frame->length > WEFT__FRAME_PAYLOAD_MAX)
        return weft__fail(WEFT_ERR_PEER, "a frame of %" PRIu32 " bytes; the longest is %u", frame->length,
                          WEFT__FRAME_PAYLOAD_MAX);
    if (frame->length && !carries_payload(kind))
        return weft__fail(WEFT_ERR_PEER, "a frame of kind %u with %" PRIu32 " bytes of payload",
                          (unsigned)kind, frame->length);
    if ((kind == WEFT__FRAME_EAGER || kind == WEFT__FRAME_RTS) && frame->dtype > WEFT_BOOL)
        return weft__fail(WEFT_ERR_PEER, "a message of unknown type %u", (unsigned)frame->dtype);
    if (kind == WEFT__FRAME_EAGER && !has_its_bytes(frame))
        return weft__fail(WEFT_ERR_PEER, "a whole message of %" PRIu64 " bytes in a frame of %" PRIu32,
                          frame->bytes, frame->length);
    if (kind == WEFT__FRAME_RTS && frame->length &&
        (frame->length >= frame->bytes || frame->flags & WEFT__FRAME_APART))
        return weft__fail(WEFT_ERR_PEER, "an announcement of %" PRIu64 " bytes, flags %#x, with %" PRIu32,
                          frame->bytes, (unsigned)frame->flags, frame->length);
    if (kind == WEFT__FRAME_DATA && frame->bytes > UINT64_MAX - frame->length)
        return weft__fail(WEFT_ERR_PEER, "payload at offset %" PRIu64, frame->bytes);
    return WEFT_OK;
}
