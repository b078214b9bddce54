/* test_ring.c - records of every size across the end of the ring, in order and whole; no
 * room means no write. */
#include "job.h"
#include "ring.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define RING_BYTES 16384u

typedef struct header {
    uint32_t mark, length; /* what is stored last */
    uint64_t number, rest[6];
} header;
_Static_assert(sizeof(header) == WEFT__RING_HEADER, "as a frame's");

static _Alignas(64) char memory[RING_BYTES + 128]; /* the last 128 must never change */
static _Atomic uint64_t taken;
static weft__ring writer, reader;

static int fresh(void **state)
{
    (void)state;
    memset(memory, 0, RING_BYTES);
    memset(memory + RING_BYTES, 0x5a, 128);
    atomic_store(&taken, 0);
    weft__ring_init(&writer, memory, RING_BYTES, &taken);
    weft__ring_init(&reader, memory, RING_BYTES, &taken);
    return 0;
}

static int unharmed(void **state)
{
    (void)state;
    for (size_t i = 0; i < 128; i++)
        if (memory[RING_BYTES + i] != 0x5a) return -1;
    return 0;
}

static void fill(unsigned char *payload, uint64_t number, size_t length)
{
    for (size_t i = 0; i < length; i++) payload[i] = (unsigned char)(number * 31 + i * 7 + i / 251);
}

static void put(uint64_t number, size_t length)
{
    unsigned char payload[RING_BYTES / 4] = {0}; /* a length of 0 fills nothing, which gcc notes */
    header h = {1, (uint32_t)length, number, {number, 1, 2, 3, 4, ~number}};
    fill(payload, number, length);
    weft__ring_put(&writer, &h, payload, length);
}

static void take(uint64_t number, size_t length)
{
    unsigned char payload[RING_BYTES / 4 + 1], wanted[RING_BYTES / 4];
    header h;
    assert_true(weft__ring_peek(&reader, &h));
    assert_int_equal(h.mark, 1);
    assert_int_equal(h.length, length);
    assert_true(h.number == number && h.rest[0] == number && h.rest[5] == ~number);
    payload[length] = 0x77;
    weft__ring_take(&reader, number % 16 == 5 ? NULL : payload, length);
    assert_int_equal(payload[length], 0x77);
    if (number % 16 == 5) return;
    fill(wanted, number, length);
    assert_memory_equal(payload, wanted, length);
}

/* Lengths are a pure function of the number, so that both ends know them. */
static size_t length_of(uint64_t number)
{
    unsigned seed = (unsigned)number * 2654435761u + 12345;
    size_t most = number % 7 ? 300 : RING_BYTES / 4;
    return (size_t)rand_r(&seed) % (most + 1);
}

static void test_wraps(void **state)
{
    uint64_t put_next = 0, take_next = 0;
    unsigned seed = 7;
    int full = 0;
    (void)state;
    while (take_next < 20000) {
        int burst = rand_r(&seed) % 40;
        while (burst-- && weft__ring_room(&writer, length_of(put_next)) == WEFT__RING_READY) {
            put(put_next, length_of(put_next));
            put_next++;
        }
        full += burst >= 0;
        burst = rand_r(&seed) % 40;
        while (burst-- && weft__ring_ready(&reader)) {
            take(take_next, length_of(take_next));
            take_next++;
        }
        assert_true(weft__ring_ready(&reader) == (take_next != put_next));
        if (weft__ring_untold(&reader) >= RING_BYTES / 4) weft__ring_tell(&reader);
    }
    assert_true(full > 100);
}

static void test_room(void **state)
{
    uint64_t n = 0;
    (void)state;
    while (weft__ring_room(&writer, 0) == WEFT__RING_READY) put(n++, 0);
    assert_int_equal(n, RING_BYTES / 64 - 1); /* one word behind the last record stays free */
    for (uint64_t i = 0; i < n; i++) take(i, 0);
    assert_false(weft__ring_ready(&reader));
    assert_int_equal(weft__ring_room(&writer, 0), WEFT__RING_WAIT); /* not told yet */
    weft__ring_tell(&reader);
    assert_int_equal(weft__ring_untold(&reader), 0);
    assert_int_equal(weft__ring_room(&writer, RING_BYTES / 4), WEFT__RING_READY);
}

static void test_impossible_position(void **state)
{
    uint64_t n = 0;
    (void)state;
    while (weft__ring_room(&writer, 1000) == WEFT__RING_READY) put(n++, 1000);
    atomic_store(&taken, writer.position + 64);
    assert_int_equal(weft__ring_room(&writer, 1000), WEFT__RING_BROKEN);
    atomic_store(&taken, 2048);
    assert_int_equal(weft__ring_room(&writer, 0), WEFT__RING_READY);
    put(n++, 0);
    atomic_store(&taken, 1024); /* backwards */
    assert_int_equal(weft__ring_room(&writer, 4096), WEFT__RING_BROKEN);
}

#define HAMMERED 30000u

static void *write_all(void *arg)
{
    for (uint64_t n = 0; n < HAMMERED; n++) {
        while (weft__ring_room(&writer, length_of(n)) != WEFT__RING_READY) sched_yield();
        put(n, length_of(n));
    }
    return arg;
}

static void test_two_threads(void **state)
{
    pthread_t thread;
    (void)state;
    assert_int_equal(pthread_create(&thread, NULL, write_all, NULL), 0);
    for (uint64_t n = 0; n < HAMMERED; n++) {
        while (!weft__ring_ready(&reader)) {
            if (weft__ring_untold(&reader)) weft__ring_tell(&reader);
            sched_yield();
        }
        take(n, length_of(n));
        if (weft__ring_untold(&reader) >= RING_BYTES / 4) weft__ring_tell(&reader);
    }
    pthread_join(thread, NULL);
    assert_false(weft__ring_ready(&reader));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test_setup_teardown(test_wraps, fresh, unharmed),
                                       cmocka_unit_test_setup_teardown(test_room, fresh, unharmed),
                                       cmocka_unit_test_setup_teardown(test_impossible_position, fresh,
                                                                       unharmed),
                                       cmocka_unit_test_setup_teardown(test_two_threads, fresh, unharmed)};
    alarm(JOB_ALARM_S);
    return cmocka_run_group_tests_name("ring", tests, NULL, NULL);
}
