/* program.c - see program.h.
 *
 * Fails: an operation whose communicator is not made leaves the line and is refused; one that fails in the module ends
 * there as any other. */
#include "program.h"
#include "engine.h"
#include "group.h"
#include "ranges.h"
#include "submit.h"

static WEFT__THREAD_WORD weft__device *entered, *last_entered; /* by this thread, and not issued yet */

static weft__device *head_of(weft_context *ctx)
{
    weft__list *line = &ctx->program_line;
    return weft__list_empty(line)
               ? NULL
               : WEFT__OWNER(WEFT__LIST_ENTRY(line->next, weft__ticket, link), weft__device, ticket);
}

void weft__program_turns(weft_context *ctx)
{
    weft__device *first;
    WEFT__ASSERT(weft__holds_engine(ctx));
    while ((first = head_of(ctx)) != NULL) {
        weft__device_comm *dev_comm = first->dev_comm;
        if (dev_comm->state < WEFT__DEVICE_COMM_READY) return;
        weft__list_remove(&first->ticket.link);
        if (dev_comm->state == WEFT__DEVICE_COMM_READY)
            first->ticket.go(&first->ticket);
        else
            first->ticket.refuse(&first->ticket, dev_comm->status, dev_comm->why);
    }
}

void weft__program_enter(weft__device *first)
{
    weft_context *ctx = first->req->ctx;
    if (first->req->capture && first->dev_comm->state == WEFT__DEVICE_COMM_READY) {
        /* It waits for no others: below, waits_for_others. */
        first->ticket.go(&first->ticket);
        return;
    }
    weft__list_append(&ctx->program_line, &first->ticket.link);
    weft__program_turns(ctx);
}

void weft__program_leave(weft__device *first)
{
    weft__list_remove(&first->ticket.link);
    weft__program_turns(first->req->ctx);
}

/* What is recorded in a graph was asked about before it had its number: what has come since, from a callback, runs when it
 * runs, and a replay later. */
static bool waits_for_others(const weft__device *first)
{
    return atomic_load(&first->req->ctx->program_ahead) && !first->req->capture;
}

bool weft__program_by_caller(weft__device *first)
{
    weft_backend *backend = first->module->backend;
    if (!weft__submit_issues() || !backend->enter || first->part.splits || waits_for_others(first) ||
        atomic_load(&first->module->lost) || !backend->enter(backend, &first->work))
        return false;
    first->next_entered = NULL;
    if (entered)
        last_entered->next_entered = first;
    else
        entered = first;
    last_entered = first;
    return true;
}

void weft__program_handed(weft__device *first)
{
    atomic_store_explicit(&first->ahead, true, memory_order_relaxed);
    atomic_fetch_add(&first->req->ctx->program_ahead, 1);
}

void weft__program_went(weft__device *d)
{
    if (WEFT__LIKELY(!atomic_load_explicit(&d->ahead, memory_order_relaxed)) ||
        !atomic_exchange(&d->ahead, false))
        return;
    atomic_fetch_sub(&d->req->ctx->program_ahead, 1);
}

void weft__program_issue(weft_context *ctx)
{
    weft__device *first = entered, *next;
    if (!first) return;
    entered = NULL;
    weft__engine_nudge(ctx);
    for (; first;
         first = next) { /* once it is issued it may be over and gone, and after the last one the context */
        next = first->next_entered;
        if (WEFT__UNLIKELY(weft__ranges_on())) weft__range_push("issue", &first->req->op, first->req->group);
        first->module->backend->issue(first->module->backend, &first->work);
        if (WEFT__UNLIKELY(weft__ranges_on())) weft__range_pop();
    }
}
