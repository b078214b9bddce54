/* test_mesh_grids.c - a mesh for which ranks ask unlike: each tells a hash of its grid, and the two that are named tell each
 * other the rest.  One rank, and the others are played. */
#include "engine.h"
#include "entries.h"
#include "executor.h"
#include "group.h"
#include "group_break.h"
#include "lone_rank.h"
#include "mesh.h"
#include "peer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

enum { WORD_AT = 16, WORD_BYTES = WORD_AT + WEFT__GRID_TEXT, GROUP = 1, ENTRY_MOST = 24 };

static weft_context *ctx;
static weft_group *group;
static weft_mesh *mesh;
static weft_request *req;
static const char *asked[LONE_WORLD]; /* by member, the others' grids */

static char told[WORD_BYTES]; /* the last word about a grid */
static int told_to;           /* that rank; -1: there was none */

static void note_sent(const weft__outgoing *out)
{
    if (out->frame.kind != WEFT__FRAME_CONTROL || out->frame.tag != WEFT__MESSAGE_MESH_GRID) return;
    assert_int_equal(out->frame.length, WORD_BYTES);
    memcpy(told, out->payload, WORD_BYTES);
    told_to = out->peer;
}

/* The group is of all ranks, in that order. */
static void begin(const int order[LONE_WORLD], const char *mine)
{
    ctx = lone_rank_open((lone_wires){.sent = note_sent});
    group = ctx->world = lone_rank_group(ctx, order, LONE_WORLD, "world", GROUP);
    told_to = -1;
    for (int i = 0; i < LONE_WORLD; i++) asked[i] = "a=5,b=1";
    assert_int_equal(weft_mesh_create(group, mine, NULL, &mesh, &req), WEFT_OK);
    weft__engine_take(ctx);
    weft__engine_progress(ctx);
    weft__engine_drop(ctx);
    assert_int_equal(weft_test(req), WEFT_PENDING);
    assert_true(req->op.count <= ENTRY_MOST); /* of each rank, on each */
}

static void end(void)
{
    weft_release(req);
    weft_mesh_free(mesh);
    lone_rank_close(ctx);
}

/* What the others were asked for comes in. */
static void gather(void)
{
    weft__mesh_entry *all = req->op.out;
    weft__engine_take(ctx);
    req->executor->stop(req);
    for (int i = 0; i < LONE_WORLD; i++) {
        weft__grid grid;
        if (i == group->rank) {
            all[i] = *(const weft__mesh_entry *)req->op.in;
            continue;
        }
        assert_int_equal(weft__grid_parse(asked[i], LONE_WORLD, &grid), WEFT_OK);
        all[i] = (weft__mesh_entry){.grid = weft__grid_hash(&grid),
                                    .first_group = (uint64_t)(group->world[i] + 1) << 40 | 64};
    }
    req->continuation->finish(req);
    weft__engine_drop(ctx);
}

static void hear(int member, const void *word, size_t length)
{
    weft__engine_take(ctx);
    weft__mesh_protocol.message(ctx, group->world[member], WEFT__MESSAGE_MESH_GRID, word, length);
    weft__engine_drop(ctx);
}

/* GRID as that member says it of this mesh. */
static void hear_grid(int member, const char *text)
{
    char word[WORD_BYTES] = {0};
    const uint64_t of[2] = {GROUP, req->sequence};
    memcpy(word, of, sizeof of);
    memcpy(word + WORD_AT, text, strnlen(text, WEFT__GRID_TEXT));
    hear(member, word, sizeof word);
}

static void ends_in(weft_status status, const char *text)
{
    assert_int_equal(weft_test(req), status);
    assert_non_null(strstr(weft_request_message(req), text));
    assert_int_equal(weft_group_status(group), status);
    assert_null(weft_mesh_group(mesh, "a"));
}

static const int in_order[] = {0, 1, 2, 3, 4}, me_first[] = {LONE_ME, 0, 1, 2, 4};

/* Who is the lowest with another grid than member 0 tells that its own, and all wait for what member 0 says. */
static void test_the_other_tells_the_first(void **state)
{
    const uint64_t of[2] = {GROUP, 1};
    (void)state;
    begin(in_order, "x=5");
    gather();
    assert_int_equal(told_to, 0);
    assert_memory_equal(told, of, sizeof of);
    assert_string_equal(told + WORD_AT, "x=5");
    assert_int_equal(weft_test(req), WEFT_PENDING);
    assert_int_equal(weft_group_status(group), WEFT_OK);
    end();
}

/* Nobody else says anything. */
static void test_others_wait(void **state)
{
    (void)state;
    begin(in_order, "x=5");
    asked[2] = "y=5"; /* it is the lower one */
    gather();
    assert_int_equal(told_to, -1);
    assert_int_equal(weft_test(req), WEFT_PENDING);
    weft__engine_take(ctx);
    weft__group_break(group, &(weft__verdict){WEFT_ERR_MISMATCH, req->sequence, -1, "as member 0 says"},
                      false);
    weft__engine_drop(ctx);
    ends_in(WEFT_ERR_MISMATCH, "as member 0 says");
    end();
}

/* One of the two dies before all is said. */
static void test_death_of_the_first(void **state)
{
    (void)state;
    begin(in_order, "x=5");
    gather();
    weft__engine_take(ctx);
    weft__groups_lose(ctx, 0);
    weft__engine_drop(ctx);
    ends_in(WEFT_ERR_PEER, "rank 0");
    end();
}

static void test_the_first_names_both(void **state)
{
    (void)state;
    for (int before = 0; before < 2; before++) { /* the word comes before its own gather has ended */
        begin(me_first, "a=-1,b=1");
        asked[2] = asked[4] = "x=5";
        if (before) hear_grid(2, "x=5");
        if (before) assert_int_equal(weft_test(req), WEFT_PENDING);
        gather();
        if (!before) assert_int_equal(weft_test(req), WEFT_PENDING);
        if (!before) hear_grid(2, "x=5");
        ends_in(WEFT_ERR_MISMATCH, "rank 3 passed \"a=5,b=1\", rank 1 passed \"x=5\"");
        assert_int_equal(told_to, -1);
        end();
    }
}

/* What no correct rank tells. */
static void test_words_that_are_wrong(void **state)
{
    static char endless[WEFT__GRID_TEXT];
    char word[WORD_BYTES] = {0};
    static const struct {
        const char *text, *sentence;
    } lies[] = {{"y=5", "told of the grid \"y=5\": expected another one, by the hash that it told before"},
                {"x=4", "told of axes is \"x=4\""},
                {"", "told of axes is \"\""},
                {endless, "told of a grid without an end"}};
    (void)state;
    memset(endless, 'x', sizeof endless);
    for (size_t i = 0; i < WEFT__LENGTH(lies); i++) {
        begin(me_first, "a=5,b=1");
        asked[2] = "x=5";
        gather();
        hear_grid(2, lies[i].text);
        ends_in(WEFT_ERR_PEER, lies[i].sentence);
        end();
    }
    begin(me_first, "a=5,b=1");
    asked[2] = "x=5";
    gather();
    hear(2, word, sizeof word - 1);
    assert_true(atomic_load(&ctx->peers[group->world[2]].refused));
    hear(2, word, sizeof word); /* of no mesh */
    hear_grid(1, "x=5");        /* by one that asks for the same */
    assert_int_equal(weft_test(req), WEFT_PENDING);
    hear_grid(2, "x=5");
    ends_in(WEFT_ERR_MISMATCH, "rank 1 passed \"x=5\"");
    end();
    begin(in_order, "x=5"); /* to one that is not member 0 */
    hear_grid(4, "a=5");
    assert_true(atomic_load(&ctx->peers[4].refused));
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_other_tells_the_first), cmocka_unit_test(test_others_wait),
        cmocka_unit_test(test_death_of_the_first),        cmocka_unit_test(test_the_first_names_both),
        cmocka_unit_test(test_words_that_are_wrong),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
