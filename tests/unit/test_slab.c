/* test_slab.c - objects that are reused: two lists of free ones, one of them the lock's holder's alone. */
#include "slab.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>

enum { LIMIT = 3 * WEFT__SLAB_BLOCK, THREADS = 3, TURNS = 20000 };

typedef struct thing {
    weft__slab_item item;
    _Atomic int users;
    char body[100];
} thing;

static weft__slab slab;

static int open_slab(void **state)
{
    (void)state;
    return weft__slab_init(&slab, sizeof(thing), LIMIT - 1) ? 0 : -1; /* rounded up to whole blocks */
}

static int close_slab(void **state)
{
    (void)state;
    weft__slab_destroy(&slab);
    return 0;
}

static void test_limit(void **state)
{
    thing *all[LIMIT];
    (void)state;
    for (int i = 0; i < LIMIT; i++) {
        all[i] = weft__slab_get(&slab);
        assert_non_null(all[i]);
        assert_int_equal((uintptr_t)all[i] % 64, 0);
        assert_int_equal(all[i]->users, 0);
        all[i]->users = 1; /* twice the same would show */
        assert_ptr_equal(weft__slab_at(&slab, all[i]->item.index), all[i]);
    }
    assert_null(weft__slab_get(&slab));
    assert_null(weft__slab_get_locked(&slab));
    assert_null(weft__slab_at(&slab, LIMIT));
    weft__slab_put(&slab, all[7]);
    assert_ptr_equal(weft__slab_get(&slab), all[7]);
}

/* What the holder puts back is its own, and comes back to it without the shared list. */
static void test_kept(void **state)
{
    thing *mine, *other;
    (void)state;
    assert_false(weft__slab_has_locked(&slab));
    mine = weft__slab_get_locked(&slab);
    weft__slab_put_locked(&slab, mine);
    assert_true(weft__slab_has_locked(&slab));
    other = weft__slab_get(&slab);
    assert_ptr_not_equal(other, mine);
    assert_ptr_equal(weft__slab_get_locked(&slab), mine);
    assert_false(weft__slab_has_locked(&slab));
}

/* Taken without the lock and put back with it, again and again: no more are made than were ever in use. */
static void test_shared(void **state)
{
    (void)state;
    for (int i = 0; i < 10 * LIMIT; i++) {
        void *item = weft__slab_pop(&slab);
        if (!item) {
            item = weft__slab_get_locked(&slab);
            weft__slab_share(&slab);
        }
        assert_non_null(item);
        weft__slab_put_locked(&slab, item);
    }
    assert_int_equal(slab.made, WEFT__SLAB_BLOCK);
}

/* A block at a time: the holder keeps the rest. */
static void test_share_a_block(void **state)
{
    thing *all[2 * WEFT__SLAB_BLOCK];
    int n = 0;
    (void)state;
    for (int i = 0; i < 2 * WEFT__SLAB_BLOCK; i++) all[i] = weft__slab_get(&slab);
    for (int i = 0; i < 2 * WEFT__SLAB_BLOCK; i++) weft__slab_put_locked(&slab, all[i]);
    assert_null(weft__slab_pop(&slab));
    weft__slab_share(&slab);
    while (weft__slab_pop(&slab)) n++;
    assert_int_equal(n, WEFT__SLAB_BLOCK);
    assert_true(weft__slab_has_locked(&slab));
    weft__slab_share(&slab);
    assert_false(weft__slab_has_locked(&slab));
    weft__slab_share(&slab); /* none are left: nothing happens */
    while (weft__slab_pop(&slab)) n++;
    assert_int_equal(n, 2 * WEFT__SLAB_BLOCK);
}

static void *get_and_put(void *arg)
{
    _Atomic int *wrong = arg;
    for (int i = 0; i < TURNS; i++) {
        thing *mine = weft__slab_get(&slab);
        if (!mine || atomic_fetch_add(&mine->users, 1)) atomic_fetch_add(wrong, 1);
        if (!mine) continue;
        atomic_fetch_sub(&mine->users, 1);
        weft__slab_put(&slab, mine);
    }
    return NULL;
}

static void test_threads(void **state)
{
    pthread_t threads[THREADS];
    _Atomic int wrong = 0;
    (void)state;
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, get_and_put, &wrong), 0);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    assert_int_equal(wrong, 0);
    assert_int_equal(slab.made, WEFT__SLAB_BLOCK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_limit, open_slab, close_slab),
        cmocka_unit_test_setup_teardown(test_kept, open_slab, close_slab),
        cmocka_unit_test_setup_teardown(test_shared, open_slab, close_slab),
        cmocka_unit_test_setup_teardown(test_share_a_block, open_slab, close_slab),
        cmocka_unit_test_setup_teardown(test_threads, open_slab, close_slab),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
