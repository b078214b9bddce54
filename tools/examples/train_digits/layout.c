/* layout.c - see layout.h. */
#include "layout.h"
#include "check.h"

#include <stdio.h>

enum { FINALIZE_MS = 10000 };

static void choose(size_t ranks, size_t *dp, size_t *tp)
{
    if (!*tp) *tp = *dp ? ranks / *dp : (ranks % 2 ? 1 : 2);
    if (!*dp) *dp = ranks / *tp;
    if (*dp * *tp != ranks)
        fail("--dp %zu times --tp %zu is not %zu, the number of ranks in this job", *dp, *tp, ranks);
}

static struct axis axis_of(weft_mesh *mesh, const char *name)
{
    struct axis axis = {.group = weft_mesh_group(mesh, name)};
    if (!axis.group) fail("axis %s: %s", name, weft_last_error());
    axis.at = (size_t)weft_mesh_coord(mesh, name);
    axis.size = (size_t)weft_mesh_size(mesh, name);
    return axis;
}

void layout_join(struct layout *layout, size_t dp, size_t tp)
{
    char axes[64];
    check(weft_init(NULL, &layout->job), "joining the job"); /* waits until all ranks are there */
    layout->world = weft_world(layout->job);
    layout->rank = weft_group_rank(layout->world);
    layout->ranks = weft_group_size(layout->world);
    choose((size_t)layout->ranks, &dp, &tp);
    /* The last axis is the fastest: tp ranks, which talk most, are neighbours. */
    snprintf(axes, sizeof(axes), "dp=%zu,tp=%zu", dp, tp);
    check(weft_mesh_create(layout->world, axes, NULL, &layout->mesh, NULL), "laying out the ranks");
    layout->dp = axis_of(layout->mesh, "dp");
    layout->tp = axis_of(layout->mesh, "tp");
}

void layout_leave(struct layout *layout)
{
    check(weft_mesh_free(layout->mesh), "freeing the mesh");
    check(weft_finalize(layout->job, FINALIZE_MS), "leaving the job");
}
