/* test_exposed.c - what NCCL sends from host to host by itself: that it is told, once, where the job's own connections are
 * encrypted; and where there is nothing to tell. */
#include "device.h"

#include <stdatomic.h>
#include <string.h>
#include <weft/cuda.h>

static const weft_call on_device = {.stream = WEFT_NO_STREAM, .memory = WEFT_MEMORY_CUDA};

enum { WARNINGS = 1, INFOS = 2 }; /* levels of lines */

static _Atomic int lines[4]; /* by level, those that are of it */

static void note(int level, const char *line, void *arg)
{
    (void)arg;
    if (level >= 0 && level < 4 && strstr(line, "over its sockets")) atomic_fetch_add(&lines[level], 1);
}

/* Ranks of two hosts, or of one, with a device each. */
static void join_as(job_rank *me, const char *version, bool hosts, const char *wire, bool secret)
{
    job_setenv(me, "CUDA_EMULATION_NCCL_VERSION", version);
    if (hosts) job_setenv(me, "WEFT_HOSTID", me->rank % 2 ? "odd" : "even");
    job_setenv(me, "WEFT_WIRE", wire);
    job_setenv(me, "WEFT_LOG", "2");
    job_setenv(me, "EXPOSED_SECRET", "0123456789abcdef0123456789abcdef");
    if (secret) job_setenv(me, "WEFT_SECRET", "env:EXPOSED_SECRET");
    weft_set_log(note, NULL);
    job_join(me);
}

/* Also a second communicator of the same ranks; the first rank of each tells. */
static void are_told(job_rank *me, int level)
{
    weft_group *other = job_group(me, me->size, "other", 0);
    CHECK_OK(weft_barrier(me->world, &on_device, NULL));
    CHECK_OK(weft_barrier(other, &on_device, NULL));
    CHECK_OK(weft_group_free(other));
    weft_set_log(NULL, NULL); /* which hands over what there is */
    for (int i = 0; i < 4; i++) CHECK_INT(atomic_load(&lines[i]), i == level && me->rank == 0);
    job_meet(me);
}

static void one_that_encrypts_nothing(job_rank *me)
{
    if (!device_is_emulated()) return;
    join_as(me, "21903", true, "auto", true);
    are_told(me, WARNINGS);
}

static void one_that_can(job_rank *me)
{
    if (!device_is_emulated()) return;
    join_as(me, "23203", true, "encrypted", true);
    are_told(me, INFOS);
}

static void nothing_to_tell(job_rank *me)
{
    if (!device_is_emulated()) return;
    if (!strcmp(me->arg, "plain"))
        join_as(me, "21903", true, "plain", true);
    else if (!strcmp(me->arg, "one host"))
        join_as(me, "21903", false, "auto", true);
    else
        join_as(me, "21903", true, "auto", false);
    are_told(me, -1);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        JOB_TEST("an NCCL that encrypts nothing", .ranks = 4, .processes = true, .bare = true,
                 .body = one_that_encrypts_nothing),
        JOB_TEST("an NCCL that can encrypt", .ranks = 2, .processes = true, .bare = true,
                 .body = one_that_can),
        JOB_TEST("a wire that is plain", .ranks = 2, .processes = true, .bare = true, .body = nothing_to_tell,
                 .arg = "plain"),
        JOB_TEST("one host", .ranks = 2, .processes = true, .bare = true, .body = nothing_to_tell,
                 .arg = "one host"),
        JOB_TEST("no secret", .ranks = 2, .processes = true, .bare = true, .body = nothing_to_tell,
                 .arg = "no secret"),
    };
    return JOB_MAIN(tests, argc, argv);
}
