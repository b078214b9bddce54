/* seam.c - see seam.h. */
#include "seam.h"
#include "group.h"
#include "peer.h"

#include <string.h>

/* As they are known on the other side; those that never get there have no row. */
static const struct {
    weft_backend_kind kind;
    bool there;
} kinds[WEFT__OP_KINDS] = {
#define ROW(id) [WEFT__OP_##id] = {WEFT_BACKEND_##id, true}
    ROW(BARRIER),    ROW(BROADCAST), ROW(REDUCE),           ROW(ALL_REDUCE),   ROW(REDUCE_SCATTER),
    ROW(ALL_GATHER), ROW(GATHER),    ROW(SCATTER),          ROW(ALL_TO_ALL),   ROW(ALL_GATHER_V),
    ROW(GATHER_V),   ROW(SCATTER_V), ROW(REDUCE_SCATTER_V), ROW(ALL_TO_ALL_V), ROW(ISEND),
    ROW(IRECV),      ROW(SEND_RECV), ROW(MEM_ALLOC),
#undef ROW
};

static _Thread_local bool only_asked; /* a refusal is no failure */

/* ---- which ---- */

weft__module *weft__module_for(weft_context *ctx, weft_memory memory)
{
    weft__module *module = &ctx->modules[memory == WEFT__MEMORY_HOST_BY_MODULE ? WEFT_MEMORY_HOST : memory];
    WEFT__ASSERT((unsigned)memory <= WEFT__MEMORY_HOST_BY_MODULE);
    return module->backend ? module : NULL;
}

weft__module *weft__module_next(weft_context *ctx, const weft__module *after)
{
    for (size_t i = after ? (size_t)(after - ctx->modules) + 1 : 0; i < WEFT__MEMORIES; i++)
        if (ctx->modules[i].backend) return &ctx->modules[i];
    return NULL;
}

weft_memory weft__module_memory(const weft_context *ctx, const weft__module *module)
{
    return (weft_memory)(module - ctx->modules);
}

weft_status weft__memory_at(weft_context *ctx, const void *pointer, weft_memory *memory)
{
    *memory = WEFT_MEMORY_HOST;
    for (weft__module *m = weft__module_next(ctx, NULL); m && pointer; m = weft__module_next(ctx, m)) {
        weft_status status;
        bool owned = false;
        if (m->backend->memory == WEFT_MEMORY_HOST) continue;
        if ((status = m->backend->owns(m->backend, pointer, &owned)) != WEFT_OK) return status;
        if (!owned) continue;
        *memory = m->backend->memory;
        return WEFT_OK;
    }
    return WEFT_OK;
}

/* ---- what all have ---- */

/* FNV-1a. */
static uint32_t digest_number(uint32_t h, uint64_t number)
{
    for (; number; number >>= 8) h = (h ^ (uint32_t)(number & 255)) * UINT32_C(16777619);
    return h;
}

/* Tells apart what could not work together: by name, by how ids are, and by the versions of the seam and of what ranks tell
 * each other about it.  Another build of Weft may mean something else by these, and would wait for ever. */
static uint32_t digest(const weft_backend *backend)
{
    uint32_t h = UINT32_C(2166136261);
    for (const char *c = backend->name; *c; c++) h = digest_number(h, (unsigned char)*c);
    h = digest_number(h, backend->id_bytes);
    h = digest_number(h, (uint64_t)backend->version);
    h = digest_number(h, WEFT__DEVICE_WORDS_VERSION);
    return h ? h : 1;
}

weft__module_card weft__module_card_of(const weft_context *ctx)
{
    weft__module_card card = {{0}, {0}};
    for (int i = 0; i < WEFT__MEMORIES; i++)
        if (ctx->modules[i].backend) {
            card.of[i] = digest(ctx->modules[i].backend);
            card.address[i] = ctx->modules[i].backend->address;
        }
    return card;
}

uint8_t weft__modules_alike(const weft_context *ctx, const weft__module_card *card)
{
    weft__module_card own = weft__module_card_of(ctx);
    unsigned alike = 0;
    for (int i = 0; i < WEFT__MEMORIES; i++)
        if (own.of[i] && own.of[i] == card->of[i]) alike |= 1U << i;
    return (uint8_t)alike;
}

/* Some member has another module there, or none. */
static weft_status seam_refuse(const weft_group *group, const weft__module *module, const weft__op *op)
{
    weft_context *ctx = group->ctx;
    unsigned bit = 1U << weft__module_memory(ctx, module);
    char who[192] = "a rank";
    for (int i = 0; i < group->size; i++)
        if (!(ctx->peers[group->world[i]].modules & bit)) {
            weft__peer_name(ctx, group->world[i], who, sizeof who);
            break;
        }
    return weft__fail(
        WEFT_ERR_UNSUPPORTED,
        "%s: %s has no backend %s like this rank's (of its name, ids and version), so group %s uses "
        "none for that memory",
        weft__kind_name(op->kind), who, module->backend->name, group->label);
}

/* ---- slots ---- */

/* What moves no data of the caller's (a split) needs no module for itself. */
static weft_status has_no_row(const weft__op *op)
{
    if (weft__kind_traits(op->kind) & (WEFT__NO_DATA | WEFT__GATHERED)) return WEFT_OK;
    return weft__fail(WEFT_ERR_UNSUPPORTED, "%s: no backend can do this yet, expected buffers in host memory",
                      weft__kind_name(op->kind));
}

weft_status weft__module_check(weft_group *group, weft__module *module, const weft__op *op)
{
    weft_backend_operation asked;
    if (!(group->modules >> weft__module_memory(group->ctx, module) & 1))
        return seam_refuse(group, module, op);
    if (!kinds[op->kind].there) return has_no_row(op);
    asked = weft__module_operation(op);
    return module->backend->check(module->backend, &asked);
}

bool weft__module_takes(weft_group *group, const weft__op *op)
{
    weft__module *module = weft__module_for(group->ctx, WEFT_MEMORY_HOST);
    weft_backend_operation asked;
    bool takes;
    if (!module || !kinds[op->kind].there || !(group->modules >> WEFT_MEMORY_HOST & 1) ||
        weft__kind_traits(op->kind) & WEFT__NO_DATA || !(weft__kind_traits(op->kind) & WEFT__COLLECTIVE))
        return false;
    asked = weft__module_operation(op);
    only_asked = true;
    takes = module->backend->check(module->backend, &asked) == WEFT_OK;
    only_asked = false;
    return takes;
}

weft_status weft__module_fail(weft_status status, const char *sentence)
{
    return only_asked ? status : weft__fail(status, "%s", sentence);
}

weft_status weft__module_mark(weft__module *module, void *stream, void **marker)
{
    *marker = NULL;
    if (module->backend->mark) return module->backend->mark(module->backend, stream, marker);
    if (!stream || stream == WEFT_NO_STREAM) return WEFT_OK;
    return weft__fail(WEFT_ERR_UNSUPPORTED, "call->stream is %p: backend %s has no streams", stream,
                      module->backend->name);
}

void weft__module_unmark(weft__module *module, void *marker)
{
    if (module->backend->unmark) module->backend->unmark(module->backend, marker);
}

weft_status weft__module_order(weft__module *module, weft_backend_work *work, void *stream)
{
    if (module->backend->order) return module->backend->order(module->backend, work, stream);
    return weft__fail(WEFT_ERR_UNSUPPORTED, "stream_wait: backend %s has no streams", module->backend->name);
}

weft_backend_operation weft__module_operation(const weft__op *op)
{
    weft_backend_operation made = {.kind = kinds[op->kind].kind,
                                   .name = weft__kind_name(op->kind),
                                   .dtype = op->dtype,
                                   .reduction = op->reduction,
                                   .memory = weft__memory_told(op->memory),
                                   .root = op->root,
                                   .count = op->count,
                                   .in = op->in,
                                   .out = op->out,
                                   .scale = op->scale};
    WEFT__ASSERT(kinds[op->kind].there);
    if (!op->uneven) return made;
    made.uneven = true;
    made.in_counts = op->uneven->in.counts;
    made.in_displs = op->uneven->in.displs;
    made.out_counts = op->uneven->out.counts;
    made.out_displs = op->uneven->out.displs;
    return made;
}
