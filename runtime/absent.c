/* absent.c - what weft.h promises and this version does not have yet: each call says so and does nothing. */
#include "status.h"

#include <weft/cuda.h>

#define ABSENT(what) weft__fail(WEFT_ERR_UNSUPPORTED, what ": this version of the library does not have it")

weft_status weft_shrink_group(weft_group *group, const weft_call *call, weft_group **survivors,
                              weft_request **req)
{
    (void)group;
    (void)call;
    (void)survivors;
    (void)req;
    return ABSENT("shrink_group");
}

weft_status weft_all_gather_v(weft_group *group, const void *in, size_t count, void *out,
                              const size_t *counts, const size_t *displs, weft_dtype dtype,
                              const weft_call *call, weft_request **req)
{
    (void)group;
    (void)in;
    (void)count;
    (void)out;
    (void)counts;
    (void)displs;
    (void)dtype;
    (void)call;
    (void)req;
    return ABSENT("all_gather_v");
}

weft_status weft_gather_v(weft_group *group, const void *in, size_t count, void *out, const size_t *counts,
                          const size_t *displs, weft_dtype dtype, int root, const weft_call *call,
                          weft_request **req)
{
    (void)group;
    (void)in;
    (void)count;
    (void)out;
    (void)counts;
    (void)displs;
    (void)dtype;
    (void)root;
    (void)call;
    (void)req;
    return ABSENT("gather_v");
}

weft_status weft_scatter_v(weft_group *group, const void *in, const size_t *counts, const size_t *displs,
                           void *out, size_t count, weft_dtype dtype, int root, const weft_call *call,
                           weft_request **req)
{
    (void)group;
    (void)in;
    (void)counts;
    (void)displs;
    (void)out;
    (void)count;
    (void)dtype;
    (void)root;
    (void)call;
    (void)req;
    return ABSENT("scatter_v");
}

weft_status weft_reduce_scatter_v(weft_group *group, const void *in, void *out, const size_t *counts,
                                  weft_dtype dtype, weft_op op, const weft_call *call, weft_request **req)
{
    (void)group;
    (void)in;
    (void)out;
    (void)counts;
    (void)dtype;
    (void)op;
    (void)call;
    (void)req;
    return ABSENT("reduce_scatter_v");
}

weft_status weft_all_to_all_v(weft_group *group, const void *in, const size_t *in_counts,
                              const size_t *in_displs, void *out, const size_t *out_counts,
                              const size_t *out_displs, weft_dtype dtype, const weft_call *call,
                              weft_request **req)
{
    (void)group;
    (void)in;
    (void)in_counts;
    (void)in_displs;
    (void)out;
    (void)out_counts;
    (void)out_displs;
    (void)dtype;
    (void)call;
    (void)req;
    return ABSENT("all_to_all_v");
}

weft_status weft_mem_alloc(weft_group *group, size_t bytes, weft_memory kind, void **ptr)
{
    (void)group;
    (void)bytes;
    (void)kind;
    (void)ptr;
    return ABSENT("mem_alloc");
}

weft_status weft_mem_free(weft_group *group, void *ptr)
{
    (void)group;
    (void)ptr;
    return ABSENT("mem_free");
}

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
