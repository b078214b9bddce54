/* inspect_past.h - a job that has ended, as a page for people: who went first and how, how it stood just before, and what
 * each rank did last. */
#ifndef WEFT_INSPECT_PAST_H
#define WEFT_INSPECT_PAST_H
#include "inspect_job.h"

#include <stdio.h>

void inspect_past_print(const struct inspect_job *job, FILE *to, int width);
#endif
