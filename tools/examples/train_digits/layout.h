/* layout.h - who computes what.  The ranks stand on a grid of dp x tp:
 *
 *   tp  ranks that differ only here hold different slices of the same layers (tensor parallel)
 *   dp  ranks that differ only here hold the same slices and take different rows of a
 * batch (data parallel) */
#ifndef TRAIN_LAYOUT_H
#define TRAIN_LAYOUT_H
#include <stddef.h>
#include <weft/weft.h>

struct axis {
    weft_group *group; /* the ranks that differ from this one on this axis only; owned by the mesh */
    size_t at, size;   /* this rank's place on it */
};

struct layout {
    weft_context *job;
    weft_group *world;
    weft_mesh *mesh;
    int rank, ranks;
    struct axis dp, tp;
};

/* Joins the job.  A size of 0 is chosen: tp 2 where the ranks are even in number, and dp what is left. */
void layout_join(struct layout *layout, size_t dp, size_t tp);
void layout_leave(struct layout *layout);

/* Elements [first, first + count) of n: what is due to a place on an axis. */
struct part {
    size_t first, count;
};

static inline struct part part_of(size_t n, size_t at, size_t size)
{
    size_t first = n * at / size;
    return (struct part){first, n * (at + 1) / size - first};
}
#endif
