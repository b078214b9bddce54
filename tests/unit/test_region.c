/* test_region.c - regions of a segment whose ranks are threads of this process, and of none. */
#include "region.h"
#include "segment_ranks.h"
#include "status.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

enum { RANKS = 3, BYTES = 10000 };

typedef struct ranks {
    weft__segment *segments[RANKS];
    weft__regions *regions[RANKS];
} ranks;

static void begin(ranks *r)
{
    segment_join_all(RANKS, r->segments);
    for (int i = 0; i < RANKS; i++) assert_non_null(r->regions[i] = weft__regions_new(r->segments[i]));
}

static void end(ranks *r)
{
    for (int i = 0; i < RANKS; i++) {
        weft__regions_free(r->regions[i]);
        weft__segment_free(r->segments[i]);
    }
}

static weft__region *make(weft__regions *regions, uint64_t bytes)
{
    weft__region *region = NULL;
    char *base = NULL;
    assert_int_equal(weft__region_claim(regions, bytes, &region), WEFT_OK);
    assert_int_equal(weft__region_open(regions, region, &base), WEFT_OK);
    region->base = base;
    return region;
}

static void drop(weft__regions *regions, weft__region *region)
{
    char *base = region->base;
    region->base = NULL;
    weft__region_close(regions, region, base);
    weft__region_drop(regions, region);
}

static void keep(ranks *r, int rank, int owner, const weft__region *told)
{
    char *base = weft__region_map(r->regions[rank], told);
    assert_non_null(base);
    weft__region_keep(r->regions[rank], owner, told, base);
}

static void test_shared(void **state)
{
    static const int all[] = {0, 1, 2};
    ranks r;
    weft__region *own, told;
    (void)state;
    begin(&r);
    own = make(r.regions[1], BYTES);
    told = *own;
    assert_true(own->bytes >= BYTES && own->bytes % 4096 == 0);
    for (int i = 0; i < BYTES; i++) assert_int_equal(own->base[i], 0);
    assert_false(weft__region_shared(r.regions[1], own, all, RANKS));
    keep(&r, 0, 1, &told);
    assert_true(weft__region_shared(r.regions[1], own, all, 2));
    assert_false(weft__region_shared(r.regions[1], own, all, RANKS));
    keep(&r, 2, 1, &told);
    assert_true(weft__region_shared(r.regions[1], own, all, RANKS));
    memcpy(own->base + 5000, "here", 5);
    assert_string_equal(weft__region_at(r.regions[0], 1, told.index, told.generation, 5000, 5), "here");
    assert_string_equal(weft__region_at(r.regions[1], 1, told.index, told.generation, 5000, 5), "here");
    /* What no correct peer names. */
    assert_null(weft__region_at(r.regions[0], 1, WEFT__REGIONS_MAX, told.generation, 0, 1));
    assert_null(weft__region_at(r.regions[0], 1, told.index + 1, told.generation, 0, 1));
    assert_null(weft__region_at(r.regions[0], 1, told.index, told.generation + 1, 0, 1));
    assert_null(weft__region_at(r.regions[0], 1, told.index, told.generation, told.bytes, 1));
    assert_null(weft__region_at(r.regions[0], 1, told.index, told.generation, UINT64_MAX, 2));
    assert_null(weft__region_at(r.regions[0], 2, told.index, told.generation, 0, 1));
    assert_null(weft__region_at(NULL, 1, told.index, told.generation, 0, 1));
    end(&r);
}

/* A mark that comes after the entry has gone to another region is none of it. */
static void test_late_mark(void **state)
{
    static const int both[] = {0, 1};
    ranks r;
    weft__region *own, told;
    (void)state;
    begin(&r);
    own = make(r.regions[0], BYTES);
    told = *own;
    memset(own->base, 1, BYTES);
    drop(r.regions[0], own);
    own = make(r.regions[0], BYTES);
    assert_int_equal(own->index, told.index);
    assert_int_not_equal(own->generation, told.generation);
    for (int i = 0; i < BYTES; i++) assert_int_equal(own->base[i], 0);
    keep(&r, 1, 0, &told);
    assert_false(weft__region_shared(r.regions[0], own, both, 2));
    told = *own;
    keep(&r, 1, 0, &told);
    assert_true(weft__region_shared(r.regions[0], own, both, 2));
    end(&r);
}

static void test_find(void **state)
{
    weft__regions *regions = weft__regions_new(NULL);
    weft__region *a, *b;
    static const int self[] = {0};
    char other;
    (void)state;
    assert_non_null(regions);
    a = make(regions, 4096);
    b = make(regions, 8192);
    assert_ptr_equal(weft__region_find(regions, a->base, 4096), a);
    assert_ptr_equal(weft__region_find(regions, a->base + 4095, 1), a);
    assert_ptr_equal(weft__region_find(regions, b->base + 100, 8092), b);
    assert_null(weft__region_find(regions, b->base + 100, 8093));
    assert_null(weft__region_find(regions, &other, 1));
    assert_null(weft__region_find(regions, b->base, SIZE_MAX));
    assert_null(weft__region_map(regions, a)); /* nobody to share with */
    assert_false(weft__region_shared(regions, a, self, 1));
    drop(regions, a);
    assert_ptr_equal(weft__region_find(regions, b->base, 1), b);
    weft__regions_free(regions);
}

static void test_limits(void **state)
{
    ranks r;
    weft__region *own[WEFT__REGIONS_MAX], *more;
    char *base;
    (void)state;
    begin(&r);
    for (int i = 0; i < WEFT__REGIONS_MAX; i++) own[i] = make(r.regions[2], 1);
    for (int i = 1; i < WEFT__REGIONS_MAX; i++) assert_true(own[i]->offset != own[i - 1]->offset);
    assert_int_equal(weft__region_claim(r.regions[2], 1, &more), WEFT_ERR_MEMORY);
    assert_non_null(strstr(weft_last_error(), "256"));
    drop(r.regions[2], own[7]);
    assert_int_equal(weft__region_claim(r.regions[2], (uint64_t)1 << 60, &more), WEFT_ERR_MEMORY);
    assert_int_equal(weft__region_claim(r.regions[2], UINT64_MAX, &more), WEFT_ERR_MEMORY);
    assert_int_equal(weft__region_claim(r.regions[2], (uint64_t)1 << 45, &more), WEFT_OK);
    assert_int_equal(more->index, 7);
    assert_int_equal(weft__region_open(r.regions[2], more, &base), WEFT_ERR_MEMORY); /* no such machine */
    assert_null(base);
    weft__region_drop(r.regions[2], more);
    end(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_shared), cmocka_unit_test(test_late_mark),
                                       cmocka_unit_test(test_find), cmocka_unit_test(test_limits)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
