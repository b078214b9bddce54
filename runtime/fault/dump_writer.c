/* dump_writer.c - see dump_writer.h.  Nobody joins the thread: its folder may never answer. */
#include "dump_writer.h"
#include "biased.h"
#include "status.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

enum { RUN_BYTES = 64, TOLD_BYTES = PATH_MAX + 64 };

struct weft__dump_writer {
    _Atomic int holders;
    _Atomic bool over; /* what follows does not change any more */
    weft_status status;
    char told[TOLD_BYTES];
    /* the thread's: */
    weft__dump dump;
    weft__dump_text text;
    weft__dump_turn *turn;
    void (*done)(void);
    char folder[PATH_MAX], run[RUN_BYTES];
};

void weft__dump_writer_let_go(weft__dump_writer *writer)
{
    if (atomic_fetch_sub(&writer->holders, 1) == 1) free(writer);
}

static void *writer_main(void *arg)
{
    weft__dump_writer *writer = arg;
    void (*done)(void) = writer->done;
    pthread_setname_np(pthread_self(), "weft-dump");
    weft__thread_number = WEFT__KEEPS_NOTHING;
    writer->status = weft__dump_write(&writer->dump, &writer->text, writer->told, sizeof writer->told);
    if (writer->status != WEFT_OK) snprintf(writer->told, sizeof writer->told, "%s", weft_last_error());
    weft__dump_turn_note(writer->turn,
                         writer->status == WEFT_OK ? WEFT__DUMP_WRITTEN : WEFT__DUMP_NOT_WRITTEN);
    weft__dump_turn_close(writer->turn);
    weft__dump_text_free(&writer->text);
    atomic_store(&writer->over, true);
    weft__dump_writer_let_go(writer);
    done();
    return NULL;
}

static int start(weft__dump_writer *writer)
{
    pthread_attr_t detached;
    pthread_t thread;
    sigset_t all, before;
    int error = pthread_attr_init(&detached);
    if (error) return error;
    pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    error = pthread_create(&thread, &detached, writer_main, writer);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&detached);
    return error;
}

weft__dump_writer *weft__dump_writer_start(const weft__dump *dump, weft__dump_text *text,
                                           weft__dump_turn *turn, void (*done)(void))
{
    weft__dump_writer *writer = calloc(1, sizeof *writer);
    if (!writer) {
        weft__dump_text_free(text);
        weft__fail_memory(sizeof *writer, "the writer of a dump");
        return NULL;
    }
    snprintf(writer->folder, sizeof writer->folder, "%s", dump->folder);
    snprintf(writer->run, sizeof writer->run, "%s", dump->run);
    writer->dump = (weft__dump){.run = writer->run,
                                .folder = writer->folder,
                                .place = dump->place,
                                .again = dump->again};
    writer->text = *text;
    writer->turn = turn;
    writer->done = done;
    atomic_store(&writer->holders, 2);
    *text = (weft__dump_text){.bytes = 0};
    errno = start(writer);
    if (!errno) return writer;
    weft__fail_errno("the thread that writes a dump cannot be started");
    weft__dump_text_free(&writer->text);
    free(writer);
    return NULL;
}

bool weft__dump_writer_over(const weft__dump_writer *writer, weft_status *status, const char **text)
{
    if (!atomic_load(&writer->over)) return false;
    *status = writer->status;
    *text = writer->told;
    return true;
}
