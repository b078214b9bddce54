/* inspect_steps.c - see inspect_steps.h.  Pure. */
#include "inspect_steps.h"

#include <stdlib.h>
#include <string.h>

static bool counts(const weft__node *node, const weft__recorded_op *op)
{
    return weft__sort_of(node->shot, op) == WEFT__SORT_COLLECTIVE;
}

/* ---- groups ---- */

struct use {
    uint64_t group;
    int64_t last_ns;
};

/* Keeps the list in order, and the youngest of them. */
static void note(struct use *uses, size_t *count, struct use use)
{
    size_t at = 0;
    while (at < *count && uses[at].group != use.group) at++;
    if (at < *count && uses[at].last_ns >= use.last_ns) return;
    if (at == *count) {
        if (at == INSPECT_GROUPS && uses[--at].last_ns >= use.last_ns) return;
        if (*count < INSPECT_GROUPS) ++*count;
    }
    for (; at && uses[at - 1].last_ns < use.last_ns; at--) uses[at] = uses[at - 1];
    uses[at] = use;
}

size_t inspect_steps_groups(const weft__blame *blame, uint64_t groups[INSPECT_GROUPS])
{
    struct use uses[INSPECT_GROUPS] = {{0, 0}};
    size_t count = 0;
    for (size_t i = 0; i < blame->count; i++) {
        const weft__node *node = &blame->nodes[i];
        for (size_t o = 0; o < node->shot->op_count; o++)
            if (counts(node, &node->shot->ops[o]))
                note(uses, &count, (struct use){node->shot->ops[o].group, node->shot->ops[o].submitted_ns});
    }
    for (size_t i = 0; i < count; i++) groups[i] = uses[i].group;
    return count;
}

/* ---- one group ---- */

/* What a member's record has of the group. */
struct extent {
    uint64_t least, most; /* numbers; 0: none */
    bool member;
};

static struct extent extent_of(const weft__node *node, uint64_t group)
{
    const weft__snapshot *shot = node->shot;
    struct extent e = {0, 0, false};
    e.member = weft__recorded_group_of(shot, group);
    for (size_t i = 0; i < shot->op_count; i++) {
        const weft__recorded_op *op = &shot->ops[i];
        if (op->group != group || !counts(node, op)) continue;
        e.member = true;
        if (!e.least || op->number < e.least) e.least = op->number;
        if (op->number > e.most) e.most = op->number;
    }
    return e;
}

static void fill_column(struct inspect_steps *steps, size_t column, const weft__node *node, struct extent e)
{
    for (size_t row = 0; row < steps->rows; row++) {
        struct inspect_step *step = &steps->steps[row * steps->columns + column];
        step->node = node;
        step->kind = steps->first + row < e.least || (!e.most && node->shot->lapped) ? INSPECT_WRITTEN_OVER
                                                                                     : INSPECT_NOT_BEGUN;
    }
    for (size_t i = 0; i < node->shot->op_count; i++) {
        const weft__recorded_op *op = &node->shot->ops[i];
        struct inspect_step *step;
        if (op->group != steps->group || !counts(node, op) || op->number < steps->first ||
            op->number - steps->first >= steps->rows)
            continue;
        step = &steps->steps[(op->number - steps->first) * steps->columns + column];
        step->kind = INSPECT_BEGUN;
        step->op = op;
    }
}

static bool has_lengths_of_its_own(const char *kind) /* all_gather_v and the like */
{
    size_t length = strlen(kind);
    return length > 2 && !strcmp(kind + length - 2, "_v");
}

bool inspect_steps_alike(const struct inspect_step *a, const struct inspect_step *b)
{
    const char *kind = weft__recorded_kind(a->node->shot, a->op->kind);
    return !strcmp(kind, weft__recorded_kind(b->node->shot, b->op->kind)) &&
           !strcmp(weft__recorded_type(a->node->shot, a->op->type),
                   weft__recorded_type(b->node->shot, b->op->type)) &&
           (a->op->bytes == b->op->bytes || has_lengths_of_its_own(kind)) && a->op->whom == b->op->whom;
}

const struct inspect_step *inspect_steps_usual(const struct inspect_steps *steps, size_t row)
{
    const struct inspect_step *usual = NULL;
    size_t most = 0;
    for (size_t c = 0; c < steps->columns && 2 * most < steps->columns; c++) {
        size_t n = 0;
        if (inspect_steps_at(steps, row, c)->kind != INSPECT_BEGUN) continue;
        for (size_t other = 0; other < steps->columns; other++)
            if (inspect_steps_at(steps, row, other)->kind == INSPECT_BEGUN)
                n +=
                    inspect_steps_alike(inspect_steps_at(steps, row, c), inspect_steps_at(steps, row, other));
        if (n <= most) continue;
        most = n;
        usual = inspect_steps_at(steps, row, c);
    }
    return usual;
}

static bool is_over(const struct inspect_step *step)
{
    return weft__recorded_over(step->op, INT64_MAX);
}

static bool row_differs(const struct inspect_steps *steps, size_t row)
{
    const struct inspect_step *usual = inspect_steps_usual(steps, row);
    for (size_t c = 0; usual && c < steps->columns; c++) {
        const struct inspect_step *step = inspect_steps_at(steps, row, c);
        if (step->kind == INSPECT_WRITTEN_OVER) continue;
        if (step->kind == INSPECT_NOT_BEGUN || !inspect_steps_alike(step, usual) ||
            is_over(step) != is_over(usual) || (is_over(step) && step->op->status != usual->op->status))
            return true;
    }
    return false;
}

bool inspect_steps_make(const weft__blame *blame, uint64_t group, size_t rows, struct inspect_steps *steps)
{
    struct extent *extents = calloc(blame->count ? blame->count : 1, sizeof *extents);
    uint64_t last = 0, least = 0;
    size_t column = 0;
    *steps = (struct inspect_steps){.group = group};
    for (size_t i = 0; extents && i < blame->count; i++) {
        extents[i] = extent_of(&blame->nodes[i], group);
        steps->columns += extents[i].member;
        if (extents[i].most > last) last = extents[i].most;
        if (extents[i].least && (!least || extents[i].least < least)) least = extents[i].least;
    }
    steps->rows = !last ? 0 : last - least < rows ? (size_t)(last - least) + 1 : rows;
    steps->first = last - steps->rows + 1;
    steps->steps = calloc(steps->rows * steps->columns + 1, sizeof *steps->steps);
    steps->differs = calloc(steps->rows + 1, sizeof *steps->differs);
    if (extents && steps->steps && steps->differs) {
        for (size_t i = 0; i < blame->count; i++)
            if (extents[i].member) fill_column(steps, column++, &blame->nodes[i], extents[i]);
        for (size_t row = 0; row < steps->rows; row++) steps->differs[row] = row_differs(steps, row);
        free(extents);
        return true;
    }
    free(extents);
    inspect_steps_free(steps);
    return false;
}

void inspect_steps_free(struct inspect_steps *steps)
{
    free(steps->steps);
    free(steps->differs);
    steps->steps = NULL;
    steps->differs = NULL;
}
