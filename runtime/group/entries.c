/* entries.c - see entries.h.  What a rank knows of itself alone (colour, key, bytes) may be anything of its
 * kind; numbers, ranks and places follow from who told them.  A rank elsewhere cannot be checked for where
 * its memory lies, and nobody here uses that. */
#include "entries.h"
#include "group.h"
#include "group_break.h"
#include "peer.h"

#include <stdio.h>
#include <string.h>

/* The sentence is this thread's last. */
static bool entries_refuse(weft_request *req, int member)
{
    char name[256], who[192], text[WEFT__SENTENCE_BYTES];
    weft__request_name(req, name, sizeof name);
    weft__peer_name(req->ctx, req->group->world[member], who, sizeof who);
    snprintf(text, sizeof text, "%s: %s told of %.400s", name, who, weft_last_error());
    weft__group_break(req->group, &(weft__verdict){WEFT_ERR_PEER, req->sequence, -1, text}, true);
    return false;
}

static weft_status check_program(uint64_t program)
{
    if (program <= 1) return WEFT_OK;
    return weft__fail(WEFT_ERR_PEER, "program order %llu: expected 0 or 1", (unsigned long long)program);
}

/* count numbers from there on, all made by that rank. */
static weft_status check_numbers(uint64_t first, unsigned count, int rank)
{
    uint64_t last = first + count - 1;
    if (last >= first && weft__group_maker(first) == rank && weft__group_maker(last) == rank) return WEFT_OK;
    return weft__fail(WEFT_ERR_PEER, "group numbers from %#llx, %u of them: expected those of rank %d",
                      (unsigned long long)first, count, rank);
}

static weft_status check_split(const weft__split_entry *e, int rank)
{
    weft_status status;
    if (e->color < -1) return weft__fail(WEFT_ERR_PEER, "color %d: expected -1 or more", e->color);
    if (e->on_device >= 1U << WEFT__MEMORIES)
        return weft__fail(WEFT_ERR_PEER, "on_device %u: expected a bit for each kind of memory, %u at most",
                          e->on_device, (1U << WEFT__MEMORIES) - 1);
    if (e->color >= 0 && (status = check_numbers(e->id, 1, rank)) != WEFT_OK) return status;
    return check_program(e->program);
}

bool weft__split_entry_holds(weft_request *req, int member, const weft__split_entry *told)
{
    return check_split(told, req->group->world[member]) == WEFT_OK || entries_refuse(req, member);
}

bool weft__mesh_entry_holds(weft_request *req, int member, const weft__mesh_entry *told, unsigned groups)
{
    int rank = req->group->world[member];
    return (check_numbers(told->first_group, groups, rank) == WEFT_OK &&
            check_program(told->program) == WEFT_OK) ||
           entries_refuse(req, member);
}

static weft_status check_grid(const char text[WEFT__GRID_TEXT], int ranks, uint64_t hash)
{
    weft__grid grid;
    weft_status status;
    if (!memchr(text, 0, WEFT__GRID_TEXT))
        return weft__fail(WEFT_ERR_PEER, "a grid without an end: expected %d bytes at most",
                          WEFT__GRID_TEXT - 1);
    if ((status = weft__grid_parse(text, ranks, &grid)) != WEFT_OK) return status;
    if (weft__grid_hash(&grid) == hash) return WEFT_OK;
    return weft__fail(WEFT_ERR_PEER, "the grid \"%s\": expected another one, by the hash that it told before",
                      text);
}

bool weft__mesh_grid_holds(weft_request *req, int member, const weft__mesh_entry *told,
                           const char text[WEFT__GRID_TEXT])
{
    return check_grid(text, req->group->size, told->grid) == WEFT_OK || entries_refuse(req, member);
}

static weft_status check_memory(const weft_context *ctx, const weft__memory_entry *e, int rank)
{
    if (e->kind < WEFT_MEMORY_HOST || e->kind > WEFT_MEMORY_OTHER)
        return weft__fail(WEFT_ERR_PEER, "memory of kind %u: expected %d to %d", e->kind, WEFT_MEMORY_HOST,
                          WEFT_MEMORY_OTHER);
    if (e->plain > 1) return weft__fail(WEFT_ERR_PEER, "memory that is plain: %u, expected 0 or 1", e->plain);
    if (e->status != WEFT_OK && !weft__is_failure(e->status))
        return weft__fail(WEFT_ERR_PEER, "status %d: expected 0 or a failure", e->status);
    if (e->status != WEFT_OK || e->kind != WEFT_MEMORY_HOST) return WEFT_OK;
    return weft__region_check(ctx->segment, ctx->peers[rank].local, &e->region, e->bytes);
}

bool weft__memory_entry_holds(weft_request *req, int member, const weft__memory_entry *told)
{
    return check_memory(req->ctx, told, req->group->world[member]) == WEFT_OK || entries_refuse(req, member);
}
