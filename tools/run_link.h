/* run_link.h - the way to one host: its launcher, the three pipes to it, and the frames in both directions. */
#ifndef WEFT_RUN_LINK_H
#define WEFT_RUN_LINK_H
#include "run_gather.h"
#include "run_hosts.h"
#include "run_signals.h"
#include "run_wire.h"

#include <poll.h>
#include <sys/types.h>

enum run_link_state {
    RUN_LINK_STARTING, /* the launcher runs, and nothing has come yet */
    RUN_LINK_GREETED,  /* weft-run there has greeted, and says hello next */
    RUN_LINK_KNOWN,    /* it has said hello, and has no orders yet */
    RUN_LINK_AT_WORK,
    RUN_LINK_ENDED, /* nothing of the job is left there */
    RUN_LINK_LOST   /* nobody can tell, or weft-run never came up there */
};
enum { RUN_LINK_FDS = 3, RUN_LINK_WORDS = 256 };

struct run_launch {
    const char *command; /* of a shell; every {host} in it becomes the host's name */
    const char *path;    /* of weft-run there */
    struct run_signals signals;
};

struct run_link {
    const struct run_host *host;
    int first; /* the first rank there */
    enum run_link_state state;
    pid_t pid;                   /* of the launcher, also its group; 0: it has been reaped */
    int how;                     /* as waitpid tells, once it has been */
    int in, out, err;            /* pipes to and from it; -1: closed */
    struct run_buffer to, from;  /* frames */
    struct run_buffer words;     /* its stderr, whose whole lines are passed on */
    char last[RUN_LINK_WORDS];   /* the last of them */
    bool by_path;                /* weft-run is looked for in the host's PATH */
    int64_t heard_ms, reaped_ms; /* when words or their end came last; when the launcher ended */
    int code;                    /* what the agent ended with */
    struct run_part part;        /* what its ranks have written down */
};

/* Starts the launcher.  0 or errno. */
int run_link_open(struct run_link *link, const struct run_launch *launch, bool by_path, int64_t now_ms);
/* Fills RUN_LINK_FDS entries; full: nothing more shall come from there for now. */
void run_link_fds(const struct run_link *link, struct pollfd *fds, bool full);
void run_link_step(struct run_link *link, const struct pollfd *fds, int64_t now_ms);
/* The next frame.  Nonsense: what comes from there is not what weft-run says. */
enum run_took run_link_next(struct run_link *link, struct run_frame *f);
/* The next whole line of the launcher's stderr, or NULL; at its end what is left. */
const char *run_link_line(struct run_link *link, char *line, size_t bytes);
/* No more words to it: it ends what runs there. */
void run_link_hang_up(struct run_link *link);
void run_link_close(struct run_link *link);
/* The launcher's command as a user would type it. */
void run_link_command(const struct run_link *link, const struct run_launch *launch, char *text, size_t bytes);
#endif
