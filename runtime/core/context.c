/* context.c - a context from its making on, and what it tells.  It is taken apart in leave.c. */
#include "context.h"
#include "group.h"
#include "plain.h"
#include "protocol.h"
#include "settings.h"
#include "status.h"
#include "terms.h"

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

weft_status weft__protocol_open_list(weft_context *ctx, weft__protocol_kind kind)
{
    weft__list *list = malloc(sizeof *list);
    ctx->protocol_state[kind] = list;
    if (!list) return weft__fail_memory(sizeof *list, "a context");
    weft__list_init(list);
    return WEFT_OK;
}

void weft__protocol_close_list(weft_context *ctx, weft__protocol_kind kind,
                               void (*free_entry)(weft__list *link))
{
    weft__list *list = ctx->protocol_state[kind];
    if (!list) return;
    WEFT__LIST_EACH(list, at) free_entry(at);
    free(list);
}

static void context_fill(weft_context *ctx, const weft_config *config)
{
    ctx->pid = getpid();
    ctx->device = -1;
    ctx->progress_ns = -1;
    ctx->bell_fd = ctx->poller.epoll_fd = -1;
    ctx->timeout_ms = config->timeout_ms ? config->timeout_ms : DEFAULT_TIMEOUT_MS;
    weft__completion_fd_init(&ctx->completion_fd);
    weft__pacing_open(&ctx->pacing, weft__setting_int(WEFT__SET_SPIN_US) * WEFT__US);
    (void)weft__quorum_read(weft__setting_text(WEFT__SET_QUORUM),
                            &ctx->quorum); /* weft_init has looked at it */
    ctx->warn_after_ns = weft__setting_int(WEFT__SET_WARN_MS) * WEFT__MS;
    atomic_store(&ctx->check_ns, WEFT__NEVER);
    atomic_init(&ctx->engine.fence, weft__fence_open());
    ctx->engine.keeps = !WEFT__PLAIN && atomic_load(&ctx->engine.fence) == WEFT__FENCE_HEAVY;
    weft__ticker_open(&ctx->ticker);
    weft__list_init(&ctx->pending);
    weft__list_init(&ctx->late_rounds);
    ctx->fan_out = WEFT__FAN_OUT;
    ctx->told_at_once = WEFT__TOLD_AT_ONCE;
    weft__list_init(&ctx->to_tell);
    weft__list_init(&ctx->told_deaths);
    for (int i = 0; i < WEFT__EXECUTOR_KINDS; i++) weft__list_init(&ctx->at_work[i]);
    weft__list_init(&ctx->meshes);
    weft__list_init(&ctx->batches);
    weft__list_init(&ctx->groups);
    for (size_t i = 0; i < WEFT__LENGTH(ctx->groups_by_id); i++) weft__list_init(&ctx->groups_by_id[i]);
    weft__list_init(&ctx->retiring);
    weft__list_init(&ctx->device_memory);
    weft__list_init(&ctx->program_line);
    weft__list_init(&ctx->holding);
    weft__list_init(&ctx->behind);
    weft__early_open(ctx);
}

static weft_status open_protocols(weft_context *ctx)
{
    weft_status status = WEFT_OK;
    WEFT__EACH_PROTOCOL(ctx, p)
    {
        if (status == WEFT_OK && p->open) status = p->open(ctx);
    }
    return status;
}

weft_context *weft__context_new(const weft_config *config, const weft__executor *const *executors,
                                const weft__protocol *const *protocols)
{
    size_t bytes = (sizeof(weft_context) + WEFT__LINE - 1) / WEFT__LINE * WEFT__LINE;
    weft_context *ctx = aligned_alloc(WEFT__LINE, bytes);
    if (!ctx) return NULL;
    memset(ctx, 0, bytes);
    ctx->executors = executors;
    ctx->protocols = protocols;
    context_fill(ctx, config);
    if (weft__slab_init(&ctx->requests, sizeof(weft_request),
                        (size_t)weft__setting_int(WEFT__SET_REQUESTS_MAX)) &&
        open_protocols(ctx) == WEFT_OK)
        return ctx;
    weft__context_close_protocols(ctx);
    weft__slab_destroy(&ctx->requests);
    free(ctx);
    return NULL;
}

void weft__context_close_protocols(weft_context *ctx)
{
    WEFT__EACH_PROTOCOL(ctx, p)
    {
        if (p->close) p->close(ctx);
    }
    weft__early_close(ctx);
    weft__terms_close(ctx);
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
