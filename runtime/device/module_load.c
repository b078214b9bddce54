/* module_load.c - backends outside the library: found, asked what they are, and given their place in a context.
 *
 * Happy path: the module of that name is loaded from the library's own folder and opened; what it says of itself is
 * checked before anything of it is called.  Fails: with a sentence, and nothing of it stays loaded. */
#include "device.h"
#include "engine.h"
#include "group.h"
#include "log.h"
#include "module_folder.h"
#include "modules.h"
#include "ranges.h"
#include "settings.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ABORT_GRACE_NS (100 * WEFT__MS) /* for a call to come back, before its communicator is aborted */
#define NAME_BYTES     32

/* What is being loaded, until it has its place. */
typedef struct loading {
    const char *name;
    int device; /* -1, or the one to use */
    const weft_backend_host *host;
    void *handle;
    weft_backend *backend;
} loading;

/* NULL and a sentence: there is none of that name. */
static weft_backend_open_fn *modules_find(loading *l)
{
    char folder[WEFT__FOLDER_BYTES], path[WEFT__FOLDER_BYTES + 64];
    void *symbol;
    weft_backend_open_fn *open;
    if (weft__module_folder(folder) != WEFT_OK) return NULL;
    snprintf(path, sizeof path, "%s/libweft_%s.so", folder, l->name);
    l->handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!l->handle) {
        weft__fail(WEFT_ERR_UNSUPPORTED, "backend %s cannot be loaded: %.600s", l->name, dlerror());
        return NULL;
    }
    symbol = dlsym(l->handle, WEFT_BACKEND_OPEN);
    if (!symbol) {
        weft__fail(WEFT_ERR_UNSUPPORTED, "backend %s cannot be loaded: %.600s has no " WEFT_BACKEND_OPEN,
                   l->name, path);
        dlclose(l->handle);
        l->handle = NULL;
        return NULL;
    }
    memcpy(&open, &symbol, sizeof open); /* ISO C has no cast from an object to a function */
    return open;
}

/* What it says of itself, before anything of it is used. */
static weft_status check_backend(const weft_context *ctx, const char *name, const weft_backend *b)
{
    const weft_backend *other;
    if (b->memory < WEFT_MEMORY_HOST || b->memory >= WEFT__MEMORIES)
        return weft__fail(WEFT_ERR_UNSUPPORTED, "backend %s moves memory of kind %d: expected %d to %d", name,
                          (int)b->memory, WEFT_MEMORY_HOST, WEFT_MEMORY_OTHER);
    if (b->id_bytes < 1 || b->id_bytes > WEFT_BACKEND_ID_MOST)
        return weft__fail(WEFT_ERR_UNSUPPORTED, "backend %s has ids of %zu bytes: expected 1 to %d", name,
                          b->id_bytes, WEFT_BACKEND_ID_MOST);
    if (!b->check || !b->open || !b->join || !b->doom || !b->drop || !b->start || !b->poll || !b->close ||
        !b->by_callers != !b->enter || !b->enter != !b->issue || !b->configure != !b->may_configure ||
        (!b->owns && b->memory != WEFT_MEMORY_HOST) || !b->mark != !b->unmark || !b->mark != !b->order ||
        !b->mem_alloc != !b->mem_free || !b->mem_register != !b->mem_deregister ||
        (b->lend && !(b->mem_register && b->mem_window && b->mem_peer)))
        return weft__fail(WEFT_ERR_UNSUPPORTED,
                          "backend %s leaves out a function that it must have (weft/backend.h)", name);
    other = ctx->modules[b->memory].backend;
    if (!other) return WEFT_OK;
    return weft__fail(WEFT_ERR_UNSUPPORTED, "backends %s and %s both move %s memory: expected one of them",
                      other->name, name, weft__memory_name(b->memory));
}

static weft_status open_backend(weft_context *ctx, loading *l)
{
    const char *why = "it does not say why";
    const weft_backend_place place = {.context = ctx,
                                      .host = l->host,
                                      .device = l->device,
                                      .rank = ctx->rank,
                                      .local_rank = ctx->host_group->rank,
                                      .world_size = ctx->world_size,
                                      .grace_ns = ABORT_GRACE_NS};
    weft_backend_open_fn *open = modules_find(l);
    weft_backend *backend = open ? open(&weft__modules_table, &place, &why) : NULL;
    weft_status status;
    if (!open) return WEFT_ERR_UNSUPPORTED;
    if (!backend) return weft__fail(WEFT_ERR_UNSUPPORTED, "backend %s cannot run here: %s", l->name, why);
    if (backend->version != WEFT_BACKEND_VERSION) /* nothing of it can be called */
        return weft__fail(WEFT_ERR_UNSUPPORTED, "backend %s is made for another version of this library",
                          l->name);
    status = check_backend(ctx, l->name, backend);
    if (status == WEFT_OK)
        l->backend = backend;
    else if (backend->close)
        backend->close(backend);
    return status;
}

static weft_status make_shared(weft_context *ctx)
{
    if (ctx->module_count || weft__slab_init(&ctx->devices, sizeof(weft__device),
                                             (size_t)weft__setting_int(WEFT__SET_REQUESTS_MAX)))
        return WEFT_OK;
    return weft__fail_memory(sizeof(weft__device), "operations on device memory");
}

static weft_status make_addresses(const weft_context *ctx, const weft_backend *backend, uint64_t **addresses)
{
    size_t n = (size_t)ctx->world_size;
    *addresses = backend->members ? calloc(n, sizeof **addresses) : NULL;
    return *addresses || !backend->members ? WEFT_OK
                                           : weft__fail_memory(n * sizeof **addresses, "addresses of ranks");
}

/* asked: was there a module that could be asked? */
static weft_status load(weft_context *ctx, loading l, bool *asked)
{
    weft_status status = open_backend(ctx, &l);
    size_t n = strlen(ctx->backend_names);
    uint64_t *addresses = NULL;
    weft__module *module;
    *asked = l.handle != NULL;
    if (status == WEFT_OK) status = make_addresses(ctx, l.backend, &addresses);
    if (status == WEFT_OK) status = make_shared(ctx);
    if (status != WEFT_OK) {
        free(addresses);
        if (l.backend) l.backend->close(l.backend);
        if (l.handle) dlclose(l.handle);
        return status;
    }
    module = &ctx->modules[l.backend->memory];
    module->backend = l.backend;
    module->handle = l.handle;
    module->addresses = addresses;
    ctx->callers_serve = l.backend->any_thread && (ctx->callers_serve || !ctx->module_count);
    ctx->module_count++;
    weft__ranges_open();
    ctx->beyond_host = ctx->beyond_host || l.backend->memory != WEFT_MEMORY_HOST;
    if (l.backend->memory == WEFT_MEMORY_CUDA) ctx->device = l.backend->device;
    snprintf(ctx->backend_names + n, sizeof ctx->backend_names - n, ",%s", l.name);
    weft__engine_take(ctx);
    weft__module_recorded(ctx, module, WEFT__HAPPENED_MODULE_LOADED);
    weft__engine_drop(ctx);
    return WEFT_OK;
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

/* By way of the host where NCCL cannot run.  The ranks of a host find the same, so one of them says it. */
static bool load_staged(weft_context *ctx, loading l)
{
    char why[WEFT__SENTENCE_BYTES];
    bool asked;
    snprintf(why, sizeof why, "%s", weft_last_error());
    l.name = "staged";
    if (load(ctx, l, &asked) == WEFT_OK) {
        weft__log(ctx->host_group->rank == 0 ? WEFT__INFO : WEFT__DEBUG,
                  "device memory goes by way of the host: %.800s", why);
        return true;
    }
    weft__fail(WEFT_ERR_UNSUPPORTED, "%s", why);
    return false;
}

/* Where nobody has asked for any by name, and a driver shows.  A module that was asked may find no device of its own
 * here; one that cannot even be asked is missed by whoever has a device. */
static weft_status load_unasked(weft_context *ctx, loading l)
{
    bool asked;
    l.name = "nccl";
    if (load(ctx, l, &asked) == WEFT_OK || load_staged(ctx, l)) return WEFT_OK;
    if (l.device >= 0)
        return weft__fail(WEFT_ERR_UNSUPPORTED, "config->device is %d: %.800s", l.device, weft_last_error());
    if (asked)
        weft__log(WEFT__INFO, "host memory only: %s", weft_last_error());
    else
        weft__log(ctx->host_group->rank == 0 ? WEFT__WARN : WEFT__DEBUG,
                  "a device driver is here, but operations are for host memory only: %.800s; "
                  "WEFT_BACKENDS=host says that this is meant",
                  weft_last_error());
    return WEFT_OK;
}

/* Asked for the host by name, and for nothing that moves device memory: that goes by the host too. */
static void load_for_host(weft_context *ctx, loading l)
{
    const bool wants_device = l.device >= 0, tells = wants_device && ctx->host_group->rank == 0;
    bool asked;
    l.name = "staged";
    if (ctx->modules[WEFT_MEMORY_CUDA].backend || (!driver_shows() && !wants_device)) return;
    if (!driver_shows())
        weft__fail(WEFT_ERR_UNSUPPORTED, "no device driver shows");
    else if (load(ctx, l, &asked) == WEFT_OK)
        return;
    if (wants_device)
        weft__log(tells ? WEFT__WARN : WEFT__DEBUG,
                  "config->device is %d, and operations are for host memory only, as \"host\" was asked for: "
                  "%.800s",
                  l.device, weft_last_error());
    else
        weft__log(WEFT__DEBUG, "host memory only: %s", weft_last_error());
}

weft_status weft__modules_load(weft_context *ctx, const char *wanted, int device,
                               const weft_backend_host *host)
{
    loading l = {.device = device, .host = host};
    bool by_host = false;
    snprintf(ctx->backend_names, sizeof ctx->backend_names, "host");
    if (!*wanted) return device >= 0 || driver_shows() ? load_unasked(ctx, l) : WEFT_OK;
    /* The library itself is always there, named or not. */
    for (const char *at = wanted; *at;) {
        char name[NAME_BYTES];
        size_t n = strcspn(at, ",");
        weft_status status;
        bool asked;
        snprintf(name, sizeof name, "%.*s", (int)n, at);
        at += n + (at[n] == ',');
        by_host = by_host || !strcmp(name, "host");
        if (!strcmp(name, "host") || !n) continue;
        if (n >= sizeof name || strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_") != strlen(name))
            return weft__fail(WEFT_ERR_ARGUMENT,
                              "backend \"%s\": expected a name of small letters and digits, %d at most", name,
                              NAME_BYTES - 1);
        l.name = name;
        if ((status = load(ctx, l, &asked)) != WEFT_OK) return status;
    }
    if (by_host) load_for_host(ctx, l);
    return WEFT_OK;
}
