/* run_meet.h - what agents are ordered: the environment of their ranks, and where these meet. */
#ifndef WEFT_RUN_MEET_H
#define WEFT_RUN_MEET_H
#include "run_remote.h"

enum { RUN_ADDRESS_BYTES = 64, RUN_WHY_BYTES = 128 };

/* An address of rank 0's host that others can come to, from what its agent has said, and why this one. */
void run_meet_address(const struct run_hello *hello, const struct run_host *host, bool one_host,
                      const char *interface, char address[RUN_ADDRESS_BYTES], char why[RUN_WHY_BYTES]);

/* Variables for the ranks of that host: PATH, LD_LIBRARY_PATH, what is Weft's, and those of -x, in which {host}
 * becomes its name.  NULL: no memory. */
char **run_meet_environment(char *const *exports, const struct run_host *host);
void run_meet_environment_free(char **environment);
/* One of -x, as that host's ranks have it, becomes this process' own.  False: no memory. */
bool run_meet_export(const char *given, const char *host);
/* The value that ranks will have, or NULL. */
const char *run_meet_variable(char *const *environment, const char *name);
#endif
