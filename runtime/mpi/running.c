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
    running->status = WEFT_PENDING;
    running->request = MPI_REQUEST_NULL;
    *mpi->end = running;
    mpi->end = &running->next;
    return true;
}

static void remove_at(weft__mpi *mpi, weft__mpi_running **at)
{
    weft__mpi_running *running = *at;
    *at = running->next;
    if (!*at) mpi->end = at;
    release(mpi, running);
}

/* Nothing of MPI is needed for these to end, whoever is inside it and for however long. */
static void end_doomed(weft__mpi *mpi)
{
    for (weft__mpi_running *r = mpi->first; r; r = r->next)
        if (!r->begun && atomic_load(&r->work->comm->doomed)) r->status = WEFT_ERR_BROKEN;
}

static void end_all(weft__mpi *mpi, char sentence[WEFT__MPI_SENTENCE])
{
    snprintf(sentence, WEFT__MPI_SENTENCE, "MPI has been finalized");
    for (weft__mpi_running *r = mpi->first; r; r = r->next) r->status = WEFT_ERR_STATE;
}

static void ask(weft__mpi_running *r, char sentence[WEFT__MPI_SENTENCE])
{
    int done = 0, error = MPI_Test(&r->request, &done, MPI_STATUS_IGNORE);
    if (error == MPI_SUCCESS) {
        if (done) r->status = WEFT_OK;
        return;
    }
    r->status = WEFT_ERR_SYSTEM;
    weft__mpi_error_text(error, "MPI_Test", sentence);
}

/* Inside MPI, once for all: gives it what it has not got yet, in that order, and asks for each that it has.  Up to the first
 * one that fails, which `sentence` then tells of. */
static void advance(weft__mpi *mpi, char sentence[WEFT__MPI_SENTENCE])
{
    for (weft__mpi_running *r = mpi->first; r; r = r->next) {
        weft_status status = WEFT_OK;
        if (r->status != WEFT_PENDING) continue; /* doomed */
        if (!r->begun) status = weft__mpi_issue(r, sentence);
        if (status != WEFT_OK) {
            r->status = status;
            return;
        }
        r->begun = true;
        ask(r, sentence);
        if (r->status == WEFT_ERR_SYSTEM) return;
    }
}

/* Outside of MPI: the runtime hears what has begun and what is over.  Returns how many are. */
static int tell(weft__mpi *mpi, const char *sentence)
{
    int n = 0;
    for (weft__mpi_running **at = &mpi->first; *at;) {
        weft__mpi_running *r = *at;
        const bool silent = r->status == WEFT_OK || r->status == WEFT_ERR_BROKEN;
        if (r->begun && !r->told) mpi->runtime->issued(r->work);
        r->told = r->begun;
        if (r->status == WEFT_PENDING) {
            at = &r->next;
            continue;
        }
        if (r->status == WEFT_OK) complete(r);
        mpi->runtime->finish(r->work, r->status, silent ? NULL : sentence);
        remove_at(mpi, at);
        n++;
    }
    if (n) weft__mpi_comms_tidy(mpi);
    return n;
}

/* What cannot begin now waits until another thread's call comes back. */
static int go_on(weft__mpi *mpi)
{
    char sentence[WEFT__MPI_SENTENCE];
    end_doomed(mpi);
    if (weft__mpi_over()) {
        end_all(mpi, sentence);
    } else if (weft__mpi_calls_try()) {
        advance(mpi, sentence);
        weft__mpi_calls_give();
    }
    return tell(mpi, sentence);
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
    go_on(mpi);
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
    if (mpi->first) return go_on(mpi);
    look_around(mpi);
    return 0;
}
