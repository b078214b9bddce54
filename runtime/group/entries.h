/* entries.h - what each rank tells all others in a collective that makes something: a split, a mesh, memory.
 *
 * What else a rank brings to a group is known since joining (terms.h).  Entries travel as they are.  They are checked before anything of them is used: a rank that told what no
 * correct rank tells breaks the parent with ERR_PEER on all ranks, and the sentence has the value and what
 * was expected. */
#ifndef WEFT_RUNTIME_ENTRIES_H
#define WEFT_RUNTIME_ENTRIES_H
#include "grid.h"
#include "region.h"
#include "request.h"

typedef struct weft__split_entry {
    int32_t color, key; /* color -1: in no group */
    uint32_t on_device; /* a bit for each kind of memory: the parent has a communicator that can be split */
    uint32_t program;   /* 1: its call asks for program order */
    uint64_t id;        /* a fresh number, in case this rank is the lowest of its group; 0: in none */
} weft__split_entry;
_Static_assert(sizeof(weft__split_entry) == 24, "a split gathers so much of each rank on all of them");

typedef struct weft__mesh_entry {
    uint64_t
        grid; /* a hash of the grid that was asked for: its text is told only where two differ (mesh.c) */
    uint64_t first_group; /* of a range of numbers, one for each set of axes */
    uint64_t program;     /* as in a split's */
} weft__mesh_entry;
_Static_assert(sizeof(weft__mesh_entry) == 24, "a mesh gathers so much of each rank on all of them");

typedef struct weft__memory_entry {
    uint64_t bytes; /* that it was asked for */
    uint32_t kind;  /* weft_memory */
    uint32_t plain; /* 1: the memory of a device cannot be made known to other ranks */
    weft__region region;
    int32_t status; /* why there is none */
    char why[192];
} weft__memory_entry;

/* Whether a rank of the parent, by its number there, can have told that.  False: the parent is broken, which
 * settled the request.  Engine held. */
bool weft__split_entry_holds(weft_request *req, int member, const weft__split_entry *told);
bool weft__mesh_entry_holds(weft_request *req, int member, const weft__mesh_entry *told, unsigned groups);
/* The text that it tells of that entry's grid, whose bytes are not to be trusted: it has its end, and is the grid whose hash the
 * entry has. */
bool weft__mesh_grid_holds(weft_request *req, int member, const weft__mesh_entry *told,
                           const char text[WEFT__GRID_TEXT]);
bool weft__memory_entry_holds(weft_request *req, int member, const weft__memory_entry *told);
#endif
