/* run_lost.h - why a host is lost, in a sentence and an exit code: from how its launcher has ended, and what it said last. */
#ifndef WEFT_RUN_LOST_H
#define WEFT_RUN_LOST_H
#include "run_link.h"

enum { RUN_LOST_BYTES = 8192 + 1024 }; /* a sentence with a command and what its launcher said */

/* The launcher ran, and found no weft-run where it was told. */
bool run_lost_is_missing(const struct run_link *link, const struct run_launch *launch);
int run_lost_code(const struct run_link *link);
/* why: NULL, the connection has ended; else what else is the matter. */
void run_lost_sentence(const struct run_link *link, const struct run_launch *launch, const char *why,
                       char *text, size_t bytes);
#endif
