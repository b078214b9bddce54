/* test_module_splits.c - communicators that are split off others: in what order with the works, what stops them, and whose end
 * is whose. */
#include "module_ranks.h"

enum { N = SUMMED, SHORT_MS = 30 };

static void splits(job_rank *me)
{
    weft_backend *b = module_load(me);
    bool part = me->rank < 3;
    owner o, half = {0}, pair = {0};
    join_all(me, b, &o, "all");
    sum_works(me, b, &o, me->size);
    if (part) half.comm = b->open(b, &half, me->rank, 3, "three", false);
    b->split(o.comm, part ? half.comm : NULL, part ? 0 : -1, me->rank);
    sum_works(me, b, &o, me->size); /* comes after the split, on every rank */
    pair.comm = b->open(b, &pair, me->rank / 2, 2, "pair", false);
    b->split(o.comm, pair.comm, me->rank % 2, me->rank);
    if (part) await_word(&half.joined);
    CHECK_OK(half.status);
    await_word(&pair.joined);
    CHECK_OK(pair.status);
    b->drop(o.comm);
    if (part) sum_works(me, b, &half, 3);
    sum_works(me, b, &pair, 2);
    if (part) b->drop(half.comm);
    b->drop(pair.comm);
    b->close(b);
}

/* NCCL may hang when a communicator is split that works: the split waits for what came before it, and what
 * comes after waits for the split, but not the thread that brings it. */
static void splits_while_it_works(job_rank *me)
{
    weft_backend *b = module_load(me);
    float *one = to_device(NULL, sizeof *one * N), *two = to_device(NULL, sizeof *two * N),
          *three = to_device(NULL, sizeof *three * N);
    owner o, other, pair = {0};
    task before, after, beside;
    join_all(me, b, &o, "works");
    join_all(me, b, &other, "beside");
    before = sum_task(me, &o, one);
    after = sum_task(me, &o, two);
    beside = sum_task(me, &other, three);
    pair.comm = b->open(b, &pair, me->rank, 2, "pair", false);
    job_meet(me);
    if (me->rank == 1) job_await(me, 0, 1);
    start(b, &before);
    b->split(o.comm, pair.comm, 0, me->rank);
    start(b, &after);
    start(b, &beside);
    if (me->rank == 0) {
        for (int i = 0; i < SHORT_MS; i++, job_sleep_ms(1)) b->poll(b);
        CHECK(!atomic_load(&after.issued) && !atomic_load(&beside.issued) && !atomic_load(&pair.joined));
        job_mark(me, 0);
    }
    poll_until_over(b, &before);
    poll_until_over(b, &after);
    poll_until_over(b, &beside);
    CHECK_OK(before.status);
    CHECK_OK(after.status);
    CHECK_OK(beside.status);
    await_word(&pair.joined);
    CHECK_OK(pair.status);
    sum_works(me, b, &pair, 2);
    b->drop(pair.comm);
    b->drop(other.comm);
    b->drop(o.comm);
    b->close(b);
}

/* Works that wait for a split end with their communicator, whatever waits before them. */
static void stopped_while_waiting(job_rank *me)
{
    weft_backend *b = module_load(me);
    float *one = to_device(NULL, sizeof *one * N), *two = to_device(NULL, sizeof *two * N);
    owner o, other, child = {0};
    task first, second;
    join_all(me, b, &o, "parent");
    join_all(me, b, &other, "other");
    if (me->rank == 0) {
        child.comm = b->open(b, &child, 0, 2, "child", false);
        b->split(o.comm, child.comm, 0, 0);
        await_calls("ncclCommSplit", 1);
        first = sum_task(me, &o, one);
        second = sum_task(me, &other, two);
        start(b, &first);
        start(b, &second);
        CHECK(!atomic_load(&first.issued) && !atomic_load(&second.issued));
        b->doom(other.comm, "the other's time was up");
        poll_until_over(b, &second);
        CHECK_STATUS(WEFT_ERR_BROKEN, second.status);
        CHECK_TEXT(second.sentence, "the other's time was up");
        CHECK(!atomic_load(&first.over));
        b->doom(child.comm, "one does not come");
        poll_until_over(b, &first);
        CHECK_TEXT(first.sentence, "communicator child");
        await_word(&child.joined);
        b->drop(child.comm);
    }
    job_meet(me);
    b->drop(other.comm);
    b->drop(o.comm);
    b->close(b);
}

/* A split that one rank does not come to is stopped, and its parent with it: NCCL has no other way. */
static void split_that_hangs(job_rank *me)
{
    weft_backend *b = module_load(me);
    owner o, child = {0};
    task t;
    join_all(me, b, &o, "parent");
    if (me->rank == 0) {
        child.comm = b->open(b, &child, 0, 2, "child", false);
        b->split(o.comm, child.comm, 0, 0);
        await_calls("ncclCommSplit", 1);
        CHECK(!atomic_load(&child.joined));
        b->doom(child.comm, "one does not come");
        await_word(&child.joined);
        CHECK_STATUS(WEFT_ERR_BROKEN, child.status);
        CHECK_TEXT(child.sentence, "one does not come");
        t = new_task(me, &o, WEFT_BACKEND_BARRIER);
        start(b, &t);
        CHECK(atomic_load(&t.over));
        CHECK_TEXT(t.sentence, "communicator child");
        b->drop(child.comm);
    }
    job_meet(me);
    b->drop(o.comm);
    b->close(b);
}

/* NCCL refuses to end the parent, and is done with the split later: what it writes the handle to is there still. */
static void split_that_cannot_be_ended(job_rank *me)
{
    weft_backend *b = module_load(me);
    owner o, child = {0};
    join_all(me, b, &o, "parent");
    child.comm = b->open(b, &child, me->rank, 2, "child", false);
    if (me->rank == 0) {
        emu_script("ncclCommRevoke@1=error:1;ncclCommAbort@1=error:1");
        b->split(o.comm, child.comm, 0, 0);
        await_calls("ncclCommSplit", 1);
        b->doom(child.comm, "one does not come");
        await_word(&child.joined);
        CHECK_STATUS(WEFT_ERR_BROKEN, child.status);
        await_calls("ncclCommAbort", 1);
        b->drop(child.comm);
        b->drop(o.comm);
        job_sleep_ms(SHORT_MS);
        job_mark(me, 0);
        job_meet(me);
        b->close(b);
        CHECK(atomic_load(&leaves_behind));
        return;
    }
    job_await(me, 0, 1);
    b->split(o.comm, child.comm, 0, 1);
    await_word(&child.joined);
    job_meet(me);
    b->drop(child.comm);
    b->drop(o.comm);
    b->close(b);
}

/* Who lets go of what is not split off yet has nothing against its parent, which lives. */
static void dropped_before(job_rank *me)
{
    weft_backend *b;
    owner o, child = {0};
    if (me->arg) job_setenv(me, "WEFT_NCCL_SHARE", "1");
    b = module_load(me);
    join_all(me, b, &o, "parent");
    if (me->rank == 1) job_await(me, 0, 1);
    child.comm = b->open(b, &child, me->rank, 2, "child", false);
    b->split(o.comm, child.comm, 0, me->rank);
    b->drop(child.comm);
    if (me->rank == 0) job_mark(me, 0);
    sum_works(me, b, &o, 2);
    b->drop(o.comm);
    b->close(b);
}

/* With shared resources an abort of the child would end the parent's kernels without a
 * word: it is stopped. */
static void shared_end(job_rank *me)
{
    weft_backend *b;
    owner o, child = {0};
    task t;
    if (me->arg) job_setenv(me, "WEFT_NCCL_SHARE", "1");
    b = module_load(me);
    join_all(me, b, &o, "parent");
    child.comm = b->open(b, &child, me->rank, 2, "child", false);
    b->split(o.comm, child.comm, 0, me->rank);
    await_word(&child.joined);
    CHECK_OK(child.status);
    sum_works(me, b, &child, 2);
    job_meet(me);
    b->doom(child.comm, "stop");
    if (!me->arg) {
        sum_works(me, b, &o, 2);
    } else {
        t = new_task(me, &o, WEFT_BACKEND_BARRIER);
        start(b, &t);
        poll_until_over(b, &t);
        CHECK_STATUS(WEFT_ERR_BROKEN, t.status);
        CHECK_TEXT(t.sentence, "shares resources");
    }
    b->drop(child.comm);
    b->drop(o.comm);
    b->close(b);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        JOB_TEST("splits, in order with the works", .ranks = 4, .bare = true, .body = splits),
        JOB_TEST("a split of a communicator that works", .ranks = 2, .bare = true, .processes = true,
                 .body = splits_while_it_works),
        JOB_TEST("what waits for a split is stopped", .ranks = 2, .bare = true, .processes = true,
                 .body = stopped_while_waiting),
        JOB_TEST("a split that one rank does not come to", .ranks = 2, .bare = true,
                 .body = split_that_hangs),
        JOB_TEST("likewise, and NCCL refuses to end it", .ranks = 2, .bare = true, .processes = true,
                 .body = split_that_cannot_be_ended),
        JOB_TEST("let go of before it is split off", .ranks = 2, .bare = true, .body = dropped_before),
        JOB_TEST("likewise, and resources are shared", .ranks = 2, .bare = true, .processes = true,
                 .arg = "share", .body = dropped_before),
        JOB_TEST("the end of what is split off is its own", .ranks = 2, .bare = true, .body = shared_end),
        JOB_TEST("unless resources are shared", .ranks = 2, .bare = true, .processes = true, .arg = "share",
                 .body = shared_end),
    };
    return JOB_MAIN(tests, argc, argv);
}
