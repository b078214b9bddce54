/* alarm.c - see alarm.h.  There is one watchdog in a process, so one descriptor wakes it for all contexts. */
#include "alarm.h"
#include "holder.h"
#include "log.h"
#include "recording.h"
#include "reserve.h"

#include <errno.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <unistd.h>

typedef struct queued {
    weft__mpsc_node node;
    int rank;
    bool forget; /* it is gone: nothing more to tell it */
    weft__notice notice;
} queued;

static int wake_fd = -1; /* once open, for good: whoever wakes a watchdog that ends must not find it closed */

int weft__alarm_fd(void)
{
    if (wake_fd < 0) wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return wake_fd;
}

void weft__alarm_wake(void)
{
    uint64_t one = 1;
    while (write(wake_fd, &one, sizeof one) < 0 && errno == EINTR) {
    }
}

/* Once, behind a call of progress, for all that is asked of the watchdog in it: where the processors are few it
 * would take this thread's each time, while operations have still to end. */
static void wake(weft_context *ctx)
{
    if (weft__holds_engine(ctx) && ctx->progress_ns >= 0)
        ctx->wake_watchdog = true;
    else
        weft__alarm_wake();
}

void weft__alarm_check(weft_context *ctx, int64_t when_ns)
{
    int64_t at = atomic_load_explicit(&ctx->check_ns, memory_order_relaxed);
    while (when_ns < at)
        if (atomic_compare_exchange_weak_explicit(&ctx->check_ns, &at, when_ns, memory_order_seq_cst,
                                                  memory_order_relaxed)) {
            wake(ctx);
            return;
        }
}

void weft__alarm_tell(weft_context *ctx, int rank, const weft__notice *notice)
{
    queued *q;
    WEFT__ASSERT(rank >= 0 && rank < ctx->world_size, rank, ctx->world_size);
    q = weft__reserve_get(sizeof *q);
    if (!q) return; /* the other's own deadline has to do */
    q->rank = rank;
    q->forget = !notice;
    if (notice) q->notice = *notice;
    weft__mpsc_push(&ctx->notices, &q->node);
    wake(ctx);
}

void weft__alarm_send(weft_context *ctx)
{
    weft__mpsc_node *node;
    WEFT__ASSERT(!weft__holds_any_engine()); /* it may take a while */
    node = weft__mpsc_take_all(&ctx->notices);
    while (node) {
        queued *q = WEFT__OWNER(node, queued, node);
        node = node->next;
        if (q->forget)
            weft__watchdog_wire_forget(ctx->wire, q->rank);
        else if (weft__watchdog_wire_send(ctx->wire, q->rank, &q->notice, weft__notice_bytes(&q->notice)) !=
                 WEFT_OK)
            weft__log(WEFT__INFO, "a notice to rank %d is lost: %s", q->rank, weft_last_error());
        weft__reserve_give(q);
    }
}

void weft__alarm_tick(weft_context *ctx)
{
    if (!atomic_load(&ctx->ticking) || (weft__holds_engine(ctx) && ctx->wake_watchdog)) weft__alarm_wake();
}

bool weft__alarm_dump_soon(weft_context *ctx, const char *why)
{
    if (!ctx->record.ops || !weft__dumping_to(ctx, WEFT__DUMPING_NOT, WEFT__DUMPING_ASKING)) return false;
    snprintf(ctx->dumping.why, sizeof ctx->dumping.why, "%.255s", why);
    return true;
}

void weft__alarm_dump_now(weft_context *ctx, int64_t pause_ns)
{
    ctx->dumping.from_ns = pause_ns ? weft__now_ns() + pause_ns : 0;
    weft__dumping_to(ctx, WEFT__DUMPING_ASKING, WEFT__DUMPING_ASKED);
    wake(ctx);
}

void weft__alarm_dump(weft_context *ctx, const char *why)
{
    if (weft__alarm_dump_soon(ctx, why)) weft__alarm_dump_now(ctx, 0);
}
