/* test_errors.c - calls that are refused: a negative status, a sentence that names the value, nothing
 * written. */
#include "job.h"

#include <stdio.h>
#include <string.h>

/* No call may write these; they stand for "as the caller left it". */
static weft_request *const no_request = (weft_request *)(uintptr_t)0x5a5a5a50;
static weft_group *const no_group = (weft_group *)(uintptr_t)0x5a5a5a60;

typedef struct attempt {
    weft_group *group;
    const weft_call *call;
    weft_request **req;
    int32_t *in, *out;
} attempt;

typedef weft_status bad_call(const attempt *a);

typedef struct bad_row {
    const char *what;
    bad_call *make;
    weft_status status; /* WEFT_OK: any failure */
    const char *named;  /* the value as the sentence has it; NULL: any sentence */
} bad_row;

#define BAD(name, expression)                 \
    static weft_status name(const attempt *a) \
    {                                         \
        return expression;                    \
    }

BAD(root_negative, weft_broadcast(a->group, a->out, 4, WEFT_INT32, -1, a->call, a->req))
BAD(root_large, weft_broadcast(a->group, a->out, 4, WEFT_INT32, 77, a->call, a->req))
BAD(reduce_root, weft_reduce(a->group, a->in, a->out, 4, WEFT_INT32, WEFT_SUM, 78, a->call, a->req))
BAD(gather_root, weft_gather(a->group, a->in, a->out, 4, WEFT_INT32, 79, a->call, a->req))
BAD(scatter_root, weft_scatter(a->group, a->in, a->out, 4, WEFT_INT32, 80, a->call, a->req))
BAD(type_large, weft_all_reduce(a->group, a->in, a->out, 4, (weft_dtype)99, WEFT_SUM, a->call, a->req))
BAD(type_of_send, weft_isend(a->group, a->in, 4, (weft_dtype)98, 0, 0, a->call, a->req))
BAD(op_large, weft_all_reduce(a->group, a->in, a->out, 4, WEFT_INT32, (weft_op)97, a->call, a->req))
BAD(op_of_type, weft_all_reduce(a->group, a->in, a->out, 4, WEFT_INT32, WEFT_AVG, a->call, a->req))
BAD(op_of_bool, weft_reduce_scatter(a->group, a->in, a->out, 4, WEFT_BOOL, WEFT_SUM, a->call, a->req))
BAD(no_input, weft_all_reduce(a->group, NULL, a->out, 4, WEFT_INT32, WEFT_SUM, a->call, a->req))
BAD(no_output, weft_all_gather(a->group, a->in, NULL, 4, WEFT_INT32, a->call, a->req))
BAD(no_send_buffer, weft_isend(a->group, NULL, 4, WEFT_INT32, 0, 0, a->call, a->req))
BAD(no_receive_buffer, weft_irecv(a->group, NULL, 4, WEFT_INT32, 0, 0, a->call, a->req))
BAD(huge_count, weft_all_reduce(a->group, a->in, a->out, SIZE_MAX, WEFT_INT32, WEFT_SUM, a->call, a->req))
BAD(huge_gather, weft_all_gather(a->group, a->in, a->out, SIZE_MAX / 4, WEFT_INT32, a->call, a->req))
BAD(peer_negative, weft_isend(a->group, a->in, 4, WEFT_INT32, -3, 0, a->call, a->req))
BAD(peer_large, weft_isend(a->group, a->in, 4, WEFT_INT32, 81, 0, a->call, a->req))
BAD(send_to_any, weft_isend(a->group, a->in, 4, WEFT_INT32, WEFT_ANY_RANK, 0, a->call, a->req))
BAD(receive_peer, weft_irecv(a->group, a->out, 4, WEFT_INT32, -3, 0, a->call, a->req))
BAD(receive_peer_large, weft_irecv(a->group, a->out, 4, WEFT_INT32, 82, 0, a->call, a->req))
BAD(exchange_peer, weft_send_recv(a->group, a->in, a->out, 4, WEFT_INT32, 83, a->call, a->req))
BAD(exchange_any, weft_send_recv(a->group, a->in, a->out, 4, WEFT_INT32, WEFT_ANY_RANK, a->call, a->req))
BAD(tag_negative, weft_isend(a->group, a->in, 4, WEFT_INT32, 0, -5, a->call, a->req))
BAD(tag_large, weft_isend(a->group, a->in, 4, WEFT_INT32, 0, 1 << 30, a->call, a->req))
BAD(send_any_tag, weft_isend(a->group, a->in, 4, WEFT_INT32, 0, WEFT_ANY_TAG, a->call, a->req))
BAD(receive_tag, weft_irecv(a->group, a->out, 4, WEFT_INT32, 0, -5, a->call, a->req))
BAD(no_group_given, weft_barrier(NULL, a->call, a->req))
BAD(no_group_for_message, weft_isend(NULL, a->in, 4, WEFT_INT32, 0, 0, a->call, a->req))

static const bad_row bad_calls[] = {
    {"root -1", root_negative, WEFT_ERR_ARGUMENT, "-1"},
    {"root 77", root_large, WEFT_ERR_ARGUMENT, "77"},
    {"root of reduce", reduce_root, WEFT_ERR_ARGUMENT, "78"},
    {"root of gather", gather_root, WEFT_ERR_ARGUMENT, "79"},
    {"root of scatter", scatter_root, WEFT_ERR_ARGUMENT, "80"},
    {"type 99", type_large, WEFT_ERR_ARGUMENT, "99"},
    {"type 98", type_of_send, WEFT_ERR_ARGUMENT, "98"},
    {"reduction 97", op_large, WEFT_ERR_ARGUMENT, "97"},
    {"average of integers", op_of_type, WEFT_ERR_UNSUPPORTED, "int32"},
    {"sum of bools", op_of_bool, WEFT_ERR_UNSUPPORTED, "bool"},
    {"no input", no_input, WEFT_ERR_ARGUMENT, NULL},
    {"no output", no_output, WEFT_ERR_ARGUMENT, NULL},
    {"no buffer to send", no_send_buffer, WEFT_ERR_ARGUMENT, NULL},
    {"no buffer to receive", no_receive_buffer, WEFT_ERR_ARGUMENT, NULL},
    {"count beyond memory", huge_count, WEFT_OK, NULL},
    {"count times ranks beyond memory", huge_gather, WEFT_OK, NULL},
    {"peer -3", peer_negative, WEFT_ERR_ARGUMENT, "-3"},
    {"peer 81", peer_large, WEFT_ERR_ARGUMENT, "81"},
    {"send to any", send_to_any, WEFT_ERR_ARGUMENT, NULL},
    {"receive from -3", receive_peer, WEFT_ERR_ARGUMENT, "-3"},
    {"receive from 82", receive_peer_large, WEFT_ERR_ARGUMENT, "82"},
    {"exchange with 83", exchange_peer, WEFT_ERR_ARGUMENT, "83"},
    {"exchange with any", exchange_any, WEFT_ERR_ARGUMENT, NULL},
    {"tag -5", tag_negative, WEFT_ERR_ARGUMENT, "-5"},
    {"tag 2^30", tag_large, WEFT_ERR_ARGUMENT, "1073741824"},
    {"send any tag", send_any_tag, WEFT_ERR_ARGUMENT, NULL},
    {"receive tag -5", receive_tag, WEFT_ERR_ARGUMENT, "-5"},
    {"no group", no_group_given, WEFT_ERR_ARGUMENT, NULL},
    {"no group for a message", no_group_for_message, WEFT_ERR_ARGUMENT, NULL},
};

static void check_refused(const bad_row *row, weft_group *group, const weft_call *call)
{
    int32_t in[8] = {1, 2, 3, 4}, out[8], untouched[8];
    weft_request *req = no_request;
    memset(out, 0x77, sizeof out);
    memset(untouched, 0x77, sizeof untouched);
    for (int with_request = 0; with_request < 2; with_request++) {
        attempt a = {.group = group, .call = call, .in = in, .out = out, .req = with_request ? &req : NULL};
        weft_status status = row->make(&a);
        if (status >= 0 || (row->status != WEFT_OK && status != row->status)) {
            job_fail(__FILE__, __LINE__, "%s: %s", row->what, weft_status_name(status));
        }
        if (!strlen(weft_last_error()) || (row->named && !strstr(weft_last_error(), row->named))) {
            job_fail(__FILE__, __LINE__, "%s: \"%s\"", row->what, weft_last_error());
        }
        CHECK(req == no_request);
        CHECK_INT(memcmp(out, untouched, sizeof out), 0);
    }
}

/* Nothing of this takes a number: the world works afterwards, though only one rank was wrong. */
static void bad_arguments(job_rank *me)
{
    for (size_t i = 0; i < sizeof bad_calls / sizeof *bad_calls && me->rank == 0; i++) {
        check_refused(&bad_calls[i], me->world, NULL);
    }
    CHECK_OK(weft_group_status(me->world));
    job_sum_works(me->world);
    job_message_works(me->world, 0, 1, 0);
}

/* ---- what a call says about how
 * ------------------------------------------------------------------------- */

BAD(any_barrier, weft_barrier(a->group, a->call, a->req))
BAD(any_reduce, weft_all_reduce(a->group, a->in, a->out, 4, WEFT_FLOAT32, WEFT_SUM, a->call, a->req))
BAD(scaled, weft_all_reduce(a->group, a->in, a->out, 4, WEFT_FLOAT32, WEFT_PREMUL_SUM, a->call, a->req))

static void bad_calls_how(job_rank *me)
{
    weft_call late = {.timeout_ms = -7}, memory = {.memory = (weft_memory)96},
              device = {.memory = WEFT_MEMORY_CUDA};
    check_refused(&(bad_row){"timeout -7", any_barrier, WEFT_ERR_ARGUMENT, "-7"}, me->world, &late);
    check_refused(&(bad_row){"memory 96", any_reduce, WEFT_ERR_ARGUMENT, "96"}, me->world, &memory);
    check_refused(&(bad_row){"no factor", scaled, WEFT_ERR_ARGUMENT, NULL}, me->world, NULL);
    if (weft_device(me->ctx) < 0) {
        check_refused(&(bad_row){"no device", any_reduce, WEFT_ERR_UNSUPPORTED, NULL}, me->world, &device);
    }
    job_sum_works(me->world);
}

/* ---- groups
 * ------------------------------------------------------------------------------------------------ */

static void refused_group(job_rank *me, const int *ranks, int n, const char *named)
{
    for (int with_request = 0; with_request < 2; with_request++) {
        weft_group *group = no_group;
        weft_request *req = no_request;
        CHECK_STATUS(WEFT_ERR_ARGUMENT,
                     weft_new_group(me->world, ranks, n, NULL, &group, with_request ? &req : NULL));
        CHECK_TEXT(weft_last_error(), named);
        CHECK(group == no_group && req == no_request);
    }
}

static void bad_groups(job_rank *me)
{
    weft_group *group = no_group;
    refused_group(me, (int[]){me->rank, 91}, 2, "91");
    refused_group(me, (int[]){me->rank, -9}, 2, "-9");
    refused_group(me, (int[]){0, 1, 1}, 3, "1");
    refused_group(me, (int[]){1 - me->rank}, 1, "");
    refused_group(me, (int[]){0, 1}, 0, "0");
    refused_group(me, (int[]){0, 1}, -8, "-8");
    CHECK_STATUS(WEFT_ERR_ARGUMENT, weft_new_group(NULL, (int[]){0, 1}, 2, NULL, &group, NULL));
    CHECK(group == no_group);
    CHECK_STATUS(WEFT_ERR_ARGUMENT, weft_group_set_timeout(me->world, 0));
    CHECK_STATUS(WEFT_ERR_ARGUMENT, weft_group_set_timeout(me->world, -6));
    CHECK_TEXT(weft_last_error(), "-6");
    CHECK(weft_group_free(me->world) < 0); /* not the world */
    job_sum_works(me->world);
}

/* ---- joining
 * ------------------------------------------------------------------------------------------------ */

static void refused_config(const weft_config *config, const char *named)
{
    weft_context *ctx = (weft_context *)(uintptr_t)0x5a5a5a70;
    int64_t before = job_now_ns();
    CHECK(weft_init(config, &ctx) < 0);
    CHECK_TEXT(weft_last_error(), named);
    CHECK(ctx == (weft_context *)(uintptr_t)0x5a5a5a70);
    CHECK_PERIOD(before, job_now_ns(), 0, JOB_WAIT_MS / 2);
}

static void bad_configs(job_rank *me)
{
    char url[64], bad_url[96];
    weft_config config = job_config(me, url, 0);
    config.rank = 92;
    refused_config(&config, "92");
    config = job_config(me, url, 0);
    config.init_method = "carrier-pigeon://loft";
    refused_config(&config, "carrier-pigeon");
    config = job_config(me, url, 0);
    config.world_size = 0;
    refused_config(&config, "");
    config = job_config(me, url, 0);
    snprintf(bad_url, sizeof bad_url, "tcp://127.0.0.1:99999");
    config.init_method = bad_url;
    refused_config(&config, "99999");
    CHECK(!weft_current());
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        JOB_TEST("bad arguments", .ranks = 2, .body = bad_arguments),
        JOB_TEST("bad ways to run", .ranks = 2, .body = bad_calls_how),
        JOB_TEST("bad groups", .ranks = 2, .body = bad_groups),
        JOB_TEST("bad configurations", .ranks = 1, .body = bad_configs, .bare = true),
    };
    return JOB_MAIN(tests, argc, argv);
}
