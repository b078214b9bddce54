/* test_threads.c - ranks as threads of one process, submitting from many threads: what tsan can judge. */
#include "collective.h"
#include "device.h"
#include "program.h"

#include <stdlib.h>
#include <string.h>

enum { SUBMITTERS = 8, GROUPS = 4, EACH = 60, IN_FLIGHT = 6 };

typedef struct shared {
    weft_group *groups[GROUPS];
    int32_t *in, *out; /* IN_FLIGHT of each thread */
} shared;

/* Two threads share a group.  Which of them gets which number differs between ranks, so they do the same. */
static void submit_from_thread(job_rank *me, int thread, void *arg)
{
    shared *s = arg;
    weft_group *group = s->groups[thread % GROUPS];
    int32_t *in = s->in + IN_FLIGHT * thread, *out = s->out + IN_FLIGHT * thread;
    weft_request *reqs[IN_FLIGHT];
    for (int round = 0; round < EACH / IN_FLIGHT; round++) {
        for (int i = 0; i < IN_FLIGHT; i++) {
            job_put_int(&in[i], me->rank + 1);
            CHECK_OK(weft_all_reduce(group, &in[i], &out[i], 1, WEFT_INT32, WEFT_SUM, NULL, &reqs[i]));
        }
        if (thread % 2) {
            for (int i = 0; i < IN_FLIGHT; i++) {
                while (!weft_is_completed(reqs[i])) job_sleep_ms(0);
            }
        }
        CHECK_OK(weft_wait_all(reqs, IN_FLIGHT, JOB_WAIT_MS));
        for (int i = 0; i < IN_FLIGHT; i++) {
            CHECK_INT(job_get_int(&out[i]), me->size * (me->size + 1) / 2);
            weft_release(reqs[i]);
        }
    }
}

static void eight_on_four(job_rank *me)
{
    size_t bytes = SUBMITTERS * IN_FLIGHT * sizeof(int32_t);
    shared s = {.in = job_buffer(me, bytes), .out = job_buffer(me, bytes)};
    char label[] = "g0";
    for (int g = 0; g < GROUPS; g++, label[1]++) s.groups[g] = job_group(me, me->size, label, 0);
    job_threads(me, SUBMITTERS, submit_from_thread, &s);
}

static void every_collective(job_rank *me)
{
    static const size_t counts[] = {0, 3, 1000, 60001};
    for (int kind = 0; kind < COLLECTIVE_KINDS; kind++) {
        for (int c = 0; c < 4; c++) {
            collective what = {.kind = (collective_kind)kind,
                               .dtype = c % 2 ? WEFT_FLOAT32 : WEFT_INT8,
                               .op = WEFT_SUM,
                               .count = counts[c],
                               .root = c % me->size,
                               .in_place = (kind + c) % 2,
                               .seed = (uint64_t)(kind * 4 + c)};
            collective_run(me->world, &what);
        }
    }
}

static void exchange_in_thread(job_rank *me, int thread, void *arg)
{
    enum { BYTES = 100000 };
    unsigned char *bytes = (unsigned char *)arg + (size_t)thread * 2 * BYTES, *image = malloc(BYTES);
    int next = (me->rank + 1) % me->size, previous = (me->rank + me->size - 1) % me->size;
    for (int round = 0; round < 20; round++) {
        size_t n = round % 2 ? BYTES : 64;
        weft_request *reqs[2];
        memset(image, me->rank * 16 + thread, n);
        job_put(bytes, image, n);
        CHECK_OK(weft_irecv(me->world, bytes + BYTES, n, WEFT_UINT8, previous, thread, NULL, &reqs[0]));
        CHECK_OK(weft_isend(me->world, bytes, n, WEFT_UINT8, next, thread, NULL, &reqs[1]));
        CHECK_OK(weft_wait_all(reqs, 2, JOB_WAIT_MS));
        job_get(image, bytes + BYTES, n);
        CHECK_INT(image[0], previous * 16 + thread);
        CHECK_INT(image[n - 1], previous * 16 + thread);
        weft_release(reqs[0]);
        weft_release(reqs[1]);
    }
    free(image);
}

static void messages(job_rank *me)
{
    job_threads(me, 4, exchange_in_thread, job_buffer(me, 4 * 2 * 100000));
}

static void cycles(job_rank *me)
{
    for (int i = 0; i < 10; i++) {
        job_join(me);
        job_sum_works(me->world);
        job_leave(me);
        job_meet(me); /* the address is free again before anyone joins anew */
    }
}

static void come_and_go(job_rank *me, int thread, void *arg)
{
    (void)me;
    (void)thread;
    (void)arg;
    for (int i = 0; i < 100; i++) {
        weft_config config = WEFT_CONFIG_INIT;
        weft_context *ctx;
        config.rank = 0;
        config.world_size = 1;
        CHECK_OK(weft_init(&config, &ctx));
        CHECK_OK(weft_finalize(ctx, JOB_WAIT_MS));
    }
}

/* The last context leaves while the next one comes, again and again. */
static void contexts(job_rank *me)
{
    job_threads(me, 3, come_and_go, NULL);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        JOB_TEST("8 threads on 4 groups", .ranks = 3, .body = eight_on_four, .threads = true),
        JOB_TEST("every collective", .ranks = 3, .body = every_collective, .threads = true),
        JOB_TEST("messages", .ranks = 3, .body = messages, .threads = true),
        JOB_TEST("join and leave", .ranks = 2, .body = cycles, .threads = true, .bare = true),
        JOB_TEST("contexts come and go", .ranks = 1, .body = contexts, .threads = true, .bare = true),
        JOB_TEST("random program", .ranks = 3, .body = program_run, .threads = true,
                 .arg = &(program){11, 2, 150, false}),
        JOB_TEST("random program, more threads", .ranks = 2, .body = program_run, .threads = true,
                 .arg = &(program){12, 4, 100, false}),
    };
    return JOB_MAIN(tests, argc, argv);
}
