/* p2p_ends.h - two ranks' point-to-point layers over a wire that the test moves frame by frame, or in
 * halves. */
#ifndef TESTS_UNIT_P2P_ENDS_H
#define TESTS_UNIT_P2P_ENDS_H
#include "list.h"
#include "p2p.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

typedef struct end {
    weft__transport transport; /* first: what the point-to-point layer of `me` sends goes out here */
    weft__p2p_events events;
    weft__p2p *p2p;
    int me;
    weft__list out; /* frames not yet on their way */
} end;

static end ends[2];

/* A frame whose header is there and whose payload is not, from that rank. */
static struct {
    weft__outgoing *out; /* NULL: it was taken back, and goes on all the same */
    const void *payload;
    weft__frame frame;
    char *where;
} under_way[2];

static inline void wire_send(weft__transport *t, int peer, weft__outgoing *out)
{
    end *from = (end *)(void *)t;
    (void)peer;
    weft__list_append(&from->out, &out->link);
}

static inline void wire_retract(weft__transport *t, weft__outgoing *out)
{
    int me = ((end *)(void *)t)->me;
    weft__list_remove(&out->link);
    if (under_way[me].out == out) under_way[me].out = NULL;
}

static inline void wire_forget(weft__transport *t, int peer, void *where)
{
    (void)t;
    if (under_way[peer].where == where) under_way[peer].where = NULL;
}

static inline int wire_poll(weft__transport *t, int budget)
{
    (void)t;
    (void)budget;
    return 0;
}

static inline bool wire_busy(const weft__transport *t)
{
    (void)t;
    return false;
}

static inline bool wire_flushed(const weft__transport *t, int peer)
{
    (void)t;
    (void)peer;
    return true;
}

/* The wire of that rank gives back what was not yet on its way. */
static inline void lose(int me)
{
    while (!weft__list_empty(&ends[me].out)) {
        weft__outgoing *out = WEFT__OWNER(ends[me].out.next, weft__outgoing, link);
        weft__list_remove(&out->link);
        out->sent(out, WEFT_ERR_PEER);
    }
}

static inline void wire_drop(weft__transport *t, int peer)
{
    (void)peer;
    lose(((end *)(void *)t)->me);
}

static inline bool no_collective(weft__p2p_events *events, int peer, const weft__frame *frame)
{
    (void)events;
    (void)peer;
    (void)frame;
    return false;
}

/* The header of a frame from that rank to the other one.  False: none is waiting. */
static inline bool begin_move(int from)
{
    weft__sink *sink = weft__p2p_sink(ends[1 - from].p2p);
    weft__outgoing *out;
    if (weft__list_empty(&ends[from].out)) return false;
    out = WEFT__OWNER(ends[from].out.next, weft__outgoing, link);
    weft__list_remove(&out->link);
    out->done = sizeof out->frame;
    under_way[from].out = out;
    under_way[from].payload = out->payload;
    under_way[from].frame = out->frame;
    under_way[from].where = NULL;
    assert_int_equal(weft__frame_check(&out->frame), WEFT_OK);
    if (out->frame.length) under_way[from].where = sink->header(sink, from, &under_way[from].frame);
    return true;
}

/* And the rest of it. */
static inline void end_move(int from)
{
    weft__sink *sink = weft__p2p_sink(ends[1 - from].p2p);
    weft__outgoing *out = under_way[from].out;
    char *where = under_way[from].where;
    if (where) memcpy(where, under_way[from].payload, under_way[from].frame.length);
    under_way[from].out = NULL;
    if (out) out->sent(out, WEFT_OK);
    sink->arrived(sink, from, &under_way[from].frame, where);
}

static inline bool move(int from)
{
    if (!begin_move(from)) return false;
    end_move(from);
    return true;
}

static inline void move_all(void)
{
    bool moved = true;
    while (moved) {
        moved = move(0);
        moved = move(1) || moved;
        moved = weft__p2p_poll(ends[0].p2p) || weft__p2p_poll(ends[1].p2p) || moved;
    }
}

static inline int set_up(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        end *e = &ends[i];
        *e = (end){.transport = {.name = "test",
                                 .send = wire_send,
                                 .retract = wire_retract,
                                 .forget = wire_forget,
                                 .poll = wire_poll,
                                 .busy = wire_busy,
                                 .flushed = wire_flushed,
                                 .drop = wire_drop},
                   .events = {.collective = no_collective},
                   .me = i};
        weft__list_init(&e->out);
        assert_int_equal(weft__p2p_open(i, 2, 64, &e->events, &e->p2p), WEFT_OK);
        weft__p2p_route(e->p2p, 1 - i, &e->transport);
    }
    return 0;
}

static inline int tear_down(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        wire_drop(&ends[i].transport, 1 - i);
        weft__p2p_close(ends[i].p2p);
    }
    return 0;
}

/* One side of a message of either sort, and what the point-to-point layer told of it. */
typedef struct side {
    weft__completion completion;
    weft__match_hook hook;
    weft__recv_result recv_result;
    weft__send *send;
    weft__recv *recv;
    char data[200];
    bool over;
    weft_status status;
    int matched, unmatched;
    bool refuses; /* what matches */
    bool gives_up;
} side;

static inline void on_over(weft__completion *completion)
{
    side *s = WEFT__OWNER(completion, side, completion);
    s->over = true;
    s->status = completion->status;
}

static inline bool on_matched(weft__match_hook *hook)
{
    side *s = WEFT__OWNER(hook, side, hook);
    s->matched++;
    if (!s->refuses) return true;
    weft__p2p_cancel_receive(ends[1].p2p, hook->recv);
    return false;
}

static inline bool on_unmatched(weft__match_hook *hook)
{
    side *s = WEFT__OWNER(hook, side, hook);
    s->unmatched++;
    if (!s->gives_up) return true;
    weft__p2p_cancel_receive(ends[1].p2p, hook->recv);
    return false;
}

static inline weft__envelope about(side *s, int peer, int tag, bool apart)
{
    *s = (side){.completion = {on_over, 1, WEFT_OK},
                .hook = {.matched = on_matched, .unmatched = on_unmatched}};
    return (weft__envelope){.peer = peer,
                            .channel = WEFT__CHANNEL_PAIR,
                            .group = 1,
                            .tag = tag,
                            .dtype = WEFT_INT8,
                            .signature = {77, 0},
                            .hook = apart ? &s->hook : NULL};
}

static inline void send_to(side *s, int from, int to, int tag, size_t bytes, bool apart)
{
    weft__envelope at = about(s, to, tag, apart);
    memset(s->data, tag, sizeof s->data);
    s->send = weft__p2p_send(ends[from].p2p, &at, apart ? NULL : s->data, bytes, &s->completion);
    assert_non_null(s->send);
}

static inline void receive_from(side *s, int at_rank, int from, int tag, size_t room, bool apart)
{
    weft__envelope at = about(s, from, tag, apart);
    s->recv = weft__p2p_receive(ends[at_rank].p2p, &at, apart ? NULL : s->data, room, &s->recv_result,
                                &s->completion);
    assert_non_null(s->recv);
}
#endif
