/* test_entries.c - ranks that tell what no correct rank tells, in the collectives that make something: the
 * parent breaks, and the sentence has the value and what was expected. */
#include "engine.h"
#include "entries.h"
#include "executor.h"
#include "group.h"
#include "lone_rank.h"
#include "mesh.h"
#include "protocol.h"
#include "terms.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

enum { LIAR = 4, BYTES = 8192 };

typedef union entry {
    weft__split_entry split;
    weft__mesh_entry mesh;
    weft__memory_entry memory;
} entry;

typedef struct lie {
    void (*tell)(entry *told);
    int liar; /* 0: LIAR */
    const char *sentence;
} lie;

static weft_context *ctx;
static weft_group *world;
static const lie *lies;

static void correct(entry *told, weft__kind kind, int rank)
{
    uint64_t number = (uint64_t)(rank + 1) << 40 | 64;
    if (kind == WEFT__OP_SPLIT_GROUP) {
        told->split.id = number;
    } else if (kind == WEFT__OP_MESH_CREATE) {
        told->mesh.first_group = number;
    } else {
        told->memory.region.offset = 0;
    }
}

/* In place of what moves the entries. */
static void end_collective(void)
{
    WEFT__LIST_EACH(&ctx->pending, at)
    {
        weft_request *req = WEFT__LIST_ENTRY(at, weft_request, pending);
        int liar = lies->liar ? lies->liar : LIAR;
        if (!req->continuation) continue;
        assert_true(req->op.kind == WEFT__OP_MEM_ALLOC || req->op.count <= 24); /* of each rank, on each */
        req->executor->stop(req);
        for (int i = 0; i < LONE_WORLD; i++) {
            entry told;
            memcpy(&told, req->op.in, req->op.count);
            if (i != LONE_ME) correct(&told, req->op.kind, i);
            if (i == liar && lies->tell) lies->tell(&told);
            memcpy((char *)req->op.out + (size_t)i * req->op.count, &told, req->op.count);
        }
        req->continuation->finish(req);
        return;
    }
}

static void begin(const lie *told)
{
    const int all[] = {0, 1, 2, 3, 4};
    ctx = lone_rank_open((lone_wires){.turn = end_collective});
    world = ctx->world = lone_rank_group(ctx, all, LONE_WORLD, "world", 1);
    lies = told;
}

/* Ends well where nobody lies. */
static void end(weft_status status, const char *why)
{
    if (!lies->sentence) {
        assert_int_equal(status, WEFT_OK);
    } else {
        assert_int_equal(status, WEFT_ERR_PEER);
        assert_non_null(strstr(why, lies->sentence));
        assert_non_null(strstr(why, "(host host, pid "));
        assert_int_equal(weft_group_status(world), WEFT_ERR_PEER);
    }
}

static void color(entry *e)
{
    e->split.color = -7;
}
static void on_device(entry *e)
{
    e->split.on_device = 16;
}
static void id_of_another(entry *e)
{
    e->split.id = (uint64_t)2 << 40 | 9;
}
static void split_program(entry *e)
{
    e->split.program = 2;
}

static void test_split(void **state)
{
    static const lie all[] = {
        {NULL, 0, NULL},
        {color, 0, "told of color -7: expected -1 or more"},
        {on_device, 0, "told of on_device 16: expected a bit for each kind of memory, 15 at most"},
        {id_of_another, 0, "told of group numbers from 0x20000000009, 1 of them: expected those of rank 4"},
        {split_program, 0, "told of program order 2: expected 0 or 1"}};
    (void)state;
    for (size_t i = 0; i < WEFT__LENGTH(all); i++) {
        weft_group *group = NULL;
        weft_request *req;
        begin(&all[i]);
        assert_int_equal(weft_split_group(world, 0, 0, NULL, &group, &req), WEFT_OK);
        weft__engine_take(ctx);
        weft__engine_progress(ctx);
        weft__engine_drop(ctx);
        end(weft_test(req), weft_request_message(req));
        weft_release(req);
        weft_group_free(group);
        lone_rank_close(ctx);
    }
}

static void first_overflows(entry *e)
{
    e->mesh.first_group = ((uint64_t)6 << 40) - 2;
}
static void first_of_another(entry *e)
{
    e->mesh.first_group = (uint64_t)2 << 40 | 1;
}
static void mesh_program(entry *e)
{
    e->mesh.program = UINT64_MAX;
}

static void test_mesh(void **state)
{
    static const lie all[] = {
        {NULL, 0, NULL},
        {first_overflows, 0, "told of group numbers from 0x5fffffffffe, 4 of them: expected those of rank 4"},
        {first_of_another, 0,
         "told of group numbers from 0x20000000001, 4 of them: expected those of rank 4"},
        {mesh_program, 0, "told of program order 18446744073709551615: expected 0 or 1"}};
    (void)state;
    for (size_t i = 0; i < WEFT__LENGTH(all); i++) {
        weft_mesh *mesh = NULL;
        weft_request *req;
        begin(&all[i]);
        assert_int_equal(weft_mesh_create(world, "a=5,b=1", NULL, &mesh, &req), WEFT_OK);
        weft__engine_take(ctx);
        weft__engine_progress(ctx);
        weft__engine_drop(ctx);
        end(weft_test(req), weft_request_message(req));
        weft_release(req);
        weft_mesh_free(mesh);
        lone_rank_close(ctx);
    }
}

static void kind(entry *e)
{
    e->memory.kind = 77;
}
static void status_pending(entry *e)
{
    e->memory.status = WEFT_PENDING;
}
static void place(entry *e)
{
    e->memory.region.index = WEFT__REGIONS_MAX;
}
static void generation(entry *e)
{
    e->memory.region.generation = 0;
}
static void bytes_more(entry *e)
{
    e->memory.region.bytes = (uint64_t)1 << 40;
}
static void bytes_at_most(entry *e)
{
    e->memory.bytes = e->memory.region.bytes = UINT64_MAX;
}
static void past_end(entry *e)
{
    e->memory.region.offset = (uint64_t)1 << 50;
}
static void control_pages(entry *e)
{
    e->memory.region.offset = 4096;
}
static void no_page(entry *e)
{
    e->memory.region.offset = ((uint64_t)1 << 40) + 8;
}
static void another_range(entry *e)
{
    e->memory.region.offset = (uint64_t)3 << 45;
}

static void test_memory(void **state)
{
    static const lie all[] = {
        {NULL, 0, NULL},
        {kind, 0, "told of memory of kind 77: expected 1 to 3"},
        {status_pending, 0, "told of status 1: expected 0 or a failure"},
        {place, 0, "told of a region at place 256, generation 1: expected less than 256, and 1 or more"},
        {generation, 0, "told of a region at place 0, generation 0: expected less than 256, and 1 or more"},
        {bytes_more, 0,
         "told of a region of 1099511627776 bytes for 8192: expected whole pages of 4096, no more"},
        {bytes_at_most, 0,
         "told of a region of 18446744073709551615 bytes for 18446744073709551615: expected"},
        {past_end, LONE_NEAR, "told of a region of 8192 bytes at 1125899906842624: expected whole pages of "},
        {control_pages, LONE_NEAR, "told of a region of 8192 bytes at 4096: expected whole pages of "},
        {no_page, LONE_NEAR, "told of a region of 8192 bytes at 1099511627784: expected whole pages of "},
        {another_range, LONE_NEAR,
         "told of a region of 8192 bytes at 105553116266496: expected whole pages "},
        {past_end, 0, NULL}}; /* on another host: of no use here */
    (void)state;
    for (size_t i = 0; i < WEFT__LENGTH(all); i++) {
        void *at = NULL;
        weft_status status;
        begin(&all[i]);
        status = weft_mem_alloc(world, BYTES, WEFT_MEMORY_HOST, &at);
        end(status, weft_last_error());
        if (status == WEFT_OK) assert_int_equal(weft_mem_free(world, at), WEFT_OK);
        lone_rank_close(ctx);
    }
}

/* Ranks that are set up alike have one record, whichever of them it was first told of. */
static void test_terms(void **state)
{
    weft__group_params other;
    (void)state;
    begin(&(lie){0});
    other = weft__terms_of(ctx, LIAR);
    assert_int_equal(other.lowest, LIAR);
    assert_int_equal(ctx->terms.count, 1);
    other.slot_bytes++;
    assert_int_equal(weft__terms_told(ctx, 1, &other), WEFT_OK);
    assert_int_equal(weft__terms_told(ctx, 3, &other), WEFT_OK);
    assert_int_equal(ctx->terms.count, 2);
    assert_int_equal(weft__terms_of(ctx, 3).slot_bytes, weft__terms_of(ctx, 2).slot_bytes + 1);
    assert_int_equal(weft__terms_of(ctx, 3).lowest, 3);
    lone_rank_close(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_terms),
        cmocka_unit_test(test_split),
        cmocka_unit_test(test_mesh),
        cmocka_unit_test(test_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
