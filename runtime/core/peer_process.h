/* peer_process.h - what peer.c asks of the processes of other ranks of this host.  Engine held. */
#ifndef WEFT_RUNTIME_PEER_PROCESS_H
#define WEFT_RUNTIME_PEER_PROCESS_H
#include "context.h"

/* This rank has to see its death by itself. */
bool weft__peer_is_watched(const weft__peer *m);
bool weft__peer_has_ended(const weft__peer *m); /* its pidfd says so */
void weft__peer_let_go_of_death(weft_context *ctx, weft__peer *m);
/* "has died (killed by SIGKILL)", as far as the kernel tells.  True: a signal is known to have ended it. */
bool weft__peer_death_text(int pid_fd, char *text, size_t bytes);
/* It may be on its way to another program: that is asked from m->look_ns on, for a while.  Not at once: mostly it ends, and
 * what is done meanwhile on its processor delays its end. */
void weft__peer_look_for_exec(weft_context *ctx, weft__peer *m, int64_t now_ns);
/* It has become one.  Else m->look_ns tells when to ask again; 0: no more. */
bool weft__peer_is_another_program(weft__peer *m, int64_t now_ns);
void weft__peer_look_no_more(weft_context *ctx, weft__peer *m);
/* It is presumed dead and has not ended: no descriptor tells of an exec, so that it is asked for. */
bool weft__peer_may_become_another(const weft__peer *m);
void weft__peer_forget_process(weft_context *ctx, int rank); /* its end is not seen any more */
#endif
