/* sum.h - the operation that tests on devices begin most: a sum of numbers that tell index and rank. */
#ifndef WEFT_TESTS_DEVICE_SUM_H
#define WEFT_TESTS_DEVICE_SUM_H
#include "device.h"

enum { COUNT = 64 };
static const size_t bytes = COUNT * sizeof(int32_t);

typedef struct operands {
    int32_t *in, *out;
} operands;

/* Element i of a rank's input is i + its rank; freed like job_buffer's. */
static inline operands take_operands(job_rank *me)
{
    operands o = {job_buffer(me, bytes), job_buffer(me, bytes)};
    int32_t image[COUNT];
    for (int i = 0; i < COUNT; i++) image[i] = i + me->rank;
    job_put(o.in, image, bytes);
    return o;
}

static inline weft_request *begin_sum(weft_group *group, operands o, const weft_call *call)
{
    weft_request *req = NULL;
    CHECK_OK(weft_all_reduce(group, o.in, o.out, COUNT, WEFT_INT32, WEFT_SUM, call, &req));
    return req;
}

/* The sum over the first so many ranks. */
static inline void check_sum(int ranks, const int32_t *out)
{
    int32_t image[COUNT];
    job_get(image, out, bytes);
    for (int i = 0; i < COUNT; i++) CHECK_INT(image[i], i * ranks + ranks * (ranks - 1) / 2);
}

#endif
