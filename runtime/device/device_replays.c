/* device_replays.c - replays of graphs that have recorded operations of a group: counted, and watched.
 *
 * A replay is no request, so it has no deadline that could end it.  While a group lives on whose operations graphs have
 * recorded, the watchdog asks the module now and then how far the replays are, and says once of one that has not moved for the
 * group's timeout that it has not.  That is a line in the log and nothing more: what a device does beside it is not known.
 * Since the module knows only what it has seen, that comes up to a quarter of the timeout late. */
#include "device_replays.h"
#include "alarm.h"
#include "device.h"
#include "engine.h"
#include "group.h"
#include "log.h"

#define LOOKS      4 /* in a timeout */
#define LEAST_NS   (5 * WEFT__MS)
#define COMMS(ctx) ((weft__list *)(ctx)->protocol_state[WEFT__PROTOCOL_DEVICE_COMMS])

/* WEFT__NEVER: there is none. */
static int64_t timeout_of(const weft__device_comm *dev_comm)
{
    int64_t ms = atomic_load_explicit(&dev_comm->group->timeout_ms, memory_order_relaxed);
    return ms == WEFT_FOREVER || ms > WEFT__NEVER / WEFT__MS ? WEFT__NEVER : ms * WEFT__MS;
}

static int64_t next_look(int64_t now_ns, int64_t timeout_ns)
{
    int64_t pause = timeout_ns / LOOKS;
    return timeout_ns == WEFT__NEVER ? WEFT__NEVER : now_ns + (pause > LEAST_NS ? pause : LEAST_NS);
}

void weft__replays_expect(weft__device_comm *dev_comm)
{
    WEFT__ASSERT(weft__holds_engine(dev_comm->ctx));
    if (dev_comm->replayed || !dev_comm->module->backend->replays) return;
    dev_comm->replayed = true;
    weft__alarm_check(dev_comm->ctx, next_look(weft__now_ns(), timeout_of(dev_comm)));
}

static void say(const weft__device_comm *dev_comm, const weft_backend_replays *r, int64_t now_ns,
                int64_t timeout_ns)
{
    weft__log(
        WEFT__WARN,
        "group %s: a replay of a graph has not moved for %.1f s, and the group's timeout is %.1f s: of %u "
        "calls of its on the group's communicator %u are over; %llu replays have begun by now",
        dev_comm->group->label, (double)(now_ns - r->since_ns) / 1e9, (double)timeout_ns / 1e9, r->calls,
        r->done, (unsigned long long)r->begun);
}

/* The watchdog comes for other things too, and each look is at every graph.  The timeout may have become shorter. */
static bool is_too_early(const weft__device_comm *dev_comm, int64_t now_ns)
{
    return now_ns < dev_comm->look_ns && dev_comm->look_ns <= next_look(now_ns, timeout_of(dev_comm));
}

/* Each that stands for so long is said once, one a look. */
static int64_t look(weft__device_comm *dev_comm, int64_t now_ns)
{
    int64_t timeout = timeout_of(dev_comm), next = next_look(now_ns, timeout);
    weft_backend_replays r;
    if (timeout == WEFT__NEVER) return WEFT__NEVER;
    dev_comm->module->backend->replays(dev_comm->comm, now_ns - timeout, &r);
    if (r.since_ns) say(dev_comm, &r, now_ns, timeout);
    if (!r.next_ns || r.next_ns + timeout >= next) return next;
    return r.next_ns + timeout > now_ns + LEAST_NS ? r.next_ns + timeout : now_ns + LEAST_NS;
}

int64_t weft__replays_due(weft_context *ctx, int64_t now_ns)
{
    int64_t next = WEFT__NEVER;
    if (now_ns == WEFT__NEVER) return WEFT__NEVER; /* this rank leaves */
    WEFT__LIST_EACH(COMMS(ctx), at)
    {
        weft__device_comm *dev_comm = WEFT__LIST_ENTRY(at, weft__device_comm, link);
        if (!dev_comm->replayed || !dev_comm->group || dev_comm->state != WEFT__DEVICE_COMM_READY) continue;
        if (!is_too_early(dev_comm, now_ns)) dev_comm->look_ns = look(dev_comm, now_ns);
        if (dev_comm->look_ns < next) next = dev_comm->look_ns;
    }
    return next;
}

uint64_t weft__replays_begun(const weft_group *group)
{
    const weft__device_comm *dev_comm = group->device_comms[WEFT_MEMORY_CUDA];
    weft_backend_replays r = {.begun = 0};
    WEFT__ASSERT(weft__holds_engine(group->ctx));
    if (dev_comm && dev_comm->replayed && dev_comm->comm)
        dev_comm->module->backend->replays(dev_comm->comm, INT64_MIN, &r); /* none has stood for so long */
    return r.begun;
}
