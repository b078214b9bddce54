/* modules.c - backends outside the library: found, loaded, fed.
 *
 * Work for a module goes to a queue that only the progress thread takes; its calls run with the engine let
 * go, because they may block.  The module's reference keeps a request's record alive until it has finished
 * it, also when the guardian has settled the request meanwhile. */
#include "modules.h"
#include "breaking.h"
#include "device.h"
#include "engine.h"
#include "group.h"
#include "log.h"
#include "member.h"
#include "module_folder.h"
#include "settings.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define STANDARD       "nccl"           /* the backend that is loaded where it can run */
#define ABORT_GRACE_NS (100 * WEFT__MS) /* for a call to come back, before its communicator is aborted */

/* What the runtime knows of the communicator's end is better than what a call on it says. */
static void explain(const weft_request *req, weft_status *status, const char *sentence, char *text,
                    size_t bytes)
{
    const weft__link *link = req->device->unit->link;
    char name[256], who[192];
    weft__request_name(req, name, sizeof name);
    if (link && link->state == WEFT__LINK_DOOMED) {
        *status = link->status;
        snprintf(text, bytes, "%s: %.700s", name, link->why);
        return;
    }
    weft__member_name(req->ctx, req->ctx->rank, who, sizeof who);
    snprintf(text, bytes, "%s: %s: %.500s", name, who, sentence ? sentence : weft_status_text(*status));
}

static void end(weft_request *req, weft_status status, const char *sentence)
{
    char text[WEFT__SENTENCE_BYTES];
    bool pair = weft__kind_traits(req->op.kind) & WEFT__PAIR;
    if (weft__request_state(req) == WEFT__DRAINING) {
        weft__request_settle(req, req->draining_status, NULL);
        return;
    }
    if (weft__request_state(req) > WEFT__DRAINING) return; /* abandoned */
    if (status == WEFT_OK) {
        if (pair)
            weft__device_pair_done(req);
        else if (weft__device_done(req))
            weft__request_settle(req, WEFT_OK, NULL);
        return;
    }
    explain(req, &status, sentence, text, sizeof text);
    weft__request_settle(req, status, text);
    if (pair)
        weft__device_pair_give_up(req, status, text);
    else
        weft__group_break(req->group, &(weft__verdict){status, req->sequence, -1, text}, true);
}

static void finish(weft__work *work, weft_status status, const char *sentence)
{
    weft_request *req = work->request;
    weft_context *ctx = req->ctx;
    bool entered = weft__engine_enter(ctx);
    work->marker = NULL;
    end(req, status, sentence);
    weft__device_told(req->device, WEFT__PHASE_OVER); /* whoever sees this sees how it ended */
    weft__engine_leave(ctx, entered);
    atomic_fetch_sub(&ctx->device_pending, 1);
    weft__request_unref(req);
}

static void issued(weft__work *work)
{
    weft__device_told(work->request->device, WEFT__PHASE_RUNNING);
}

static weft_status module_fail(weft_status status, const char *sentence)
{
    return weft__fail(status, "%s", sentence);
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

static const weft__module_table table = {
    WEFT__MODULE_VERSION, finish,      issued,     weft__link_named,
    weft__link_joined,    module_fail, module_log, module_now,
};

/* NULL and a sentence: there is none of that name, or it cannot run here. */
static weft__backend_open_fn *find(weft_context *ctx, const char *name)
{
    char folder[WEFT__FOLDER_BYTES], path[WEFT__FOLDER_BYTES + 64];
    void *symbol;
    weft__backend_open_fn *open;
    if (weft__module_folder(folder) != WEFT_OK) return NULL;
    snprintf(path, sizeof path, "%s/libweft_%s.so", folder, name);
    ctx->module_handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!ctx->module_handle) {
        weft__fail(WEFT_ERR_UNSUPPORTED, "backend %s cannot be loaded: %.600s", name, dlerror());
        return NULL;
    }
    symbol = dlsym(ctx->module_handle, WEFT__BACKEND_OPEN);
    if (!symbol) {
        weft__fail(WEFT_ERR_UNSUPPORTED, "backend %s cannot be loaded: %.600s has no " WEFT__BACKEND_OPEN,
                   name, path);
        dlclose(ctx->module_handle);
        ctx->module_handle = NULL;
        return NULL;
    }
    memcpy(&open, &symbol, sizeof open); /* ISO C has no cast from an object to a function */
    return open;
}

static weft_status load(weft_context *ctx, const char *name, int device)
{
    const char *why = "it does not say why";
    weft__module_place place = {.device = device,
                                .rank = ctx->rank,
                                .local_rank = ctx->host_group->rank,
                                .grace_ns = ABORT_GRACE_NS};
    weft__backend_open_fn *open = find(ctx, name);
    size_t n = strlen(ctx->backend_names);
    if (!open) return WEFT_ERR_UNSUPPORTED;
    ctx->module = open(&table, &place, &why);
    if (!ctx->module) return weft__fail(WEFT_ERR_UNSUPPORTED, "backend %s cannot run here: %s", name, why);
    if (ctx->module->version != WEFT__MODULE_VERSION) {
        ctx->module = NULL;
        return weft__fail(WEFT_ERR_UNSUPPORTED, "backend %s is made for another version of this library",
                          name);
    }
    if (!weft__slab_init(&ctx->devices, sizeof(weft__device),
                         (size_t)weft__setting_int(WEFT__SET_REQUESTS_MAX)))
        return weft__fail_memory(sizeof(weft__device), "operations on device memory");
    ctx->device = ctx->module->device;
    snprintf(ctx->backend_names + n, sizeof ctx->backend_names - n, ",%s", name);
    return WEFT_OK;
}

static void unload(weft_context *ctx)
{
    if (ctx->module) ctx->module->close(ctx->module);
    ctx->module = NULL;
    if (ctx->module_handle) dlclose(ctx->module_handle);
    ctx->module_handle = NULL;
}

/* Asking the module itself means to load NCCL, a few hundred MiB, in every process of a machine without a
 * GPU: where no driver shows there is nothing to ask. */
static bool driver_shows(void)
{
    static const char *const nodes[] = {"/dev/nvidiactl", "/dev/nvgpu", "/dev/nvhost-ctrl-gpu", "/dev/dxg"};
    for (size_t i = 0; i < WEFT__LENGTH(nodes); i++)
        if (!access(nodes[i], F_OK)) return true;
    return getenv("CUDA_EMULATION_DEVICES") != NULL; /* the emulation's, which has no driver */
}

/* Nobody asked for a backend by name: that of devices, where it can run.  A module that was asked may find no
 * device of its own here; one that cannot even be asked is missed by whoever has a device.  The ranks of a
 * host find the same, so one of them says it. */
static weft_status load_what_runs(weft_context *ctx, int device)
{
    bool asked;
    if (device < 0 && !driver_shows()) return WEFT_OK;
    if (load(ctx, STANDARD, device) == WEFT_OK) return WEFT_OK;
    asked = ctx->module_handle != NULL;
    unload(ctx);
    if (device >= 0)
        return weft__fail(WEFT_ERR_UNSUPPORTED, "config->device is %d: %.800s", device, weft_last_error());
    if (asked)
        weft__log(WEFT__INFO, "host memory only: %s", weft_last_error());
    else
        weft__log(ctx->host_group->rank == 0 ? WEFT__WARN : WEFT__DEBUG,
                  "a device driver is here, but operations are for host memory only: %.800s; "
                  "WEFT_BACKENDS=host says that this is meant",
                  weft_last_error());
    return WEFT_OK;
}

weft_status weft__modules_load(weft_context *ctx, const char *wanted, int device)
{
    snprintf(ctx->backend_names, sizeof ctx->backend_names, "host");
    if (!*wanted) return load_what_runs(ctx, device);
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
        if ((status = load(ctx, name, device)) != WEFT_OK) return status;
    }
    return WEFT_OK;
}

void weft__modules_close(weft_context *ctx)
{
    bool had = ctx->module != NULL;
    unload(ctx);
    if (had) weft__slab_destroy(&ctx->devices);
}

void weft__module_abandon(weft_request *req)
{
    req->abandoned = true;
    weft__request_settle(req, req->draining_status, NULL);
}

static void split(weft_context *ctx, weft__work *work)
{
    weft__part *part = &work->request->device->part;
    weft__comm *made = part->link ? part->link->comm : NULL;
    ctx->module->split(work->comm, made, made ? part->color : -1, part->key);
    finish(work, WEFT_OK, NULL);
}

static void start(weft_context *ctx, weft__work *first)
{
    if (weft__request_state(first->request) < WEFT__DRAINING) {
        if (first->op.kind == WEFT__OP_SPLIT_GROUP)
            split(ctx, first);
        else
            ctx->module->start(ctx->module, first);
        return;
    }
    while (first) { /* ended before it began */
        weft__work *next = first->next;
        void *marker = first->marker;
        finish(first, WEFT_ERR_CANCELLED, NULL);
        ctx->module->unmark(ctx->module, marker);
        first = next;
    }
}

int weft__module_turn(weft_context *ctx)
{
    weft__mpsc_node *node = weft__mpsc_take_all(&ctx->device_work);
    int n = 0;
    if (!node && atomic_load(&ctx->device_pending) == 0) return 0;
    WEFT__ASSERT(!weft__holds_engine(ctx));
    atomic_store(&ctx->blocked_since, weft__now_ns());
    while (node) {
        weft_request *req = WEFT__OWNER(node, weft_request, node);
        node = node->next;
        start(ctx, &req->device->work);
        atomic_store(&ctx->blocked_since, weft__now_ns());
        n++;
    }
    n += ctx->module->poll(ctx->module);
    atomic_store(&ctx->blocked_since, 0);
    return n;
}
