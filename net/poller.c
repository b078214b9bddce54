/* poller.c - the epoll set.  Opening and adding may fail (descriptors, memory); polling cannot: an
 * interrupted poll is an empty one.
 *
 * No edge is lost between those that poll it.  There is one at a time, the holder of the engine, who calls
 * ready for all that it has fetched before it lets the engine go: an edge that was fetched is attended to
 * before anybody else can ask for it, however long that thread stands in between.  What did not fit
 * (BATCH_EVENTS) stays in the kernel, and so does an edge that comes while ready runs, also one of the same
 * descriptor: ready may find that there is nothing left to do, never the other way round.
 *
 * None is lost on the progress thread either, which sleeps on the set by poll(2): that fetches nothing, and
 * returns as long as anything can be fetched.  If somebody else has fetched it by then, that is the holder of
 * the engine, who attends to it. */
#include "poller.h"
#include "check.h"
#include "descriptor.h"
#include "status.h"

#include <errno.h>
#include <sys/epoll.h>
#include <unistd.h>

#define BATCH_EVENTS 64 /* fetched by one poll; what is left stays ready in the set for the next */

struct weft__poller_batch {
    struct epoll_event events[BATCH_EVENTS];
    int n, at;
};

weft_status weft__poller_open(weft__poller *set)
{
    int fd = epoll_create1(EPOLL_CLOEXEC);
    if (fd < 0) return weft__fail_errno("epoll_create1");
    weft__descriptor_own(fd);
    set->epoll_fd = fd;
    set->batch = NULL;
    set->sparing = set->spared = false;
    return WEFT_OK;
}

void weft__poller_close(weft__poller *set)
{
    weft__descriptor_disown(set->epoll_fd);
    if (set->epoll_fd >= 0) close(set->epoll_fd);
    set->epoll_fd = -1;
}

weft_status weft__poller_add(weft__poller *set, weft__polled *w, uint32_t events)
{
    struct epoll_event event = {.events = events | EPOLLET, .data = {.ptr = w}};
    if (epoll_ctl(set->epoll_fd, EPOLL_CTL_ADD, w->fd, &event))
        return weft__fail_errno("watching descriptor %d", w->fd);
    weft__descriptor_own(w->fd);
    return WEFT_OK;
}

static void skip_fetched(const weft__poller *set, const weft__polled *w)
{
    struct weft__poller_batch *batch = set->batch;
    for (int i = batch ? batch->at + 1 : 0; batch && i < batch->n; i++)
        if (batch->events[i].data.ptr == w) batch->events[i].data.ptr = NULL;
}

void weft__poller_remove(weft__poller *set, weft__polled *w)
{
    weft__descriptor_disown(w->fd);
    epoll_ctl(set->epoll_fd, EPOLL_CTL_DEL, w->fd, NULL);
    skip_fetched(set, w);
}

/* What is ready by then makes an edge, as where it is added. */
void weft__poller_hand_on(weft__poller *set, weft__polled *from, weft__polled *to, uint32_t events)
{
    struct epoll_event event = {.events = events | EPOLLET, .data = {.ptr = to}};
    const int fd = from->fd, failed = epoll_ctl(set->epoll_fd, EPOLL_CTL_MOD, fd, &event);
    WEFT__ASSERT(!failed, fd, errno);
    skip_fetched(set, from);
    from->fd = -1;
    to->fd = fd;
}

int weft__poller_poll(weft__poller *set)
{
    struct weft__poller_batch batch;
    int called = 0;

    WEFT__ASSERT(!set->batch);
    batch.n = epoll_wait(set->epoll_fd, batch.events, BATCH_EVENTS, 0);
    if (batch.n <= 0) return 0;
    set->batch = &batch;
    for (batch.at = 0; batch.at < batch.n; batch.at++) {
        weft__polled *w = batch.events[batch.at].data.ptr;
        if (!w) continue;
        w->ready(w, batch.events[batch.at].events);
        called++;
    }
    set->batch = NULL;
    return called;
}
