/* inspect_json.h - jobs as JSON, as help/weft-inspect.schema.json has it. */
#ifndef WEFT_INSPECT_JSON_H
#define WEFT_INSPECT_JSON_H
#include "inspect_job.h"
#include "json.h"

void inspect_json_begin(weft__json *json, FILE *to);
/* past: with the last operations and events of each rank. */
void inspect_json_job(weft__json *json, const struct inspect_job *job, bool past);
void inspect_json_end(weft__json *json);

/* The schema, to stdout.  Generated. */
void schema_print(void);
#endif
