/* region.c - regions: entries, pages, mappings, marks.
 *
 * A mark is a bit for a local rank in a word that also has the entry's generation, so that a mark that comes
 * late cannot be taken for one of the region that has the entry by then.
 * Fails: claim, when all entries are taken; open, when the pages cannot be had, which is asked for before the
 * kernel would have to kill somebody for them. */
#include "region.h"
#include "mem_available.h"
#include "status.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>

#define PAGE       4096u
#define STEP_BYTES ((uint64_t)64 << 20) /* reserved between checks of what is left */
#define MARK_RANKS 32                   /* in one word, below the generation */

typedef struct view { /* of a peer's region */
    uint32_t generation;
    uint64_t offset, bytes;
    const char *base; /* NULL: not mapped */
} view;

struct weft__regions {
    weft__segment *segment;
    int count; /* entries taken */
    bool taken[WEFT__REGIONS_MAX];
    weft__region own[WEFT__REGIONS_MAX];
    view **views; /* by local rank, then index; made when needed */
};

weft__regions *weft__regions_new(weft__segment *segment)
{
    weft__regions *regions = calloc(1, sizeof *regions);
    if (regions && segment) {
        regions->segment = segment;
        regions->views = calloc((size_t)segment->size, sizeof *regions->views);
    }
    if (!regions || (segment && !regions->views)) {
        free(regions);
        weft__fail_memory(sizeof *regions, "the table of shared memory");
        return NULL;
    }
    return regions;
}

void weft__regions_free(weft__regions *regions)
{
    if (!regions) return;
    for (int i = 0; i < WEFT__REGIONS_MAX; i++)
        if (regions->taken[i] && regions->own[i].base)
            weft__region_close(regions, &regions->own[i], regions->own[i].base);
    for (int r = 0; regions->segment && r < regions->segment->size; r++) {
        for (int i = 0; regions->views[r] && i < WEFT__REGIONS_MAX; i++)
            if (regions->views[r][i].base) weft__segment_unmap(regions->views[r][i].base);
        free(regions->views[r]);
    }
    free((void *)regions->views);
    free(regions);
}

/* ---- own ---- */

/* The words of one entry: MARK_RANKS ranks each. */
static _Atomic uint64_t *marks_of(const weft__segment *segment, int owner, uint32_t index)
{
    return weft__segment_marks(segment, owner) + (size_t)index * weft__mark_words(segment);
}

/* Where a rank's range begins. */
static uint64_t space_of(const weft__segment *segment, int rank)
{
    return segment->bytes + (uint64_t)rank * segment->space_bytes;
}

/* What a region of so many bytes takes. */
static uint64_t whole_pages(uint64_t bytes)
{
    return (bytes + PAGE - 1) / PAGE * PAGE;
}

/* The lowest place in this rank's range where nothing lies; 0: there is none. */
static uint64_t find_room(const weft__regions *regions, uint64_t bytes)
{
    const weft__segment *segment = regions->segment;
    uint64_t first = space_of(segment, segment->rank), at = first;
    bool moved = true;
    while (moved) {
        moved = false;
        for (int i = 0; i < WEFT__REGIONS_MAX; i++) {
            const weft__region *r = &regions->own[i];
            if (!regions->taken[i] || !r->offset || at >= r->offset + r->bytes || r->offset >= at + bytes)
                continue;
            at = r->offset + r->bytes;
            moved = true;
        }
    }
    return bytes <= segment->space_bytes && at - first <= segment->space_bytes - bytes ? at : 0;
}

weft_status weft__region_claim(weft__regions *regions, uint64_t bytes, weft__region **region)
{
    weft__region *r;
    uint32_t index = 0;
    if (bytes > UINT64_MAX - PAGE) return weft__fail_memory(bytes, "shared memory");
    bytes = whole_pages(bytes);
    while (index < WEFT__REGIONS_MAX && regions->taken[index]) index++;
    if (index == WEFT__REGIONS_MAX)
        return weft__fail(WEFT_ERR_MEMORY,
                          "this rank has %d pieces of mem_alloc memory: no more are possible",
                          WEFT__REGIONS_MAX);
    r = &regions->own[index];
    *r = (weft__region){.index = index, .generation = r->generation + 1, .bytes = bytes};
    if (regions->segment && regions->segment->space_bytes) {
        r->offset = find_room(regions, bytes);
        if (!r->offset || !weft__segment_reserve_marks(regions->segment, index))
            return weft__fail_memory(bytes, "shared memory");
        for (size_t w = 0; w < weft__mark_words(regions->segment); w++)
            atomic_store_explicit(&marks_of(regions->segment, regions->segment->rank, index)[w],
                                  (uint64_t)r->generation << MARK_RANKS, memory_order_seq_cst);
    }
    regions->taken[index] = true;
    regions->count++;
    *region = r;
    return WEFT_OK;
}

static weft_status look_for_room(uint64_t bytes)
{
    if (weft__mem_spare(bytes)) return WEFT_OK;
    return weft__fail(WEFT_ERR_MEMORY, "no memory: %llu bytes are needed, %llu can be had",
                      (unsigned long long)bytes, (unsigned long long)weft__mem_available());
}

static weft_status reserve(const weft__regions *regions, const weft__region *region)
{
    weft_status status = look_for_room(region->bytes);
    for (uint64_t done = 0; status == WEFT_OK && region->offset && done < region->bytes;) {
        uint64_t step = region->bytes - done < STEP_BYTES ? region->bytes - done : STEP_BYTES;
        if (fallocate(regions->segment->memfd, 0, (off_t)(region->offset + done), (off_t)step)) {
            if (errno == EINTR) continue;
            return weft__fail(WEFT_ERR_MEMORY, "no memory: %llu bytes of shared pages cannot be reserved",
                              (unsigned long long)region->bytes);
        }
        done += step;
        /* Others may be taking from the same. */
        if (done < region->bytes) status = look_for_room(region->bytes - done);
    }
    return status;
}

static void give_pages(const weft__regions *regions, const weft__region *region)
{
    if (region->offset)
        while (fallocate(regions->segment->memfd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                         (off_t)region->offset, (off_t)region->bytes) &&
               errno == EINTR) {
        }
}

static char *map_private(uint64_t bytes)
{
    char *base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    return base == MAP_FAILED ? NULL : base;
}

weft_status weft__region_open(const weft__regions *regions, const weft__region *region, char **base)
{
    weft_status status = reserve(regions, region);
    *base = NULL;
    if (status == WEFT_OK) {
        *base = region->offset ? weft__segment_map(regions->segment, region->offset, region->bytes)
                               : map_private(region->bytes);
        if (*base) return WEFT_OK;
        status = weft__fail(WEFT_ERR_MEMORY, "no memory: %llu bytes cannot be mapped",
                            (unsigned long long)region->bytes);
    }
    give_pages(regions, region);
    return status;
}

void weft__region_close(const weft__regions *regions, const weft__region *region, char *base)
{
    if (region->offset)
        weft__segment_unmap(base);
    else
        munmap(base, region->bytes);
    give_pages(regions, region);
}

void weft__region_drop(weft__regions *regions, weft__region *region)
{
    WEFT__ASSERT(!region->base && regions->taken[region->index]);
    regions->taken[region->index] = false;
    regions->count--;
}

weft__region *weft__region_find(weft__regions *regions, const void *from, size_t bytes)
{
    for (int i = 0, left = regions->count; left && i < WEFT__REGIONS_MAX; i++) {
        weft__region *r = &regions->own[i];
        uintptr_t skip = (uintptr_t)from - (uintptr_t)r->base;
        if (!regions->taken[i]) continue;
        left--;
        if (r->base && (uintptr_t)from >= (uintptr_t)r->base && skip <= r->bytes && bytes <= r->bytes - skip)
            return r;
    }
    return NULL;
}

/* ---- peers' ---- */

/* Unless it has been given back meanwhile. */
static void mark(const weft__segment *segment, int owner, const weft__region *told)
{
    _Atomic uint64_t *word = &marks_of(segment, owner, told->index)[segment->rank / MARK_RANKS];
    uint64_t bit = (uint64_t)1 << segment->rank % MARK_RANKS, now = atomic_load(word);
    while (now >> MARK_RANKS == told->generation && !atomic_compare_exchange_weak(word, &now, now | bit)) {
    }
}

static bool in_range(const weft__segment *segment, int owner, const weft__region *told)
{
    uint64_t first = owner >= 0 && segment ? space_of(segment, owner) : 0;
    if (!told->offset || owner < 0) return true; /* private, or of no use here */
    return segment && told->offset % PAGE == 0 && told->offset >= first &&
           told->bytes <= segment->space_bytes && told->offset - first <= segment->space_bytes - told->bytes;
}

weft_status weft__region_check(const weft__segment *segment, int owner, const weft__region *told,
                               uint64_t asked)
{
    if (told->index >= WEFT__REGIONS_MAX || !told->generation)
        return weft__fail(WEFT_ERR_PEER,
                          "a region at place %u, generation %u: expected less than %d, and 1 or more",
                          told->index, told->generation, WEFT__REGIONS_MAX);
    if (!asked || asked > UINT64_MAX - PAGE || told->bytes != whole_pages(asked))
        return weft__fail(WEFT_ERR_PEER,
                          "a region of %llu bytes for %llu: expected whole pages of %u, no more",
                          (unsigned long long)told->bytes, (unsigned long long)asked, PAGE);
    if (!in_range(segment, owner, told))
        return weft__fail(
            WEFT_ERR_PEER,
            "a region of %llu bytes at %llu: expected whole pages of its own %llu bytes from %llu",
            (unsigned long long)told->bytes, (unsigned long long)told->offset,
            (unsigned long long)(segment ? segment->space_bytes : 0),
            (unsigned long long)(segment ? space_of(segment, owner) : 0));
    return WEFT_OK;
}

char *weft__region_map(const weft__regions *regions, const weft__region *told)
{
    if (!told->offset || !regions->segment || told->index >= WEFT__REGIONS_MAX) return NULL;
    return weft__segment_map(regions->segment, told->offset, told->bytes);
}

void weft__region_keep(weft__regions *regions, int owner, const weft__region *told, char *base)
{
    view *v = regions->views[owner];
    if (!v) v = regions->views[owner] = calloc(WEFT__REGIONS_MAX, sizeof *v);
    if (!v) {
        weft__segment_unmap(base);
        return;
    }
    v += told->index;
    if (v->base) weft__segment_unmap(v->base); /* of one that its owner has given back */
    *v = (view){told->generation, told->offset, told->bytes, base};
    mark(regions->segment, owner, told);
}

bool weft__region_shared(const weft__regions *regions, const weft__region *region, const int *locals, int n)
{
    const weft__segment *segment = regions->segment;
    if (!region->offset) return false;
    for (int i = 0; i < n; i++) {
        uint64_t word;
        if (locals[i] == segment->rank) continue;
        word = atomic_load_explicit(&marks_of(segment, segment->rank, region->index)[locals[i] / MARK_RANKS],
                                    memory_order_acquire);
        if (!(word >> locals[i] % MARK_RANKS & 1)) return false;
    }
    return true;
}

const char *weft__region_at(const weft__regions *regions, int owner, uint32_t index, uint32_t generation,
                            uint64_t offset, uint64_t bytes)
{
    const view *v;
    if (!regions || index >= WEFT__REGIONS_MAX) return NULL;
    if (owner == regions->segment->rank) return regions->own[index].base + offset;
    v = regions->views[owner] ? &regions->views[owner][index] : NULL;
    if (!v || !v->base || v->generation != generation || offset > v->bytes || bytes > v->bytes - offset)
        return NULL;
    return v->base + offset;
}
