/* test_registered.c - memory that NCCL reaches directly: what the program registers with a group, and the windows of
 * weft_mem_alloc for its kernels. */
#include "device.h"
#include "program.h"

#include <weft/cuda.h>

enum { RANKS = 3, COUNT = 1000, BYTES = COUNT * 4, FAR = 2, PEER = 0x1000 };

/* NCCL 2.29's, which the module finds in the program where NCCL has it not: a kernel of this device reaches all ranks
 * but FAR. */
__attribute__((visibility("default"))) int ncclGetPeerDevicePointer(void *window, size_t offset, int peer,
                                                                    void **there);
int ncclGetPeerDevicePointer(void *window, size_t offset, int peer, void **there)
{
    *there = peer == FAR ? NULL : (char *)window + offset + PEER * (peer + 1);
    return 0;
}

static const weft_call plain = {.stream = WEFT_NO_STREAM};
static const weft_call on_device = {.stream = WEFT_NO_STREAM, .memory = WEFT_MEMORY_CUDA};

static void check_sum(weft_group *group, int32_t *at)
{
    int32_t image[COUNT];
    int wrong = 0;
    for (int i = 0; i < COUNT; i++) image[i] = i;
    job_put(at, image, sizeof image);
    CHECK_OK(weft_all_reduce(group, at, at, COUNT, WEFT_INT32, WEFT_SUM, &plain, NULL));
    job_get(image, at, sizeof image);
    for (int i = 0; i < COUNT; i++) wrong += image[i] != RANKS * i;
    CHECK_INT(wrong, 0);
}

/* What is registered is a buffer like any other, and may be freed and registered again. */
static void again_and_again(job_rank *me)
{
    CHECK_OK(weft_barrier(me->world, &on_device, NULL));
    for (int round = 0; round < 5; round++) {
        int32_t *at = device_take(DEVICE_MEMORY, BYTES);
        CHECK_OK(weft_mem_register(me->world, at, BYTES));
        check_sum(me->world, at);
        CHECK_OK(weft_mem_deregister(me->world, at));
        check_sum(me->world, at);
        device_give(at);
    }
    if (device_is_emulated()) {
        CHECK(device()->emu_calls("ncclCommRegister") >= 5);
        job_meet(me);
        CHECK(device()->emu_calls("ncclCommRegister") == device()->emu_calls("ncclCommDeregister"));
        CHECK_INT((int)device()->emu_misuses(), 0);
    }
}

static void refusals(job_rank *me)
{
    const weft_call held = {.stream = device_stream(0)};
    weft_request *req = NULL;
    int32_t *at = device_take(DEVICE_MEMORY, BYTES), on_host[4];
    weft_group *group = job_group(me, RANKS, "registered", 0);
    CHECK_STATUS(WEFT_ERR_ARGUMENT, weft_mem_register(NULL, at, BYTES));
    CHECK_STATUS(WEFT_ERR_ARGUMENT, weft_mem_register(group, NULL, BYTES));
    CHECK_STATUS(WEFT_ERR_ARGUMENT, weft_mem_register(group, at, 0));
    CHECK_STATUS(WEFT_ERR_STATE, weft_mem_register(group, at, BYTES));
    CHECK_TEXT(weft_last_error(), "mem_register: group registered has no communicator yet");
    CHECK_OK(weft_barrier(group, &on_device, NULL));
    CHECK_STATUS(WEFT_ERR_ARGUMENT, weft_mem_register(group, on_host, sizeof on_host));
    CHECK_TEXT(weft_last_error(), "are not memory of device");
    CHECK_STATUS(WEFT_ERR_ARGUMENT, weft_mem_deregister(group, at));
    CHECK_OK(weft_mem_register(group, at, BYTES));
    CHECK_STATUS(WEFT_ERR_STATE, weft_mem_register(group, at, BYTES));
    CHECK_TEXT(weft_last_error(), "is registered with communicator registered already");
    device_delay(device_stream(0), 50000);
    CHECK_OK(weft_all_reduce(group, at, at, COUNT, WEFT_INT32, WEFT_SUM, &held, &req));
    CHECK_STATUS(WEFT_ERR_STATE, weft_mem_deregister(group, at));
    CHECK_TEXT(weft_last_error(), "an operation on device memory is under way in group registered");
    CHECK_OK(weft_wait(req, WEFT_FOREVER));
    weft_release(req);
    CHECK_OK(weft_mem_deregister(group, at));
    device_give(at);
    job_sum_works(me->world);
}

/* In a broken group too the program gets its memory back, once the communicator is stopped. */
static void broken(job_rank *me)
{
    int32_t *at = device_take(DEVICE_MEMORY, BYTES), *other = device_take(DEVICE_MEMORY, BYTES);
    weft_group *group = job_group(me, RANKS, "broken", 0);
    CHECK_OK(weft_barrier(group, &on_device, NULL));
    CHECK(weft_nccl_communicator(group)); /* lent: it would be revoked only, which takes nothing back */
    CHECK_OK(weft_mem_register(group, at, BYTES));
    job_meet(me);
    if (me->rank == 0) CHECK_OK(weft_group_abort(group, "enough"));
    while (weft_group_status(group) == WEFT_OK) job_sleep_ms(1);
    CHECK_STATUS(WEFT_ERR_BROKEN, weft_mem_register(group, other, BYTES));
    CHECK_TEXT(weft_last_error(), "enough");
    CHECK_OK(weft_mem_deregister(group, at));
    CHECK_STATUS(WEFT_ERR_ARGUMENT, weft_mem_deregister(group, at));
    device_give(at);
    device_give(other);
    if (device_is_emulated()) CHECK(device()->emu_calls("ncclCommAbort") > 0);
    job_sum_works(me->world);
}

/* What is left goes with its group. */
static void left(job_rank *me)
{
    int32_t *at = device_take(DEVICE_MEMORY, BYTES);
    weft_group *group = job_group(me, RANKS, "left", 0);
    uint64_t before;
    CHECK_OK(weft_barrier(group, &on_device, NULL));
    CHECK_OK(weft_mem_register(group, at, BYTES));
    check_sum(group, at);
    job_meet(me);
    before = device_is_emulated() ? device()->emu_calls("ncclCommDeregister") : 0;
    job_meet(me);
    CHECK_OK(weft_group_free(group));
    for (int ms = 0; device_is_emulated() && ms < JOB_WAIT_MS; ms++) {
        if (device()->emu_calls("ncclCommDeregister") > before) break;
        job_sleep_ms(1);
    }
    if (device_is_emulated()) CHECK(device()->emu_calls("ncclCommDeregister") > before);
    job_sum_works(me->world);
}

static void windows(job_rank *me)
{
    weft_group *group = job_group(me, RANKS, "seen", 0), *second = job_group(me, RANKS, "unseen", 0);
    weft_nccl_window window = NULL, again = NULL;
    size_t offset = 1;
    void *memory = NULL, *there = NULL, *plain_memory = device_take(DEVICE_MEMORY, BYTES);
    CHECK_OK(weft_mem_alloc(group, BYTES, WEFT_MEMORY_CUDA, &memory));
    CHECK_OK(weft_barrier(second, &on_device, NULL));
    CHECK_STATUS(WEFT_ERR_ARGUMENT, weft_mem_window(group, memory, NULL, &offset));
    CHECK_STATUS(WEFT_ERR_ARGUMENT, weft_mem_window(group, plain_memory, &window, &offset));
    CHECK_TEXT(weft_last_error(), "is not in memory of weft_mem_alloc");
    if (weft_mem_window(group, memory, &window, &offset) != WEFT_OK) {
        CHECK_TEXT(weft_last_error(), "window"); /* an NCCL that has none */
    } else {
        CHECK(window && offset == 0);
        CHECK_OK(weft_mem_window(group, (char *)memory + 100, &again, &offset));
        CHECK(again == window && offset == 100);
        CHECK_STATUS(WEFT_ERR_ARGUMENT, weft_mem_window(group, (char *)memory + BYTES, &window, &offset));
        CHECK_STATUS(WEFT_ERR_ARGUMENT, weft_mem_window(second, memory, &window, &offset));
        CHECK_TEXT(weft_last_error(), "is in a window of another group than unseen");
        CHECK_STATUS(WEFT_ERR_ARGUMENT, weft_mem_peer(group, memory, RANKS, &there));
        CHECK_STATUS(WEFT_ERR_UNSUPPORTED, weft_mem_peer(group, memory, FAR, &there));
        CHECK_TEXT(weft_last_error(), "cannot load from memory of rank 2 of seen");
        CHECK_OK(weft_mem_peer(group, (char *)memory + 8, 1, &there));
        CHECK(there == (char *)(void *)window + 8 + 2 * PEER);
        job_meet(me);
        CHECK_OK(weft_mem_free(group, memory));
        CHECK_STATUS(WEFT_ERR_ARGUMENT, weft_mem_window(group, memory, &window, &offset));
    }
    device_give(plain_memory);
    job_sum_works(me->world);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        JOB_TEST("again and again", .ranks = RANKS, .body = again_and_again),
        JOB_TEST("refusals", .ranks = RANKS, .body = refusals),
        JOB_TEST("broken", .ranks = RANKS, .body = broken),
        JOB_TEST("left", .ranks = RANKS, .body = left),
        JOB_TEST("windows", .ranks = RANKS, .body = windows),
    };
    return JOB_MAIN(tests, argc, argv);
}
