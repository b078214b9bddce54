/* mesh.c - a mesh: an all_gather of what each rank was asked for, and the groups that follow from it.
 *
 * Each rank gives a range of group numbers, one for each set of axes; what it brings to an agreement is known (terms.h).  So
 * number and table of every group of the mesh are known to all its members, and weft_mesh_group makes the
 * record of one without a word to anybody; slots in shared memory are told when the group is used
 * (slot_exchange.c).
 *
 * Failing: ranks that ask for different grids break the parent with ERR_MISMATCH, which shows both. */
#include "mesh.h"
#include "engine.h"
#include "entries.h"
#include "grid.h"
#include "group.h"
#include "group_break.h"
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
    weft__grid_text(grid, mesh->mine.grid, sizeof mesh->mine.grid);
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

/* All ranks compare the same words, so all see the same two that differ. */
static bool all_agree(weft_request *req, const weft_mesh *mesh)
{
    const weft_group *parent = req->group;
    for (int i = 1; i < parent->size; i++) {
        char name[256], text[WEFT__SENTENCE_BYTES];
        if (!memcmp(mesh->all[i].grid, mesh->all[0].grid, sizeof mesh->all[0].grid)) continue;
        weft__request_name(req, name, sizeof name);
        snprintf(text, sizeof text, "%s: rank %d passed \"%.*s\", rank %d passed \"%.*s\"", name,
                 parent->world[0], WEFT__GRID_TEXT - 1, mesh->all[0].grid, parent->world[i],
                 WEFT__GRID_TEXT - 1, mesh->all[i].grid);
        weft__group_break(req->group, &(weft__verdict){WEFT_ERR_MISMATCH, req->sequence, -1, text}, true);
        return false;
    }
    return true;
}

static void mesh_finish(weft_request *req)
{
    weft_mesh *mesh = mesh_of(req);
    if (!all_agree(req, mesh)) return; /* breaking the group settled it */
    for (int i = 0; i < req->group->size; i++)
        if (!weft__mesh_entry_holds(req, i, &mesh->all[i], 1u << mesh->grid.axes)) return;
    atomic_store_explicit(&mesh->state, MESH_READY, memory_order_release);
    weft__request_settle(req, WEFT_OK, NULL);
}

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
