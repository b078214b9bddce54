/* test_run_bind.c - the order in which weft-run --bind gives cores and NUMA nodes to ranks, on machines that hwloc is
 * told of. */
#include "run_bind.h"

#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct run_cores cores;

static void allow(int from, int to)
{
    cores.n = 0;
    for (int c = from; c <= to; c++) cores.core[cores.n++] = c;
}

/* "0 2 4" for spots of one processor each, "0,1 2,3" for larger ones. */
static const char *shown(const struct run_spots *spots, int ranks)
{
    static char text[1000];
    size_t used = 0;
    *text = '\0';
    for (int r = 0; r < ranks; r++) {
        const struct run_spot *spot = run_spots_of(spots, r, ranks);
        const char *between = r ? " " : "";
        for (size_t c = 0; c < RUN_CORES_MAX; c++)
            if (CPU_ISSET_S(c, sizeof(spot->set), (const cpu_set_t *)(const void *)spot->set)) {
                used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%zu", between, c);
                between = ",";
            }
    }
    return text;
}

static void expect(const char *machine, enum run_bind bind, int ranks, const char *wanted)
{
    struct run_spots spots;
    char sentence[500] = "";
    assert_int_equal(setenv("HWLOC_SYNTHETIC", machine, 1), 0);
    if (!run_spots_find(&spots, bind, &cores, sentence, sizeof(sentence))) fail_msg("%s", sentence);
    assert_string_equal(shown(&spots, ranks), wanted);
    run_spots_free(&spots);
}

#ifdef WEFT_HWLOC
static void cores_before_their_siblings(void **state)
{
    (void)state;
    allow(0, 7);
    expect("pack:2 core:2 pu:2", RUN_BIND_CORE, 8, "0 2 4 6 1 3 5 7");
    expect("pack:2 core:2 pu:2", RUN_BIND_CORE, 10, "0 2 4 6 1 3 5 7 0 2");
    expect("pack:2 core:4 pu:1", RUN_BIND_CORE, 8, "0 1 2 3 4 5 6 7");
    /* The system's numbers go from package to package, as they often do; ranks fill one package first. */
    expect("pack:2 core:2 pu:2(indexes=0,4,2,6,1,5,3,7)", RUN_BIND_CORE, 8, "0 2 1 3 4 6 5 7");
}

static void only_what_is_allowed(void **state)
{
    (void)state;
    allow(1, 4);
    expect("pack:2 core:2 pu:2", RUN_BIND_CORE, 4, "1 2 4 3");
    expect("pack:2 [numa] core:2 pu:2", RUN_BIND_NUMA, 2, "1,2,3 4");
}

static void nodes_in_blocks(void **state)
{
    (void)state;
    allow(0, 7);
    expect("pack:2 [numa] core:2 pu:2", RUN_BIND_NUMA, 4, "0,1,2,3 0,1,2,3 4,5,6,7 4,5,6,7");
    expect("pack:2 [numa] core:2 pu:2", RUN_BIND_NUMA, 3, "0,1,2,3 0,1,2,3 4,5,6,7");
    expect("pack:2 [numa] core:2 pu:2", RUN_BIND_NUMA, 1, "0,1,2,3");
    expect("pack:1 core:8 pu:1", RUN_BIND_NUMA, 1, "0,1,2,3,4,5,6,7");
}

static void a_place_is_named(void **state)
{
    struct run_spots spots;
    char sentence[500];
    (void)state;
    allow(0, 7);
    setenv("HWLOC_SYNTHETIC", "pack:2 [numa] core:2 pu:2", 1);
    assert_true(run_spots_find(&spots, RUN_BIND_CORE, &cores, sentence, sizeof(sentence)));
    assert_string_equal(spots.spot[3].text, "core 3 of NUMA node 1, package 1: processor 6");
    run_spots_free(&spots);
    assert_true(run_spots_find(&spots, RUN_BIND_NUMA, &cores, sentence, sizeof(sentence)));
    assert_string_equal(spots.spot[1].text, "NUMA node 1: processors 4-7");
    run_spots_free(&spots);
}
#else
static void processors_by_number(void **state)
{
    struct run_spots spots;
    char sentence[500];
    (void)state;
    allow(2, 4);
    expect("", RUN_BIND_CORE, 4, "2 3 4 2");
    assert_false(run_spots_find(&spots, RUN_BIND_NUMA, &cores, sentence, sizeof(sentence)));
    assert_non_null(strstr(sentence, "built without hwloc"));
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
#ifdef WEFT_HWLOC
        cmocka_unit_test(cores_before_their_siblings),
        cmocka_unit_test(only_what_is_allowed),
        cmocka_unit_test(nodes_in_blocks),
        cmocka_unit_test(a_place_is_named),
#else
        cmocka_unit_test(processors_by_number),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
