/* ranges.h - NVTX ranges of what modules carry out, for profilers that show them beside kernels and NCCL's own:
 *
 *   submit   the call, on the caller's thread
 *   issue    the module's part, on the thread that gives it to the device
 *   settle   from when it has its number until it has settled
 *
 * each named "submit all_reduce GROUP", in the domain "weft".  Where no profiler is attached, or the library was built
 * without the header of NVTX, weft__ranges_on() stays false, and that is all that any of it costs. */
#ifndef WEFT_RUNTIME_RANGES_H
#define WEFT_RUNTIME_RANGES_H
#include "request.h"

#include <stdatomic.h>

/* By the first context that has a module, while others, which have none, may be at work. */
void weft__ranges_open(void);

extern atomic_bool weft__ranges_found;
static inline bool weft__ranges_on(void)
{
    return atomic_load_explicit(&weft__ranges_found, memory_order_acquire);
}

/* On the calling thread: ranges nest. */
void weft__range_push(const char *what, const weft__op *op, const weft_group *group);
void weft__range_pop(void);
/* From one thread to another; 0: none. */
uint64_t weft__range_start(const char *what, const weft_request *req);
void weft__range_end(uint64_t range);
#endif
