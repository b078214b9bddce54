/* ranges.c - see ranges.h.
 *
 * Happy path: the first range of a process looks for a profiler (NVTX_INJECTION64_PATH); where there is one, a name is
 * put together for each range.  Fails: never; a profiler that cannot be loaded is none. */
#include "ranges.h"
#include "group.h"

#include <stdio.h>

atomic_bool weft__ranges_found;

#ifdef WEFT_NVTX
/* A profiler is loaded by name; what a program would link for it would not be found in a shared library. */
#define NVTX_SUPPORT_STATIC_INJECTION_LIBRARY 0
#include <nvtx3/nvToolsExt.h>
#include <pthread.h>

#define NAME_BYTES 128 /* "settle reduce_scatter_v " and a label */

static nvtxDomainHandle_t domain;

static void look_for_profiler(void)
{
    domain = nvtxDomainCreateA("weft");
    atomic_store_explicit(&weft__ranges_found, domain != NULL, memory_order_release);
}

void weft__ranges_open(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, look_for_profiler);
}

static nvtxEventAttributes_t named(char *name, const char *what, const weft__op *op, const weft_group *group)
{
    nvtxEventAttributes_t event = {.version = NVTX_VERSION, .size = NVTX_EVENT_ATTRIB_STRUCT_SIZE};
    snprintf(name, NAME_BYTES, "%s %s %s", what, weft__kind_name(op->kind), group->label);
    event.messageType = NVTX_MESSAGE_TYPE_ASCII;
    event.message.ascii = name;
    event.payloadType = NVTX_PAYLOAD_TYPE_UNSIGNED_INT64;
    event.payload.ullValue = op->count * weft__op_element(op);
    return event;
}

void weft__range_push(const char *what, const weft__op *op, const weft_group *group)
{
    char name[NAME_BYTES];
    const nvtxEventAttributes_t event = named(name, what, op, group);
    nvtxDomainRangePushEx(domain, &event);
}

void weft__range_pop(void)
{
    nvtxDomainRangePop(domain);
}

uint64_t weft__range_start(const char *what, const weft_request *req)
{
    char name[NAME_BYTES];
    const nvtxEventAttributes_t event = named(name, what, &req->op, req->group);
    return nvtxDomainRangeStartEx(domain, &event);
}

void weft__range_end(uint64_t range)
{
    if (range) nvtxDomainRangeEnd(domain, range);
}
#else
void weft__ranges_open(void)
{
}

void weft__range_push(const char *what, const weft__op *op, const weft_group *group)
{
    (void)what;
    (void)op;
    (void)group;
}

void weft__range_pop(void)
{
}

uint64_t weft__range_start(const char *what, const weft_request *req)
{
    (void)what;
    (void)req;
    return 0;
}

void weft__range_end(uint64_t range)
{
    (void)range;
}
#endif
