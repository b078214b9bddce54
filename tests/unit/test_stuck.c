/* test_stuck.c - the progress thread is not stuck in a module while it tells of a work and waits for the engine, however
 * long whoever has that gives up requests: the module (support/module_blocker.c) is not lost. */
#include "engine.h"
#include "executor.h"
#include "group.h"
#include "lone_rank.h"
#include "modules.h"

#include <dlfcn.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

enum { HELD_US = 700000 /* longer than a call may take */, PAUSE_US = 1000, LOOKS = 20000 };

static weft_context *ctx;

static _Atomic int *word_of(const char *name)
{
    _Atomic int *word;
    *(void **)&word = dlsym(ctx->modules[WEFT_MEMORY_CUDA].handle, name);
    assert_non_null(word);
    return word;
}

static weft_group *open_group(void)
{
    const int alone[] = {LONE_ME};
    weft_group *group;
    setenv("WEFT_MODULE_DIR", TEST_MODULE_DIR, 1);
    setenv("BLOCKER_KEEPS", "1", 1);
    ctx = lone_rank_open((lone_wires){NULL, NULL});
    group = lone_rank_group(ctx, alone, 1, "alone", 1);
    ctx->host_group = group;
    assert_int_equal(weft__modules_load(ctx, "host,blocker", -1, NULL), WEFT_OK);
    ctx->host_group = NULL;
    group->modules = 1U << WEFT_MEMORY_CUDA;
    return group;
}

static void turn(void)
{
    weft__engine_take(ctx);
    weft__engine_progress(ctx);
    weft__engine_drop(ctx);
    weft__module_progress(ctx);
    usleep(PAUSE_US);
}

static void *progress(void *arg)
{
    (void)arg;
    weft__module_progress(ctx);
    return NULL;
}

static void waits_for_the_engine(void **state)
{
    static int32_t data[2];
    const weft_call call = {.memory = WEFT_MEMORY_CUDA, .stream = WEFT_NO_STREAM};
    weft_group *group = open_group();
    weft_request *reqs[2];
    pthread_t thread;
    (void)state;
    for (int i = 0; i < 2; i++)
        assert_int_equal(weft_all_reduce(group, &data[i], &data[i], 1, WEFT_INT32, WEFT_SUM, &call, &reqs[i]),
                         WEFT_OK);
    for (int i = 0; i < LOOKS && *word_of("blocker_held") < 2; i++) turn();
    assert_int_equal(*word_of("blocker_held"), 2);
    for (int i = 0; i < 2; i++) weft_cancel(reqs[i]);
    *word_of("blocker_lets_go") = 1;
    weft__engine_take(ctx);
    assert_int_equal(pthread_create(&thread, NULL, progress, NULL), 0);
    usleep(HELD_US); /* it finishes the one kept last first */
    weft__executor_of(ctx, &reqs[0]->op)->abandon(reqs[0]);
    assert_false(ctx->modules[WEFT_MEMORY_CUDA].lost);
    weft__engine_drop(ctx);
    pthread_join(thread, NULL);
    for (int i = 0; i < 2; i++) {
        assert_true(weft_test(reqs[i]) < 0);
        weft_release(reqs[i]);
    }
    lone_rank_close(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(waits_for_the_engine)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
