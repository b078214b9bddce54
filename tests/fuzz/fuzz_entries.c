/* What other ranks tell in the collectives that make something: split_group, mesh_create, mem_alloc.
 *
 * An input is a list of collectives (enum what), each with the parameters of this rank's call and with what
 * is changed in the entries of one member, which were as a correct rank tells them; an input that ends early
 * goes on with zeros.  One that ends well has made what can be used: groups of ranks that there are, memory
 * that lies where its owner's does.  One that does not has broken the world with a sentence, which ends the
 * input. */
#include "engine.h"
#include "entries.h"
#include "executor.h"
#include "fuzz.h"
#include "group.h"
#include "group_break.h"
#include "lone_rank.h"
#include "memory.h"
#include "mesh.h"

#include <stdlib.h>
#include <string.h>

enum { BYTES = 8192, COLLECTIVES_MOST = 16 };

size_t fuzz_reached; /* collectives that ended well though a member told something else than it does */

enum what { SPLIT, MESH, MEMORY, WHATS };

typedef struct input {
    const uint8_t *at;
    size_t left;
} input;

static struct {
    input in;
    weft_context *ctx;
    weft_group *world;
    enum what what;
    weft__memory_entry near; /* what the rank that shares memory told last */
} rank;

static weft__region *near_region; /* that it has */

static uint64_t take(size_t bytes)
{
    input *in = &rank.in;
    uint64_t number = 0;
    for (size_t i = 0; i < bytes && in->left; i++, in->at++, in->left--) number |= (uint64_t)*in->at << 8 * i;
    return number;
}

/* Some bytes are given, each with where they go; the others stay. */
static void lay_over(unsigned char *bytes, size_t length)
{
    for (size_t n = take(1) % 8; n; n--) {
        size_t at = take(2) % length, given = take(1) % 65;
        if (given > length - at) given = length - at;
        if (given > rank.in.left) given = rank.in.left;
        if (given) memcpy(bytes + at, rank.in.at, given);
        rank.in.at += given;
        rank.in.left -= given;
    }
}

/* ---- what correct ranks tell ---- */

static uint64_t number_of(int member)
{
    return (uint64_t)(member + 1) << 40 | 64;
}

static void tell_split(weft__split_entry *all, const weft__split_entry *own)
{
    for (int i = 0; i < LONE_WORLD; i++) {
        int32_t color = (int32_t)take(1) % 3 - 1;
        if (i == LONE_ME)
            all[i] = *own;
        else
            all[i] = (weft__split_entry){.color = color,
                                         .key = (int32_t)take(1),
                                         .id = color < 0 ? 0 : number_of(i)};
    }
}

static void tell_mesh(weft__mesh_entry *all, const weft__mesh_entry *own)
{
    for (int i = 0; i < LONE_WORLD; i++) {
        all[i] = *own;
        if (i == LONE_ME) continue;
        all[i].first_group = number_of(i);
    }
}

static void tell_memory(weft__memory_entry *all, const weft__memory_entry *own)
{
    for (int i = 0; i < LONE_WORLD; i++) {
        all[i] = *own;
        if (i == LONE_ME) continue;
        all[i].region = (weft__region){.generation = 1, .bytes = own->region.bytes};
        if (i == LONE_NEAR) all[i].region = *near_region;
    }
}

static size_t tell_all(void *all, const void *own)
{
    switch (rank.what) {
    case SPLIT: tell_split(all, own); return sizeof(weft__split_entry);
    case MESH: tell_mesh(all, own); return sizeof(weft__mesh_entry);
    case MEMORY: tell_memory(all, own); return sizeof(weft__memory_entry);
    case WHATS: break;
    }
    abort();
}

/* In place of what moves the entries.  Engine held. */
static void end_collective(void)
{
    WEFT__LIST_EACH(&rank.ctx->pending, at)
    {
        weft_request *req = WEFT__LIST_ENTRY(at, weft_request, pending);
        unsigned char *all = req->op.out;
        size_t each;
        int member = (int)(take(1) % LONE_WORLD);
        if (!req->continuation) continue;
        req->executor->stop(req);
        each = tell_all(all, req->op.in);
        if (each != req->op.count) abort();
        if (member != LONE_ME) lay_over(all + each * (size_t)member, each);
        if (rank.what == MEMORY) memcpy(&rank.near, all + each * LONE_NEAR, sizeof rank.near);
        req->continuation->finish(req);
        return;
    }
}

/* ---- this rank's calls, and what must hold then ---- */

static bool ended(weft_status status, const char *why)
{
    if (status == WEFT_OK) fuzz_reached++;
    if (status == WEFT_OK) return true;
    if (status >= 0 || !*why) abort();
    /* Slots of another length concern only those who would share them: the group that is not made. */
    if (rank.what != SPLIT && weft_group_status(rank.world) == WEFT_OK) abort();
    return false;
}

static void check_group(const weft_group *group)
{
    int size = weft_group_size(group), maker = weft__group_maker(group->id);
    if (size < 1 || size > LONE_WORLD || weft_group_status(group) != WEFT_OK) abort();
    for (int r = 0; r < size; r++) {
        int world = weft_group_to_world(group, r);
        if (world < 0 || world >= LONE_WORLD || weft_group_from_world(group, world) != r) abort();
    }
    if (weft_group_to_world(group, weft_group_rank(group)) != LONE_ME) abort();
    if (weft__group_member(group, maker) < 0 || weft__group_member(group, (int)group->params.lowest) < 0)
        abort();
}

/* Where grids are unlike this rank waits for member 0 to say so. */
static void hear_of_unlike_grids(weft_request *req)
{
    if (rank.what != MESH || weft_test(req) != WEFT_PENDING) return;
    weft__group_break(rank.world, &(weft__verdict){WEFT_ERR_MISMATCH, req->sequence, -1, "unlike"}, false);
}

static weft_status settle(weft_request *req)
{
    weft_status status;
    weft__engine_take(rank.ctx);
    weft__engine_progress(rank.ctx);
    hear_of_unlike_grids(req);
    weft__engine_drop(rank.ctx);
    status = weft_test(req);
    if (status == WEFT_PENDING) abort();
    return status;
}

static bool split(void)
{
    weft_group *group = NULL;
    weft_request *req;
    bool good;
    if (weft_split_group(rank.world, (int)take(1) % 2, (int)take(1), NULL, &group, &req) != WEFT_OK) abort();
    good = ended(settle(req), weft_request_message(req));
    weft_release(req);
    if (good)
        check_group(group);
    else if (weft_group_status(group) == WEFT_OK)
        abort();
    weft_group_free(group);
    return good;
}

static bool mesh(void)
{
    static const char *const masks[] = {"a", "b", "a,b"};
    weft_mesh *made = NULL;
    weft_request *req;
    bool good;
    if (weft_mesh_create(rank.world, "a=5,b=1", NULL, &made, &req) != WEFT_OK) abort();
    good = ended(settle(req), weft_request_message(req));
    weft_release(req);
    for (size_t i = 0; i < WEFT__LENGTH(masks); i++) {
        weft_group *group = weft_mesh_group(made, masks[i]);
        if (!group != !good) abort();
        if (group) check_group(group);
    }
    weft_mesh_free(made);
    return good;
}

/* What this rank would read when its peer publishes something in place there. */
static void check_near(void)
{
    const weft__region *told = &rank.near.region;
    const volatile char *base =
        weft__region_at(rank.ctx->regions, 0, told->index, told->generation, 0, told->bytes);
    if (!base || !told->offset) return; /* not told of, or the one before is still there */
    if (told->bytes != near_region->bytes || told->offset < rank.ctx->segment->bytes) abort();
    (void)(base[0] + base[told->bytes - 1]);
}

static bool memory(void)
{
    void *at = NULL;
    weft_status status = weft_mem_alloc(rank.world, BYTES, WEFT_MEMORY_HOST, &at);
    if (!ended(status, weft_last_error())) return false;
    check_near();
    memset(at, 1, BYTES);
    if (weft_mem_free(rank.world, at) != WEFT_OK) abort();
    return true;
}

static void begin(void)
{
    const int all[] = {0, 1, 2, 3, 4};
    rank.ctx = lone_rank_open((lone_wires){.turn = end_collective});
    rank.world = rank.ctx->world = lone_rank_group(rank.ctx, all, LONE_WORLD, "world", 1);
    if (!near_region) {
        weft__regions *regions = weft__regions_new(lone_rank_near());
        char *base;
        if (!regions || weft__region_claim(regions, BYTES, &near_region) ||
            weft__region_open(regions, near_region, &base))
            abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    bool goes_on = true;
    memset(&rank, 0, sizeof rank);
    rank.in = (input){data, bytes};
    begin();
    for (int n = 0; goes_on && rank.in.left && n < COLLECTIVES_MOST; n++) {
        rank.what = (enum what)(take(1) % WHATS);
        goes_on = rank.what == SPLIT ? split() : rank.what == MESH ? mesh() : memory();
    }
    lone_rank_close(rank.ctx);
    return 0;
}
