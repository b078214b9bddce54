/* test_options.c - what a group's communicator is made with (weft_nccl_configure): that it reaches NCCL, on the emulation,
 * which counts each option of a configuration as a call; and what is refused. */
#include "device.h"

#include <stdlib.h>
#include <string.h>
#include <weft/cuda.h>

static const weft_call on_device = {.stream = WEFT_NO_STREAM, .memory = WEFT_MEMORY_CUDA};

static uint64_t said(const char *option)
{
    return device()->emu_calls(option);
}

static void check_all(const char *const *options, size_t n, uint64_t times)
{
    for (size_t i = 0; i < n; i++) {
        if (said(options[i]) != times)
            job_fail(__FILE__, __LINE__, "%s: %llu times, expected %llu", options[i],
                     (unsigned long long)said(options[i]), (unsigned long long)times);
    }
}

/* On which operations are issued: 0 is the lowest that devices have, -5 the highest. */
static int priority_of(weft_group *group)
{
    int priority = 1;
    weft_cuda_stream stream = weft_nccl_stream(group);
    CHECK(stream);
    DEVICE_OK(device()->cudaStreamGetPriority(stream, &priority));
    return priority;
}

/* Also a communicator that is split off it; not one of another group. */
static void reach_nccl(job_rank *me)
{
    static const char *const options[] = {"minCTAs=2", "maxCTAs=4", "cgaClusterSize=0", "trafficClass=3",
                                          "netName=Socket"};
    enum { OPTIONS = sizeof options / sizeof *options };
    char net[] = "Socket";
    const weft_nccl_options first = {.max_ctas = 8}, last = {.min_ctas = 2,
                                                             .max_ctas = 4,
                                                             .cga_cluster_size = WEFT_NCCL_ZERO,
                                                             .traffic_class = 3,
                                                             .net_name = net,
                                                             .stream_priority = 2};
    weft_group *child = NULL, *other = job_group(me, me->size, "other", 0);
    if (!device_is_emulated()) return;
    CHECK_OK(weft_barrier(other, &on_device, NULL));
    check_all(options, OPTIONS, 0);
    CHECK_OK(weft_nccl_configure(me->world, &first));
    CHECK_OK(weft_nccl_configure(me->world, &last));
    net[0] = 0; /* the name was copied */
    CHECK_OK(weft_barrier(me->world, &on_device, NULL));
    check_all(options, OPTIONS, 1);
    CHECK_INT((int)said("maxCTAs=8"), 0);
    CHECK_INT(priority_of(other), -5);
    CHECK_INT(priority_of(me->world), -3);
    CHECK_STATUS(WEFT_ERR_STATE, weft_nccl_configure(me->world, &first));
    CHECK_TEXT(weft_last_error(), "has a communicator already");
    CHECK_OK(weft_split_group(me->world, 0, me->rank, NULL, &child, NULL));
    CHECK_OK(weft_barrier(child, &on_device, NULL));
    check_all(options, OPTIONS, 2);
    CHECK_INT(priority_of(child), -3);
    CHECK_STATUS(WEFT_ERR_STATE, weft_nccl_configure(child, NULL));
    CHECK_OK(weft_group_free(child));
    CHECK_OK(weft_group_free(other));
    CHECK_INT((int)device()->emu_misuses(), 0);
    job_meet(me);
}

/* Each is NCCL's own choice, but for at least beside at most. */
static void left_open(job_rank *me)
{
    weft_group *most = job_group(me, me->size, "most", 0), *none = job_group(me, me->size, "none", 0);
    weft_group *child = NULL;
    weft_request *split = NULL;
    const weft_nccl_options low = {.max_ctas = 16, .stream_priority = 1000};
    if (!device_is_emulated()) return;
    CHECK_OK(weft_nccl_configure(most, &low));
    CHECK_OK(weft_nccl_configure(none, &low));
    CHECK_OK(weft_nccl_configure(none, NULL));
    CHECK_OK(weft_split_group(none, 0, me->rank, NULL, &child, &split)); /* takes over what is said by now */
    CHECK_OK(weft_nccl_configure(none, &low));
    WAIT_OK(split);
    CHECK_OK(weft_nccl_configure(none, NULL));
    CHECK_OK(weft_barrier(child, &on_device, NULL));
    CHECK_OK(weft_group_free(child));
    CHECK_OK(weft_barrier(none, &on_device, NULL));
    CHECK_INT((int)said("maxCTAs=16"), 0);
    CHECK_OK(weft_barrier(most, &on_device, NULL));
    CHECK_INT((int)said("maxCTAs=16"), 1);
    CHECK_INT((int)said("minCTAs=1"), 1);
    CHECK_INT(priority_of(none), -5);
    CHECK_INT(priority_of(most), 0);
    CHECK_OK(weft_group_free(most));
    CHECK_OK(weft_group_free(none));
    job_meet(me);
}

/* One operation makes the communicator as soon as all have come, which is on each rank at another moment. */
static void under_way(job_rank *me)
{
    const weft_nccl_options low = {.max_ctas = 16};
    weft_group *group = job_group(me, me->size, "awaited", 0);
    weft_request *req = NULL;
    if (me->rank == 0) {
        CHECK_OK(weft_barrier(group, &on_device, &req));
        CHECK_STATUS(WEFT_ERR_STATE, weft_nccl_configure(group, &low));
        CHECK_TEXT(weft_last_error(), "an operation on device memory is under way in group awaited");
    }
    job_meet(me);
    if (me->rank) CHECK_OK(weft_barrier(group, &on_device, &req));
    WAIT_OK(req);
    CHECK_STATUS(WEFT_ERR_STATE, weft_nccl_configure(group, &low));
    CHECK_TEXT(weft_last_error(), "has a communicator already");
    CHECK_OK(weft_group_free(group));
    job_meet(me);
}

static void refuses(weft_group *group, weft_nccl_options options, const char *text)
{
    CHECK_STATUS(WEFT_ERR_ARGUMENT, weft_nccl_configure(group, &options));
    CHECK_TEXT(weft_last_error(), text);
}

static void refusals(job_rank *me)
{
    char name[65];
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = 0;
    refuses(me->world, (weft_nccl_options){.max_ctas = -1}, "max_ctas is -1");
    refuses(me->world, (weft_nccl_options){.min_ctas = 2}, "min_ctas is 2 and max_ctas 0");
    refuses(me->world, (weft_nccl_options){.min_ctas = 3, .max_ctas = 2}, "min_ctas is 3 and max_ctas 2");
    refuses(me->world, (weft_nccl_options){.cga_cluster_size = 9}, "cga_cluster_size is 9");
    refuses(me->world, (weft_nccl_options){.traffic_class = -2}, "traffic_class is -2");
    refuses(me->world, (weft_nccl_options){.stream_priority = -1}, "stream_priority is -1");
    refuses(me->world, (weft_nccl_options){.net_name = ""}, "net_name has 0 bytes");
    refuses(me->world, (weft_nccl_options){.net_name = name}, "net_name has 64 bytes");
    refuses(me->world, (weft_nccl_options){.unused = 1}, "unused is not 0");
    refuses(me->world, (weft_nccl_options){.reserved = {[7] = 1}}, "reserved[7] is not 0");
    CHECK_STATUS(WEFT_ERR_ARGUMENT, weft_nccl_configure(NULL, NULL));
    job_meet(me);
}

/* The first operation tells which field, on each rank, whoever has submitted it first. */
static void members_differ(job_rank *me)
{
    enum { ODD = 1, FIELDS = 5 };
    static const weft_nccl_options usual = {.min_ctas = 2, .max_ctas = 8, .cga_cluster_size = 2};
    weft_nccl_options odd[FIELDS] = {usual, usual, usual, usual, usual};
    static const char *const words[FIELDS] = {"min_ctas is 3", "max_ctas is 9", "cga_cluster_size is -1",
                                              "traffic_class is 7", "net_name is \"IB\""};
    odd[0].min_ctas = 3;
    odd[1].max_ctas = 9;
    odd[2].cga_cluster_size = WEFT_NCCL_ZERO;
    odd[3].traffic_class = 7;
    odd[4].net_name = "IB";
    for (int i = 0; i < FIELDS; i++) {
        weft_group *group = job_group(me, me->size, "divided", 0);
        CHECK_OK(weft_nccl_configure(group, me->rank == ODD ? &odd[i] : &usual));
        if ((me->rank == ODD) == i % 2) job_sleep_ms(20);
        CHECK_STATUS(WEFT_ERR_MISMATCH, weft_barrier(group, &on_device, NULL));
        CHECK_TEXT(weft_last_error(), words[i]);
        CHECK_TEXT(weft_last_error(), "on rank 0");
        CHECK_OK(weft_group_free(group));
        job_meet(me);
    }
    CHECK_OK(weft_barrier(me->world, &on_device, NULL));
    job_meet(me);
}

static void an_older_nccl(job_rank *me)
{
    const weft_nccl_options class = {.traffic_class = 3}, most = {.max_ctas = 4};
    if (!device_is_emulated()) return;
    job_setenv(me, "CUDA_EMULATION_NCCL_VERSION", "21903");
    job_join(me);
    CHECK_STATUS(WEFT_ERR_UNSUPPORTED, weft_nccl_configure(me->world, &class));
    CHECK_TEXT(weft_last_error(), "traffic_class is 3: NCCL 2.19 has none, expected 2.26 or later");
    CHECK_OK(weft_nccl_configure(me->world, &most));
    CHECK_OK(weft_barrier(me->world, &on_device, NULL));
    CHECK_INT((int)said("maxCTAs=4"), 1);
    job_meet(me);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        JOB_TEST("reach NCCL", .ranks = 2, .processes = true, .body = reach_nccl),
        JOB_TEST("left open", .ranks = 2, .processes = true, .body = left_open),
        JOB_TEST("an operation under way", .ranks = 2, .processes = true, .body = under_way),
        JOB_TEST("refusals", .ranks = 1, .processes = true, .body = refusals),
        JOB_TEST("members differ", .ranks = 3, .processes = true, .body = members_differ),
        JOB_TEST("an older NCCL", .ranks = 2, .processes = true, .bare = true, .body = an_older_nccl),
    };
    return JOB_MAIN(tests, argc, argv);
}
