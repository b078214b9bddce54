/* inspect_steps.h - the last collectives of a group, those of all its members side by side, and where these differ. */
#ifndef WEFT_INSPECT_STEPS_H
#define WEFT_INSPECT_STEPS_H
#include "blame.h"

/* What a member's record has of one number. */
enum inspect_step_kind {
    INSPECT_NOT_BEGUN,
    INSPECT_WRITTEN_OVER, /* or begun before the member's record goes back: not known */
    INSPECT_BEGUN
};

struct inspect_step {
    enum inspect_step_kind kind;
    const weft__node *node;
    const weft__recorded_op *op; /* BEGUN; else NULL */
};

struct inspect_steps {
    uint64_t group;
    uint64_t first; /* number of the first row */
    size_t rows, columns;
    struct inspect_step
        *steps; /* rows of columns: those members that have records, in the order of their ranks */
    bool *
        differs; /* a row: not all have begun it, or they mean different things, or not all had the same outcome */
};

enum { INSPECT_GROUPS = 4 };

/* Groups with collectives in the records: the one used last is the first.  Returns how many. */
size_t inspect_steps_groups(const weft__blame *blame, uint64_t groups[INSPECT_GROUPS]);
/* The last collectives of that group, as many as `rows` at most.  False: there is no memory. */
bool inspect_steps_make(const weft__blame *blame, uint64_t group, size_t rows, struct inspect_steps *steps);
void inspect_steps_free(struct inspect_steps *steps);

static inline const struct inspect_step *inspect_steps_at(const struct inspect_steps *steps, size_t row,
                                                          size_t column)
{
    return &steps->steps[row * steps->columns + column];
}

/* What most of those mean that have begun that row; NULL: nobody has. */
const struct inspect_step *inspect_steps_usual(const struct inspect_steps *steps, size_t row);
/* Do they mean the same: kind, type, bytes and root? */
bool inspect_steps_alike(const struct inspect_step *a, const struct inspect_step *b);
#endif
