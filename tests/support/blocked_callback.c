/* blocked_callback.c - see blocked_callback.h. */
#include "blocked_callback.h"

/* It gives up before the test's limits do. */
static void want(weft_request *req, weft_status status, void *arg)
{
    blocked_callback *w = arg;
    int64_t until = job_now_ns() + JOB_WAIT_MS * INT64_C(1000000) / 2;
    (void)req;
    (void)status;
    atomic_store(&w->inside, 1);
    while (!atomic_load(&w->there) && job_now_ns() < until) job_sleep_ms(1);
    if (!atomic_load(&w->there)) atomic_store(&w->missed, 1);
}

void block_a_callback(job_rank *me, blocked_callback *w, weft_request *reqs[2])
{
    int32_t *in = job_alloc(me, 2 * sizeof *in), *out = in + 1;
    weft_call call = {.done = want, .arg = w};
    CHECK_OK(weft_irecv(me->world, in, 1, WEFT_INT32, me->rank, 7, &call, &reqs[0]));
    CHECK_OK(weft_isend(me->world, out, 1, WEFT_INT32, me->rank, 7, NULL, &reqs[1]));
    for (int i = 0; !atomic_load(&w->inside) && i < JOB_WAIT_MS; i++) job_sleep_ms(1);
    CHECK_INT(atomic_load(&w->inside), 1);
}
