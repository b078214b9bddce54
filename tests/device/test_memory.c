/* test_memory.c - weft_mem_alloc on devices: what it is, what may be done in it, and how it fails. */
#include "device.h"
#include "program.h"

#include <stdlib.h>
#include <string.h>
#include <weft/cuda.h>

enum { RANKS = 3, BYTES = 1 << 20, COUNT = BYTES / 4 };

static int32_t *allocate(weft_group *group, size_t bytes)
{
    void *memory = NULL;
    CHECK_OK(weft_mem_alloc(group, bytes, WEFT_MEMORY_CUDA, &memory));
    CHECK(memory && (uintptr_t)memory % 64 == 0);
    return memory;
}

/* first, first + step, ...: `count` numbers. */
static void put_numbers(int32_t *at, int count, int32_t first, int32_t step)
{
    int32_t *image = malloc((size_t)count * sizeof *image);
    CHECK(image);
    for (int i = 0; i < count; i++) image[i] = first + i * step;
    job_put(at, image, (size_t)count * sizeof *image);
    free(image);
}

static void check_numbers(const int32_t *at, int count, int32_t first, int32_t step)
{
    int32_t *image = malloc((size_t)count * sizeof *image);
    int wrong = 0;
    CHECK(image);
    job_get(image, at, (size_t)count * sizeof *image);
    for (int i = 0; i < count; i++) wrong += image[i] != first + i * step;
    free(image);
    CHECK_INT(wrong, 0);
}

static void zeroed(job_rank *me)
{
    static const int counts[] = {1, 16, 1000, 3 << 18};
    int32_t *memory[4];
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 4; i++) {
            memory[i] = allocate(me->world, (size_t)counts[i] * sizeof(int32_t));
            check_numbers(memory[i], counts[i], 0, 0);
            put_numbers(memory[i], counts[i], me->rank + i, 1);
        }
        for (int i = 0; i < 4; i++) check_numbers(memory[i], counts[i], me->rank + i, 1);
        for (int i = 4; i-- > 0;) CHECK_OK(weft_mem_free(me->world, memory[i]));
    }
    job_sum_works(me->world);
}

/* Any range of it is a buffer, on its group, on others and beside memory of other kinds. */
static void buffers(job_rank *me)
{
    int32_t *memory = allocate(me->world, 2 * BYTES), *plain = job_buffer(me, BYTES);
    weft_group *second = job_group(me, RANKS, "second", 0);
    for (int round = 0; round < 4; round++) {
        weft_group *group = round % 2 ? second : me->world;
        int offset = round * 7, count = COUNT - 100;
        int32_t *out = round < 2 ? memory + COUNT : plain;
        put_numbers(memory + offset, count, me->rank, 1);
        CHECK_OK(
            weft_all_reduce(group, memory + offset, out, (size_t)count, WEFT_INT32, WEFT_SUM, NULL, NULL));
        check_numbers(out, count, RANKS * (RANKS - 1) / 2, RANKS);
        CHECK_OK(
            weft_broadcast(group, memory + offset, (size_t)count, WEFT_INT32, round % RANKS, NULL, NULL));
        check_numbers(memory + offset, count, round % RANKS, 1);
    }
    CHECK_OK(weft_mem_free(me->world, memory));
}

static void freeing(job_rank *me)
{
    int32_t *memory = allocate(me->world, BYTES), *other = job_buffer(me, sizeof *other);
    weft_request *req = NULL;
    CHECK_STATUS(WEFT_ERR_ARGUMENT, weft_mem_free(me->world, other));
    CHECK_STATUS(WEFT_ERR_ARGUMENT, weft_mem_free(me->world, memory + 1024));
    CHECK_OK(weft_irecv(me->world, memory + 250, 1, WEFT_INT32, 1 - me->rank, 3, NULL, &req));
    CHECK_STATUS(WEFT_ERR_STATE, weft_mem_free(me->world, memory));
    CHECK_TEXT(weft_last_error(), "irecv #1");
    job_meet(me);
    CHECK_OK(weft_isend(me->world, other, 1, WEFT_INT32, 1 - me->rank, 3, NULL, NULL));
    WAIT_OK(req);
    CHECK_OK(weft_mem_free(me->world, memory));
    CHECK_STATUS(WEFT_ERR_ARGUMENT, weft_mem_free(me->world, memory));
    job_sum_works(me->world);
}

/* What is not freed goes with the context; so does what only one rank has freed. */
static void left(job_rank *me)
{
    int32_t *memory = allocate(me->world, BYTES);
    allocate(me->world, 64);
    if (me->rank == 0) {
        CHECK_OK(weft_mem_free(me->world, memory));
    }
    job_sum_works(me->world);
}

static void mismatch(job_rank *me)
{
    void *memory = NULL;
    weft_group *group = job_group(me, RANKS, "sizes", 0);
    CHECK_STATUS(WEFT_ERR_MISMATCH,
                 weft_mem_alloc(group, me->rank == 1 ? 2000 : 1000, WEFT_MEMORY_CUDA, &memory));
    CHECK_TEXT(weft_last_error(), "rank 1 passed 2000 bytes");
    CHECK_STATUS(WEFT_ERR_MISMATCH, weft_group_status(group));
    job_meet(me);
    group = job_group(me, RANKS, "kinds", 0);
    CHECK_STATUS(WEFT_ERR_MISMATCH,
                 weft_mem_alloc(group, 1000, me->rank == 1 ? WEFT_MEMORY_HOST : WEFT_MEMORY_CUDA, &memory));
    CHECK(!memory);
    job_meet(me);
    job_sum_works(me->world);
}

static void late(job_rank *me)
{
    void *memory = NULL;
    weft_group *group = job_group(me, RANKS, "late", job_short_ms());
    job_meet(me);
    if (me->rank != 1) {
        int64_t before = job_results(me, me->rank)[0] = job_now_ns();
        CHECK_STATUS(WEFT_ERR_TIMEOUT, weft_mem_alloc(group, BYTES, WEFT_MEMORY_CUDA, &memory));
        CHECK_PERIOD(job_earliest(me, 0), job_now_ns(), job_short_ms(), INT32_MAX);
        CHECK_PERIOD(before, job_now_ns(), 0, job_short_ms() + job_late_ms());
        CHECK_TEXT(weft_last_error(), "mem_alloc #1");
        CHECK_NAMES(weft_last_error(), 1U << 1, RANKS);
        CHECK(!memory);
    }
    job_meet(me);
    job_sum_works(me->world);
}

/* More than the device has: an error on all ranks, and nothing is lost by it. */
static void too_much(job_rank *me)
{
    void *memory = NULL;
    weft_group *group = job_group(me, RANKS, "much", 0);
    CHECK(weft_mem_alloc(group, (size_t)1 << 50, WEFT_MEMORY_CUDA, &memory) < 0);
    CHECK_TEXT(weft_last_error(), "mem_alloc #1");
    CHECK(!memory);
    CHECK_OK(weft_mem_free(me->world, allocate(me->world, BYTES)));
    job_sum_works(me->world);
}

/* A window is of all ranks or none, and CUDA's own allocator gives memory that cannot be one. */
static void of_another_allocator(job_rank *me)
{
    enum { ODD = 1 };
    weft_group *group = job_group(me, RANKS, "mixed", job_wait_ms());
    weft_nccl_window window = NULL;
    size_t offset = 0;
    int32_t *memory, *again;
    if (!device_is_emulated()) return;
    job_meet(me);
    if (me->rank == ODD) device()->emu_script("dev1:ncclMemAlloc@1=error:1");
    job_meet(me);
    memory = allocate(group, BYTES);
    again = allocate(group, BYTES);
    put_numbers(memory, COUNT, me->rank, 1);
    put_numbers(again, COUNT, me->rank, 1);
    CHECK_OK(weft_all_reduce(group, memory, again, COUNT, WEFT_INT32, WEFT_SUM, NULL, NULL));
    check_numbers(again, COUNT, RANKS * (RANKS - 1) / 2, RANKS);
    CHECK_STATUS(WEFT_ERR_UNSUPPORTED, weft_mem_window(group, memory, &window, &offset));
    if (weft_mem_window(group, again, &window, &offset) != WEFT_OK) /* without NCCL there never is one */
        CHECK(strstr(weft_last_error(), "has no windows") ||
              strstr(weft_last_error(), "no backend of this context is NCCL"));
    CHECK_OK(weft_mem_free(group, memory));
    CHECK_OK(weft_mem_free(group, again));
    job_meet(me);
    if (me->rank == ODD) device()->emu_script(NULL);
    job_sum_works(me->world);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        JOB_TEST("zeroed", .ranks = RANKS, .body = zeroed),
        JOB_TEST("buffers", .ranks = RANKS, .body = buffers),
        JOB_TEST("freeing", .ranks = 2, .body = freeing),
        JOB_TEST("what is left", .ranks = RANKS, .body = left),
        JOB_TEST("mismatch", .ranks = RANKS, .body = mismatch),
        JOB_TEST("late", .ranks = RANKS, .body = late),
        JOB_TEST("too much", .ranks = RANKS, .body = too_much),
        JOB_TEST("of another allocator", .ranks = RANKS, .body = of_another_allocator),
        JOB_TEST("random program in it", .ranks = RANKS, .body = program_run,
                 .arg = &(program){21, 1, 150, true}),
    };
    return JOB_MAIN(tests, argc, argv);
}
