/* absent.c - what weft.h promises and this version does not have yet: each call says so and does nothing. */
#include "status.h"

#include <weft/cuda.h>

#define ABSENT(what) weft__fail(WEFT_ERR_UNSUPPORTED, what ": this version of the library does not have it")

weft_status weft_stream_wait(weft_request *req, weft_cuda_stream stream)
{
    (void)req;
    (void)stream;
    return ABSENT("stream_wait");
}

weft_status weft_device_memory(weft_context *ctx, size_t *bytes)
{
    (void)ctx;
    (void)bytes;
    return ABSENT("device_memory");
}
