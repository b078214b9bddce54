/* context.c - a context from its making on, and what it tells.  It is taken apart in leave.c. */
#include "context.h"
#include "events.h"
#include "group.h"
#include "settings.h"
#include "status.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DEFAULT_TIMEOUT_MS 1800000

static _Atomic bool forked;

bool weft__forked(void)
{
    return atomic_load_explicit(&forked, memory_order_relaxed);
}

weft_status weft__usable(const weft_context *ctx)
{
    if (!ctx) return weft__fail(WEFT_ERR_ARGUMENT, "the context is NULL");
    if (weft__forked()) return weft__fail(WEFT_ERR_STATE, "a child of fork has no context");
    return WEFT_OK;
}

static void in_child(void)
{
    atomic_store(&forked, true);
}

void weft__fork_watch(void)
{
    pthread_atfork(NULL, NULL, in_child);
}

weft_context *weft__context_new(const weft_config *config, const weft__executor *const *executors)
{
    size_t bytes = (sizeof(weft_context) + WEFT__LINE - 1) / WEFT__LINE * WEFT__LINE;
    weft_context *ctx = aligned_alloc(WEFT__LINE, bytes);
    if (!ctx) return NULL;
    memset(ctx, 0, bytes);
    if (!weft__slab_init(&ctx->requests, sizeof(weft_request),
                         (size_t)weft__setting_int(WEFT__SET_REQUESTS_MAX))) {
        free(ctx);
        return NULL;
    }
    ctx->executors = executors;
    ctx->pid = getpid();
    ctx->device = ctx->home = -1;
    ctx->turn_ns = -1;
    ctx->bell_fd = ctx->watch.epoll_fd = -1;
    atomic_init(&ctx->caller_cpu, -1);
    ctx->timeout_ms = config->timeout_ms ? config->timeout_ms : DEFAULT_TIMEOUT_MS;
    weft__completion_fd_init(&ctx->completion_fd);
    atomic_store(&ctx->spin_ns, weft__setting_int(WEFT__SET_SPIN_US) * WEFT__US);
    ctx->warn_after_ns = weft__setting_int(WEFT__SET_WARN_MS) * WEFT__MS;
    atomic_store(&ctx->look_ns, WEFT__NEVER);
    weft__events_init(ctx);
    pthread_mutex_init(&ctx->store.opening, NULL);
    atomic_init(&ctx->engine.fence, weft__fence_open());
    ctx->engine.keeps = atomic_load(&ctx->engine.fence) == WEFT__FENCE_HEAVY;
    weft__ticker_open(&ctx->ticker);
    weft__list_init(&ctx->pending);
    for (int i = 0; i < WEFT__EXECUTOR_KINDS; i++) weft__list_init(&ctx->at_work[i]);
    weft__list_init(&ctx->forming);
    weft__list_init(&ctx->shrinks);
    weft__list_init(&ctx->early_rows);
    weft__list_init(&ctx->meshes);
    weft__list_init(&ctx->batches);
    weft__list_init(&ctx->groups);
    weft__list_init(&ctx->retiring);
    weft__list_init(&ctx->links);
    weft__list_init(&ctx->device_memory);
    weft__list_init(&ctx->early_ids);
    weft__list_init(&ctx->tickets);
    weft__list_init(&ctx->early_words);
    return ctx;
}

/* ---- what a context tells ---- */

weft_group *weft_world(weft_context *ctx)
{
    return weft__usable(ctx) == WEFT_OK ? ctx->world : NULL;
}

weft_group *weft_host_group(weft_context *ctx)
{
    return weft__usable(ctx) == WEFT_OK ? ctx->host_group : NULL;
}

int weft_local_rank(const weft_context *ctx)
{
    return weft__usable(ctx) == WEFT_OK ? ctx->host_group->rank : -1;
}

int weft_local_size(const weft_context *ctx)
{
    return weft__usable(ctx) == WEFT_OK ? ctx->host_group->size : -1;
}

int weft_device(const weft_context *ctx)
{
    return weft__usable(ctx) == WEFT_OK ? ctx->device : -1;
}

const char *weft_backends(const weft_context *ctx)
{
    return weft__usable(ctx) == WEFT_OK ? ctx->backend_names : "";
}

int weft_version(void)
{
    return WEFT_VERSION;
}
