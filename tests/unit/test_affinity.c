/* test_affinity.c - where the progress thread runs: at home while no processor is free, else where it may. */
#include "affinity.h"
#include "skip.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define LOOKS 5 /* enough to be sure */

static char load_path[64];
static cpu_set_t given;
static size_t first, second; /* of the processors this thread was given */

static void write_load(int running)
{
    FILE *file = fopen(load_path, "w");
    assert_non_null(file);
    fprintf(file, "1.04 0.92 1.09 %d/94 2264\n", running);
    fclose(file);
}

static void look(weft__affinity *affinity, int caller, int times)
{
    const struct timespec between = {.tv_nsec = 3000000};
    while (times-- > 0) {
        nanosleep(&between, NULL);
        weft__affinity_go(affinity, caller);
    }
}

static void runs_on(int processor)
{
    cpu_set_t now;
    assert_int_equal(sched_getaffinity(0, sizeof now, &now), 0);
    if (processor < 0) {
        assert_true(CPU_EQUAL(&now, &given));
        return;
    }
    assert_int_equal(CPU_COUNT(&now), 1);
    assert_true(CPU_ISSET((size_t)processor, &now));
}

static int processors(void)
{
    return (int)sysconf(_SC_NPROCESSORS_ONLN);
}

static int set_up(void **state)
{
    int fd;
    (void)state;
    snprintf(load_path, sizeof load_path, "/tmp/weft-home-XXXXXX");
    fd = mkstemp(load_path);
    if (fd < 0) return -1;
    close(fd);
    if (sched_getaffinity(0, sizeof given, &given)) return -1;
    for (first = 0; first < CPU_SETSIZE && !CPU_ISSET(first, &given); first++) {
    }
    for (second = first + 1; second < CPU_SETSIZE && !CPU_ISSET(second, &given); second++) {
    }
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    unlink(load_path);
    return sched_setaffinity(0, sizeof given, &given);
}

static void reads_the_load(void **state)
{
    (void)state;
    assert_int_equal(weft__affinity_room_of("1.04 0.92 1.09 3/94 2264\n", 2), WEFT__ROOM_TAKEN);
    assert_int_equal(weft__affinity_room_of("1.04 0.92 1.09 2/94 2264\n", 2), WEFT__ROOM_FREE);
    assert_int_equal(weft__affinity_room_of("1.04 0.92 1.09 6/94 2264\n", 2), WEFT__ROOM_TAKEN);
    assert_int_equal(weft__affinity_room_of("1.04 0.92 1.09 7/94 2264\n", 2), WEFT__ROOM_CROWDED);
    assert_int_equal(weft__affinity_room_of("0.00 0.00 0.00 0/0 0\n", 1), WEFT__ROOM_FREE);
    assert_int_equal(weft__affinity_room_of("nonsense", 1), WEFT__ROOM_FREE);
    assert_int_equal(weft__affinity_room_of("", 1), WEFT__ROOM_FREE);
}

static void goes_home_and_leaves(void **state)
{
    weft__affinity affinity;
    (void)state;
    if (CPU_COUNT(&given) < 2) SKIP("one processor only");
    write_load(processors() + 1);
    weft__affinity_open(&affinity, load_path);
    look(&affinity, (int)first, 1);
    runs_on(-1); /* one look is not enough */
    look(&affinity, (int)first, LOOKS);
    runs_on((int)first);
    look(&affinity, (int)second, 1); /* its caller has moved */
    runs_on((int)second);
    write_load(processors());
    look(&affinity, (int)second, 1);
    runs_on((int)second);
    look(&affinity, (int)second, LOOKS);
    runs_on(-1);
    write_load(processors() + 1);
    look(&affinity, (int)first, LOOKS);
    runs_on((int)first);
    weft__affinity_leave(&affinity); /* for a while */
    runs_on(-1);
    look(&affinity, (int)first, 1);
    runs_on((int)first);
    weft__affinity_close(&affinity);
    look(&affinity, (int)second, LOOKS); /* closed: it stays */
    runs_on((int)first);
}

/* Where each thread waits for many, it is not bound to one processor: neither goes there nor stays. */
static void leaves_a_crowded_processor(void **state)
{
    weft__affinity affinity;
    (void)state;
    if (CPU_COUNT(&given) < 2) SKIP("one processor only");
    write_load(100 * processors());
    weft__affinity_open(&affinity, load_path);
    look(&affinity, (int)first, 2 * LOOKS);
    runs_on(-1);
    write_load(processors() + 1);
    look(&affinity, (int)first, LOOKS);
    runs_on((int)first);
    write_load(100 * processors());
    look(&affinity, (int)first, 1);
    runs_on(-1);
    write_load(processors() + 1);
    look(&affinity, (int)first, 1); /* as unsure as at first */
    runs_on(-1);
    weft__affinity_close(&affinity);
}

static void stays_without_a_reason(void **state)
{
    weft__affinity affinity;
    (void)state;
    if (CPU_COUNT(&given) < 2) SKIP("one processor only");
    write_load(processors() + 1);
    weft__affinity_open(&affinity, load_path);
    look(&affinity, -1, LOOKS); /* nobody has called */
    runs_on(-1);
    look(&affinity, CPU_SETSIZE, 1);
    runs_on(-1);
    weft__affinity_go(&affinity, (int)first); /* too soon after the last look */
    runs_on(-1);
    weft__affinity_close(&affinity);
    weft__affinity_open(&affinity, "/nonexistent/load");
    look(&affinity, (int)first, LOOKS);
    runs_on(-1);
    weft__affinity_close(&affinity);
}

static void stays_where_it_may_not_choose(void **state)
{
    weft__affinity affinity;
    cpu_set_t one;
    (void)state;
    CPU_ZERO(&one);
    CPU_SET(first, &one);
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    write_load(processors() + 1);
    weft__affinity_open(&affinity, load_path);
    look(&affinity, (int)second, LOOKS);
    runs_on((int)first);
    weft__affinity_close(&affinity);
}

static void ranks_belong_to_all_in_blocks(void **state)
{
    int n = CPU_COUNT(&given), before = -1, of[CPU_SETSIZE] = {0};
    (void)state;
    if (n < 2) SKIP("one processor only");
    for (int i = 0; i < 3 * n; i++) {
        int affinity = weft__affinity_of(i, 3 * n);
        assert_in_range(affinity, 0, CPU_SETSIZE - 1);
        assert_true(CPU_ISSET((size_t)affinity, &given));
        assert_true(affinity >= before); /* neighbours together */
        before = affinity;
        of[affinity]++;
    }
    for (int i = 0; i < CPU_SETSIZE; i++) assert_int_equal(of[i], CPU_ISSET((size_t)i, &given) ? 3 : 0);
}

static void one_who_may_not_choose_belongs_nowhere(void **state)
{
    cpu_set_t one;
    (void)state;
    CPU_ZERO(&one);
    CPU_SET(first, &one);
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    assert_int_equal(weft__affinity_of(1, 2), -1);
    if (second < CPU_SETSIZE) weft__affinity_return((int)second); /* not one of its own */
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    assert_int_equal(sched_getcpu(), first);
}

static void returns_and_stays_free(void **state)
{
    cpu_set_t one;
    (void)state;
    if (CPU_COUNT(&given) < 2) SKIP("one processor only");
    CPU_ZERO(&one);
    CPU_SET(first, &one);
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0); /* it is there */
    assert_int_equal(sched_setaffinity(0, sizeof given, &given), 0);
    weft__affinity_return((int)second);
    runs_on(-1);
    weft__affinity_return(-1);
    weft__affinity_return(CPU_SETSIZE - 1);
    runs_on(-1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_the_load),
        cmocka_unit_test_setup_teardown(goes_home_and_leaves, set_up, tear_down),
        cmocka_unit_test_setup_teardown(leaves_a_crowded_processor, set_up, tear_down),
        cmocka_unit_test_setup_teardown(stays_without_a_reason, set_up, tear_down),
        cmocka_unit_test_setup_teardown(stays_where_it_may_not_choose, set_up, tear_down),
        cmocka_unit_test_setup_teardown(ranks_belong_to_all_in_blocks, set_up, tear_down),
        cmocka_unit_test_setup_teardown(one_who_may_not_choose_belongs_nowhere, set_up, tear_down),
        cmocka_unit_test_setup_teardown(returns_and_stays_free, set_up, tear_down)};
    return cmocka_run_group_tests_name("home", tests, NULL, NULL);
}
