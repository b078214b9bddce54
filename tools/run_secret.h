/* run_secret.h - the secret of a job over hosts: the one that WEFT_SECRET names here, or one made for this job.  It
 * goes to the agents over their stdin. */
#ifndef WEFT_RUN_SECRET_H
#define WEFT_RUN_SECRET_H
#include <stdbool.h>
#include <stddef.h>

enum { RUN_SECRET_BYTES = 1024 + 2 };

/* False, and one sentence. */
bool run_secret_find(char secret[RUN_SECRET_BYTES], char *sentence, size_t bytes);
#endif
