/* modules.c - backends outside the library: found, loaded, fed.
 *
 * Work for a module goes to a queue that only the progress thread takes; its calls run with the engine let
 * go, because they may block.  The module's reference keeps a request's record alive until it has finished
 * it, also when the guardian has settled the request meanwhile. */
#include "modules.h"
#include "backend.h"
#include "breaking.h"
#include "engine.h"
#include "group.h"
#include "guardian.h"
#include "log.h"
#include "settings.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void finish(weft__work *work, weft_status status, const char *sentence)
{
    weft_request *req = work->request;
    weft_context *ctx = req->ctx;
    bool inside = weft__holds_engine(ctx);
    char text[WEFT__SENTENCE_BYTES], name[256];
    if (!inside) weft__engine_take(ctx);
    if (weft__request_state(req) == WEFT__DRAINING) {
        weft__request_settle(req, req->draining_status, NULL);
    } else if (weft__request_state(req) < WEFT__DRAINING) {
        weft__request_name(req, name, sizeof name);
        snprintf(text, sizeof text, "%s: %.600s", name, sentence ? sentence : weft_status_text(status));
        weft__request_settle(req, status, text);
        if (status != WEFT_OK && (weft__kind_traits(req->op.kind) & WEFT__COLLECTIVE))
            weft__group_break(req->group, &(weft__verdict){status, req->sequence, -1, text}, true);
    }
    if (!inside) weft__engine_drop(ctx);
    atomic_fetch_sub(&ctx->device_pending, 1);
    weft__request_unref(req);
}

static void module_log(int level, const char *line)
{
    weft__log((enum weft__log_level)(level < WEFT__ERROR   ? WEFT__ERROR
                                     : level > WEFT__DEBUG ? WEFT__DEBUG
                                                           : level),
              "%s", line);
}

static int64_t module_now(void)
{
    return weft__now_ns();
}

static const weft__module_table table = {WEFT__MODULE_VERSION, finish, module_log, module_now};

/* Beside the library: PREFIX/lib/libweft.so.0 -> PREFIX/lib/weft. */
static void module_dir(char *path, size_t bytes)
{
    const char *given = weft__setting_text(WEFT__SET_MODULE_DIR);
    Dl_info info;
    const char *slash;
    if (*given) {
        snprintf(path, bytes, "%s", given);
        return;
    }
    snprintf(path, bytes, "weft");
    if (!dladdr((void *)(uintptr_t)weft_version, &info) || !info.dli_fname) return;
    slash = strrchr(info.dli_fname, '/');
    if (slash) snprintf(path, bytes, "%.*s/weft", (int)(slash - info.dli_fname), info.dli_fname);
}

static weft_status load(weft_context *ctx, const char *name)
{
    char dir[512], path[640];
    const char *why = "it does not say why";
    void *symbol;
    weft__backend_open_fn *open;
    module_dir(dir, sizeof dir);
    snprintf(path, sizeof path, "%s/libweft_%s.so", dir, name);
    ctx->module_handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!ctx->module_handle)
        return weft__fail(WEFT_ERR_UNSUPPORTED, "backend %s cannot be loaded: %.600s", name, dlerror());
    symbol = dlsym(ctx->module_handle, WEFT__BACKEND_OPEN);
    if (!symbol) return weft__fail(WEFT_ERR_UNSUPPORTED, "%s has no " WEFT__BACKEND_OPEN, path);
    memcpy(&open, &symbol, sizeof open); /* ISO C has no cast from an object to a function */
    ctx->module = open(&table, &why);
    if (!ctx->module) return weft__fail(WEFT_ERR_UNSUPPORTED, "backend %s cannot run here: %s", name, why);
    if (ctx->module->version == WEFT__MODULE_VERSION) return WEFT_OK;
    ctx->module = NULL;
    return weft__fail(WEFT_ERR_UNSUPPORTED, "%s is made for another version of this library", path);
}

/* `wanted`: "host,NAME"; empty: what can run here, which without a device is the host alone. */
weft_status weft__modules_load(weft_context *ctx, const char *wanted)
{
    snprintf(ctx->backend_names, sizeof ctx->backend_names, "host");
    if (!*wanted) return WEFT_OK;
    if (!weft__setting_lists(wanted, "host"))
        return weft__fail(WEFT_ERR_ARGUMENT, "backends are \"%s\": host must be among them", wanted);
    for (const char *at = wanted; *at;) {
        char name[32];
        size_t n = strcspn(at, ",");
        weft_status status;
        snprintf(name, sizeof name, "%.*s", (int)n, at);
        at += n + (at[n] == ',');
        if (!strcmp(name, "host") || !n) continue;
        if (ctx->module)
            return weft__fail(WEFT_ERR_UNSUPPORTED, "backends are \"%s\": one beside host is possible",
                              wanted);
        if (strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_") != strlen(name))
            return weft__fail(WEFT_ERR_ARGUMENT,
                              "backend \"%s\": expected a name of small letters and digits", name);
        if ((status = load(ctx, name)) != WEFT_OK) return status;
        n = strlen(ctx->backend_names);
        snprintf(ctx->backend_names + n, sizeof ctx->backend_names - n, ",%s", name);
    }
    return WEFT_OK;
}

void weft__modules_close(weft_context *ctx)
{
    if (ctx->module) ctx->module->close(ctx->module);
    ctx->module = NULL;
    if (ctx->module_handle) dlclose(ctx->module_handle);
    ctx->module_handle = NULL;
}

void weft__module_start(weft_request *req)
{
    weft_context *ctx = req->ctx;
    weft_group *group = req->group;
    req->algorithm = ctx->module->name;
    req->u.work = (weft__work){.op = req->op,
                               .request = req,
                               .rank = group->rank,
                               .size = group->size,
                               .group = group->id,
                               .sequence = req->sequence,
                               .stream = req->stream};
    atomic_fetch_add_explicit(&req->refs, 1, memory_order_relaxed); /* the module's */
    if (atomic_fetch_add(&ctx->device_pending, 1) == 0) weft__guardian_wake();
    weft__mpsc_push(&ctx->device_work, &req->node);
    weft__engine_ring(ctx);
}

void weft__module_cancel(weft_request *req)
{
    req->ctx->module->cancel(req->ctx->module, &req->u.work);
}

void weft__module_abandon(weft_request *req)
{
    req->abandoned = true;
    weft__request_settle(req, req->draining_status, NULL);
}

int weft__module_turn(weft_context *ctx)
{
    weft__backend *module = ctx->module;
    weft__mpsc_node *node = weft__mpsc_take_all(&ctx->device_work);
    int n = 0;
    if (!node && atomic_load(&ctx->device_pending) == 0) return 0;
    WEFT__ASSERT(!weft__holds_engine(ctx));
    atomic_store(&ctx->blocked_since, weft__now_ns());
    while (node) {
        weft_request *req = WEFT__OWNER(node, weft_request, node);
        node = node->next;
        if (weft__request_state(req) >= WEFT__DRAINING)
            finish(&req->u.work, WEFT_ERR_CANCELLED, NULL); /* ended before it began */
        else
            module->start(module, &req->u.work);
        atomic_store(&ctx->blocked_since, weft__now_ns());
        n++;
    }
    n += module->poll(module);
    atomic_store(&ctx->blocked_since, 0);
    return n;
}
