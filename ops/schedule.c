/* schedule.c - appending steps, sealing, printing and freeing a schedule.
 *
 * Happy path: weft__schedule_make selects an algorithm, lets it append, and seals: each step then knows how
 *             many it waits for and which wait for it.
 *             In blocks it has room for two from the first step on; of a list that goes by, steps and pairs that are not
 *             in these are dropped.
 * Fails:      when memory runs out, which is remembered and told once, at the end: builders do not check. */
#include "schedule.h"

#include "check.h"
#include "status.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define TMP_ALIGN 64

/* The array with room for one more, or NULL with s->failed set. */
static void *grown(weft__schedule *s, void *array, int used, int *room, size_t item_bytes)
{
    void *larger;
    int wanted = *room ? *room : 16;
    if (s->failed) return NULL;
    if (used < *room) return array;
    if (*room) wanted = used > INT32_MAX / 2 ? 0 : 2 * used;
    larger = wanted ? realloc(array, (size_t)wanted * item_bytes) : NULL;
    if (larger)
        *room = wanted;
    else
        s->failed = true;
    return larger;
}

/* Where step `id` of the list is in steps[]; or NO_STEP: it is in no open block. */
static int place_of(const weft__schedule *s, int id)
{
    if (!s->block) return id;
    return id >= s->from && id < s->from + 2 * s->block ? id % (2 * s->block) : WEFT__NO_STEP;
}

void weft__add_order(weft__schedule *s, int before, int after)
{
    int(*edges)[2];
    if (before == WEFT__NO_STEP || s->failed) return;
    WEFT__ASSERT(before < after && after < s->n, before, after, s->n); /* so there is no circle */
    before = place_of(s, before);                                      /* else it is done */
    after = place_of(s, after);
    if (before == WEFT__NO_STEP || after == WEFT__NO_STEP) return;
    if (!(edges = grown(s, s->edges, s->edge_count, &s->edge_room, sizeof *edges))) return;
    s->edges = edges;
    edges[s->edge_count][0] = before;
    edges[s->edge_count++][1] = after;
}

void weft__add_orders(weft__schedule *s, const int *before, int n, int after)
{
    for (int i = 0; i < n; i++) weft__add_order(s, before[i], after);
}

/* Room for one more: NULL where it is not wanted, and with s->failed set where there is no memory. */
static weft__step *next_place(weft__schedule *s)
{
    if (s->block) {
        int place = place_of(s, s->n);
        return place == WEFT__NO_STEP ? NULL : &s->steps[place];
    }
    weft__step *steps = grown(s, s->steps, s->n, &s->room, sizeof *steps);
    if (!steps) return NULL;
    s->steps = steps;
    return &steps[s->n];
}

static int schedule_add(weft__schedule *s, weft__step step, int before1, int before2)
{
    weft__step *place = next_place(s);
    if (s->failed) return WEFT__NO_STEP;
    s->n++;
    if (!place) return s->n - 1;
    *place = step;
    weft__add_order(s, before1, s->n - 1);
    weft__add_order(s, before2, s->n - 1);
    return s->n - 1;
}

int weft__add_send(weft__schedule *s, int peer, uint32_t tag, weft__place from, size_t count, int before1,
                   int before2)
{
    weft__step step = {.kind = WEFT__STEP_SEND,
                       .peer = weft__rank_at(s, peer),
                       .tag = tag,
                       .a = from,
                       .count = count,
                       .scale = 1};
    return schedule_add(s, step, before1, before2);
}

int weft__add_recv(weft__schedule *s, int peer, uint32_t tag, weft__place to, size_t count, int before1,
                   int before2)
{
    weft__step step = {.kind = WEFT__STEP_RECV,
                       .peer = weft__rank_at(s, peer),
                       .tag = tag,
                       .out = to,
                       .count = count,
                       .scale = 1};
    return schedule_add(s, step, before1, before2);
}

void weft__add_token(weft__schedule *s, int to, int from, uint32_t tag)
{
    weft__step told = {.kind = WEFT__STEP_SEND, .tag = tag, .a = {WEFT__TMP, 0}, .scale = 1, .token = true};
    weft__step heard = {
        .kind = WEFT__STEP_RECV, .tag = tag, .out = {WEFT__TMP, 0}, .scale = 1, .token = true};
    if (to >= 0) {
        told.peer = weft__rank_at(s, to);
        schedule_add(s, told, WEFT__NO_STEP, WEFT__NO_STEP);
    }
    if (from >= 0) {
        heard.peer = weft__rank_at(s, from);
        schedule_add(s, heard, WEFT__NO_STEP, WEFT__NO_STEP);
    }
}

int weft__add_copy(weft__schedule *s, weft__place from, weft__place to, size_t count, double scale,
                   int before1, int before2)
{
    weft__step step = {.kind = WEFT__STEP_COPY, .a = from, .out = to, .count = count, .scale = scale};
    return schedule_add(s, step, before1, before2);
}

int weft__add_copy_rows(weft__schedule *s, weft__rows from, weft__rows to, int rows, size_t count,
                        int before1, int before2)
{
    const ptrdiff_t element = (ptrdiff_t)s->element;
    weft__step step = {.kind = WEFT__STEP_COPY,
                       .rows = rows,
                       .a = from.first,
                       .out = to.first,
                       .apart = {from.apart * element, to.apart * element},
                       .count = count,
                       .scale = 1};
    WEFT__ASSERT(rows > 0, rows);
    if (rows == 1) return weft__add_copy(s, from.first, to.first, count, 1, before1, before2);
    return schedule_add(s, step, before1, before2);
}

void weft__copy_rows(const weft__schedule *s, const weft__step *step, char *out, const char *a, size_t first,
                     size_t end)
{
    const size_t bytes = step->count * s->element;
    out += (ptrdiff_t)first * step->apart.out;
    a += (ptrdiff_t)first * step->apart.a;
    for (size_t row = first; row < end; row++, out += step->apart.out, a += step->apart.a)
        memcpy(out, a, bytes);
}

int weft__add_reduce(weft__schedule *s, weft__place a, weft__place b, weft__place to, size_t count,
                     double scale, int before1, int before2)
{
    weft__step step = {.kind = WEFT__STEP_REDUCE, .a = a, .b = b, .out = to, .count = count, .scale = scale};
    return schedule_add(s, step, before1, before2);
}

int weft__add_fold(weft__schedule *s, weft__place rows, int n, weft__place to, size_t count, double scale)
{
    weft__step step = {
        .kind = WEFT__STEP_FOLD, .a = rows, .rows = n, .out = to, .count = count, .scale = scale};
    return schedule_add(s, step, WEFT__NO_STEP, WEFT__NO_STEP);
}

weft__place weft__add_tmp(weft__schedule *s, size_t count)
{
    weft__place place = {WEFT__TMP, s->tmp_bytes};
    size_t bytes = count * s->element;
    if (count > (SIZE_MAX - s->tmp_bytes - TMP_ALIGN) / s->element)
        s->failed = true;
    else
        s->tmp_bytes += (bytes + TMP_ALIGN - 1) / TMP_ALIGN * TMP_ALIGN;
    return place;
}

weft__operand weft__own_operand(weft__schedule *s, const weft__op *op, size_t count)
{
    weft__operand own = {{WEFT__IN, 0}, WEFT__NO_STEP};
    if (op->reduction != WEFT_PREMUL_SUM) return own;
    own.place = weft__add_tmp(s, count);
    own.ready = weft__add_copy(s, weft__at(s, WEFT__IN, 0), own.place, count, op->scale, WEFT__NO_STEP,
                               WEFT__NO_STEP);
    return own;
}

double weft__last_scale(const weft__schedule *s, const weft__op *op)
{
    return op->reduction == WEFT_AVG ? 1.0 / s->size : 1;
}

/* Turns the pairs into a list of followers for each step. */
static void seal(weft__schedule *s)
{
    int at = 0, *next = realloc(s->next, sizeof *next * (size_t)(s->edge_count + 1));
    if (!next) {
        s->failed = true;
        return;
    }
    s->next = next;
    for (int e = 0; e < s->edge_count; e++) {
        s->steps[s->edges[e][0]].next_count++;
        s->steps[s->edges[e][1]].waits++;
    }
    for (int i = 0; i < s->n; i++) {
        s->steps[i].first_next = at;
        at += s->steps[i].next_count;
        s->steps[i].next_count = 0;
    }
    for (int e = 0; e < s->edge_count; e++) {
        weft__step *before = &s->steps[s->edges[e][0]];
        s->next[before->first_next + before->next_count++] = s->edges[e][1];
    }
    if (s->block) return; /* it will want them again */
    free(s->edges);
    s->edges = NULL;
    s->edge_room = 0;
}

void weft__count_in_ranks(weft__schedule *s, const weft__op *op)
{
    s->seats = NULL;
    s->seat = s->rank;
    s->root = op->root;
}

/* The steps, or those of two blocks, and how many there are in all. */
static void append_all(weft__schedule *s, const weft__op *op)
{
    s->n = s->edge_count = 0;
    s->tmp_bytes = 0;
    weft__count_in_ranks(s, op);
    if (s->members) {
        s->seats = s->members;
        s->seat = s->members->seat_of[s->rank];
        s->root = s->members->seat_of[op->root];
    }
    s->build(s, op);
    s->seats = NULL;
    s->total = s->n;
    if (s->block) s->n = 2 * s->block;
}

weft__schedule *weft__schedule_make(const weft__op *op, int rank, int size, const weft__seats *seats,
                                    weft__algorithm algorithm)
{
    weft__schedule *s = calloc(1, sizeof *s);
    if (!s) {
        weft__fail_memory(sizeof *s, "a schedule");
        return NULL;
    }
    s->rank = rank;
    s->size = size;
    s->members = seats;
    s->algorithm = algorithm.name;
    s->build = algorithm.build;
    s->cutting = algorithm.cutting;
    s->element = weft_dtype_size(op->dtype);
    append_all(s, op);
    WEFT__ASSERT(s->failed || s->total >= s->n, s->total, s->n);
    if (!s->failed) seal(s);
    if (s->failed) {
        weft__fail_memory((size_t)s->n * sizeof *s->steps, "the steps of a schedule");
        weft__schedule_free(s);
        return NULL;
    }
    return s;
}

void weft__schedule_free(weft__schedule *s)
{
    if (!s) return;
    free(s->steps);
    free(s->edges);
    free(s->next);
    free(s);
}

/* ---- in blocks ---- */

void weft__cut(weft__schedule *s, int steps)
{
    const weft__cutting c = s->cutting;
    if (s->block || !c.block || steps <= c.whole) return;
    WEFT__ASSERT(s->n == 0 && c.block > 1 && c.whole >= 2 * c.block, s->n, c.block, c.whole);
    s->steps = calloc(2 * (size_t)c.block, sizeof *s->steps);
    if (!s->steps) {
        s->failed = true;
        return;
    }
    s->room = 2 * c.block;
    s->block = c.block;
}

int weft__pass_rounds(weft__schedule *s, int t, int each, int n)
{
    int passed = n - t;
    if (s->n < s->from + 2 * s->block) {
        int before = s->n < s->from ? (s->from - s->n) / each : 0;
        if (before < passed) passed = before;
    }
    s->n += passed * each;
    return t + passed;
}

bool weft__block_is_done(weft__schedule *s, const int *waits)
{
    const int end = s->from % (2 * s->block) + s->block;
    if (s->from + 2 * s->block >= s->total) return false; /* the last two */
    while (s->passed < end && waits[s->passed] == WEFT__STEP_DONE) s->passed++;
    return s->passed == end;
}

/* By the pairs that there are: how many steps not done those from `first` on wait for. */
static void count_waits(const weft__schedule *s, int first, int *waits)
{
    memset(waits + first, 0, (size_t)s->block * sizeof *waits);
    for (int e = 0; e < s->edge_count; e++) {
        int before = s->edges[e][0], after = s->edges[e][1];
        if (after >= first && after < first + s->block && waits[before] != WEFT__STEP_DONE) waits[after]++;
    }
}

weft__opened weft__schedule_advance(weft__schedule *s, const weft__op *op, int *waits)
{
    weft__opened opened = {.first = s->from % (2 * s->block)};
    s->from += s->block;
    s->passed = s->from % (2 * s->block);
    memset(s->steps, 0, (size_t)s->room * sizeof *s->steps); /* the last block may have fewer */
    append_all(s, op);
    if (!s->failed) count_waits(s, opened.first, waits);
    if (!s->failed) seal(s);
    opened.count = s->total - s->from - s->block;
    if (opened.count > s->block) opened.count = s->block;
    if (s->failed) {
        weft__fail_memory((size_t)s->edge_count * sizeof *s->edges, "the steps of a schedule");
        opened.count = -1;
    }
    return opened;
}

/* ---- printing ---- */

static void print_place(weft__place place, FILE *to)
{
    static const char *const names[] = {"in", "out", "tmp"};
    fprintf(to, "%s+%zu", names[place.area], place.offset);
}

static void print_step(const weft__step *step, FILE *to)
{
    static const char *const names[] = {"send", "recv", "copy", "reduce", "fold"};
    fprintf(to, "%s %zu", names[step->kind], step->count);
    if (step->kind == WEFT__STEP_SEND || step->kind == WEFT__STEP_RECV)
        fprintf(to, " %s %d tag %" PRIu32, step->kind == WEFT__STEP_SEND ? "to" : "from", step->peer,
                step->tag);
    if (step->kind != WEFT__STEP_RECV) {
        fputc(' ', to);
        print_place(step->a, to);
    }
    if (step->kind == WEFT__STEP_FOLD) fprintf(to, " of %d rows", step->rows);
    if (step->kind == WEFT__STEP_COPY && step->rows > 1)
        fprintf(to, " of %d rows by %td", step->rows, step->apart.a);
    if (step->kind == WEFT__STEP_REDUCE) {
        fputs(" op ", to);
        print_place(step->b, to);
    }
    if (step->kind != WEFT__STEP_SEND) {
        fputs(" -> ", to);
        print_place(step->out, to);
    }
    if (step->kind == WEFT__STEP_COPY && step->rows > 1) fprintf(to, " by %td", step->apart.out);
    if (step->scale != 1) fprintf(to, " scaled by %g", step->scale);
    if (step->token) fputs(" token", to);
}

static void print_predecessors(const weft__schedule *s, int step, FILE *to)
{
    const char *separator = " (after ";
    for (int i = 0; i < step; i++)
        for (int k = 0; k < s->steps[i].next_count; k++)
            if (s->next[s->steps[i].first_next + k] == step) {
                fprintf(to, "%s%d", separator, i);
                separator = ", ";
            }
    if (s->steps[step].waits) fputc(')', to);
}

void weft__schedule_print(const weft__schedule *s, FILE *to)
{
    fprintf(to, "%s, rank %d of %d, %zu bytes of tmp\n", s->algorithm, s->rank, s->size, s->tmp_bytes);
    for (int i = 0; i < s->n; i++) {
        fprintf(to, "%d: ", i);
        print_step(&s->steps[i], to);
        print_predecessors(s, i, to);
        fputc('\n', to);
    }
}
