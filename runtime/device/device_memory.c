/* device_memory.c - see device_memory.h.  Registering it with the communicator is an operation like any
 * other: it passes the agreement and takes its place in the order. */
#include "device_memory.h"
#include "device.h"
#include "engine.h"
#include "group.h"
#include "submit.h"

#include <stdlib.h>

weft_status weft__device_memory_make(weft__module *module, size_t bytes, weft__device_memory **made)
{
    weft_backend *backend = module->backend;
    weft__device_memory *m = calloc(1, sizeof *m);
    weft_status status;
    if (!m) return weft__fail_memory(sizeof *m, "mem_alloc");
    weft__list_init(&m->link);
    m->bytes = bytes;
    m->module = module;
    status = backend->mem_alloc
                 ? backend->mem_alloc(backend, bytes, &m->at)
                 : weft__fail(WEFT_ERR_UNSUPPORTED, "mem_alloc: backend %s gives no memory", backend->name);
    if (status == WEFT_OK)
        *made = m;
    else
        free(m);
    return status;
}

weft_status weft__device_memory_join(weft_group *group, weft__device_memory *made)
{
    weft_context *ctx = group->ctx;
    weft__op op = {.kind = WEFT__OP_MEM_ALLOC,
                   .dtype = WEFT_UINT8,
                   .memory = weft__module_memory(ctx, made->module),
                   .count = made->bytes,
                   .out = made->at,
                   .scale = 1};
    weft_request *req = weft__request_new(ctx, group, &op, NULL);
    weft_status status;
    if (!req) return WEFT_ERR_MEMORY;
    status = weft__device_prepare(req, WEFT_NO_STREAM);
    if (status != WEFT_OK) {
        weft__request_unref(req);
        return status;
    }
    status = weft__submit(req, NULL, NULL);
    if (status == WEFT_OK) weft__device_memory_keep(ctx, made);
    return status;
}

void weft__device_memory_keep(weft_context *ctx, weft__device_memory *made)
{
    weft__engine_take(ctx);
    weft__list_append(&ctx->device_memory, &made->link);
    weft__engine_drop(ctx);
}

bool weft__device_memory_is_shareable(const weft__device_memory *made)
{
    weft_backend *backend = made->module->backend;
    return !backend->mem_is_shareable || backend->mem_is_shareable(backend, made->at);
}

weft__device_memory *weft__device_memory_find(weft_context *ctx, const void *at)
{
    WEFT__LIST_EACH(&ctx->device_memory, link)
    {
        weft__device_memory *m = WEFT__LIST_ENTRY(link, weft__device_memory, link);
        if (m->at == at) return m;
    }
    return NULL;
}

weft_status weft__device_memory_free(weft__device_memory *made)
{
    weft_backend *backend = made->module->backend;
    weft_status status = backend->mem_free(backend, made->at);
    free(made);
    return status;
}

void weft__device_memory_close(weft_context *ctx)
{
    WEFT__LIST_EACH(&ctx->device_memory, at)
    {
        weft__device_memory_free(WEFT__LIST_ENTRY(at, weft__device_memory, link));
    }
    weft__list_init(&ctx->device_memory);
}
