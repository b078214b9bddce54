/* where.c - see where.h: the host. */
#include "where.h"
#include "check.h"

#include <stdlib.h>
#include <string.h>

static void *take(size_t bytes)
{
    void *at = calloc(bytes, 1);
    if (!at) fail("no memory for %zu bytes of the network", bytes);
    return at;
}

static void copy(void *to, const void *from, size_t bytes)
{
    memcpy(to, from, bytes);
}

static void run(const struct kernel *kernel, const void *arguments)
{
    kernel->on_host(arguments);
}

static void *stream(void)
{
    return NULL;
}

static weft_status await(weft_request *req)
{
    return weft_wait(req, WEFT_FOREVER);
}

static void settle(void)
{
}

static int64_t time_of(int64_t mark)
{
    return mark;
}

static const struct where host = {"host", take, free, copy, run, stream, await, settle, now_ns, time_of};
const struct where *where = &host;

#ifndef TRAIN_DIGITS_CUDA
void where_choose_device(const weft_context *job)
{
    (void)job;
    fail("--device: this build has no CUDA");
}
#endif
