/* sim.c - the executor of tests: see sim.h. */
#include "sim.h"

#include "events.h"
#include "meeting.h"
#include "reduce.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* One way of what carries one thing at a time. */
typedef struct sim_way {
    double free; /* when it may next */
    size_t bytes;
    sim_events waiting; /* messages, the one that may first */
    bool is_awaited;    /* one of these, or that it is free, is among the events */
} sim_way;

typedef struct port {
    sim_way out, in;
} port;

typedef struct at_rank {
    const weft__op *op;
    weft__schedule *s;
    unsigned char *tmp;
    int *waits;      /* by step: predecessors not yet done */
    double *ready;   /* by step: when the last of them was */
    double *ended;   /* by step: when it was done */
    double opened;   /* in blocks: when the last one was */
    port port;       /* within its host */
    double computes; /* when its processor may next */
} at_rank;

typedef struct sim {
    const sim_group *g;
    at_rank *ranks;
    port *hosts;
    sim_random random;
    const sim_network *network;
    double now;   /* when the last step was done so far */
    double clock; /* by it: of what happens now */
    sim_meeting *meeting;
    sim_events events;      /* by the clock */
    sim_step_ref *runnable; /* by chance: all predecessors done, not started */
    sim_event *under_way;   /* by chance: messages started at both sides */
    int runnable_count, under_way_count;
    int64_t left;
} sim;

static weft__step *step_at(const sim *m, sim_step_ref ref)
{
    return &m->ranks[ref.rank].s->steps[ref.step];
}

static size_t bytes_of(const sim *m, sim_step_ref ref)
{
    return step_at(m, ref)->count * m->ranks[ref.rank].s->element;
}

static double later(double a, double b)
{
    return a > b ? a : b;
}

/* ---- data ---- */

static const unsigned char *source(const at_rank *r, weft__place place)
{
    if (place.area == WEFT__IN) return (const unsigned char *)r->op->in + place.offset;
    return (place.area == WEFT__OUT ? (const unsigned char *)r->op->out : r->tmp) + place.offset;
}

static unsigned char *target(const at_rank *r, weft__place place)
{
    assert_int_not_equal(place.area, WEFT__IN);
    return (place.area == WEFT__OUT ? (unsigned char *)r->op->out : r->tmp) + place.offset;
}

static void compute(const at_rank *r, const weft__step *step)
{
    size_t bytes = step->count * r->s->element;
    if (bytes == 0) return;
    if (step->kind == WEFT__STEP_FOLD) {
        weft__reduce_rows(target(r, step->out), source(r, step->a), bytes, step->rows, step->count,
                          r->op->dtype, r->op->reduction, step->scale);
    } else if (step->kind == WEFT__STEP_REDUCE) {
        const void *const sources[] = {source(r, step->a), source(r, step->b)};
        weft__reduce_kernel(r->op->dtype, r->op->reduction)(target(r, step->out), sources, 2, step->count,
                                                            step->scale);
    } else if (step->kind == WEFT__STEP_COPY && step->rows > 1) {
        weft__copy_rows(r->s, step, (char *)target(r, step->out), (const char *)source(r, step->a), 0,
                        (size_t)step->rows);
    } else if (step->scale != 1) {
        weft__scale(target(r, step->out), source(r, step->a), step->count, r->op->dtype, step->scale);
    } else {
        memmove(target(r, step->out), source(r, step->a), bytes);
    }
}

/* ---- steps ---- */

static void may_start(sim *m, sim_step_ref ref, double when)
{
    if (m->network)
        sim_events_add(&m->events, (sim_event){.when = when, .since = when, .a = ref, .b = {-1, -1}});
    else
        m->runnable[m->runnable_count++] = ref;
}

/* The block after the younger one in place of the older, when that is done: its steps may start then, and after those that
 * they wait for. */
static void open_block(sim *m, int rank)
{
    at_rank *r = &m->ranks[rank];
    weft__opened next;
    const int over = r->s->from % (2 * r->s->block);
    for (int i = over; i < over + r->s->block; i++) r->opened = later(r->opened, r->ended[i]);
    next = weft__schedule_advance(r->s, r->op, r->waits);
    assert_int_equal(next.first, over);
    assert_true(next.count > 0);
    for (int i = next.first; i < next.first + next.count; i++) r->ready[i] = r->opened;
    for (int i = 0; i < r->s->n; i++)
        for (int k = 0; k < r->s->steps[i].next_count && r->waits[i] == WEFT__STEP_DONE; k++) {
            int after = r->s->next[r->s->steps[i].first_next + k];
            r->ready[after] = later(r->ready[after], r->ended[i]);
        }
    for (int i = next.first; i < next.first + next.count; i++)
        if (!r->waits[i]) may_start(m, (sim_step_ref){rank, i}, r->ready[i]);
}

static void done(sim *m, sim_step_ref ref, double when)
{
    at_rank *r = &m->ranks[ref.rank];
    const weft__step *step = step_at(m, ref);
    m->now = later(m->now, when);
    m->left--;
    r->waits[ref.step] = WEFT__STEP_DONE;
    r->ended[ref.step] = when;
    for (int i = 0; i < step->next_count; i++) {
        int next = r->s->next[step->first_next + i];
        r->ready[next] = later(r->ready[next], when);
        if (--r->waits[next] == 0) may_start(m, (sim_step_ref){ref.rank, next}, r->ready[next]);
    }
    while (r->s->block && weft__block_is_done(r->s, r->waits)) open_block(m, ref.rank);
}

static double cost_of(const sim *m, sim_step_ref ref)
{
    const weft__step *step = step_at(m, ref);
    double bytes = (double)bytes_of(m, ref);
    if (!m->network) return 0;
    if (step->kind == WEFT__STEP_COPY)
        return bytes * m->network->copy_per_byte * (step->rows > 1 ? step->rows : 1);
    return bytes * m->network->reduce_per_byte * (step->kind == WEFT__STEP_FOLD ? step->rows : 1);
}

/* Where one host stands for all (cases.h) a message to a rank of another host is one to this host's member at that place,
 * and comes from the host that lies as far the other way. */
static sim_message_key key_of(const sim *m, sim_step_ref ref)
{
    const weft__step *step = step_at(m, ref);
    bool sends = step->kind == WEFT__STEP_SEND;
    int each = m->g->played, hosts = m->g->c.size / each, apart = step->peer / each;
    int peer = step->peer % each;
    if (!sends) apart = (hosts - apart) % hosts;
    return (sim_message_key){sends ? ref.rank : peer, sends ? peer : ref.rank, apart, step->tag};
}

static int partner_of(sim_message_key key, bool sends)
{
    return sends ? key.to : key.from;
}

static void both_started(sim *m, sim_step_ref send, sim_step_ref receive)
{
    double when = later(m->ranks[send.rank].ready[send.step], m->ranks[receive.rank].ready[receive.step]);
    sim_event message = {.when = when, .since = when, .a = send, .b = receive};
    assert_int_equal(step_at(m, send)->count, step_at(m, receive)->count);
    if (m->network)
        sim_events_add(&m->events, message);
    else
        m->under_way[m->under_way_count++] = message;
}

static void start(sim *m, sim_step_ref ref)
{
    at_rank *r = &m->ranks[ref.rank];
    const weft__step *step = step_at(m, ref);
    bool sends = step->kind == WEFT__STEP_SEND;
    sim_message_key key;
    sim_step_ref other;
    if (!sends && step->kind != WEFT__STEP_RECV) {
        double cost = cost_of(m, ref),
               begins = cost > 0 ? later(r->ready[ref.step], r->computes) : r->ready[ref.step];
        if (cost > 0) r->computes = begins + cost;
        if (m->g->memory) compute(r, step);
        done(m, ref, begins + cost);
        return;
    }
    if (!sends && step->count && m->g->memory)
        memset(target(r, step->out), 0xee, step->count * r->s->element);
    key = key_of(m, ref);
    other = (sim_step_ref){partner_of(key, sends), sim_meet(m->meeting, key, sends, ref.step)};
    if (other.step < 0) return;
    if (sends)
        both_started(m, ref, other);
    else
        both_started(m, other, ref);
}

/* ---- messages ---- */

static int host_of(const sim *m, int rank)
{
    return m->g->seats ? m->g->seats->host_at[m->g->seats->seat_of[rank]] : 0;
}

/* Between hosts their interfaces carry it, within one the ranks themselves. */
static bool ways_of(const sim *m, sim_event message, sim_way **from, sim_way **to)
{
    const weft__step *send = step_at(m, message.a);
    bool far = m->g->seats && host_of(m, message.a.rank) != host_of(m, send->peer);
    *from = far ? &m->hosts[host_of(m, message.a.rank)].out : &m->ranks[message.a.rank].port.out;
    *to = far ? &m->hosts[host_of(m, message.b.rank)].in : &m->ranks[message.b.rank].port.in;
    return far;
}

static void hand_over(sim *m, sim_event message)
{
    at_rank *from = &m->ranks[message.a.rank], *to = &m->ranks[message.b.rank];
    size_t bytes = bytes_of(m, message.a);
    if (bytes && m->g->memory)
        memcpy(target(to, step_at(m, message.b)->out), source(from, step_at(m, message.a)->a), bytes);
    done(m, message.a, message.when);
    done(m, message.b, message.when);
}

/* What waits for it comes again one after the other, from when it is free: among what comes at that time by how long each
 * has waited, wherever it did. */
static void await_way(sim *m, sim_way *w)
{
    sim_event next = {.when = later(w->free, m->clock), .since = -1, .b = {-1, -1}, .way = w};
    if (w->is_awaited || !w->waiting.n) return;
    if (w->free <= m->clock) {
        next = sim_events_next(&w->waiting);
        next.when = m->clock;
        next.way = w;
    }
    w->is_awaited = true;
    sim_events_add(&m->events, next);
}

/* It was awaited, and is free: that or the next that waits for it comes. */
static void go_on(sim *m, sim_way *w)
{
    w->is_awaited = false;
    await_way(m, w);
}

/* At its time, unless one of its ways is still busy by then: there it waits. */
static void carry(sim *m, sim_event message)
{
    const sim_network *n = m->network;
    sim_way *from, *to, *busy, *waited = message.way;
    bool far = ways_of(m, message, &from, &to);
    size_t bytes = bytes_of(m, message.a);
    busy = from->free > to->free ? from : to;
    message.way = NULL;
    if (busy->free > message.when) {
        message.when = 0; /* all that wait there are in the order of `since` */
        sim_events_add(&busy->waiting, message);
        await_way(m, busy);
    } else {
        from->free = to->free = message.when + (double)bytes * (far ? n->far_per_byte : n->per_byte);
        from->bytes += bytes;
        to->bytes += bytes;
        message.when = from->free + (far ? n->far_latency : n->latency);
        hand_over(m, message);
    }
    if (waited) go_on(m, waited);
}

/* ---- the two orders ---- */

static void run_by_clock(sim *m)
{
    while (m->events.n) {
        sim_event next = sim_events_next(&m->events);
        m->clock = next.when;
        if (next.b.rank >= 0)
            carry(m, next);
        else if (next.way)
            go_on(m, next.way);
        else
            start(m, next.a);
    }
}

static void run_by_chance(sim *m)
{
    while (m->runnable_count || m->under_way_count) {
        if (m->runnable_count && (!m->under_way_count || sim_below(&m->random, 2))) {
            int which = sim_below(&m->random, m->runnable_count);
            sim_step_ref ref = m->runnable[which];
            m->runnable[which] = m->runnable[--m->runnable_count];
            start(m, ref);
        } else {
            int which = sim_below(&m->random, m->under_way_count);
            sim_event message = m->under_way[which];
            m->under_way[which] = m->under_way[--m->under_way_count];
            hand_over(m, message);
        }
    }
}

/* ---- from the builders to the result ---- */

static size_t memory_of(const weft__schedule *s)
{
    size_t edges = 0;
    for (int i = 0; i < s->n; i++) edges += (size_t)s->steps[i].next_count;
    return (size_t)s->room * sizeof *s->steps + edges * sizeof *s->next +
           (size_t)s->edge_room * sizeof *s->edges;
}

static void build(sim *m, int rank, const weft__selection *selection, sim_result *result)
{
    const sim_group *g = m->g;
    at_rank *r = &m->ranks[rank];
    r->op = &g->ops[rank];
    r->s = weft__schedule_make(r->op, rank, g->c.size, g->seats, weft__select(r->op, g->c.size, selection));
    assert_non_null(r->s);
    r->tmp = g->memory ? malloc(r->s->tmp_bytes + 1) : NULL;
    r->waits = calloc((size_t)r->s->n + 1, sizeof *r->waits);
    r->ready = calloc((size_t)r->s->n + 1, sizeof *r->ready);
    r->ended = calloc((size_t)r->s->n + 1, sizeof *r->ended);
    assert_true((r->tmp || !g->memory) && r->waits && r->ready && r->ended);
    m->left += r->s->total;
    if (memory_of(r->s) > result->schedule_bytes) result->schedule_bytes = memory_of(r->s);
    result->in_blocks |= r->s->block > 0;
    result->algorithm = r->s->algorithm;
}

static void set_up(sim *m, const weft__selection *selection, sim_result *result)
{
    m->random.state = m->g->c.seed;
    m->ranks = calloc((size_t)m->g->played, sizeof *m->ranks);
    m->hosts = calloc((size_t)sim_hosts(m->g), sizeof *m->hosts);
    m->meeting = sim_meeting_new();
    assert_true(m->ranks && m->hosts);
    for (int i = 0; i < m->g->played; i++) build(m, i, selection, result);
    result->steps = m->left;
    if (!m->network) {
        m->runnable = calloc((size_t)m->left + 1, sizeof *m->runnable);
        m->under_way = calloc((size_t)m->left + 1, sizeof *m->under_way);
        assert_true(m->runnable && m->under_way);
    }
    for (int i = 0; i < m->g->played; i++)
        for (int k = 0; k < m->ranks[i].s->n; k++) m->ranks[i].waits[k] = m->ranks[i].s->steps[k].waits;
    for (int i = 0; i < m->g->played; i++)
        for (int k = 0; k < m->ranks[i].s->n; k++)
            if (!m->ranks[i].s->steps[k].waits) may_start(m, (sim_step_ref){i, k}, 0);
}

static void port_free(port *p)
{
    sim_events_free(&p->out.waiting);
    sim_events_free(&p->in.waiting);
}

static void clean_up(sim *m)
{
    for (int h = 0; h < sim_hosts(m->g); h++) port_free(&m->hosts[h]);
    for (int i = 0; i < m->g->played; i++) {
        port_free(&m->ranks[i].port);
        free(m->ranks[i].tmp);
        free(m->ranks[i].waits);
        free(m->ranks[i].ready);
        free(m->ranks[i].ended);
        weft__schedule_free(m->ranks[i].s);
    }
    sim_meeting_free(m->meeting);
    sim_events_free(&m->events);
    free(m->hosts);
    free(m->ranks);
    free(m->runnable);
    free(m->under_way);
}

sim_result sim_run(const sim_group *g, const weft__selection *selection, const sim_network *network)
{
    sim m = {.g = g, .network = network};
    sim_result result = {0};
    set_up(&m, selection, &result);
    if (network)
        run_by_clock(&m);
    else
        run_by_chance(&m);
    if (m.left) fail_msg("%s: stuck with %lld steps left", sim_case_text(g->c), (long long)m.left);
    result.time = m.now;
    for (int h = 0; h < sim_hosts(g); h++) {
        const port *p = &m.hosts[h];
        size_t most = p->out.bytes > p->in.bytes ? p->out.bytes : p->in.bytes;
        if (most > result.link_bytes) result.link_bytes = most;
    }
    clean_up(&m);
    return result;
}
