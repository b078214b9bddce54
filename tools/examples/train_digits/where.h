/* where.h - where the network lives and is computed: in this process's memory by this thread, or on a CUDA
 * device, on a stream of its own.
 *
 * What is asked for here happens in the order of asking.  On the host it has happened when a call returns; on
 * a device it has been queued, and the thread goes on.  The rest of the example does not know which. */
#ifndef TRAIN_WHERE_H
#define TRAIN_WHERE_H
#include "kernels.h"

#include <weft/weft.h>

struct where {
    const char *name;
    /* Memory that kernels and Weft work on: zeroed.  Fails for want of it. */
    void *(*take)(size_t bytes);
    void (*give_back)(void *at); /* after settle */
    /* From or to the memory of this process; returns when it has happened. */
    void (*copy)(void *to, const void *from, size_t bytes);
    void (*run)(const struct kernel *kernel, const void *arguments);
    /* weft_call.stream of an operation that comes after what has been asked for so far. */
    void *(*stream)(void);
    /* What is asked for from now on finds the result of `req`. */
    weft_status (*await)(weft_request *req);
    /* Returns when all has happened. */
    void (*settle)(void);
    /* A mark in this order; one behind later work is greater.  Its time, CLOCK_MONOTONIC in ns, can be had
     * after settle; the first mark after a settle takes the place of those before. */
    int64_t (*mark)(void);
    int64_t (*time_of)(int64_t mark);
};

extern const struct where *where; /* the host, unless where_choose was told otherwise */

/* Once, before all else.  Fails in a build without CUDA, and in a job that has no device for this rank. */
void where_choose_device(const weft_context *job);

#define WHERE_RUN(kernel, ...) where->run(&kernel##_kernel, &(const struct kernel){__VA_ARGS__})
#endif
