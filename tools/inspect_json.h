/* inspect_json.h - jobs as JSON, as help/weft-inspect.schema.json has it. */
#ifndef WEFT_INSPECT_JSON_H
#define WEFT_INSPECT_JSON_H
#include "inspect_job.h"

#include <stdio.h>

void inspect_json_begin(FILE *to);
/* past: with the last operations of each rank. */
void inspect_json_job(FILE *to, const struct inspect_job *job, bool first, bool past);
void inspect_json_end(FILE *to);

/* The schema, to stdout.  Generated. */
void schema_print(void);
#endif
