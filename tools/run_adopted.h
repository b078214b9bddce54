/* run_adopted.h - processes whose parent has ended: weft-run is their parent then, as it is a subreaper. */
#ifndef WEFT_RUN_ADOPTED_H
#define WEFT_RUN_ADOPTED_H
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct run_adopted {
    pid_t *
        before; /* children that this process had before it became weft-run: whoever has started those ends them */
    pid_t *asked; /* have been asked to end; once is enough, since a second time may mean "at once" */
    size_t before_n, asked_n;
};

/* Before the first process is started. */
void run_adopted_open(struct run_adopted *a);
void run_adopted_close(struct run_adopted *a);
/* Sends them that signal; 0: none.  is_own: tells of a child that is none of them.  True: some are left.  Where the kernel does
 * not list children none are known. */
bool run_adopted_signal(struct run_adopted *a, int signal, bool (*is_own)(const void *arg, pid_t pid),
                        const void *arg);
#endif
