/* region.h - memory of one rank that its peers on this host can read where it lies.
 *
 * Behind what the segment maps, its segment has a range for each rank (shm_segment.h: space_bytes), of which
 * nothing exists until a region reserves its pages there; so no descriptor has to travel, and nothing
 * outlives the segment.  A rank that has mapped a peer's region marks that in the peer's control block.
 * Without a segment a region is private memory of the same make.
 *
 * For the holder of the engine, where nothing else is said. */
#ifndef WEFT_NET_REGION_H
#define WEFT_NET_REGION_H
#include "shm_segment.h"

/* One region, as its owner tells of it. */
typedef struct weft__region {
    uint32_t index;      /* in its owner's table */
    uint32_t generation; /* of that entry, from 1: tells it from earlier ones */
    uint64_t offset;     /* in the segment; 0: private */
    uint64_t bytes;      /* whole pages */
    char *base;          /* in this process; NULL: not open */
} weft__region;

typedef struct weft__regions weft__regions;

/* Those of one rank, own and mapped.  segment NULL: nobody to share with.  NULL: no memory. */
weft__regions *weft__regions_new(weft__segment *segment);
void weft__regions_free(weft__regions *regions); /* own pages go back to the system */

/* claim takes an entry, drop gives it back.  Between them, without the engine since they take their time:
 * open reserves and maps its pages, zeroed; close gives them back.  The caller keeps region->base, so that it
 * says whether the region is in use.  ERR_MEMORY says what is short. */
weft_status weft__region_claim(weft__regions *regions, uint64_t bytes, weft__region **region);
weft_status weft__region_open(const weft__regions *regions, const weft__region *region, char **base);
void weft__region_close(const weft__regions *regions, const weft__region *region, char *base);
void weft__region_drop(weft__regions *regions, weft__region *region);

/* The own open region that holds all these bytes; NULL: none does. */
weft__region *weft__region_find(weft__regions *regions, const void *from, size_t bytes);

/* Whether a peer's region of so many bytes asked for can be as that peer tells: in its own range of the
 * segment, whose size was checked when it came and cannot change.  owner: its local rank; -1: it shares no
 * memory with this one, and where it has its region is not checked.  ERR_PEER: "a
 * region ...: expected ..." */
weft_status weft__region_check(const weft__segment *segment, int owner, const weft__region *told,
                               uint64_t asked);
/* A peer told of this region, which was checked: map it (without the engine; NULL: not possible, which is no
 * failure), and then let it know. */
char *weft__region_map(const weft__regions *regions, const weft__region *told);
void weft__region_keep(weft__regions *regions, int owner, const weft__region *told, char *base);
/* Have all these local ranks mapped this own region? */
bool weft__region_shared(const weft__regions *regions, const weft__region *region, const int *locals, int n);
/* What a peer that sees this rank's mark names by these numbers, or an own region: so many bytes there. NULL:
 * no correct peer names it, there is nothing of that. */
const char *weft__region_at(const weft__regions *regions, int owner, uint32_t index, uint32_t generation,
                            uint64_t offset, uint64_t bytes);
#endif
