/* memory.c - mem_alloc and mem_free.
 *
 * Each rank makes its own region (net/region.c), and one collective tells all members of it, or why there is
 * none; every rank then maps those of the members on its host and lets their owners know.  One that cannot
 * map a peer's is no failure: the owner goes on staging what that peer reads.
 * Device memory (device_memory.c) takes the same way; its peers are told by a module.
 * Fails: on all ranks alike when one has no memory or passed another size, which breaks the group as any
 * failed collective does; on this rank alone before it takes part. */
#include "device_memory.h"
#include "engine.h"
#include "entries.h"
#include "group.h"
#include "group_break.h"
#include "log.h"
#include "peer.h"
#include "submit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct allocation {
    weft__continuation continuation;
    _Atomic int refs; /* the caller's thread, the request */
    weft__memory_entry mine;
    weft__memory_entry all[];
} allocation;

/* ---- telling ---- */

static void allocation_unref(allocation *a)
{
    if (atomic_fetch_sub(&a->refs, 1) == 1) free(a);
}

static const char *kind_text(const weft__memory_entry *e)
{
    return e->kind == WEFT_MEMORY_CUDA    ? " of device memory"
           : e->kind == WEFT_MEMORY_OTHER ? " of other memory"
                                          : "";
}

/* All ranks compare the same words, so all see the same failure. */
static void memory_finish(weft_request *req)
{
    const allocation *a = WEFT__OWNER(req->continuation, allocation, continuation);
    const weft_group *group = req->group;
    weft_status status = WEFT_OK;
    char name[256], who[192], text[WEFT__SENTENCE_BYTES];
    for (int i = 0; i < group->size; i++)
        if (!weft__memory_entry_holds(req, i, &a->all[i])) return; /* breaking the group settled it */
    weft__request_name(req, name, sizeof name);
    for (int i = 1; i < group->size && status == WEFT_OK; i++) {
        if (a->all[i].bytes == a->all[0].bytes && a->all[i].kind == a->all[0].kind) continue;
        status = WEFT_ERR_MISMATCH;
        snprintf(text, sizeof text, "%s: rank %d passed %llu bytes%s, rank %d passed %llu bytes%s", name,
                 group->world[0], (unsigned long long)a->all[0].bytes, kind_text(&a->all[0]), group->world[i],
                 (unsigned long long)a->all[i].bytes, kind_text(&a->all[i]));
    }
    for (int i = 0; i < group->size && status == WEFT_OK; i++) {
        status = (weft_status)a->all[i].status;
        if (status == WEFT_OK) continue;
        weft__peer_name(group->ctx, group->world[i], who, sizeof who);
        snprintf(text, sizeof text, "%s: %s: %.191s", name, who, a->all[i].why);
    }
    if (status != WEFT_OK)
        weft__group_break(req->group, &(weft__verdict){status, req->sequence, -1, text}, true);
    else
        weft__request_settle(req, WEFT_OK, NULL);
}

static void memory_fail(weft_request *req, const char *why)
{
    (void)req; /* nothing to undo: the caller's thread has the region */
    (void)why;
}

static void request_gone(weft_request *req)
{
    allocation_unref(WEFT__OWNER(req->continuation, allocation, continuation));
}

/* The collective: waits until every rank has told. */
static weft_status tell_all(weft_group *group, allocation *a)
{
    weft__op op = {.kind = WEFT__OP_MEM_ALLOC,
                   .dtype = WEFT_UINT8,
                   .memory = WEFT_MEMORY_HOST,
                   .count = sizeof(weft__memory_entry),
                   .in = &a->mine,
                   .out = a->all,
                   .scale = 1};
    weft_request *req = weft__request_new(group->ctx, group, &op, NULL);
    if (!req) return WEFT_ERR_MEMORY;
    a->continuation = (weft__continuation){memory_finish, memory_fail, request_gone};
    atomic_fetch_add(&a->refs, 1);
    req->continuation = &a->continuation;
    return weft__submit(req, NULL, NULL);
}

/* ---- allocating ---- */

/* This rank's region, open, or in `mine` why there is none. */
static weft__region *make_region(weft_context *ctx, weft__memory_entry *mine)
{
    weft__region *region = NULL;
    char *base = NULL;
    weft_status status = WEFT_OK;
    weft__engine_take(ctx);
    if (!ctx->regions) ctx->regions = weft__regions_new(ctx->segment);
    status = ctx->regions ? weft__region_claim(ctx->regions, mine->bytes, &region) : WEFT_ERR_MEMORY;
    weft__engine_drop(ctx);
    if (status == WEFT_OK) {
        status = weft__region_open(ctx->regions, region, &base);
        weft__engine_take(ctx);
        region->base = base;
        if (status != WEFT_OK) weft__region_drop(ctx->regions, region);
        weft__engine_drop(ctx);
    }
    mine->status = status;
    if (status != WEFT_OK) {
        snprintf(mine->why, sizeof mine->why, "%.191s", weft_last_error());
        return NULL;
    }
    mine->region = *region;
    return region;
}

/* base: what the region had, which is NULL by now, so that nobody finds it any more. */
static void drop_region(weft_context *ctx, weft__region *region, char *base)
{
    weft__region_close(ctx->regions, region, base);
    weft__engine_take(ctx);
    weft__region_drop(ctx->regions, region);
    weft__engine_drop(ctx);
}

static void map_peers(const weft_group *group, const weft__memory_entry *all)
{
    weft_context *ctx = group->ctx;
    for (int i = 0; i < group->size; i++) {
        int local = ctx->peers[group->world[i]].local;
        char *base;
        if (i == group->rank || local < 0) continue;
        base = weft__region_map(ctx->regions, &all[i].region);
        if (!base) continue;
        weft__engine_take(ctx);
        weft__region_keep(ctx->regions, local, &all[i].region, base);
        weft__engine_drop(ctx);
    }
}

static bool on_host(weft_memory kind)
{
    return kind == WEFT_MEMORY_AUTO || kind == WEFT_MEMORY_HOST;
}

static weft_status may_wait(void)
{
    if (!weft__in_callback()) return WEFT_OK;
    return weft__fail(WEFT_ERR_STATE, "mem_alloc waits: not in a callback");
}

static weft_status memory_check(weft_group *group, size_t bytes, weft_memory kind, void *const *ptr)
{
    const weft__op op = {
        .kind = WEFT__OP_MEM_ALLOC, .dtype = WEFT_UINT8, .memory = kind, .count = bytes, .scale = 1};
    weft__module *module;
    weft_status status;
    if (!group || !ptr) return weft__fail(WEFT_ERR_ARGUMENT, "mem_alloc: group or ptr is NULL");
    if ((status = weft__usable(group->ctx)) != WEFT_OK || (status = weft__group_usable(group)) != WEFT_OK)
        return status;
    if (bytes == 0) return weft__fail(WEFT_ERR_ARGUMENT, "mem_alloc: bytes is 0");
    if ((unsigned)kind > WEFT_MEMORY_OTHER)
        return weft__fail(WEFT_ERR_ARGUMENT,
                          "mem_alloc: kind is %d: expected WEFT_MEMORY_HOST, _CUDA or _OTHER", (int)kind);
    if (on_host(kind)) return may_wait();
    module = weft__module_for(group->ctx, kind);
    if (!module || !module->backend->mem_alloc)
        return weft__fail(WEFT_ERR_UNSUPPORTED,
                          "mem_alloc: no backend of this context allocates %s memory (backends: %s)",
                          weft__memory_name(kind), group->ctx->backend_names);
    if ((status = weft__module_check(group, module, &op)) != WEFT_OK) return status;
    return may_wait();
}

/* The one that cannot be made known to the others; -1: there is none. */
static int plain_member(const weft_group *group, const allocation *a)
{
    for (int i = 0; i < group->size; i++)
        if (a->all[i].plain) return i;
    return -1;
}

/* All ranks have the same words, so none of them waits for one that does not come. */
static weft_status join_or_keep(weft_group *group, const allocation *a, weft__device_memory *made)
{
    const int plain = plain_member(group, a);
    if (plain < 0) return weft__device_memory_join(group, made);
    if (plain == group->rank)
        weft__log(
            WEFT__INFO,
            "mem_alloc on group %s: memory of rank %d cannot be made known to other ranks, so on none it is",
            group->label, group->world[plain]);
    weft__device_memory_keep(group->ctx, made);
    return WEFT_OK;
}

static weft_status on_device(weft_group *group, allocation *a, void **ptr)
{
    weft__module *module = weft__module_for(group->ctx, (weft_memory)a->mine.kind);
    weft__device_memory *made = NULL;
    weft_status status = weft__device_memory_make(module, a->mine.bytes, &made);
    a->mine.status = status;
    if (status != WEFT_OK) snprintf(a->mine.why, sizeof a->mine.why, "%.191s", weft_last_error());
    a->mine.plain = status == WEFT_OK && !weft__device_memory_is_shareable(made);
    status = tell_all(group, a);
    if (status == WEFT_OK) status = join_or_keep(group, a, made);
    if (status == WEFT_OK)
        *ptr = made->at;
    else if (made)
        weft__device_memory_free(made);
    return status;
}

weft_status weft_mem_alloc(weft_group *group, size_t bytes, weft_memory kind, void **ptr)
{
    weft_status status = memory_check(group, bytes, kind, ptr);
    allocation *a;
    weft__region *region;
    size_t room;
    if (status != WEFT_OK) return status;
    room = sizeof *a + (size_t)group->size * sizeof(weft__memory_entry);
    a = calloc(1, room);
    if (!a) return weft__fail_memory(room, "mem_alloc");
    atomic_store(&a->refs, 1);
    a->mine.bytes = bytes;
    a->mine.kind = on_host(kind) ? WEFT_MEMORY_HOST : kind;
    if (!on_host(kind)) {
        status = on_device(group, a, ptr);
        allocation_unref(a);
        return status;
    }
    region = make_region(group->ctx, &a->mine);
    status = tell_all(group, a);
    if (status == WEFT_OK) {
        map_peers(group, a->all);
        *ptr = region->base;
    } else if (region) {
        weft__engine_take(group->ctx);
        region->base = NULL;
        weft__engine_drop(group->ctx);
        drop_region(group->ctx, region, a->mine.region.base);
    }
    allocation_unref(a);
    return status;
}

/* ---- using and freeing ---- */

typedef struct range {
    const void *base;
    size_t bytes;
} range;

static bool meets(range r, const void *buffer, size_t skip, size_t bytes)
{
    uintptr_t first = (uintptr_t)r.base, at = (uintptr_t)buffer + skip;
    return bytes && at < first + r.bytes && first < at + bytes;
}

static bool uses(const weft_request *req, range r)
{
    const weft__op *op = &req->op;
    size_t element = weft_dtype_size(op->dtype);
    int rank = req->group->rank, size = req->group->size;
    bool reads = weft__op_in_elements(op, rank, size), writes = weft__op_out_elements(op, rank, size);
    for (int i = 0; (reads || writes) && i < size; i++) {
        weft__span in = reads ? weft__op_in_block(op, i) : (weft__span){0, 0};
        weft__span out = writes ? weft__op_out_block(op, i) : (weft__span){0, 0};
        if (meets(r, op->in, in.start * element, in.length * element) ||
            meets(r, op->out, out.start * element, out.length * element))
            return true;
    }
    return false;
}

static const weft_request *user_of(weft_context *ctx, range r)
{
    weft__engine_progress(ctx); /* what is in the queue uses its buffers too */
    WEFT__LIST_EACH(&ctx->pending, at)
    {
        const weft_request *req = WEFT__LIST_ENTRY(at, weft_request, pending);
        if (uses(req, r)) return req;
    }
    return NULL;
}

/* One of the two, if no request uses it.  Engine held. */
static weft_status memory_find(weft_context *ctx, const void *ptr, weft__region **region,
                               weft__device_memory **device)
{
    const weft_request *user;
    char name[256];
    *region = ctx->regions && ptr ? weft__region_find(ctx->regions, ptr, 1) : NULL;
    if (*region && (*region)->base != ptr) *region = NULL;
    *device = *region ? NULL : weft__device_memory_find(ctx, ptr);
    if (!*region && !*device)
        return weft__fail(WEFT_ERR_ARGUMENT, "mem_free: %p is not what mem_alloc gave in this context", ptr);
    user = user_of(ctx, (range){ptr, *region ? (*region)->bytes : (*device)->bytes});
    if (!user) return WEFT_OK;
    weft__request_name(user, name, sizeof name);
    return weft__fail(WEFT_ERR_STATE, "mem_free: %p is in use: %s has not settled", ptr, name);
}

weft_status weft_mem_free(weft_group *group, void *ptr)
{
    weft_context *ctx;
    weft_status status;
    weft__region *region;
    weft__device_memory *device;
    char *base = NULL;
    if (!group) return weft__fail(WEFT_ERR_ARGUMENT, "mem_free: group is NULL");
    ctx = group->ctx;
    if ((status = weft__usable(ctx)) != WEFT_OK) return status;
    weft__engine_take(ctx);
    status = memory_find(ctx, ptr, &region, &device);
    if (status == WEFT_OK && region) {
        base = region->base;
        region->base = NULL; /* nobody finds it any more */
    } else if (status == WEFT_OK) {
        weft__list_remove(&device->link);
    }
    weft__engine_drop(ctx);
    if (status != WEFT_OK) return status;
    if (!region) return weft__device_memory_free(device);
    drop_region(ctx, region, base);
    return WEFT_OK;
}
