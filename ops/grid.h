/* grid.h - ranks laid out on a grid with named axes, last axis fastest: what a mesh is made of.  Pure. */
#ifndef WEFT_OPS_GRID_H
#define WEFT_OPS_GRID_H
#include <stddef.h>
#include <stdint.h>
#include <weft/weft.h>

#define WEFT__AXES_MAX       8
#define WEFT__AXIS_NAME      32 /* bytes of a name, its end included */
#define WEFT__GRID_TEXT      (WEFT__AXES_MAX * (WEFT__AXIS_NAME + 12))
#define WEFT__GRID_ALL(grid) ((1u << (grid)->axes) - 1) /* the mask of all its axes */

typedef struct weft__grid {
    int axes;
    struct {
        char name[WEFT__AXIS_NAME];
        int size;
    } axis[WEFT__AXES_MAX];
} weft__grid;

/* "pp=2,dp=-1,tp=8" for that many ranks; one size of -1 is inferred; blanks do not count.  ERR_ARGUMENT with
 * a sentence. */
weft_status weft__grid_parse(const char *axes, int ranks, weft__grid *grid);
/* Writes a grid in that form, every size told: at most WEFT__GRID_TEXT bytes. */
void weft__grid_text(const weft__grid *grid, char *text, size_t bytes);
/* Tells grids apart, but for chance: those of the same text have the same. */
uint64_t weft__grid_hash(const weft__grid *grid);
/* Some of its axes, "tp" or "dp,tp" in the grid's order, as a mask: bit i is axis i.  0 and a sentence for
 * what is no axis, and for another order: the ranks of a line stand in the grid's. */
unsigned weft__grid_mask(const weft__grid *grid, const char *names);
/* The names of a mask, in the grid's order. */
void weft__grid_names(const weft__grid *grid, unsigned mask, char *text, size_t bytes);
int weft__grid_place(const weft__grid *grid, int rank, int axis); /* of that rank, along that axis */
/* The ranks that differ from `rank` in no axis but those of the mask, ascending, which is the order on the
 * grid: returns how many; ranks may be NULL. */
int weft__grid_line(const weft__grid *grid, unsigned mask, int rank, int *ranks);
#endif
