/* running.c - what is under way: begun in the order of the works, polled by MPI_Test, finished once.
 *
 * All of it is for who has the module's turn: the progress thread, or a caller that waits.  A work whose ranks never come stays here: the runtime settles its request by
 * the deadline, and keeps the buffers. */
#include "mpi_module.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define OUTWAIT_NS INT64_C(10000000000) /* for who is inside MPI */
#define OVER       "MPI has been finalized"

/* One without counts is used again. */
static void release(weft__mpi *mpi, weft__mpi_running *running)
{
    free(running->input);
    free(running->output);
    if (running->counts) {
        free(running);
        return;
    }
    running->next = mpi->spare;
    mpi->spare = running;
}

void weft__mpi_runnings_free(weft__mpi *mpi)
{
    for (weft__mpi_running *next; mpi->spare; mpi->spare = next) {
        next = mpi->spare->next;
        free(mpi->spare);
    }
}

static weft__mpi_running *take_spare(weft__mpi *mpi)
{
    weft__mpi_running *running = mpi->spare;
    if (!running) return calloc(1, sizeof *running);
    mpi->spare = running->next;
    memset(running, 0, sizeof *running);
    return running;
}

static void complete(const weft__mpi_running *running)
{
    const weft_backend_work *work = running->work;
    const weft_backend_operation *op = &work->op;
    bool has_result = op->kind != WEFT_BACKEND_REDUCE || work->rank == op->root;
    if (running->output) memcpy(op->out, running->output, running->out_bytes);
    if (weft__mpi_is_reduction(op->kind) && op->reduction == WEFT_AVG && has_result)
        weft__mpi_divide(op->dtype, op->out, op->count, work->size);
}

/* A rank alone needs no MPI (and MPICH 4.0 forgets displacements then). */
static void copy_own(const weft_backend_operation *op)
{
    const size_t *counts = op->in_counts ? op->in_counts : op->out_counts;
    size_t element = weft__mpi_element(op->dtype), n = op->uneven ? counts[0] : op->count;
    const char *in = op->in;
    char *out = op->out;
    if (!n || op->kind == WEFT_BACKEND_BROADCAST) return;
    if (op->in_displs) in += op->in_displs[0] * element;
    if (op->out_displs) out += op->out_displs[0] * element;
    if (in != out) memcpy(out, in, n * element);
}

static bool enqueue(weft__mpi *mpi, weft_backend_work *work)
{
    size_t numbers = work->op.uneven ? 4 * (size_t)work->size : 0;
    weft__mpi_running *running =
        numbers ? calloc(1, sizeof *running + numbers * sizeof running->numbers[0]) : take_spare(mpi);
    if (!running) return false;
    running->work = work;
    running->counts = numbers != 0;
    running->request = MPI_REQUEST_NULL;
    *mpi->end = running;
    mpi->end = &running->next;
    return true;
}

/* PENDING: another thread is inside MPI. */
static weft_status begin(weft__mpi_running *running, char sentence[WEFT__MPI_SENTENCE])
{
    weft_status status;
    if (weft__mpi_over()) {
        snprintf(sentence, WEFT__MPI_SENTENCE, OVER);
        return WEFT_ERR_STATE;
    }
    if (!weft__mpi_calls_try()) return WEFT_PENDING;
    status = weft__mpi_issue(running, sentence);
    weft__mpi_calls_give();
    return status;
}

static void remove_at(weft__mpi *mpi, weft__mpi_running **at)
{
    weft__mpi_running *running = *at;
    *at = running->next;
    if (!*at) mpi->end = at;
    release(mpi, running);
}

/* Gives MPI what it has not got yet, in that order; what is left waits for another thread's call to come back. */
static void begin_all(weft__mpi *mpi)
{
    bool busy = false;
    for (weft__mpi_running **at = &mpi->first; *at;) {
        weft__mpi_running *running = *at;
        char sentence[WEFT__MPI_SENTENCE];
        weft_status status = busy ? WEFT_PENDING : WEFT_OK;
        if (!running->begun && atomic_load(&running->work->comm->doomed))
            status = WEFT_ERR_BROKEN;
        else if (!running->begun && !busy)
            status = begin(running, sentence);
        if (running->begun || status == WEFT_PENDING) {
            busy = busy || status == WEFT_PENDING;
            at = &running->next;
        } else if (status == WEFT_OK) {
            running->begun = true;
            running->status = WEFT_PENDING;
            mpi->runtime->issued(running->work);
            at = &running->next;
        } else {
            mpi->runtime->finish(running->work, status, status == WEFT_ERR_BROKEN ? NULL : sentence);
            remove_at(mpi, at);
        }
    }
}

void weft__mpi_start(weft_backend *backend, weft_backend_work *first)
{
    weft__mpi *mpi = weft__mpi_of(backend);
    for (weft_backend_work *work = first, *next; work; work = next) {
        next = work->next;
        if (work->size == 1) {
            copy_own(&work->op);
            mpi->runtime->finish(work, WEFT_OK, NULL);
        } else if (!enqueue(mpi, work)) {
            mpi->runtime->finish(work, WEFT_ERR_MEMORY, "no memory");
        }
    }
    begin_all(mpi);
}

/* Asks MPI for each that it has, up to the first one that has failed, which `sentence` then tells of.  Returns how many are
 * over; 0 as well while another thread is inside MPI. */
static int look_at_all(const weft__mpi *mpi, char sentence[WEFT__MPI_SENTENCE])
{
    int n = 0, done = 0, error = MPI_SUCCESS;
    if (weft__mpi_over()) {
        mpi->first->status = WEFT_ERR_STATE;
        snprintf(sentence, WEFT__MPI_SENTENCE, OVER);
        return 1;
    }
    if (!weft__mpi_calls_try()) return 0;
    for (weft__mpi_running *r = mpi->first; r && r->begun && error == MPI_SUCCESS; r = r->next) {
        error = MPI_Test(&r->request, &done, MPI_STATUS_IGNORE);
        if (error != MPI_SUCCESS) {
            r->status = WEFT_ERR_SYSTEM;
            weft__mpi_error_text(error, "MPI_Test", sentence);
        } else if (done) {
            r->status = WEFT_OK;
        }
        n += r->status != WEFT_PENDING;
    }
    weft__mpi_calls_give();
    return n;
}

/* ---- what MPI owes when this rank's works are over ---- */

/* What MPI_Grequest_start wants, for a request that is over only when the module closes. */
static int endless_status(void *state, MPI_Status *status)
{
    (void)state;
    MPI_Status_set_cancelled(status, 0);
    return MPI_Status_set_elements(status, MPI_BYTE, 0);
}

static int endless_free(void *state)
{
    (void)state;
    return MPI_SUCCESS;
}

static int endless_cancel(void *state, int done)
{
    (void)state;
    (void)done;
    return MPI_SUCCESS;
}

/* MPI goes on inside its calls alone.  A receiver's collective may be over while the acknowledgement that its sender waits
 * for has not left it: UCX keeps it as long as the sender's queue is full.  Testing a request that is not over makes every
 * MPI look for what there is to do; MPI_Iprobe on a communicator of one rank does not in MPICH 4.0, and on another one its
 * error handler may be the program's. */
static void look_around(weft__mpi *mpi)
{
    int done = 0, error = MPI_SUCCESS;
    if (weft__mpi_over() || !weft__mpi_calls_try()) return;
    if (mpi->endless == MPI_REQUEST_NULL)
        error = MPI_Grequest_start(endless_status, endless_free, endless_cancel, NULL, &mpi->endless);
    if (error == MPI_SUCCESS) MPI_Test(&mpi->endless, &done, MPI_STATUS_IGNORE);
    weft__mpi_calls_give();
}

bool weft__mpi_end_endless(weft__mpi *mpi)
{
    const struct timespec pause = {0, 1000000};
    int64_t until = mpi->runtime->now_ns() + OUTWAIT_NS;
    if (mpi->endless == MPI_REQUEST_NULL || weft__mpi_over()) return true;
    while (!weft__mpi_calls_try()) {
        if (mpi->runtime->now_ns() > until) return false;
        nanosleep(&pause, NULL);
    }
    MPI_Grequest_complete(mpi->endless);
    MPI_Wait(&mpi->endless, MPI_STATUS_IGNORE);
    weft__mpi_calls_give();
    return true;
}

int weft__mpi_poll(weft_backend *backend)
{
    weft__mpi *mpi = weft__mpi_of(backend);
    char sentence[WEFT__MPI_SENTENCE];
    int n, left;
    begin_all(mpi);
    if (!mpi->first || !mpi->first->begun) {
        look_around(mpi);
        return 0;
    }
    n = left = look_at_all(mpi, sentence);
    for (weft__mpi_running **at = &mpi->first; left;) {
        weft__mpi_running *running = *at;
        if (running->status == WEFT_PENDING) {
            at = &running->next;
            continue;
        }
        if (running->status == WEFT_OK) complete(running);
        mpi->runtime->finish(running->work, running->status, running->status == WEFT_OK ? NULL : sentence);
        remove_at(mpi, at);
        left--;
    }
    if (n) weft__mpi_comms_tidy(mpi);
    return n;
}
