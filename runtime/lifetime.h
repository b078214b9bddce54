/* lifetime.h - the process's contexts, from joining to leaving: exit, fork, and taking a context apart. */
#ifndef WEFT_RUNTIME_LIFETIME_H
#define WEFT_RUNTIME_LIFETIME_H
#include "group.h"

void weft__lifetime_begin(void); /* once: what happens at exit and in a forked child */
void weft__lifetime_add(weft_context *ctx);
/* Stops the threads and frees everything, however far joining had come. */
void weft__context_free(weft_context *ctx);

/* ---- events.c ---- */
void weft__events_init(weft_context *ctx);
/* "died (killed by SIGKILL)", as far as the kernel tells */
void weft__death_text(int pid_fd, char *text, size_t bytes);
#endif
