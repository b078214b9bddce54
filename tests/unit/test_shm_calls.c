/* test_shm_calls.c - rings that are made by the first word that goes through them: what memory they take, what
 * of a first word is never lost, and what becomes of it where no memory can be had. */
#include "mem_available.h"
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
static bool machine_is_full; /* as far as can be read of it */
static size_t spare;         /* but for so many bytes */

int __real_fallocate(int fd, int mode, off_t offset, off_t bytes);
int __wrap_fallocate(int fd, int mode, off_t offset, off_t bytes);
int __wrap_fallocate(int fd, int mode, off_t offset, off_t bytes)
{
    errno = shortage ? shortage : EINTR;
    refused += shortage != 0;
    if (shortage || (interruptions && interruptions--)) return -1;
    return __real_fallocate(fd, mode, offset, bytes);
}

uint64_t __real_weft__mem_available(void);
uint64_t __wrap_weft__mem_available(void);
uint64_t __wrap_weft__mem_available(void)
{
    return machine_is_full ? WEFT__MEM_KEEP + spare : __real_weft__mem_available();
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
    machine_is_full = false;
    spare = 0;
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

/* The kernel would rather kill somebody than refuse: nothing is asked of it that cannot be had. */
static void test_full_machine(void **state)
{
    size_t before = taken_of(ranks[0].segment);
    packet p[2];
    (void)state;
    machine_is_full = true;
    give(0, 1, make(&p[0], 0, 10, false));
    settle();
    assert_int_equal(taken_of(ranks[0].segment), before);
    assert_non_null(ranks[0].transport->want(ranks[0].transport, BOARD_WORLD(1)));
    machine_is_full = false;
    settle_later();
    assert_int_equal(ranks[1].seen, 1);
    machine_is_full = true; /* what was there when it was looked is for more than one */
    give(0, 2, make(&p[1], 1, 10, false));
    settle();
    assert_int_equal(ranks[2].seen, 1);
}

/* For one there is enough. */
static void test_nearly_full_machine(void **state)
{
    packet p[2];
    (void)state;
    machine_is_full = true;
    spare = ranks[0].segment->ring_bytes + PAGE;
    give(0, 1, make(&p[0], 0, 10, false));
    settle();
    assert_int_equal(ranks[1].seen, 1);
    assert_null(ranks[0].transport->want(ranks[0].transport, BOARD_WORLD(1)));
}

/* Somebody may look at any time for another reason, and with that what was to be looked at later is asked for anew. */
static void test_when_to_look_is_told_in_each_poll(void **state)
{
    weft__transport *t = ranks[0].transport;
    packet p;
    (void)state;
    shortage = ENOSPC;
    give(0, 1, make(&p, 0, 10, false));
    for (int i = 0; i < 3; i++) {
        int before = ranks[0].lacks;
        t->poll(t, 64);
        assert_int_equal(ranks[0].lacks, before + 1);
        assert_true(ranks[0].lacks_until_ns > weft__now_ns() - WEFT__MS * JOB_LATE_MS);
    }
    t->retract(t, &p.out);
}

/* At most so many tries since then, one each 100 ms, however slow this machine is. */
static int tries_since(int64_t began_ns)
{
    return 2 + (int)((weft__now_ns() - began_ns) / (100 * WEFT__MS));
}

/* One peer's try stands for all, as long as memory is short. */
static void test_no_memory_for_many(void **state)
{
    static packet p[3];
    int64_t began = weft__now_ns();
    int tries;
    (void)state;
    shortage = ENOSPC;
    for (int i = 0; i < 3; i++) give(0, i + 1, make(&p[i], i, 10, false));
    settle();
    assert_in_range(refused, 1, tries_since(began));
    settle_later();
    assert_in_range(refused, 2, tries_since(began));
    assert_true(ranks[0].lacks >= refused); /* each tells when the next one is due */
    for (int i = 0; i < 100; i++) {         /* that one gives up brings the next try no nearer */
        ranks[0].transport->retract(ranks[0].transport, &p[0].out);
        give(0, 1, make(&p[0], 0, 10, false));
    }
    assert_in_range(refused, 2, tries_since(began));
    tries = refused;
    shortage = 0;
    settle_later();
    for (int i = 0; i < 3; i++) assert_int_equal(ranks[i + 1].seen, 1);
    assert_int_equal(refused, tries);
}

/* Frames wait for memory, in order, and nobody is lost; with those that have a ring all goes on. */
static void test_no_memory(void **state)
{
    weft__transport *t = ranks[0].transport;
    static packet p[3], other[2];
    (void)state;
    give(0, 2, make(&other[0], 0, 10, false));
    shortage = ENOSPC;
    for (int i = 0; i < 3; i++) give(0, 1, make(&p[i], i, 10, false));
    give(0, 2, make(&other[1], 1, 10, false));
    settle_later();
    assert_int_equal(ranks[2].seen, 2);
    assert_int_equal(ranks[1].seen, 0);
    assert_int_equal(p[0].calls, 0);
    assert_in_range(ranks[0].lacks_until_ns, weft__now_ns() - WEFT__MS * JOB_LATE_MS,
                    weft__now_ns() + 100 * WEFT__MS);
    assert_non_null(t->want(t, BOARD_WORLD(1)));
    assert_null(t->want(t, BOARD_WORLD(2)));
    assert_false(t->busy(t)); /* nothing is to be done before that time */
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
    assert_non_null(t->want(t, BOARD_WORLD(1)));
    t->retract(t, &p[0].out);
    t->drop(t, BOARD_WORLD(2));
    assert_int_equal(p[1].status, WEFT_ERR_PEER);
    assert_false(t->busy(t));
    assert_null(t->want(t, BOARD_WORLD(1)));
    assert_null(t->want(t, BOARD_WORLD(2)));
}

/* ---- goodbyes to those without a ring ----------------------------------------------------------- */

/* All is told without any memory for it, also where there is none; once, and with what was said. */
static void test_goodbye(void **state)
{
    weft__transport *t = ranks[1].transport;
    size_t before = taken_of(ranks[0].segment);
    (void)state;
    shortage = ENOSPC;
    t->leave(t, WEFT_ERR_CANCELLED, "has something to say");
    settle();
    assert_int_equal(ranks[0].left, 0); /* nobody has been told yet */
    t->tell_left(t, BOARD_WORLD(0));
    for (int i = 0; i < 2; i++) settle();
    assert_int_equal(ranks[0].left, 1);
    assert_int_equal(ranks[0].left_status, WEFT_ERR_CANCELLED);
    assert_string_equal(ranks[0].why, "has something to say");
    assert_int_equal(ranks[2].left + ranks[3].left, 0);
    ranks[0].transport->drop(ranks[0].transport, BOARD_WORLD(1));
    assert_int_equal(ranks[0].left, 1);
    assert_int_equal(taken_of(ranks[0].segment), before);
    assert_int_equal(refused, 0);
}

static void test_goodbye_to_a_sleeper(void **state)
{
    weft__transport *t = ranks[1].transport;
    uint64_t rung;
    (void)state;
    weft__bell_arm(ranks[0].segment);
    t->leave(t, WEFT_OK, "");
    t->tell_left(t, BOARD_WORLD(0));
    assert_int_equal(read(ranks[0].segment->peers[0].bell_fd, &rung, sizeof rung), sizeof rung);
    t->tell_left(t, BOARD_WORLD(2));
    weft__bell_arm(ranks[2].segment);
    assert_true(ranks[2].transport->busy(ranks[2].transport));
}

/* Who sees its process end finds that it had left; and who had not, has not. */
static void test_found_as_it_ends(void **state)
{
    const weft__transport *t = ranks[0].transport;
    (void)state;
    ranks[1].transport->leave(ranks[1].transport, WEFT_OK, "");
    assert_true(t->has_left(t, BOARD_WORLD(1)));
    ranks[0].transport->drop(ranks[0].transport, BOARD_WORLD(1));
    assert_int_equal(ranks[0].left, 1);
    assert_int_equal(ranks[0].left_status, WEFT_OK);
    assert_false(t->has_left(t, BOARD_WORLD(2)));
    ranks[0].transport->drop(ranks[0].transport, BOARD_WORLD(2));
    assert_int_equal(ranks[0].left, 1);
}

/* One that had a ring to here would have said it there: it has ended before. */
static void test_ended_amid_its_goodbyes(void **state)
{
    packet p;
    (void)state;
    give(1, 0, make(&p, 7, 100, false));
    ranks[1].transport->leave(ranks[1].transport, WEFT_OK, "");
    ranks[0].transport->drop(ranks[0].transport, BOARD_WORLD(1));
    assert_int_equal(ranks[0].seen, 1);
    assert_int_equal(ranks[0].left, 0);
}

/* What it says has no end, as a broken peer may write it. */
static void test_endless_goodbye(void **state)
{
    char why[WEFT__SENTENCE_BYTES];
    weft_status status = WEFT_OK;
    (void)state;
    memset(why, 'x', sizeof why);
    why[sizeof why - 1] = 0;
    weft__segment_leave(ranks[1].segment, (weft_status)-77, why);
    /* The last byte of that text: in front of the board of this rank, but for what rounds up to whole pages. */
    for (char *at = (char *)ranks[1].segment->peers[1].control;
         at < (char *)weft__segment_board(ranks[1].segment, 1); at++)
        if (at[-1] == 'x' && !*at) *at = 'y';
    assert_true(weft__segment_has_left(ranks[0].segment, 1, &status, why));
    assert_int_equal(strlen(why), WEFT__SENTENCE_BYTES - 1);
    assert_int_equal(status, -77);
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
                                       FOUR(test_full_machine),
                                       FOUR(test_nearly_full_machine),
                                       FOUR(test_when_to_look_is_told_in_each_poll),
                                       FOUR(test_goodbye),
                                       FOUR(test_goodbye_to_a_sleeper),
                                       FOUR(test_found_as_it_ends),
                                       FOUR(test_ended_amid_its_goodbyes),
                                       FOUR(test_endless_goodbye),
                                       FOUR(test_wants_no_more),
                                       FOUR(test_marks),
                                       FOUR(test_interrupted)};
    alarm(JOB_ALARM_S);
    return cmocka_run_group_tests_name("calls", tests, NULL, NULL);
}
