/* Any 64 bytes as a frame's header: what passes must be safe to receive. */
#include "frame.h"
#include "fuzz.h"

#include <stdlib.h>
#include <string.h>

size_t fuzz_reached; /* headers that pass */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    weft__frame frame;
    for (; bytes >= sizeof frame; data += sizeof frame, bytes -= sizeof frame) {
        memcpy(&frame, data, sizeof frame);
        if (weft__frame_check(&frame)) {
            if (!*weft_last_error()) abort();
        } else if (frame.length > WEFT__FRAME_PAYLOAD_MAX || frame.kind == 0 ||
                   frame.kind >= WEFT__FRAME_KINDS || frame.channel >= WEFT__CHANNELS) {
            abort();
        } else {
            fuzz_reached++;
        }
    }
    return 0;
}
