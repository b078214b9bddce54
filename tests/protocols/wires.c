/* wires.c - see wires.h.  One job at a time, on one thread. */
#include "wires.h"
#include "chance.h"
#include "list.h"
#include "trace.h"
#include "wires_hearing.h"

#include <stdlib.h>
#include <string.h>

typedef struct parcel {
    weft__list link;
    bool end; /* the connection's; nothing comes behind it */
    weft__frame frame;
    size_t length;
    unsigned char bytes[];
} parcel;

struct weft__watchdog_wire {
    int rank;
};

typedef struct end_of {
    weft__transport transport; /* first: its owner is found by it */
    weft__watchdog_wire wire;
    int rank, fuse;
    bool dead;
} end_of;

typedef struct way {
    weft__list parcels;
    int at;           /* in `filled`; -1: it is empty */
    bool slow, over;  /* over: the receiver takes nothing more */
    bool used, ended; /* frames: something went; its end is on the way, or has come */
    uint32_t course;  /* frames: how often its sender has begun anew */
    bool
        astray; /* frames: its sender has let go of its receiver, and asks for a connection that begins anew */
} way;

static struct {
    int ranks;
    bool one_host;
    end_of ends[WIRES_RANKS_MAX];
    way ways[WIRES_PLANES][WIRES_RANKS_MAX][WIRES_RANKS_MAX];
    way *filled[WIRES_PLANES * WIRES_RANKS_MAX * WIRES_RANKS_MAX];
    int filled_count;
    bool is_released; /* the first parcel of the next path is handed over now */
    wires_path released;
} all;

static wires_path path_of(const way *w)
{
    ptrdiff_t i = w - &all.ways[0][0][0], n = WIRES_RANKS_MAX;
    return (wires_path){(wires_plane)(i / (n * n)), (int)(i / n % n), (int)(i % n)};
}

static void note_filled(way *w)
{
    if (w->at >= 0) return;
    w->at = all.filled_count;
    all.filled[all.filled_count++] = w;
}

static void note_empty(way *w)
{
    if (w->at < 0 || !weft__list_empty(&w->parcels)) return;
    all.filled[w->at] = all.filled[--all.filled_count];
    all.filled[w->at]->at = w->at;
    w->at = -1;
}

static parcel *new_parcel(const void *bytes, size_t length)
{
    parcel *p = malloc(sizeof *p + length);
    if (!p) abort();
    p->end = false;
    p->length = length;
    if (length) memcpy(p->bytes, bytes, length);
    return p;
}

static void append(way *w, parcel *p)
{
    weft__list_init(&p->link);
    weft__list_append(&w->parcels, &p->link);
    note_filled(w);
}

static parcel *take_first(way *w)
{
    parcel *p = WEFT__LIST_ENTRY(w->parcels.next, parcel, link);
    weft__list_remove(&p->link);
    note_empty(w);
    return p;
}

static void discard_all(way *w)
{
    while (!weft__list_empty(&w->parcels)) free(take_first(w));
}

/* ---- deaths ---- */

static void post_end(wires_plane plane, int from, int to)
{
    way *w = &all.ways[plane][from][to];
    parcel *p;
    if (w->over || w->ended || all.ends[to].dead) return;
    w->ended = true;
    p = new_parcel(NULL, 0);
    p->end = true;
    append(w, p);
}

/* Its last parcels had not left the process; that the connection has ended is seen whatever is lost. */
static void lose_last(way *w)
{
    weft__list *last;
    int n = 0;
    WEFT__LIST_EACH(&w->parcels, at) n++;
    if (n && WEFT__LIST_ENTRY(w->parcels.prev, parcel, link)->end) n--;
    if (!n || chance_one_in(2)) return;
    for (int lost = chance_below(n + 1); lost > 0; lost--) {
        last = w->parcels.prev;
        /* The analyzer does not follow that what was freed in the turn before is nobody's neighbour any more. */
        // NOLINTBEGIN(clang-analyzer-unix.Malloc)
        if (WEFT__LIST_ENTRY(last, parcel, link)->end) last = last->prev;
        weft__list_remove(last);
        // NOLINTEND(clang-analyzer-unix.Malloc)
        free(WEFT__LIST_ENTRY(last, parcel, link));
    }
    note_empty(w);
}

void wires_kill(int rank)
{
    if (all.ends[rank].dead) return;
    TRACE("rank %d dies", rank);
    all.ends[rank].dead = true;
    for (int to = 0; to < all.ranks; to++) {
        way *out = &all.ways[WIRES_FRAMES][rank][to], *back = &all.ways[WIRES_FRAMES][to][rank];
        if (to == rank) continue;
        if (!all.one_host) lose_last(out);
        lose_last(&all.ways[WIRES_NOTICES][rank][to]);
        if (all.one_host)
            post_end(WIRES_ENDS, rank, to);
        else if (out->used || back->used)
            post_end(WIRES_FRAMES, rank, to);
        for (int plane = 0; plane < WIRES_PLANES; plane++) discard_all(&all.ways[plane][to][rank]);
    }
}

void wires_leave(int rank, bool notices_lost)
{
    TRACE("rank %d has left", rank);
    all.ends[rank].dead = true;
    for (int to = 0; to < all.ranks; to++) {
        way *out = &all.ways[WIRES_FRAMES][rank][to], *back = &all.ways[WIRES_FRAMES][to][rank];
        if (to == rank) continue;
        if (notices_lost) lose_last(&all.ways[WIRES_NOTICES][rank][to]);
        if (out->used || back->used) post_end(WIRES_FRAMES, rank, to);
        for (int plane = 0; plane < WIRES_PLANES; plane++) discard_all(&all.ways[plane][to][rank]);
    }
}

void wires_part(int rank, int other)
{
    way *out = &all.ways[WIRES_NOTICES][rank][other], *back = &all.ways[WIRES_NOTICES][other][rank];
    out->over = back->over = true;
    discard_all(out);
    discard_all(back);
}

void wires_set_fuse(int rank, int messages)
{
    all.ends[rank].fuse = messages;
}

bool wires_is_dead(int rank)
{
    return all.ends[rank].dead;
}

/* False: it is dead, perhaps from now on. */
static bool may_send(int rank)
{
    end_of *e = &all.ends[rank];
    if (!e->dead && e->fuse && --e->fuse == 0) wires_kill(rank);
    return !e->dead;
}

/* Its first parcel is to be handed over now.  A rank that has died meanwhile takes nothing more. */
static way *released_to(wires_plane plane, int rank)
{
    const wires_path *path = &all.released;
    if (!all.is_released || path->plane != plane || path->to != rank || all.ends[rank].dead) return NULL;
    all.is_released = false;
    return &all.ways[plane][path->from][rank];
}

/* ---- the data plane ---- */

/* That one counts it as gone: the connection is not taken, or has ended. */
static void refuse(int rank, int by)
{
    way *w = &all.ways[WIRES_FRAMES][by][rank];
    parcel *p;
    if (w->ended || all.ends[rank].dead) return;
    w->ended = true;
    p = new_parcel(NULL, 0);
    p->end = true;
    append(w, p);
}

static end_of *end_at(weft__transport *t)
{
    return WEFT__OWNER(t, end_of, transport);
}

static void send_frame(weft__transport *t, int peer, weft__outgoing *out)
{
    int from = end_at(t)->rank;
    way *w = &all.ways[WIRES_FRAMES][from][peer];
    if (may_send(from) && w->over) {
        /* Who has let go of this rank, and lives, does not refuse it. */
        if (!all.one_host && !all.ways[WIRES_FRAMES][peer][from].astray) refuse(from, peer);
    } else if (!all.ends[from].dead) {
        w->used = true;
        if (all.ends[peer].dead) {
            post_end(all.one_host ? WIRES_ENDS : WIRES_FRAMES, peer, from); /* it cannot be reached */
        } else {
            parcel *p = new_parcel(out->payload, out->frame.length);
            p->frame = out->frame;
            append(w, p);
        }
    }
    out->sent(out, WEFT_OK);
}

static void hand_over(end_of *to, int from, parcel *p)
{
    weft__sink *sink = to->transport.sink;
    void *where = p->frame.length ? sink->header(sink, from, &p->frame) : NULL;
    if (where) memcpy(where, p->bytes, p->length);
    sink->arrived(sink, from, &p->frame, where);
}

static int poll_frames(weft__transport *t, int budget)
{
    end_of *to = end_at(t);
    way *w = released_to(WIRES_FRAMES, to->rank);
    int from = all.released.from;
    parcel *p;
    (void)budget;
    if (!w) return 0;
    p = take_first(w);
    if (p->end)
        t->sink->lost(t->sink, from, "the connection was closed");
    else
        hand_over(to, from, p);
    free(p);
    return 1;
}

/* What had arrived before is handed over, and nothing comes any more.  How much that is nobody knows, but in
 * shared memory: there all of it lies. */
static void drop_peer(weft__transport *t, int peer)
{
    end_of *to = end_at(t);
    way *w = &all.ways[WIRES_FRAMES][peer][to->rank];
    if (!all.one_host) lose_last(w);
    while (!weft__list_empty(&w->parcels)) {
        parcel *p = take_first(w);
        if (!p->end) hand_over(to, peer, p);
        free(p);
    }
    w->over = true;
    all.ways[WIRES_FRAMES][to->rank][peer].astray = false;
    all.ways[WIRES_ENDS][peer][to->rank].over = true;
    discard_all(&all.ways[WIRES_ENDS][peer][to->rank]);
    all.ways[WIRES_FRAMES][to->rank][peer].over = true;
    if (!all.one_host && (w->used || all.ways[WIRES_FRAMES][to->rank][peer].used)) refuse(peer, to->rank);
}

/* That it has ended the connection is no end: its other end makes it anew, and hears of this then. */
static void begin_anew(weft__transport *t, int peer)
{
    const int rank = end_at(t)->rank;
    way *w = &all.ways[WIRES_FRAMES][rank][peer];
    w->astray = true;
    w->course++;
    WEFT__LIST_EACH(&w->parcels, at)
    {
        parcel *p = WEFT__LIST_ENTRY(at, parcel, link);
        if (!p->end) continue;
        weft__list_remove(at);
        free(p);
    }
    note_empty(w);
    w->ended = false;
    wires_hearing_begin_anew(rank, peer);
}

static uint32_t course_of(const weft__transport *t, int peer)
{
    const end_of *e = WEFT__OWNER(t, const end_of, transport);
    return all.ways[WIRES_FRAMES][e->rank][peer].course;
}

bool wires_is_astray(int rank, int other)
{
    return all.ways[WIRES_FRAMES][rank][other].astray;
}

void wires_let_go(int rank, int other)
{
    weft__sink *sink = all.ends[rank].transport.sink;
    TRACE("rank %d hears that rank %d has let go of it", rank, other);
    sink->let_go(sink, other, "could not reach this rank for a while, and begins anew");
}

static void empty_way(int from, int to)
{
    way *w = &all.ways[WIRES_FRAMES][from][to];
    discard_all(w);
    w->over = w->ended = w->astray = false;
    w->used = true;
    wires_hearing_connected(from, to);
}

void wires_begin_anew(int rank, int other)
{
    way *there = &all.ways[WIRES_FRAMES][rank][other], *back = &all.ways[WIRES_FRAMES][other][rank];
    TRACE("ranks %d and %d begin anew", rank, other);
    there->course = back->course = there->course > back->course ? there->course : back->course;
    empty_way(rank, other);
    empty_way(other, rank);
    all.ways[WIRES_ENDS][rank][other].over = all.ways[WIRES_ENDS][other][rank].over = false;
}

void wires_connected(int rank, int other)
{
    weft__sink *sink = all.ends[rank].transport.sink;
    sink->connected(sink, other);
}

void wires_refused(int rank, int other)
{
    weft__sink *sink = all.ends[rank].transport.sink;
    all.ways[WIRES_FRAMES][rank][other].astray = false;
    sink->lost(sink, other, "it counts this rank as gone");
}

static void retract_nothing(weft__transport *t, weft__outgoing *out)
{
    (void)t;
    (void)out;
}

static void forget_nothing(weft__transport *t, int peer, void *where)
{
    (void)t;
    (void)peer;
    (void)where;
}

static bool never_busy(const weft__transport *t)
{
    (void)t;
    return false;
}

static bool always_flushed(const weft__transport *t, int peer)
{
    (void)t;
    (void)peer;
    return true;
}

weft__transport *wires_transport(int rank, weft__sink *sink)
{
    end_of *e = &all.ends[rank];
    e->transport = (weft__transport){.name = all.one_host ? "shm" : "tcp",
                                     .eager_bytes = 4096,
                                     .sink = sink,
                                     .send = send_frame,
                                     .retract = retract_nothing,
                                     .forget = forget_nothing,
                                     .poll = poll_frames,
                                     .busy = never_busy,
                                     .flushed = always_flushed,
                                     .drop = drop_peer,
                                     .begin_anew = begin_anew,
                                     .course = course_of,
                                     .hearing = wires_hearing_of(rank)};
    return &e->transport;
}

/* ---- the watchdogs' plane: watchdog_wire.h ---- */

weft__watchdog_wire *wires_control(int rank)
{
    return &all.ends[rank].wire;
}

weft_status weft__watchdog_wire_send(weft__watchdog_wire *wire, int peer, const void *bytes, size_t length)
{
    way *w = &all.ways[WIRES_NOTICES][wire->rank][peer];
    if (may_send(wire->rank) && !w->over && !all.ends[peer].dead && !wires_way_is_lost(wire->rank, peer))
        append(w, new_parcel(bytes, length));
    return WEFT_OK;
}

void weft__watchdog_wire_forget(weft__watchdog_wire *wire, int peer)
{
    all.ways[WIRES_NOTICES][wire->rank][peer].over = true; /* what is queued goes out */
}

int weft__watchdog_wire_take(weft__watchdog_wire *wire, weft__watchdog_wire_fn *fn, void *arg)
{
    way *w = released_to(WIRES_NOTICES, wire->rank);
    int from = all.released.from;
    parcel *p;
    if (!w) return 0;
    p = take_first(w);
    fn(arg, from, p->bytes, p->length);
    free(p);
    return 1;
}

void weft__watchdog_wire_close(weft__watchdog_wire *wire)
{
    (void)wire; /* wires_close */
}

/* Jobs join, and watchdogs sleep, elsewhere. */
weft_status weft__watchdog_wire_open(const char *address, weft__keys *keys, int me, weft__watchdog_wire **out,
                                     char endpoint[WEFT__ENDPOINT_BYTES])
{
    (void)address;
    (void)keys;
    (void)me;
    (void)out;
    (void)endpoint;
    abort();
}

weft_status weft__watchdog_wire_peers(weft__watchdog_wire *wire, int world, const char *endpoints)
{
    (void)wire;
    (void)world;
    (void)endpoints;
    abort();
}

void weft__watchdog_wire_sleep(weft__watchdog_wire *const *wires, int n, int wake_fd, int64_t deadline_ns)
{
    (void)wires;
    (void)n;
    (void)wake_fd;
    (void)deadline_ns;
    abort();
}

/* ---- the job ---- */

void wires_open(int ranks, bool one_host)
{
    int slow = chance_below(4); /* of 8 paths */
    all.ranks = ranks;
    all.one_host = one_host;
    all.filled_count = 0;
    all.is_released = false;
    for (int i = 0; i < ranks; i++) all.ends[i] = (end_of){.rank = i, .wire = {i}};
    for (int plane = 0; plane < WIRES_PLANES; plane++)
        for (int i = 0; i < ranks * ranks; i++) {
            way *w = &all.ways[plane][i / ranks][i % ranks];
            *w = (way){.at = -1, .slow = chance_below(8) < slow};
            weft__list_init(&w->parcels);
        }
}

void wires_close(void)
{
    while (all.filled_count) discard_all(all.filled[0]);
}

/* What is written waits for its way, in the kernel. */
static bool is_held(const way *w)
{
    const wires_path path = path_of(w);
    return wires_way_is_lost(path.from, path.to) || wires_is_away(path.to);
}

bool wires_is_under_way(int from, int to)
{
    return all.ways[WIRES_FRAMES][from][to].at >= 0;
}

int wires_rank_of(weft__transport *t)
{
    return end_at(t)->rank;
}

bool wires_draw(wires_path *path)
{
    way *w = NULL;
    for (int tries = 0; all.filled_count && tries < 4; tries++) {
        w = all.filled[chance_below(all.filled_count)];
        if (!w->slow && !is_held(w)) break;
    }
    for (int i = 0; w && is_held(w); i++) {
        if (i == all.filled_count) return false;
        w = all.filled[i];
    }
    if (!w) return false;
    *path = path_of(w);
    return true;
}

void wires_release(const wires_path *path)
{
    if (path->plane == WIRES_ENDS) { /* whoever sees it does the rest */
        free(take_first(&all.ways[path->plane][path->from][path->to]));
        return;
    }
    all.is_released = true;
    all.released = *path;
}
