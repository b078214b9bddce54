/* job_store.c - see job_store.h.
 *
 *   a rank    asks rank 0's watchdog where the store is, sleeps until the answer or the end of rank 0,
 * connects
 *   rank 0    starts a server at the address that it advertises, on any free port, when first asked
 *
 * The store's keys are made from the job's, for this purpose alone.
 * Fails when rank 0 is gone, cannot serve, or does not answer in time; then the next call tries again. */
#include "job_store.h"
#include "address.h"
#include "alarm.h"
#include "keys.h"
#include "kv_server.h"
#include "protocol.h"
#include "request.h"
#include "store.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PURPOSE "\x01store of a job" /* in the place of a job's name */

typedef struct job_store {
    weft_store *joined_by; /* the caller's, weft_config.store */
    pthread_mutex_t opening;
    _Atomic(weft_store *) opened;
    weft__lock lock;                /* all below */
    struct weft__kv_server *server; /* rank 0 */
    int port;
    weft__keys *keys;         /* of the store, from the job's */
    _Atomic uint32_t answers; /* futex: rank 0's answers so far, and its end */
    weft_status status;
    char endpoint[WEFT__ENDPOINT_BYTES], why[512];
} job_store;

static job_store *store_of(const weft_context *ctx)
{
    return ctx->protocol_state[WEFT__PROTOCOL_STORE];
}

/* Lock held.  Once for all who need them. */
static weft_status make_keys(weft_context *ctx)
{
    if (store_of(ctx)->keys) return WEFT_OK;
    return weft__keys_make(ctx->keys->data, sizeof ctx->keys->data, PURPOSE, &store_of(ctx)->keys);
}

/* ---- rank 0 ---- */

static weft_status job_store_serve(weft_context *ctx, char endpoint[WEFT__ENDPOINT_BYTES])
{
    const char *address = weft__rendezvous_address(ctx->rendezvous);
    job_store *job = store_of(ctx);
    weft_status status = WEFT_OK;
    weft__lock_take(&job->lock);
    if (!job->server && (status = make_keys(ctx)) == WEFT_OK) {
        status = weft__kv_serve(address, &job->port, job->keys, &job->server);
        if (status == WEFT_PENDING)
            status = weft__fail_errno("rank 0 cannot serve the job's store at %s", address);
    }
    weft__address_endpoint(address, &job->port, endpoint, WEFT__ENDPOINT_BYTES);
    weft__lock_drop(&job->lock);
    return status;
}

static void asked(weft_context *ctx, int from)
{
    weft__notice here = {.kind = WEFT__NOTICE_STORE_HERE};
    if (ctx->rank != 0) return;
    here.subject = job_store_serve(ctx, here.fate);
    if (here.subject) snprintf(here.text, sizeof here.text, "%.500s", weft_last_error());
    weft__alarm_tell(ctx, from, &here);
}

/* ---- the others ---- */

static void told(weft_context *ctx, int from, const weft__notice *notice)
{
    job_store *job = store_of(ctx);
    if (from != 0) return;
    weft__lock_take(&job->lock);
    job->status = notice->subject;
    snprintf(job->endpoint, sizeof job->endpoint, "%.*s", (int)sizeof job->endpoint - 1, notice->fate);
    snprintf(job->why, sizeof job->why, "%.500s", notice->text);
    weft__lock_drop(&job->lock);
    atomic_fetch_add(&job->answers, 1);
    weft__wake_all(&job->answers);
}

static void job_store_peer_gone(weft_context *ctx, int rank, const char *why)
{
    (void)why; /* the rank's own record has it */
    if (rank != 0) return;
    atomic_fetch_add(&store_of(ctx)->answers, 1);
    weft__wake_all(&store_of(ctx)->answers);
}

/* One answer for one question: there is one who asks at a time. */
static weft_status job_store_ask(weft_context *ctx, int64_t deadline_ns, char endpoint[WEFT__ENDPOINT_BYTES])
{
    job_store *job = store_of(ctx);
    weft__notice where = {.kind = WEFT__NOTICE_STORE_WHERE};
    uint32_t seen = atomic_load(&job->answers);
    weft_status status;
    weft__alarm_tell(ctx, 0, &where);
    while (atomic_load(&job->answers) == seen && atomic_load(&ctx->peers[0].gone) == WEFT__LIVES) {
        if (weft__now_ns() >= deadline_ns)
            return weft__fail(WEFT_ERR_TIMEOUT,
                              "context_store: rank 0 (host %s, pid %d), which keeps the job's "
                              "store, has not answered for %.3g s",
                              ctx->peers[0].host, ctx->peers[0].pid, (double)ctx->timeout_ms / 1e3);
        weft__sleep_on(&job->answers, seen, deadline_ns);
    }
    if (atomic_load(&ctx->peers[0].gone) != WEFT__LIVES)
        return weft__fail(WEFT_ERR_PEER, "context_store: rank 0, which keeps the job's store, %s",
                          weft__has_left(&ctx->peers[0]) ? "has left" : ctx->peers[0].why);
    weft__lock_take(&job->lock);
    status = job->status == WEFT_OK ? WEFT_OK : weft__fail(job->status, "rank 0: %s", job->why);
    memcpy(endpoint, job->endpoint, WEFT__ENDPOINT_BYTES);
    weft__lock_drop(&job->lock);
    return status;
}

/* ---- both ---- */

static weft_status open_store(weft_context *ctx, weft_store **out)
{
    int64_t deadline_ns = weft__deadline(weft__now_ns(), ctx->timeout_ms);
    char endpoint[WEFT__ENDPOINT_BYTES];
    weft_store *store;
    weft_status status =
        ctx->rank == 0 ? job_store_serve(ctx, endpoint) : job_store_ask(ctx, deadline_ns, endpoint);
    if (status != WEFT_OK) return status;
    weft__lock_take(&store_of(ctx)->lock);
    status = make_keys(ctx);
    weft__lock_drop(&store_of(ctx)->lock);
    if (status != WEFT_OK) return status;
    store = calloc(1, sizeof *store);
    if (!store) return weft__fail_memory(sizeof *store, "the job's store");
    store->limit_ms = ctx->timeout_ms;
    store->of_context = true;
    status = weft__kv_connect(endpoint, store_of(ctx)->keys, deadline_ns, &store->kv);
    if (status == WEFT_OK)
        *out = store;
    else
        free(store);
    return status;
}

weft_store *weft_context_store(weft_context *ctx)
{
    weft_store *store = NULL;
    if (weft__usable(ctx) != WEFT_OK) return NULL;
    if (store_of(ctx)->joined_by) return store_of(ctx)->joined_by;
    store = atomic_load_explicit(&store_of(ctx)->opened, memory_order_acquire);
    if (store) return store;
    if (weft__in_callback()) {
        weft__fail(WEFT_ERR_STATE, "context_store waits when it is first called: not in a callback");
        return NULL;
    }
    pthread_mutex_lock(&store_of(ctx)->opening);
    store = atomic_load(&store_of(ctx)->opened);
    if (!store && open_store(ctx, &store) == WEFT_OK)
        atomic_store_explicit(&store_of(ctx)->opened, store, memory_order_release);
    pthread_mutex_unlock(&store_of(ctx)->opening);
    return store;
}

void weft__job_store_joined_by(weft_context *ctx, weft_store *store)
{
    store_of(ctx)->joined_by = store;
}

static void job_store_notice(weft_context *ctx, int from, const weft__notice *notice)
{
    if (notice->kind == WEFT__NOTICE_STORE_WHERE)
        asked(ctx, from);
    else
        told(ctx, from, notice);
}

static weft_status open_job_store(weft_context *ctx)
{
    job_store *job = calloc(1, sizeof *job);
    ctx->protocol_state[WEFT__PROTOCOL_STORE] = job;
    if (!job) return weft__fail_memory(sizeof *job, "a context");
    pthread_mutex_init(&job->opening, NULL);
    return WEFT_OK;
}

static void close_job_store(weft_context *ctx)
{
    job_store *job = store_of(ctx);
    weft_store *store = job ? atomic_load(&job->opened) : NULL;
    if (store) {
        store->kv->ops->close(store->kv);
        free(store);
    }
    if (!job) return;
    weft__kv_server_stop(job->server);
    weft__keys_drop(job->keys);
    pthread_mutex_destroy(&job->opening);
    free(job);
}

const weft__protocol weft__store_protocol = {.name = "job store",
                                             .first_notice = WEFT__NOTICE_STORE_WHERE,
                                             .last_notice = WEFT__NOTICE_STORE_HERE,
                                             .open = open_job_store,
                                             .close = close_job_store,
                                             .notice = job_store_notice,
                                             .peer_gone = job_store_peer_gone,
                                             .peer_unreachable = job_store_peer_gone};
