/* inspect_past.c - see inspect_past.h. */
#include "inspect_past.h"
#include "arrival.h"
#include "inspect_events.h"
#include "inspect_steps.h"
#include "inspect_table.h"
#include "inspect_view.h"
#include "sentence.h"
#include "words.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS = 8, ENDS = 12, LAST = 3, RANKS_MOST = 16, LABEL_BYTES = 160, STEP_BYTES = 48 };

#define LAST_TITLE "came last"

/* ---- who went first ---- */

struct gone {
    const weft__node *node;
    const weft__rank_ending *ending;
};

/* First those that are told of, then those that left in order or were last heard of then, then those that live. */
static int place_of(const weft__rank_ending *e)
{
    if (e->end == WEFT__END_LIVES) return 2;
    return e->end == WEFT__END_LEFT || e->end == WEFT__END_VANISHED;
}

static int earlier(const void *a, const void *b)
{
    const struct gone *left = a, *right = b;
    if (place_of(left->ending) != place_of(right->ending))
        return place_of(left->ending) - place_of(right->ending);
    if (left->ending->at_ns != right->ending->at_ns)
        return left->ending->at_ns < right->ending->at_ns ? -1 : 1;
    return left->node->rank < right->node->rank ? -1 : 1;
}

static struct gone *in_order(const struct inspect_job *job)
{
    struct gone *order = calloc(job->blame.count + 1, sizeof *order);
    if (!order) return NULL;
    for (size_t i = 0; i < job->blame.count; i++)
        order[i] = (struct gone){&job->blame.nodes[i], &job->blame.endings[i]};
    qsort(order, job->blame.count, sizeof *order, earlier);
    return order;
}

/* As weft-run has seen it; "": it has not, or there is nothing to it. */
static void exit_text(const struct inspect_exit *e, char *text, size_t bytes)
{
    *text = 0;
    if (!e) return;
    if (e->signal)
        snprintf(text, bytes, "ended by SIG%s%s",
                 sigabbrev_np(e->signal) ? sigabbrev_np(e->signal) : "? (unknown)",
                 e->asked ? ", when weft-run ended the job" : "");
    else
        snprintf(text, bytes, "exited with code %d%s", e->code,
                 e->asked ? ", when weft-run ended the job" : "");
}

/* Ranks that have ended alike in one line. */
static void print_exits(const struct inspect_job *job, FILE *to, int width)
{
    int *ranks = calloc(job->blame.count + 1, sizeof *ranks);
    for (size_t i = 0; ranks && i < job->blame.count; i++) {
        char how[96], other[96], list[160], line[384];
        size_t n = 0;
        bool told = false;
        exit_text(inspect_job_exit(job, job->blame.nodes[i].shot->pid), how, sizeof how);
        for (size_t k = 0; *how && k < job->blame.count; k++) {
            exit_text(inspect_job_exit(job, job->blame.nodes[k].shot->pid), other, sizeof other);
            if (strcmp(how, other) != 0) continue;
            told = told || k < i;
            ranks[n++] = job->blame.nodes[k].rank;
        }
        if (!n || told) continue;
        weft__ranks_text(ranks, n, list, sizeof list);
        snprintf(line, sizeof line, "  weft-run: rank%s %s %s", n > 1 ? "s" : "", list, how);
        inspect_print_wrapped(to, line, width, 4);
    }
    free(ranks);
}

static void print_end(const struct inspect_job *job, const struct gone *gone, int64_t first_ns, FILE *to,
                      int width)
{
    char text[WEFT__FINDING_BYTES], line[WEFT__FINDING_BYTES + 64];
    weft__ending_text(&job->blame, gone->node, text, sizeof text);
    snprintf(line, sizeof line, "  %+.3f s  %s", ((double)gone->ending->at_ns - (double)first_ns) / 1e9,
             text);
    inspect_print_wrapped(to, line, width, 13);
}

/* Those of one kind, in one sentence. */
static void print_others(const struct inspect_job *job, weft__end end, const char *how, FILE *to, int width)
{
    int *ranks = calloc(job->blame.count + 1, sizeof *ranks);
    char list[160], line[256];
    size_t n = 0;
    for (size_t i = 0; ranks && i < job->blame.count; i++)
        if (job->blame.endings[i].end == end) ranks[n++] = job->blame.nodes[i].rank;
    if (n) {
        weft__ranks_text(ranks, n, list, sizeof list);
        snprintf(line, sizeof line, "  rank%s %s %s", n > 1 ? "s" : "", list, how);
        inspect_print_wrapped(to, line, width, 4);
    }
    free(ranks);
}

/* The first group that broke then, as that rank tells; NULL: none has. */
static const weft__group_record *first_break(const struct inspect_job *job, const weft__snapshot **teller)
{
    const weft__group_record *first = NULL;
    for (size_t i = 0; i < job->blame.count; i++) {
        const weft__snapshot *shot = job->blame.nodes[i].shot;
        for (size_t g = 0; g < shot->group_count; g++) {
            const weft__group_record *group = &shot->groups[g];
            if (group->state != WEFT__RECORDED_GROUP_BROKEN || group->ended_ns <= job->blame.now_ns ||
                (first && first->ended_ns <= group->ended_ns))
                continue;
            first = group;
            *teller = shot;
        }
    }
    return first;
}

static void print_break(const struct inspect_job *job, FILE *to, int width)
{
    const weft__snapshot *teller = NULL;
    const weft__group_record *group = first_break(job, &teller);
    const weft__node *culprit =
        group && group->culprit >= 0 ? weft__blame_node(&job->blame, group->culprit) : NULL;
    char text[WEFT__FINDING_BYTES], when[64], name[65];
    if (!group || (culprit && job->blame.endings[culprit - job->blame.nodes].end == WEFT__END_DIED))
        return; /* its end is told */
    inspect_time_text(weft__recorded_realtime(teller, group->ended_ns), when, sizeof when);
    weft__recorded_group_text(teller, group->id, name, sizeof name);
    snprintf(text, sizeof text, "%s broke at %s, as rank %d tells: %s", name, when, teller->rank, group->why);
    inspect_print_wrapped(to, text, width, 2);
}

/* The ends that others, or the ranks themselves, tell of; the first is the first to go. */
static void print_told(const struct inspect_job *job, size_t first, FILE *to, int width)
{
    struct gone *order = in_order(job);
    int64_t at_ns = job->blame.endings[first].at_ns;
    char text[192], when[64];
    size_t told = 0;
    if (!order) return;
    while (told < job->blame.count && !place_of(order[told].ending)) told++;
    inspect_time_text(weft__recorded_realtime(job->blame.nodes[first].shot, at_ns), when, sizeof when);
    if (told)
        snprintf(text, sizeof text, "the first rank went at %s", when);
    else
        snprintf(text, sizeof text,
                 "no rank has told of another's end; the last that is recorded is of about %s", when);
    inspect_print_wrapped(to, text, width, 2);
    for (size_t i = 0; i < told && i < ENDS; i++) print_end(job, &order[i], at_ns, to, width);
    if (told > ENDS) fprintf(to, "  and %zu more\n", told - ENDS);
    free(order);
}

static void print_ends(const struct inspect_job *job, FILE *to, int width)
{
    int first = weft__first_to_go(job->blame.endings, job->blame.count);
    print_break(job, to, width);
    if (first >= 0) print_told(job, (size_t)first, to, width);
    print_others(job, WEFT__END_VANISHED, "went without a word, and nobody was left to tell", to, width);
    print_others(job, WEFT__END_LEFT, "left by themselves, after something had failed", to, width);
    print_others(job, WEFT__END_LIVES, "live", to, width);
    print_exits(job, to, width);
}

/* ---- side by side ---- */

static void step_text(const struct inspect_step *step, const struct inspect_step *usual,
                      char text[STEP_BYTES])
{
    const char *status;
    if (step->kind != INSPECT_BEGUN) {
        snprintf(text, STEP_BYTES, "%s", step->kind == INSPECT_NOT_BEGUN ? "-" : "?");
        return;
    }
    if (!inspect_steps_alike(step, usual)) {
        const char *kind = weft__recorded_kind(step->node->shot, step->op->kind);
        bool other = strcmp(kind, weft__recorded_kind(usual->node->shot, usual->op->kind)) != 0;
        if (other)
            snprintf(text, STEP_BYTES, "%.14s", kind);
        else
            snprintf(text, STEP_BYTES, "%" PRIu64 " B", step->op->bytes);
        return;
    }
    if (!weft__recorded_over(step->op, INT64_MAX)) {
        snprintf(text, STEP_BYTES, "in");
        return;
    }
    status = step->op->status == WEFT_OK ? "WEFT_OK" : weft_status_name(step->op->status);
    status += strncmp(status, "WEFT_ERR_", 9) ? strlen("WEFT_") : 9;
    snprintf(text, STEP_BYTES, "%s", status);
    for (char *c = text; *c; c++) *c = (char)tolower((unsigned char)*c);
}

static void label_of(const struct inspect_steps *steps, size_t row, char text[LABEL_BYTES])
{
    const struct inspect_step *usual = inspect_steps_usual(steps, row);
    char size[WORD_SIZE_BYTES];
    if (!usual) {
        snprintf(text, LABEL_BYTES, "  %" PRIu64, steps->first + row);
        return;
    }
    word_size_text(usual->op->bytes, size);
    snprintf(text, LABEL_BYTES, "%c %s %" PRIu64 ", %s %s", steps->differs[row] ? '*' : ' ',
             weft__recorded_kind(usual->node->shot, usual->op->kind), steps->first + row, size,
             usual->op->bytes ? weft__recorded_type(usual->node->shot, usual->op->type) : "");
}

static int column_width(const struct inspect_steps *steps, size_t column)
{
    char text[STEP_BYTES];
    int width = snprintf(text, sizeof text, "%d", inspect_steps_at(steps, 0, column)->node->rank);
    for (size_t row = 0; row < steps->rows; row++) {
        const struct inspect_step *usual = inspect_steps_usual(steps, row);
        if (usual) step_text(inspect_steps_at(steps, row, column), usual, text);
        if (usual && (int)strlen(text) > width) width = (int)strlen(text);
    }
    return width + 1;
}

/* "3, 12 ms": who began it last, and how long after the first; "": not all are known to have begun it. */
static void came_last_text(const weft__blame *blame, const struct inspect_steps *steps, size_t row,
                           char text[STEP_BYTES])
{
    const struct inspect_step *usual = inspect_steps_usual(steps, row);
    int64_t after_ns;
    int last = usual ? weft__came_last(blame, usual->node, usual->op, &after_ns) : -1;
    char time[24];
    *text = 0;
    if (last < 0) return;
    weft__time_text(after_ns, time, sizeof time);
    snprintf(text, STEP_BYTES, "%d, %s", last, time);
}

static int came_last_width(const weft__blame *blame, const struct inspect_steps *steps)
{
    char text[STEP_BYTES];
    int width = 0;
    for (size_t row = 0; row < steps->rows; row++) {
        came_last_text(blame, steps, row, text);
        if (*text && width < (int)sizeof LAST_TITLE + 1) width = (int)sizeof LAST_TITLE + 1;
        if ((int)strlen(text) + 2 > width) width = (int)strlen(text) + 2;
    }
    return width;
}

static void print_row(const struct inspect_steps *steps, size_t row, size_t from, size_t to_column, FILE *to)
{
    const struct inspect_step *usual = inspect_steps_usual(steps, row);
    for (size_t c = from; usual && c < to_column; c++) {
        char text[STEP_BYTES];
        step_text(inspect_steps_at(steps, row, c), usual, text);
        fprintf(to, "%*s", column_width(steps, c) - (int)strlen(text), "");
        inspect_print(to, text);
    }
}

static void print_rows(const weft__blame *blame, const struct inspect_steps *steps, int labels, size_t from,
                       size_t end, FILE *to)
{
    char label[LABEL_BYTES], last[STEP_BYTES];
    for (size_t row = 0; row < steps->rows; row++) {
        label_of(steps, row, label);
        label[labels] = 0;
        inspect_print(to, label);
        fprintf(to, "%*s", labels - (int)strlen(label), "");
        print_row(steps, row, from, end, to);
        came_last_text(blame, steps, row, last);
        fprintf(to, "%s%s\n", *last ? "  " : "", last);
    }
}

/* Columns as many as fit, and again for the others. */
static void print_steps(const weft__blame *blame, const struct inspect_steps *steps, FILE *to, int width)
{
    char label[LABEL_BYTES];
    int labels = 0, last = came_last_width(blame, steps);
    for (size_t row = 0; row < steps->rows; row++) {
        label_of(steps, row, label);
        if ((int)strlen(label) > labels) labels = (int)strlen(label);
    }
    if (labels > width / 2) labels = width / 2;
    for (size_t from = 0, end; from < steps->columns; from = end) {
        int used = labels + last;
        for (end = from; end < steps->columns; end++) {
            int more = column_width(steps, end);
            if (end > from && used + more > width) break;
            used += more;
        }
        fprintf(to, "%*s", labels, "  rank");
        for (size_t c = from; c < end; c++)
            fprintf(to, "%*d", column_width(steps, c), inspect_steps_at(steps, 0, c)->node->rank);
        fprintf(to, "%s\n", last ? "  " LAST_TITLE : "");
        print_rows(blame, steps, labels, from, end, to);
    }
}

static void print_name(const struct inspect_steps *steps, FILE *to, int width)
{
    char name[65] = "a group that is not kept", line[128];
    for (size_t c = 0; c < steps->columns; c++) { /* who still knows it */
        const weft__snapshot *shot = inspect_steps_at(steps, 0, c)->node->shot;
        if (!weft__recorded_group_of(shot, steps->group)) continue;
        weft__recorded_group_text(shot, steps->group, name, sizeof name);
        break;
    }
    snprintf(line, sizeof line, "the last collectives of %s", name);
    inspect_print_wrapped(to, line, width, 2);
}

static void print_groups(const struct inspect_job *job, FILE *to, int width)
{
    static const char legend[] =
        "in: had begun, and was not over; -: had not begun; ?: written over; " LAST_TITLE
        ": which rank began it last, and how long after the first";
    uint64_t groups[INSPECT_GROUPS];
    size_t count = inspect_steps_groups(&job->blame, groups);
    bool differs = false;
    char line[192];
    for (size_t i = 0; i < count; i++) {
        struct inspect_steps steps;
        if (!inspect_steps_make(&job->blame, groups[i], STEPS, &steps)) return;
        if (steps.rows) print_name(&steps, to, width);
        if (steps.rows) print_steps(&job->blame, &steps, to, width);
        for (size_t row = 0; row < steps.rows; row++) differs |= steps.differs[row];
        inspect_steps_free(&steps);
    }
    if (!count) return;
    snprintf(line, sizeof line, "%s%s", differs ? "*: not alike on all ranks; " : "", legend);
    inspect_print_wrapped(to, line, width, 2);
}

/* ---- one by one ---- */

static bool is_message(const weft__node *node, const weft__recorded_op *op)
{
    weft__sort sort = weft__sort_of(node->shot, op);
    return sort == WEFT__SORT_SEND || sort == WEFT__SORT_RECEIVE || sort == WEFT__SORT_EXCHANGE;
}

static size_t first_of_last(const weft__node *node)
{
    return node->shot->op_count > LAST ? node->shot->op_count - LAST : 0;
}

static bool has_messages(const struct inspect_job *job)
{
    for (size_t i = 0; i < job->blame.count; i++)
        for (size_t o = first_of_last(&job->blame.nodes[i]); o < job->blame.nodes[i].shot->op_count; o++)
            if (is_message(&job->blame.nodes[i], &job->blame.nodes[i].shot->ops[o])) return true;
    return false;
}

static void print_last(const struct inspect_job *job, const weft__node *node, const weft__recorded_op *op,
                       FILE *to, int width)
{
    char text[LABEL_BYTES], line[LABEL_BYTES + 128], time[32];
    bool before = op->submitted_ns <= job->blame.now_ns;
    weft__recorded_op_text(node->shot, op, text, sizeof text);
    weft__time_text(before ? weft__recorded_ago(job->blame.now_ns, op->submitted_ns)
                           : weft__recorded_ago(op->submitted_ns, job->blame.now_ns),
                    time, sizeof time);
    snprintf(line, sizeof line, "  rank %d: %s, begun %s %s, %s", node->rank, text, time,
             before ? "before" : "after",
             weft__recorded_over(op, INT64_MAX) ? weft_status_name(op->status) : "not over");
    inspect_print_wrapped(to, line, width, 4);
}

/* Messages have no numbers that stand side by side. */
static void print_last_of_all(const struct inspect_job *job, FILE *to, int width)
{
    if (!has_messages(job)) return;
    fputs("\nwhat each rank began last\n", to);
    for (size_t i = 0; i < job->blame.count && i < RANKS_MOST; i++) {
        const weft__node *node = &job->blame.nodes[i];
        for (size_t o = first_of_last(node); o < node->shot->op_count; o++)
            print_last(job, node, &node->shot->ops[o], to, width);
    }
    if (job->blame.count > RANKS_MOST) fprintf(to, "  and %zu more ranks\n", job->blame.count - RANKS_MOST);
}

void inspect_past_print(const struct inspect_job *job, FILE *to, int width)
{
    char when[64], text[128];
    inspect_view_head(job, to, width);
    print_ends(job, to, width);
    fputc('\n', to);
    inspect_time_text(weft__recorded_realtime(inspect_job_any(job), job->blame.now_ns), when, sizeof when);
    snprintf(text, sizeof text, "how it %s at %s", job->blame.frozen ? "stood before that," : "stands,",
             when);
    inspect_print_wrapped(to, text, width, 2);
    inspect_view_verdicts(job, to, width);
    inspect_view_ranks(job, to, width, 0);
    fputc('\n', to);
    print_groups(job, to, width);
    print_last_of_all(job, to, width);
    inspect_events_print(&job->blame, to, width);
}
