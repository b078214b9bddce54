/* sim.c - the executor of tests: see sim.h. */
#include "sim.h"

#include "reduce.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

typedef struct at_rank {
    const weft__op *op;
    weft__schedule *s;
    unsigned char *tmp;
    int *waits;          /* by step: predecessors not yet done */
    double *ready;       /* by step: when the last of them was */
    double sends, hears; /* when it may next */
} at_rank;

typedef struct step_ref {
    int rank, step;
} step_ref;

typedef struct transfer {
    step_ref send, receive;
} transfer;

typedef struct sim {
    at_rank *ranks;
    int size;
    sim_random random;
    const sim_clock *clock;
    double now;
    step_ref *runnable;  /* all predecessors done, not started */
    step_ref *unmatched; /* messages started at one side */
    transfer *under_way;
    int runnable_count, unmatched_count, under_way_count, left;
} sim;

static weft__step *step_at(const sim *m, step_ref ref)
{
    return &m->ranks[ref.rank].s->steps[ref.step];
}

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

static void done(sim *m, step_ref ref, double when)
{
    at_rank *r = &m->ranks[ref.rank];
    const weft__step *step = step_at(m, ref);
    if (when > m->now) m->now = when;
    m->left--;
    for (int i = 0; i < step->next_count; i++) {
        int next = r->s->next[step->first_next + i];
        if (r->ready[next] < when) r->ready[next] = when;
        if (--r->waits[next] == 0) m->runnable[m->runnable_count++] = (step_ref){ref.rank, next};
    }
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
    } else if (step->scale != 1) {
        weft__scale(target(r, step->out), source(r, step->a), step->count, r->op->dtype, step->scale);
    } else {
        memmove(target(r, step->out), source(r, step->a), bytes);
    }
}

/* The other side of a message, if it has started: the oldest first, as messages of one
 * tag keep their order. */
static int partner_of(const sim *m, step_ref ref)
{
    const weft__step *mine = step_at(m, ref);
    for (int i = 0; i < m->unmatched_count; i++) {
        const weft__step *other = step_at(m, m->unmatched[i]);
        if (m->unmatched[i].rank == mine->peer && other->peer == ref.rank && other->tag == mine->tag &&
            other->kind != mine->kind)
            return i;
    }
    return -1;
}

static void start(sim *m, step_ref ref)
{
    at_rank *r = &m->ranks[ref.rank];
    weft__step *step = step_at(m, ref);
    int partner;
    if (step->kind != WEFT__STEP_SEND && step->kind != WEFT__STEP_RECV) {
        compute(r, step);
        done(m, ref, r->ready[ref.step]);
        return;
    }
    if (step->kind == WEFT__STEP_RECV && step->count)
        memset(target(r, step->out), 0xee, step->count * r->s->element);
    partner = partner_of(m, ref);
    if (partner < 0) {
        m->unmatched[m->unmatched_count++] = ref;
        return;
    }
    step_ref other = m->unmatched[partner];
    m->unmatched_count--;
    memmove(m->unmatched + partner, m->unmatched + partner + 1,
            (size_t)(m->unmatched_count - partner) * sizeof *m->unmatched);
    m->under_way[m->under_way_count++] =
        step->kind == WEFT__STEP_SEND ? (transfer){ref, other} : (transfer){other, ref};
}

static double later(double a, double b)
{
    return a > b ? a : b;
}

/* When both sides of a transfer had started. */
static double begun(const sim *m, transfer t)
{
    return later(m->ranks[t.send.rank].ready[t.send.step], m->ranks[t.receive.rank].ready[t.receive.step]);
}

/* When its first byte can leave. */
static double leaves(const sim *m, transfer t)
{
    return later(begun(m, t), later(m->ranks[t.send.rank].sends, m->ranks[t.receive.rank].hears));
}

static void hand_over(sim *m, int which)
{
    transfer t = m->under_way[which];
    at_rank *from = &m->ranks[t.send.rank], *to = &m->ranks[t.receive.rank];
    weft__step *send = step_at(m, t.send), *receive = step_at(m, t.receive);
    double busy = 0, when = 0;
    m->under_way[which] = m->under_way[--m->under_way_count];
    assert_int_equal(send->count, receive->count);
    if (send->count) memcpy(target(to, receive->out), source(from, send->a), send->count * from->s->element);
    if (m->clock) {
        busy = leaves(m, t) + (double)(send->count * from->s->element) * m->clock->per_byte;
        when = busy + m->clock->latency;
        from->sends = to->hears = busy;
    }
    done(m, t.send, when);
    done(m, t.receive, when);
}

/* What can leave first does, and of those what has waited longest. */
static bool goes_before(const sim *m, transfer a, transfer b)
{
    if (leaves(m, a) < leaves(m, b)) return true;
    return leaves(m, a) == leaves(m, b) && begun(m, a) < begun(m, b);
}

static int next_transfer(sim *m)
{
    int best = 0;
    if (!m->clock) return sim_below(&m->random, m->under_way_count);
    for (int i = 1; i < m->under_way_count; i++)
        if (goes_before(m, m->under_way[i], m->under_way[best])) best = i;
    return best;
}

static void advance(sim *m)
{
    bool transfers = m->under_way_count > 0, steps = m->runnable_count > 0;
    /* The clock needs to know all that could be sent before it says what comes first. */
    if (steps && (m->clock || !transfers || sim_below(&m->random, 2))) {
        int which = m->clock ? 0 : sim_below(&m->random, m->runnable_count);
        step_ref ref = m->runnable[which];
        m->runnable_count--;
        memmove(m->runnable + which, m->runnable + which + 1,
                (size_t)(m->runnable_count - which) * sizeof *m->runnable);
        start(m, ref);
    } else {
        hand_over(m, next_transfer(m));
    }
}

static void set_up(sim *m, const sim_group *g, const weft__selection *selection)
{
    m->size = g->c.size;
    m->random.state = g->c.seed;
    m->ranks = calloc((size_t)m->size, sizeof *m->ranks);
    assert_non_null(m->ranks);
    for (int i = 0; i < m->size; i++) {
        at_rank *r = &m->ranks[i];
        r->op = &g->ops[i];
        r->s = weft__schedule_make(r->op, i, m->size, g->seats, weft__select(r->op, m->size, selection));
        assert_non_null(r->s);
        r->tmp = malloc(r->s->tmp_bytes + 1);
        r->waits = calloc((size_t)r->s->n + 1, sizeof *r->waits);
        r->ready = calloc((size_t)r->s->n + 1, sizeof *r->ready);
        assert_true(r->tmp && r->waits && r->ready);
        m->left += r->s->n;
    }
    m->runnable = calloc((size_t)m->left + 1, sizeof *m->runnable);
    m->unmatched = calloc((size_t)m->left + 1, sizeof *m->unmatched);
    m->under_way = calloc((size_t)m->left + 1, sizeof *m->under_way);
    assert_true(m->runnable && m->unmatched && m->under_way);
    for (int i = 0; i < m->size; i++)
        for (int k = 0; k < m->ranks[i].s->n; k++) {
            m->ranks[i].waits[k] = m->ranks[i].s->steps[k].waits;
            if (m->ranks[i].waits[k] == 0) m->runnable[m->runnable_count++] = (step_ref){i, k};
        }
}

static void clean_up(sim *m)
{
    for (int i = 0; i < m->size; i++) {
        free(m->ranks[i].tmp);
        free(m->ranks[i].waits);
        free(m->ranks[i].ready);
        weft__schedule_free(m->ranks[i].s);
    }
    free(m->ranks);
    free(m->runnable);
    free(m->unmatched);
    free(m->under_way);
}

double sim_run(const sim_group *g, const weft__selection *selection, const sim_clock *clock)
{
    sim m = {.clock = clock};
    set_up(&m, g, selection);
    while (m.runnable_count || m.under_way_count) advance(&m);
    if (m.left) fail_msg("%s: stuck with %d steps left", sim_case_text(g->c), m.left);
    clean_up(&m);
    return m.now;
}
