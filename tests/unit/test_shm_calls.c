/* test_shm_calls.c - rings that are made by the first word that goes through them: what memory they take, what
 * of a first word is never lost, and what becomes of it where no memory can be had. */
#include "region.h"
#include "shm_ranks.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGE = 4096, BLOCK = 512 };

/* What reserving pages says; 0: what the kernel does. */
static int shortage, interruptions, refused;

int __real_fallocate(int fd, int mode, off_t offset, off_t bytes);
int __wrap_fallocate(int fd, int mode, off_t offset, off_t bytes);
int __wrap_fallocate(int fd, int mode, off_t offset, off_t bytes)
{
    errno = shortage ? shortage : EINTR;
    refused += shortage != 0;
    if (shortage || (interruptions && interruptions--)) return -1;
    return __real_fallocate(fd, mode, offset, bytes);
}

static size_t taken_of(const weft__segment *segment)
{
    struct stat file;
    assert_int_equal(fstat(segment->memfd, &file), 0);
    return (size_t)file.st_blocks * BLOCK;
}

static int open_four(void **state)
{
    (void)state;
    shortage = interruptions = refused = 0;
    open_ranks(4);
    return 0;
}

/* Control pages, and for each direction in which anything was said one ring and the page that tells how far it was read. */
static void test_memory_follows_words(void **state)
{
    const weft__segment *segment = ranks[0].segment;
    size_t alone = 4 * segment->control_bytes, one = segment->ring_bytes + PAGE;
    packet p[3];
    (void)state;
    settle();
    assert_int_equal(taken_of(segment), alone);
    for (int i = 0; i < 3; i++) {
        give(0, 1, make(&p[i], i, 100000, true));
        settle();
        assert_int_equal(taken_of(segment), alone + one);
    }
    assert_int_equal(ranks[1].seen, 3);
    assert_true(weft__segment_has_called(ranks[1].segment, 0) &&
                !weft__segment_has_called(ranks[0].segment, 1));
    give(1, 0, make(&p[0], 0, 10, false));
    settle();
    assert_int_equal(taken_of(segment), alone + 2 * one);
    give(2, 1, make(&p[0], 0, 10, false)); /* rank 1 has such a page already */
    settle();
    assert_int_equal(taken_of(segment), alone + 2 * one + segment->ring_bytes);
    assert_int_equal(ranks[1].seen, 4);
}

static void test_flushed(void **state)
{
    packet p;
    weft__transport *t = ranks[0].transport;
    (void)state;
    assert_true(t->flushed(t, BOARD_WORLD(1)));
    give(0, 1, make(&p, 0, 10, false));
    assert_false(t->flushed(t, BOARD_WORLD(1)));
    settle();
    assert_true(t->flushed(t, BOARD_WORLD(1)));
}

/* Who sleeps is rung for the first word too, and who armed too late for that sees it. */
static void test_sleepers(void **state)
{
    packet p[2];
    uint64_t rung;
    (void)state;
    assert_false(ranks[1].transport->busy(ranks[1].transport));
    weft__bell_arm(ranks[1].segment);
    give(0, 1, make(&p[0], 0, 10, false));
    assert_int_equal(read(ranks[1].segment->peers[1].bell_fd, &rung, sizeof rung), sizeof rung);
    give(0, 2, make(&p[1], 1, 10, false));
    weft__bell_arm(ranks[2].segment);
    assert_true(ranks[2].transport->busy(ranks[2].transport));
    settle();
    assert_int_equal(ranks[1].seen, 1);
    assert_int_equal(ranks[2].seen, 1);
}

/* What a rank said first and last is read, though nobody has looked since. */
static void test_last_words(void **state)
{
    packet p;
    (void)state;
    give(1, 0, make(&p, 7, 100, false));
    ranks[0].transport->drop(ranks[0].transport, BOARD_WORLD(1));
    assert_int_equal(ranks[0].seen, 1);
    assert_int_equal(ranks[0].log[0].frame.tag, 7);
}

/* Waits, longer than until it is asked for again. */
static void settle_later(void)
{
    int64_t until = weft__deadline(weft__now_ns(), 250);
    while (weft__now_ns() < until) settle();
}

/* One peer's try stands for all, as long as memory is short. */
static void test_no_memory_for_many(void **state)
{
    packet p[3];
    int tries;
    (void)state;
    shortage = ENOSPC;
    for (int i = 0; i < 3; i++) give(0, i + 1, make(&p[i], i, 10, false));
    settle();
    assert_int_equal(refused, 1);
    settle_later();
    tries = refused;
    assert_in_range(tries, 2, 4);
    shortage = 0;
    settle_later();
    for (int i = 0; i < 3; i++) assert_int_equal(ranks[i + 1].seen, 1);
    assert_int_equal(refused, tries);
}

/* Frames wait for memory, in order, and nobody is lost; with those that have a ring all goes on. */
static void test_no_memory(void **state)
{
    weft__transport *t = ranks[0].transport;
    packet p[3], other[2];
    (void)state;
    give(0, 2, make(&other[0], 0, 10, false));
    shortage = ENOSPC;
    for (int i = 0; i < 3; i++) give(0, 1, make(&p[i], i, 10, false));
    give(0, 2, make(&other[1], 1, 10, false));
    settle_later();
    assert_int_equal(ranks[2].seen, 2);
    assert_int_equal(ranks[1].seen, 0);
    assert_int_equal(p[0].calls, 0);
    assert_non_null(t->want(t, BOARD_WORLD(1)));
    assert_null(t->want(t, BOARD_WORLD(2)));
    assert_true(t->busy(t)); /* nobody rings for memory */
    assert_false(t->flushed(t, BOARD_WORLD(1)));
    shortage = 0;
    settle_later();
    assert_int_equal(ranks[1].seen, 3);
    for (int i = 0; i < 3; i++) assert_int_equal(ranks[1].log[i].frame.tag, i);
    assert_null(t->want(t, BOARD_WORLD(1)));
    assert_false(t->busy(t));
    assert_int_equal(ranks[0].lost + ranks[1].lost, 0);
}

/* Who waits for nothing any more wants nothing: taken back, or the peer has gone. */
static void test_wants_no_more(void **state)
{
    weft__transport *t = ranks[0].transport;
    packet p[2];
    (void)state;
    shortage = ENOSPC;
    for (int i = 0; i < 2; i++) give(0, 1 + i, make(&p[i], i, 10, false));
    assert_true(t->busy(t));
    t->retract(t, &p[0].out);
    t->drop(t, BOARD_WORLD(2));
    assert_int_equal(p[1].status, WEFT_ERR_PEER);
    assert_false(t->busy(t));
    assert_null(t->want(t, BOARD_WORLD(1)));
    assert_null(t->want(t, BOARD_WORLD(2)));
}

/* A region's marks have pages before anybody may set one. */
static void test_marks(void **state)
{
    weft__regions *regions = weft__regions_new(ranks[0].segment);
    weft__region *region;
    (void)state;
    assert_non_null(regions);
    shortage = ENOSPC;
    assert_int_equal(weft__region_claim(regions, 10, &region), WEFT_ERR_MEMORY);
    shortage = 0;
    assert_int_equal(weft__region_claim(regions, 10, &region), WEFT_OK);
    assert_int_equal(taken_of(ranks[0].segment), 4 * ranks[0].segment->control_bytes + PAGE);
    weft__region_drop(regions, region);
    weft__regions_free(regions);
}

static void test_interrupted(void **state)
{
    packet p;
    (void)state;
    interruptions = 3;
    give(0, 1, make(&p, 0, 10, false));
    assert_int_equal(interruptions, 0);
    settle();
    assert_int_equal(ranks[1].seen, 1);
}

/* ---- as many processes as one host may have ------------------------------------------------------ */

/* More than fit into four words of who has called, and than shared memory before rings were made on demand; under sanitizers
 * so many processes would take minutes. */
enum { MANY = JOB_SLOWER > 1 ? 40 : 300, PARTNERS = JOB_SLOWER > 1 ? 6 : 9 };

static void open_one_of_many(rank *me, weft__segment *segment)
{
    static int local_of[BOARD_WORLD(MANY)];
    memset(me, 0, sizeof *me);
    for (int i = 0; i < BOARD_WORLD(MANY); i++) local_of[i] = -1;
    for (int i = 0; i < MANY; i++) local_of[BOARD_WORLD(i)] = i;
    me->sink = (weft__sink){.header = on_header, .arrived = on_arrived, .lost = on_lost};
    me->segment = segment;
    if (weft__shm_open(segment, local_of, BOARD_WORLD(MANY), true, &me->sink, &me->transport)) abort();
}

/* Sends to the ranks 1, 2, 4 and so on further, as schedules do, and hears from as many.  Nobody sleeps for long:
 * processors are few. */
static bool talk(rank *me)
{
    static packet p[PARTNERS];
    bool flushed = false;
    for (int i = 0; i < PARTNERS; i++) {
        int to = BOARD_WORLD((me->segment->rank + (1 << i)) % MANY);
        me->transport->send(me->transport, to, &make(&p[i], i, 1000, true)->out);
    }
    while (me->seen < PARTNERS || !flushed) {
        if (!me->transport->poll(me->transport, 64)) usleep(2000);
        flushed = true;
        for (int i = 0; i < PARTNERS; i++)
            flushed &=
                p[i].calls &&
                me->transport->flushed(me->transport, BOARD_WORLD((me->segment->rank + (1 << i)) % MANY));
    }
    for (int i = 0; i < PARTNERS; i++)
        if (me->log[i].sum != sum_of(source, 1000)) return false;
    return me->seen == PARTNERS && !me->lost;
}

static bool be_one_of_many(int r)
{
    weft__segment_config config = segment_config(r, MANY, JOB_WAIT_MS);
    weft__segment *segment;
    if (weft__segment_join(&config, &segment)) return false;
    open_one_of_many(&ranks[0], segment);
    if (!talk(&ranks[0])) return false;
    ranks[0].transport->close(ranks[0].transport); /* or who sent last would not hear that it was read */
    return true;
}

/* A ring for each of those that talk, and not for each pair, though there are more of those than of ranks by far. */
static void test_many_processes(void **state)
{
    struct rlimit limit;
    static pid_t pids[MANY];
    size_t taken, ring, rings = (size_t)MANY * PARTNERS;
    int status;
    (void)state;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = limit.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    segment_config(0, MANY, 0); /* names the job before the forks */
    for (int i = 1; i < MANY; i++) {
        pids[i] = fork();
        if (!pids[i]) _exit(!be_one_of_many(i));
        assert_true(pids[i] > 0);
    }
    assert_true(be_one_of_many(0));
    for (int i = 1; i < MANY; i++) {
        assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
        assert_int_equal(status, 0);
    }
    ring = ranks[0].segment->ring_bytes;
    taken = taken_of(ranks[0].segment) - MANY * ranks[0].segment->control_bytes;
    assert_in_range(taken, rings * ring, rings * (ring + PAGE));
    weft__segment_free(ranks[0].segment);
}

#define FOUR(test) cmocka_unit_test_setup_teardown(test, open_four, close_all)

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(
                                           test_many_processes), /* first: forks before there are threads */
                                       FOUR(test_memory_follows_words),
                                       FOUR(test_flushed),
                                       FOUR(test_sleepers),
                                       FOUR(test_last_words),
                                       FOUR(test_no_memory),
                                       FOUR(test_no_memory_for_many),
                                       FOUR(test_wants_no_more),
                                       FOUR(test_marks),
                                       FOUR(test_interrupted)};
    alarm(JOB_ALARM_S);
    return cmocka_run_group_tests_name("calls", tests, NULL, NULL);
}
