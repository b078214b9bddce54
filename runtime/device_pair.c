/* device_pair.c - messages on device memory: not built yet, and said so. */
#include "device.h"

void weft__device_pair_start(weft_request *req)
{
    weft__request_settlef(req, WEFT_ERR_UNSUPPORTED,
                          "messages on device memory: this version does not have them");
}

void weft__device_pair_stop(weft_request *req)
{
    (void)req;
}

void weft__device_pair_control(weft_context *ctx, int peer, const void *bytes, size_t length)
{
    (void)ctx;
    (void)peer;
    (void)bytes;
    (void)length;
}
