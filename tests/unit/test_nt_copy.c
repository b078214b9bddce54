/* test_nt_copy.c - copies to where another processor reads: every byte, and no other, before it is told of.
 * The litmus test ends by the clock: LITMUS_MS in litmus.h. */
#include "litmus.h"
#include "nt_copy.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ROOM (4 * WEFT__NT_COPY_BYTES)

static unsigned char from[ROOM], to[ROOM];
static unsigned seed = 1;

static int setup(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof from; i++) from[i] = (unsigned char)rand_r(&seed);
    return 0;
}

static void only_these_written(size_t start, size_t bytes)
{
    assert_memory_equal(to + start, from + 1, bytes);
    for (size_t i = 0; i < sizeof to; i++)
        if (i < start || i >= start + bytes) assert_int_equal(to[i], 0xa5);
}

static void test_stream_copy(void **state)
{
    (void)state;
    for (size_t start = 0; start < 130; start += 13)
        for (size_t bytes = 0; bytes <= 1000; bytes += 83) {
            memset(to, 0xa5, sizeof to);
            weft__stream_copy(to + start, from + 1, bytes);
            only_these_written(start, bytes);
        }
}

/* Whatever it holds the way for, and through the changes from one to the other. */
static void test_copies(void **state)
{
    weft__nt_copy near = {0}, far = {.far = true, .left = 3};
    (void)state;
    for (int i = 0; i < 200; i++) {
        weft__nt_copy *nt_copy = i % 2 ? &near : &far;
        size_t bytes = WEFT__NT_COPY_BYTES / 2 + (size_t)rand_r(&seed) % (2 * WEFT__NT_COPY_BYTES);
        size_t start = (size_t)rand_r(&seed) % 100;
        memset(to, 0xa5, sizeof to);
        weft__nt_copy_bytes(nt_copy, to + start, from + 1, bytes);
        only_these_written(start, bytes);
    }
}

/* A way that is held for far is tried again after a while, and short copies tell nothing. */
static void test_tried_again(void **state)
{
    weft__nt_copy nt_copy = {.far = true, .left = 5};
    (void)state;
    weft__nt_copy_bytes(&nt_copy, to, from, WEFT__NT_COPY_BYTES - 1);
    assert_int_equal(nt_copy.left, 5);
    for (unsigned i = 5; i-- > 0;) {
        weft__nt_copy_bytes(&nt_copy, to, from, WEFT__NT_COPY_BYTES);
        assert_true(nt_copy.far);
        assert_int_equal(nt_copy.left, i);
    }
    weft__nt_copy_bytes(&nt_copy, to, from, WEFT__NT_COPY_BYTES);
    assert_true(nt_copy.left > 5);
}

/* ---- what is told of is there: a litmus test, as litmus.h has them --------------------------------- */

enum { LINES = 8, LINE_WORDS = 8 };

typedef struct parcel {
    _Alignas(LITMUS_LINE) uint64_t copy[LINES][LINE_WORDS];
    _Alignas(LITMUS_LINE) _Atomic uint64_t told;
} parcel;

static void write_and_tell(litmus *l, int who)
{
    parcel *p = l->shared;
    uint64_t block[LINES][LINE_WORDS];
    unsigned lengths = 1;
    for (uint64_t round = 1;; round++) {
        size_t lines = 1 + (size_t)rand_r(&lengths) % LINES;
        for (size_t i = 0; i < LINES; i++)
            for (size_t k = 0; k < LINE_WORDS; k++) block[i][k] = round;
        if (!litmus_meet(l, who, round)) break;
        weft__stream_copy(p->copy[LINES - lines], block, lines * sizeof *block);
        atomic_store_explicit(&p->told, round, memory_order_release);
    }
}

/* From the end, which was written last.  Before that round every line is here, as it was. */
static void read_when_told(litmus *l, int who)
{
    parcel *p = l->shared;
    unsigned lengths = 1;
    for (uint64_t round = 1; litmus_meet(l, who, round); round++) {
        size_t lines = 1 + (size_t)rand_r(&lengths) % LINES;
        while (atomic_load_explicit(&p->told, memory_order_acquire) < round) {
        }
        for (size_t i = LINES; i-- > LINES - lines;)
            for (size_t k = LINE_WORDS; k-- > 0;)
                if (p->copy[i][k] != round) {
                    litmus_wrong(l);
                    break;
                }
    }
}

static void test_told_of(void **state)
{
    parcel *p = litmus_share(sizeof *p);
    (void)state;
    assert_true(litmus_run("stream_copy", LITMUS_THREADS, p, write_and_tell, read_when_told) == 0);
    memset(p, 0, sizeof *p);
    assert_true(litmus_run("stream_copy", LITMUS_PROCESSES, p, write_and_tell, read_when_told) == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_stream_copy), cmocka_unit_test(test_copies),
                                       cmocka_unit_test(test_tried_again), cmocka_unit_test(test_told_of)};
    alarm(600);
    return cmocka_run_group_tests_name("crossing", tests, setup, NULL);
}
