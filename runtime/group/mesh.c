/* mesh.c - a mesh: an all_gather of what each rank was asked for, and the groups that follow from it.
 *
 * Each rank gives a range of group numbers, one for each set of axes; what it brings to an agreement is known (terms.h).  So
 * number and table of every group of the mesh are known to all its members, and weft_mesh_group makes the
 * record of one without a word to anybody; slots in shared memory are told when the group is used
 * (slot_exchange.c).
 *
 * Failing: ranks that ask for different grids break the parent with ERR_MISMATCH, which shows both.  An entry has only a hash
 * of its grid, so that a mesh of many ranks gathers little.  All see the same hashes, and so know the same two that differ: member
 * 0 and the lowest with another one, whose text member 0 lacks:
 *
 *     GRID     from that one to member 0: which collective of the parent, and the text of the grid that it asked for
 *
 * Member 0 has both texts once its own gather has ended and GRID is there, whichever comes first; then it breaks the
 * parent, which tells all.  Until then their requests wait (differs), each as it would for a member that has not come: to
 * its deadline, to the end of the parent by something else, to the death of either of the two. */
#include "mesh.h"
#include "engine.h"
#include "entries.h"
#include "grid.h"
#include "group.h"
#include "group_break.h"
#include "peer.h"
#include "protocol.h"
#include "slot_exchange.h"
#include "submit.h"
#include "terms.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef enum mesh_state { MESH_FORMING, MESH_READY, MESH_FAILED } mesh_state;

/* References: the handle, and the request that makes it. */
struct weft_mesh {
    weft__list link; /* ctx->meshes */
    weft_context *ctx;
    weft_group *parent; /* a reference */
    weft__grid grid;
    char label[WEFT__LABEL_BYTES];
    int64_t timeout_ms; /* of its groups */
    _Atomic uint32_t refs;
    _Atomic uint32_t state;         /* mesh_state; engine writes */
    char why[WEFT__SENTENCE_BYTES]; /* FAILED; written before state */
    weft__continuation continuation;
    weft__mesh_entry *all; /* by rank of the parent; READY: valid */
    weft__mesh_entry mine;
    int differs;  /* FORMING: all have been heard, and this member has another grid than member 0; 0: none */
    int other_by; /* member 0: who has told its text (GRID), which is not checked yet; 0: nobody */
    char other_grid[WEFT__GRID_TEXT];
    _Atomic(weft_group *) groups[1u << WEFT__AXES_MAX]; /* by set of axes; engine writes */
};

/* ---- its life ---- */

static weft_mesh *mesh_new(weft_group *parent, const weft__grid *grid, const weft_call *call)
{
    weft_context *ctx = parent->ctx;
    weft_mesh *mesh = calloc(1, sizeof *mesh);
    size_t bytes = (size_t)parent->size * sizeof *mesh->all;
    if (mesh) mesh->all = malloc(bytes);
    if (!mesh || !mesh->all) {
        free(mesh);
        weft__fail_memory(bytes + sizeof *mesh, "a mesh");
        return NULL;
    }
    mesh->ctx = ctx;
    mesh->parent = parent;
    weft__group_ref(parent);
    mesh->grid = *grid;
    snprintf(mesh->label, sizeof mesh->label, "%s", call && call->label ? call->label : "");
    mesh->timeout_ms = call && call->timeout_ms ? call->timeout_ms : atomic_load(&parent->timeout_ms);
    atomic_store(&mesh->refs, 1);
    mesh->mine.grid = weft__grid_hash(grid);
    mesh->mine.program = weft__asks_for_program(call);
    mesh->mine.first_group = weft__group_ids(ctx, 1u << grid->axes);
    weft__lock_take(&ctx->groups_lock);
    weft__list_append(&ctx->meshes, &mesh->link);
    weft__lock_drop(&ctx->groups_lock);
    return mesh;
}

static void mesh_free(weft_mesh *mesh)
{
    free(mesh->all);
    free(mesh);
}

static void mesh_unref(weft_mesh *mesh)
{
    weft_context *ctx = mesh->ctx;
    if (atomic_fetch_sub_explicit(&mesh->refs, 1, memory_order_acq_rel) != 1) return;
    for (size_t i = 0; i < WEFT__LENGTH(mesh->groups); i++)
        if (atomic_load(&mesh->groups[i])) weft__group_let_go(atomic_load(&mesh->groups[i]));
    weft__lock_take(&ctx->groups_lock);
    weft__list_remove(&mesh->link);
    weft__lock_drop(&ctx->groups_lock);
    weft__group_unref(mesh->parent);
    mesh_free(mesh);
}

void weft__meshes_close(weft_context *ctx)
{
    WEFT__LIST_EACH(&ctx->meshes, at) mesh_free(WEFT__LIST_ENTRY(at, weft_mesh, link));
}

/* ---- making it ---- */

static weft_mesh *mesh_of(weft_request *req)
{
    return WEFT__OWNER(req->continuation, weft_mesh, continuation);
}

static void mesh_fail(weft_request *req, const char *why)
{
    weft_mesh *mesh = mesh_of(req);
    snprintf(mesh->why, sizeof mesh->why, "%s", why);
    atomic_store_explicit(&mesh->state, MESH_FAILED, memory_order_release);
}

/* Member 0 knows both texts, if `other_grid` is what that member has asked for. */
static void break_over_grids(weft_request *req, const weft_mesh *mesh)
{
    const weft_group *parent = req->group;
    char name[256], mine[WEFT__GRID_TEXT], text[WEFT__SENTENCE_BYTES];
    if (!weft__mesh_grid_holds(req, mesh->differs, &mesh->all[mesh->differs], mesh->other_grid)) return;
    weft__request_name(req, name, sizeof name);
    weft__grid_text(&mesh->grid, mine, sizeof mine);
    snprintf(text, sizeof text, "%s: rank %d passed \"%s\", rank %d passed \"%s\"", name, parent->world[0],
             mine, parent->world[mesh->differs], mesh->other_grid);
    weft__group_break(req->group, &(weft__verdict){WEFT_ERR_MISMATCH, req->sequence, -1, text}, true);
}

typedef struct grid_word {
    uint64_t parent, sequence; /* the collective that makes the mesh */
    char grid[WEFT__GRID_TEXT];
} grid_word;

static void tell_grid(weft_request *req, const weft_mesh *mesh)
{
    const weft_group *parent = req->group;
    grid_word word = {.parent = parent->id, .sequence = req->sequence};
    char text[WEFT__SENTENCE_BYTES];
    const int to = parent->world[0];
    weft_status status;
    weft__grid_text(&mesh->grid, word.grid, sizeof word.grid);
    status = weft__p2p_control(req->ctx->p2p, to, WEFT__MESSAGE_MESH_GRID, &word, sizeof word);
    if (status == WEFT_OK) return;
    snprintf(text, sizeof text, "rank %d: %.*s", req->ctx->rank, 900, weft_last_error());
    weft__group_break(req->group,
                      &(weft__verdict){status, req->sequence, status == WEFT_ERR_PEER ? to : -1, text}, true);
}

/* The lowest member that asks for another grid than member 0, or 0.  All ranks compare the same hashes. */
static int differing(const weft_mesh *mesh)
{
    for (int i = 1; i < mesh->parent->size; i++)
        if (mesh->all[i].grid != mesh->all[0].grid) return i;
    return 0;
}

static void mesh_finish(weft_request *req)
{
    weft_mesh *mesh = mesh_of(req);
    mesh->differs = differing(mesh);
    if (mesh->differs) {
        if (req->group->rank == mesh->differs)
            tell_grid(req, mesh);
        else if (req->group->rank == 0 && mesh->other_by == mesh->differs)
            break_over_grids(req, mesh);
        return; /* breaking the group has settled it, or will */
    }
    for (int i = 0; i < req->group->size; i++)
        if (!weft__mesh_entry_holds(req, i, &mesh->all[i], 1u << mesh->grid.axes)) return;
    atomic_store_explicit(&mesh->state, MESH_READY, memory_order_release);
    weft__request_settle(req, WEFT_OK, NULL);
}

/* NULL: this rank is done with it. */
static weft_request *find_making(weft_context *ctx, const grid_word *word)
{
    WEFT__LIST_EACH(&ctx->pending, at)
    {
        weft_request *req = WEFT__LIST_ENTRY(at, weft_request, pending);
        if (req->group->id == word->parent && req->sequence == word->sequence &&
            req->op.kind == WEFT__OP_MESH_CREATE)
            return req;
    }
    return NULL;
}

static void mesh_message(weft_context *ctx, int peer, int type, const void *bytes, size_t length)
{
    grid_word word;
    weft_request *req;
    weft_mesh *mesh;
    int member;
    (void)type;
    if (length != sizeof word) {
        weft__peer_refused(ctx, peer, "the grid of a mesh takes another number of bytes");
        return;
    }
    memcpy(&word, bytes, sizeof word);
    if (!(req = find_making(ctx, &word))) return;
    member = weft__group_member(req->group, peer);
    if (req->group->rank != 0 || member <= 0) {
        weft__peer_refused(ctx, peer, "the grid of a mesh is told by a member to member 0");
        return;
    }
    mesh = mesh_of(req);
    memcpy(mesh->other_grid, word.grid, sizeof mesh->other_grid);
    mesh->other_by = member;
    if (mesh->differs == member) break_over_grids(req, mesh);
}

const weft__protocol weft__mesh_protocol = {.name = "mesh",
                                            .first = WEFT__MESSAGE_MESH_GRID,
                                            .last = WEFT__MESSAGE_MESH_GRID,
                                            .message = mesh_message};

static void request_gone(weft_request *req)
{
    mesh_unref(mesh_of(req));
}

weft_status weft_mesh_create(weft_group *parent, const char *axes, const weft_call *call, weft_mesh **mesh,
                             weft_request **req)
{
    weft__op op = {.kind = WEFT__OP_MESH_CREATE,
                   .dtype = WEFT_UINT8,
                   .memory = WEFT_MEMORY_HOST,
                   .count = sizeof(weft__mesh_entry),
                   .scale = 1};
    weft_mesh *made, *before;
    weft__grid grid;
    weft_request *r;
    weft_status status;
    if (!parent || !axes || !mesh)
        return weft__fail(WEFT_ERR_ARGUMENT, "mesh_create: %s is NULL",
                          !parent ? "parent"
                          : !axes ? "axes"
                                  : "mesh");
    if ((status = weft__usable(parent->ctx)) != WEFT_OK || (status = weft__call_check(call)) != WEFT_OK ||
        (status = weft__group_usable(parent)) != WEFT_OK ||
        (status = weft__grid_parse(axes, parent->size, &grid)) != WEFT_OK)
        return status;
    made = mesh_new(parent, &grid, call);
    if (!made) return WEFT_ERR_MEMORY;
    r = weft__request_new(parent->ctx, parent, &op, call);
    if (!r) {
        mesh_unref(made);
        return WEFT_ERR_MEMORY;
    }
    made->continuation = (weft__continuation){mesh_finish, mesh_fail, request_gone};
    atomic_fetch_add(&made->refs, 1);
    r->continuation = &made->continuation;
    r->op.in = &made->mine;
    r->op.out = made->all;
    before = *mesh;
    if (req) *mesh = made; /* first: its callback may run before this function returns */
    status = weft__submit(r, call, req);
    if (status == WEFT_OK && !req) *mesh = made;
    if (status != WEFT_OK && req) *mesh = before;
    if (status != WEFT_OK) mesh_unref(made);
    return status;
}

weft_status weft_mesh_free(weft_mesh *mesh)
{
    weft_status status;
    if (!mesh) return WEFT_OK;
    if ((status = weft__usable(mesh->ctx)) != WEFT_OK) return status;
    mesh_unref(mesh);
    return WEFT_OK;
}

/* ---- its groups ---- */

static weft_status check_ready(const weft_mesh *mesh, const char *what)
{
    weft_status status;
    if (!mesh) return weft__fail(WEFT_ERR_ARGUMENT, "%s: mesh is NULL", what);
    if ((status = weft__usable(mesh->ctx)) != WEFT_OK) return status;
    switch ((mesh_state)atomic_load_explicit(&mesh->state, memory_order_acquire)) {
    case MESH_READY: return WEFT_OK;
    case MESH_FAILED: return weft__fail(WEFT_ERR_STATE, "%s: the mesh was not made: %.800s", what, mesh->why);
    case MESH_FORMING: break;
    }
    return weft__fail(WEFT_ERR_STATE, "%s: the mesh is not ready: its request has not settled", what);
}

/* "tp", "dp,tp", or with the mesh's label "NAME.tp" */
static void label_of(const weft_mesh *mesh, unsigned mask, char label[WEFT__LABEL_BYTES])
{
    char names[WEFT__GRID_TEXT], whole[WEFT__LABEL_BYTES + WEFT__GRID_TEXT];
    weft__grid_names(&mesh->grid, mask, names, sizeof names);
    snprintf(whole, sizeof whole, "%s%s%s", mesh->label, *mesh->label ? "." : "", names);
    snprintf(label, WEFT__LABEL_BYTES, "%.*s", WEFT__LABEL_BYTES - 1, whole);
}

static weft__group_params terms_of(const weft_context *ctx, int rank, const weft__mesh_entry *told)
{
    weft__group_params terms = weft__terms_of(ctx, rank);
    terms.program = told->program;
    return terms;
}

/* Number, table and members of a set of axes, from what all ranks told.  Engine held. */
static weft_status group_ready(weft_mesh *mesh, unsigned mask, weft_group *group, const int *ranks)
{
    const weft__mesh_entry *low = &mesh->mine;
    weft__group_params params = terms_of(mesh->ctx, mesh->ctx->rank, &mesh->mine);
    for (int i = 0, lowest = mesh->ctx->rank; i < group->size; i++) {
        const weft__mesh_entry *e = &mesh->all[ranks[i]];
        const weft__group_params theirs = terms_of(mesh->ctx, group->world[i], e);
        weft__group_params_merge(&params, &theirs);
        if (group->world[i] >= lowest) continue;
        lowest = group->world[i];
        low = e;
    }
    return weft__group_ready(group, low->first_group + mask, &params);
}

static weft_group *make_group(weft_mesh *mesh, unsigned mask)
{
    int *ranks = malloc((size_t)mesh->parent->size * 2 * sizeof *ranks), *world, n;
    char label[WEFT__LABEL_BYTES];
    weft_group *group;
    if (!ranks) {
        weft__fail_memory((size_t)mesh->parent->size * 2 * sizeof *ranks, "a group of a mesh");
        return NULL;
    }
    world = ranks + mesh->parent->size;
    n = weft__grid_line(&mesh->grid, mask, mesh->parent->rank, ranks);
    for (int i = 0; i < n; i++) world[i] = mesh->parent->world[ranks[i]];
    label_of(mesh, mask, label);
    group = weft__group_new(mesh->ctx, world, n, label, mesh->timeout_ms);
    if (group) {
        group->owner = WEFT__OF_MESH;
        if (group_ready(mesh, mask, group, ranks) == WEFT_OK) {
            atomic_store_explicit(&mesh->groups[mask], group, memory_order_release);
        } else {
            weft__group_unref(group);
            group = NULL;
        }
    }
    free(ranks);
    return group;
}

weft_group *weft_mesh_group(weft_mesh *mesh, const char *axes)
{
    weft_group *group;
    unsigned mask;
    bool entered;
    if (check_ready(mesh, "mesh_group") != WEFT_OK) return NULL;
    if (!axes) {
        weft__fail(WEFT_ERR_ARGUMENT, "mesh_group: axes is NULL");
        return NULL;
    }
    if (!(mask = weft__grid_mask(&mesh->grid, axes))) return NULL;
    group = atomic_load_explicit(&mesh->groups[mask], memory_order_acquire);
    if (group) return group;
    entered = weft__engine_enter(mesh->ctx);
    group = atomic_load_explicit(&mesh->groups[mask], memory_order_acquire); /* another thread's */
    if (!group) group = make_group(mesh, mask);
    weft__engine_leave(mesh->ctx, entered);
    return group;
}

/* The index of that one axis, or -1 and a sentence. */
static int axis_of(const weft_mesh *mesh, const char *axis, const char *what)
{
    unsigned mask;
    if (check_ready(mesh, what) != WEFT_OK) return -1;
    if (!axis) {
        weft__fail(WEFT_ERR_ARGUMENT, "%s: axis is NULL", what);
        return -1;
    }
    if (!(mask = weft__grid_mask(&mesh->grid, axis))) return -1;
    if (mask & (mask - 1)) {
        weft__fail(WEFT_ERR_ARGUMENT, "%s: \"%.200s\" is more than one axis: expected one", what, axis);
        return -1;
    }
    return __builtin_ctz(mask);
}

int weft_mesh_coord(const weft_mesh *mesh, const char *axis)
{
    int i = axis_of(mesh, axis, "mesh_coord");
    return i < 0 ? -1 : weft__grid_place(&mesh->grid, mesh->parent->rank, i);
}

int weft_mesh_size(const weft_mesh *mesh, const char *axis)
{
    int i = axis_of(mesh, axis, "mesh_size");
    return i < 0 ? -1 : mesh->grid.axis[i].size;
}
