/* modules.c - backends outside the library: found, loaded, fed.
 *
 * Work for a module goes to a queue that the progress thread takes, or where the module allows it (any_thread) a caller
 * who waits; its calls run with the engine let go, because they may block.  The module's reference keeps a request's
 * record alive until it has finished it, also when the watchdog has settled the request meanwhile. */
#include "modules.h"
#include "device.h"
#include "engine.h"
#include "group.h"
#include "group_break.h"
#include "linger.h"
#include "log.h"
#include "module_folder.h"
#include "peer.h"
#include "program.h"
#include "ranges.h"
#include "settings.h"

#include <dlfcn.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define ABORT_GRACE_NS (100 * WEFT__MS) /* for a call to come back, before its communicator is aborted */
#define AWAIT_PAUSE_NS WEFT__MS
#define LEAVES_NS      (2000 * WEFT__MS) /* for who is on the way out of a module, before it is closed; */
#define LOST_LEAVES_NS (100 * WEFT__MS)  /* and for who has not come back out of it for long */
#define NAME_BYTES     32
/* Who waits polls a module so often before it looks at all else again, which costs more than a poll. */
#define SERVED_POLLS 8
#define LOOK_NS      (20 * WEFT__US) /* between looks while nobody waits */

/* What the runtime knows of the communicator's end is better than what a call on it says. */
static void explain(const weft_request *req, weft_status *status, const char *sentence, char *text,
                    size_t bytes)
{
    /* Messages that go together are no one's but their own: the first may be over and gone. */
    const weft__device *d = req->device;
    const weft__device_comm *dev_comm =
        weft__kind_traits(req->op.kind) & WEFT__PAIR ? d->dev_comm : d->fused->dev_comm;
    char name[256], who[192];
    weft__request_name(req, name, sizeof name);
    if (dev_comm && dev_comm->state == WEFT__DEVICE_COMM_DOOMED) {
        *status = dev_comm->status;
        snprintf(text, bytes, "%s: %.700s", name, dev_comm->why);
        return;
    }
    weft__peer_name(req->ctx, req->ctx->rank, who, sizeof who);
    snprintf(text, bytes, "%s: %s: %.500s", name, who, sentence ? sentence : weft_status_text(*status));
}

static void end(weft_request *req, weft_status status, const char *sentence)
{
    char text[WEFT__SENTENCE_BYTES];
    bool pair = weft__kind_traits(req->op.kind) & WEFT__PAIR;
    if (weft__request_state(req) == WEFT__DRAINING) {
        weft__device_settles(req->device);
        weft__request_settle(req, req->draining_status, NULL);
        return;
    }
    if (weft__request_state(req) > WEFT__DRAINING) return; /* abandoned */
    if (status == WEFT_OK) {
        if (pair)
            weft__device_pair_done(req);
        else if (weft__device_done(req)) {
            weft__device_settles(req->device);
            weft__request_settle(req, WEFT_OK, NULL);
        }
        return;
    }
    explain(req, &status, sentence, text, sizeof text);
    weft__device_stop_agreeing(req->device); /* in program order it may fail before all have come */
    weft__device_settles(req->device);
    weft__request_settle(req, status, text);
    if (pair)
        weft__device_pair_give_up(req, status, text);
    else
        weft__group_break(req->group, &(weft__verdict){status, req->sequence, -1, text}, true);
}

/* From one call of a module to the next, `to` 0: to none.  False: while it was inside, this thread was given up
 * (device.c), and nothing of the context is its own any more. */
static bool is_back(weft_context *ctx, int64_t *since, int64_t to)
{
    bool back = atomic_compare_exchange_strong(&ctx->blocked_since, since, to);
    *since = to;
    if (back) weft__record_life(&ctx->record, WEFT__LIFE_MODULE, (uint64_t)to);
    return back;
}

static WEFT__THREAD_WORD bool inside; /* the progress thread's: it is inside a module */

/* One call of a module may begin or end thousands of works: as long as it tells of them it is not stuck (device.c). */
static void tells(weft_context *ctx, int64_t ns)
{
    if (inside) atomic_store(&ctx->told_ns, ns);
}

static void modules_finish(weft_backend_work *work, weft_status status, const char *sentence)
{
    weft__device *d = work->owner;
    weft__module *module = d->module;
    weft_request *req = d->req;
    weft_context *ctx = req->ctx;
    bool entered;
    _Atomic int *count;
    tells(ctx, WEFT__NEVER); /* who has the engine may be giving up a thousand works */
    entered = weft__engine_enter(ctx);
    count = req->abandoned ? &ctx->device_left : &ctx->device_pending;
    weft__program_went(d);
    work->marker = NULL;
    end(req, status, sentence);
    weft__linger(ctx, module);
    weft__device_told(d, WEFT__PHASE_OVER); /* whoever sees this sees how it ended */
    weft__engine_leave(ctx, entered);
    weft__request_unref(req);
    tells(ctx, weft__now_ns());
    atomic_fetch_sub(count, 1);
    atomic_fetch_sub(&module->pending, 1); /* last: whoever ends the context waits for this alone */
}

static void issued(weft_backend_work *work)
{
    const weft__device *d = work->owner;
    tells(d->req->ctx, weft__now_ns());
    weft__program_went(work->owner);
    weft__device_told(work->owner, WEFT__PHASE_RUNNING);
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

static const weft_backend_runtime table = {
    WEFT_BACKEND_VERSION,     modules_finish,    issued,     weft__device_comm_named,
    weft__device_comm_joined, weft__module_fail, module_log, module_now,
};

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
    weft_backend *backend = open ? open(&table, &place, &why) : NULL;
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

void weft__module_recorded(weft_context *ctx, const weft__module *module, weft__record_event what)
{
    if (ctx->recording)
        weft__record_happened(&ctx->record, what, -1, weft__record_way(&ctx->record, module->backend->name));
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

void weft__modules_met(weft_context *ctx, const weft__module_card *cards)
{
    for (int i = 0; i < ctx->world_size; i++) ctx->peers[i].modules = weft__modules_alike(ctx, &cards[i]);
    for (weft__module *m = weft__module_next(ctx, NULL); m; m = weft__module_next(ctx, m))
        for (int i = 0; i < ctx->world_size && m->addresses; i++)
            m->addresses[i] = cards[i].address[weft__module_memory(ctx, m)];
    ctx->world->modules = weft__group_modules(ctx->world);
    ctx->host_group->modules = weft__group_modules(ctx->host_group);
}

static bool anybody_died(const weft_context *ctx)
{
    for (int rank = 0; rank < ctx->world_size; rank++)
        if (weft__is_dead(&ctx->peers[rank])) return true;
    return false;
}

bool weft__modules_await(weft_context *ctx, int64_t until_ns)
{
    const struct timespec pause = {0, AWAIT_PAUSE_NS};
    bool all = true;
    for (weft__module *m = weft__module_next(ctx, NULL); m; m = weft__module_next(ctx, m)) {
        const bool never = m->backend->unstoppable && anybody_died(ctx);
        while (atomic_load(&m->pending) && !atomic_load(&m->lost) && !never && weft__now_ns() < until_ns)
            nanosleep(&pause, NULL);
        if (atomic_load(&m->pending)) atomic_store(&m->lost, true);
        all = all && !atomic_load(&m->lost);
    }
    return all;
}

static bool take_turn(weft__module *module)
{
    return !module->backend->any_thread || !atomic_exchange(&module->turn, true);
}

static void give_turn(weft__module *module)
{
    if (module->backend->any_thread) atomic_store_explicit(&module->turn, false, memory_order_release);
}

void weft__modules_leave_host(weft_context *ctx)
{
    for (weft__module *m = weft__module_next(ctx, NULL); m; m = weft__module_next(ctx, m))
        if (m->backend->leave_host) m->backend->leave_host(m->backend);
}

/* Whoever finished the last work is on its way out, however long others keep the processor. */
static void await_turn(weft__module *module)
{
    const int64_t until = weft__now_ns() + (atomic_load(&module->lost) ? LOST_LEAVES_NS : LEAVES_NS);
    while (!take_turn(module) && weft__now_ns() < until) sched_yield();
}

void weft__modules_close(weft_context *ctx)
{
    bool death = ctx->module_count && anybody_died(ctx);
    for (weft__module *m = weft__module_next(ctx, NULL); m; m = weft__module_next(ctx, m)) {
        weft__module_recorded(ctx, m, WEFT__HAPPENED_MODULE_UNLOADED);
        await_turn(m);
        if (death && m->backend->abandon) m->backend->abandon(m->backend);
        m->backend->close(m->backend);
        m->backend = NULL;
        dlclose(m->handle);
        m->handle = NULL;
        free(m->addresses);
        m->addresses = NULL;
    }
    if (ctx->module_count) weft__slab_destroy(&ctx->devices);
    ctx->module_count = 0;
}

/* Nobody waits for it any more, so nobody hurries: the progress thread sees to its end now and then. */
void weft__module_abandon(weft_request *req)
{
    WEFT__ASSERT(weft__holds_engine(req->ctx) && !req->abandoned);
    req->abandoned = true;
    atomic_fetch_add(&req->ctx->device_left, 1);
    atomic_fetch_sub(&req->ctx->device_pending, 1);
    weft__engine_nudge(req->ctx); /* who waits leaves it alone from now on */
    weft__device_settles(req->device);
    weft__request_settle(req, req->draining_status, NULL);
}

static void modules_split(weft__module *module, weft_backend_work *work)
{
    const weft__device *d = work->owner;
    const weft__part *part = &d->part;
    weft_backend_comm *made = part->dev_comm ? part->dev_comm->comm : NULL;
    module->backend->split(work->comm, made, made ? part->color : -1, part->key);
    modules_finish(work, WEFT_OK, NULL);
}

static void modules_start(weft__module *module, weft__device *first)
{
    if (weft__request_state(first->req) < WEFT__DRAINING) {
        const bool shows = WEFT__UNLIKELY(weft__ranges_on());
        if (shows) weft__range_push("issue", &first->req->op, first->req->group);
        if (first->part.splits)
            modules_split(module, &first->work);
        else
            module->backend->start(module->backend, &first->work);
        if (shows) weft__range_pop();
        return;
    }
    for (weft_backend_work *work = &first->work; work;) { /* ended before it began */
        weft_backend_work *next = work->next;
        void *marker = work->marker;
        modules_finish(work, WEFT_ERR_CANCELLED, NULL);
        weft__module_unmark(module, marker);
        work = next;
    }
}

/* A lost module begins nothing more. */
static void modules_refuse(weft__mpsc_node *node)
{
    while (node) {
        weft_backend_work *work = &WEFT__OWNER(node, weft_request, node)->device->work;
        node = node->next;
        while (work) {
            weft_backend_work *next = work->next;
            modules_finish(work, WEFT_ERR_SYSTEM, "its device is lost: a call on it has not returned");
            work = next;
        }
    }
}

/* Where a caller is inside, so that the rest of the library goes on without it (watchdog.c). */
static void served_since(weft_context *ctx, weft__module *module, int64_t ns)
{
    atomic_store_explicit(&module->served_since, ns, memory_order_relaxed);
    weft__record_life(&ctx->record, WEFT__LIFE_MODULE, (uint64_t)ns);
}

/* Until something is done.  Where ranks share processors, another may wait for this one. */
static int poll_while_idle(const weft_context *ctx, const weft__module *module)
{
    int most = weft__pacing_is_crowded(&ctx->pacing) ? 1 : SERVED_POLLS, n = 0;
    for (int i = 0; i < most && n == 0; i++) n = module->backend->poll(module->backend);
    return n;
}

/* A call that does not come back keeps its caller, and with it all works of that module, until their deadlines. */
int weft__module_progress_by_caller(weft_context *ctx, int64_t now_ns)
{
    int n = 0;
    if (atomic_load_explicit(&ctx->device_pending, memory_order_relaxed) == 0) return 0;
    WEFT__ASSERT(!weft__holds_engine(ctx));
    for (weft__module *m = weft__module_next(ctx, NULL); m; m = weft__module_next(ctx, m)) {
        weft__mpsc_node *node;
        if (!m->backend->any_thread || atomic_load(&m->lost) || !take_turn(m)) continue;
        served_since(ctx, m, now_ns);
        for (node = weft__mpsc_take_all(&m->work); node; n++) {
            weft_request *req = WEFT__OWNER(node, weft_request, node);
            node = node->next;
            modules_start(m, req->device);
        }
        n += poll_while_idle(ctx, m);
        served_since(ctx, m, 0);
        give_turn(m);
    }
    return n;
}

/* Each look takes locks of the driver's that callers need to begin works: as long as nobody waits, not at every pass. */
static bool is_early(const weft_context *ctx, weft__module *module, int64_t now)
{
    if (module->backend->by_callers && now - module->looked_ns < LOOK_NS &&
        !atomic_load_explicit(&ctx->drivers, memory_order_relaxed) &&
        !atomic_load_explicit(&ctx->settling_sleepers, memory_order_relaxed))
        return true;
    module->looked_ns = now;
    return false;
}

static int serve(weft_context *ctx, weft__module *module, weft__mpsc_node *node, int64_t *since)
{
    int n = 0;
    while (node) {
        weft_request *req = WEFT__OWNER(node, weft_request, node);
        node = node->next;
        modules_start(module, req->device);
        if (!is_back(ctx, since, weft__now_ns())) {
            modules_refuse(node);
            return -1;
        }
        n++;
    }
    n += module->backend->poll(module->backend);
    return is_back(ctx, since, 0) ? n : -1;
}

/* idle: poll it without works too.  -1: this thread was given up. */
static int progress(weft_context *ctx, weft__module *module, bool idle)
{
    weft__mpsc_node *node = weft__mpsc_take_all(&module->work);
    int64_t since = weft__now_ns();
    int n;
    if (!node && !idle && atomic_load(&module->pending) == 0) return 0;
    if (!node && is_early(ctx, module, since)) return 0;
    atomic_store(&ctx->blocked_in, (int)weft__module_memory(ctx, module));
    atomic_store(&ctx->blocked_since, since);
    weft__record_life(&ctx->record, WEFT__LIFE_MODULE, (uint64_t)since);
    inside = true;
    n = serve(ctx, module, node, &since);
    inside = false;
    return n;
}

int weft__module_progress(weft_context *ctx)
{
    const bool lingers = weft__linger_is_due(ctx);
    int n = 0;
    if (!lingers && atomic_load_explicit(&ctx->device_pending, memory_order_relaxed) == 0 &&
        atomic_load_explicit(&ctx->device_left, memory_order_relaxed) == 0)
        return 0;
    WEFT__ASSERT(!weft__holds_engine(ctx));
    for (weft__module *m = weft__module_next(ctx, NULL); m; m = weft__module_next(ctx, m)) {
        int moved;
        if (atomic_load_explicit(&m->lost, memory_order_relaxed)) {
            modules_refuse(weft__mpsc_take_all(&m->work));
            continue;
        }
        if (!take_turn(m)) continue;
        moved = progress(ctx, m, lingers && atomic_load_explicit(&m->lingers, memory_order_relaxed));
        if (moved < 0) return -1;
        give_turn(m);
        n += moved;
    }
    return n;
}
