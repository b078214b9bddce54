/* test_shm_broken.c - the shared memory transport: peers that go, and peers that write what no correct one
 * writes. */
#include "shm_ranks.h"

#include <unistd.h>

static void test_drop(void **state)
{
    packet there[3], queued[2], later;
    (void)state;
    for (int i = 0; i < 3; i++) give(1, 0, make(&there[i], i, 100, false));
    give(0, 1, make(&queued[0], 10, 262144, true));
    give(0, 1, make(&queued[1], 11, 10, true));
    ranks[0].transport->drop(ranks[0].transport, BOARD_WORLD(1));
    assert_int_equal(ranks[0].seen, 3); /* what had arrived is not lost */
    assert_int_equal(ranks[0].lost, 0);
    give(0, 1, make(&later, 12, 10, false));
    for (int i = 0; i < 2; i++) {
        assert_int_equal(queued[i].calls, 1);
        assert_int_equal(queued[i].status, WEFT_ERR_PEER);
    }
    assert_int_equal(later.status, WEFT_ERR_PEER);
    assert_true(ranks[0].transport->flushed(ranks[0].transport, BOARD_WORLD(1)));
    ranks[0].transport->drop(ranks[0].transport, BOARD_WORLD(1));
    assert_int_equal(look(0), 0);
    assert_false(ranks[0].transport->busy(ranks[0].transport));
}

static void drop_peer(rank *me, int peer)
{
    me->transport->drop(me->transport, peer);
}

static void test_drop_from_inside(void **state)
{
    packet p[2];
    (void)state;
    ranks[1].on_header = drop_peer;
    for (int i = 0; i < 2; i++) give(0, 1, make(&p[i], i, 100, false));
    settle();
    assert_int_equal(ranks[1].headers, 1);
    assert_int_equal(ranks[1].seen, 0);
}

/* Writes a record as rank 0 would, behind what it has written. */
static void forge(const weft__frame *frame, uint64_t at)
{
    char *ring = weft__segment_ring(ranks[0].segment, 1, 0);
    uint64_t first;
    assert_true(weft__segment_call(ranks[0].segment, 1));
    memcpy(&first, frame, sizeof first);
    memcpy(ring + at + 8, (const char *)frame + 8, 56);
    atomic_store((_Atomic uint64_t *)(void *)(ring + at), first);
}

static void expect_lost(const weft__frame *bad, uint64_t at, const char *why)
{
    packet waiting[3];
    for (int i = 0; i < 3; i++) give(1, 0, make(&waiting[i], i, 200000, true));
    forge(bad, at);
    look(1);
    look(1);
    assert_int_equal(ranks[1].lost, 1);
    assert_non_null(strstr(ranks[1].why, why));
    assert_int_equal(waiting[2].calls, 1);
    assert_int_equal(waiting[2].status, WEFT_ERR_PEER);
    look(1);
    assert_int_equal(ranks[1].lost, 1);
    give(1, 0, make(&waiting[0], 9, 8, false));
    assert_int_equal(waiting[0].status, WEFT_ERR_PEER);
}

static void test_broken_kind(void **state)
{
    weft__frame bad = {.kind = 77};
    (void)state;
    expect_lost(&bad, 0, "kind 77");
}

/* Found by one who looks at what comes next. */
static void test_broken_next(void **state)
{
    weft__frame bad = {.kind = 77};
    (void)state;
    assert_true(weft__segment_call(ranks[0].segment, 1));
    look(1); /* hears of it */
    forge(&bad, 0);
    assert_null(ranks[1].transport->next(ranks[1].transport, BOARD_WORLD(0)));
    assert_int_equal(ranks[1].lost, 1);
    assert_non_null(strstr(ranks[1].why, "kind 77"));
    assert_null(ranks[1].transport->next(ranks[1].transport, BOARD_WORLD(0)));
    look(1);
    assert_int_equal(ranks[1].lost, 1);
}

static void test_broken_length(void **state)
{
    weft__frame bad = {.kind = WEFT__FRAME_DATA, .length = 0x7fffffff};
    (void)state;
    expect_lost(&bad, 0, "the longest is");
    assert_int_equal(ranks[1].headers, 0);
}

static void test_broken_continuation(void **state)
{
    weft__frame bad = {.kind = 255};
    (void)state;
    expect_lost(&bad, 0, "kind 255"); /* continues nothing */
}

static void test_broken_middle(void **state)
{
    weft__frame half = {.kind = WEFT__FRAME_DATA, .length = 100000}, bad = {.kind = WEFT__FRAME_BYE};
    (void)state;
    forge(&half, 0);
    look(1);
    assert_int_equal(ranks[1].headers, 1);
    expect_lost(&bad, 64 + ranks[1].segment->ring_bytes / 4, "before the end");
    assert_int_equal(ranks[1].seen, 0);
}

static void test_broken_position(void **state)
{
    packet p[3];
    (void)state;
    atomic_store(weft__segment_taken(ranks[0].segment, 1, 0), 1u << 30);
    for (int i = 0; i < 3; i++) give(0, 1, make(&p[i], i, 150000, true));
    settle();
    assert_int_equal(ranks[0].lost, 1);
    assert_non_null(strstr(ranks[0].why, "never written"));
    for (int i = 1; i < 3; i++) assert_int_equal(p[i].status, WEFT_ERR_PEER);
}

/* A reader ends on any garbage: it runs out of it or refuses it, and stays inside the ring. */
static void test_garbage(void **state)
{
    weft__segment *segment = ranks[1].segment;
    char *ring = weft__segment_ring(segment, 1, 0);
    unsigned seed = 3;
    (void)state;
    assert_true(weft__segment_call(ranks[0].segment, 1));
    for (size_t i = 0; i < segment->ring_bytes; i += 64) {
        weft__frame f = {.kind = (uint8_t)(1 + rand_r(&seed) % 4), .length = 0};
        if (i % 4096 == 0) f.kind = WEFT__FRAME_DATA, f.length = (uint32_t)rand_r(&seed) % 3000;
        if (f.kind == WEFT__FRAME_DATA) f.bytes = (uint64_t)(unsigned)rand_r(&seed);
        memcpy(ring + i, &f, sizeof f);
    }
    memset(ring + segment->ring_bytes / 2, 0xff, 64);
    for (int i = 0; i < 10000 && !ranks[1].lost; i++) look(1);
    assert_int_equal(ranks[1].lost, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {TWO(test_drop),          TWO(test_drop_from_inside),
                                       TWO(test_broken_kind),   TWO(test_broken_next),
                                       TWO(test_broken_length), TWO(test_broken_continuation),
                                       TWO(test_broken_middle), TWO(test_broken_position),
                                       TWO(test_garbage)};
    alarm(JOB_ALARM_S);
    return cmocka_run_group_tests_name("shm_broken", tests, NULL, NULL);
}
