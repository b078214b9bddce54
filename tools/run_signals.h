/* run_signals.h - what weft-run hears as a signal, and what is put back in the processes that it starts. */
#ifndef WEFT_RUN_SIGNALS_H
#define WEFT_RUN_SIGNALS_H
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>

/* The signal state that weft-run was started with. */
struct run_signals {
    struct sigaction pipe, file_size;
};

/* Blocks what weft-run acts on; a descriptor that tells of it, or -1.  What it was told to ignore (nohup, a background
 * job of a script) stays ignored. */
int run_signals_open(struct run_signals *before);
/* In a process that was forked. */
void run_signals_restore(const struct run_signals *before);
/* Raises the soft limit so far that so many descriptors can be open, as far as the hard one allows; false: it does not.  It
 * is not put back in what is started. */
bool run_signals_descriptors(size_t need);
/* "SIGSEGV"; for one without a name "signal 40". */
const char *run_signal_name(int signal);
#endif
